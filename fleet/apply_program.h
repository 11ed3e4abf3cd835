/* Programs of this host that apply calls. */
#ifndef MN_APPLY_PROGRAM_H
#define MN_APPLY_PROGRAM_H

#include "topo/base/err.h"

/* The program below root; the caller frees. NULL: it is not there. */
char *mn_program_find(const char *root, const char *name);
/* Runs it with the words (args[0] included, NULL ends), input on its standard input, at most ms.
 * *out is what it wrote, the caller's to free, NULL = nobody cares. Another exit code than 0 is
 * MN_ERR_FAILED with its last words. */
enum mn_err mn_program_run(const char *path, const char *const *args, const char *input,
                           unsigned ms, char **out, struct mn_diag *diag);

#endif
