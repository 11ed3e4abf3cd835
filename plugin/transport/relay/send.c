/* The sending end: matches sends to receives that were announced, and sends the pieces that are
 * asked for, in the order of the asking on each way. */
#include "plugin/transport/relay/flow.h"

/* Calls before a piece whose send has not come lets those behind it go first. */
#define PATIENT_CALLS 256

static struct relay_group *group_of(struct relay_comm *comm, uint32_t number)
{
    struct relay_group *group = &comm->groups[number % RELAY_GROUPS];

    return group->used && group->number == number ? group : NULL;
}

/* --- what the receiver says ------------------------------------------------------------------- */

static enum mn_err on_group(struct relay_comm *comm, const struct relay_word *word)
{
    struct relay_group *group = &comm->groups[word->group % RELAY_GROUPS];

    if (word->group != comm->group_next || group->left)
        return MN_ERR_PROTO;
    *group = (struct relay_group){.number = word->group, .used = 1, .n = word->n, .left = word->n};
    for (int i = 0; i < word->n; i++) {
        group->slots[i].tag = word->tags[i];
        group->slots[i].size = word->sizes[i];
    }
    comm->group_next++;
    return MN_OK;
}

static enum mn_err on_pieces(struct relay_comm *comm, const struct relay_word *word)
{
    struct relay_group *group = group_of(comm, word->group);
    struct relay_way *way = &comm->ways[word->way];

    if (word->way >= comm->n_ways || !group || word->slot >= group->n)
        return MN_ERR_PROTO;
    /* Asked for on a way that is closed by now: the receiver hears of that and asks anew. */
    if (way->state != RELAY_IS_OPEN || way->pair != word->pair)
        return MN_OK;
    const struct relay_slot *slot = &group->slots[word->slot];
    struct relay_hop *hop = &way->hops[relay_kind_of(slot)];
    uint32_t last = word->first + 63 - (uint32_t)__builtin_clzll(word->which);
    if (slot->done || last >= relay_pieces(slot->size) ||
        hop->run_tail - hop->run_head == RELAY_POSTED)
        return MN_ERR_PROTO;
    hop->runs[hop->run_tail++ % RELAY_POSTED] = (struct relay_run){.group = word->group,
                                                                   .first = word->first,
                                                                   .slot = word->slot,
                                                                   .which = word->which};
    hop->named += (uint32_t)__builtin_popcountll(word->which);
    if (hop->named > RELAY_POSTED)
        comm->vain = 0;
    return MN_OK;
}

static enum mn_err on_done(struct relay_comm *comm, const struct relay_word *word)
{
    struct relay_group *group = group_of(comm, word->group);

    if (!group || word->slot >= group->n || !group->slots[word->slot].send ||
        group->slots[word->slot].done)
        return MN_ERR_PROTO;
    struct relay_slot *slot = &group->slots[word->slot];
    comm->vain = 0;
    slot->done = 1;
    slot->send->landed = 1;
    group->left--;
    return MN_OK;
}

enum mn_err relay_send_word(struct relay_comm *comm, const struct relay_word *word)
{
    switch (word->type) {
    case RELAY_CLOSED:
    case RELAY_REFUSED:
        return relay_way_closed(comm, word);
    case RELAY_GROUP:
        return on_group(comm, word);
    case RELAY_PIECES:
        return on_pieces(comm, word);
    case RELAY_DONE:
        return on_done(comm, word);
    case RELAY_FAILED:
        return relay_fail(comm, MN_ERR_PEER_DEAD,
                          "the receiver's end has failed (%s); its log "
                          "says why",
                          mn_err_text((enum mn_err)word->code));
    default:
        return MN_ERR_PROTO;
    }
}

/* --- pieces ----------------------------------------------------------------------------------- */

static uint32_t length_of(const struct relay_send *send, uint32_t piece)
{
    size_t from = (size_t)piece * MN_RELAY_PIECE;
    size_t left = from < send->size ? send->size - from : 0;

    return (uint32_t)(left < MN_RELAY_PIECE ? left : MN_RELAY_PIECE);
}

/* What the first relay has. MN_OK also when it has no more of it. */
static enum mn_err reap(struct relay_comm *comm, struct relay_way *way, int kind)
{
    struct relay_hop *hop = &way->hops[kind];

    while (hop->head != hop->tail) {
        struct relay_flight *f = &hop->flight[hop->head % RELAY_POSTED];
        for (int i = 0; i < 2; i++) {
            int done = 1;
            enum mn_err err =
                f->requests[i] ? hop->comm->ops->test(f->requests[i], &done, NULL) : MN_OK;
            if (err || !done)
                return err;
            f->requests[i] = NULL;
        }
        if (f->send) {
            way->bytes += length_of(f->send, f->piece.piece);
            f->send->out--;
        }
        hop->head++;
        way->pieces++;
        way->pause_ms = 0;
        comm->moved = 1;
    }
    return MN_OK;
}

/* NULL: of a way that the receiver has closed, and will say so: it has had all of it by now. */
static const struct relay_slot *slot_of(struct relay_comm *comm, const struct relay_run *run)
{
    const struct relay_group *group = group_of(comm, run->group);

    return group && run->slot < group->n && !group->slots[run->slot].done ? &group->slots[run->slot]
                                                                          : NULL;
}

/* Whether something that waits behind the first run can be sent. */
static int others_can(struct relay_comm *comm, const struct relay_hop *hop)
{
    for (uint32_t i = hop->run_head + 1; i != hop->run_tail; i++) {
        const struct relay_slot *slot = slot_of(comm, &hop->runs[i % RELAY_POSTED]);
        if (slot && slot->send)
            return 1;
    }
    return 0;
}

/* The header of what is next. *now 0: it has to wait. */
static enum mn_err send_head(struct relay_comm *comm, struct relay_way *way, int kind, int *now)
{
    struct relay_hop *hop = &way->hops[kind];
    const struct relay_run *run = &hop->runs[hop->run_head % RELAY_POSTED];
    const struct relay_slot *slot = slot_of(comm, run);
    struct relay_flight *f = &hop->flight[hop->tail % RELAY_POSTED];
    uint8_t *bytes = hop->heads[hop->tail % RELAY_POSTED];
    struct mn_relay_head head = {.flow = comm->flow,
                                 .pair = way->pair,
                                 .way = way->number,
                                 .kind = (uint8_t)kind,
                                 .slot = run->slot,
                                 .group = run->group,
                                 .piece = run->first + (uint32_t)__builtin_ctzll(run->which)};

    *now = 0;
    if (!slot) {
        hop->run_head++;
        *now = 1;
        return MN_OK;
    }
    if (!slot->send && (!others_can(comm, hop) || hop->misses++ < PATIENT_CALLS))
        return MN_OK;
    if (slot->send) {
        hop->misses = 0;
        head.total = slot->send->size;
        head.length = length_of(slot->send, head.piece);
        head.empty = !head.length && head.piece ? MN_PIECE_EMPTY : MN_PIECE_DATA;
    } else {
        head.empty = MN_PIECE_LATER;
    }
    mn_relay_head_put(&head, bytes);
    f->requests[0] = f->requests[1] = NULL;
    enum mn_err err =
        hop->comm->ops->isend(hop->comm, bytes, MN_HEAD_SIZE, MN_TAG_HEAD,
                              comm->heads_mem.handles[way->number][kind], &f->requests[0]);
    if (err || !f->requests[0])
        return err;
    f->piece = (struct relay_piece){run->group, head.piece, run->slot};
    f->send = slot->send;
    if (f->send)
        f->send->out++;
    hop->half = 1;
    *now = 1;
    return MN_OK;
}

static enum mn_err send_payload(struct relay_comm *comm, struct relay_way *way, int kind, int *now)
{
    struct relay_hop *hop = &way->hops[kind];
    struct relay_run *run = &hop->runs[hop->run_head % RELAY_POSTED];
    struct relay_flight *f = &hop->flight[hop->tail % RELAY_POSTED];
    uint32_t length = f->send ? length_of(f->send, f->piece.piece) : 0;
    /* Nothing has a place, too. */
    void *data = length ? f->send->data + (size_t)f->piece.piece * MN_RELAY_PIECE
                        : (void *)hop->heads[hop->tail % RELAY_POSTED];
    const struct relay_mem *mem = length && f->send->mem ? f->send->mem : &comm->heads_mem;
    enum mn_err err = hop->comm->ops->isend(hop->comm, data, length, MN_TAG_PAYLOAD,
                                            mem->handles[way->number][kind], &f->requests[1]);

    *now = !err && f->requests[1];
    if (!*now)
        return err;
    hop->half = 0;
    hop->tail++;
    run->which &= run->which - 1;
    hop->run_head += !run->which;
    comm->moved = 1;
    return MN_OK;
}

static enum mn_err advance_hop(struct relay_comm *comm, struct relay_way *way, int kind)
{
    struct relay_hop *hop = &way->hops[kind];
    enum mn_err err = reap(comm, way, kind);

    for (int now = 1;
         !err && now && hop->run_head != hop->run_tail && hop->tail - hop->head < RELAY_POSTED;)
        err = hop->half ? send_payload(comm, way, kind, &now) : send_head(comm, way, kind, &now);
    return err;
}

void relay_send_advance(struct relay_comm *comm)
{
    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        /* Small ones first. */
        for (int kind = MN_RELAY_KINDS - 1; kind >= 0 && relay_way_works(way); kind--) {
            enum mn_err err = advance_hop(comm, way, kind);
            if (err && !relay_error(comm))
                relay_way_broken(comm, way, err);
        }
    }
}

void relay_send_gone(struct relay_comm *comm, struct relay_way *way)
{
    (void)comm;
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        struct relay_hop *hop = &way->hops[kind];
        uint32_t end = hop->tail + hop->half;
        for (; hop->head != end; hop->head++) {
            struct relay_send *send = hop->flight[hop->head % RELAY_POSTED].send;
            if (send)
                send->out--;
            way->again++;
        }
        hop->head = hop->tail = hop->run_head = hop->run_tail = 0;
        hop->half = 0;
        hop->misses = hop->named = 0;
    }
}

int relay_send_waits(const struct relay_comm *comm)
{
    for (int i = 0; i < RELAY_SENDS; i++)
        if (comm->sends[i].used && !comm->sends[i].landed)
            return 1;
    return 0;
}

/* --- sends ------------------------------------------------------------------------------------ */

static struct relay_send *free_send(struct relay_comm *comm)
{
    for (int i = 0; i < RELAY_SENDS; i++) {
        struct relay_send *send = &comm->sends[comm->send_turn++ % RELAY_SENDS];
        if (!send->used)
            return send;
    }
    return NULL;
}

/* The slot of the group in turn that has the tag and no send, or NULL. */
static struct relay_slot *slot_for(struct relay_comm *comm, int tag)
{
    if (comm->group_at == comm->group_next)
        return NULL;
    struct relay_group *group = &comm->groups[comm->group_at % RELAY_GROUPS];
    for (int i = 0; i < group->n; i++)
        if (!group->slots[i].send && group->slots[i].tag == tag)
            return &group->slots[i];
    return NULL;
}

static void match(struct relay_comm *comm, struct relay_slot *slot, struct relay_send *send)
{
    struct relay_group *group = &comm->groups[comm->group_at % RELAY_GROUPS];

    slot->send = send;
    if (++group->matched == group->n)
        comm->group_at++;
}

enum mn_err relay_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                        struct mn_request **request)
{
    struct relay_comm *comm = (struct relay_comm *)base;
    struct relay_slot *slot = slot_for(comm, tag);
    enum mn_err err = slot ? (enum mn_err)relay_error(comm) : relay_progress(comm);

    *request = NULL;
    if (err)
        return err;
    if (!slot && !(slot = slot_for(comm, tag))) {
        comm->wants = 1;
        return relay_look_hopeless(comm);
    }
    if (size > slot->size)
        return relay_fail(comm, MN_ERR_TOO_LONG,
                          "message of %zu bytes, tag %d, for a posted receive of %zu bytes", size,
                          tag, slot->size);
    struct relay_send *send = free_send(comm);
    if (!send)
        return relay_progress(comm);
    *send = (struct relay_send){.base.comm = base,
                                .data = data,
                                .size = size,
                                .mem = mhandle,
                                .used = 1};
    match(comm, slot, send);
    comm->waits++;
    comm->wants = 0;
    relay_send_advance(comm);
    *request = &send->base;
    return MN_OK;
}

enum mn_err relay_send_test(struct relay_comm *comm, struct relay_send *send, int *done, int *sizes)
{
    *done = 0;
    if (!send->landed || send->out)
        (void)relay_progress(comm);
    if (send->landed && !send->out) {
        *done = 1;
        if (sizes)
            *sizes = (int)send->size;
        send->used = 0;
        comm->waits--;
        return MN_OK;
    }
    return relay_look_hopeless(comm);
}
