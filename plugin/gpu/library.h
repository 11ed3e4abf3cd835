/* A driver's library: symbols into a table, and its errors into words. */
#ifndef MN_GPU_LIBRARY_H
#define MN_GPU_LIBRARY_H

#include <stddef.h>

#include "topo/base/err.h"

struct mn_gpu_symbol {
    const char *name;
    size_t offset; /* of the pointer in the table */
    int optional;  /* stays NULL in a library too old for it */
};

/* The first of the names (NULL-terminated) that is there; load 0: that is loaded already.
 * MN_ERR_NOTFOUND: none; MN_ERR_UNSUPPORTED: one that lacks a symbol. */
enum mn_err mn_gpu_library_open(const char *const *names, int load,
                                const struct mn_gpu_symbol *symbols, size_t n, void *table,
                                struct mn_diag *diag);

/* What a driver's code means and what to do about it. */
struct mn_gpu_advice {
    int code;
    enum mn_err err;
    const char *text;
};

/* "CUDA: <doing>: <name> (<code>): <advice>". advice ends with a NULL text. */
enum mn_err mn_gpu_explain(const char *vendor, const char *doing, int code, const char *name,
                           const struct mn_gpu_advice *advice, struct mn_diag *diag);

#endif
