/* From a survey to the mesh as it is cabled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_gpu.h"
#include "topo/survey_make.h"

/* --- what was there before -------------------------------------------------------------------- */

static int same_mac(const struct mn_survey *survey, const struct mn_mesh_nic *a,
                    const struct mn_survey_node *node, size_t nic)
{
    return a->has_mac && mn_survey_mac_is(survey, node, nic, a->mac);
}

/* By the MACs of its NICs, which outlive names; then by name; then by host name. Of nodes with
 * equally many, as of cards that were exchanged, it is the one of its name. */
static int node_before(const struct mn_survey *survey, const struct mn_mesh *old, const char *taken,
                       const struct mn_survey_node *node)
{
    int best = -1, most = 0, named = mn_mesh_node_index(old, node->name);

    for (size_t n = 0; n < old->n_nodes; n++) {
        int same = 0;

        for (size_t i = 0; i < old->nodes[n].n_nics && !taken[n]; i++)
            for (size_t k = 0; k < node->n_nics; k++)
                same += same_mac(survey, &old->nodes[n].nics[i], node, k);
        if (same > most || (same && same == most && (int)n == named))
            best = (int)n;
        most = same > most ? same : most;
    }
    if (best < 0 && named >= 0 && !taken[named])
        best = named;
    for (size_t n = 0; n < old->n_nodes && best < 0; n++)
        if (!taken[n] && node->hostname[0] && !strcmp(old->nodes[n].hostname, node->hostname))
            best = (int)n;
    return best;
}

const struct mn_mesh_nic *mn_survey_nic_before(const struct mn_survey_maker *m, int node,
                                               const struct mn_survey_nic *nic)
{
    const struct mn_mesh_node *was =
        m->old_node[node] < 0 ? NULL : &m->old->nodes[m->old_node[node]];

    for (size_t i = 0; was && i < was->n_nics; i++)
        if (was->nics[i].has_mac && nic->has_mac && !memcmp(was->nics[i].mac, nic->mac, 6))
            return &was->nics[i];
    for (size_t i = 0; was && i < was->n_nics; i++)
        if (!strcmp(was->nics[i].netdev, nic->netdev) && !(was->nics[i].has_mac && nic->has_mac))
            return &was->nics[i];
    return NULL;
}

/* --- nodes and NICs --------------------------------------------------------------------------- */

static int name_taken(const struct mn_mesh_node *node, const char *name)
{
    return mn_mesh_nic_index(node, name) >= 0;
}

/* A mesh file has each MAC once; where it is on two nodes, as of a machine that was cloned, it
 * tells nothing. */
int mn_survey_mac_taken(const struct mn_mesh *mesh, int node, const uint8_t mac[6])
{
    for (int n = 0; n < node; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++)
            if (mesh->nodes[n].nics[i].has_mac &&
                !memcmp(mesh->nodes[n].nics[i].mac, mac, sizeof mesh->nodes[n].nics[i].mac))
                return 1;
    return 0;
}

/* What a mesh file can hold; else 0, for which the host is asked. */
static long within(long value, long min, long max)
{
    return value >= min && value <= max ? value : 0;
}

/* Whether it has an address by which others could come. */
static int is_numbered(const struct mn_survey_nic *nic)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (!mn_addr_is_link_local(&nic->addrs[i]) && !mn_addr_is_loopback(&nic->addrs[i]) &&
            nic->addrs[i].prefix < (nic->addrs[i].family == AF_INET6 ? 128 : 32))
            return 1;
    return 0;
}

static void nic_make(const struct mn_survey_maker *m, int node, int index)
{
    const struct mn_survey_nic *nic = &m->survey->nodes[node].nics[index];
    const struct mn_mesh_nic *was = mn_survey_nic_before(m, node, nic);
    struct mn_mesh_node *to = &m->mesh->nodes[node];
    struct mn_mesh_nic made = {.port = 1, .gid_index = -1};

    if (was) {
        made = *was;
        made.addrs = NULL;
        made.n_addrs = 0;
        made.line = made.column = 0;
    } else {
        made.role = nic->role;
    }
    if (!was || !strcmp(was->name, was->netdev) || name_taken(to, made.name))
        mn_strlcpy(made.name, nic->netdev, sizeof made.name);
    mn_strlcpy(made.netdev, nic->netdev, sizeof made.netdev);
    mn_strlcpy(made.device, nic->device, sizeof made.device);
    made.port = nic->device[0] && within(nic->port, 1, 254) ? nic->port : 1;
    /* A bond's is that of a member, a VLAN's that of the NIC below. */
    made.has_mac = nic->kind != MN_NIC_BOND && nic->kind != MN_NIC_VLAN &&
                   mn_survey_mac_is(m->survey, &m->survey->nodes[node], (size_t)index, nic->mac);
    memcpy(made.mac, nic->mac, sizeof made.mac);
    /* A port that is dark now is as fast as it was. */
    if (!was || nic->carrier || nic->speed_mbps)
        made.speed_mbps = within(nic->speed_mbps, 1, 10000000);
    /* Of a NIC that nobody has set up yet it is the driver's, which nobody wants. */
    if (is_numbered(nic))
        made.mtu = (int)within(nic->mtu, 576, 65536);
    m->place[node][index] = (int)to->n_nics;
    if (was)
        m->now[m->old_node[node]][was - m->old->nodes[m->old_node[node]].nics] =
            (struct mn_mesh_end){node, (int)to->n_nics};
    *(struct mn_mesh_nic *)mn_grow((void **)&to->nics, &to->n_nics, sizeof *to->nics) = made;
}

static int leads_to_management(const struct mn_survey_nic *nic)
{
    return nic->role == MN_ROLE_MANAGEMENT && is_numbered(nic) && !nic->master[0];
}

static int is_cabled(const struct mn_cabling *c, int node, int nic)
{
    const struct mn_port *port = &c->ports[c->port_of[node][nic]];
    const struct mn_cable *cable = port->cable < 0 ? NULL : &c->cables[port->cable];
    int found = 0;

    for (int h = 0; cable && h < cable->n_halves; h++)
        found |= cable->halves[h].nics[&c->ports[cable->ports[1]] == port] == nic;
    return found;
}

static void node_make(struct mn_survey_maker *m, int index)
{
    const struct mn_survey_node *node = &m->survey->nodes[index];
    const struct mn_mesh_node *was =
        m->old_node[index] < 0 ? NULL : &m->old->nodes[m->old_node[index]];
    struct mn_mesh_node *to =
        mn_grow((void **)&m->mesh->nodes, &m->mesh->n_nodes, sizeof *m->mesh->nodes);

    mn_strlcpy(to->name, was ? was->name : node->name, sizeof to->name);
    mn_strlcpy(to->hostname,
               was                 ? was->hostname
               : node->hostname[0] ? node->hostname
                                   : node->name,
               sizeof to->hostname);
    m->place[index] = mn_zalloc((node->n_nics + 1) * sizeof **m->place);
    for (size_t i = 0; i < node->n_nics; i++) {
        m->place[index][i] = -1;
        if (is_cabled(m->cabling, index, (int)i) || leads_to_management(&node->nics[i]) ||
            mn_survey_keeps(m, index, (int)i))
            nic_make(m, index, (int)i);
    }
}

/* Two nodes that took the same old one, or a new one with an old one's name: told apart by number.
 */
static void names_apart(struct mn_mesh *mesh)
{
    for (size_t i = 0; i < mesh->n_nodes; i++) {
        char base[MN_NAME_MAX - 16];

        mn_strlcpy(base, mesh->nodes[i].name, sizeof base);
        for (int n = 2; mn_mesh_node_index(mesh, mesh->nodes[i].name) < (int)i; n++)
            snprintf(mesh->nodes[i].name, sizeof mesh->nodes[i].name, "%s-%d", base, n);
    }
}

/* --- groups ----------------------------------------------------------------------------------- */

/* NICs that share a port share its capacity: "port0", … in the order of the ports. */
static void groups_make(const struct mn_survey_maker *m)
{
    const struct mn_cabling *c = m->cabling;
    int node = -1, number = 0;

    for (size_t p = 0; p < c->n_ports; p++) {
        const struct mn_port *port = &c->ports[p];
        char group[MN_NAME_MAX] = "";
        int members = 0;

        number = port->node == node ? number : 0;
        node = port->node;
        for (int i = 0; i < port->n_nics; i++) {
            int at = m->place[node][port->nics[i]];

            members += at >= 0;
            if (at >= 0 && m->mesh->nodes[node].nics[at].group[0] && !group[0])
                mn_strlcpy(group, m->mesh->nodes[node].nics[at].group, sizeof group);
        }
        if (port->n_nics < 2)
            continue;
        if (!group[0])
            snprintf(group, sizeof group, "port%d", number);
        number++;
        for (int i = 0; i < port->n_nics; i++) {
            int at = m->place[node][port->nics[i]];

            if (at >= 0)
                mn_strlcpy(m->mesh->nodes[node].nics[at].group, members > 1 ? group : "",
                           sizeof group);
        }
    }
}

/* --- links ------------------------------------------------------------------------------------ */

/* Where an end of the old mesh is now; 0: it is gone. */
static int end_now(const struct mn_survey_maker *m, const struct mn_mesh_end *was,
                   struct mn_mesh_end *now)
{
    *now = m->now[was->node][was->nic];
    return now->node >= 0;
}

static int same_end(const struct mn_mesh_end *a, const struct mn_mesh_end *b)
{
    return a->node == b->node && a->nic == b->nic;
}

static void link_names(const struct mn_survey_maker *m)
{
    for (size_t k = 0; k < m->old->n_links; k++) {
        struct mn_mesh_end ends[2];

        if (!end_now(m, &m->old->links[k].ends[0], &ends[0]) ||
            !end_now(m, &m->old->links[k].ends[1], &ends[1]))
            continue;
        for (size_t i = 0; i < m->mesh->n_links; i++) {
            struct mn_mesh_link *link = &m->mesh->links[i];

            if ((same_end(&link->ends[0], &ends[0]) && same_end(&link->ends[1], &ends[1])) ||
                (same_end(&link->ends[0], &ends[1]) && same_end(&link->ends[1], &ends[0])))
                mn_strlcpy(link->name, m->old->links[k].name, sizeof link->name);
        }
    }
    if (mn_link_name(m->mesh, NULL))
        mn_no_memory();
}

static void links_make(const struct mn_survey_maker *m)
{
    const struct mn_cabling *c = m->cabling;

    for (size_t i = 0; i < c->n_cables; i++)
        for (int h = 0; h < c->cables[i].n_halves; h++) {
            struct mn_mesh_link *link =
                mn_grow((void **)&m->mesh->links, &m->mesh->n_links, sizeof *m->mesh->links);
            struct mn_mesh_end from[2];

            for (int side = 0; side < 2; side++) {
                from[side] = mn_cable_end(c, &c->cables[i], &c->cables[i].halves[h], side);
                link->ends[side] = (struct mn_mesh_end){from[side].node,
                                                        m->place[from[side].node][from[side].nic]};
            }
            mn_survey_address_link(m, link, from);
        }
    mn_survey_keep_links(m);
    link_names(m);
}

static void routes_keep(const struct mn_survey_maker *m)
{
    for (size_t i = 0; i < m->old->n_routes; i++) {
        struct mn_mesh_route route = m->old->routes[i];
        struct mn_addr subnet;

        if (!end_now(m, &m->old->routes[i].ends[0], &route.ends[0]) ||
            !end_now(m, &m->old->routes[i].ends[1], &route.ends[1]) ||
            mn_link_subnet(mn_mesh_end_nic(m->mesh, &route.ends[0]),
                           mn_mesh_end_nic(m->mesh, &route.ends[1]), &subnet))
            continue;
        route.line = route.column = 0;
        *(struct mn_mesh_route *)mn_grow((void **)&m->mesh->routes, &m->mesh->n_routes,
                                         sizeof *m->mesh->routes) = route;
    }
}

/* --- GPUs: a survey has none, those of the old mesh stay ---------------------------------------
 */

static void gpus_keep(const struct mn_survey_maker *m, int index, int was_node)
{
    struct mn_mesh_node *node = &m->mesh->nodes[index];
    size_t kept = 0;

    mn_mesh_gpus_copy(node, &m->old->nodes[was_node]);
    for (size_t g = 0; g < node->n_gpus; g++) {
        struct mn_mesh_gpu gpu = node->gpus[g];
        size_t n = 0;

        for (size_t i = 0; i < gpu.n_nics; i++) {
            struct mn_mesh_end was = {was_node, gpu.nics[i]}, now;

            if (end_now(m, &was, &now))
                gpu.nics[n++] = now.nic;
        }
        gpu.n_nics = n;
        if (n)
            node->gpus[kept++] = gpu;
        else
            free(gpu.nics);
    }
    node->n_gpus = kept;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void make(struct mn_survey_maker *m)
{
    size_t n = m->survey->n_nodes;
    char *taken = mn_zalloc(m->old->n_nodes + 1);

    m->old_node = mn_zalloc((n + 1) * sizeof *m->old_node);
    m->place = mn_zalloc((n + 1) * sizeof *m->place);
    for (size_t i = 0; i < n; i++) {
        m->old_node[i] = node_before(m->survey, m->old, taken, &m->survey->nodes[i]);
        if (m->old_node[i] >= 0)
            taken[m->old_node[i]] = 1;
    }
    free(taken);
    m->now = mn_zalloc((m->old->n_nodes + 1) * sizeof *m->now);
    for (size_t i = 0; i < m->old->n_nodes; i++) {
        m->now[i] = mn_zalloc((m->old->nodes[i].n_nics + 1) * sizeof **m->now);
        for (size_t k = 0; k < m->old->nodes[i].n_nics; k++)
            m->now[i][k].node = -1;
    }
    for (size_t i = 0; i < n; i++)
        node_make(m, (int)i);
    mn_survey_keep_nodes(m);
    names_apart(m->mesh);
    groups_make(m);
    mn_survey_address_office(m);
    links_make(m);
    mn_survey_keep_addresses(m);
    mn_survey_address_gids(m->mesh);
    routes_keep(m);
    for (size_t i = 0; i < m->mesh->n_nodes; i++) {
        int was = i < n ? m->old_node[i] : mn_mesh_node_index(m->old, m->mesh->nodes[i].name);

        if (was >= 0)
            gpus_keep(m, (int)i, was);
    }
    for (size_t i = 0; i < n; i++)
        free(m->place[i]);
    for (size_t i = 0; i < m->old->n_nodes; i++)
        free(m->now[i]);
    free(m->now);
    free(m->place);
    free(m->old_node);
}

enum mn_err mn_survey_mesh(const struct mn_survey *survey, const struct mn_mesh *old,
                           struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct mn_mesh none;
    struct mn_cabling cabling;

    mn_mesh_init(&none);
    mn_mesh_init(mesh);
    if (survey->n_nodes > MN_MESH_NODES_MAX)
        return mn_fail(diag, MN_ERR_CONFIG, "%zu nodes; a mesh has at most %d", survey->n_nodes,
                       MN_MESH_NODES_MAX);
    mn_cabling_read(survey, &cabling);
    struct mn_survey_maker m = {.survey = survey,
                                .old = old ? old : &none,
                                .cabling = &cabling,
                                .mesh = mesh};
    mesh->settings = m.old->settings;
    mesh->given = m.old->given;
    mn_strlcpy(mesh->name, m.old->name, sizeof mesh->name);
    make(&m);
    mn_cabling_free(&cabling);
    if (mesh->n_links <= MN_MESH_LINKS_MAX && mesh->n_nodes <= MN_MESH_NODES_MAX)
        return MN_OK;
    size_t nodes = mesh->n_nodes;
    mn_mesh_free(mesh);
    if (nodes > MN_MESH_NODES_MAX)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%zu nodes with those of the file that were not seen; a mesh has at most %d",
                       nodes, MN_MESH_NODES_MAX);
    return mn_fail(diag, MN_ERR_CONFIG, "more than %d cables", MN_MESH_LINKS_MAX);
}
