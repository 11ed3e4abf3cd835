#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"
#include "bench/host/host_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/sha256.h"

/* The first whose symbol a library has is driven, as NCCL does. */
const struct mn_host_version *const mn_host_versions[] = {
    &mn_host_v12, &mn_host_v11, &mn_host_v10, &mn_host_v9, &mn_host_v8,
    &mn_host_v7,  &mn_host_v6,  &mn_host_v5,  &mn_host_v4, NULL,
};
#define OLDEST 2 /* looked for, so that a report names what is there */

static _Thread_local const char *fault;

const char *mn_plugin_fault(void)
{
    return fault ? fault : "";
}

int mn_host_broken(const char *what)
{
    fault = what;
    return MN_HOST_BROKEN;
}

static void look_for_versions(struct mn_host_library *l)
{
    int n = 0;

    for (int v = MN_HOST_NEWEST; v >= OLDEST; v--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", v);
        if (dlsym(l->handle, symbol))
            l->info.versions[n++] = v;
    }
}

enum mn_err mn_host_refuse(const struct mn_plugin_info *info, struct mn_diag *diag)
{
    static const char neuron[] = "libnccom-net";
    const char *slash = strrchr(info->path, '/'), *file = slash ? slash + 1 : info->path;

    if (strncmp(file, neuron, sizeof neuron - 1) == 0 ||
        (strcmp(info->name, "AWS Libfabric") == 0 && info->versions[0] < 7))
        return mn_fail(diag, MN_ERR_UNSUPPORTED,
                       "%s: \"%s\" is built for Neuron, not for NCCL: its v%d has another layout; "
                       "use a build for GPUs",
                       info->path, info->name, info->version);
    return MN_OK;
}

static enum mn_err choose(struct mn_host_library *l, int version, struct mn_diag *diag)
{
    for (const struct mn_host_version *const *v = mn_host_versions; *v; v++) {
        char symbol[32];
        if (version && (*v)->version != version)
            continue;
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", (*v)->version);
        l->table = dlsym(l->handle, symbol);
        if (!l->table)
            continue;
        l->version = *v;
        l->info.version = (*v)->version;
        /* Every version begins with the name. */
        const char *name = *(const char *const *)l->table;
        if (!name)
            return mn_fail(diag, MN_ERR_UNSUPPORTED, "%s: %s has no name", l->info.path, symbol);
        mn_strlcpy(l->info.name, name, sizeof l->info.name);
        return mn_host_refuse(&l->info, diag);
    }
    if (version)
        return mn_fail(diag, MN_ERR_UNSUPPORTED,
                       "%s: no symbol ncclNetPlugin_v%d that can be driven (v%d to v%d can)",
                       l->info.path, version, MN_HOST_OLDEST, MN_HOST_NEWEST);
    return mn_fail(diag, MN_ERR_UNSUPPORTED,
                   "%s: not a network plugin: looked for ncclNetPlugin_v%d to _v%d", l->info.path,
                   MN_HOST_NEWEST, MN_HOST_OLDEST);
}

struct mn_plugin *mn_plugin_context(struct mn_plugin *of)
{
    struct mn_plugin *p = mn_zalloc(sizeof *p);

    p->library = of->library;
    p->mode = of->mode;
    p->traffic_class = NCCL_NET_TRAFFIC_CLASS_UNDEF;
    pthread_mutex_lock(&p->library->lock);
    p->library->users++;
    pthread_mutex_unlock(&p->library->lock);
    p->library->version->read(p->library->table, &p->slots);
    return p;
}

static void resolve(struct mn_host_library *l, const char *path)
{
    struct link_map *map;

    mn_strlcpy(l->info.path, path, sizeof l->info.path);
    if (!dlinfo(l->handle, RTLD_DI_LINKMAP, &map) && map->l_name[0]) {
        char *real = realpath(map->l_name, NULL);
        mn_strlcpy(l->info.path, real ? real : map->l_name, sizeof l->info.path);
        free(real);
    }
}

/* As given, else as the middle of the name that NCCL or RCCL adds to: "mesh". NULL and why the
 * first was not taken. */
static void *load(const char *path, struct mn_diag *diag)
{
    static const char *const names[] = {"nccl", "rccl"};
    size_t length = strlen(path);
    int whole = strchr(path, '/') || (length > 3 && strncmp(path, "lib", 3) == 0 &&
                                      strcmp(path + length - 3, ".so") == 0);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (handle)
        return handle;
    mn_fail(diag, MN_ERR_CONFIG, "%s cannot be loaded: %s", path, dlerror());
    for (int i = 0; i < 2 && !whole && !handle; i++) {
        char name[256];
        if (snprintf(name, sizeof name, "lib%s-net-%s.so", names[i], path) < (int)sizeof name)
            handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

enum mn_err mn_plugin_open(const char *path, int version, struct mn_plugin **plugin,
                           struct mn_diag *diag)
{
    struct mn_host_library *l = mn_zalloc(sizeof *l);

    l->handle = load(path, diag);
    if (!l->handle) {
        free(l);
        return MN_ERR_CONFIG;
    }
    resolve(l, path);
    look_for_versions(l);
    enum mn_err err = choose(l, version, diag);
    if (!err)
        err = mn_sha256_file(l->info.path, l->info.hash, diag);
    if (!err && l->version->blocks && !(l->block = mn_host_block_new()))
        err = mn_fail(diag, MN_ERR_NOMEM, "%s: no memory", l->info.path);
    if (err) {
        dlclose(l->handle);
        free(l);
        return err;
    }
    pthread_mutex_init(&l->lock, NULL);
    l->log = mn_host_log_take(l->handle);
    struct mn_plugin first = {.library = l};
    *plugin = mn_plugin_context(&first);
    return MN_OK;
}

void mn_plugin_close(struct mn_plugin *p)
{
    struct mn_host_library *l = p->library;
    int unmapped = l->version->version >= 11;

    mn_plugin_finalize(p);
    pthread_mutex_lock(&l->lock);
    int users = --l->users;
    pthread_mutex_unlock(&l->lock);
    free(p);
    if (users)
        return;
    if (l->block)
        mn_host_block_end(l->block);
    if (unmapped)
        dlclose(l->handle);
    mn_host_log_give(l->log, unmapped);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

int mn_plugin_short_name(const char *path, char name[64])
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *prefix = "libnccl-net-";
    size_t length = strlen(base), begin = strlen(prefix);

    if (strncmp(base, prefix, begin) != 0 || length < begin + 4 || length > begin + 60 ||
        strcmp(base + length - 3, ".so") != 0)
        return 0;
    snprintf(name, 64, "%.*s", (int)(length - begin - 3), base + begin);
    return 1;
}

const struct mn_plugin_info *mn_plugin_info(const struct mn_plugin *p)
{
    return &p->library->info;
}

void mn_plugin_set_log(struct mn_plugin *p, mn_plugin_log log, void *ctx)
{
    mn_host_log_set(p->library->log, log, ctx);
}

void mn_plugin_set_mode(struct mn_plugin *p, enum mn_host_mode mode)
{
    p->mode = mode;
}

void mn_plugin_set_config(struct mn_plugin *p, uint64_t comm_id, int traffic_class)
{
    p->comm_id = comm_id;
    p->traffic_class = traffic_class;
}

/* Plugins store the callback; one that counts on it being callable gets a polite no-op. */
static ncclResult_t profiler(void **event, int type, void *phandle, int64_t plugin, void *data)
{
    (void)event;
    (void)type;
    (void)phandle;
    (void)plugin;
    (void)data;
    return ncclSuccess;
}

/* NCCL calls these without a look. */
static int complete(const struct mn_host_slots *s, int version)
{
    return s->devices && (s->listen_v4 || s->listen_v11) &&
           (s->connect_v4 || s->connect_v7 || s->connect_v10 || s->connect_v11) &&
           (s->accept_v4 || s->accept_v7) && (s->reg_v4 || s->reg_v8) && s->dereg &&
           (s->isend_v4 || s->isend_v5 || s->isend_v9 || s->isend_v10) &&
           (s->irecv_v4 || s->irecv_v5 || s->irecv_v9 || s->irecv_v10) && s->test &&
           s->close_send && s->close_recv && s->close_listen && (version < 11 || s->finalize);
}

static int call_init(struct mn_plugin *p)
{
    ncclDebugLogger_t logger = mn_host_log_function(p->library->log);
    ncclNetCommConfig_v11_t config = {p->traffic_class};

    if (p->slots.init_v11)
        return (int)p->slots.init_v11(&p->ctx, p->comm_id, &config, logger, profiler);
    /* Up to v10 a process is initialised once, whatever the number of communicators. */
    if (p->library->initialised)
        return ncclSuccess;
    if (p->slots.init_v10)
        return (int)p->slots.init_v10(logger, profiler);
    return p->slots.init_v4 ? (int)p->slots.init_v4(logger) : mn_host_broken("init is NULL");
}

int mn_plugin_init(struct mn_plugin *p)
{
    struct mn_host_library *l = p->library;

    if (p->initialised)
        return ncclInvalidUsage;
    pthread_mutex_lock(&l->lock);
    int result = call_init(p);
    if (!result) {
        l->initialised++;
        p->initialised = 1;
        l->version->read(l->table, &p->slots);
    }
    pthread_mutex_unlock(&l->lock);
    if (!result && !complete(&p->slots, l->version->version))
        result = mn_host_broken("a function that NCCL calls without a look is NULL");
    return result;
}

int mn_plugin_finalize(struct mn_plugin *p)
{
    struct mn_host_library *l = p->library;
    int result = ncclSuccess;

    if (!p->initialised)
        return ncclSuccess;
    pthread_mutex_lock(&l->lock);
    if (p->slots.finalize)
        result = (int)p->slots.finalize(p->ctx);
    p->ctx = NULL;
    p->initialised = 0;
    l->initialised--;
    pthread_mutex_unlock(&l->lock);
    return result;
}

const char *mn_nccl_result_name(int result)
{
    static const char *const names[] = {
        "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
        "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError",
    };
    if (result == MN_HOST_ABSENT)
        return "no such call";
    if (result == MN_HOST_BROKEN)
        return mn_plugin_fault();
    return result >= 0 && result < (int)(sizeof names / sizeof *names) ? names[result]
                                                                       : "unknown result";
}
