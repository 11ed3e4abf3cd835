/* Inside of bench/host. */
#ifndef MN_HOST_IMPL_H
#define MN_HOST_IMPL_H

#include <pthread.h>

#include "bench/host/slots.h"

struct mn_host_log;
struct mn_host_block;

/* A loaded library: what its communicators share. */
struct mn_host_library {
    void *handle;
    const void *table;
    const struct mn_host_version *version;
    struct mn_plugin_info info;
    struct mn_host_log *log;
    struct mn_host_block *block; /* of v4 */
    pthread_mutex_t lock;        /* init and finalize come one at a time */
    int users, initialised;      /* communicators; those that are initialised */
};

struct mn_plugin {
    struct mn_host_library *library;
    struct mn_host_slots slots;
    void *ctx; /* v11: the plugin's */
    int initialised;
    enum mn_host_mode mode;
    uint64_t comm_id;
    int traffic_class;
};

/* The provider that AWS builds for Neuron reuses v4 to v6 with other layouts under the name of the
 * one for GPUs; that has v7 and later too. */
enum mn_err mn_host_refuse(const struct mn_plugin_info *info, struct mn_diag *diag);

/* Sets mn_plugin_fault() and returns MN_HOST_BROKEN. */
int mn_host_broken(const char *what);

/* The logger that plugins call has no argument of ours: each library gets a function of its own. */
struct mn_host_log *mn_host_log_take(void *library);
void mn_host_log_give(struct mn_host_log *log, int unmapped);
void mn_host_log_set(struct mn_host_log *log, mn_plugin_log call, void *ctx);
ncclDebugLogger_t mn_host_log_function(const struct mn_host_log *log);

/* Blocking calls on threads of their own. key: the handle or the listen comm. */
struct mn_host_block *mn_host_block_new(void);
int mn_host_block_connect(struct mn_host_block *block, const struct mn_host_slots *slots, int dev,
                          void *handle, void **comm);
int mn_host_block_accept(struct mn_host_block *block, const struct mn_host_slots *slots,
                         void *listen, void **comm);
/* 1: an accept is under way, its thread closes listen after it. */
int mn_host_block_leave(struct mn_host_block *block, void *listen);
/* Leaves all; the last thread frees. */
void mn_host_block_end(struct mn_host_block *block);

/* For vN.c: the slots that never changed, and the fields of properties by the version that brought
 * them. */
#define MN_HOST_SLOTS(t)                                                                           \
    .devices = (t)->devices, .dereg = (t)->deregMr, .test = (t)->test,                             \
    .close_send = (t)->closeSend, .close_recv = (t)->closeRecv, .close_listen = (t)->closeListen

/* Room for a plugin that writes a longer struct than its version's. */
#define MN_HOST_PROPERTIES(T, name)                                                                \
    union {                                                                                        \
        char room[512];                                                                            \
        T p;                                                                                       \
    } name = {{0}}
#define MN_HOST_PROPERTIES_V4(out, in)                                                             \
    do {                                                                                           \
        (out)->net.name = (in).name;                                                               \
        (out)->net.pci_path = (in).pciPath;                                                        \
        (out)->net.guid = (in).guid;                                                               \
        (out)->net.ptr_support = (in).ptrSupport;                                                  \
        (out)->net.speed_mbps = (in).speed;                                                        \
        (out)->net.port = (in).port;                                                               \
        (out)->net.max_comms = (in).maxComms;                                                      \
    } while (0)
#define MN_HOST_PROPERTIES_V5(out, in)                                                             \
    do {                                                                                           \
        MN_HOST_PROPERTIES_V4(out, in);                                                            \
        (out)->net.latency_us = (in).latency;                                                      \
        (out)->net.max_recvs = (in).maxRecvs;                                                      \
    } while (0)
#define MN_HOST_PROPERTIES_V7(out, in)                                                             \
    do {                                                                                           \
        MN_HOST_PROPERTIES_V5(out, in);                                                            \
        (out)->device_type = (int)(in).netDeviceType;                                              \
        (out)->device_version = (in).netDeviceVersion;                                             \
    } while (0)
#define MN_HOST_PROPERTIES_V8(out, in)                                                             \
    do {                                                                                           \
        MN_HOST_PROPERTIES_V7(out, in);                                                            \
        (out)->net.reg_is_global = (in).regIsGlobal;                                               \
    } while (0)
#define MN_HOST_PROPERTIES_V9(out, in)                                                             \
    do {                                                                                           \
        int most = (int)(sizeof(in).vProps.devs / sizeof(int));                                    \
        MN_HOST_PROPERTIES_V8(out, in);                                                            \
        (out)->net.force_flush = (in).forceFlush;                                                  \
        (out)->net.max_p2p_bytes = (in).maxP2pBytes;                                               \
        (out)->net.max_coll_bytes = (in).maxCollBytes;                                             \
        (out)->n_devs = (in).vProps.ndevs < 0      ? 0                                             \
                        : (in).vProps.ndevs > most ? most                                          \
                                                   : (in).vProps.ndevs;                            \
        for (int i = 0; i < (out)->n_devs; i++)                                                    \
            (out)->devs[i] = (in).vProps.devs[i];                                                  \
    } while (0)
#define MN_HOST_PROPERTIES_V11(out, in)                                                            \
    do {                                                                                           \
        MN_HOST_PROPERTIES_V9(out, in);                                                            \
        (out)->net.max_multi_request_size = (in).maxMultiRequestSize;                              \
    } while (0)

#endif
