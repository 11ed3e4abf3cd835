/* A receiver whose owner has all that he asked for, and waits elsewhere, answers nothing that its
 * sender asks about links: two ranks that both wait for what they have sent would do so for good.
 * The thread of attend.h answers then; the peer's word on the control connection wakes it, on which
 * nothing is said while all links are well. */
#include <string.h>

#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define CALLED_MS 20 /* whoever calls looks himself; he may not call again */
#define MOVES_MS  2  /* between looks at a link on its way out or in */

/* The answer is not complete yet, and nothing will wake who waits for it. */
static int is_moving(const struct verbs_comm *comm)
{
    if (mn_reopen_is_done(comm->reopen) ||
        (comm->control.fd >= 0 && (comm->unheard || comm->control.tx_len)) ||
        (comm->due && comm->n_away < comm->n_links))
        return 1;
    for (int i = 0; i < comm->n_links; i++) {
        const struct verbs_recovery *r = &comm->links[i].recovery;
        if (r->state == VERBS_FENCED || r->state == VERBS_JOINING || r->broken ||
            (r->say && comm->control.fd >= 0))
            return 1;
    }
    return 0;
}

static unsigned look(struct mn_attended *attended)
{
    struct verbs_comm *comm =
        (struct verbs_comm *)((char *)attended - offsetof(struct verbs_comm, attended));

    if (verbs_error(comm) || comm->peer_closed || comm->ended_ms)
        return 0;
    if (attended->calls != attended->seen)
        return comm->looked_ms > attended->woken_ms && !is_moving(comm) ? 0 : CALLED_MS;
    /* Nobody waits here, so that nothing is late. */
    comm->idle = 0;
    enum mn_err err = verbs_recv_progress(comm);
    if (!err)
        err = verbs_look(comm);
    if (!err)
        err = verbs_recv_progress(comm); /* announcements that the look has made due */
    comm->idle = 0;
    /* Of the connection's end the owner learns by his own looks, between which he polls. */
    int ended = comm->ended_ms != 0;
    comm->ended_ms = 0;
    return !err && !ended && is_moving(comm) ? MOVES_MS : 0;
}

/* A sender only opens it again, so that a receiver can say what it needs of him, and waits for it
 * as for a process that makes no call. */
static int is_watched(const struct verbs_comm *comm)
{
    return comm->failover && !comm->config->hop;
}

void verbs_attend_watch(struct verbs_comm *comm)
{
    if (comm->base.is_send && is_watched(comm))
        mn_reopen_watch(comm->reopen, comm->control.fd);
    if (!comm->attended.joined)
        return;
    int error = mn_attend_watch(&comm->attended, comm->control.fd);
    char who[VERBS_WHO];

    if (error)
        MN_WARN("%s: what the peer says of links cannot be waited for (%s): it is heard with the "
                "next call",
                verbs_name(comm, -1, who), strerror(error));
}

void verbs_attend_join(struct verbs_comm *comm)
{
    char who[VERBS_WHO];

    comm->attended.look = look;
    if (!comm->base.is_send && is_watched(comm) &&
        !mn_attend_join(&comm->attended, verbs_name(comm, -1, who)))
        mn_reopen_wakes(comm->reopen, &comm->attended);
    verbs_attend_watch(comm);
}

void verbs_attend_leave(struct verbs_comm *comm)
{
    if (comm->attended.joined)
        mn_reopen_wakes(comm->reopen, NULL);
    mn_attend_leave(&comm->attended);
}
