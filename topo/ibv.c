#include "topo/ibv.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define LIBRARY "libibverbs.so.1"

/* Versions are named because the library exports most symbols twice, and the older twin (1.0) has
 * another layout. */
static const struct {
    const char *name, *version;
    size_t offset;
    int optional;
} symbols[] = {
    {"ibv_fork_init", "IBVERBS_1.1", offsetof(struct mn_ibv, fork_init), 1},
    {"ibv_get_device_list", "IBVERBS_1.1", offsetof(struct mn_ibv, get_device_list), 0},
    {"ibv_free_device_list", "IBVERBS_1.1", offsetof(struct mn_ibv, free_device_list), 0},
    {"ibv_get_device_name", "IBVERBS_1.1", offsetof(struct mn_ibv, get_device_name), 0},
    {"ibv_open_device", "IBVERBS_1.1", offsetof(struct mn_ibv, open_device), 0},
    {"ibv_close_device", "IBVERBS_1.1", offsetof(struct mn_ibv, close_device), 0},
    {"ibv_query_device", "IBVERBS_1.1", offsetof(struct mn_ibv, query_device), 0},
    {"ibv_query_port", "IBVERBS_1.1", offsetof(struct mn_ibv, query_port_compat), 0},
    {"_ibv_query_gid_table", "IBVERBS_1.11", offsetof(struct mn_ibv, query_gid_table), 1},
    {"ibv_alloc_pd", "IBVERBS_1.1", offsetof(struct mn_ibv, alloc_pd), 0},
    {"ibv_dealloc_pd", "IBVERBS_1.1", offsetof(struct mn_ibv, dealloc_pd), 0},
    {"ibv_reg_mr", "IBVERBS_1.1", offsetof(struct mn_ibv, reg_mr), 0},
    {"ibv_reg_mr_iova2", "IBVERBS_1.8", offsetof(struct mn_ibv, reg_mr_iova2), 1},
    {"ibv_reg_dmabuf_mr", "IBVERBS_1.12", offsetof(struct mn_ibv, reg_dmabuf_mr), 1},
    {"ibv_dereg_mr", "IBVERBS_1.1", offsetof(struct mn_ibv, dereg_mr), 0},
    {"ibv_create_comp_channel", "IBVERBS_1.0", offsetof(struct mn_ibv, create_comp_channel), 0},
    {"ibv_destroy_comp_channel", "IBVERBS_1.0", offsetof(struct mn_ibv, destroy_comp_channel), 0},
    {"ibv_get_cq_event", "IBVERBS_1.1", offsetof(struct mn_ibv, get_cq_event), 0},
    {"ibv_ack_cq_events", "IBVERBS_1.1", offsetof(struct mn_ibv, ack_cq_events), 0},
    {"ibv_create_cq", "IBVERBS_1.1", offsetof(struct mn_ibv, create_cq), 0},
    {"ibv_destroy_cq", "IBVERBS_1.1", offsetof(struct mn_ibv, destroy_cq), 0},
    {"ibv_create_qp", "IBVERBS_1.1", offsetof(struct mn_ibv, create_qp), 0},
    {"ibv_modify_qp", "IBVERBS_1.1", offsetof(struct mn_ibv, modify_qp), 0},
    {"ibv_query_ece", "IBVERBS_1.10", offsetof(struct mn_ibv, query_ece), 1},
    {"ibv_set_ece", "IBVERBS_1.10", offsetof(struct mn_ibv, set_ece), 1},
    {"ibv_destroy_qp", "IBVERBS_1.1", offsetof(struct mn_ibv, destroy_qp), 0},
    {"ibv_create_ah", "IBVERBS_1.1", offsetof(struct mn_ibv, create_ah), 0},
    {"ibv_destroy_ah", "IBVERBS_1.1", offsetof(struct mn_ibv, destroy_ah), 0},
    {"ibv_get_async_event", "IBVERBS_1.1", offsetof(struct mn_ibv, get_async_event), 0},
    {"ibv_ack_async_event", "IBVERBS_1.1", offsetof(struct mn_ibv, ack_async_event), 0},
};

static struct mn_ibv table;
static struct mn_diag table_diag;

static ssize_t no_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                            uint32_t flags, size_t entry_size)
{
    (void)context, (void)entries, (void)max, (void)flags, (void)entry_size;
    return -EOPNOTSUPP;
}

static struct ibv_mr *no_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               unsigned int access)
{
    (void)pd, (void)addr, (void)length, (void)iova, (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

static struct ibv_mr *no_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                int fd, int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

static int no_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

/* The library has no call for its version; its file is named libibverbs.so.1.<abi>.<release>. */
static void read_version(void *lib)
{
    struct link_map *map;
    char path[PATH_MAX];
    mn_strlcpy(table.version, "1", sizeof table.version);
    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) != 0 || !realpath(map->l_name, path))
        return;
    const char *version = strstr(path, ".so.");
    if (version)
        mn_strlcpy(table.version, version + strlen(".so."), sizeof table.version);
}

/* Kernels before 5.12 (and their likes without the patch) share pinned pages with a child until
 * either writes: the device then goes on with the page that the other one has. The library keeps
 * its queues and what is registered out of children; it knows which kernels need that. It must be
 * asked before anything else, and may have been used by others. */
static void survive_fork(void)
{
    static const char *const names[] = {"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"};
    const char *asked = NULL, *refused = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && strcmp(value, "0") != 0)
            asked = names[i];
        else if (value)
            refused = names[i];
    }
    if (!asked && refused) {
        MN_INFO("%s=0: registered memory is shared with children of fork()", refused);
        return;
    }
    int error = table.fork_init ? table.fork_init() : ENOSYS;
    if (error)
        mn_log(
            asked ? MN_LOG_WARN : MN_LOG_INFO, __FILE__, __LINE__,
            "%s%slibibverbs %s cannot be readied for fork() (%s): on kernels before 5.12 a child "
            "(a data loader's worker, for one) can spoil transfers under way; start workers "
            "with spawn or forkserver there, or before RDMA is used",
            asked ? asked : "", asked ? " asks for it, but " : "", table.version,
            strerror(error > 0 ? error : errno));
}

static void load(void)
{
    void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        mn_fail(&table_diag, MN_ERR_UNSUPPORTED, LIBRARY " cannot be loaded (%s)", dlerror());
        return;
    }
    table.query_gid_table = no_gid_table;
    table.reg_mr_iova2 = no_iova2;
    table.reg_dmabuf_mr = no_dmabuf;
    table.query_ece = table.set_ece = no_ece;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlvsym(lib, symbols[i].name, symbols[i].version);
        if (symbol) {
            memcpy((char *)&table + symbols[i].offset, &symbol, sizeof symbol);
        } else if (!symbols[i].optional) {
            mn_fail(&table_diag, MN_ERR_UNSUPPORTED, LIBRARY " has no %s@%s; install rdma-core",
                    symbols[i].name, symbols[i].version);
            dlclose(lib);
            return;
        }
    }
    read_version(lib);
    survive_fork();
}

const struct mn_ibv *mn_ibv_open(struct mn_diag *diag)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (table_diag.code == MN_OK)
        return &table;
    if (diag)
        *diag = table_diag;
    return NULL;
}

int mn_ibv_query_port(const struct mn_ibv *ibv, struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
    if (extended)
        return extended->query_port(context, port, attr, sizeof *attr);
    return ibv->query_port_compat(context, port, (struct _compat_ibv_port_attr *)attr);
}
