/* What stays of an old mesh though a survey did not see it: a node that is off, a half that is deaf
 * for a moment. Only what was seen to be otherwise goes. */
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/survey_make.h"

static int survey_node(const struct mn_survey_maker *m, int old)
{
    for (size_t n = 0; n < m->survey->n_nodes; n++)
        if (m->old_node[n] == old)
            return (int)n;
    return -1;
}

/* The NIC of the survey that an end of the old mesh is; 0: it was not there. */
static int survey_end(const struct mn_survey_maker *m, const struct mn_mesh_end *was,
                      struct mn_mesh_end *is)
{
    int n = survey_node(m, was->node);

    for (size_t i = 0; n >= 0 && i < m->survey->nodes[n].n_nics; i++)
        if (mn_survey_nic_before(m, n, &m->survey->nodes[n].nics[i]) ==
            mn_mesh_end_nic(m->old, was)) {
            *is = (struct mn_mesh_end){n, (int)i};
            return 1;
        }
    return 0;
}

static int in_cable(const struct mn_cabling *c, const struct mn_mesh_end *end)
{
    const struct mn_port *port = &c->ports[c->port_of[end->node][end->nic]];
    const struct mn_cable *cable = port->cable < 0 ? NULL : &c->cables[port->cable];
    int found = 0;

    for (int h = 0; cable && h < cable->n_halves; h++)
        found |= cable->halves[h].nics[&c->ports[cable->ports[1]] == port] == end->nic;
    return found;
}

/* Nothing that was seen speaks against the link, nor is it seen. */
static int link_stays(const struct mn_survey_maker *m, const struct mn_mesh_link *link)
{
    const struct mn_cabling *c = m->cabling;
    const struct mn_port *ports[2] = {NULL, NULL};

    for (int side = 0; side < 2; side++) {
        struct mn_mesh_end is;

        if (!survey_end(m, &link->ends[side], &is))
            continue;
        ports[side] = &c->ports[c->port_of[is.node][is.nic]];
        if (in_cable(c, &is) || ports[side]->knot >= 0)
            return 0;
    }
    /* A dark half stays beside one that is heard. */
    if (ports[0] && ports[1])
        return ports[0]->cable == ports[1]->cable;
    return (!ports[0] || ports[0]->cable < 0) && (!ports[1] || ports[1]->cable < 0);
}

static int same_end(const struct mn_mesh_end *a, const struct mn_mesh_end *b)
{
    return a->node == b->node && a->nic == b->nic;
}

/* lit: the NIC is there and has a carrier; then it stays for the sake of a link only. */
static int nic_stays(const struct mn_survey_maker *m, const struct mn_mesh_end *was, int lit)
{
    int links = 0, stay = 0;

    for (size_t i = 0; i < m->old->n_links; i++)
        for (int side = 0; side < 2; side++)
            if (same_end(&m->old->links[i].ends[side], was)) {
                links++;
                stay |= link_stays(m, &m->old->links[i]);
            }
    return links ? stay : !lit;
}

int mn_survey_keeps(const struct mn_survey_maker *m, int node, int nic)
{
    const struct mn_survey_nic *is = &m->survey->nodes[node].nics[nic];
    const struct mn_mesh_nic *was = mn_survey_nic_before(m, node, is);
    struct mn_mesh_end end = {m->old_node[node], 0};

    if (!was)
        return 0;
    end.nic = (int)(was - m->old->nodes[end.node].nics);
    return m->now[end.node][end.nic].node < 0 && nic_stays(m, &end, is->carrier);
}

static void nic_keep(struct mn_survey_maker *m, const struct mn_mesh_end *was, int node)
{
    struct mn_mesh_node *to = &m->mesh->nodes[node];
    struct mn_mesh_nic made = *mn_mesh_end_nic(m->old, was);

    if (to->n_nics >= MN_MESH_NICS_MAX || mn_mesh_nic_index(to, made.name) >= 0)
        return;
    made.addrs = NULL;
    made.n_addrs = 0;
    made.line = made.column = 0;
    made.has_mac = made.has_mac && !mn_survey_mac_taken(m->mesh, node, made.mac);
    m->now[was->node][was->nic] = (struct mn_mesh_end){node, (int)to->n_nics};
    *(struct mn_mesh_nic *)mn_grow((void **)&to->nics, &to->n_nics, sizeof *to->nics) = made;
}

void mn_survey_keep_nodes(struct mn_survey_maker *m)
{
    for (size_t o = 0; o < m->old->n_nodes; o++) {
        int node = survey_node(m, (int)o);

        if (node < 0) {
            struct mn_mesh_node *to =
                mn_grow((void **)&m->mesh->nodes, &m->mesh->n_nodes, sizeof *m->mesh->nodes);

            mn_strlcpy(to->name, m->old->nodes[o].name, sizeof to->name);
            mn_strlcpy(to->hostname, m->old->nodes[o].hostname, sizeof to->hostname);
            node = (int)m->mesh->n_nodes - 1;
        }
        for (size_t i = 0; i < m->old->nodes[o].n_nics; i++) {
            struct mn_mesh_end was = {(int)o, (int)i}, is;

            if (m->now[o][i].node < 0 && !survey_end(m, &was, &is) && nic_stays(m, &was, 0))
                nic_keep(m, &was, node);
        }
    }
}

void mn_survey_keep_links(const struct mn_survey_maker *m)
{
    for (size_t i = 0; i < m->old->n_links; i++) {
        const struct mn_mesh_link *was = &m->old->links[i];
        struct mn_mesh_nic found[2] = {{.n_addrs = 0}, {.n_addrs = 0}};
        struct mn_mesh_end ends[2];

        for (int side = 0; side < 2; side++)
            ends[side] = m->now[was->ends[side].node][was->ends[side].nic];
        if (ends[0].node < 0 || ends[1].node < 0 || !link_stays(m, was))
            continue;
        struct mn_mesh_link *link =
            mn_grow((void **)&m->mesh->links, &m->mesh->n_links, sizeof *m->mesh->links);
        int turn = ends[0].node > ends[1].node;
        for (int side = 0; side < 2; side++)
            link->ends[side] = ends[turn ? !side : side];
        mn_strlcpy(link->name, was->name, sizeof link->name);
        for (int side = 0; side < 2; side++)
            mn_survey_address_kept(m, mn_mesh_end_nic(m->old, &was->ends[side]), ends[side].node,
                                   &found[side]);
        mn_link_subnet(&found[0], &found[1], &link->subnet);
        for (int side = 0; side < 2; side++) {
            struct mn_mesh_nic *to = &m->mesh->nodes[ends[side].node].nics[ends[side].nic];

            to->addrs = found[side].addrs;
            to->n_addrs = found[side].n_addrs;
        }
    }
}

void mn_survey_keep_addresses(const struct mn_survey_maker *m)
{
    for (size_t o = 0; o < m->old->n_nodes; o++)
        for (size_t i = 0; i < m->old->nodes[o].n_nics; i++) {
            const struct mn_mesh_end *now = &m->now[o][i];
            int linked = now->node < 0;

            for (size_t k = 0; k < m->mesh->n_links && !linked; k++)
                for (int side = 0; side < 2; side++)
                    linked |= same_end(&m->mesh->links[k].ends[side], now);
            if (!linked && !m->mesh->nodes[now->node].nics[now->nic].n_addrs)
                mn_survey_address_kept(m, &m->old->nodes[o].nics[i], now->node,
                                       &m->mesh->nodes[now->node].nics[now->nic]);
        }
}
