#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"
#include "bench/host/host_impl.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

/* Newest first: the first whose symbol a library has is driven, as NCCL does. */
static const struct mn_host_version *const versions[] = {
    &mn_host_v10,
    &mn_host_v9,
    &mn_host_v8,
};
#define N_VERSIONS (sizeof versions / sizeof *versions)
#define NEWEST     12 /* looked for, so that a report names what is there */
#define OLDEST     2

/* The logger that plugins call has no argument of ours, so there is one for the process. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static mn_plugin_log log_call;
static void *log_ctx;

static void logger(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void logger(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...)
{
    char text[1024];
    va_list args;

    (void)flags;
    (void)file;
    (void)line;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pthread_mutex_lock(&log_lock);
    if (log_call)
        log_call(log_ctx, (int)level, text);
    pthread_mutex_unlock(&log_lock);
}

static void look_for_versions(struct mn_plugin *p)
{
    int n = 0;

    for (int v = NEWEST; v >= OLDEST; v--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", v);
        if (dlsym(p->library, symbol))
            p->info.versions[n++] = v;
    }
}

static enum mn_err choose(struct mn_plugin *p, int version, struct mn_diag *diag)
{
    for (size_t i = 0; i < N_VERSIONS; i++) {
        char symbol[32];
        if (version && versions[i]->version != version)
            continue;
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", versions[i]->version);
        p->table = dlsym(p->library, symbol);
        if (!p->table)
            continue;
        p->version = versions[i];
        p->info.version = versions[i]->version;
        /* Every version begins with the name. */
        const char *name = *(const char *const *)p->table;
        mn_strlcpy(p->info.name, name ? name : "(null)", sizeof p->info.name);
        return MN_OK;
    }
    if (version)
        return mn_fail(diag, MN_ERR_UNSUPPORTED,
                       "%s: no symbol ncclNetPlugin_v%d that can be driven (v8, v9, v10 can)",
                       p->info.path, version);
    return mn_fail(diag, MN_ERR_UNSUPPORTED,
                   "%s: not a network plugin: looked for ncclNetPlugin_v10, _v9 and _v8",
                   p->info.path);
}

enum mn_err mn_plugin_open(const char *path, int version, struct mn_plugin **plugin,
                           struct mn_diag *diag)
{
    struct mn_plugin *p = mn_zalloc(sizeof *p);
    struct link_map *map;

    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!p->library) {
        enum mn_err err =
            mn_fail(diag, MN_ERR_NOTFOUND, "%s cannot be loaded: %s", path, dlerror());
        free(p);
        return err;
    }
    mn_strlcpy(p->info.path, path, sizeof p->info.path);
    if (!dlinfo(p->library, RTLD_DI_LINKMAP, &map) && map->l_name[0]) {
        char *real = realpath(map->l_name, NULL);
        mn_strlcpy(p->info.path, real ? real : map->l_name, sizeof p->info.path);
        free(real);
    }
    look_for_versions(p);
    enum mn_err err = choose(p, version, diag);
    if (!err)
        err = mn_sha256_file(p->info.path, p->info.hash, diag);
    if (err) {
        dlclose(p->library);
        free(p);
        return err;
    }
    *plugin = p;
    return MN_OK;
}

void mn_plugin_close(struct mn_plugin *p)
{
    /* A plugin older than v11 has no call that ends its threads: it stays mapped. */
    free(p);
}

const struct mn_plugin_info *mn_plugin_info(const struct mn_plugin *p)
{
    return &p->info;
}

void mn_plugin_set_log(struct mn_plugin *p, mn_plugin_log log, void *ctx)
{
    (void)p;
    pthread_mutex_lock(&log_lock);
    log_call = log;
    log_ctx = ctx;
    pthread_mutex_unlock(&log_lock);
}

int mn_plugin_init(struct mn_plugin *p)
{
    return p->version->init(p->table, logger);
}

int mn_plugin_devices(struct mn_plugin *p, int *ndev)
{
    *ndev = 0;
    return p->version->devices(p->table, ndev);
}

int mn_plugin_properties(struct mn_plugin *p, int dev, struct mn_net_props *props)
{
    memset(props, 0, sizeof *props);
    return p->version->properties(p->table, dev, props);
}

int mn_plugin_listen(struct mn_plugin *p, int dev, void *handle, void **comm)
{
    *comm = NULL;
    return p->version->listen(p->table, dev, handle, comm);
}

int mn_plugin_connect(struct mn_plugin *p, int dev, void *handle, void **comm)
{
    *comm = NULL;
    return p->version->connect(p->table, dev, handle, comm);
}

int mn_plugin_accept(struct mn_plugin *p, void *listen_comm, void **comm)
{
    *comm = NULL;
    return p->version->accept(p->table, listen_comm, comm);
}

int mn_plugin_reg_mr(struct mn_plugin *p, void *comm, void *data, size_t size, int type, void **mh)
{
    *mh = NULL;
    return p->version->reg_mr(p->table, comm, data, size, type, mh);
}

int mn_plugin_dereg_mr(struct mn_plugin *p, void *comm, void *mh)
{
    return p->version->dereg_mr(p->table, comm, mh);
}

int mn_plugin_isend(struct mn_plugin *p, void *comm, void *data, size_t size, int tag, void *mh,
                    void **request)
{
    *request = NULL;
    return p->version->isend(p->table, comm, data, size, tag, mh, request);
}

int mn_plugin_irecv(struct mn_plugin *p, void *comm, int n, void **data, size_t *sizes, int *tags,
                    void **mhs, void **request)
{
    *request = NULL;
    if (n < 1 || n > MN_HOST_MAX_RECVS)
        return ncclInvalidArgument;
    return p->version->irecv(p->table, comm, n, data, sizes, tags, mhs, request);
}

int mn_plugin_iflush(struct mn_plugin *p, void *comm, int n, void **data, int *sizes, void **mhs,
                     void **request)
{
    *request = NULL;
    return p->version->iflush(p->table, comm, n, data, sizes, mhs, request);
}

int mn_plugin_test(struct mn_plugin *p, void *request, int *done, int *sizes)
{
    *done = 0;
    return p->version->test(p->table, request, done, sizes);
}

int mn_plugin_close_send(struct mn_plugin *p, void *comm)
{
    return p->version->close_send(p->table, comm);
}

int mn_plugin_close_recv(struct mn_plugin *p, void *comm)
{
    return p->version->close_recv(p->table, comm);
}

int mn_plugin_close_listen(struct mn_plugin *p, void *comm)
{
    return p->version->close_listen(p->table, comm);
}

const char *mn_nccl_result_name(int result)
{
    static const char *const names[] = {
        "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
        "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError",
    };
    return result >= 0 && result < (int)(sizeof names / sizeof *names) ? names[result]
                                                                       : "unknown result";
}
