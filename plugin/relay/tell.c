#include "plugin/relay/tell.h"

#include <stdio.h>

#include "plugin/relay/able.h"
#include "plugin/relay/way.h"

static int find(const struct mn_conn *conn, struct mn_relay_way ways[MN_RELAY_WAYS],
                uint32_t weights[MN_RELAY_WAYS])
{
    const struct mn_relay_own *own = conn->config->relay;
    int from = conn->side[conn->connector].relay_node, to = conn->side[!conn->connector].relay_node;

    if (!own || conn->side[0].mesh != conn->side[1].mesh || from == to)
        return 0;
    return mn_relay_ways(&own->mesh, from, to, mn_reach_ways(&conn->config->settings), ways,
                         weights);
}

/* "through b, c and through f, e"; each: the word in front of every way. */
static size_t put_ways(const struct mn_conn *conn, const struct mn_relay_way *ways, int n,
                       const char *each, char *text, size_t size)
{
    const struct mn_mesh *mesh = &conn->config->relay->mesh;
    size_t used = 0;

    for (int w = 0; w < n; w++)
        for (int i = 1; i + 1 < ways[w].n && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%s%s",
                                     i > 1 ? ", "
                                     : w   ? " and "
                                           : "",
                                     i > 1 ? "" : each, mesh->nodes[ways[w].nodes[i]].name);
    return used;
}

char *mn_relay_text(const struct mn_conn *conn, char *text, size_t size)
{
    struct mn_relay_way ways[MN_RELAY_WAYS];
    uint32_t weights[MN_RELAY_WAYS];
    int n = find(conn, ways, weights);
    double mbps = 0;
    int known = 0;

    text[0] = 0;
    if (!n)
        return text;
    size_t used = put_ways(conn, ways, n, "through ", text, size);
    for (int w = 0; w < n; w++) {
        mbps += weights[w];
        known |= weights[w] != MN_RELAY_UNKNOWN_MBPS;
    }
    if (known && used < size)
        snprintf(text + used, size - used, ", at most %.4g Gb/s%s", mbps / 1000,
                 n > 1 ? " together" : "");
    return text;
}

char *mn_relay_hint(const struct mn_conn *conn, char *text, size_t size)
{
    struct mn_relay_way ways[MN_RELAY_WAYS];
    uint32_t weights[MN_RELAY_WAYS];
    char nodes[512], why[512];

    text[0] = 0;
    if (conn->side[conn->connector].relay == MN_RELAY_OFF ||
        conn->side[!conn->connector].relay == MN_RELAY_OFF)
        return text;
    int n = find(conn, ways, weights);
    if (!n)
        return text;
    put_ways(conn, ways, n, "on ", nodes, sizeof nodes);
    if (!mn_relay_lately_failed(conn->side[!conn->connector].node_id, why, sizeof why))
        mn_plan_why_no_relay(&conn->side[1], &conn->side[0], why, sizeof why);
    snprintf(text, size, "; meshnet relayd %.300s would be faster%s%.300s", nodes,
             why[0] ? ", but " : "", why);
    return text;
}
