/* A driver's library: symbols into a table, and its errors into words. */
#ifndef MN_GPU_LIBRARY_H
#define MN_GPU_LIBRARY_H

#include <pthread.h>
#include <stddef.h>

#include "topo/base/err.h"

struct mn_gpu_symbol {
    const char *name;
    size_t offset; /* of the pointer in the table */
    int optional;  /* stays NULL in a library too old for it */
};

/* The first of the names (NULL-terminated) that is there; load 0: that is loaded already.
 * MN_ERR_NOTFOUND: none, and the hint; MN_ERR_UNSUPPORTED: one that lacks a symbol. */
enum mn_err mn_gpu_library_open(const char *const *names, const char *hint, int load,
                                const struct mn_gpu_symbol *symbols, size_t n, void *table,
                                struct mn_diag *diag);
#define MN_GPU_HINT "is the GPU's driver installed?"

/* The open() of a driver: begin once, or again while it says MN_ERR_NOTFOUND; any other error is
 * for good. */
struct mn_gpu_once {
    pthread_mutex_t lock;
    int opened;
    struct mn_diag broken;
};
#define MN_GPU_ONCE                                                                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }
enum mn_err mn_gpu_open_once(struct mn_gpu_once *once,
                             enum mn_err (*begin)(int load, struct mn_diag *diag), int load,
                             struct mn_diag *diag);
/* MN_ERR_CONFIG unless device is one of n. */
enum mn_err mn_gpu_check_number(const char *vendor, int device, int n, struct mn_diag *diag);

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
