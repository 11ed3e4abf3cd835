/* What comes over a line, checked before anything is done with it. Who sends what is no frame, or
 * one that is not his to send, loses the line. */
#include "fleet/relay/engine.h"

static void on_attach(struct relayd_line *line, const uint8_t *payload, size_t len)
{
    struct mn_line_attach f;

    if (mn_line_attach_get(payload, len, &f))
        relayd_attach(line, &f);
    else
        relayd_line_fail(line, "%s sends what is no ATTACH", line->peer);
}

/* From the next relay, back towards the sender. */
static void on_opened(struct relayd_line *line, const uint8_t *payload, size_t len)
{
    struct mn_line_opened f;

    if (!mn_line_opened_get(payload, len, &f) || line->who.kind != MN_LINE_RELAY || !f.pair) {
        relayd_line_fail(line, "%s sends what is no OPENED", line->peer);
        return;
    }
    struct relayd_way *way = relayd_way_find(line->relay, &f.flow, f.way);
    if (!way || way->line[RELAYD_NEXT] != line || way->at == way->nodes.n - 2 || way->pair ||
        f.instance != relayd_way_instance(way, RELAYD_NEXT))
        return;
    way->pair = f.pair;
    relayd_line_put(way->line[RELAYD_PREV], MN_LINE_OPENED, payload, len);
}

static void on_gone(struct relayd_line *line, const uint8_t *payload, size_t len)
{
    struct mn_line_gone f;

    if (!mn_line_gone_get(payload, len, &f)) {
        relayd_line_fail(line, "%s sends what is no GONE", line->peer);
        return;
    }
    struct relayd_way *way = relayd_way_find(line->relay, &f.flow, f.way);
    enum relayd_side side = way && way->line[RELAYD_NEXT] == line ? RELAYD_NEXT : RELAYD_PREV;
    if (way && way->line[side] == line && f.instance == relayd_way_instance(way, side))
        relayd_way_end(way, line, f.why, "%s", f.text);
}

static void on_talk(struct relayd_line *line, const uint8_t *payload, size_t len)
{
    struct mn_line_talk f;

    if (!mn_line_talk_get(payload, len, &f)) {
        relayd_line_fail(line, "%s sends what is no TALK", line->peer);
        return;
    }
    struct relayd_way *way = relayd_way_find(line->relay, &f.flow, f.way);
    enum relayd_side to = f.to == MN_RELAY_SENDER ? RELAYD_PREV : RELAYD_NEXT;
    if (!way || !way->pair || way->line[!to] != line)
        return;
    /* Of a line between relays others have need, too. */
    const struct relayd_line *next = way->line[to];
    if (next->up && next->who.kind == MN_LINE_RELAY &&
        mn_line_waits(next->line) > MN_LINE_QUEUE / 2)
        relayd_way_end(way, NULL, MN_GONE_FULL, "relay %s: %s takes no more of what is said",
                       relayd_node_name(line->relay, line->relay->self), next->peer);
    else
        relayd_line_put(way->line[to], MN_LINE_TALK, payload, len);
}

static void on_drained(struct relayd_line *line, const uint8_t *payload, size_t len)
{
    struct mn_line_drained f;

    if (mn_line_drained_get(payload, len, &f) && line->who.kind == MN_LINE_RELAY)
        relayd_on_drained(line, &f);
    else
        relayd_line_fail(line, "%s sends what is no DRAINED", line->peer);
}

static void on_trunk(struct relayd_line *line, enum mn_line_frame type, const uint8_t *payload,
                     size_t len)
{
    struct mn_line_trunk f;

    if (!mn_line_trunk_get(payload, len, &f) || line->who.kind != MN_LINE_RELAY)
        relayd_line_fail(line, "%s sends what is no TRUNK", line->peer);
    else if (type == MN_LINE_TRUNK)
        relayd_on_trunk(line, &f);
    else
        relayd_on_trunked(line, &f);
}

void relayd_frame(struct relayd_line *line, enum mn_line_frame type, const uint8_t *payload,
                  size_t len)
{
    switch (type) {
    case MN_LINE_ATTACH:
        on_attach(line, payload, len);
        break;
    case MN_LINE_OPENED:
        on_opened(line, payload, len);
        break;
    case MN_LINE_GONE:
        on_gone(line, payload, len);
        break;
    case MN_LINE_TALK:
        on_talk(line, payload, len);
        break;
    case MN_LINE_DRAINED:
        on_drained(line, payload, len);
        break;
    case MN_LINE_TRUNK:
    case MN_LINE_TRUNKED:
        on_trunk(line, type, payload, len);
        break;
    default:
        relayd_line_fail(line, "%s sends frames of type %d, which none is here", line->peer, type);
    }
}
