#include "bench/engine/engine_impl.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "bench/environment.h"
#include "plugin/gpu/library.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define LOOK_MS     50
#define CHUNK_S     2.0   /* of work between two looks at whether it goes on */
#define TAKES_PATH  22100 /* NCCL_NET_PLUGIN: src/plugin/plugin_open.cc */
#define HAS_FLOAT8  22400 /* nccl.h */
#define SUMS_FLOAT8 9     /* compute capability, src/enqueue.cc */

#define LABEL(text)                                                                                \
    {                                                                                              \
        .name = text                                                                               \
    }
const struct mn_engine_vendor mn_engine_vendors[MN_ENGINE_KINDS] = {
    [MN_ENGINE_NCCL] = {"NCCL",
                        {"libnccl.so.2", "libnccl.so", NULL},
                        MN_MEMORY_CUDA,
                        {LABEL("nccl"), LABEL("nccl-own")}},
    [MN_ENGINE_RCCL] = {"RCCL",
                        {"librccl.so.1", "librccl.so", NULL},
                        MN_MEMORY_HIP,
                        {LABEL("rccl"), LABEL("rccl-own")}},
};

/* --- opening ---------------------------------------------------------------------------------- */

static enum mn_err load(struct mn_engine *e, struct mn_diag *diag)
{
    static const struct mn_gpu_symbol symbols[] = {
#define X(member, symbol, parameters) {#symbol, offsetof(struct mn_nccl, member), 0},
        MN_NCCL_FUNCTIONS(X)
#undef X
            {"ncclGetErrorString", offsetof(struct mn_nccl, error_string), 0}};
    const char *const given[] = {e->plan.library, NULL};
    Dl_info where;
    enum mn_err err = mn_gpu_library_open(
        e->plan.library ? given : e->vendor->library,
        "install it, or give --library FILE (a wheel of PyTorch brings one: find / -name "
        "'lib[nr]ccl.so*')",
        1, symbols, sizeof symbols / sizeof *symbols, &e->nccl, diag);

    if (err)
        return err == MN_ERR_NOTFOUND && e->plan.library
                   ? mn_fail(diag, MN_ERR_CONFIG, "--library %s: %s", e->plan.library, dlerror())
                   : err;
    void *symbol;
    memcpy(&symbol, &e->nccl.version, sizeof symbol);
    if (dladdr(symbol, &where) && where.dli_fname)
        mn_strlcpy(e->library, where.dli_fname, sizeof e->library);
    if (e->nccl.version(&e->version))
        return mn_fail(diag, MN_ERR_FAILED, "%s: ncclGetVersion failed", e->library);
    int major = e->version < 10000 ? e->version / 1000 : e->version / 10000;
    int minor = e->version < 10000 ? e->version / 100 % 10 : e->version / 100 % 100;
    snprintf(e->version_text, sizeof e->version_text, "%d.%d.%d", major, minor, e->version % 100);
    return MN_OK;
}

/* The oldest of all ranks' GPUs, and whether ranks of one host have the same. */
static enum mn_err compare_gpus(struct mn_engine *e, int *shared, struct mn_diag *diag)
{
    const struct mn_memory *memory = &e->memory;
    struct mn_gpu_device device = {.name = ""};
    struct gpu {
        int capability;
        char pci[sizeof device.pci];
    } mine = {0}, all[MN_GROUP_RANKS];
    int hosts[MN_GROUP_RANKS];

    *shared = 0;
    enum mn_err err = memory->gpu->describe(memory->device, &device, diag);
    mine.capability = device.capability;
    memcpy(mine.pci, device.pci, sizeof mine.pci);
    if (!err)
        err = mn_group_allgather(e->group, &mine, sizeof mine, all, diag);
    mn_group_hosts(e->group, hosts);
    for (int a = 0; a < e->nranks && !err; a++) {
        if (!a || all[a].capability < e->capability)
            e->capability = all[a].capability;
        for (int b = 0; b < a; b++)
            *shared |= hosts[a] == hosts[b] && !memcmp(all[a].pci, all[b].pci, sizeof mine.pci);
    }
    return err;
}

/* Releases that take no path look for libnccl-net-NAME.so where the loader does. */
static enum mn_err name_plugin(const struct mn_engine *e, struct mn_diag *diag)
{
    const char *path = e->plan.plugin->path, *slash = strrchr(path, '/');
    char name[64] = "mesh", file[96];

    setenv("NCCL_NET", e->plan.plugin->name, 1);
    setenv("NCCL_NET_PLUGIN", path, 1);
    if (e->version >= TAKES_PATH || !slash)
        return MN_OK;
    int named = mn_plugin_short_name(path, name);
    snprintf(file, sizeof file, "lib%sccl-net-%s.so", e->plan.kind == MN_ENGINE_RCCL ? "r" : "n",
             name);
    if (!named || !dlopen(file, RTLD_NOW | RTLD_LOCAL))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s %s takes no path of a plugin, and the loader finds no %s: run with "
                       "LD_LIBRARY_PATH=%.*s",
                       e->vendor->name, e->version_text, file, (int)(slash - path), path);
    setenv("NCCL_NET_PLUGIN", name, 1);
    return MN_OK;
}

static enum mn_err set_environment(const struct mn_engine *e, struct mn_diag *diag)
{
    const char *net = getenv("NCCL_NET");
    char node[65], host[96];

    setenv("NCCL_COMM_BLOCKING", "1", 1);
    if (e->plan.network == MN_NETWORK_OWN) {
        setenv("NCCL_NET_PLUGIN", "none", 1);
        /* Any other name is that of a plugin, which there is none of. */
        if (net && strcasecmp(net, "IB") != 0 && strcasecmp(net, "Socket") != 0)
            unsetenv("NCCL_NET");
    }
    if (e->plan.apart) {
        mn_node_name(node, sizeof node);
        snprintf(host, sizeof host, "%s-rank-%d", node, e->rank);
        setenv("NCCL_HOSTID", host, 1);
        setenv("NCCL_MNNVL_ENABLE", "0", 1); /* NVLink between hosts */
    }
    return e->plan.network == MN_NETWORK_MESH ? name_plugin(e, diag) : MN_OK;
}

/* What rank 0 tells the others. */
struct beginning {
    int version;
    ncclUniqueId id;
};

static enum mn_err make_id(struct mn_engine *e, struct mn_diag *diag)
{
    ncclResult_t result = e->nccl.unique_id(&e->id);

    return result ? mn_engine_explain(e, "ncclGetUniqueId", result, diag) : MN_OK;
}

static enum mn_err begin_together(struct mn_engine *e, struct mn_diag *diag)
{
    struct beginning mine = {.version = e->version}, all[MN_GROUP_RANKS];
    enum mn_err err = MN_OK;

    if (!e->rank)
        err = mn_engine_have_done(e, "ncclGetUniqueId", make_id, NULL, diag);
    if (err)
        return err;
    mine.id = e->id;
    err = mn_group_allgather(e->group, &mine, sizeof mine, all, diag);
    for (int r = 1; r < e->nranks && !err; r++)
        if (all[r].version != all[0].version)
            err = mn_fail(diag, MN_ERR_FAILED,
                          "%s has %s %d, %s has %d: all ranks need the same release; see --library",
                          mn_group_name(e->group, 0), e->vendor->name, all[0].version,
                          mn_group_name(e->group, r), all[r].version);
    e->id = all[0].id;
    return err;
}

static enum mn_err join(struct mn_engine *e, struct mn_diag *diag)
{
    const struct mn_memory *memory = &e->memory;
    ncclComm_t comm = NULL;
    enum mn_err err = memory->gpu->stream_new(memory->device, &e->stream, diag);

    if (err)
        return err;
    ncclResult_t result = e->nccl.init(&comm, e->nranks, e->id, e->rank);
    if (result)
        return mn_engine_explain(e, "ncclCommInitRank", result, diag);
    e->comm = comm;
    return MN_OK;
}

enum mn_err mn_engine_open(const struct mn_engine_plan *plan, struct mn_group *group,
                           struct mn_engine **engine, struct mn_diag *diag)
{
    struct mn_engine *e = mn_zalloc(sizeof *e);
    int shared = 0;

    *engine = e;
    e->plan = *plan;
    e->vendor = &mn_engine_vendors[plan->kind];
    e->group = group;
    e->memory = *mn_group_memory_kind(group);
    e->rank = mn_group_rank(group);
    e->nranks = mn_group_size(group);
    e->log = -1;
    e->counts = mn_zalloc((size_t)e->nranks * (size_t)e->nranks * sizeof *e->counts);
    enum mn_err err = mn_engine_log_begin(e, diag);
    if (!err)
        err = load(e, diag);
    if (!err)
        err = compare_gpus(e, &shared, diag);
    e->plan.apart |= shared;
    if (!err)
        err = set_environment(e, diag);
    if (!err)
        err = mn_engine_start_worker(e, diag);
    if (!err)
        err = begin_together(e, diag);
    return err ? err : mn_engine_have_done(e, "ncclCommInitRank", join, NULL, diag);
}

static enum mn_err part(struct mn_engine *e, struct mn_diag *diag)
{
    const struct mn_memory *memory = &e->memory;
    ncclResult_t result = e->comm ? e->nccl.destroy(e->comm) : ncclSuccess;

    e->comm = NULL;
    if (e->stream)
        memory->gpu->stream_free(memory->device, e->stream);
    return result ? mn_engine_explain(e, "ncclCommDestroy", result, diag) : MN_OK;
}

/* Who ends first waits, so that it is not missed by those that still end. */
static void end_together(struct mn_engine *e)
{
    if (!mn_engine_have_done(e, "ncclCommDestroy", part, NULL, NULL))
        (void)mn_group_barrier(e->group, NULL);
}

int mn_engine_close(struct mn_engine *e)
{
    if (!e)
        return 0;
    /* Others may be gone: what does not end is left to the process's end. */
    if (e->working && !e->lost && e->result == MN_OK)
        end_together(e);
    if (e->lost || e->result)
        return 1;
    if (e->working)
        mn_engine_end_worker(e);
    if (e->log >= 0)
        close(e->log);
    free(e->counts);
    free(e);
    return 0;
}

/* --- running ---------------------------------------------------------------------------------- */

const struct mn_algorithm *mn_engine_label(const struct mn_engine *e)
{
    return &e->vendor->label[e->plan.network];
}

const char *mn_engine_refusal(const struct mn_engine *e, enum mn_collective c, int type)
{
    if (c == MN_SPARSE_ALLREDUCE)
        return "the library has no such call";
    if (type != MN_TYPE_FLOAT8E4M3 && type != MN_TYPE_FLOAT8E5M2)
        return NULL;
    if (e->version < HAS_FLOAT8)
        return "8-bit floats came with NCCL 2.24";
    if (e->capability && e->capability < SUMS_FLOAT8)
        return "the library takes 8-bit floats on Hopper and newer (sm90)";
    return NULL;
}

static enum mn_err run_all(struct mn_engine *e, struct mn_diag *diag)
{
    const struct mn_memory *memory = &e->memory;
    unsigned long chunk = e->each > 0 ? (unsigned long)fmax(CHUNK_S / e->each, 1) : e->n;
    const char *call = "";
    double start = mn_seconds();
    enum mn_err err = MN_OK;

    for (unsigned long i = 1; i <= e->n && !err; i++) {
        ncclResult_t result = mn_engine_call(e, &e->work, &call);
        if (result)
            return mn_engine_explain(e, call, result, diag);
        if (i % chunk && i < e->n)
            continue;
        err = memory->gpu->stream_wait(memory->device, e->stream, diag);
        atomic_fetch_add(&e->progress, 1);
    }
    e->seconds = mn_seconds() - start;
    e->each = e->seconds / (double)e->n;
    return err;
}

enum mn_err mn_engine_run(struct mn_engine *e, const struct mn_engine_work *work, unsigned long n,
                          double *seconds, struct mn_diag *diag)
{
    size_t pairs = (size_t)work->job->nranks * (size_t)work->job->nranks;

    if (e->lost)
        return mn_fail(diag, MN_ERR_FAILED, "%s: an earlier call did not return", e->vendor->name);
    e->work = *work;
    e->collective = *work->job;
    e->work.job = &e->collective;
    if (work->job->counts) {
        e->collective.counts = e->counts;
        memcpy(e->counts, work->job->counts, pairs * sizeof *e->counts);
    }
    e->n = n;
    enum mn_err err =
        mn_engine_have_done(e, mn_collective_name(work->collective), run_all, e->comm, diag);
    if (!err && seconds)
        *seconds = e->seconds;
    return err;
}

/* --- what it did ------------------------------------------------------------------------------ */

enum mn_err mn_engine_say(struct mn_engine *e, struct mn_engine_report *report,
                          struct mn_diag *diag)
{
    char *log = mn_engine_log_read(e), **all;

    *report = (struct mn_engine_report){.vendor = e->vendor->name,
                                        .label = mn_engine_label(e)->name,
                                        .network = e->plan.network,
                                        .apart = e->plan.apart};
    mn_strlcpy(report->library, e->library, sizeof report->library);
    mn_strlcpy(report->version, e->version_text, sizeof report->version);
    mn_engine_log_excerpt(log);
    if (strlen(log) >= MN_GROUP_TEXT)
        log[MN_GROUP_TEXT - 1] = 0;
    enum mn_err err = mn_group_gather_text(e->group, log, &all, diag);
    for (int r = 0; r < e->nranks && !err; r++) {
        mn_engine_log_tidy(all[r], strlen(all[r]));
        mn_engine_log_parse(all[r], !r, &report->evidence);
    }
    free(log);
    if (!err)
        free(all);
    return err;
}
