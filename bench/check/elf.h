/* The dynamic symbols of a library, read from its file: nothing of it runs. */
#ifndef MN_CHECK_ELF_H
#define MN_CHECK_ELF_H

#include <elf.h>
#include <stddef.h>

#include "topo/base/err.h"

struct mn_elf {
    unsigned char *data;
    size_t size;
    const Elf64_Sym *symbols;
    size_t n_symbols;
    const char *strings;
    size_t strings_size;
};

/* MN_ERR_NOTFOUND, or MN_ERR_USAGE for a file that is not a shared library of this machine. */
enum mn_err mn_elf_open(const char *path, struct mn_elf *elf, struct mn_diag *diag);
void mn_elf_close(struct mn_elf *elf);

/* The name of a symbol that is defined here and visible to others, or NULL. */
const char *mn_elf_export(const struct mn_elf *elf, size_t index);

#endif
