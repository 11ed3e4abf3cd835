/* Between the sources of a crew: one row a way to a host. */
#ifndef MN_CREW_IMPL_H
#define MN_CREW_IMPL_H

#include "fleet/crew.h"
#include "fleet/errand.h"

#define MN_CREW_CONNECT_MS 10000

struct mn_crew_host {
    struct mn_crew *crew;
    const char *name;
    const struct mn_crew_ops *ops;
    int pending;     /* nobody has looked there yet */
    int reached;     /* something there answered */
    enum mn_err err; /* why it cannot be asked, with diag */
    struct mn_diag diag;
    char address[MN_ADDR_TEXT]; /* where it is reached instead of by its name, "" = not */
    char program[512];          /* of ssh: meshnet there */
    struct mn_errand keeper;    /* of ssh: holds the copy, its connection ends it */
    int copied;
};

struct mn_crew {
    char mark[24]; /* of this crew alone */
    struct mn_crew_plan plan;
    struct mn_crew_host *hosts;
    size_t n;
};

struct mn_crew_ops {
    /* Looks whether the pending hosts that go this way can be asked: fills err and diag of each. */
    void (*open)(struct mn_crew *crew);
    /* In a process of its own, with the question on standard input: writes what mn_node_stream
     * does, or becomes something that does. Returns its exit code. */
    int (*ask)(struct mn_crew_host *host, const struct mn_node_verb *verb);
    /* The process ended with status: MN_OK when the way has no part in it. */
    enum mn_err (*judge)(const struct mn_crew_host *host, const struct mn_errand *errand,
                         struct mn_diag *diag);
    /* Before each question: mends what was lost since. NULL = nothing is to be done. */
    void (*renew)(struct mn_crew *crew);
    void (*close)(struct mn_crew *crew); /* NULL = nothing is to be done */
    int stays; /* its process is the verb's own: one that changes the host is never ended */
};

extern const struct mn_crew_ops mn_crew_here, mn_crew_ssh, mn_crew_agents;

/* This program's file. */
void mn_crew_own_program(char *path, size_t size);
/* What the host has failed of, with its name before. Returns err. */
enum mn_err mn_crew_host_fail(struct mn_crew_host *host, enum mn_err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Something for people. */
void mn_crew_say(const struct mn_crew_host *host, const char *text);

#endif
