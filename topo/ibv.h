/* libibverbs, opened at run time into one symbol table: a host without rdma-core still runs TCP.
 *
 * The types and the verbs that are inline functions over a context's operations (ibv_post_send,
 * ibv_poll_cq, …) come from <infiniband/verbs.h> and need no symbol. Everything exported must be
 * called through this table; a new verb is one member here and one row in ibv.c. */
#ifndef MN_IBV_H
#define MN_IBV_H

#include <infiniband/verbs.h>

#include "topo/base/err.h"

struct mn_ibv {
    char version[32]; /* of the library file: "1.14.44.0", or "1" when it does not say */
    /* Optional, NULL when absent: mn_ibv_open() has called it where it should be. */
    int (*fork_init)(void);
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    /* Writes the port attributes of verbs 1.1, shorter than today's: mn_ibv_query_port() knows. */
    int (*query_port_compat)(struct ibv_context *context, uint8_t port,
                             struct _compat_ibv_port_attr *attr);
    /* -EOPNOTSUPP from libraries before 1.11. */
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t max, uint32_t flags, size_t entry_size);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
    /* NULL with EOPNOTSUPP from libraries before 1.8. */
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   unsigned int access);
    /* NULL with EOPNOTSUPP from libraries before 1.12. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    /* EOPNOTSUPP from libraries before 1.10. */
    int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
    int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
    int (*destroy_qp)(struct ibv_qp *qp);
    struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
    int (*destroy_ah)(struct ibv_ah *ah);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
};

/* The table, opened by the first caller and kept for the life of the process (providers cannot be
 * unloaded safely); thread-safe. The first call readies the library for fork(), unless
 * RDMAV_FORK_SAFE or IBV_FORK_SAFE is 0: a failure is told, as a warning where one of them asks.
 * NULL with MN_ERR_UNSUPPORTED in *diag when there is no library, or one too old. */
const struct mn_ibv *mn_ibv_open(struct mn_diag *diag);

/* ibv_query_port() without linking the library. 0 or an errno value. */
int mn_ibv_query_port(const struct mn_ibv *ibv, struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attr);

#endif
