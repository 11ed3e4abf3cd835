#ifndef MN_BASE_SHA256_H
#define MN_BASE_SHA256_H

#include "topo/base/err.h"

/* Lower-case hexadecimal SHA-256 of a file. */
enum mn_err mn_sha256_file(const char *path, char hex[65], struct mn_diag *diag);

#endif
