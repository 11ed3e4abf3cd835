/* A recorded trace: a head, then records of one size in the order in which calls ended (nearly: of
 * several threads each writes its own). In the machine's own byte order; a reader of another one
 * refuses. */
#ifndef MN_TRACE_FORMAT_H
#define MN_TRACE_FORMAT_H

#include <stdint.h>

#define MN_TRACE_MAGIC  "MNTRACE1"
#define MN_TRACE_ENDIAN 0x01020304u
#define MN_TRACE_MOST   (4u << 20) /* records */

/* Name, and what a, b and c of the record are; "" = nothing. */
#define MN_TRACE_OPS(X)                                                                            \
    X(NONE, "", "", "", "")                                                                        \
    X(INIT, "init", "context", "", "")                                                             \
    X(FINALIZE, "finalize", "context", "", "")                                                     \
    X(DEVICES, "devices", "count", "", "")                                                         \
    X(PROPERTIES, "properties", "device", "", "")                                                  \
    X(LISTEN, "listen", "comm", "handle", "device")                                                \
    X(CONNECT, "connect", "comm", "handle", "device")                                              \
    X(ACCEPT, "accept", "comm", "listen", "")                                                      \
    X(REG_MR, "regMr", "comm", "data", "mhandle")                                                  \
    X(DEREG_MR, "deregMr", "comm", "mhandle", "")                                                  \
    X(ISEND, "isend", "comm", "data", "request")                                                   \
    X(IRECV, "irecv", "comm", "data", "request")                                                   \
    X(PART, "part", "comm", "data", "request") /* a further receive of the irecv before it */      \
    X(IFLUSH, "iflush", "comm", "data", "request")                                                 \
    X(DONE, "test", "request", "", "") /* that found the request done, or failed */                \
    X(CLOSE_SEND, "closeSend", "comm", "", "")                                                     \
    X(CLOSE_RECV, "closeRecv", "comm", "", "")                                                     \
    X(CLOSE_LISTEN, "closeListen", "comm", "", "")

enum mn_trace_op {
#define X(op, name, a, b, c) MN_TRACE_##op,
    MN_TRACE_OPS(X)
#undef X
        MN_TRACE_N_OPS
};

struct mn_trace_head {
    char magic[8];
    uint32_t endian, record_size;
    uint64_t wall_ns;     /* CLOCK_REALTIME and */
    uint64_t started_ns;  /* CLOCK_MONOTONIC when the trace began */
    int32_t pid, version; /* version: of the ABI by which the plugin was driven */
    uint64_t lost;        /* records that did not fit, written at the end */
    char host[64], plugin[256], hash[72];
    char spare[512 - 8 - 8 - 16 - 8 - 8 - 64 - 256 - 72];
};

struct mn_trace_record {
    uint8_t op;        /* enum mn_trace_op; NONE: never written, the process ended there */
    uint8_t count;     /* irecv, iflush: buffers */
    int16_t result;    /* ncclResult_t */
    uint32_t thread;   /* from 1 on, in the order of their first calls */
    uint64_t start_ns; /* since the head's */
    uint32_t took_ns;
    /* Calls that found nothing to do since this thread's last record: tests that were not done,
     * connects and accepts without a comm, sends and receives without a request. */
    uint32_t empty;
    int32_t tag, type; /* type: of the registered memory */
    uint64_t size;
    uint64_t a, b, c;
};

_Static_assert(sizeof(struct mn_trace_head) == 512, "head of a trace");
_Static_assert(sizeof(struct mn_trace_record) == 64, "record of a trace");

extern const struct mn_trace_name {
    const char *name, *fields[3];
} mn_trace_names[MN_TRACE_N_OPS];

#endif
