/* A link is given up while others are there: who decides, and what is done about it in turn. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define FLAPS      5 /* doublings of the time a link has to be steady for */
#define HOLD(s)    ((s) / 20)
#define STEADY(s)  (2 * (s)) /* up for so long: what was before is forgiven */
#define MUTE_TIMES 4

const char *const verbs_state_names[VERBS_STATES] = {"UP", "FENCED", "DOWN", "JOINING"};

int verbs_may_give_up(const struct verbs_comm *comm, int link)
{
    int others = comm->n_links - comm->n_away - !comm->links[link].recovery.away;

    return comm->failover && others > 0 && !comm->peer_closed && !comm->ended_ms;
}

/* New queue pairs would be of use, as far as this end knows. */
static int may_come(const struct verbs_link *link)
{
    return !link->recovery.dead && !verbs_is_lost(link) &&
           !atomic_load_explicit(&link->watch.port_down, memory_order_relaxed);
}

/* Nothing but new queue pairs helps the last link: it waits for them with those that are on their
 * way out, or back. */
static int others_may_come(const struct verbs_comm *comm, int i)
{
    for (int k = 0; k < comm->n_links; k++) {
        const struct verbs_recovery *r = &comm->links[k].recovery;
        if (k != i && (r->state != VERBS_UP || r->asked || r->broken || r->early) &&
            may_come(&comm->links[k]))
            return !comm->peer_closed && !comm->ended_ms;
    }
    return 0;
}

int verbs_may_lose(const struct verbs_comm *comm, int link)
{
    return comm->links[link].recovery.state == VERBS_JOINING || verbs_may_give_up(comm, link) ||
           others_may_come(comm, link);
}

void verbs_set_away(struct verbs_comm *comm, int i, int away)
{
    struct verbs_link *link = &comm->links[i];

    comm->n_away += away - link->recovery.away;
    link->recovery.away = (uint8_t)away;
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++)
        comm->ways[q].weight = away ? 0 : comm->full_weight[q];
}

int verbs_quiet(struct verbs_comm *comm, int i)
{
    struct verbs_link *link = &comm->links[i];
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    int error = 0;

    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++)
        if (comm->qps[q].qp)
            error |= link->device->ibv->modify_qp(comm->qps[q].qp, &to, IBV_QP_STATE);
    return !error;
}

void verbs_destroy(struct verbs_comm *comm, int i)
{
    struct verbs_link *link = &comm->links[i];

    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++) {
        if (comm->qps[q].qp)
            (void)link->device->ibv->destroy_qp(comm->qps[q].qp);
        comm->qps[q].qp = NULL;
    }
}

void verbs_retire(struct verbs_comm *comm, int i)
{
    struct verbs_link *link = &comm->links[i];

    if (link->recovery.state != VERBS_FENCED)
        verbs_destroy(comm, i); /* nothing is in their queues yet */
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++)
        comm->ways[q].outstanding = 0;
    link->pending = 0;
    link->recovery.dead |= verbs_is_lost(link);
}

/* --- going ------------------------------------------------------------------------------------ */

/* Twice as long each time that it goes soon after it came. */
static void hold_off(struct verbs_comm *comm, struct verbs_recovery *r, uint64_t now)
{
    unsigned first = HOLD(comm->config->settings.rdma_silence_ms), most = first << FLAPS;

    if (!r->hold_ms ||
        (r->up_ms && now - r->up_ms > STEADY(comm->config->settings.rdma_silence_ms)))
        r->hold_ms = first;
    else
        r->hold_ms = 2 * r->hold_ms < most ? 2 * r->hold_ms : most;
    r->steady_ms = 0;
}

void verbs_tell_gone(struct verbs_comm *comm, int i, uint64_t since_ms, uint64_t now)
{
    struct verbs_link *link = &comm->links[i];
    struct verbs_recovery *r = &link->recovery;
    char who[VERBS_WHO];

    if (link->outage.told_ms) {
        link->outage.told_ms = 0;
        comm->silent--;
    }
    if (r->told)
        return;
    r->told = 1;
    r->gone_ms = now;
    r->since_ms = since_ms < now ? since_ms : now;
    r->replayed = 0;
    r->stall_ms = 0;
    r->stats.lost++;
    int others = comm->n_links - comm->n_away;
    MN_WARN("%s: is given up: %s; going on over %d other link%s until it is steady again",
            verbs_name(comm, i, who), r->cause, others, others == 1 ? "" : "s");
}

void verbs_count_stall(struct verbs_recovery *r, uint64_t now)
{
    /* The peer's word that begins it may be read after now. */
    unsigned stall = r->carried && now > r->since_ms ? (unsigned)(now - r->since_ms) : 0;

    r->carried = 0;
    r->stall_ms += stall;
    r->stats.stall_ms += stall;
}

/* What is true of the link now, and goes with SYNC or SYNC_REQUEST. */
static void begin_end(struct verbs_comm *comm, int i, uint64_t since_ms, uint64_t now)
{
    struct verbs_link *link = &comm->links[i];
    struct verbs_recovery *r = &link->recovery;

    r->carried |= !r->state && !r->early;
    verbs_set_away(comm, i, 1);
    hold_off(comm, r, now);
    if (comm->base.is_send) {
        if (!verbs_quiet(comm, i) && !verbs_quiet(comm, i))
            verbs_destroy(comm, i); /* the end of a queue pair is a fence, too */
        verbs_note_done(comm, r);
        r->state = VERBS_FENCED;
        r->fenced_ms = now;
        r->say |= 1u << VERBS_SYNC;
    } else {
        r->asked = 1;
        r->say |= 1u << VERBS_SYNC_REQUEST;
    }
    r->broken = r->failed = 0;
    comm->hurry = 1;
    if (comm->broken_link == i) {
        comm->broken_ms = 0;
        comm->broken_link = -1;
    }
    verbs_tell_gone(comm, i, since_ms, now);
    /* Its cable may be that of the control connection, which would notice much later. */
    if (comm->base.is_send && verbs_control_is_on(comm, link))
        (void)mn_reopen_lost_on(comm->reopen, link->local.netdev);
}

void verbs_give_up(struct verbs_comm *comm, int i, uint64_t since_ms, const char *fmt, ...)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    char cause[VERBS_CAUSE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cause, sizeof cause, fmt, args);
    va_end(args);
    memcpy(r->cause, cause, sizeof cause);
    begin_end(comm, i, since_ms, mn_now_ms());
}

void verbs_join_failed(struct verbs_comm *comm, int i, const char *why)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    char who[VERBS_WHO], text[VERBS_CAUSE];

    snprintf(text, sizeof text, "%s", why);
    if (comm->job_link == i) {
        r->failed = 1; /* its queue pairs are the job's, whose end is still to be looked at */
        memcpy(r->cause, text, sizeof text);
        return;
    }
    MN_INFO("%s: does not come back yet: %s", verbs_name(comm, i, who), text);
    if (comm->base.is_send && r->step == VERBS_MAKES) {
        verbs_retire(comm, i);
        hold_off(comm, r, mn_now_ms());
        r->state = VERBS_DOWN; /* the peer knows of nothing */
        r->broken = r->failed = 0;
        return;
    }
    verbs_give_up(comm, i, mn_now_ms(), "%s", text);
}

void verbs_tell_back(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    char who[VERBS_WHO];

    r->up_ms = r->heard_ms = now;
    r->stats.back++;
    r->told = r->told_limit = 0;
    MN_WARN("%s: is back after %.1f s; the connection had stood still for %u ms, and %llu bytes "
            "were sent again",
            verbs_name(comm, i, who), (double)(now - r->since_ms) / 1000, r->stall_ms,
            (unsigned long long)r->replayed);
}

/* --- what is due ------------------------------------------------------------------------------ */

/* A completion failed, and the peer has said nothing that explains it. */
static enum mn_err on_broken(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    char cause[VERBS_CAUSE];

    memcpy(cause, r->cause, sizeof cause);
    if (r->state == VERBS_JOINING) {
        verbs_join_failed(comm, i, cause);
    } else if (verbs_may_lose(comm, i)) {
        verbs_give_up(comm, i, now, "%s", cause);
    } else if (!comm->broken_ms) {
        comm->broken_ms = now;
        comm->broken_link = i;
        snprintf(comm->broken_text, sizeof comm->broken_text, "%s", cause);
    }
    return MN_OK;
}

/* Only the peer's process can do what is next for the link: one that is down, and well here, the
 * sender joins again; one that it has joined it tries. */
static int waits_for_process(const struct verbs_comm *comm)
{
    int waits = 0;

    for (int i = 0; i < comm->n_links; i++) {
        const struct verbs_recovery *r = &comm->links[i].recovery;
        int next = r->state == VERBS_DOWN || (r->state == VERBS_UP && r->early);
        if (comm->base.is_send)
            waits |= r->state == VERBS_FENCED || r->asked ||
                     (r->state == VERBS_JOINING && r->step == VERBS_ASKS);
        else
            waits |= r->asked || (next && may_come(&comm->links[i]));
    }
    return waits && comm->control.fd >= 0 && !mn_socket_is_silent(comm->control.fd);
}

/* All links are away: as long as a single one may be silent. The time does not count in which a
 * process makes no call whose host is there. */
static enum mn_err look_alone(struct verbs_comm *comm, uint64_t now)
{
    unsigned patience = comm->config->settings.rdma_silence_ms;

    if (comm->n_away < comm->n_links || comm->broken_ms) {
        comm->alone_ms = 0;
        return MN_OK;
    }
    if (!comm->alone_ms)
        comm->alone_ms = now;
    else if (waits_for_process(comm))
        comm->alone_ms += now - comm->alone_seen_ms;
    comm->alone_seen_ms = now;
    if (now - comm->alone_ms <= patience)
        return MN_OK;
    return verbs_link_dead(comm, -1, "no link has been left for %u s; check the cables",
                           patience / 1000);
}

/* Sender: a message; receiver: an announcement that may not have landed. */
static int waits_for_answer(const struct verbs_comm *comm)
{
    for (unsigned s = 0; s < VERBS_SLOTS && comm->base.is_send; s++)
        if (comm->sends[s].active && !comm->sends[s].done &&
            !verbs_is_settled(comm, &comm->sends[s]))
            return 1;
    for (uint32_t seq = comm->seq_landed; seq != comm->seq_announced; seq++) {
        const struct verbs_slot *slot = &comm->slots[seq % VERBS_RING];
        const struct verbs_qp *qp = &comm->qps[slot->qp];
        if (slot->active && comm->links[qp->link].recovery.asked &&
            (int32_t)(qp->retired - slot->posted) < 0)
            return 1;
    }
    return 0;
}

/* What a link that was given up has done cannot be asked for: the control connection is lost, or on
 * its way to be. Where it is tried again, some cable may come back that TCP can go over. */
static enum mn_err look_mute(struct verbs_comm *comm, uint64_t now)
{
    unsigned patience = comm->config->settings.rdma_silence_ms;

    if (comm->ended_ms || !waits_for_answer(comm) ||
        (comm->control.fd >= 0 && !mn_socket_is_silent(comm->control.fd))) {
        comm->mute_ms = 0;
        return MN_OK;
    }
    if (comm->control.fd >= 0 || mn_reopen_lost(comm->reopen))
        patience *= MUTE_TIMES;
    if (!comm->mute_ms)
        comm->mute_ms = now;
    if (now - comm->mute_ms <= patience)
        return MN_OK;
    return verbs_link_dead(comm, -1,
                           "a link was given up, and nobody can be asked what it has done: the "
                           "control connection is lost since %u s, and is not opened again",
                           patience / 1000);
}

enum mn_err verbs_recover(struct verbs_comm *comm, uint64_t now)
{
    enum mn_err err = MN_OK;
    int hurry = 0;

    for (int i = 0; i < comm->n_links && !err; i++) {
        struct verbs_recovery *r = &comm->links[i].recovery;
        if (r->broken)
            err = on_broken(comm, i, now);
        if (!err && r->state == VERBS_FENCED && !comm->base.is_send)
            err = verbs_fence_step(comm, i, now);
    }
    if (!err)
        err = verbs_rejoin(comm, now);
    if (!err)
        err = look_alone(comm, now);
    if (!err)
        err = look_mute(comm, now);
    if (!err)
        verbs_say(comm);
    for (int i = 0; i < comm->n_links; i++) {
        const struct verbs_recovery *r = &comm->links[i].recovery;
        hurry |= r->broken || r->asked || r->say || r->state == VERBS_FENCED ||
                 r->state == VERBS_JOINING;
    }
    comm->hurry = hurry;
    return err;
}
