/* Ranks that a running meshnet serve starts for a client who has its token. The rank is this
 * program's bench with options out of a short list, none of which names a file of that host; its
 * rank 0 is at the client's address. What it writes and its exit code come back over the control
 * connection, and it ends with that. */
#ifndef MN_AGENT_H
#define MN_AGENT_H

#include "fleet/ctl.h"
#include "fleet/lines.h"

#define MN_AGENT_WORDS 256

struct mn_agent_rank {
    int rank, nranks;
    uint16_t port;            /* where rank 0 listens, at this host's end of the connection */
    const char *const *words; /* of the command line, after "meshnet bench" */
    size_t n_words;
};

/* The client's side, authenticated: returns when the rank has ended. line gets its output, fit
 * to be shown, which: 1 = standard output, 2 = standard error. */
enum mn_err mn_agent_run(struct mn_ctl *ctl, const struct mn_agent_rank *rank, mn_line_fn line,
                         void *ctx, int *code, struct mn_diag *diag);

/* Whether a client's first message asks for a rank. */
int mn_agent_asked(const cJSON *first);
/* serve's side, in the client's own process: first is that message, plugin the library the rank is
 * to load. Returns when the rank or the connection has ended, with no process left. */
enum mn_err mn_agent_serve(struct mn_ctl *ctl, const cJSON *first, const uint8_t token[MN_KEY_SIZE],
                           const char *plugin, struct mn_diag *diag);

#endif
