/* Judges a network plugin by the rules NCCL and RCCL rely on. Every rule runs in a process of its
 * own with a time limit: a plugin that crashes or hangs fails a rule, never the caller. Rules are
 * rows: one file a family under bench/check/. Prints nothing. */
#ifndef MN_CHECK_H
#define MN_CHECK_H

#include <stddef.h>

#include "topo/base/err.h"

#define MN_CHECK_LOG_LINES 8

struct mn_check; /* what a running rule sees: bench/check/rule.h */

struct mn_check_rule {
    const char *id;    /* "family.rule" */
    const char *title; /* what must hold, a few words */
    const char *needs; /* what the API requires, one sentence, with the NCCL source it comes from */
    void (*run)(struct mn_check *check);
};

struct mn_check_family {
    const char *name;
    const char *title;
    const struct mn_check_rule *rules;
    size_t n_rules;
};

/* In the order they run, NULL-terminated. */
extern const struct mn_check_family *const mn_check_families[];

enum mn_check_status { MN_CHECK_PASS, MN_CHECK_WARN, MN_CHECK_FAIL, MN_CHECK_SKIP };
const char *mn_check_status_name(enum mn_check_status status); /* "pass", "warn", … */

struct mn_check_result {
    enum mn_check_status status;
    char seen[1024]; /* what happened, one line */
    char step[256];  /* the last step the rule reached */
    int signal;      /* that killed it, 0 = none */
    int timed_out;
    unsigned ms;
    int n_log; /* the plugin's own warnings while the rule ran */
    char log[MN_CHECK_LOG_LINES][512];
};

struct mn_check_target {
    char path[4096];   /* given to dlopen */
    int version;       /* ABI version to drive, 0 = newest known here */
    unsigned limit_ms; /* per rule */
};

struct mn_check_info {
    char path[4096];    /* as the loader resolved it; empty when it did not load */
    char name[256];     /* of the vtable driven, made printable; empty when there is none */
    char versions[128]; /* every ABI version exported, newest first: "v10 v9 v8" */
    int version;        /* driven, 0 = none */
};

/* Looks at the library in a child process. MN_ERR_NOTFOUND: no such file; MN_ERR_USAGE: not a
 * shared library of this machine, or it lacks target->version. A library that fails to load, or has
 * no plugin symbol, is MN_OK: the load rules report it. */
enum mn_err mn_check_probe(const struct mn_check_target *target, struct mn_check_info *info,
                           struct mn_diag *diag);

/* MN_OK whatever the verdict; an error only when no child could be run. */
enum mn_err mn_check_run(const struct mn_check_rule *rule, const struct mn_check_target *target,
                         struct mn_check_result *result, struct mn_diag *diag);

/* Whether "id" or "family" names this rule. */
int mn_check_matches(const struct mn_check_family *family, const struct mn_check_rule *rule,
                     const char *name);

#endif
