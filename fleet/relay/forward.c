/* What passes: a piece comes into a posted buffer, waits for its turn, and leaves from that buffer,
 * which is posted again when both of its sends are done. */
#include <stddef.h>
#include <string.h>

#include "fleet/relay/engine.h"

#define BATCH 32 /* pieces a step and connection */

void relayd_list_push(struct relayd_list *list, struct relayd_buf *buf)
{
    buf->next = NULL;
    if (list->last)
        list->last->next = buf;
    else
        list->first = buf;
    list->last = buf;
    list->n++;
}

struct relayd_buf *relayd_list_pop(struct relayd_list *list)
{
    struct relayd_buf *buf = list->first;

    if (!buf)
        return NULL;
    list->first = buf->next;
    if (!list->first)
        list->last = NULL;
    list->n--;
    buf->next = NULL;
    return buf;
}

/* --- buffers ---------------------------------------------------------------------------------- */

static void say_drained(struct relayd_line *line, struct mn_line_drained *drained)
{
    uint8_t payload[MN_LINE_MAX];

    relayd_line_put(line, MN_LINE_DRAINED, payload, mn_line_drained_put(drained, payload));
    drained->count = 0;
}

/* Those of one flow in a row are said together. */
static void note_drained(struct relayd_hop *in, const struct relayd_buf *buf)
{
    struct mn_line_drained *d = &in->drained;

    if (d->count && (memcmp(&d->flow, &buf->said.flow, sizeof d->flow) != 0 ||
                     d->way != buf->said.way || d->pair != buf->said.pair))
        say_drained(in->line, d);
    if (!d->count)
        *d = (struct mn_line_drained){.flow = buf->said.flow,
                                      .way = buf->said.way,
                                      .kind = (uint8_t)in->kind,
                                      .class = in->class,
                                      .pair = buf->said.pair};
    d->count++;
    if (in->tells)
        return;
    in->tells = 1;
    in->telling = in->relay->telling;
    in->relay->telling = in;
}

void relayd_tell(struct mn_relay *relay)
{
    struct relayd_hop *in = relay->telling;

    for (relay->telling = NULL; in; in = in->telling) {
        in->tells = 0;
        if (in->drained.count && in->line)
            say_drained(in->line, &in->drained);
    }
}

enum mn_err relayd_post(struct relayd_hop *in)
{
    size_t sizes[2] = {MN_HEAD_SIZE, mn_relay_bytes(in->kind)};
    int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD};

    while (in->free.first) {
        struct relayd_buf *buf = in->free.first;
        void *data[2] = {buf->heard, buf->data};
        enum mn_err err =
            in->comm->ops->irecv(in->comm, 2, data, sizes, tags, in->mhandles, &buf->request[0]);
        if (err || !buf->request[0])
            return err;
        relayd_list_push(&in->posted, relayd_list_pop(&in->free));
        if (buf->owed)
            note_drained(in, buf);
        buf->owed = 0;
    }
    return MN_OK;
}

void relayd_buf_release(struct relayd_buf *buf)
{
    struct relayd_hop *in = buf->in;

    in->busy--;
    buf->way = NULL;
    relayd_list_push(&in->free, buf);
    if (in->state == RELAYD_HOP_ENDED) {
        in->relay->marked |= !in->busy;
        return;
    }
    if (in->failed || in->lost_ms)
        return;
    enum mn_err err = relayd_post(in);
    if (err)
        relayd_hop_broken(in, err);
    else
        relayd_hop_wake(in);
}

/* --- in --------------------------------------------------------------------------------------- */

struct relayd_hop *relayd_way_out(struct relayd_way *way, enum mn_relay_kind kind)
{
    if (way->at == way->nodes.n - 2)
        return way->edge[RELAYD_NEXT][kind];
    return way->line[RELAYD_NEXT] ? way->line[RELAYD_NEXT]->trunk[0][way->at - 1][kind] : NULL;
}

static uint32_t cost(const struct relayd_buf *buf)
{
    return buf ? buf->said.length + MN_HEAD_SIZE : 0;
}

static int is_of(const struct relayd_way *way, const struct mn_relay_head *head)
{
    return way->key.way == head->way && !memcmp(&way->key.flow, &head->flow, sizeof head->flow);
}

/* The way that a piece belongs to. NULL: one that is gone, or was another's turn. */
static struct relayd_way *way_of(const struct relayd_hop *in, const struct mn_relay_head *head)
{
    struct relayd_way *way = in->way ? in->way : relayd_way_find(in->relay, &head->flow, head->way);

    if (!way || way->ended || !way->pair || way->pair != head->pair)
        return NULL;
    if (!in->way && (way->line[RELAYD_PREV] != in->line || way->at != in->class + 2))
        return NULL;
    return way;
}

static void take(struct relayd_hop *in, struct relayd_buf *buf, const int sizes[2])
{
    struct mn_relay *relay = in->relay;
    const struct mn_relay_head *head = &buf->said;

    in->busy++;
    memcpy(buf->head, buf->heard, MN_HEAD_SIZE);
    if (sizes[0] != MN_HEAD_SIZE || !mn_relay_head_get(buf->head, &buf->said) ||
        head->kind != in->kind || (int)head->length != sizes[1] ||
        (in->way && !is_of(in->way, head))) {
        in->busy--;
        relayd_list_push(&in->free, buf);
        relayd_hop_fail(in, MN_GONE_REFUSED, "what came is no piece of %s",
                        in->way ? "the flow" : "a flow");
        return;
    }
    buf->owed = !in->way;
    struct relayd_way *way = way_of(in, head);
    struct relayd_hop *out = way ? relayd_way_out(way, in->kind) : NULL;
    if (!out) {
        relayd_buf_release(buf);
        return;
    }
    in->bytes += head->length;
    way->bytes += head->length;
    way->pieces++;
    relay->counts.bytes += head->length;
    relay->counts.pieces++;
    buf->way = way;
    buf->came_ms = relay->now_ms;
    for (int side = 0; side < RELAYD_SIDES; side++)
        way->line[side]->active_ms = relay->now_ms;
    relayd_list_push(&way->waiting[in->kind], buf);
    if (!out->way)
        mn_share_wait(&out->share, &way->turn[in->kind], cost(buf));
    relayd_pump(out);
}

enum mn_err relayd_receive(struct relayd_hop *in, int *moved)
{
    for (int i = 0; i < BATCH && in->posted.first && !in->failed; i++) {
        struct relayd_buf *buf = in->posted.first;
        int done = 0, sizes[MN_MAX_RECVS];
        enum mn_err err = in->comm->ops->test(buf->request[0], &done, sizes);
        if (err || !done)
            return err;
        *moved = 1;
        take(in, relayd_list_pop(&in->posted), sizes);
    }
    return in->failed ? MN_OK : relayd_post(in);
}

/* --- out -------------------------------------------------------------------------------------- */

/* The next piece for the connection; from here on it is the connection's and no way's. */
static struct relayd_buf *next_of(struct relayd_hop *out)
{
    struct relayd_buf *buf;

    if (out->way) {
        buf = relayd_list_pop(&out->way->waiting[out->kind]);
    } else {
        struct mn_share_turn *turn = mn_share_next(&out->share);
        if (!turn)
            return NULL;
        struct relayd_way *way =
            (struct relayd_way *)((char *)(turn - out->kind) - offsetof(struct relayd_way, turn));
        buf = relayd_list_pop(&way->waiting[out->kind]);
        mn_share_sent(&out->share, turn, cost(way->waiting[out->kind].first));
    }
    if (buf)
        buf->way = NULL;
    return buf;
}

static int is_open(const struct relayd_hop *out)
{
    return out && !out->failed && !out->lost_ms &&
           (out->state == RELAYD_HOP_HOT || out->state == RELAYD_HOP_ASLEEP);
}

/* 1: a piece is under way. */
static int send_one(struct relayd_hop *out)
{
    if (!is_open(out))
        return 0;
    if (!out->current) {
        out->current = next_of(out);
        out->stage = 0;
    }
    struct relayd_buf *buf = out->current;
    if (!buf)
        return 0;
    if (!out->sending.n && !out->no_room)
        out->taken_ms = out->relay->now_ms;
    while (out->stage < 2) {
        int payload = out->stage == 1;
        enum mn_err err = out->comm->ops->isend(out->comm, payload ? buf->data : buf->head,
                                                payload ? buf->said.length : MN_HEAD_SIZE,
                                                payload ? MN_TAG_PAYLOAD : MN_TAG_HEAD,
                                                out->mhandles[payload], &buf->request[out->stage]);
        if (err) {
            relayd_hop_broken(out, err);
            return 0;
        }
        out->no_room = !buf->request[out->stage];
        /* Who waits for room does not spin; who slept has to be armed for it. */
        if (!out->no_room || out->state == RELAYD_HOP_ASLEEP)
            relayd_hop_wake(out);
        if (out->no_room)
            return 0;
        out->stage++;
    }
    out->current = NULL;
    out->bytes += buf->said.length;
    relayd_list_push(&out->sending, buf);
    return 1;
}

void relayd_pump(struct relayd_hop *out)
{
    struct relayd_hop **both =
        out->way ? out->way->edge[RELAYD_NEXT] : out->line->trunk[0][out->class];

    for (int small, bulk = 1; bulk;) {
        for (small = 0; small < MN_RELAY_OVERTAKE && send_one(both[MN_RELAY_SMALL_ONES]); small++)
            ;
        bulk = send_one(both[MN_RELAY_BULK]) || small == MN_RELAY_OVERTAKE;
    }
}

/* MN_ERR_AGAIN: header or payload is still on its way. */
static enum mn_err test_both(const struct relayd_hop *out, struct relayd_buf *buf)
{
    for (int i = 0; i < 2; i++) {
        int done = 1;
        enum mn_err err =
            buf->request[i] ? out->comm->ops->test(buf->request[i], &done, NULL) : MN_OK;
        if (err || !done)
            return err ? err : MN_ERR_AGAIN;
        buf->request[i] = NULL;
    }
    return MN_OK;
}

enum mn_err relayd_send(struct relayd_hop *out, int *moved)
{
    struct relayd_buf *buf;

    while ((buf = out->sending.first)) {
        enum mn_err err = test_both(out, buf);
        if (err && err != MN_ERR_AGAIN)
            return err;
        if (err)
            break;
        *moved = 1;
        out->taken_ms = out->relay->now_ms;
        relayd_buf_release(relayd_list_pop(&out->sending));
    }
    relayd_pump(out);
    return MN_OK;
}

/* --- of ways ---------------------------------------------------------------------------------- */

void relayd_on_drained(struct relayd_line *line, const struct mn_line_drained *frame)
{
    struct relayd_hop *out = line->trunk[0][frame->class][frame->kind];
    struct relayd_way *way = relayd_way_find(line->relay, &frame->flow, frame->way);

    if (!out || out->state == RELAYD_HOP_ASKED)
        return;
    if (way &&
        (way->pair != frame->pair || way->line[RELAYD_NEXT] != line || way->at - 1 != frame->class))
        way = NULL;
    mn_share_drained(&out->share, way ? &way->turn[frame->kind] : NULL, frame->count);
    relayd_pump(out);
}

void relayd_way_drop(struct relayd_way *way)
{
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        struct relayd_hop *out = relayd_way_out(way, kind);
        struct relayd_buf *buf;
        if (out && !out->way)
            mn_share_leave(&out->share, &way->turn[kind]);
        while ((buf = relayd_list_pop(&way->waiting[kind])))
            relayd_buf_release(buf);
    }
}
