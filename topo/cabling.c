#include "topo/cabling_impl.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

static const struct mn_survey_nic *nic_at(const struct mn_cabling *c, int node, int nic)
{
    return &c->survey->nodes[node].nics[nic];
}

/* --- ports ---------------------------------------------------------------------------------- */

static void port_add_nic(const struct mn_cabling *c, struct mn_port *port, int nic)
{
    int at = port->n_nics++;

    while (at > 0 && strcmp(nic_at(c, port->node, port->nics[at - 1])->pci.address,
                            nic_at(c, port->node, nic)->pci.address) > 0) {
        port->nics[at] = port->nics[at - 1];
        at--;
    }
    port->nics[at] = nic;
}

/* Of a node that has only been heard, names alone are known: those of the functions of a port
 * differ in the PCI domain, "enp1s0f0np0" and "enP2p1s0f0np0". */
static int names_one_port(const struct mn_survey_nic *a, const struct mn_survey_nic *b)
{
    const struct mn_survey_nic *nics[] = {a, b};
    const char *rest[2];

    for (int i = 0; i < 2; i++) {
        const char *name = nics[i]->netdev;

        if (nics[i]->driver[0] || nics[i]->pci.address[0] || strncmp(name, "en", 2) != 0)
            return 0;
        name += 2;
        if (*name == 'P')
            name += 1 + strspn(name + 1, "0123456789");
        rest[i] = name;
    }
    return strstr(rest[0], "np") && !strcmp(rest[0], rest[1]);
}

static int one_port(const struct mn_survey_nic *a, const struct mn_survey_nic *b)
{
    if (a->phys_port[0] || b->phys_port[0])
        return !strcmp(a->phys_port, b->phys_port);
    return names_one_port(a, b);
}

static void ports_of_node(struct mn_cabling *c, int node)
{
    const struct mn_survey_node *n = &c->survey->nodes[node];
    size_t first = c->n_ports;

    c->port_of[node] = mn_zalloc((n->n_nics + 1) * sizeof **c->port_of);
    for (size_t i = 0; i < n->n_nics; i++) {
        size_t at = first;

        while (at < c->n_ports && (c->ports[at].n_nics == MN_PORT_NICS_MAX ||
                                   !one_port(&n->nics[i], &n->nics[c->ports[at].nics[0]])))
            at++;
        if (at == c->n_ports)
            *(struct mn_port *)mn_grow((void **)&c->ports, &c->n_ports, sizeof *c->ports) =
                (struct mn_port){.node = node, .cable = -1, .knot = -1};
        port_add_nic(c, &c->ports[at], (int)i);
        c->port_of[node][i] = (int)at;
    }
}

/* --- what hangs together --------------------------------------------------------------------- */

static int root_of(int *root, int port)
{
    while (root[port] != port)
        port = root[port] = root[root[port]];
    return port;
}

static int joins(const struct mn_cabling *c, const struct mn_mesh_end *end)
{
    return nic_at(c, end->node, end->nic)->role != MN_ROLE_MANAGEMENT;
}

static int port_at(const struct mn_cabling *c, const struct mn_mesh_end *end)
{
    return c->port_of[end->node][end->nic];
}

/* The ports of each net in a row: next[port] is the one after, -1 at the end. */
static int *join(const struct mn_cabling *c, int **next)
{
    int *root = mn_zalloc((c->n_ports + 1) * sizeof *root);
    int *last = mn_zalloc((c->n_ports + 1) * sizeof *last);

    *next = mn_zalloc((c->n_ports + 1) * sizeof **next);
    for (size_t i = 0; i < c->n_ports; i++)
        root[i] = (int)i;
    for (size_t i = 0; i < c->survey->n_seen; i++) {
        const struct mn_sighting *seen = &c->survey->seen[i];

        if (!joins(c, &seen->at) || !joins(c, &seen->from))
            continue;
        int a = root_of(root, port_at(c, &seen->at)), b = root_of(root, port_at(c, &seen->from));
        root[a > b ? a : b] = a > b ? b : a;
    }
    for (size_t i = 0; i < c->n_ports; i++) {
        int of = root_of(root, (int)i);

        (*next)[i] = -1;
        if (of != (int)i)
            (*next)[last[of]] = (int)i;
        last[of] = (int)i;
    }
    free(last);
    return root;
}

/* Two ports of two nodes and nobody else of the run. */
static int is_pair(const struct mn_cabling *c, const int *next, int first, int ports[2])
{
    ports[0] = first;
    ports[1] = next[first];
    return ports[1] >= 0 && next[ports[1]] < 0 && c->ports[first].node != c->ports[ports[1]].node;
}

/* Of each net (by its root, the first of its ports) a stranger who makes it no cable, -1 = none. */
static int *strangers_of(const struct mn_cabling *c, int *root, const int *next)
{
    const struct mn_survey *s = c->survey;
    int *of = mn_zalloc((c->n_ports + 1) * sizeof *of);

    for (size_t i = 0; i < c->n_ports; i++)
        of[i] = -1;
    for (size_t i = 0; i < s->n_strangers; i++) {
        const struct mn_survey_stranger *met = &s->strangers[i];
        int net = root_of(root, port_at(c, &met->at)), ports[2];

        if (joins(c, &met->at) && !mn_survey_knows(s, met) &&
            (!is_pair(c, next, net, ports) || mn_stranger_between(c, (int)i, ports)) &&
            (of[net] < 0 ||
             (met->way == MN_SURVEY_LLDP && s->strangers[of[net]].way != MN_SURVEY_LLDP)))
            of[net] = (int)i;
    }
    return of;
}

static void knot_add(struct mn_cabling *c, enum mn_knot_kind kind, int first, const int *next,
                     int stranger)
{
    struct mn_knot *knot = mn_grow((void **)&c->knots, &c->n_knots, sizeof *c->knots);

    knot->kind = kind;
    knot->stranger = stranger;
    for (int port = first; port >= 0; port = next[port]) {
        *(int *)mn_grow((void **)&knot->ports, &knot->n_ports, sizeof *knot->ports) = port;
        c->ports[port].knot = (int)c->n_knots - 1;
    }
}

/* --- halves --------------------------------------------------------------------------------- */

/* Who hears whom between the functions of two ports. */
struct pairing {
    const struct mn_port *ports[2];
    struct mn_cable_half seen[MN_PORT_NICS_MAX][MN_PORT_NICS_MAX];
    int used[2][MN_PORT_NICS_MAX];
};

static int position(const struct mn_port *port, int nic)
{
    int i = 0;

    while (i < port->n_nics && port->nics[i] != nic)
        i++;
    return i;
}

static void pairing_saw(struct pairing *p, const struct mn_sighting *seen, int side)
{
    int at = position(p->ports[side], seen->at.nic);
    int from = position(p->ports[!side], seen->from.nic);
    struct mn_cable_half *half = side ? &p->seen[from][at] : &p->seen[at][from];

    half->heard[side] = 1;
    half->mtu[side] = seen->mtu > half->mtu[side] ? seen->mtu : half->mtu[side];
}

static int hears(const struct pairing *p, int a, int b)
{
    return !p->used[0][a] && !p->used[1][b] && (p->seen[a][b].heard[0] || p->seen[a][b].heard[1]);
}

/* The only function at the other port that this one and nobody else could be paired with, else -1.
 */
static int only_one(const struct pairing *p, int side, int i)
{
    int found = -1, n = 0;

    for (int k = 0; k < p->ports[!side]->n_nics; k++)
        if (side ? hears(p, k, i) : hears(p, i, k)) {
            found = k;
            n++;
        }
    return n == 1 ? found : -1;
}

static void take(struct pairing *p, struct mn_cable *cable, int a, int b)
{
    struct mn_cable_half *half = &cable->halves[cable->n_halves++];

    *half = p->seen[a][b];
    half->nics[0] = p->ports[0]->nics[a];
    half->nics[1] = p->ports[1]->nics[b];
    p->used[0][a] = p->used[1][b] = 1;
}

/* First what leaves no choice; then equal ranks, for where each half hears both of the other port
 * the lower domain belongs to the lower; then whatever is left. */
static int take_next(struct pairing *p, struct mn_cable *cable)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < p->ports[side]->n_nics; i++) {
            int k = only_one(p, side, i);

            if (k >= 0) {
                take(p, cable, side ? k : i, side ? i : k);
                return 1;
            }
        }
    for (int equal = 1; equal >= 0; equal--)
        for (int a = 0; a < p->ports[0]->n_nics; a++)
            for (int b = 0; b < p->ports[1]->n_nics; b++)
                if ((a == b || !equal) && hears(p, a, b)) {
                    take(p, cable, a, b);
                    return 1;
                }
    return 0;
}

static int half_order(const void *a, const void *b)
{
    const struct mn_cable_half *x = a, *y = b;

    return x->nics[0] - y->nics[0];
}

/* The pairings of all cables are filled in one walk over the sightings. */
static void halves_read(struct mn_cabling *c)
{
    struct pairing *pairings = mn_zalloc((c->n_cables + 1) * sizeof *pairings);

    for (size_t i = 0; i < c->n_cables; i++)
        for (int side = 0; side < 2; side++)
            pairings[i].ports[side] = &c->ports[c->cables[i].ports[side]];
    for (size_t i = 0; i < c->survey->n_seen; i++) {
        const struct mn_sighting *seen = &c->survey->seen[i];
        int at = port_at(c, &seen->at), from = port_at(c, &seen->from);
        int cable = c->ports[at].cable;

        if (cable >= 0 && at != from && joins(c, &seen->at) && joins(c, &seen->from))
            pairing_saw(&pairings[cable], seen, c->cables[cable].ports[1] == at);
    }
    for (size_t i = 0; i < c->n_cables; i++) {
        struct mn_cable *cable = &c->cables[i];

        while (take_next(&pairings[i], cable))
            ;
        qsort(cable->halves, (size_t)cable->n_halves, sizeof *cable->halves, half_order);
    }
    free(pairings);
}

/* --- the whole ------------------------------------------------------------------------------- */

static void net_read(struct mn_cabling *c, int first, const int *next, int stranger)
{
    int second = next[first];

    if (second < 0) {
        if (stranger >= 0)
            knot_add(c, MN_KNOT_FOREIGN, first, next, stranger);
        return;
    }
    if (next[second] >= 0) {
        knot_add(c, MN_KNOT_SHARED, first, next, stranger);
    } else if (c->ports[first].node == c->ports[second].node) {
        knot_add(c, MN_KNOT_LOOP, first, next, stranger);
    } else if (stranger >= 0) {
        knot_add(c, MN_KNOT_FOREIGN, first, next, stranger);
    } else {
        *(struct mn_cable *)mn_grow((void **)&c->cables, &c->n_cables, sizeof *c->cables) =
            (struct mn_cable){.ports = {first, second}};
        c->ports[first].cable = c->ports[second].cable = (int)c->n_cables - 1;
    }
}

void mn_cabling_read(const struct mn_survey *survey, struct mn_cabling *c)
{
    int *root, *next, *strangers;

    *c = (struct mn_cabling){.survey = survey};
    c->port_of = mn_zalloc((survey->n_nodes + 1) * sizeof *c->port_of);
    for (size_t n = 0; n < survey->n_nodes; n++)
        ports_of_node(c, (int)n);
    root = join(c, &next);
    strangers = strangers_of(c, root, next);
    for (size_t i = 0; i < c->n_ports; i++)
        if (root_of(root, (int)i) == (int)i)
            net_read(c, (int)i, next, strangers[i]);
    halves_read(c);
    free(root);
    free(next);
    free(strangers);
}

void mn_cabling_free(struct mn_cabling *c)
{
    for (size_t n = 0; c->port_of && n < c->survey->n_nodes; n++)
        free(c->port_of[n]);
    free(c->port_of);
    for (size_t i = 0; i < c->n_knots; i++)
        free(c->knots[i].ports);
    free(c->knots);
    free(c->ports);
    free(c->cables);
    *c = (struct mn_cabling){0};
}

struct mn_mesh_end mn_cable_end(const struct mn_cabling *c, const struct mn_cable *cable,
                                const struct mn_cable_half *half, int side)
{
    return (struct mn_mesh_end){c->ports[cable->ports[side]].node, half->nics[side]};
}

static void pair_add(const struct mn_cabling *c, int (**pairs)[2], size_t *n, int a, int b)
{
    int *pair = mn_grow((void **)pairs, n, sizeof **pairs);

    pair[0] = c->ports[a].node;
    pair[1] = c->ports[b].node;
}

void mn_cabling_graph(const struct mn_cabling *c, int knots, struct mn_graph *graph)
{
    int(*pairs)[2] = NULL;
    size_t n = 0;

    for (size_t i = 0; i < c->n_cables; i++)
        pair_add(c, &pairs, &n, c->cables[i].ports[0], c->cables[i].ports[1]);
    for (size_t i = 0; i < c->n_knots && knots; i++)
        for (size_t k = 1; k < c->knots[i].n_ports; k++)
            pair_add(c, &pairs, &n, c->knots[i].ports[0], c->knots[i].ports[k]);
    mn_graph_make(c->survey->n_nodes, (const int(*)[2])pairs, n, graph);
    free(pairs);
}

const char *mn_survey_shape(const struct mn_survey *survey)
{
    struct mn_cabling cabling;
    struct mn_graph cables, all;
    enum mn_shape shape;

    mn_cabling_read(survey, &cabling);
    mn_cabling_graph(&cabling, 0, &cables);
    mn_cabling_graph(&cabling, 1, &all);
    shape = mn_graph_shape(&cables, NULL);
    if (mn_graph_pieces(&cables, NULL) > 1 && mn_graph_pieces(&all, NULL) == 1)
        shape = MN_SHAPE_SWITCH;
    mn_graph_free(&cables);
    mn_graph_free(&all);
    mn_cabling_free(&cabling);
    return mn_shape_name(shape);
}
