/* What a driver's process has, and how long its calls take. */
#ifndef MN_TRAFFIC_WATCH_H
#define MN_TRAFFIC_WATCH_H

#include <stdint.h>

enum wt_call {
    WT_LISTEN,
    WT_CONNECT,
    WT_ACCEPT,
    WT_REGISTER,
    WT_ISEND,
    WT_IRECV,
    WT_TEST,
    WT_CLOSE,
    WT_N_CALLS
};

/* --- the time of calls, of one thread --- */
void wt_begin(void);
/* Now and then: what it waited for a processor until here is no later call's. */
void wt_look(void);
double wt_now(void);
/* Of a call begun at wt_now(). One that is longer than any before, and long, is told at once. */
void wt_took(enum wt_call call, double since);
/* "longest CALL MS" of each that was called. */
void wt_say(void);

/* --- what there is --- */
enum wt_thing {
    WT_DESCRIPTORS,
    WT_THREADS,
    WT_QPS, /* from here on of the double of libibverbs, where that is what is loaded */
    WT_CQS,
    WT_MRS,
    WT_CHANNELS,
    WT_N_THINGS
};
extern const char *const wt_things[WT_N_THINGS];

void wt_count(uint64_t things[WT_N_THINGS]);
void wt_list(void); /* the descriptors, on stderr */
uint64_t wt_rss_kib(void);
/* Writes that found no receive request, by the double; 0 without it. */
uint64_t wt_rnr(void);

#endif
