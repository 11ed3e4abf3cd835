/* When nothing moves: is it the peer, the link, or nothing at all. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugin/transport/verbs/verbs.h"

#define IDLE_CALLS   256 /* empty calls between looks at the clock */
#define LOOK_MS      50  /* between looks at the control connection while nothing moves */
#define HUNG_TIMES   4
#define BROKEN_MS    300 /* a peer's word about a broken queue pair is waited for this long */
#define QUIET(bound) ((bound) / 8) /* nothing has moved for so long: time to ask, and to tell */
/* A link that says nothing for so long, beside one that does, is given up. */
#define DUMB(bound) ((bound) / 16)
#define SOON_MS     1

enum mn_err verbs_link_dead(struct verbs_comm *comm, int link, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return verbs_fail(comm, link, MN_ERR_LINK_DEAD, "%s", text);
}

static void tell_outage(struct verbs_comm *comm, int i, uint64_t since, uint64_t now,
                        const char *what)
{
    struct verbs_link *link = &comm->links[i];
    char who[VERBS_WHO];

    if (link->outage.told_ms)
        return;
    mn_outage_begin(&link->outage, since, now, comm->config->settings.rdma_silence_ms,
                    verbs_name(comm, i, who), what);
    comm->silent++;
}

static unsigned port_down(const struct verbs_link *link)
{
    return atomic_load_explicit(&link->watch.port_down, memory_order_relaxed);
}

/* While a port is down, completions are of what was done before. */
void verbs_heard(struct verbs_comm *comm, int i)
{
    struct verbs_link *link = &comm->links[i];
    char who[VERBS_WHO];

    if (!link->outage.told_ms || port_down(link))
        return;
    mn_outage_end(&link->outage, mn_now_ms(), verbs_name(comm, i, who));
    comm->silent--;
}

/* Asks the peer's device for a sign of life: a write of no bytes, which it acknowledges. It fails
 * where the link is dead though the control connection, over another, is not. */
enum mn_err verbs_probe(struct verbs_comm *comm, int q, uint64_t now)
{
    struct verbs_qp *qp = &comm->qps[q];
    struct verbs_link *link = &comm->links[qp->link];
    struct ibv_send_wr *bad,
        wr = {
            .wr_id = verbs_wr_pack(VERBS_PROBE, 0, 0, 0, (unsigned)q, qp->posted + 1),
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {comm->peer_ring, link->peer_ring_rkey},
        };
    int error = ibv_post_send(qp->qp, &wr, &bad);

    if (error)
        return verbs_refused(comm, qp->link, "a probe", error);
    qp->posted++;
    qp->unsignaled = 0;
    qp->probed_ms = now;
    link->pending++;
    return MN_OK;
}

/* Since when an answer is due from a queue pair: to a probe, or to what else was sent; 0: nothing
 * is. Whatever other queue pairs do meanwhile. */
static uint64_t answer_due(const struct verbs_qp *qp)
{
    return qp->probed_ms ? qp->probed_ms : qp->owing_ms;
}

/* Something is heard of a link. When nothing had been for some time, that was a spell, now over. */
static void note_heard(struct verbs_comm *comm, struct verbs_recovery *recovery, uint64_t now)
{
    if (now - comm->heard_ms > DUMB(comm->config->settings.rdma_silence_ms) / 2) {
        comm->spell_ms = comm->heard_ms;
        comm->spell_end_ms = now;
    }
    recovery->heard_ms = comm->heard_ms = now;
}

/* When each link was last heard of, and since when each queue pair owes an answer: completions
 * carry no time. */
static void listen_to(struct verbs_comm *comm, uint64_t now)
{
    for (int q = 0; q < comm->n_qps; q++) {
        struct verbs_qp *qp = &comm->qps[q];
        struct verbs_recovery *recovery = &comm->links[qp->link].recovery;
        if (recovery->state) /* its queue pairs may be being made, by another thread */
            continue;
        uint32_t due = comm->base.is_send ? 1 : qp->depth;
        if (qp->seen != qp->retired) {
            qp->seen = qp->retired;
            qp->owing_ms = 0;
            note_heard(comm, recovery, now);
        }
        if (qp->posted - qp->retired < due)
            qp->owing_ms = 0;
        else if (!qp->owing_ms)
            qp->owing_ms = now;
    }
}

/* Silent, while another link that is asked all the time still answers: so it is not the peer. Those
 * that were silent together, as while the peer's process was stopped, are heard of one after the
 * other: each when its device tries again. */
static int is_dumb(const struct verbs_comm *comm, int i, uint64_t due, uint64_t now)
{
    unsigned silence = comm->config->settings.rdma_silence_ms, bound = DUMB(silence);

    if (now - due <= bound || !verbs_may_give_up(comm, i))
        return 0;
    if (comm->spell_ms <= due + bound / 2 && comm->spell_end_ms > due + bound / 2 &&
        now - comm->spell_end_ms <= QUIET(silence))
        return 0;
    for (int k = 0; k < comm->n_links; k++)
        if (k != i && !comm->links[k].recovery.away &&
            comm->links[k].recovery.heard_ms > due + bound / 2)
            return 1;
    return 0;
}

/* A device tries a write again and then says that it failed. One that says nothing at all for
 * several times as long will not any more. */
static enum mn_err look_at_writes(struct verbs_comm *comm, uint64_t now)
{
    unsigned silence = comm->config->settings.rdma_silence_ms;
    int stuck = comm->in_doubt ||
                now - comm->stuck_ms > (comm->failover ? DUMB(silence) / 2 : QUIET(silence));
    enum mn_err err = MN_OK;

    comm->in_doubt = 0;
    listen_to(comm, now);

    for (int q = 0; q < comm->n_qps && !comm->broken_ms && !err; q++) {
        struct verbs_qp *qp = &comm->qps[q];
        struct verbs_link *link = &comm->links[qp->link];
        /* What is sent now only shortens the device's patience, or comes before the peer's queue
         * pair is ready. */
        if (port_down(link) || link->recovery.state || link->recovery.broken ||
            link->recovery.asked || link->recovery.early)
            continue;
        uint64_t due = answer_due(qp);
        if (!due && (stuck || link->outage.told_ms))
            err = verbs_probe(comm, q, now);
        else if (due && is_dumb(comm, qp->link, due, now))
            verbs_give_up(comm, qp->link, due, "no answer for %.1f s, though the port is up",
                          (double)(now - due) / 1000);
        else if (due && (stuck || comm->silent) && now - due > QUIET(silence))
            tell_outage(comm, qp->link, due, now, "no answer, though the port is up,");
        if (due && now - due > HUNG_TIMES * silence && link->outage.told_ms &&
            now - link->outage.told_ms > HUNG_TIMES * silence)
            err = verbs_link_dead(comm, qp->link,
                                  "the device has completed none of %u writes for %u s",
                                  qp->posted - qp->retired, HUNG_TIMES * silence / 1000);
    }
    return err;
}

/* A queue pair's access error is the peer's doing, whichever link it takes; a completion queue that
 * has overrun has lost what nobody can say. */
static int is_of_link(int event)
{
    return event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_DEVICE_FATAL;
}

static enum mn_err look_at_ports(struct verbs_comm *comm, uint64_t now)
{
    unsigned patience = comm->config->settings.rdma_silence_ms;

    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        int fatal = atomic_load_explicit(&link->watch.fatal, memory_order_relaxed);
        unsigned down = port_down(link), since = down ? (unsigned)now - down : 0;
        if (link->recovery.state || link->recovery.broken || link->recovery.asked)
            continue;
        if (fatal && is_of_link(fatal - 1) && verbs_may_lose(comm, i)) {
            verbs_give_up(comm, i, now, "the device reports an error (event %d)", fatal - 1);
            continue;
        }
        if (fatal)
            return verbs_link_dead(comm, i, "the device reports an error (event %d)", fatal - 1);
        if (!down || since >= 1u << 31)
            continue;
        if (verbs_may_give_up(comm, i)) {
            verbs_give_up(comm, i, now - since, "the port is down");
            continue;
        }
        tell_outage(comm, i, now - since, now, "the port is down");
        /* Who begins to wait when it is long down waits as long; an outage before is no part of it.
         */
        if (since <= patience || now - link->outage.told_ms <= patience)
            continue;
        if (!verbs_may_lose(comm, i))
            return verbs_link_dead(comm, i, "the port has been down for %u s; check the cable",
                                   since / 1000);
        verbs_give_up(comm, i, now - since, "the port is down");
    }
    return MN_OK;
}

/* Over a link that was silent the peer's word comes late. */
static enum mn_err look_at_broken(struct verbs_comm *comm, uint64_t now)
{
    unsigned patience = BROKEN_MS, quiet = QUIET(comm->config->settings.rdma_silence_ms);

    if (!comm->broken_ms || comm->ended_ms)
        return MN_OK;
    if (comm->control.fd >= 0 && comm->broken_link >= 0 &&
        comm->links[comm->broken_link].outage.told_ms && quiet > patience)
        patience = quiet;
    if (now - comm->broken_ms <= patience)
        return MN_OK;
    return verbs_link_dead(comm, comm->broken_link, "%s%s", comm->broken_text,
                           comm->control.fd >= 0
                               ? ""
                               : "; the control connection was lost before: the peer's "
                                 "process may have ended");
}

/* Who was stopped, or elsewhere, has not waited meanwhile: what came back then is not seen yet. */
static void leave_out_unseen(struct verbs_comm *comm, uint64_t now)
{
    uint64_t gap = comm->looked_ms ? now - comm->looked_ms : 0;
    unsigned most = MN_UNSEEN(comm->config->settings.rdma_silence_ms);

    if (gap <= most)
        return;
    gap -= most;
    for (int i = 0; i < comm->n_links; i++)
        if (comm->links[i].outage.told_ms)
            comm->links[i].outage.told_ms += gap;
    if (comm->alone_ms) {
        comm->alone_ms += gap;
        comm->alone_seen_ms += gap;
    }
    if (comm->mute_ms)
        comm->mute_ms += gap;
}

static enum mn_err look(struct verbs_comm *comm, uint64_t now)
{
    leave_out_unseen(comm, now);
    comm->looked_ms = now;
    comm->alarm = atomic_load_explicit(&verbs_alarm, memory_order_acquire);
    enum mn_err err = verbs_look_at_control(comm, now);
    if (!err)
        err = look_at_ports(comm, now);
    if (!err)
        err = look_at_writes(comm, now);
    if (!err && comm->failover)
        err = verbs_recover(comm, now);
    if (comm->base.is_send && comm->n_links > 1 && now - comm->weighed_ms >= LOOK_MS) {
        comm->weighed_ms = now;
        verbs_weigh_look(comm, now);
    }
    return err ? err : look_at_broken(comm, now);
}

enum mn_err verbs_idle(struct verbs_comm *comm)
{
    if (++comm->idle % IDLE_CALLS && !comm->broken_ms)
        return MN_OK;
    uint64_t now = mn_now_ms();
    if (comm->idle <= IDLE_CALLS)
        comm->stuck_ms = now;
    if (now - comm->looked_ms < LOOK_MS && !comm->broken_ms)
        return MN_OK;
    return look(comm, now);
}

enum mn_err verbs_look_soon(struct verbs_comm *comm)
{
    uint64_t now = mn_now_ms();
    int alarmed = comm->alarm != atomic_load_explicit(&verbs_alarm, memory_order_relaxed);

    if (comm->idle < IDLE_CALLS)
        comm->stuck_ms = now;
    if (!alarmed && now - comm->looked_ms < (comm->hurry ? SOON_MS : LOOK_MS))
        return MN_OK;
    return look(comm, now);
}

enum mn_err verbs_look(struct verbs_comm *comm)
{
    uint64_t now = mn_now_ms();

    if (comm->idle < IDLE_CALLS) {
        comm->idle = IDLE_CALLS;
        comm->stuck_ms = now;
    }
    return look(comm, now);
}
