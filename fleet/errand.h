/* Processes that answer: a text on standard input, one back on standard output, lines on standard
 * error. Many at once, every wait bounded. */
#ifndef MN_ERRAND_H
#define MN_ERRAND_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "fleet/lines.h"
#include "topo/base/err.h"

#define MN_ERRAND_OUT (4u << 20) /* bytes on standard output */

enum mn_errand_end {
    MN_ERRAND_RAN,     /* see status */
    MN_ERRAND_SPOKE,   /* enough came, the process goes on */
    MN_ERRAND_LATE,    /* ended for its time was over */
    MN_ERRAND_STOPPED, /* ended, or not started, for everything is to end */
    MN_ERRAND_LONG,    /* ended for it wrote too much */
    MN_ERRAND_BROKEN,  /* could not be started: see last */
};

struct mn_errand {
    /* Runs in the process, streams in place; returns its exit code. NULL: this one is left out. */
    int (*body)(void *ctx);
    void (*line)(void *ctx, const char *text); /* of standard error; NULL = nobody cares */
    void *ctx;
    const char *text; /* for standard input, which ends with it unless enough is set */
    size_t size;
    unsigned ms;
    int until_fd; /* once it is readable all is to end; 0 = nothing is looked at */
    /* Whether what it wrote until now suffices: then it is done, and it and its input stay open.
     * NULL: never, and its input ends with the text. */
    int (*enough)(const void *ctx, const char *out);
    int stays; /* is never killed: when its time is over it is left alone */

    /* Afterwards. */
    enum mn_errand_end end;
    int status;     /* exit code; 128 and the signal's number */
    char *out;      /* terminated; mn_errand_free frees it */
    size_t used;    /* bytes of it */
    char last[256]; /* line of standard error, "" = none */

    /* Its own. */
    pid_t pid; /* 0 = has ended */
    int fds[3], begun, over, signals;
    size_t sent, room;
    double deadline;
    struct mn_lines lines;
};

/* Returns when each is done. Once *stop (may be NULL) is not 0, all that still run end. */
void mn_errands_run(struct mn_errand *errands, size_t n, const volatile sig_atomic_t *stop);
/* For those that spoke and go on: their input ends, and they have ms to end, too. */
void mn_errands_end(struct mn_errand *errands, size_t n, unsigned ms);
/* Of one that spoke: whether it still goes on. */
int mn_errand_goes_on(struct mn_errand *errand);
/* Kills what still runs. */
void mn_errand_free(struct mn_errand *errand);

#endif
