#include "cli/slow_pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define OVER 4 /* nodes that are named; more are counted */
#define TOLD 6 /* pairs */

static void say_way(const struct mn_mesh *mesh, const struct mn_pair_way *way, const int *nodes,
                    char *buf, size_t size)
{
    static const char *const kinds[] = {"cable",
                                        "router ",
                                        "meshnet relayd on ",
                                        "TCP over ",
                                        "TCP over the management network",
                                        "TCP over a network that the mesh file does not have",
                                        "no way: jobs in which they talk to each other fail"};
    size_t used = (size_t)snprintf(buf, size, "%s%s", kinds[way->kind], way->via ? way->via : "");

    for (int i = 1; i < way->hops && used < size; i++) {
        if (i > OVER) {
            used += (size_t)snprintf(buf + used, size - used, " and %d more", way->hops - 1 - OVER);
            break;
        }
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i > 1 ? ", " : "",
                                 mesh->nodes[nodes[i]].name);
    }
    if (way->rate > 0 && used < size)
        snprintf(buf + used, size - used, ", at most %.3g Gb/s", way->rate * 8e-9);
}

const char *mn_slow_pair_faster(enum mn_pair_kind kind)
{
    switch (kind) {
    case MN_PAIR_RELAY:
        return "the nodes in between pass it on where meshnet relayd runs on them, else TCP takes "
               "it, slower; a cable between the two is faster";
    case MN_PAIR_NODES:
        return "nodes in between pass it on once meshnet topo apply has set routes, else it goes "
               "over the management network; meshnet relayd on each of them (it needs a cluster "
               "key, plugin.key_file), or a cable between the two is faster";
    case MN_PAIR_NONE:
        return "a cable between the two, or transport.reach: auto";
    default:
        return "meshnet relayd on the nodes in between (it needs a cluster key, plugin.key_file), "
               "or a cable between the two is faster";
    }
}

char *mn_slow_pair_way(const struct mn_mesh *mesh, int from, int to, char *buf, size_t size)
{
    struct mn_fabric fabric;
    struct mn_routes routes;
    struct mn_pair_way way;
    int *nodes = mn_zalloc((mesh->n_nodes + 1) * sizeof *nodes);

    mn_fabric_from_mesh(mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    mn_pair_way_find(mesh, &fabric, &routes, from, to, nodes, &way);
    say_way(mesh, &way, nodes, buf, size);
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
    free(nodes);
    return buf;
}

/* By a route of the mesh file, which is no cable, and not slow for that. */
static int is_routed(const struct mn_mesh *mesh, int a, int b)
{
    for (size_t i = 0; i < 2 * mesh->n_routes; i++)
        if (mesh->routes[i / 2].ends[i % 2].node == a &&
            mesh->routes[i / 2].ends[!(i % 2)].node == b)
            return 1;
    return 0;
}

static void add(const struct mn_mesh *mesh, const struct mn_pair_way *way, const int *nodes, int a,
                int b, struct mn_slow_pairs *pairs)
{
    struct mn_slow_pair *pair = mn_grow((void **)&pairs->items, &pairs->count, sizeof *pair);
    char text[6 * MN_NAME_MAX];

    say_way(mesh, way, nodes, text, sizeof text);
    *pair = (struct mn_slow_pair){.nodes = {a, b}, .way = *way};
    pair->text = mn_strdup(text);
}

void mn_slow_pairs_find(const struct mn_mesh *mesh, int node, size_t max,
                        struct mn_slow_pairs *pairs)
{
    struct mn_fabric fabric;
    struct mn_routes routes;
    int *nodes = mn_zalloc((mesh->n_nodes + 1) * sizeof *nodes);

    *pairs = (struct mn_slow_pairs){.all = 0};
    mn_fabric_from_mesh(mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    for (int a = 0; a < fabric.n; a++)
        for (int b = a + 1; b < fabric.n; b++) {
            struct mn_pair_way way;
            if ((node >= 0 && a != node && b != node) || mn_routes_edge(&routes, a, b) ||
                is_routed(mesh, a, b))
                continue;
            pairs->all++;
            if (pairs->count >= max)
                continue;
            int from = b == node ? b : a, to = b == node ? a : b;
            mn_pair_way_find(mesh, &fabric, &routes, from, to, nodes, &way);
            add(mesh, &way, nodes, from, to, pairs);
        }
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
    free(nodes);
}

void mn_slow_pairs_free(struct mn_slow_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++)
        free(pairs->items[i].text);
    free(pairs->items);
    *pairs = (struct mn_slow_pairs){.all = 0};
}

/* Each kind of way once: what would be faster. */
static void put_faster(struct mn_out *out, const struct mn_slow_pairs *pairs)
{
    for (int kind = MN_PAIR_RELAY; kind <= MN_PAIR_NONE; kind++)
        for (size_t i = 0; i < pairs->count; i++)
            if ((int)pairs->items[i].way.kind == kind) {
                mn_out_note(out, MN_DIM, "  %s.", mn_slow_pair_faster((enum mn_pair_kind)kind));
                break;
            }
}

void mn_slow_pairs_print(struct mn_out *out, const struct mn_mesh *mesh)
{
    struct mn_slow_pairs pairs;

    mn_slow_pairs_find(mesh, -1, TOLD, &pairs);
    if (pairs.all) {
        mn_out_note(out, MN_PLAIN, "%s", "");
        mn_out_note(out, MN_PLAIN,
                    "%zu pair%s without a cable, slow by the mesh's shape:", pairs.all,
                    pairs.all == 1 ? "" : "s");
    }
    mn_out_int(out, "pairs_without_cable", NULL, (int64_t)pairs.all);
    mn_out_list_begin(out, "slow_pairs", NULL);
    for (size_t i = 0; i < pairs.count; i++) {
        const struct mn_slow_pair *pair = &pairs.items[i];
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "from", NULL, mesh->nodes[pair->nodes[0]].name);
        mn_out_str(out, "to", NULL, mesh->nodes[pair->nodes[1]].name);
        mn_out_str(out, "way", NULL, pair->way.text);
        if (pair->way.rate > 0)
            mn_out_num(out, "gbps", NULL, pair->way.rate * 8e-9, 3);
        else
            mn_out_str(out, "gbps", NULL, NULL);
        mn_out_str(out, "text", NULL, pair->text);
        mn_out_str(out, "faster", NULL, mn_slow_pair_faster(pair->way.kind));
        mn_out_note(out, MN_PLAIN, "  %s - %s: %s", mesh->nodes[pair->nodes[0]].name,
                    mesh->nodes[pair->nodes[1]].name, pair->text);
        mn_out_end(out);
    }
    mn_out_list_end(out);
    if (pairs.all > pairs.count)
        mn_out_note(out, MN_PLAIN, "  and %zu more: meshnet topo routes --far",
                    pairs.all - pairs.count);
    put_faster(out, &pairs);
    mn_slow_pairs_free(&pairs);
}
