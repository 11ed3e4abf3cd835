/* Drives any ncclNet plugin through dlopen, in its own process, whatever ABI version from 4 to 12
 * it exports, normalised to one interface: nothing blocks, what a version lacks has NCCL's default.
 * Several libraries may be open at once, each with several communicators. Prints nothing. */
#ifndef MN_HOST_H
#define MN_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/net.h"
#include "topo/base/err.h"

#define MN_HOST_MAX_RECVS 8
#define MN_HOST_OLDEST    4
#define MN_HOST_NEWEST    12

struct mn_plugin; /* one communicator of a loaded library, driven through one version */

struct mn_plugin_info {
    char path[512];   /* as resolved by the loader (dlinfo), symlinks followed */
    char hash[65];    /* SHA-256 of the file, hex (sha256sum prints the same) */
    char name[128];   /* vtable name */
    int version;      /* ABI version driven */
    int versions[16]; /* every version exported, newest first, 0-terminated */
};

/* path: what NCCL_NET_PLUGIN may hold: a file name with "/", a library name, or the X of
 * libnccl-net-X.so and librccl-net-X.so. Opened as NCCL does (RTLD_NOW | RTLD_LOCAL).
 * version 0 = the newest there. Libraries that use the symbols for other layouts (builds for
 * Neuron) are refused. */
enum mn_err mn_plugin_open(const char *path, int version, struct mn_plugin **plugin,
                           struct mn_diag *diag);
/* The X of libnccl-net-X.so, by which NCCL before 2.21 asks for it; 0: the file has another name.
 */
int mn_plugin_short_name(const char *path, char name[64]);
/* Another communicator of the same library, to be initialised and closed like the first. */
struct mn_plugin *mn_plugin_context(struct mn_plugin *plugin);
/* Finalizes. After the last communicator the library is unmapped from v11 on; older plugins have no
 * call that ends their threads and stay mapped. */
void mn_plugin_close(struct mn_plugin *plugin);
const struct mn_plugin_info *mn_plugin_info(const struct mn_plugin *plugin);
/* Where the library's log lines go; NULL = dropped. Set before mn_plugin_init. */
typedef void (*mn_plugin_log)(void *ctx, int level, const char *line);
void mn_plugin_set_log(struct mn_plugin *plugin, mn_plugin_log log, void *ctx);

/* Whose habits the calls have. RCCL passes 4 bytes where v7 and later declare a device handle, and
 * leaves 1 in *request on entry. */
enum mn_host_mode { MN_HOST_NCCL, MN_HOST_RCCL };
void mn_plugin_set_mode(struct mn_plugin *plugin, enum mn_host_mode mode);
/* What v11 gets in init, v10 the class in connect. Default: 0 and -1. Set before mn_plugin_init. */
void mn_plugin_set_config(struct mn_plugin *plugin, uint64_t comm_id, int traffic_class);

/* The calls below return the plugin's ncclResult_t unchanged (0 = success), or one of these. */
#define MN_HOST_ABSENT (-1)        /* the version or the plugin has no such call */
#define MN_HOST_BROKEN (-2)        /* the plugin broke a rule; mn_plugin_fault() says which */
const char *mn_plugin_fault(void); /* of this thread's last MN_HOST_BROKEN */

/* Requests and comms are the plugin's own pointers. Sizes are checked against the version's integer
 * width: ncclInvalidArgument. */
int mn_plugin_init(struct mn_plugin *p);
/* Through mn_plugin_close too; mn_plugin_init may follow. */
int mn_plugin_finalize(struct mn_plugin *p);
int mn_plugin_devices(struct mn_plugin *p, int *ndev);
struct mn_plugin_props {
    struct mn_net_props net;
    int device_type, device_version;
    int n_devs, devs[NCCL_NET_MAX_DEVS_PER_NIC_V12];
};
int mn_plugin_properties(struct mn_plugin *p, int dev, struct mn_plugin_props *props);
int mn_plugin_make_vdevice(struct mn_plugin *p, int n, const int *devs, int *dev);
int mn_plugin_set_attr(struct mn_plugin *p, ncclNetAttr_v11_t *attr);
/* handle: MN_HANDLE_SIZE bytes, aligned to 8. The copy that connect gets must stay, at its address
 * and unchanged by the caller, until connect has ended. */
int mn_plugin_listen(struct mn_plugin *p, int dev, void *handle, void **listen_comm);
/* Success and no comm: call again. The calls of v4 block: each runs on a thread of its own, found
 * again by its handle or listen comm. One that the caller gives up (listen comm closed, other bytes
 * in the handle, plugin closed) closes what it made when it returns. */
int mn_plugin_connect(struct mn_plugin *p, int dev, void *handle, void **send_comm);
int mn_plugin_accept(struct mn_plugin *p, void *listen_comm, void **recv_comm);
int mn_plugin_reg_mr(struct mn_plugin *p, void *comm, void *data, size_t size, int type, void **mh);
/* 1 when it takes DMA-BUFs: read after init, as NCCL does. */
int mn_plugin_has_dmabuf(const struct mn_plugin *p);
int mn_plugin_reg_dmabuf(struct mn_plugin *p, void *comm, void *data, size_t size, int type,
                         uint64_t offset, int fd, void **mh);
int mn_plugin_dereg_mr(struct mn_plugin *p, void *comm, void *mh);
/* v4 has no tags and one buffer a receive. */
int mn_plugin_isend(struct mn_plugin *p, void *comm, void *data, size_t size, int tag, void *mh,
                    void **request);
int mn_plugin_irecv(struct mn_plugin *p, void *comm, int n, void **data, size_t *sizes, int *tags,
                    void **mhs, void **request);
int mn_plugin_iflush(struct mn_plugin *p, void *comm, int n, void **data, int *sizes, void **mhs,
                     void **request);
int mn_plugin_test(struct mn_plugin *p, void *request, int *done, int *sizes);
int mn_plugin_close_send(struct mn_plugin *p, void *comm);
int mn_plugin_close_recv(struct mn_plugin *p, void *comm);
int mn_plugin_close_listen(struct mn_plugin *p, void *comm);

const char *mn_nccl_result_name(int result); /* "ncclSystemError" */

#endif
