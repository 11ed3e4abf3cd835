/* Ways of flows: attached from both sides, opened, ended. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/relay/engine.h"
#include "topo/base/log.h"

const char *relayd_node_name(const struct mn_relay *relay, int node)
{
    return node >= 0 && (size_t)node < relay->mesh->n_nodes ? relay->mesh->nodes[node].name : "?";
}

struct relayd_way *relayd_way_find(struct mn_relay *relay, const struct mn_relay_flow *flow,
                                   uint8_t number)
{
    return (struct relayd_way *)mn_flows_find(&relay->flows, flow, number);
}

static int is_first(const struct relayd_way *way)
{
    return way->at == 1;
}

static int is_last(const struct relayd_way *way)
{
    return way->at == way->nodes.n - 2;
}

uint32_t relayd_way_instance(const struct relayd_way *way, enum relayd_side side)
{
    return way->instance[side == RELAYD_NEXT && is_last(way) ? RELAYD_NEXT : RELAYD_PREV];
}

/* --- the end ---------------------------------------------------------------------------------- */

static void put_gone(struct relayd_line *line, const struct mn_flow_key *key, uint32_t instance,
                     enum mn_gone why, const char *text)
{
    struct mn_line_gone gone = {.flow = key->flow,
                                .way = key->way,
                                .instance = instance,
                                .why = (uint8_t)why};
    uint8_t payload[MN_LINE_MAX];

    mn_strlcpy(gone.text, text, sizeof gone.text);
    relayd_line_put(line, MN_LINE_GONE, payload, mn_line_gone_put(&gone, payload));
}

void relayd_way_end(struct relayd_way *way, const struct relayd_line *except, enum mn_gone why,
                    const char *fmt, ...)
{
    struct mn_relay *relay = way->line[0] ? way->line[0]->relay : way->line[1]->relay;
    char text[MN_WORDS_MAX];
    va_list args;

    if (way->ended)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    way->ended = 1;
    relay->marked = 1;
    relay->counts.gone++;
    mn_flows_remove(&relay->flows, &way->key);
    MN_DEBUG("a way from %s to %s ends: %s", relayd_node_name(relay, way->nodes.nodes[0]),
             relayd_node_name(relay, way->nodes.nodes[way->nodes.n - 1]), text);
    for (int side = 0; side < RELAYD_SIDES; side++)
        if (way->line[side] && way->line[side] != except &&
            (side == RELAYD_PREV || is_last(way) || way->told[RELAYD_NEXT]))
            put_gone(way->line[side], &way->key, relayd_way_instance(way, (enum relayd_side)side),
                     why, text);
}

void relayd_refuse(struct relayd_line *line, const struct mn_line_attach *frame, enum mn_gone why,
                   const char *fmt, ...)
{
    struct mn_flow_key key = {.flow = frame->flow, .way = frame->way};
    char text[MN_WORDS_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    line->relay->counts.refused++;
    MN_DEBUG("%s is refused: %s", line->peer, text);
    put_gone(line, &key, frame->instance, why, text);
}

/* --- attaching -------------------------------------------------------------------------------- */

/* NULL: it may; else why not. */
static const char *objection(const struct relayd_line *line, const struct mn_line_attach *f)
{
    const struct mn_relay *relay = line->relay;
    const struct mn_relay_way *w = &f->nodes;
    int last = w->n - 1, at = f->at;

    if (f->mesh != relay->digest)
        return "its mesh file is another one";
    if (!mn_relay_way_holds(relay->mesh, w) || at < 1 || at >= last || w->nodes[at] != relay->self)
        return "the mesh file has no such way over this node";
    if (f->role == MN_RELAY_RECEIVER)
        return line->who.kind == MN_LINE_PROCESS && at == last - 1 &&
                       line->who.node == w->nodes[last]
                   ? NULL
                   : "only a process of the way's last node receives";
    int kind = at == 1 ? MN_LINE_PROCESS : MN_LINE_RELAY;
    return line->who.kind == kind && line->who.node == w->nodes[at - 1]
               ? NULL
               : "it comes from another node than the way does";
}

static void refuse_full(struct relayd_line *line, const struct mn_line_attach *f, const char *quota)
{
    const struct mn_relay *relay = line->relay;

    relayd_refuse(line, f, MN_GONE_FULL, "relay %s has %s", relayd_node_name(relay, relay->self),
                  quota);
}

static struct relayd_way *new_way(struct relayd_line *line, const struct mn_line_attach *f)
{
    struct mn_relay *relay = line->relay;
    uint32_t node = f->nodes.nodes[f->role == MN_RELAY_RECEIVER ? f->nodes.n - 1 : 0];
    const char *quota = relayd_quota_new_way(line, node);
    struct relayd_way *way = quota ? NULL : calloc(1, sizeof *way);

    if (!way) {
        refuse_full(line, f, quota ? quota : "no memory left");
        return NULL;
    }
    way->node = node;
    way->key = (struct mn_flow_key){.flow = f->flow, .way = f->way};
    way->nodes = f->nodes;
    way->at = f->at;
    way->born_ms = way->rated_ms[0] = way->rated_ms[1] = relay->now_ms;
    way->next = relay->ways;
    relay->ways = way;
    mn_flows_add(&relay->flows, &way->key);
    relay->counts.flows++;
    return way;
}

static int same_nodes(const struct mn_relay_way *a, const struct mn_relay_way *b)
{
    return a->n == b->n && !memcmp(a->nodes, b->nodes, (size_t)a->n * sizeof *a->nodes);
}

/* The way as it is for who attaches now: another one than before when it attaches anew. NULL: it is
 * refused, or attached already. */
static struct relayd_way *way_for(struct relayd_line *line, const struct mn_line_attach *f,
                                  enum relayd_side side)
{
    struct relayd_way *way = relayd_way_find(line->relay, &f->flow, f->way);

    if (way && !same_nodes(&way->nodes, &f->nodes)) {
        relayd_refuse(line, f, MN_GONE_REFUSED, "the flow has another way of that number");
        return NULL;
    }
    if (way && way->line[side] == line && way->instance[side] == f->instance)
        return NULL;
    if (way && way->line[side]) {
        relayd_way_end(way, way->line[side], MN_GONE_PEER, "%s attaches anew", line->peer);
        way = NULL;
    }
    const char *quota = relayd_quota_attach(line);
    if (quota) {
        refuse_full(line, f, quota);
        return NULL;
    }
    return way ? way : new_way(line, f);
}

static void full(struct relayd_way *way, const struct mn_diag *diag)
{
    enum mn_gone why = diag->code == MN_ERR_NOMEM ? MN_GONE_FULL : MN_GONE_RELAY;
    const struct mn_relay *relay = way->line[0] ? way->line[0]->relay : way->line[1]->relay;

    relayd_way_end(way, NULL, why, "relay %s: %s", relayd_node_name(relay, relay->self),
                   diag->text);
}

static void listen_for_sender(struct relayd_way *way)
{
    struct mn_line_attached a = {.flow = way->key.flow,
                                 .way = way->key.way,
                                 .instance = way->instance[RELAYD_PREV]};
    struct mn_diag diag = {.text = ""};
    uint8_t payload[MN_LINE_MAX];

    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        way->edge[RELAYD_PREV][kind] =
            relayd_hop_listen(way->line[RELAYD_PREV], way, kind, 0, a.handles[kind], &diag);
        if (!way->edge[RELAYD_PREV][kind]) {
            full(way, &diag);
            return;
        }
    }
    relayd_line_put(way->line[RELAYD_PREV], MN_LINE_ATTACHED, payload,
                    mn_line_attached_put(&a, payload));
}

static void dial_receiver(struct relayd_way *way, const struct mn_line_attach *f)
{
    struct mn_diag diag = {.text = ""};

    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        way->edge[RELAYD_NEXT][kind] =
            relayd_hop_dial(way->line[RELAYD_NEXT], way, kind, 0, f->handles[kind], &diag);
        if (!way->edge[RELAYD_NEXT][kind]) {
            full(way, &diag);
            return;
        }
    }
}

/* To the next relay, once there is a line. */
static void send_on(struct relayd_way *way)
{
    struct relayd_line *line = way->line[RELAYD_NEXT];
    struct mn_line_attach f = {.flow = way->key.flow,
                               .way = way->key.way,
                               .role = MN_RELAY_SENDER,
                               .at = (uint8_t)(way->at + 1),
                               .instance = way->instance[RELAYD_PREV],
                               .mesh = line->relay->digest,
                               .nodes = way->nodes};
    uint8_t payload[MN_LINE_MAX];

    if (way->told[RELAYD_NEXT] || !line->up)
        return;
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
        if (!relayd_trunk(line, (uint8_t)(way->at - 1), kind)) {
            relayd_way_end(way, NULL, MN_GONE_FULL, "no memory for a trunk to %s", line->peer);
            return;
        }
    way->told[RELAYD_NEXT] = 1;
    relayd_line_put(line, MN_LINE_ATTACH, payload, mn_line_attach_put(&f, payload));
}

static void attach_sender(struct relayd_way *way)
{
    struct mn_relay *relay = way->line[RELAYD_PREV]->relay;
    struct mn_diag diag = {.text = ""};

    if (is_first(way))
        listen_for_sender(way);
    if (way->ended || is_last(way))
        return;
    if (relayd_line_to(relay, way->nodes.nodes[way->at + 1], &way->line[RELAYD_NEXT], &diag)) {
        way->line[RELAYD_NEXT] = NULL;
        relayd_way_end(way, NULL, MN_GONE_RELAY, "relay %s: %s",
                       relayd_node_name(relay, relay->self), diag.text);
        return;
    }
    send_on(way);
}

void relayd_attach(struct relayd_line *line, const struct mn_line_attach *f)
{
    enum relayd_side side = f->role == MN_RELAY_RECEIVER ? RELAYD_NEXT : RELAYD_PREV;
    const char *why = objection(line, f);
    struct relayd_way *way;

    if (why) {
        relayd_refuse(line, f, MN_GONE_REFUSED, "relay %s: %s",
                      relayd_node_name(line->relay, line->relay->self), why);
        return;
    }
    way = way_for(line, f, side);
    if (!way)
        return;
    way->line[side] = line;
    way->instance[side] = f->instance;
    if (side == RELAYD_PREV)
        attach_sender(way);
    else
        dial_receiver(way, f);
    if (!way->ended)
        relayd_way_look(way);
}

void relayd_ways_line_up(struct relayd_line *line)
{
    for (struct relayd_way *way = line->relay->ways; way; way = way->next)
        if (!way->ended && way->line[RELAYD_NEXT] == line && !is_last(way))
            send_on(way);
}

/* --- opening ---------------------------------------------------------------------------------- */

void relayd_way_look(struct relayd_way *way)
{
    struct mn_line_opened opened = {.flow = way->key.flow, .way = way->key.way};
    uint8_t payload[MN_LINE_MAX];

    if (way->ended || way->pair || !is_last(way) || !way->line[RELAYD_PREV] ||
        !way->line[RELAYD_NEXT])
        return;
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
        if (!way->edge[RELAYD_NEXT][kind] || !way->edge[RELAYD_NEXT][kind]->comm)
            return;
    struct mn_diag diag = {.text = ""};
    if (mn_random(&way->pair, sizeof way->pair, &diag)) {
        full(way, &diag);
        return;
    }
    way->pair |= !way->pair;
    opened.pair = way->pair;
    for (int side = RELAYD_NEXT; side >= RELAYD_PREV; side--) {
        opened.instance = relayd_way_instance(way, (enum relayd_side)side);
        relayd_line_put(way->line[side], MN_LINE_OPENED, payload,
                        mn_line_opened_put(&opened, payload));
    }
}
