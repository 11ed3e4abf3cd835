/* What was marked during a turn is torn down here, with all that belongs to it, and both ends of
 * each way are told why. */
#include <stdlib.h>

#include "fleet/relay/engine.h"
#include "topo/base/log.h"

#define PASSES 16 /* one thing that ends may end another */

static const char *self_name(const struct mn_relay *relay)
{
    return relayd_node_name(relay, relay->self);
}

static void end_line(struct relayd_line *line)
{
    struct mn_relay *relay = line->relay;
    int process = line->up && line->who.kind == MN_LINE_PROCESS;
    enum mn_gone why = !line->left ? MN_GONE_PEER : line->reset ? MN_GONE_LOST : MN_GONE_ENDED;

    line->buried = 1;
    if (line->up || line->dialled >= 0)
        MN_INFO("line with %s has ended: %s", line->peer, line->text);
    for (struct relayd_way *w = relay->ways; w; w = w->next)
        for (int side = 0; side < RELAYD_SIDES; side++)
            if (w->line[side] == line && process)
                relayd_way_end(w, line, why, "process %u of %s has ended its line to relay %s: %s",
                               line->who.pid, relayd_node_name(relay, (int)line->who.node),
                               self_name(relay), line->text);
            else if (w->line[side] == line)
                relayd_way_end(w, line, MN_GONE_RELAY, "relay %s has no line to relay %s: %s",
                               self_name(relay), line->peer, line->text);
    for (int in = 0; in < 2; in++)
        for (int class = 0; class < MN_RELAY_CLASSES; class ++)
            for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
                if (line->trunk[in][class][kind])
                    relayd_hop_end(line->trunk[in][class][kind]);
}

/* Over a trunk that has failed. */
static int goes_over(const struct relayd_way *way, const struct relayd_hop *trunk)
{
    return trunk->is_in ? way->line[RELAYD_PREV] == trunk->line && way->at == trunk->class + 2
                        : way->line[RELAYD_NEXT] == trunk->line && way->at - 1 == trunk->class &&
                              way->at != way->nodes.n - 2;
}

static void end_failed(struct relayd_hop *hop)
{
    struct mn_relay *relay = hop->relay;

    if (hop->way) {
        MN_INFO("a flow's data connection with %s: %s", hop->line->peer, hop->text);
        relayd_way_end(hop->way, NULL, hop->failed, "relay %s: %s", self_name(relay), hop->text);
    } else {
        MN_WARN("trunk %s relay %s: %s", hop->is_in ? "from" : "to", hop->line->peer, hop->text);
        for (struct relayd_way *w = relay->ways; w; w = w->next)
            if (!w->ended && goes_over(w, hop))
                relayd_way_end(w, NULL, hop->failed, "relay %s, trunk %s %s: %s", self_name(relay),
                               hop->is_in ? "from" : "to", hop->line->peer, hop->text);
        /* Each piece of a trunk was passed on by the relay, which has checked it. */
        if (hop->failed == MN_GONE_REFUSED)
            relayd_line_fail(hop->line, "%s: %s", hop->line->peer, hop->text);
    }
    relayd_hop_end(hop);
}

static void free_ways(struct mn_relay *relay)
{
    for (struct relayd_way **at = &relay->ways; *at;) {
        struct relayd_way *way = *at;
        if (!way->ended) {
            at = &way->next;
            continue;
        }
        relayd_way_drop(way);
        for (int side = 0; side < RELAYD_SIDES; side++)
            for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
                if (way->edge[side][kind])
                    relayd_hop_end(way->edge[side][kind]);
        *at = way->next;
        free(way);
    }
}

static void free_hops(struct mn_relay *relay)
{
    for (struct relayd_hop **at = &relay->hops; *at;) {
        struct relayd_hop *hop = *at;
        if (!relayd_hop_is_idle(hop) || hop->tells) {
            at = &hop->next;
            continue;
        }
        *at = hop->next;
        relayd_hop_free(hop);
    }
}

static void free_lines(struct mn_relay *relay)
{
    for (struct relayd_line **at = &relay->lines; *at;) {
        struct relayd_line *line = *at;
        if (!line->buried) { /* it may have ended since */
            at = &line->next;
            continue;
        }
        *at = line->next;
        relayd_line_free(line);
    }
}

void relayd_reap(struct mn_relay *relay)
{
    relayd_tell(relay);
    for (int pass = 0; pass < PASSES && relay->marked; pass++) {
        relay->marked = 0;
        for (struct relayd_hop *hop = relay->hops; hop; hop = hop->next)
            if (hop->failed && hop->state != RELAYD_HOP_ENDED)
                end_failed(hop);
        for (struct relayd_line *line = relay->lines; line; line = line->next)
            if (line->ended)
                end_line(line);
        free_ways(relay);
        relayd_tell(relay);
        free_hops(relay);
        free_lines(relay);
    }
}
