#include "plugin/relay/frame.h"
#include "topo/base/clean.h"

/* --- what frames have in common ----------------------------------------------------------------
 */

static struct mn_bytes begin(uint8_t *out)
{
    return (struct mn_bytes){out, out + MN_LINE_MAX, 0};
}

static struct mn_bytes look(const uint8_t *payload, size_t len)
{
    return (struct mn_bytes){(uint8_t *)payload, (uint8_t *)payload + len, 0};
}

static size_t ended(const struct mn_bytes *b, const uint8_t *out)
{
    return b->bad ? 0 : (size_t)(b->at - out);
}

/* All of it was there, and nothing else. */
static int whole(const struct mn_bytes *b)
{
    return !b->bad && b->at == b->end;
}

static void put_of(struct mn_bytes *b, const struct mn_relay_flow *flow, uint8_t way)
{
    mn_put_raw(b, flow->id, sizeof flow->id);
    mn_put(b, way, 1);
}

static int get_of(struct mn_bytes *b, struct mn_relay_flow *flow, uint8_t *way)
{
    mn_get_raw(b, flow->id, sizeof flow->id);
    *way = (uint8_t)mn_get(b, 1);
    return *way < MN_RELAY_WAYS;
}

/* --- frames: {flow 16, way 1} and … ------------------------------------------------------------
 */

/* role 1, at 1, instance 4, mesh 8, n 1, nodes 2 each; of a receiver handles. */
size_t mn_line_attach_put(const struct mn_line_attach *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);

    if (f->nodes.n < 3 || f->nodes.n > MN_RELAY_NODES)
        return 0;
    put_of(&b, &f->flow, f->way);
    mn_put(&b, f->role, 1);
    mn_put(&b, f->at, 1);
    mn_put(&b, f->instance, 4);
    mn_put(&b, f->mesh, 8);
    mn_put(&b, (uint64_t)f->nodes.n, 1);
    for (int i = 0; i < f->nodes.n; i++)
        mn_put(&b, f->nodes.nodes[i], 2);
    if (f->role == MN_RELAY_RECEIVER)
        mn_put_raw(&b, f->handles, sizeof f->handles);
    return ended(&b, out);
}

int mn_line_attach_get(const uint8_t *payload, size_t len, struct mn_line_attach *f)
{
    struct mn_bytes b = look(payload, len);

    memset(f, 0, sizeof *f);
    if (!get_of(&b, &f->flow, &f->way))
        return 0;
    f->role = (uint8_t)mn_get(&b, 1);
    f->at = (uint8_t)mn_get(&b, 1);
    f->instance = (uint32_t)mn_get(&b, 4);
    f->mesh = mn_get(&b, 8);
    f->nodes.n = (int)mn_get(&b, 1);
    if (f->nodes.n < 3 || f->nodes.n > MN_RELAY_NODES || f->at < 1 || f->at > f->nodes.n - 2)
        return 0;
    for (int i = 0; i < f->nodes.n; i++)
        f->nodes.nodes[i] = (uint16_t)mn_get(&b, 2);
    if (f->role == MN_RELAY_RECEIVER)
        mn_get_raw(&b, f->handles, sizeof f->handles);
    else if (f->role != MN_RELAY_SENDER)
        return 0;
    return whole(&b) && mn_relay_way_is_simple(&f->nodes);
}

/* instance 4, handles. */
size_t mn_line_attached_put(const struct mn_line_attached *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);

    put_of(&b, &f->flow, f->way);
    mn_put(&b, f->instance, 4);
    mn_put_raw(&b, f->handles, sizeof f->handles);
    return ended(&b, out);
}

int mn_line_attached_get(const uint8_t *payload, size_t len, struct mn_line_attached *f)
{
    struct mn_bytes b = look(payload, len);
    int good = get_of(&b, &f->flow, &f->way);

    f->instance = (uint32_t)mn_get(&b, 4);
    mn_get_raw(&b, f->handles, sizeof f->handles);
    return good && whole(&b);
}

/* instance 4, pair 4. */
size_t mn_line_opened_put(const struct mn_line_opened *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);

    put_of(&b, &f->flow, f->way);
    mn_put(&b, f->instance, 4);
    mn_put(&b, f->pair, 4);
    return ended(&b, out);
}

int mn_line_opened_get(const uint8_t *payload, size_t len, struct mn_line_opened *f)
{
    struct mn_bytes b = look(payload, len);
    int good = get_of(&b, &f->flow, &f->way);

    f->instance = (uint32_t)mn_get(&b, 4);
    f->pair = (uint32_t)mn_get(&b, 4);
    return good && whole(&b);
}

/* instance 4, why 1, text to the end: without a NUL, and nothing in it that does something to a
 * terminal. */
size_t mn_line_gone_put(const struct mn_line_gone *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);
    char text[MN_WORDS_MAX];

    memcpy(text, f->text, sizeof text);
    text[sizeof text - 1] = 0;
    mn_clean(text);
    put_of(&b, &f->flow, f->way);
    mn_put(&b, f->instance, 4);
    mn_put(&b, f->why, 1);
    mn_put_raw(&b, text, strlen(text));
    return ended(&b, out);
}

static int is_text(const char *text, size_t len)
{
    char clean[MN_WORDS_MAX];

    memcpy(clean, text, len + 1);
    return strlen(text) == len && !strcmp(mn_clean(clean), text);
}

int mn_line_gone_get(const uint8_t *payload, size_t len, struct mn_line_gone *f)
{
    struct mn_bytes b = look(payload, len);

    memset(f, 0, sizeof *f);
    if (!get_of(&b, &f->flow, &f->way))
        return 0;
    f->instance = (uint32_t)mn_get(&b, 4);
    f->why = (uint8_t)mn_get(&b, 1);
    size_t left = (size_t)(b.end - b.at);
    if (left >= sizeof f->text)
        return 0;
    mn_get_raw(&b, f->text, left);
    return whole(&b) && f->why >= MN_GONE_RELAY && f->why <= MN_GONE_LOST && is_text(f->text, left);
}

/* to 1, words to the end, one at least. */
size_t mn_line_talk_put(const struct mn_line_talk *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);

    if (f->len < 1 || f->len > MN_TALK_MAX)
        return 0;
    put_of(&b, &f->flow, f->way);
    mn_put(&b, f->to, 1);
    mn_put_raw(&b, f->words, f->len);
    return ended(&b, out);
}

int mn_line_talk_get(const uint8_t *payload, size_t len, struct mn_line_talk *f)
{
    struct mn_bytes b = look(payload, len);

    if (!get_of(&b, &f->flow, &f->way))
        return 0;
    f->to = (uint8_t)mn_get(&b, 1);
    size_t left = (size_t)(b.end - b.at);
    if (left < 1 || left > MN_TALK_MAX || (f->to != MN_RELAY_SENDER && f->to != MN_RELAY_RECEIVER))
        return 0;
    f->len = (uint16_t)left;
    mn_get_raw(&b, f->words, left);
    return whole(&b);
}

/* kind 1, class 1, pair 4, count 2, not zero. */
size_t mn_line_drained_put(const struct mn_line_drained *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);

    put_of(&b, &f->flow, f->way);
    mn_put(&b, f->kind, 1);
    mn_put(&b, f->class, 1);
    mn_put(&b, f->pair, 4);
    mn_put(&b, f->count, 2);
    return ended(&b, out);
}

int mn_line_drained_get(const uint8_t *payload, size_t len, struct mn_line_drained *f)
{
    struct mn_bytes b = look(payload, len);
    int good = get_of(&b, &f->flow, &f->way);

    f->kind = (uint8_t)mn_get(&b, 1);
    f->class = (uint8_t)mn_get(&b, 1);
    f->pair = (uint32_t)mn_get(&b, 4);
    f->count = (uint16_t)mn_get(&b, 2);
    return good && whole(&b) && f->kind < MN_RELAY_KINDS && f->class < MN_RELAY_CLASSES && f->count;
}

/* Of no flow: class 1, kind 1, handle. */
size_t mn_line_trunk_put(const struct mn_line_trunk *f, uint8_t out[MN_LINE_MAX])
{
    struct mn_bytes b = begin(out);

    mn_put(&b, f->class, 1);
    mn_put(&b, f->kind, 1);
    mn_put_raw(&b, f->handle, sizeof f->handle);
    return ended(&b, out);
}

int mn_line_trunk_get(const uint8_t *payload, size_t len, struct mn_line_trunk *f)
{
    struct mn_bytes b = look(payload, len);

    f->class = (uint8_t)mn_get(&b, 1);
    f->kind = (uint8_t)mn_get(&b, 1);
    mn_get_raw(&b, f->handle, sizeof f->handle);
    return whole(&b) && f->class < MN_RELAY_CLASSES && f->kind < MN_RELAY_KINDS;
}

/* --- the header of a piece ---------------------------------------------------------------------
 */

/* flow 16 | pair 4 | way, kind, slot, empty 1 each | group 4 | piece 4 | length 4 | total 8 | zero
 */
void mn_relay_head_put(const struct mn_relay_head *head, uint8_t out[MN_HEAD_SIZE])
{
    struct mn_bytes b = {out, out + MN_HEAD_SIZE, 0};

    memset(out, 0, MN_HEAD_SIZE);
    mn_put_raw(&b, head->flow.id, sizeof head->flow.id);
    mn_put(&b, head->pair, 4);
    mn_put(&b, head->way, 1);
    mn_put(&b, head->kind, 1);
    mn_put(&b, head->slot, 1);
    mn_put(&b, head->empty, 1);
    mn_put(&b, head->group, 4);
    mn_put(&b, head->piece, 4);
    mn_put(&b, head->length, 4);
    mn_put(&b, head->total, 8);
}

/* A piece is as long as the message has bytes there, and an empty one lies behind its end. */
static int length_holds(const struct mn_relay_head *head)
{
    uint64_t from = (uint64_t)head->piece * MN_RELAY_PIECE;
    uint64_t left = from < head->total ? head->total - from : 0;
    uint32_t most = mn_relay_bytes((enum mn_relay_kind)head->kind);

    if (head->kind == MN_RELAY_SMALL_ONES && head->piece)
        return 0;
    if (head->empty == MN_PIECE_LATER)
        return !head->length && !head->total;
    if (head->empty)
        return head->empty == MN_PIECE_EMPTY && !head->length && !left;
    return head->length == (left < most ? left : most) && (left || !head->piece);
}

int mn_relay_head_get(const uint8_t in[MN_HEAD_SIZE], struct mn_relay_head *head)
{
    struct mn_bytes b = look(in, MN_HEAD_SIZE);

    mn_get_raw(&b, head->flow.id, sizeof head->flow.id);
    head->pair = (uint32_t)mn_get(&b, 4);
    head->way = (uint8_t)mn_get(&b, 1);
    head->kind = (uint8_t)mn_get(&b, 1);
    head->slot = (uint8_t)mn_get(&b, 1);
    head->empty = (uint8_t)mn_get(&b, 1);
    head->group = (uint32_t)mn_get(&b, 4);
    head->piece = (uint32_t)mn_get(&b, 4);
    head->length = (uint32_t)mn_get(&b, 4);
    head->total = mn_get(&b, 8);
    while (b.at < b.end)
        if (*b.at++)
            return 0;
    return head->way < MN_RELAY_WAYS && head->kind < MN_RELAY_KINDS && head->slot < MN_MAX_RECVS &&
           length_holds(head);
}
