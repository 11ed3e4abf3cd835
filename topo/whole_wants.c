/* Where cables should lead, by the mesh file, else by the addresses that NICs have, and rules that
 * set the cables against it. Both halves of a port are one cable here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/whole_rule.h"

/* The port at the other end, within the node too; -1 = none. */
static int far_of(const struct mn_whole *w, int port)
{
    const struct mn_cabling *c = &w->cabling;
    const struct mn_port *p = &c->ports[port];
    const int *ends = p->cable >= 0 ? c->cables[p->cable].ports
                      : p->knot >= 0 && c->knots[p->knot].kind == MN_KNOT_LOOP
                          ? c->knots[p->knot].ports
                          : NULL;

    return ends ? ends[ends[0] == port] : -1;
}

/* --- by the file ------------------------------------------------------------------------------ */

/* The port of the survey that an end of the file is: by MAC, else by the names of node and netdev;
 * -1 = it is not there. */
static int port_of(const struct mn_whole *w, const struct mn_mesh_end *end)
{
    const struct mn_mesh_node *node = &w->file->nodes[end->node];
    const struct mn_mesh_nic *nic = &node->nics[end->nic];

    for (size_t n = 0; n < w->survey->n_nodes && nic->has_mac; n++)
        for (size_t i = 0; i < w->survey->nodes[n].n_nics; i++)
            if (mn_survey_mac_is(w->survey, &w->survey->nodes[n], i, nic->mac))
                return w->cabling.port_of[n][i];
    for (size_t n = 0; n < w->survey->n_nodes; n++) {
        const struct mn_survey_node *here = &w->survey->nodes[n];
        int i = mn_survey_nic_index(here, nic->netdev);

        if (i >= 0 && (!strcmp(here->name, node->name) || !strcmp(here->hostname, node->hostname) ||
                       !strcmp(mn_whole_node(w, (int)n), node->name)))
            return w->cabling.port_of[n][i];
    }
    return -1;
}

static void wants_of_file(struct mn_whole *w)
{
    for (size_t i = 0; i < w->file->n_links; i++) {
        int a = port_of(w, &w->file->links[i].ends[0]), b = port_of(w, &w->file->links[i].ends[1]);

        if (a < 0 || b < 0 || a == b)
            continue;
        w->wants[a] = b;
        w->wants[b] = a;
    }
}

/* --- by addresses ----------------------------------------------------------------------------- */

/* Whether an address of one port shares its subnet with one of the other. */
static int numbered_together(const struct mn_whole *w, int a, int b)
{
    for (int i = 0; i < w->cabling.ports[a].n_nics; i++)
        for (int k = 0; k < w->cabling.ports[b].n_nics; k++)
            if (mn_nics_share(mn_port_nic(w, a, i), mn_port_nic(w, b, k), NULL, NULL))
                return 1;
    return 0;
}

static int is_cables(const struct mn_whole *w, int port)
{
    return mn_port_nic(w, port, 0)->role != MN_ROLE_MANAGEMENT &&
           !mn_port_nic(w, port, 0)->master[0];
}

/* The only port of another node that the addresses point at, -1 = none or several. */
static int pointed_at(const struct mn_whole *w, int port)
{
    int found = -1, far = far_of(w, port);

    if (far >= 0 && numbered_together(w, port, far))
        return far;
    for (size_t i = 0; i < w->cabling.n_ports; i++) {
        if (w->cabling.ports[i].node == w->cabling.ports[port].node || !is_cables(w, (int)i) ||
            !numbered_together(w, port, (int)i))
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

/* Of ports that point at each other, and only if some cable runs otherwise. */
static void wants_of_addresses(struct mn_whole *w)
{
    int *at = mn_zalloc((w->cabling.n_ports + 1) * sizeof *at);

    for (size_t i = 0; i < w->cabling.n_ports; i++)
        at[i] = is_cables(w, (int)i) ? pointed_at(w, (int)i) : -1;
    for (size_t i = 0; i < w->cabling.n_ports; i++)
        if (at[i] >= 0 && at[at[i]] == (int)i)
            w->wants[i] = at[i];
    free(at);
}

void mn_whole_wants(struct mn_whole *w)
{
    w->wants = mn_zalloc((w->cabling.n_ports + 1) * sizeof *w->wants);
    for (size_t i = 0; i < w->cabling.n_ports; i++)
        w->wants[i] = -1;
    if (w->file)
        wants_of_file(w);
    else
        wants_of_addresses(w);
    for (size_t i = 0; i < w->cabling.n_ports; i++)
        w->misled |= w->wants[i] >= 0 && far_of(w, (int)i) >= 0 && far_of(w, (int)i) != w->wants[i];
}

/* --- rules ------------------------------------------------------------------------------------ */

/* near's cable ends at is and should end at wanted. */
static void moved(const struct mn_trouble_rule *rule, const struct mn_whole *w, int near, int is,
                  int wanted, int exchange)
{
    char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE];
    struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, near, is, text));

    snprintf(t->seen, sizeof t->seen, "the cable in %.100s leads to %.100s",
             mn_where_port(w, near, text), mn_where_port(w, is, other));
    snprintf(t->expected, sizeof t->expected, "to %.110s, as %s", mn_where_port(w, wanted, other),
             w->file ? "the mesh file says" : "the addresses of both say");
    if (exchange)
        snprintf(t->fix, sizeof t->fix,
                 "exchange two plugs: move the end at %.110s to %.110s, and the one that is there "
                 "back",
                 mn_where_port(w, is, text), mn_where_port(w, wanted, other));
    else
        snprintf(t->fix, sizeof t->fix, "move the end at %.110s to %.110s%s",
                 mn_where_port(w, is, text), mn_where_port(w, wanted, other),
                 w->file ? "" : ", or number the cables as they are: meshnet topo address");
}

/* Looks at each cable once, from its first port; told: of ports whose cable is dealt with. */
static void mislead(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    char *told = mn_zalloc(w->cabling.n_ports + 1);

    for (size_t i = 0; i < w->cabling.n_ports; i++) {
        int ends[2] = {(int)i, far_of(w, (int)i)}, best = -1;

        if (ends[1] < ends[0] || told[i])
            continue;
        /* Of the two ends that one stays which leaves less to be done. */
        for (int side = 0; side < 2; side++) {
            int wanted = w->wants[ends[side]];

            if (wanted >= 0 && wanted != ends[!side] &&
                (best < 0 || (far_of(w, wanted) < 0 && far_of(w, w->wants[ends[best]]) >= 0)))
                best = side;
        }
        if (best < 0)
            continue;
        int is = ends[!best], wanted = w->wants[ends[best]], other = far_of(w, wanted);
        /* The cable that sits where this one should end belongs where this one ends. */
        int exchange = other >= 0 && w->wants[is] >= 0 && w->wants[is] == other;

        if (exchange)
            told[wanted] = told[other] = 1;
        moved(rule, w, ends[best], is, wanted, exchange);
    }
    free(told);
}

void mn_whole_file_cable(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (w->file)
        mislead(rule, w);
}

void mn_whole_neighbour(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    if (!w->file)
        mislead(rule, w);
}

void mn_whole_file_missing(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; w->file && i < w->cabling.n_ports; i++) {
        int a = (int)i, b = w->wants[i];
        char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE];

        if (b < a || !mn_whole_lacks(w, a, b) || mn_port_carrier(w, a) != mn_port_carrier(w, b))
            continue; /* a link at one end only is another rule's */
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, a, b, text));
        snprintf(t->seen, sizeof t->seen, "nobody is heard at either end, %s",
                 mn_port_carrier(w, a) ? "though both have a link" : "and neither has a link");
        snprintf(t->expected, sizeof t->expected, "the cable of the mesh file");
        snprintf(t->fix, sizeof t->fix, "join %.110s and %.110s; if a cable is there, try another",
                 mn_where_port(w, a, text), mn_where_port(w, b, other));
    }
}

/* Containers of one host have its name in common: it is nobody's then. */
static int has_hostname(const struct mn_survey *survey, size_t node, const char *hostname)
{
    if (strcmp(survey->nodes[node].hostname, hostname) != 0)
        return 0;
    for (size_t n = 0; n < survey->n_nodes; n++)
        if (n != node && !strcmp(survey->nodes[n].hostname, hostname))
            return 0;
    return 1;
}

/* A node of the file is this one of the survey, by a MAC of its NICs or by its names. */
static int is_one(const struct mn_whole *w, const struct mn_mesh_node *node, size_t n)
{
    const struct mn_survey_node *here = &w->survey->nodes[n];

    if (!strcmp(here->name, node->name) || has_hostname(w->survey, n, node->hostname) ||
        !strcmp(mn_whole_node(w, (int)n), node->name))
        return 1;
    for (size_t i = 0; i < here->n_nics; i++)
        for (size_t k = 0; k < node->n_nics; k++)
            if (node->nics[k].has_mac && mn_survey_mac_is(w->survey, here, i, node->nics[k].mac))
                return 1;
    return 0;
}

static int is_node(const struct mn_whole *w, const struct mn_mesh_node *node)
{
    for (size_t n = 0; n < w->survey->n_nodes; n++)
        if (is_one(w, node, n))
            return 1;
    return 0;
}

size_t mn_whole_common(const struct mn_survey *survey, const struct mn_mesh *file)
{
    struct mn_whole w = {.survey = survey};
    size_t common = 0;

    for (size_t i = 0; i < file->n_nodes; i++)
        common += (size_t)is_node(&w, &file->nodes[i]);
    return common;
}

int mn_whole_is_new(const struct mn_whole *w, int node)
{
    for (size_t i = 0; w->file && i < w->file->n_nodes; i++)
        if (is_one(w, &w->file->nodes[i], (size_t)node))
            return 0;
    return w->file != NULL;
}

static struct mn_trouble *not_in_file(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                                      int node, const char *first)
{
    struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", mn_whole_node(w, node));

    snprintf(t->expected, sizeof t->expected, "a node of the mesh file, with its cables");
    snprintf(t->fix, sizeof t->fix,
             "%sadd it: meshnet discover --neighbors --hosts %s,… --merge -o FILE; then meshnet "
             "topo address and meshnet topo apply",
             first, mn_whole_node(w, node));
    return t;
}

void mn_whole_file_bare(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t n = 0; n < w->survey->n_nodes; n++) {
        if (mn_graph_degree(&w->all, n) || !mn_whole_is_new(w, (int)n))
            continue;
        struct mn_trouble *t = not_in_file(rule, w, (int)n, "plug its cables in, then ");
        mn_node_ports_text(w, (int)n, t->seen, sizeof t->seen);
    }
}

void mn_whole_file_new(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t n = 0; n < w->survey->n_nodes; n++) {
        int cables = 0;

        if (!mn_graph_degree(&w->all, n) || !mn_whole_is_new(w, (int)n))
            continue;
        for (size_t i = 0; i < w->cabling.n_ports; i++)
            cables += w->cabling.ports[i].node == (int)n && w->cabling.ports[i].cable >= 0;
        struct mn_trouble *t = not_in_file(rule, w, (int)n, "");
        snprintf(t->seen, sizeof t->seen, "%d cable%s of it heard, and the file has no such node",
                 cables, cables == 1 ? "" : "s");
    }
}

void mn_whole_file_node(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t n = 0; w->file && n < w->file->n_nodes; n++) {
        const struct mn_mesh_node *node = &w->file->nodes[n];

        if (!is_node(w, node)) {
            struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", node->name);
            snprintf(t->seen, sizeof t->seen, "the mesh file has the node, this survey has not");
            snprintf(t->expected, sizeof t->expected, "all nodes of the file");
            snprintf(t->fix, sizeof t->fix,
                     "ask it too (--hosts); if it is gone for good, take it out of the file");
            continue;
        }
        for (size_t i = 0; i < node->n_nics; i++) {
            struct mn_mesh_end end = {(int)n, (int)i};
            int linked = 0;

            for (size_t k = 0; k < w->file->n_links; k++)
                for (int side = 0; side < 2; side++)
                    linked |= w->file->links[k].ends[side].node == end.node &&
                              w->file->links[k].ends[side].nic == end.nic;
            if (!linked || port_of(w, &end) >= 0)
                continue;
            struct mn_trouble *t =
                mn_trouble_add(w->found, rule, "%s %s", node->name, node->nics[i].netdev);
            snprintf(t->seen, sizeof t->seen, "the node shows no such NIC");
            snprintf(t->expected, sizeof t->expected, "the end of a cable of the mesh file");
            snprintf(t->fix, sizeof t->fix,
                     "on %s: ip link show; lspci -nn | grep -i net; a NIC that --skip names is not "
                     "looked at",
                     node->name);
        }
    }
}

int mn_whole_lacks(const struct mn_whole *w, int a, int b)
{
    return far_of(w, a) < 0 && far_of(w, b) < 0 && w->cabling.ports[a].knot < 0 &&
           w->cabling.ports[b].knot < 0;
}

void mn_whole_file_extra(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; w->file && i < w->cabling.n_cables; i++) {
        const int *ports = w->cabling.cables[i].ports;
        char text[MN_WHERE_SIZE];

        if (w->wants[ports[0]] >= 0 || w->wants[ports[1]] >= 0 ||
            mn_whole_is_new(w, w->cabling.ports[ports[0]].node) ||
            mn_whole_is_new(w, w->cabling.ports[ports[1]].node))
            continue;
        struct mn_trouble *t =
            mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, ports[0], ports[1], text));
        snprintf(t->seen, sizeof t->seen, "a cable between ports that the file does not join");
        snprintf(t->expected, sizeof t->expected, "a link of the mesh file");
        snprintf(t->fix, sizeof t->fix,
                 "meshnet discover --neighbors makes the file anew; then number and push it");
    }
}
