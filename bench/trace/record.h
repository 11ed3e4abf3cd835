/* Writes a trace. Every thread may record; a record costs no system call but one for each piece of
 * the file. */
#ifndef MN_TRACE_RECORD_H
#define MN_TRACE_RECORD_H

#include "bench/trace/format.h"
#include "topo/base/err.h"

/* %h in the path is the host's name, %p the process number; NULL: "meshtrace.%h.%p". Refuses a file
 * that is there. */
enum mn_err mn_trace_open(const char *path, struct mn_diag *diag);
/* What the head says of the plugin. */
void mn_trace_describe(const char *plugin, const char *hash, int version);
/* Cuts the file to what was written and ends the thread that makes room ahead of the calls; nothing
 * is recorded until mn_trace_begin. One thread at a time. */
void mn_trace_end(void);
void mn_trace_begin(void);

/* Nanoseconds since the trace began. */
uint64_t mn_trace_now(void);
/* Room for n records that follow each other, to be filled; op last, by mn_trace_put. NULL when the
 * trace is closed or full. thread, start_ns and took_ns are filled. */
struct mn_trace_record *mn_trace_take(int n, uint64_t start_ns);
void mn_trace_put(struct mn_trace_record *record, enum mn_trace_op op);
/* A call that found nothing to do. */
void mn_trace_empty(void);

#endif
