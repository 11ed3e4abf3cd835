/* Rules about the shape that all cables make together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/whole_rule.h"

/* "a ring", "a torus of 3 x 4". */
static char *shape_text(const struct mn_wish *wish, char *text, size_t size)
{
    int len = snprintf(text, size, "a %s", mn_shape_name(wish->shape));

    for (int i = 0; i < 3 && wish->sizes[i] && len > 0 && (size_t)len < size; i++)
        len += snprintf(text + len, size - (size_t)len, "%s%d", i ? " x " : " of ", wish->sizes[i]);
    return text;
}

static void move(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    const struct mn_wish *wish = &w->wish;
    char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE], shape[64];
    struct mn_trouble *t =
        mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, wish->far[0], wish->from, text));

    snprintf(t->seen, sizeof t->seen, "%s%s; all cables together make a %s",
             wish->doubled ? "another cable joins " : "it joins ",
             wish->doubled ? "the same two nodes" : "two nodes that have enough",
             mn_shape_name(wish->now));
    snprintf(t->expected, sizeof t->expected, "%s, for which this cable leads to %s",
             shape_text(wish, shape, sizeof shape),
             mn_whole_node(w, w->cabling.ports[wish->to].node));
    snprintf(t->fix, sizeof t->fix, "move the end at %s to %s", mn_where_port(w, wish->from, text),
             mn_where_port(w, wish->to, other));
}

static void swap(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    const struct mn_wish *wish = &w->wish;
    char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE], shape[64];
    struct mn_trouble *t =
        mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, wish->far[0], wish->from, text));

    snprintf(t->seen, sizeof t->seen, "and %s; all cables together make a %s",
             mn_where_ports(w, wish->far[1], wish->to, text), mn_shape_name(wish->now));
    snprintf(t->expected, sizeof t->expected, "%s", shape_text(wish, shape, sizeof shape));
    snprintf(t->fix, sizeof t->fix,
             "exchange two plugs: move the end at %s to %s, and the one that is there back",
             mn_where_port(w, wish->from, text), mn_where_port(w, wish->to, other));
}

/* Without the change the mesh is in pieces, or a cable leads back to its own node. */
static int must(const struct mn_whole *w)
{
    int loops = 0;

    for (size_t i = 0; i < w->cabling.n_knots; i++)
        loops |= w->cabling.knots[i].kind == MN_KNOT_LOOP;
    return loops || mn_graph_pieces(&w->all, NULL) > 1;
}

static void change(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (w->wish.kind == MN_WISH_SWAP)
        swap(rule, w);
    else if ((w->wish.kind == MN_WISH_MOVE || w->wish.kind == MN_WISH_MOVE_ADD) && !w->wish.doubled)
        move(rule, w);
}

void mn_whole_crossed(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (must(w))
        change(rule, w);
}

void mn_whole_misplaced(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (!must(w))
        change(rule, w);
}

void mn_whole_doubled(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if ((w->wish.kind == MN_WISH_MOVE || w->wish.kind == MN_WISH_MOVE_ADD) && w->wish.doubled)
        move(rule, w);
}

/* --- a cable to add --------------------------------------------------------------------------- */

/* "carrier", "no carrier", "switched off". */
static const char *state_of(const struct mn_whole *w, int port)
{
    int up = 0;

    for (int i = 0; i < w->cabling.ports[port].n_nics; i++)
        up |= mn_port_nic(w, port, i)->admin_up;
    return mn_port_carrier(w, port) ? "link up" : up ? "no link" : "switched off";
}

/* Something of the cable is there already: a line is not meant to be one. */
static int half_there(const struct mn_whole *w)
{
    int signs = 0;

    for (int side = 0; side < 2; side++) {
        const struct mn_port *port = &w->cabling.ports[w->wish.add[side]];

        signs |= mn_port_carrier(w, w->wish.add[side]);
        for (int i = 0; i < port->n_nics; i++) {
            const struct mn_survey_nic *nic = mn_port_nic(w, w->wish.add[side], i);

            for (size_t a = 0; a < nic->n_addrs; a++)
                signs |= !mn_addr_is_link_local(&nic->addrs[a]);
        }
    }
    return signs;
}

static void add(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    const int *ports = w->wish.add;
    char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE], shape[64];
    struct mn_trouble *t =
        mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, ports[0], ports[1], text));

    if (w->wish.kind == MN_WISH_MOVE_ADD)
        snprintf(t->seen, sizeof t->seen, "no cable, once that other end is moved");
    else
        snprintf(t->seen, sizeof t->seen, "no cable is heard there (%s: %s, %s: %s)",
                 mn_whole_node(w, w->cabling.ports[ports[0]].node), state_of(w, ports[0]),
                 mn_whole_node(w, w->cabling.ports[ports[1]].node), state_of(w, ports[1]));
    snprintf(t->expected, sizeof t->expected, "a cable, which makes %s of it",
             shape_text(&w->wish, shape, sizeof shape));
    if (mn_port_carrier(w, ports[0]) && mn_port_carrier(w, ports[1]))
        snprintf(t->fix, sizeof t->fix,
                 "see where the cables in %s and in %s end: there should be one, from the one to "
                 "the other",
                 mn_where_port(w, ports[0], text), mn_where_port(w, ports[1], other));
    else if (w->wish.now == MN_SHAPE_LINE && !half_there(w))
        snprintf(t->fix, sizeof t->fix, "if it is to be closed, join %.110s and %.110s",
                 mn_where_port(w, ports[0], text), mn_where_port(w, ports[1], other));
    else
        snprintf(t->fix, sizeof t->fix, "join %s and %s; if a cable is there, try another",
                 mn_where_port(w, ports[0], text), mn_where_port(w, ports[1], other));
}

void mn_whole_missing(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (w->wish.kind == MN_WISH_MOVE_ADD ||
        (w->wish.kind == MN_WISH_ADD && (w->wish.now != MN_SHAPE_LINE || half_there(w))))
        add(rule, w);
}

void mn_whole_open(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (w->wish.kind == MN_WISH_ADD && w->wish.now == MN_SHAPE_LINE && !half_there(w))
        add(rule, w);
}

/* --- pieces ----------------------------------------------------------------------------------- */

void mn_node_ports_text(const struct mn_whole *w, int node, char *text, size_t size)
{
    size_t len = 0;

    mn_strlcpy(text, "it has no port for a cable", size);
    for (size_t i = 0; i < w->cabling.n_ports && len < size; i++) {
        char port[MN_WHERE_SIZE];

        if (w->cabling.ports[i].node != node || !mn_port_is_free(w, (int)i))
            continue;
        mn_where_port(w, (int)i, port);
        len += (size_t)snprintf(text + len, size - len, "%s%s: %s", len ? ", " : "",
                                port + strlen(mn_whole_node(w, node)) + 1, state_of(w, (int)i));
    }
}

int mn_node_lit(const struct mn_whole *w, int node)
{
    int lit = 0;

    for (size_t i = 0; i < w->cabling.n_ports; i++)
        lit += w->cabling.ports[i].node == node && mn_port_is_free(w, (int)i) &&
               mn_port_carrier(w, (int)i);
    return lit;
}

void mn_whole_alone(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (w->survey->n_nodes < 2 || w->wish.kind != MN_WISH_NONE || w->misled)
        return;
    for (size_t i = 0; i < w->survey->n_nodes; i++) {
        if (mn_graph_degree(&w->all, i) || mn_whole_is_new(w, (int)i))
            continue;
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", mn_whole_node(w, (int)i));
        mn_node_ports_text(w, (int)i, t->seen, sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "a cable to one of the other nodes");
        if (mn_node_lit(w, (int)i)) {
            snprintf(t->fix, sizeof t->fix,
                     "its cables are in: on %s see whether a firewall drops what comes (nft list "
                     "ruleset), and whether probing has its rights there (root or CAP_NET_RAW)",
                     mn_whole_node(w, (int)i));
            continue;
        }
        snprintf(t->fix, sizeof t->fix,
                 "plug in its cables, switch its ports on (ip link set dev NETDEV up), and look "
                 "again");
    }
}

/* The names of the nodes in a piece. */
static void names(const struct mn_whole *w, const int *piece, int which, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < w->survey->n_nodes && len < size; i++)
        if (piece[i] == which)
            len += (size_t)snprintf(text + len, size - len, "%s%s", len ? ", " : "",
                                    mn_whole_node(w, (int)i));
}

/* A piece of nodes that the mesh file has not yet. */
static int all_new(const struct mn_whole *w, const int *piece, int which)
{
    for (size_t i = 0; i < w->survey->n_nodes; i++)
        if (piece[i] == which && !mn_whole_is_new(w, (int)i))
            return 0;
    return 1;
}

void mn_whole_apart(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    int *piece = mn_zalloc((w->survey->n_nodes + 1) * sizeof *piece), first = -1;
    int *count = mn_zalloc((w->survey->n_nodes + 1) * sizeof *count);
    size_t n = mn_graph_pieces(&w->all, piece);

    for (size_t i = 0; i < w->survey->n_nodes; i++)
        count[piece[i]]++;
    /* Nodes by themselves are another rule's. */
    for (size_t i = 0; i < n && w->wish.kind == MN_WISH_NONE && !w->misled; i++) {
        char one[100], two[100];

        if (count[i] < 2 || all_new(w, piece, (int)i))
            continue;
        if (first < 0) {
            first = (int)i;
            continue;
        }
        names(w, piece, first, one, sizeof one);
        names(w, piece, (int)i, two, sizeof two);
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%.90s | %.90s", one, two);
        snprintf(t->seen, sizeof t->seen, "no cable leads from %s to %s", one, two);
        snprintf(t->expected, sizeof t->expected, "one mesh");
        snprintf(t->fix, sizeof t->fix, "join a node of the one with a node of the other");
    }
    free(piece);
    free(count);
}
