/* The receiving end: counts what lands, and says when a receive is whole. ask.c asks for it. */
#include <string.h>

#include "plugin/transport/relay/flow.h"

/* --- what is whole ---------------------------------------------------------------------------- */

void relay_look_whether_whole(struct relay_comm *comm, struct relay_group *group, int i)
{
    struct relay_slot *slot = &group->slots[i];
    const struct relay_word word = {.type = RELAY_DONE, .group = group->number, .slot = (uint8_t)i};

    if (slot->done || !slot->known || slot->out || slot->landed < relay_pieces(slot->total))
        return;
    slot->done = 1;
    group->left--;
    comm->hurry |= relay_kind_of(slot) == MN_RELAY_BULK;
    if (!relay_talk_put(&comm->talk, &word))
        relay_fail(comm, MN_ERR_INTERNAL, "no room to say that a receive is whole");
}

static void lose(struct relay_comm *comm, const struct relay_piece *piece)
{
    comm->lost[comm->lost_tail++ % RELAY_LOST] = *piece;
    comm->asks = 1;
}

/* --- what lands ------------------------------------------------------------------------------- */

static int is_asked(const struct relay_comm *comm, const struct relay_way *way, int kind,
                    const struct relay_piece *piece, const struct mn_relay_head *head)
{
    return !memcmp(&head->flow, &comm->flow, sizeof comm->flow) && head->pair == way->pair &&
           head->way == way->number && head->kind == kind && head->group == piece->group &&
           head->slot == piece->slot && head->piece == piece->piece;
}

static void take(struct relay_comm *comm, struct relay_way *way, int kind,
                 const struct relay_flight *f, const uint8_t *bytes, const int sizes[2])
{
    struct relay_group *group = &comm->groups[f->piece.group % RELAY_GROUPS];
    struct relay_slot *slot = &group->slots[f->piece.slot];
    struct mn_relay_head head;

    if (sizes[0] != MN_HEAD_SIZE || !mn_relay_head_get(bytes, &head) ||
        !is_asked(comm, way, kind, &f->piece, &head) || (int)head.length != sizes[1] ||
        (head.empty == MN_PIECE_EMPTY && !head.piece)) {
        relay_fail(comm, MN_ERR_PROTO, "what came is not the piece that was asked for");
        return;
    }
    if (head.empty == MN_PIECE_LATER) {
        lose(comm, &f->piece);
        return;
    }
    if (head.total > slot->size || (slot->known && head.total != slot->total)) {
        relay_fail(comm, head.total > slot->size ? MN_ERR_TOO_LONG : MN_ERR_PROTO,
                   "message of %llu bytes, tag %d, for a posted receive of %zu bytes",
                   (unsigned long long)head.total, slot->tag, slot->size);
        return;
    }
    if (!slot->known) {
        slot->known = 1;
        slot->total = head.total;
        if (kind == MN_RELAY_BULK)
            comm->falls_short = relay_pieces(head.total) < relay_pieces(slot->size);
        comm->asks = 1;
    }
    slot->out--;
    way->pieces++;
    way->pause_ms = 0;
    way->bytes += head.length;
    if (head.empty == MN_PIECE_DATA) {
        slot->landed++;
        if (head.length && slot->mem) {
            atomic_store_explicit(&way->hops[kind].delivered, slot->mem, memory_order_relaxed);
            way->hops[kind].fresh = 1;
        }
    }
    relay_look_whether_whole(comm, group, f->piece.slot);
}

/* All that has landed. */
static enum mn_err reap(struct relay_comm *comm, struct relay_way *way, int kind)
{
    struct relay_hop *hop = &way->hops[kind];

    while (hop->head != hop->tail && !relay_error(comm)) {
        struct relay_flight *f = &hop->flight[hop->head % RELAY_POSTED];
        int done = 0, sizes[RELAY_RECVS] = {0};
        enum mn_err err = hop->comm->ops->test(f->requests[0], &done, sizes);
        if (err || !done)
            return err;
        hop->head++;
        hop->guesses -= f->guess;
        comm->moved = comm->asks = 1;
        take(comm, way, kind, f, hop->heads[(hop->head - 1) % RELAY_POSTED], sizes);
    }
    return MN_OK;
}

void relay_recv_collect(struct relay_comm *comm, struct relay_way *way)
{
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
        if (way->hops[kind].comm)
            (void)reap(comm, way, kind);
}

void relay_recv_gone(struct relay_comm *comm, struct relay_way *way)
{
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        struct relay_hop *hop = &way->hops[kind];
        for (; hop->head != hop->tail; hop->head++) {
            lose(comm, &hop->flight[hop->head % RELAY_POSTED].piece);
            way->again++;
        }
        hop->head = hop->tail = 0;
        hop->run.which = 0;
        hop->full = hop->guessed = 0;
        hop->guesses = 0;
        atomic_store_explicit(&hop->delivered, NULL, memory_order_relaxed);
        hop->fresh = 0;
        hop->flushing = 0;
    }
}

void relay_recv_advance(struct relay_comm *comm)
{
    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        for (int kind = MN_RELAY_KINDS - 1; kind >= 0 && relay_way_works(way); kind--) {
            enum mn_err err = reap(comm, way, kind);
            if (err)
                relay_way_broken(comm, way, err);
        }
    }
    if (comm->asks || comm->short_of)
        relay_ask(comm);
}

enum mn_err relay_recv_word(struct relay_comm *comm, const struct relay_word *word)
{
    struct relay_way *way = &comm->ways[word->way];

    switch (word->type) {
    case RELAY_OPEN:
        if (word->way >= comm->n_ways)
            return MN_ERR_PROTO;
        way->peer_pair = word->pair;
        comm->asks = 1;
        return MN_OK;
    case RELAY_CLOSED:
    case RELAY_REFUSED:
        return relay_way_closed(comm, word);
    case RELAY_FAILED:
        return relay_fail(comm, word->code == MN_ERR_TOO_LONG ? MN_ERR_TOO_LONG : MN_ERR_PEER_DEAD,
                          "the sender's end has failed (%s); its log says why",
                          mn_err_text((enum mn_err)word->code));
    default:
        return MN_ERR_PROTO;
    }
}

/* --- receives --------------------------------------------------------------------------------- */

enum mn_err relay_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                        const int *tags, void **mhandles, struct mn_request **request)
{
    struct relay_comm *comm = (struct relay_comm *)base;
    struct relay_group *group = &comm->groups[comm->group_next % RELAY_GROUPS];
    struct relay_word word = {.type = RELAY_GROUP, .group = comm->group_next, .n = (uint8_t)n};

    *request = NULL;
    if (relay_error(comm))
        return (enum mn_err)relay_error(comm);
    for (int i = 0; i < n; i++) {
        if (sizes[i] > 1u << 30)
            return MN_ERR_USAGE;
        word.tags[i] = tags[i];
        word.sizes[i] = (uint32_t)sizes[i];
    }
    if (group->used || !relay_talk_has_room(&comm->talk) || !relay_talk_put(&comm->talk, &word)) {
        (void)relay_progress(comm);
        return relay_look_hopeless(comm);
    }
    *group = (struct relay_group){.base.comm = base,
                                  .number = comm->group_next++,
                                  .used = 1,
                                  .n = (uint8_t)n,
                                  .left = (uint8_t)n};
    for (int i = 0; i < n; i++)
        group->slots[i] = (struct relay_slot){.data = data[i],
                                              .size = sizes[i],
                                              .tag = tags[i],
                                              .mem = mhandles[i]};
    comm->waits++;
    comm->held++;
    relay_ask(comm);
    if (comm->defers)
        relay_defer(comm);
    else
        relay_talk_flush(comm);
    *request = &group->base;
    return MN_OK;
}

enum mn_err relay_recv_test(struct relay_comm *comm, struct relay_group *group, int *done,
                            int *sizes)
{
    *done = 0;
    if (group->left)
        (void)relay_progress(comm);
    if (group->left)
        return relay_look_hopeless(comm);
    for (int i = 0; sizes && i < group->n; i++)
        sizes[i] = (int)group->slots[i].total;
    group->used = 0;
    *done = 1;
    comm->waits--;
    return MN_OK;
}
