/* What a rule may use. A rule runs in its own process: it states steps, and ends by returning
 * (pass) or through one of the verdicts below, which do not return. Nothing needs freeing. */
#ifndef MN_CHECK_RULE_H
#define MN_CHECK_RULE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/check.h"
#include "bench/check/profile.h"
#include "bench/check/raw.h"
#include "bench/host/tuner.h"

struct mn_check {
    const struct mn_check_target *target;
    const struct mn_check_rule *rule;
    uint64_t random; /* state of mn_check_random */
    struct mn_check_shared *shared;
    pid_t pid;                 /* the process that runs the rule */
    int second;                /* that is one mn_check_fork made */
    pid_t other;               /* the last such on this host */
    uint64_t deadline_ns;      /* waits end here with a verdict, before the parent's limit */
    struct mn_raw raw;         /* after mn_check_load */
    struct mn_tuner tuner;     /* after mn_check_load_tuner */
    int n_dev;                 /* after mn_check_init */
    int n_dev_there;           /* the same at the end that connects, which may be elsewhere */
    struct mn_raw_props props; /* of device 0, after mn_check_init */
};

extern const struct mn_check_family mn_check_load_family, mn_check_device_family,
    mn_check_connect_family, mn_check_memory_family, mn_check_transfer_family,
    mn_check_group_family, mn_check_request_family, mn_check_visible_family, mn_check_thread_family,
    mn_check_handshake_family, mn_check_deliver_family, mn_check_close_family,
    mn_check_context_family, mn_check_life_family, mn_check_death_family, mn_check_idle_family,
    mn_check_scenario_family, mn_check_collnet_family, mn_check_wear_family, mn_check_guest_family,
    mn_check_leave_family, mn_check_tuner_family;

#define MN_CHECK_FAMILY(var, family_name, family_title, rows)                                      \
    MN_CHECK_FAMILY_AS(var, family_name, family_title, rows, 0, MN_CHECK_NET)
#define MN_CHECK_FAMILY_TWICE(var, family_name, family_title, rows)                                \
    MN_CHECK_FAMILY_AS(var, family_name, family_title, rows, 1, MN_CHECK_NET)
#define MN_CHECK_FAMILY_AS(var, family_name, family_title, rows, run_twice, of)                    \
    const struct mn_check_family var = {.name = (family_name),                                     \
                                        .title = (family_title),                                   \
                                        .rules = (rows),                                           \
                                        .n_rules = sizeof(rows) / sizeof *(rows),                  \
                                        .twice = (run_twice),                                      \
                                        .interface = (of)}

/* Where the rule is now; named when the plugin crashes or hangs here. */
void mn_check_step(struct mn_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Shown beside a pass. */
void mn_check_note(struct mn_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void mn_check_fail(struct mn_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void mn_check_warn(struct mn_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void mn_check_skip(struct mn_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* As returning from the rule does. */
_Noreturn void mn_check_pass(struct mn_check *check);
/* A second process of the rule, as fork(); it may use the verdicts too, and the first one counts.
 * It ends with _exit() or a verdict, at the latest with the first process. */
pid_t mn_check_fork(struct mn_check *check);

/* The rule's only source of chance: the target's seed and the rule's id decide every value, so that
 * --seed replays. A rule that calls it carries MN_CHECK_RANDOM. For one thread at a time. */
uint64_t mn_check_random(struct mn_check *check);
/* 0 … bound - 1, bound > 0. */
uint64_t mn_check_below(struct mn_check *check, uint64_t bound);

/* Whether the release to behave like does this; without a profile some release always does. */
int mn_check_dialect(const struct mn_check *check, unsigned dialect);

uint64_t mn_check_now_ns(void);
int mn_check_expired(const struct mn_check *check);
/* Between two looks of a wait that mn_check_expired bounds: gives the processor away, and sleeps
 * up to 4 ms once the rule's calls have long brought nothing. For any thread. */
void mn_check_pause(const struct mn_check *check);

/* Loads the library; a failure is a skip that names the rule which reports it. */
void mn_check_open(struct mn_check *check);
/* The same, and finds the vtable; a failure is a skip that names the rule which reports it.
 */
void mn_check_load(struct mn_check *check);
/* mn_check_load, init, devices, properties of device 0. */
void mn_check_init(struct mn_check *check);
/* mn_check_open, and finds the tuner's vtable; the same of a failure. */
void mn_check_load_tuner(struct mn_check *check);
/* Initialises what the library exports, net plugin and tuner. */
void mn_check_init_all(struct mn_check *check);
/* What the plugin says as a warning while the rule runs is kept for its report. */
ncclDebugLogger_t mn_check_logger(void);
/* Fails with "CALL returned ncclSystemError" unless result is success. */
void mn_check_ok(struct mn_check *check, const char *call, int result);

#endif
