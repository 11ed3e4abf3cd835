/* What NCCL does with a plugin, in small: the calls of each version, and scenarios that end in
 * broken() when the plugin did what NCCL cannot live with. */
#ifndef DRIVE_H
#define DRIVE_H

#include <stddef.h>
#include <stdint.h>

#include "plugin/abi/nccl_abi.h"

struct net {
    int version;
    void *lib;
    const char *name;
    void (*const *calls)(void); /* the slots behind the name */
    void *ctx;                  /* of start(), v11 on */
};

extern double patience; /* seconds for what must come */
__attribute__((noreturn, format(printf, 1, 2))) void broken(const char *fmt, ...);
double now_s(void);
void nap_ms(long ms);
/* Whether the time is over; leaves the processor to others now and then. */
int is_over(double until);

/* net.c */
void net_open(struct net *n, const char *path, int version);
ncclResult_t net_init(struct net *n, void **ctx, uint64_t id);
void start(struct net *n); /* init that must succeed */
ncclResult_t net_devices(struct net *n, int *count);
ncclResult_t net_properties(struct net *n, int dev, void *props);
ncclResult_t net_listen(struct net *n, void *ctx, int dev, void *handle, void **comm);
ncclResult_t net_connect(struct net *n, void *ctx, int dev, void *handle, void **comm);
ncclResult_t net_accept(struct net *n, void *listen, void **comm);
extern int null_device_handles;
ncclResult_t net_reg(struct net *n, void *comm, void *data, size_t size, void **mr);
ncclResult_t net_dereg(struct net *n, void *comm, void *mr);
ncclResult_t net_isend(struct net *n, void *comm, void *data, size_t size, int tag, void *mr,
                       void **request);
ncclResult_t net_irecv(struct net *n, void *comm, int k, void **data, const size_t *sizes,
                       const int *tags, void **mrs, void **request);
ncclResult_t net_flush(struct net *n, void *comm, void *data, int size, void *mr, void **request);
ncclResult_t net_test(struct net *n, void *request, int *done, int *sizes);
ncclResult_t net_close_send(struct net *n, void *comm);
ncclResult_t net_close_recv(struct net *n, void *comm);
ncclResult_t net_close_listen(struct net *n, void *comm);
ncclResult_t net_finalize(struct net *n, void *ctx);
size_t props_size(int version);

/* kit.c: two buffers, the send one filled, registered with each pair. */
#define ARENA ((size_t)16 << 20)
extern unsigned char sbuf[ARENA], rbuf[ARENA];

struct pair {
    void *listen, *send, *recv, *smr, *rmr;
    unsigned char handle[NCCL_NET_HANDLE_MAXSIZE];
};

int count_fds(void);
void must(ncclResult_t result, const char *what);
void listen_for(struct net *n, void *ctx, struct pair *p);
void meet(struct net *n, void *ctx, struct pair *p); /* connect and accept, until both are there */
void make_pair(struct net *n, void *ctx, struct pair *p); /* all of it */
void register_both(struct net *n, struct pair *p);
void close_pair(struct net *n, struct pair *p);
void *send_at(struct net *n, struct pair *p, size_t at, size_t size, int tag);
void *recv_at(struct net *n, struct pair *p, size_t at, size_t room, int tag);
/* k slots of room bytes each, one behind the other. */
void *recv_group(struct net *n, struct pair *p, size_t at, size_t room, int k, const int *tags);
int is_done(struct net *n, void *request, int *sizes); /* broken() on an error */
void finish(struct net *n, void *request, int *sizes);
void finish_both(struct net *n, void *send, void *recv, int *sizes);
/* Sends and receives size bytes and compares. */
void transfer_bytes(struct net *n, struct pair *p, size_t size);
void expect_bytes(size_t from, size_t to, size_t size, const char *what);
void expect_int(int is, int should, const char *what);

/* A row: what the scenario is called in faults.def. */
struct scenario {
    const char *name;
    void (*run)(struct net *n);
};
extern const struct scenario of_setup[], of_connect[], of_memory[], of_matching[], of_transfer[],
    of_ending[];

#endif
