/* The version-free core behind every ncclNet ABI version. abi/vN.c only translates.
 *
 * Every function returns an ncclResult_t value as int (plugin/abi/nccl_abi.h). None blocks; connect
 * and accept return success with a NULL comm for "not yet, call again". Thread rules are NCCL's: a
 * comm's isend, irecv and test come from one thread at a time, register and deregister may run
 * beside them, different comms are independent, everything else may come from any thread. Errors
 * are logged once with peer, NIC and link. Source of the rules: NCCL src/include/plugin/net and its
 * callers. */
#ifndef MN_NET_H
#define MN_NET_H

#include <stddef.h>
#include <stdint.h>

#define MN_HANDLE_SIZE       128
#define MN_SHORT_HANDLE_SIZE 64 /* up to v4 */
#define MN_MAX_RECVS         8  /* RCCL counts on a power of two */

_Static_assert((MN_MAX_RECVS & (MN_MAX_RECVS - 1)) == 0, "a power of two");

/* Superset of ncclNetProperties_v3..v12. Strings live as long as the library. */
struct mn_net_props {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int reg_is_global;
    int force_flush;
    int speed_mbps;
    int port;
    float latency_us;
    int max_comms;
    int max_recvs;
    size_t max_p2p_bytes;
    size_t max_coll_bytes;
    int max_multi_request_size;
    int16_t rail_id, plane_id;
};

/* A communicator's context. NULL everywhere means the one that versions without contexts share. */
struct mn_net;

/* Up to v10. logger is ncclDebugLogger_t (void * here so that this header is free of the ABI).
 * Repeated calls are fine: the first configures, later ones count. */
int mn_net_init(void *logger);
/* v11 and later: a context of its own. traffic_class -1 = the mesh file's. *net is NULL after an
 * error. */
int mn_net_open(void *logger, int traffic_class, struct mn_net **net);
/* Closes what the context still has, waits for threads that work for it; after the last context
 * no thread and no device is left. NULL and what is no context (any more) is ignored. */
int mn_net_finalize(struct mn_net *net);

int mn_net_devices(int *ndev);
int mn_net_properties(int dev, struct mn_net_props *props);
int mn_net_listen(struct mn_net *net, int dev, void *handle, void **listen_comm);
/* traffic_class -1 = the context's. */
int mn_net_connect(struct mn_net *net, int dev, int traffic_class, void *handle, void **send_comm);
int mn_net_accept(void *listen_comm, void **recv_comm);

/* v4, whose connect and accept give a comm or an error. Both are bounded by the mesh file's connect
 * timeout. connect waits for the peer's host only, not for its accept: NCCL connects all its sends
 * before it accepts anything. The handshake goes on in a thread, since NCCL may make no call before
 * the peer's accept is through; until then isend has no request to give, and if it fails isend says
 * so. */
int mn_net_listen_short(int dev, void *handle, void **listen_comm);
int mn_net_connect_early(int dev, void *handle, void **send_comm);
int mn_net_accept_wait(void *listen_comm, void **recv_comm);

int mn_net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
/* Whether DMA-BUFs can be registered, as the last init that read the configuration found. */
int mn_net_takes_dmabuf(void);
/* The caller closes fd afterwards. */
int mn_net_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                      void **mhandle);
int mn_net_dereg_mr(void *comm, void *mhandle);
int mn_net_isend(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **request);
int mn_net_irecv(void *recv_comm, int n, void **data, const size_t *sizes, const int *tags,
                 void **mhandles, void **request);
int mn_net_iflush(void *recv_comm, int n, void **data, const int *sizes, void **mhandles,
                  void **request);
int mn_net_test(void *request, int *done, int *sizes);
int mn_net_close_send(void *send_comm);
int mn_net_close_recv(void *recv_comm);
int mn_net_close_listen(void *listen_comm);

#endif
