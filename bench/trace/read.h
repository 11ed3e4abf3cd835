/* Reads traces. What a file holds is checked before it is believed. */
#ifndef MN_TRACE_READ_H
#define MN_TRACE_READ_H

#include <stddef.h>

#include "bench/trace/format.h"
#include "topo/base/err.h"

struct mn_trace {
    struct mn_trace_head head; /* its texts end */
    const struct mn_trace_record *records;
    size_t n; /* up to the last one written */
    void *map;
    size_t size;
};

#define MN_TRACE_FILE_MAX                                                                          \
    (sizeof(struct mn_trace_head) + (size_t)MN_TRACE_MOST * sizeof(struct mn_trace_record))

/* MN_ERR_CONFIG, with what was expected, for a file that is no trace of this machine's byte order.
 */
enum mn_err mn_trace_read(const char *path, struct mn_trace *trace, struct mn_diag *diag);
void mn_trace_free(struct mn_trace *trace);

/* A record, with small numbers in the place of addresses: of connections (and listens) in the order
 * in which they were made, of requests in the order in which they were posted. 0 = none. */
struct mn_trace_event {
    const struct mn_trace_record *record;
    uint32_t comm, request;
};

/* Calls visit for each record that was written, in the file's order. */
void mn_trace_walk(const struct mn_trace *trace,
                   void (*visit)(void *ctx, const struct mn_trace_event *event), void *ctx);

struct mn_trace_calls { /* of one kind */
    uint64_t calls, failed;
    double p50_us, p99_us, max_us; /* a call */
};

struct mn_trace_comm {
    enum mn_trace_op op; /* that made it: connect sends, accept receives */
    uint64_t messages, bytes, smallest, largest;
    uint64_t posted;      /* size of the largest buffer that was posted */
    uint32_t outstanding; /* most at once */
    uint32_t group;       /* most receives of a request */
    uint64_t first_ns, last_ns;
};

#define MN_TRACE_SIZES 41 /* 0, 1, 2..3, 4..7, …: by the number of bits */

struct mn_trace_stats {
    struct mn_trace_calls calls[MN_TRACE_N_OPS];
    struct mn_trace_comm *comms; /* by number less one */
    size_t n_comms;
    uint64_t sends[MN_TRACE_SIZES],
        receives[MN_TRACE_SIZES]; /* sizes of sends; what receives got */
    uint32_t threads;
    uint64_t empty, last_ns;
};

void mn_trace_stats(const struct mn_trace *trace, struct mn_trace_stats *stats);
void mn_trace_stats_free(struct mn_trace_stats *stats);

#endif
