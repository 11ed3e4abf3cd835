/* This program as it runs, to be carried to another host: itself and the libraries that it is
 * linked with, but for the C library's own. */
#ifndef MN_OWN_FILES_H
#define MN_OWN_FILES_H

#include <stddef.h>

#include "topo/base/err.h"

/* Where the program, wherever it lies, finds libraries before all others: a folder beside it. It is
 * linked so, see CMakeLists.txt. */
#define MN_OWN_LIBRARIES "meshnet.libs"

/* A tar file of "meshnet" and "meshnet.libs/NAME" for each library, the caller's to free. */
enum mn_err mn_own_files(char **tar, size_t *size, struct mn_diag *diag);

#endif
