/* libnccl-net-meshtrace.so: the core behind the ABI's versions (plugin/net.h) once more, which
 * hands every call to another plugin, loaded as NCCL would, and records it.
 *
 * MESHNET_TRACE_PLUGIN names that plugin (default: libnccl-net-mesh.so beside this file),
 * MESHNET_TRACE the file. The plugin is driven through its newest version, whatever version the
 * caller uses; what is not handed on: DMA-BUF, device handles, profiler handles and hints. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"
#include "bench/trace/record.h"
#include "plugin/logger.h"
#include "plugin/net.h"
#include "topo/base/alloc.h"

struct mn_net {
    struct mn_plugin *plugin;
    struct mn_net *next;
};

/* A comm of the plugin's, with whom it belongs to. */
struct comm {
    struct mn_plugin *plugin;
    void *real;
};

static struct mn_net first; /* the library, and the context of versions that have none */
/* A communicator that was initialised: a plugin may fill its table in init only. */
static _Atomic(struct mn_plugin *) live;
static ncclDebugLogger_t logger;
static const struct mn_logger_levels *levels; /* of it; set before anything can log */
static struct mn_net *contexts;
static int ready;                                        /* that context is initialised */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all four */

static uint64_t number(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* A record of the call that began then. */
static struct mn_trace_record *record(uint64_t start, int result, const void *a)
{
    struct mn_trace_record *r = mn_trace_take(1, start);

    if (r) {
        r->result = (int16_t)result;
        r->a = number(a);
    }
    return r;
}

static void put(struct mn_trace_record *r, enum mn_trace_op op)
{
    if (r)
        mn_trace_put(r, op);
}

/* --- life ------------------------------------------------------------------------------------- */

/* This project's plugin finds no RCCL behind the logger that it is given here, and counts as NCCL
 * does; what others were built for is what they are loaded by. */
static ncclDebugLogLevel level_for_caller(int level)
{
    const struct mn_plugin_info *info = first.plugin ? mn_plugin_info(first.plugin) : NULL;

    if (info && strcmp(info->name, "meshnet") != 0)
        return (ncclDebugLogLevel)level;
    return levels->of[level == NCCL_LOG_WARN   ? MN_LOG_WARN
                      : level == NCCL_LOG_INFO ? MN_LOG_INFO
                                               : MN_LOG_DEBUG];
}

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (logger)
        logger(level_for_caller(level), NCCL_INIT | NCCL_NET, "meshtrace", 0, "%s", line);
}

static void wrapped_path(char *path, size_t size)
{
    const char *given = getenv("MESHNET_TRACE_PLUGIN"), *slash;
    Dl_info own;

    if (given && *given) {
        mn_strlcpy(path, given, size);
        return;
    }
    slash = dladdr(&first, &own) ? strrchr(own.dli_fname, '/') : NULL;
    snprintf(path, size, "%.*slibnccl-net-mesh.so", slash ? (int)(slash - own.dli_fname) + 1 : 0,
             slash ? own.dli_fname : "");
}

/* What hands on to itself never ends. */
static enum mn_err check_other(struct mn_diag *diag)
{
    char own[PATH_MAX], other[PATH_MAX];
    Dl_info info;

    if (dladdr(&first, &info) && realpath(info.dli_fname, own) &&
        realpath(mn_plugin_info(first.plugin)->path, other) && !strcmp(own, other))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "MESHNET_TRACE_PLUGIN names the recording plugin "
                       "itself; give the one that does the work");
    return MN_OK;
}

/* Once; under the lock. */
static enum mn_err load(struct mn_diag *diag)
{
    const char *file = getenv("MESHNET_TRACE");
    char path[512];

    if (first.plugin)
        return MN_OK;
    wrapped_path(path, sizeof path);
    enum mn_err err = mn_plugin_open(path, 0, &first.plugin, diag);
    if (err)
        return err;
    mn_plugin_set_log(first.plugin, on_log, NULL);
    err = check_other(diag);
    if (!err)
        err = mn_trace_open(file && *file ? file : NULL, diag);
    if (err) {
        mn_plugin_close(first.plugin);
        first.plugin = NULL;
        return err;
    }
    const struct mn_plugin_info *info = mn_plugin_info(first.plugin);
    mn_trace_describe(info->path, info->hash, info->version);
    return MN_OK;
}

__attribute__((destructor)) static void unload(void)
{
    mn_trace_end();
}

static int opening; /* inits under way, under the lock: the trace stays open for them */

/* Under the lock. */
static void end_if_last(void)
{
    if (!contexts && !ready && !opening)
        mn_trace_end();
}

static int begin(void *log)
{
    struct mn_diag diag = {.text = ""};

    pthread_mutex_lock(&lock);
    memcpy(&logger, &log, sizeof logger);
    levels = mn_logger_levels(logger);
    enum mn_err err = load(&diag);
    if (!err)
        mn_trace_begin();
    opening += !err;
    pthread_mutex_unlock(&lock);
    if (err)
        on_log(NULL, NCCL_LOG_WARN, diag.text);
    return err ? ncclSystemError : ncclSuccess;
}

int mn_net_init(void *log)
{
    int result = begin(log);

    if (result)
        return result;
    /* Later calls are of later communicators and of other versions, which share one context. */
    pthread_mutex_lock(&lock);
    if (!ready) {
        uint64_t start = mn_trace_now();
        result = mn_plugin_init(first.plugin);
        ready = !result;
        if (ready)
            atomic_store(&live, first.plugin);
        put(record(start, result, NULL), MN_TRACE_INIT);
    }
    opening--;
    end_if_last();
    pthread_mutex_unlock(&lock);
    return result;
}

int mn_net_open(void *log, int traffic_class, struct mn_net **net)
{
    int result = begin(log);

    *net = NULL;
    if (result)
        return result;
    struct mn_net *new = calloc(1, sizeof *new);
    if (new) {
        new->plugin = mn_plugin_context(first.plugin);
        mn_plugin_set_log(new->plugin, on_log, NULL);
        mn_plugin_set_config(new->plugin, 0, traffic_class);
        uint64_t start = mn_trace_now();
        result = mn_plugin_init(new->plugin);
        put(record(start, result, new), MN_TRACE_INIT);
    } else {
        result = ncclSystemError;
    }
    if (new &&result) {
        mn_plugin_close(new->plugin);
        free(new);
        new = NULL;
    }
    pthread_mutex_lock(&lock);
    opening--;
    if (new) {
        new->next = contexts;
        contexts = new;
        if (!atomic_load(&live))
            atomic_store(&live, new->plugin);
    }
    end_if_last();
    pthread_mutex_unlock(&lock);
    *net = new;
    return result;
}

/* Another one answers for the library from now on. */
static void forget(struct mn_net *net)
{
    struct mn_net **at = &contexts;

    pthread_mutex_lock(&lock);
    while (*at && *at != net)
        at = &(*at)->next;
    if (*at)
        *at = net->next;
    if (atomic_load(&live) == net->plugin)
        atomic_store(&live, ready ? first.plugin : contexts ? contexts->plugin : NULL);
    pthread_mutex_unlock(&lock);
}

int mn_net_finalize(struct mn_net *net)
{
    if (!net)
        return ncclSuccess;
    forget(net);
    uint64_t start = mn_trace_now();
    int result = mn_plugin_finalize(net->plugin);
    put(record(start, result, net), MN_TRACE_FINALIZE);
    mn_plugin_close(net->plugin);
    free(net);
    pthread_mutex_lock(&lock);
    end_if_last();
    pthread_mutex_unlock(&lock);
    return result == MN_HOST_ABSENT ? ncclSuccess : result;
}

/* --- devices ---------------------------------------------------------------------------------- */

int mn_net_devices(int *ndev)
{
    uint64_t start = mn_trace_now();

    *ndev = 0;
    struct mn_plugin *plugin = atomic_load(&live);
    if (!plugin)
        return ncclInvalidUsage;
    int result = mn_plugin_devices(plugin, ndev);
    struct mn_trace_record *r = record(start, result, NULL);
    if (r)
        r->a = (uint64_t)*ndev;
    put(r, MN_TRACE_DEVICES);
    return result;
}

int mn_net_properties(int dev, struct mn_net_props *props)
{
    struct mn_plugin_props own;
    uint64_t start = mn_trace_now();

    struct mn_plugin *plugin = atomic_load(&live);
    if (!plugin)
        return ncclInvalidUsage;
    int result = mn_plugin_properties(plugin, dev, &own);
    *props = own.net;
    if (!mn_net_takes_dmabuf())
        props->ptr_support &= ~NCCL_PTR_DMABUF;
    struct mn_trace_record *r = record(start, result, NULL);
    if (r)
        r->a = (uint64_t)dev;
    put(r, MN_TRACE_PROPERTIES);
    return result;
}

/* --- connections ------------------------------------------------------------------------------ */

/* By which listen and connect are matched: FNV-1a of the handle's bytes. */
static uint64_t hash_of(const void *handle)
{
    const uint8_t *byte = handle;
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 0; i < MN_HANDLE_SIZE; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

/* A connect that was begun: plugins keep their state in the handle, which then is another one. */
struct begun {
    struct begun *next;
    const void *handle;
    uint64_t hash;
};

static struct begun *connects; /* under the lock */

/* The hash that the handle had at the first call. over: the connect has ended. */
static uint64_t hash_at_first(const void *handle, uint64_t now, int over)
{
    struct begun **at = &connects, *own;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    own = *at;
    if (own)
        now = own->hash;
    if (own && over) {
        *at = own->next;
        free(own);
    } else if (!own && !over) {
        own = calloc(1, sizeof *own);
        if (own) {
            *own = (struct begun){connects, handle, now};
            connects = own;
        }
    }
    pthread_mutex_unlock(&lock);
    return now;
}

static void *wrap(struct mn_plugin *plugin, void *real)
{
    struct comm *comm = calloc(1, sizeof *comm);

    if (comm)
        *comm = (struct comm){plugin, real};
    return comm;
}

static struct mn_plugin *of(struct mn_net *net)
{
    return net ? net->plugin : first.plugin;
}

int mn_net_listen(struct mn_net *net, int dev, void *handle, void **listen_comm)
{
    uint64_t start = mn_trace_now();
    void *real = NULL;

    *listen_comm = NULL;
    if (!of(net))
        return ncclInvalidUsage;
    int result = mn_plugin_listen(of(net), dev, handle, &real);
    if (!result && real && !(*listen_comm = wrap(of(net), real)))
        result = ncclSystemError;
    struct mn_trace_record *r = record(start, result, *listen_comm);
    if (r) {
        r->b = result ? 0 : hash_of(handle);
        r->c = (uint64_t)dev;
    }
    put(r, MN_TRACE_LISTEN);
    return result;
}

int mn_net_connect(struct mn_net *net, int dev, int traffic_class, void *handle, void **send_comm)
{
    uint64_t start = mn_trace_now(), hash;
    void *real = NULL;

    (void)traffic_class; /* of v10: the context's, which it has had since it was opened */
    *send_comm = NULL;
    if (!of(net))
        return ncclInvalidUsage;
    hash = hash_of(handle);
    int result = mn_plugin_connect(of(net), dev, handle, &real);
    hash = hash_at_first(handle, hash, result || real);
    if (!result && !real) {
        mn_trace_empty();
        return result;
    }
    if (!result && !(*send_comm = wrap(of(net), real)))
        result = ncclSystemError;
    struct mn_trace_record *r = record(start, result, *send_comm);
    if (r) {
        r->b = hash;
        r->c = (uint64_t)dev;
    }
    put(r, MN_TRACE_CONNECT);
    return result;
}

int mn_net_accept(void *listen_comm, void **recv_comm)
{
    struct comm *listen = listen_comm;
    uint64_t start = mn_trace_now();
    void *real = NULL;

    *recv_comm = NULL;
    int result = mn_plugin_accept(listen->plugin, listen->real, &real);
    if (!result && !real) {
        mn_trace_empty();
        return result;
    }
    if (!result && !(*recv_comm = wrap(listen->plugin, real)))
        result = ncclSystemError;
    struct mn_trace_record *r = record(start, result, *recv_comm);
    if (r)
        r->b = number(listen);
    put(r, MN_TRACE_ACCEPT);
    return result;
}

typedef int (*close_fn)(struct mn_plugin *plugin, void *comm);

static int close_comm(struct comm *comm, close_fn close, enum mn_trace_op op)
{
    uint64_t start = mn_trace_now();

    if (!comm)
        return ncclSuccess;
    int result = close(comm->plugin, comm->real);
    put(record(start, result, comm), op);
    free(comm);
    return result;
}

int mn_net_close_send(void *send_comm)
{
    return close_comm(send_comm, mn_plugin_close_send, MN_TRACE_CLOSE_SEND);
}

int mn_net_close_recv(void *recv_comm)
{
    return close_comm(recv_comm, mn_plugin_close_recv, MN_TRACE_CLOSE_RECV);
}

int mn_net_close_listen(void *listen_comm)
{
    return close_comm(listen_comm, mn_plugin_close_listen, MN_TRACE_CLOSE_LISTEN);
}

/* --- memory and messages ---------------------------------------------------------------------- */

int mn_net_takes_dmabuf(void)
{
    struct mn_plugin *plugin = atomic_load(&live);

    return plugin && mn_plugin_has_dmabuf(plugin);
}

static int registered(uint64_t start, int result, struct comm *c, void *data, size_t size, int type,
                      void **mhandle)
{
    struct mn_trace_record *r = record(start, result, c);

    if (r) {
        r->b = number(data);
        r->c = number(*mhandle);
        r->size = size;
        r->type = type;
    }
    put(r, MN_TRACE_REG_MR);
    return result;
}

int mn_net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct comm *c = comm;
    uint64_t start = mn_trace_now();
    int result = mn_plugin_reg_mr(c->plugin, c->real, data, size, type, mhandle);

    return registered(start, result, c, data, size, type, mhandle);
}

int mn_net_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                      void **mhandle)
{
    struct comm *c = comm;
    uint64_t start = mn_trace_now();
    int result = mn_plugin_reg_dmabuf(c->plugin, c->real, data, size, type, offset, fd, mhandle);

    return registered(start, result, c, data, size, type, mhandle);
}

int mn_net_dereg_mr(void *comm, void *mhandle)
{
    struct comm *c = comm;
    uint64_t start = mn_trace_now();
    int result = mn_plugin_dereg_mr(c->plugin, c->real, mhandle);
    struct mn_trace_record *r = record(start, result, c);

    if (r)
        r->b = number(mhandle);
    put(r, MN_TRACE_DEREG_MR);
    return result;
}

static void fill(struct mn_trace_record *r, const void *data, const void *request, size_t size,
                 int tag)
{
    r->b = number(data);
    r->c = number(request);
    r->size = size;
    r->tag = tag;
}

int mn_net_isend(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **request)
{
    struct comm *c = send_comm;
    uint64_t start = mn_trace_now();
    int result = mn_plugin_isend(c->plugin, c->real, data, size, tag, mhandle, request);

    if (!result && !*request) {
        mn_trace_empty();
        return result;
    }
    struct mn_trace_record *r = record(start, result, c);
    if (r)
        fill(r, data, result ? NULL : *request, size, tag);
    put(r, MN_TRACE_ISEND);
    return result;
}

int mn_net_irecv(void *recv_comm, int n, void **data, const size_t *sizes, const int *tags,
                 void **mhandles, void **request)
{
    struct comm *c = recv_comm;
    uint64_t start = mn_trace_now();
    size_t own_sizes[MN_MAX_RECVS];
    int own_tags[MN_MAX_RECVS];

    *request = NULL;
    if (n < 1 || n > MN_MAX_RECVS)
        return ncclInvalidArgument;
    memcpy(own_sizes, sizes, (size_t)n * sizeof *sizes);
    memcpy(own_tags, tags, (size_t)n * sizeof *tags);
    int result =
        mn_plugin_irecv(c->plugin, c->real, n, data, own_sizes, own_tags, mhandles, request);
    if (!result && !*request) {
        mn_trace_empty();
        return result;
    }
    struct mn_trace_record *r = mn_trace_take(n, start);
    for (int i = n - 1; r && i >= 0; i--) {
        if (i) {
            r[i] = r[0];
            r[i].empty = 0;
        }
        r[i].a = number(c);
        r[i].count = (uint8_t)n;
        r[i].result = (int16_t)result;
        fill(&r[i], data[i], result ? NULL : *request, sizes[i], tags[i]);
        mn_trace_put(&r[i], i ? MN_TRACE_PART : MN_TRACE_IRECV);
    }
    return result;
}

int mn_net_iflush(void *recv_comm, int n, void **data, const int *sizes, void **mhandles,
                  void **request)
{
    struct comm *c = recv_comm;
    uint64_t start = mn_trace_now();
    int own_sizes[MN_MAX_RECVS];

    *request = NULL;
    if (n < 1 || n > MN_MAX_RECVS)
        return ncclInvalidArgument;
    memcpy(own_sizes, sizes, (size_t)n * sizeof *sizes);
    int result = mn_plugin_iflush(c->plugin, c->real, n, data, own_sizes, mhandles, request);
    struct mn_trace_record *r = record(start, result, c);
    if (r) {
        fill(r, data[0], result ? NULL : *request, (size_t)sizes[0], 0);
        r->count = (uint8_t)n;
    }
    put(r, MN_TRACE_IFLUSH);
    return result;
}

int mn_net_test(void *request, int *done, int *sizes)
{
    struct mn_plugin *plugin = atomic_load_explicit(&live, memory_order_relaxed);

    *done = 0;
    if (!plugin)
        return ncclInvalidUsage;
    int result = mn_plugin_test(plugin, request, done, sizes);

    if (!result && !*done) {
        mn_trace_empty();
        return result;
    }
    struct mn_trace_record *r = record(mn_trace_now(), result, request);
    if (r && sizes && !result)
        r->size = (uint64_t)sizes[0];
    put(r, MN_TRACE_DONE);
    return result;
}
