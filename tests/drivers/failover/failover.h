/* What the files of the scenario runner share; tests/drivers/failover.c says what it does. All
 * times are of the runner's own clock, which stands still unless it is moved. */
#ifndef MN_FAILOVER_H
#define MN_FAILOVER_H

#include <stdatomic.h>
#include <stdint.h>

#include "bench/host.h"

#define FO_LINKS  3
#define FO_FLOWS  2
#define FO_GROUPS 60
#define FO_DEPTH  6 /* groups under way */
#define FO_EVENTS 48
#define FO_LINES  12
#define FO_BOUND  240000 /* ms in which nothing is done, which is too long */

/* --- clock.c --- */
void fo_clock_begin(void); /* in each process of its own, before a library is opened */
uint64_t fo_now_ms(void);
void fo_clock_freeze(int frozen); /* when not frozen it goes as the real one */
void fo_clock_add(uint64_t us);
/* Waits until the other threads of this process sleep, in real time, with a bound. */
void fo_settle(void);
void fo_forget_threads(void); /* closes what it keeps open for that */
uint64_t fo_real_ms(void);
int fo_count(const char *directory);
int fo_threads(void);

/* --- the double --- */
void fo_double_open(void);
uint64_t fo_counter(const char *name);
void fo_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct fo_rng {
    uint64_t state;
};
uint64_t fo_below(struct fo_rng *rng, uint64_t n);
uint64_t fo_mix(uint64_t x);

/* --- faults.c: what happens, one after the other --- */
enum fo_when { FO_STEPS, FO_MS, FO_FLUSHED, FO_MADE }; /* ... a queue pair fails; is made */
enum fo_act { FO_DOUBLE, FO_CUT };                     /* settings; control connections end */
struct fo_event {
    enum fo_when when;
    uint64_t after; /* steps or ms since the event before; or steps since it could be */
    enum fo_act act;
    char settings[160];
};

struct fo_plan;
struct fo_class {
    const char *name;
    void (*plan)(struct fo_plan *plan);
    int spares;  /* one link is left alone: with failover nothing may fail */
    int returns; /* about links that come back: what is sent last waits for them always */
};
struct fo_plan {
    struct fo_rng rng;
    int links, spared; /* spared: the link that is left alone, -1: none */
    struct fo_event events[FO_EVENTS];
    int n;
};
extern const struct fo_class fo_classes[]; /* ends with a NULL name */

/* --- scene.c --- */
struct fo_end { /* a library as if of a node of its own, whose threads warn, too */
    struct mn_plugin *plugin;
    char lines[FO_LINES][512]; /* the last warnings */
    atomic_int n_lines;
    atomic_uint gone, back;  /* links, by what it warned of */
    _Atomic(uint64_t) again; /* bytes */
    atomic_uint links;       /* that connections were made with */
};
struct fo_options {
    int failover; /* 1 on: what has a link left must go on; 0 off; -1 as it is by itself: may fail
                   */
    int verbose, warming; /* warming: what stays is not looked at */
};
struct fo_result {
    char why[768]; /* "" when all was right */
    int failed;    /* flows that ended with an error, as they may */
    uint64_t messages, bytes;
    uint64_t gone, back, again; /* links that were given up and came back, counted at both ends;
                                   bytes that were sent again */
};
void fo_scene(struct fo_end ends[2], const struct fo_class *row, uint64_t seed,
              const struct fo_options *options, struct fo_result *result);

/* --- world.c: what the devices are like, the same for all seeds of a block --- */
#define FO_BLOCK 50
/* Whose a library is that is initialised now. */
void fo_be_node(uint64_t number);
void fo_world(uint64_t block, const struct fo_options *options);
struct fo_ways { /* of one scene, by the double's names */
    int delay, steps, linger, reorder, slowcq, noflush, timeout;
};
void fo_choose(struct fo_rng *rng, struct fo_ways *ways);
void fo_set_ways(uint64_t seed, const struct fo_ways *ways, int verbose);

#endif
