/* Judges a network plugin by the rules NCCL and RCCL rely on. Every rule runs in a process of its
 * own with a time limit: a plugin that crashes or hangs fails a rule, never the caller. Rules are
 * rows: one file a family under bench/check/. Prints nothing. */
#ifndef MN_CHECK_H
#define MN_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "topo/base/err.h"

#define MN_CHECK_LOG_LINES 8
#define MN_CHECK_VERSIONS  16

struct mn_check_far;
struct mn_check_profile;
struct mn_check; /* what a running rule sees: bench/check/rule.h */

/* What a rule that does not hold means, however it shows: a failure, a warning, a note.
 *   must    some release of NCCL or RCCL breaks, hangs or computes wrong: evidence names the call,
 *           and profile the release in which it is made. What NCCL's own transports do otherwise
 *           is must only where a call is named that breaks by it.
 *   should  users suffer
 *   style   neither was seen */
enum mn_check_grade { MN_CHECK_MUST, MN_CHECK_SHOULD, MN_CHECK_STYLE };
const char *mn_check_grade_name(enum mn_check_grade grade); /* "must", … */

enum mn_check_flags {
    MN_CHECK_RANDOM = 1, /* draws from mn_check_random: another seed is another run */
    MN_CHECK_ALONE = 2,  /* looks at time or CPU: no other rule runs meanwhile */
    MN_CHECK_SLOW = 4,   /* moves so much that its time limit is ten times the usual */
    MN_CHECK_PEER = 8,   /* has a second process, which may run on another machine */
    MN_CHECK_ENDS =
        16, /* the ends of its connections may be in two processes, or on two machines */
    /* Waits as long as the plugin does, which may be half a minute: four times the usual limit, and
     * no part of a run in which nobody asked for it. */
    MN_CHECK_PATIENT = 32,
    /* Uses what most others use, and runs before them: what it waits for in vain, the others need
     * not wait for. */
    MN_CHECK_FIRST = 64,
    MN_CHECK_GATE = 128, /* when it fails, nothing else can be judged */
    MN_CHECK_ANY = 256,  /* says something of a library that has no net plugin, too */
};

struct mn_check_rule {
    const char *id;    /* "family.rule" */
    const char *title; /* what must hold, a few words */
    const char *needs; /* what the API requires, one sentence */
    void (*run)(struct mn_check *check);
    enum mn_check_grade grade;
    const char *profile;  /* of must: a release that makes the call of the evidence (profile.h) */
    const char *evidence; /* of must: "RELEASE FILE, FUNCTION: what it does"; else who suffers */
    const char *breaks;   /* what a job does when it does not hold, one sentence */
    unsigned flags;
    const char *here; /* why it does not run on two machines, where others of its family do */
    int since, until; /* ABI versions it applies to, 0 = no bound; else it is skipped */
    unsigned dialect; /* enum mn_check_dialect: only releases that do this are concerned; 0 = all */
};

/* Whether the rule says anything about plugins driven through this ABI version. */
int mn_check_applies(const struct mn_check_rule *rule, int version);

/* What of a library a family is about. Each has version numbers of its own: "version" is of the
 * family's interface wherever a rule or a job is meant. */
enum mn_check_interface { MN_CHECK_NET, MN_CHECK_TUNER };

struct mn_check_family {
    const char *name;
    const char *title;
    const struct mn_check_rule *rules;
    size_t n_rules;
    int twice; /* by default, those with MN_CHECK_ENDS once more with their ends in two processes */
    enum mn_check_interface interface;
};

/* In the order they run, NULL-terminated. */
extern const struct mn_check_family *const mn_check_families[];

enum mn_check_status {
    MN_CHECK_PASS,
    MN_CHECK_WARN,
    MN_CHECK_FAIL,
    MN_CHECK_SKIP,
    MN_CHECK_NOTE,
    MN_CHECK_N_STATUS
};
const char *mn_check_status_name(enum mn_check_status status); /* "pass", "warn", … */

/* Why a rule was left without a verdict; its status is skip then. */
enum mn_check_left {
    MN_CHECK_LEFT_NOT,
    MN_CHECK_LEFT_SAME,   /* waits for what others waited for in vain */
    MN_CHECK_LEFT_GATE,   /* the library does not load */
    MN_CHECK_LEFT_ENOUGH, /* the plan had enough */
    MN_CHECK_LEFT_TIME,   /* the plan's time was over */
};

struct mn_check_result {
    enum mn_check_status status;
    enum mn_check_left left;
    char seen[1024]; /* what happened, one line */
    char step[256];  /* the last step the rule reached */
    int signal;      /* that killed it, 0 = none */
    int timed_out;
    unsigned ms;
    uint64_t seed; /* it ran with */
    unsigned runs; /* more than 1 under stress */
    int n_log;     /* the plugin's own warnings while the rule ran */
    char log[MN_CHECK_LOG_LINES][512];
};

struct mn_check_target {
    char path[4096];   /* given to dlopen */
    int version;       /* of the interface to drive, 0 = newest known here */
    unsigned limit_ms; /* per rule */
    uint64_t seed;     /* with the rule's id, all that its random choices depend on */
    const struct mn_check_profile *profile; /* the release to behave like, or NULL (profile.h) */
    const struct mn_check_far *far;         /* where second processes run, NULL = here (far.h) */
    const char *const *traces;              /* of the processes of a job, for scenario.trace */
    int n_traces;
    int two;       /* the ends of a rule's connections are in two processes of this host */
    int second_fd; /* this is the second process and hears of the first by it; 0 = the first */
};

struct mn_check_info {
    char path[4096];    /* as the loader resolved it; empty when it did not load */
    char name[256];     /* of the vtable driven, made printable; empty when there is none */
    char versions[128]; /* every ABI version exported, newest first: "v10 v9 v8" */
    int version;        /* driven, 0 = none */
    int driven[MN_CHECK_VERSIONS]; /* exported and known here, newest first, 0-terminated */
    /* The same of its tuner; empty when it has none. */
    char tuner_name[256], tuner_versions[64];
    int tuner_driven[MN_CHECK_VERSIONS];
};

/* Whether it has a tuner and no net plugin, or a name under which NCCL looks for nothing else. */
int mn_check_only_tuner(const struct mn_check_info *info);

/* Looks at the library in a child process. MN_ERR_NOTFOUND: no such file; MN_ERR_USAGE: not a
 * shared library of this machine, or it lacks target->version. A library that fails to load, or has
 * no plugin symbol, is MN_OK: the load rules report it. */
enum mn_err mn_check_probe(const struct mn_check_target *target, struct mn_check_info *info,
                           struct mn_diag *diag);

/* MN_OK whatever the verdict; an error only when no child could be run. */
enum mn_err mn_check_run(const struct mn_check_rule *rule, const struct mn_check_target *target,
                         struct mn_check_result *result, struct mn_diag *diag);

struct mn_check_job {
    const struct mn_check_family *family;
    const struct mn_check_rule *rule;
    int version; /* 0 = the target's */
    int two;     /* as the target's */
    struct mn_check_result result;
};

struct mn_check_plan {
    const struct mn_check_target *target;
    unsigned parallel;  /* rules at once; those with MN_CHECK_ALONE run by themselves */
    unsigned waiting;   /* the same once most of them only wait, if that is more */
    unsigned stress_ms; /* each rule again, with the next seed, until then or until it fails */
    unsigned total_ms;  /* what is not judged by then is skipped; 0 = no bound */
    /* Whether the rest need not run after this result; may be NULL. */
    int (*enough)(void *ctx, const struct mn_check_job *job);
    /* Called for each job in order, as soon as it and all before it are done; may be NULL. */
    void (*done)(void *ctx, const struct mn_check_job *job);
    void *ctx;
};

/* Fills the jobs' results. Holds SIGCHLD back meanwhile, and leaves no process behind. */
enum mn_err mn_check_run_all(const struct mn_check_plan *plan, struct mn_check_job *jobs, size_t n,
                             struct mn_diag *diag);

/* Whether "id" or "family" names this rule. */
int mn_check_matches(const struct mn_check_family *family, const struct mn_check_rule *rule,
                     const char *name);

#endif
