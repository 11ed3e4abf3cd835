/* NCCL, RCCL and network plugins where the loader and Python find them. */
#ifndef MN_LIBRARIES_H
#define MN_LIBRARIES_H

#include <stddef.h>

enum mn_library { MN_LIBRARY_NCCL, MN_LIBRARY_RCCL, MN_LIBRARY_PLUGIN };

struct mn_libraries {
    char **paths; /* resolved, each once, in the order in which the loader looks */
    size_t n;
};

/* In LD_LIBRARY_PATH, the loader's usual folders and the wheels of Python. */
void mn_libraries_find(enum mn_library what, struct mn_libraries *found);
void mn_libraries_free(struct mn_libraries *found);
/* "2.27.3+cuda12.9" of an NCCL or RCCL, by the text that it prints; 0 and "": not found. */
int mn_library_version(const char *path, char *version, size_t size);

#endif
