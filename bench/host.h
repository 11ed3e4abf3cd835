/* Drives any ncclNet plugin through dlopen, in its own process, whatever ABI version it exports:
 * normalised to one interface by the checklist of NCCL's own compatibility layer. Prints nothing.
 */
#ifndef MN_HOST_H
#define MN_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "plugin/net.h"
#include "topo/base/err.h"

#define MN_HOST_MAX_RECVS 8

struct mn_plugin; /* a loaded library, driven through one version */

struct mn_plugin_info {
    char path[512];   /* as resolved by the loader (dlinfo), symlinks followed */
    char hash[65];    /* SHA-256 of the file, hex (sha256sum prints the same) */
    char name[128];   /* vtable name */
    int version;      /* ABI version driven */
    int versions[16]; /* every version exported, newest first, 0-terminated */
};

/* path: a file name with "/" or a library name, opened as NCCL does (RTLD_NOW | RTLD_LOCAL).
 * version 0 = newest supported here (v8, v9, v10 now; one file and one row a version). */
enum mn_err mn_plugin_open(const char *path, int version, struct mn_plugin **plugin,
                           struct mn_diag *diag);
/* Never dlcloses a plugin older than v11 (there is no way to stop its threads). */
void mn_plugin_close(struct mn_plugin *plugin);
const struct mn_plugin_info *mn_plugin_info(const struct mn_plugin *plugin);
/* Where the plugin's log lines go; NULL = dropped. Set before mn_plugin_init. */
typedef void (*mn_plugin_log)(void *ctx, int level, const char *line);
void mn_plugin_set_log(struct mn_plugin *plugin, mn_plugin_log log, void *ctx);

/* The calls below return the plugin's ncclResult_t unchanged (0 = success); requests and comms are
 * the plugin's own pointers. Sizes are checked against the version's integer width. */
int mn_plugin_init(struct mn_plugin *p);
int mn_plugin_devices(struct mn_plugin *p, int *ndev);
int mn_plugin_properties(struct mn_plugin *p, int dev, struct mn_net_props *props);
int mn_plugin_listen(struct mn_plugin *p, int dev, void *handle, void **listen_comm);
int mn_plugin_connect(struct mn_plugin *p, int dev, void *handle, void **send_comm);
int mn_plugin_accept(struct mn_plugin *p, void *listen_comm, void **recv_comm);
int mn_plugin_reg_mr(struct mn_plugin *p, void *comm, void *data, size_t size, int type, void **mh);
int mn_plugin_dereg_mr(struct mn_plugin *p, void *comm, void *mh);
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
