/* The receiving end: posts pieces on the ways' data connections, asks the sender for them, counts
 * what lands, and says when a receive is whole. */
#include <string.h>

#include "plugin/transport/relay/flow.h"

static int kind_of(const struct relay_slot *slot)
{
    return slot->size > MN_RELAY_SMALL ? MN_RELAY_BULK : MN_RELAY_SMALL_ONES;
}

static uint32_t pieces(uint64_t bytes)
{
    return bytes ? (uint32_t)((bytes - 1) / MN_RELAY_PIECE) + 1 : 1;
}

/* --- what is whole ---------------------------------------------------------------------------- */

static void look_whether_whole(struct relay_comm *comm, struct relay_group *group, int i)
{
    struct relay_slot *slot = &group->slots[i];
    const struct relay_word word = {.type = RELAY_DONE, .group = group->number, .slot = (uint8_t)i};

    if (slot->done || !slot->known || slot->out || slot->landed < pieces(slot->total))
        return;
    slot->done = 1;
    group->left--;
    comm->hurry |= kind_of(slot) == MN_RELAY_BULK;
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
        !is_asked(comm, way, kind, &f->piece, &head) || (int)head.length != sizes[1]) {
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
            comm->falls_short = pieces(head.total) < pieces(slot->size);
        comm->asks = 1;
    }
    slot->out--;
    way->pieces++;
    way->bytes += head.length;
    if (head.empty == MN_PIECE_DATA) {
        slot->landed++;
        if (head.length && slot->mem) {
            atomic_store_explicit(&way->hops[kind].delivered, slot->mem, memory_order_relaxed);
            way->hops[kind].fresh = 1;
        }
    }
    look_whether_whole(comm, group, f->piece.slot);
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
        hop->full = 0;
        atomic_store_explicit(&hop->delivered, NULL, memory_order_relaxed);
        hop->fresh = 0;
        hop->flushing = 0;
    }
}

/* --- asking ----------------------------------------------------------------------------------- */

static void say_run(struct relay_comm *comm, struct relay_hop *hop)
{
    if (hop->run.which && !relay_talk_put(&comm->talk, &hop->run))
        relay_fail(comm, MN_ERR_INTERNAL, "no room to ask for pieces");
    hop->run.which = 0;
}

/* Pieces of one slot on one way are asked for together. */
static void note(struct relay_comm *comm, const struct relay_way *way, struct relay_hop *hop,
                 const struct relay_piece *piece)
{
    struct relay_word *run = &hop->run;
    uint32_t bit = piece->piece - run->first;

    if (run->which &&
        (run->group != piece->group || run->slot != piece->slot || bit > 63 || run->which >> bit))
        say_run(comm, hop);
    if (!run->which) {
        *run = (struct relay_word){.type = RELAY_PIECES,
                                   .way = way->number,
                                   .pair = way->pair,
                                   .group = piece->group,
                                   .slot = piece->slot,
                                   .first = piece->piece};
        bit = 0;
    }
    run->which |= 1ull << bit;
    comm->hurry |= hop == &way->hops[MN_RELAY_BULK];
}

static int is_usable(const struct relay_way *way)
{
    return relay_way_works(way) && way->peer_pair == way->pair;
}

/* The one that will be through with it first, by what it has and can carry. tried: bits. NULL:
 * there is no room. */
static struct relay_way *choose(struct relay_comm *comm, int kind, unsigned tried)
{
    struct relay_way *best = NULL;
    uint64_t least = 0;

    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        uint32_t out = way->hops[kind].tail - way->hops[kind].head;
        if (tried >> i & 1 || !is_usable(way) ||
            (way->hops[kind].full && out > RELAY_POSTED - RELAY_TOGETHER))
            continue;
        uint64_t load = ((uint64_t)out + 1) * (1ull << 32) / way->weight;
        if (!best || load < least) {
            best = way;
            least = load;
        }
    }
    return best;
}

/* *now 0: the way has no room. */
static enum mn_err post_on(struct relay_comm *comm, struct relay_way *way,
                           const struct relay_slot *slot, const struct relay_piece *piece, int *now)
{
    int kind = kind_of(slot);
    struct relay_hop *hop = &way->hops[kind];
    uint32_t at = hop->tail % RELAY_POSTED;
    size_t from = (size_t)piece->piece * MN_RELAY_PIECE, most = slot->size - from;
    size_t sizes[2] = {MN_HEAD_SIZE, most < MN_RELAY_PIECE ? most : MN_RELAY_PIECE};
    const struct relay_mem *mem = sizes[1] && slot->mem ? slot->mem : &comm->heads_mem;
    void *data[2] = {hop->heads[at], sizes[1] ? slot->data + from : (void *)hop->heads[at]};
    void *handles[2] = {comm->heads_mem.handles[way->number][kind],
                        mem->handles[way->number][kind]};
    int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD};
    struct mn_request *request = NULL;
    enum mn_err err = hop->comm->ops->irecv(hop->comm, 2, data, sizes, tags, handles, &request);

    *now = !err && request;
    if (!*now)
        return err;
    hop->flight[at] = (struct relay_flight){.piece = *piece, .requests = {request, NULL}};
    hop->tail++;
    hop->full = hop->tail - hop->head == RELAY_POSTED;
    note(comm, way, hop, piece);
    return MN_OK;
}

/* 0: there is no room for now. */
static int post(struct relay_comm *comm, const struct relay_slot *slot,
                const struct relay_piece *piece)
{
    struct relay_way *way;
    int now = 0;

    for (unsigned tried = 0; relay_talk_has_room(&comm->talk) && !relay_error(comm) &&
                             (way = choose(comm, kind_of(slot), tried));
         tried |= 1u << way->number) {
        enum mn_err err = post_on(comm, way, slot, piece, &now);
        if (now)
            return 1;
        if (err)
            relay_way_broken(comm, way, err);
    }
    return 0;
}

/* 1: none is left. */
static int ask_for_lost(struct relay_comm *comm)
{
    while (comm->lost_head != comm->lost_tail) {
        struct relay_piece piece = comm->lost[comm->lost_head % RELAY_LOST];
        struct relay_group *group = &comm->groups[piece.group % RELAY_GROUPS];
        struct relay_slot *slot = &group->slots[piece.slot];
        if (slot->known && piece.piece >= pieces(slot->total)) { /* would be empty */
            slot->out--;
            comm->lost_head++;
            look_whether_whole(comm, group, piece.slot);
            continue;
        }
        if (!post(comm, slot, &piece))
            return 0;
        comm->lost_head++;
    }
    return 1;
}

/* 0: there is no room. */
static int ask_for(struct relay_comm *comm, struct relay_group *group, int i)
{
    struct relay_slot *slot = &group->slots[i];
    uint32_t end = pieces(slot->known ? slot->total : slot->size);

    /* What is asked for in vain costs its header; what is not asked for, a way there and back. */
    if (!slot->known && comm->falls_short && end > MN_RELAY_AHEAD)
        end = MN_RELAY_AHEAD;
    while (slot->asked < end) {
        struct relay_piece piece = {group->number, slot->asked, (uint8_t)i};
        if (!post(comm, slot, &piece))
            return 0;
        slot->asked++;
        slot->out++;
    }
    return 1;
}

static int is_all_asked(const struct relay_group *group)
{
    for (int i = 0; i < group->n; i++) {
        const struct relay_slot *slot = &group->slots[i];
        if (slot->asked < pieces(slot->known ? slot->total : slot->size))
            return 0;
    }
    return 1;
}

/* Each receive in turn, of those whose size is not known perhaps MN_RELAY_AHEAD pieces alone. */
static void ask(struct relay_comm *comm)
{
    comm->asks = 0;
    int room = ask_for_lost(comm);
    for (uint32_t number = comm->group_at; number != comm->group_next && room; number++) {
        struct relay_group *group = &comm->groups[number % RELAY_GROUPS];
        int is_live = group->used && group->number == number;
        for (int i = 0; is_live && i < group->n && room; i++)
            room = ask_for(comm, group, i);
        if (number == comm->group_at && room && (!is_live || is_all_asked(group)))
            comm->group_at++;
    }
    comm->short_of = !room;
    for (int i = 0; i < comm->n_ways; i++)
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
            say_run(comm, &comm->ways[i].hops[kind]);
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
        ask(comm);
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
        if (word->way >= comm->n_ways)
            return MN_ERR_PROTO;
        if (way->pair == word->pair)
            relay_way_gone(comm, way, MN_GONE_PEER, 1, "the sender has closed it");
        return MN_OK;
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
    ask(comm);
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
