/* A link that was given up comes back: new queue pairs at both ends, tried before they are used. */
#include <string.h>

#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define HOLD_ALONE 100        /* where no link is left, a port is steady sooner */
#define TRY(s)     ((s) / 16) /* a new link answers within */
#define ASK(s)     (2 * (s) > 10000 ? 2 * (s) : 10000) /* the peer's word, whose kernel may wait */

enum { QP_BYTES = 20 };

/* --- queue pairs in a word -------------------------------------------------------------------- */

void verbs_write_qps(const struct verbs_comm *comm, int i, struct mn_bytes *b)
{
    const struct verbs_link *link = &comm->links[i];

    mn_put(b, (uint64_t)link->n_qps, 1);
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++) {
        const struct verbs_qp *qp = &comm->qps[q];
        mn_put(b, qp->number, 4);
        mn_put(b, qp->psn, 4);
        mn_put(b, qp->ece.vendor_id, 4);
        mn_put(b, qp->ece.options, 4);
        mn_put(b, qp->ece.comp_mask, 4);
    }
}

/* 0: not those of this link. */
static int read_qps(struct verbs_comm *comm, int i, struct mn_bytes *b)
{
    const struct verbs_link *link = &comm->links[i];

    if (mn_get(b, 1) != (uint64_t)link->n_qps || b->end - b->at != link->n_qps * QP_BYTES)
        return 0;
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++) {
        struct verbs_qp *qp = &comm->qps[q];
        qp->peer_number = (uint32_t)mn_get(b, 4) & 0xffffff;
        qp->peer_psn = (uint32_t)mn_get(b, 4) & 0xffffff;
        qp->peer_ece.vendor_id = (uint32_t)mn_get(b, 4);
        qp->peer_ece.options = (uint32_t)mn_get(b, 4);
        qp->peer_ece.comp_mask = (uint32_t)mn_get(b, 4);
    }
    return 1;
}

/* --- jobs ------------------------------------------------------------------------------------- */

static int job_is_free(struct verbs_comm *comm)
{
    return comm->job_link < 0 && atomic_load(&comm->job_state) != JOB_RUNNING;
}

/* This host, not the cable or the peer, is why it does not come back. */
static void tell_limit(struct verbs_comm *comm, int i)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    char who[VERBS_WHO];

    if (r->told_limit)
        return;
    r->told_limit = 1;
    MN_WARN("%s: cannot come back: %s; it is tried again every now and then",
            verbs_name(comm, i, who), comm->job_diag.text);
}

static void start_job(struct verbs_comm *comm, int i, enum verbs_joining step, int parts)
{
    comm->links[i].recovery.step = step;
    if (!verbs_join_again(comm, i, parts))
        return;
    tell_limit(comm, i);
    verbs_join_failed(comm, i, comm->job_diag.text);
}

static void end_job(struct verbs_comm *comm, uint64_t now)
{
    int i = comm->job_link;
    struct verbs_link *link = &comm->links[i];
    struct verbs_recovery *r = &link->recovery;
    char cause[VERBS_CAUSE];

    comm->job_link = -1;
    if (r->failed || comm->job_diag.code) {
        int told = r->failed; /* by a word of the peer, or by the port */
        r->failed = 0;
        memcpy(cause, r->cause, sizeof cause);
        if (!told && comm->job_diag.code != MN_ERR_LINK_DEAD)
            tell_limit(comm, i);
        if (!comm->base.is_send && told)
            verbs_fence(comm, i, now);
        else
            verbs_join_failed(comm, i, told ? cause : comm->job_diag.text);
    } else if (!comm->base.is_send) {
        r->state = VERBS_UP;
        r->early = 1;
        r->say |= 1u << VERBS_JOINED;
    } else if (r->step == VERBS_MAKES) {
        r->step = VERBS_ASKS;
        r->tried_ms = now;
        r->say |= 1u << VERBS_JOIN;
    } else {
        r->step = VERBS_TRIES;
        r->tried_ms = now;
        for (int q = link->first_qp; q < link->first_qp + link->n_qps && !r->broken; q++)
            (void)verbs_probe(comm, q, now);
    }
}

/* --- words ------------------------------------------------------------------------------------ */

static enum mn_err wrong(struct verbs_comm *comm, int i, const char *word, uint32_t turn)
{
    return verbs_fail(comm, i, MN_ERR_PROTO, "%s of turn %u for a link that is %s in turn %u", word,
                      turn, verbs_state_names[comm->links[i].recovery.state],
                      comm->links[i].recovery.turn);
}

enum mn_err verbs_on_join(struct verbs_comm *comm, int i, uint32_t turn, struct mn_bytes *b)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    int32_t ahead = (int32_t)(turn - r->turn);

    if (ahead < 0)
        return MN_OK;
    if (!ahead) { /* said twice, as was the answer, perhaps */
        if (r->state == VERBS_UP && !r->asked)
            r->say |= 1u << VERBS_JOINED;
        comm->hurry = 1;
        return MN_OK;
    }
    if (r->state != VERBS_DOWN || !read_qps(comm, i, b))
        return wrong(comm, i, "JOIN", turn);
    r->turn = turn;
    r->unsure = 0;
    r->state = VERBS_JOINING;
    r->step = VERBS_CONNECTS;
    r->job_due = 1;
    r->say = 0;
    comm->hurry = 1;
    return MN_OK;
}

static void is_up(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    r->state = VERBS_UP;
    r->early = 0;
    r->since_ms = r->since_ms ? r->since_ms : now;
    verbs_set_away(comm, i, 0);
    verbs_tell_back(comm, i, now);
}

enum mn_err verbs_on_joined(struct verbs_comm *comm, int i, uint32_t turn, struct mn_bytes *b)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    if ((int32_t)(turn - r->turn) > 0)
        return wrong(comm, i, "JOINED", turn);
    if (turn != r->turn)
        return MN_OK;
    if (!comm->base.is_send) {
        if (b->at != b->end)
            return wrong(comm, i, "JOINED", turn);
        if (r->state == VERBS_UP && r->early && !r->asked)
            is_up(comm, i, mn_now_ms());
        return MN_OK;
    }
    if (r->state != VERBS_JOINING || r->step != VERBS_ASKS)
        return MN_OK; /* said twice, or given up meanwhile */
    if (!read_qps(comm, i, b))
        return wrong(comm, i, "JOINED", turn);
    start_job(comm, i, VERBS_CONNECTS, VERBS_JOB_CONNECT);
    return MN_OK;
}

/* --- in turn ---------------------------------------------------------------------------------- */

static int is_steady(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_link *link = &comm->links[i];
    struct verbs_recovery *r = &link->recovery;
    unsigned hold = r->hold_ms;

    if (comm->n_away == comm->n_links && hold > HOLD_ALONE)
        hold = HOLD_ALONE;
    if (r->dead || atomic_load_explicit(&link->watch.port_down, memory_order_relaxed)) {
        r->steady_ms = 0;
        return 0;
    }
    if (!r->steady_ms)
        r->steady_ms = now;
    return now - r->steady_ms >= hold;
}

static void begin(struct verbs_comm *comm, int i)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    r->turn++;
    r->state = VERBS_JOINING;
    comm->hurry = 1;
    start_job(comm, i, VERBS_MAKES, VERBS_JOB_MAKE);
}

static enum mn_err advance(struct verbs_comm *comm, int i, uint64_t now)
{
    const struct verbs_link *link = &comm->links[i];
    const struct verbs_recovery *r = &link->recovery;
    unsigned silence = comm->config->settings.rdma_silence_ms;
    int open = r->broken;

    if (atomic_load_explicit(&link->watch.port_down, memory_order_relaxed)) {
        verbs_join_failed(comm, i, "the port is down");
    } else if (r->step == VERBS_TRIES) {
        for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++)
            open += comm->qps[q].probed_ms != 0;
        if (!open) {
            comm->links[i].recovery.say |= 1u << VERBS_JOINED;
            is_up(comm, i, now);
            return verbs_send_again(comm); /* where none was left, it is what they waited for */
        } else if (now - r->tried_ms > TRY(silence)) {
            verbs_join_failed(comm, i, "no answer by the new queue pairs");
        }
    } else if (r->step == VERBS_ASKS && now - r->tried_ms > ASK(silence)) {
        verbs_join_failed(comm, i, "the peer makes no queue pairs for it");
    }
    return MN_OK;
}

/* One link after the other. */
enum mn_err verbs_rejoin(struct verbs_comm *comm, uint64_t now)
{
    int joining = -1;

    if (comm->job_link >= 0 && atomic_load(&comm->job_state) == JOB_DONE)
        end_job(comm, now);
    for (int i = 0; i < comm->n_links && !comm->base.is_send; i++) {
        struct verbs_recovery *r = &comm->links[i].recovery;
        if (!r->job_due || !job_is_free(comm))
            continue;
        r->job_due = 0;
        start_job(comm, i, VERBS_CONNECTS, VERBS_JOB_MAKE | VERBS_JOB_CONNECT);
    }
    if (!comm->base.is_send)
        return MN_OK;
    for (int i = 0; i < comm->n_links; i++)
        if (comm->links[i].recovery.state == VERBS_JOINING)
            joining = i;
    if (joining >= 0)
        return advance(comm, joining, now);
    for (int i = 0; i < comm->n_links && job_is_free(comm); i++) {
        const struct verbs_recovery *r = &comm->links[i].recovery;
        if (r->state != VERBS_DOWN || !is_steady(comm, i, now) || comm->control.fd < 0 ||
            comm->peer_closed || comm->ended_ms)
            continue;
        begin(comm, i);
        break;
    }
    return MN_OK;
}
