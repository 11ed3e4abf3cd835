/* What the receiving end asks for: pieces are posted on the ways' data connections, then named to
 * the sender. */
#include "plugin/transport/relay/flow.h"

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

/* Pieces of messages that are known: S has them and sends them. The rest are guesses, which S may
 * leave where they are until what was posted before them is whole: they always leave room for what
 * is known, and for one piece of each receive that S comes to next. */
enum rank { KNOWN, NEXT, GUESS, RANKS };

static const uint8_t guesses_most[MN_RELAY_KINDS][RANKS] = {
    [MN_RELAY_BULK] = {[NEXT] = RELAY_POSTED - 4, [GUESS] = RELAY_POSTED - 4 - RELAY_RECVS},
    [MN_RELAY_SMALL_ONES] = {[NEXT] = RELAY_POSTED, [GUESS] = RELAY_POSTED - RELAY_RECVS},
};

/* For which there was no room. */
struct shut {
    uint8_t is[MN_RELAY_KINDS][RANKS];
};

static int has_room(const struct relay_hop *hop, int kind, enum rank rank)
{
    uint32_t out = hop->tail - hop->head, most = guesses_most[kind][rank];
    int rests = hop->full && out > RELAY_POSTED - RELAY_TOGETHER;

    if (out == RELAY_POSTED)
        return 0;
    if (rank == KNOWN)
        return !rests || out == hop->guesses;
    if (rank == NEXT)
        return hop->guesses < most;
    return hop->guesses < most && !rests && !(hop->guessed && hop->guesses > most - RELAY_TOGETHER);
}

/* Pieces on neighbours' own cable that make it full. */
#define DIRECT_FULL 8

/* Whether the ends' own cable takes all of this for now. */
static int is_direct_alone(const struct relay_comm *comm, int kind)
{
    const struct relay_way *way = &comm->ways[0];

    return relay_is_direct(comm, way) && is_usable(way) &&
           (comm->direct.detour == MN_DETOUR_SPARE || kind == MN_RELAY_SMALL_ONES ||
            way->hops[kind].tail - way->hops[kind].head < DIRECT_FULL);
}

/* The one that will be through with it first, by what it has and can carry. tried: bits. NULL:
 * there is no room. */
static struct relay_way *choose(struct relay_comm *comm, int kind, enum rank rank, unsigned tried)
{
    struct relay_way *best = NULL;
    uint64_t least = 0;
    int n = is_direct_alone(comm, kind) ? 1 : comm->n_ways;

    for (int i = 0; i < n; i++) {
        struct relay_way *way = &comm->ways[i];
        uint32_t out = way->hops[kind].tail - way->hops[kind].head;
        if (tried >> i & 1 || !is_usable(way) || !has_room(&way->hops[kind], kind, rank))
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
    int kind = relay_kind_of(slot);
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
    hop->flight[at] =
        (struct relay_flight){.piece = *piece, .requests = {request, NULL}, .guess = !slot->known};
    hop->tail++;
    hop->full = hop->tail - hop->head == RELAY_POSTED;
    if (!slot->known)
        hop->guessed = ++hop->guesses >= guesses_most[kind][GUESS];
    note(comm, way, hop, piece);
    return MN_OK;
}

static int post_as(struct relay_comm *comm, const struct relay_slot *slot,
                   const struct relay_piece *piece, enum rank rank)
{
    struct relay_way *way;
    int now = 0;

    for (unsigned tried = 0; relay_talk_has_room(&comm->talk) && !relay_error(comm) &&
                             (way = choose(comm, relay_kind_of(slot), rank, tried));
         tried |= 1u << way->number) {
        enum mn_err err = post_on(comm, way, slot, piece, &now);
        if (now)
            return 1;
        if (err)
            relay_way_broken(comm, way, err);
    }
    return 0;
}

/* Of a receive that S comes to next, and none of it is under way. */
static int is_next(const struct relay_comm *comm, int kind, const struct relay_piece *piece)
{
    if (piece->group != comm->front)
        return 0;
    for (int i = 0; i < comm->n_ways; i++) {
        const struct relay_hop *hop = &comm->ways[i].hops[kind];
        for (uint32_t at = hop->head; at != hop->tail; at++) {
            const struct relay_piece *p = &hop->flight[at % RELAY_POSTED].piece;
            if (p->group == piece->group && p->slot == piece->slot)
                return 0;
        }
    }
    return 1;
}

/* 0: there is no room for now. */
static int post(struct relay_comm *comm, const struct relay_slot *slot,
                const struct relay_piece *piece, struct shut *shut)
{
    int kind = relay_kind_of(slot);
    enum rank rank = slot->known ? KNOWN : GUESS;

    if (!shut->is[kind][rank]) {
        if (post_as(comm, slot, piece, rank))
            return 1;
        shut->is[kind][rank] = 1;
    }
    if (rank == KNOWN || shut->is[kind][NEXT] || !is_next(comm, kind, piece))
        return 0;
    if (post_as(comm, slot, piece, NEXT))
        return 1;
    shut->is[kind][NEXT] = 1;
    return 0;
}

/* Each is tried once. */
static void ask_for_lost(struct relay_comm *comm, struct shut *shut)
{
    for (uint32_t n = comm->lost_tail - comm->lost_head; n; n--) {
        struct relay_piece piece = comm->lost[comm->lost_head++ % RELAY_LOST];
        struct relay_group *group = &comm->groups[piece.group % RELAY_GROUPS];
        struct relay_slot *slot = &group->slots[piece.slot];
        if (slot->known && piece.piece >= relay_pieces(slot->total)) { /* would be empty */
            slot->out--;
            relay_look_whether_whole(comm, group, piece.slot);
        } else if (!post(comm, slot, &piece, shut)) {
            comm->lost[comm->lost_tail++ % RELAY_LOST] = piece;
            comm->short_of = 1;
        }
    }
}

static void ask_for(struct relay_comm *comm, struct relay_group *group, int i, struct shut *shut)
{
    struct relay_slot *slot = &group->slots[i];
    uint32_t end = relay_pieces(slot->known ? slot->total : slot->size);

    /* What is asked for in vain costs its header; what is not asked for, a way there and back. */
    if (!slot->known && comm->falls_short && end > MN_RELAY_AHEAD)
        end = MN_RELAY_AHEAD;
    while (slot->asked < end) {
        struct relay_piece piece = {group->number, slot->asked, (uint8_t)i};
        if (!post(comm, slot, &piece, shut)) {
            comm->short_of = 1;
            return;
        }
        slot->asked++;
        slot->out++;
    }
}

static int is_all_asked(const struct relay_group *group)
{
    for (int i = 0; i < group->n; i++) {
        const struct relay_slot *slot = &group->slots[i];
        if (slot->asked < relay_pieces(slot->known ? slot->total : slot->size))
            return 0;
    }
    return 1;
}

static struct relay_group *live(struct relay_comm *comm, uint32_t number)
{
    struct relay_group *group = &comm->groups[number % RELAY_GROUPS];

    return group->used && group->number == number ? group : NULL;
}

static int is_all_known(const struct relay_group *group)
{
    for (int i = 0; i < group->n; i++)
        if (!group->slots[i].known)
            return 0;
    return 1;
}

/* Each receive in turn, of those whose size is not known perhaps MN_RELAY_AHEAD pieces alone. */
void relay_ask(struct relay_comm *comm)
{
    const struct relay_group *front;
    struct shut shut = {{{0}}};

    comm->asks = comm->short_of = 0;
    for (; comm->front != comm->group_next; comm->front++)
        if ((front = live(comm, comm->front)) && !is_all_known(front))
            break;
    ask_for_lost(comm, &shut);
    for (uint32_t number = comm->group_at; number != comm->group_next; number++) {
        struct relay_group *group = live(comm, number);
        for (int i = 0; group && i < group->n; i++)
            ask_for(comm, group, i, &shut);
        if (number == comm->group_at && (!group || is_all_asked(group)))
            comm->group_at++;
    }
    for (int i = 0; i < comm->n_ways; i++)
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
            say_run(comm, &comm->ways[i].hops[kind]);
}
