/* A small, correct network plugin for the tests of verify-plugin: both ends live in one process and
 * bytes move by copying. Its parts are compiled once; the vtables once for each row of faults.def,
 * with that row's number: in that library one spot is wrong. */
#ifndef REF_H
#define REF_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin/abi/nccl_abi.h"

enum fault {
    F_NONE,
#define FAULT_ROW(name, version, rule, text) F_##name,
#include "tests/broken/faults.def"
#undef FAULT_ROW
};

#ifdef FAULT /* vtables.c: a constant there */
#define IS(name) (FAULT == F_##name)
#else
extern const int ref_fault;
#define IS(name) (ref_fault == F_##name)
#endif

#define N_DEVICES 2
#define MAX_RECVS 8
#define SLOTS     (NCCL_NET_MAX_REQUESTS * MAX_RECVS)

enum kind { SEND, RECV };

struct message {
    struct message *next;
    size_t size;
    int tag;
    unsigned char *data; /* a copy: done once copied */
};

struct request {
    int used, n, filled, error, done, owed;
    enum kind kind;
    struct comm *comm;
    unsigned long serial;
    void *data[MAX_RECVS];
    size_t room[MAX_RECVS], got[MAX_RECVS];
    int tags[MAX_RECVS], full[MAX_RECVS];
    const void *source; /* copied late, by one fault only */
    struct message *late;
};

/* What both ends share; freed with the second of them. */
struct channel {
    struct channel *next; /* waiting for accept */
    struct message *head, **tail;
    struct comm *ends[2];
    int closed[2], fds;
};

struct comm {
    enum kind kind;
    struct channel *channel;
    struct request requests[SLOTS];
    int out;
};

struct listener {
    struct listener *next;
    uint64_t id;
    struct channel *waiting, *given;
    int idle_calls, accepted;
};

struct registration {
    void *data;
    size_t size;
};

/* Guards everything the comms share. */
extern pthread_mutex_t ref_lock;

/* load.c */
ncclResult_t ref_refuse(const char *why); /* logs, ncclInvalidUsage */
void ref_nap(void);
void ref_leave_thread(void);
_Noreturn void ref_hang(void);
ncclResult_t ref_init(ncclDebugLogger_t logger);

/* device.c */
ncclResult_t ref_devices(int *ndev);
ncclResult_t ref_properties_v8(int dev, ncclNetProperties_v8_t *p);
ncclResult_t ref_properties_v9(int dev, ncclNetProperties_v9_t *p);

/* connect.c */
ncclResult_t ref_listen(int dev, void *handle, void **comm);
ncclResult_t ref_connect(void *handle, void **comm, void **device_handle);
ncclResult_t ref_accept(void *listen, void **comm, void **device_handle);
ncclResult_t ref_close_listen(void *listen);
ncclResult_t ref_close(void *comm);

/* register.c */
ncclResult_t ref_reg(void *comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t ref_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                            void **mhandle);
ncclResult_t ref_dereg(void *comm, void *mhandle);
void *ref_offset(void *data, void *mhandle);

/* match.c, under the lock. */
struct request *ref_take(struct comm *comm, enum kind kind);
struct request *ref_oldest(struct comm *comm);
/* Gives waiting messages to posted receives as far as the tags allow. */
void ref_progress(struct channel *channel);
void ref_drop_messages(struct channel *channel);
void ref_push(struct channel *channel, struct message *m);
/* Whether the request is the next to complete in the order one fault imposes on all comms. */
int ref_first_of_all(const struct request *r);
void ref_forget(const struct request *r);

/* transfer.c */
ncclResult_t ref_isend(struct comm *comm, void *data, size_t size, int tag, void *mhandle,
                       void **request);
ncclResult_t ref_irecv(struct comm *comm, int n, void **data, const size_t *sizes, const int *tags,
                       void **mhandles, void **request);
ncclResult_t ref_test(void *request, int *done, int *sizes);

/* shapes.c: the same, as the versions declare them. */
ncclResult_t ref_init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t ref_connect_v8(int dev, void *handle, void **comm, ncclNetDeviceHandle_v8_t **dh);
ncclResult_t ref_connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                             ncclNetDeviceHandle_v10_t **dh);
ncclResult_t ref_accept_v8(void *listen, void **comm, ncclNetDeviceHandle_v8_t **dh);
ncclResult_t ref_isend_v8(void *comm, void *data, int size, int tag, void *mhandle, void **request);
ncclResult_t ref_isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void **request);
ncclResult_t ref_isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void *phandle, void **request);
ncclResult_t ref_irecv_v8(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                          void **request);
ncclResult_t ref_irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
                          void **request);
ncclResult_t ref_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
                           void **mhandles, void **phandles, void **request);
ncclResult_t ref_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                        void **request);

#endif
