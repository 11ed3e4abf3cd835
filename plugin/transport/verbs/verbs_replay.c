/* The sender's part of a link's end: the receiver has told what is there; the rest goes by other
 * links, as the same segments. */
#include <string.h>

#include "plugin/transport/verbs/verbs.h"

struct answer {
    uint32_t landed, n;
    int unsure;
    uint8_t length[VERBS_OUTSTANDING]; /* of a bitmap; ALL = all is there */
    uint8_t bitmap[VERBS_OUTSTANDING][VERBS_SEGMENTS / 8];
};
#define ALL 0xff

/* 0: it is none, or of announcements that cannot be. */
static int read_answer(const struct verbs_comm *comm, struct mn_bytes *b, struct answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->landed = (uint32_t)mn_get(b, 4);
    answer->n = (uint32_t)mn_get(b, 2);
    answer->unsure = mn_get(b, 1) != 0;
    if (b->bad || answer->n > VERBS_OUTSTANDING ||
        (int32_t)(answer->landed - comm->seq - comm->head_n) > 0)
        return 0;
    for (uint32_t k = 0; k < answer->n; k++) {
        answer->length[k] = (uint8_t)mn_get(b, 1);
        if (answer->length[k] == ALL)
            continue;
        if (answer->length[k] > VERBS_SEGMENTS / 8)
            return 0;
        mn_get_raw(b, answer->bitmap[k], answer->length[k]);
    }
    return !b->bad && b->at == b->end;
}

static int is_there(const uint8_t *bitmap, uint32_t segment)
{
    return bitmap[segment / 8] >> segment % 8 & 1;
}

/* How many of the part's segments are there: the first so many, since a queue pair keeps order. -1:
 * others. */
static int arrived(const struct answer *answer, uint32_t seq, const struct verbs_send_part *part)
{
    uint32_t k = seq - answer->landed, n = 0;

    if ((int32_t)k < 0 || (k < answer->n && answer->length[k] == ALL))
        return part->posted == part->n_segments ? part->n_segments : -1;
    if (k >= answer->n)
        return -1;
    while (n < part->n_segments && is_there(answer->bitmap[k], part->first + n))
        n++;
    for (uint32_t i = n; i < part->n_segments; i++)
        if (is_there(answer->bitmap[k], part->first + i))
            return -1;
    return n > part->posted ? -1 : (int)n;
}

static enum mn_err settle(struct verbs_comm *comm, int i, struct verbs_send *send,
                          const struct answer *answer)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    for (int p = 0; p < send->n_parts; p++) {
        struct verbs_send_part *part = &send->parts[p];
        if (comm->qps[part->qp].link != i)
            continue;
        int has = arrived(answer, send->cts.seq, part);
        if (has < 0 || (has < part->acked && !answer->unsure))
            return verbs_fail(comm, i, MN_ERR_PROTO,
                              "the peer has segments of message %u that were not sent, or not "
                              "those it acknowledged",
                              send->cts.seq);
        for (uint32_t k = (uint32_t)has; k < part->posted; k++) {
            uint32_t bytes = verbs_segment_length(comm, part, k);
            r->replayed += bytes;
            r->stats.replayed += bytes;
        }
        send->pending = (uint16_t)(send->pending + part->acked - has);
        send->unposted = (uint16_t)(send->unposted + part->posted - has);
        part->acked = part->posted = (uint16_t)has;
    }
    if (!send->pending && verbs_is_settled(comm, send))
        send->done = 1;
    return MN_OK;
}

void verbs_note_done(const struct verbs_comm *comm, struct verbs_recovery *r)
{
    _Static_assert(VERBS_OUTSTANDING == 4 * 64, "a bit each");
    r->done_seq = comm->seq + comm->head_n;
    memset(r->done, 0xff, sizeof r->done);
    for (unsigned i = 0; i < comm->head_n; i++)
        if (!(comm->head_filled >> i & 1))
            r->done[0] &= ~(1ull << (comm->head_n - 1 - i));
    for (unsigned s = 0; s < VERBS_SLOTS; s++) {
        uint32_t back = r->done_seq - 1 - comm->sends[s].cts.seq;
        if (comm->sends[s].active && !comm->sends[s].done && back < VERBS_OUTSTANDING)
            r->done[back / 64] &= ~(1ull << back % 64);
    }
}

/* A message was acknowledged whole before the fence, and may be its owner's again, but is not
 * there: the device lost it between its acknowledgement and the completion. */
static int lost_for_good(const struct verbs_recovery *r, const struct answer *answer)
{
    for (uint32_t k = 0; k < answer->n; k++) {
        uint32_t back = r->done_seq - 1 - (answer->landed + k);
        if (answer->length[k] != ALL && back < VERBS_OUTSTANDING &&
            r->done[back / 64] >> back % 64 & 1)
            return 1;
    }
    return 0;
}

enum mn_err verbs_answered(struct verbs_comm *comm, int i, struct mn_bytes *b, uint64_t now)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    struct answer answer;
    enum mn_err err = MN_OK;

    if (!read_answer(comm, b, &answer))
        return verbs_fail(comm, i, MN_ERR_PROTO, "ANSWER of another kind than was asked for");
    verbs_retire(comm, i);
    r->state = VERBS_DOWN;
    r->say = 0;
    if (answer.unsure && lost_for_good(r, &answer))
        return verbs_link_dead(comm, i,
                               "the peer's device acknowledged data, and failed before it said so "
                               "to the peer: what is missing cannot be sent again");
    for (unsigned s = 0; s < VERBS_SLOTS && !err; s++)
        if (comm->sends[s].active && !comm->sends[s].done)
            err = settle(comm, i, &comm->sends[s], &answer);
    if (err)
        return err;
    verbs_count_stall(r, now);
    comm->idle = 0; /* what is sent from here on is waited for anew */
    comm->stuck_ms = now;
    return verbs_send_again(comm);
}
