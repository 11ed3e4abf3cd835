#include "topo/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

static void node_clear(struct mn_survey_node *node)
{
    for (size_t i = 0; i < node->n_nics; i++)
        free(node->nics[i].addrs);
    free(node->nics);
    free(node->taken);
}

void mn_survey_free(struct mn_survey *survey)
{
    for (size_t i = 0; i < survey->n_nodes; i++)
        node_clear(&survey->nodes[i]);
    free(survey->nodes);
    free(survey->seen);
    free(survey->strangers);
    *survey = (struct mn_survey){0};
}

/* --- a host --------------------------------------------------------------------------------- */

static int is_port(const struct mn_nic *nic)
{
    switch (nic->kind) {
    case MN_NIC_ETHERNET:
    case MN_NIC_THUNDERBOLT:
    case MN_NIC_INFINIBAND:
        return !nic->is_vf || nic->n_addrs > 0;
    case MN_NIC_VETH:
        return !nic->master[0]; /* in a bridge it is the host's end of a container */
    default:
        return mn_mesh_usable(nic);
    }
}

/* A bare port counts as if its cable had a subnet already: beside 200G ports without addresses the
 * office's NIC is no better a cable's end than beside the same with addresses. Nothing is ever said
 * of the address but that its subnet has room for two. */
static void pretend(struct mn_nic *nic, struct mn_addr *addr)
{
    *addr = (struct mn_addr){.family = AF_INET, .prefix = 31, .bytes = {192, 0, 2, 0}};
    nic->addrs = addr;
    nic->n_addrs = 1;
}

/* The roles of a host whose NICs are a copy of those to look at. */
static void roles(const struct mn_host *host, struct mn_nic *nics)
{
    struct mn_host like = *host;
    char *bare = mn_zalloc(host->n_nics + 1);
    struct mn_addr addr;

    like.nics = nics;
    for (size_t i = 0; i < host->n_nics; i++) {
        bare[i] = is_port(&nics[i]) && !mn_mesh_usable(&nics[i]) && !nics[i].master[0];
        if (bare[i] && nics[i].wireless && !nics[i].role)
            nics[i].role = MN_ROLE_MANAGEMENT;
        else if (bare[i])
            pretend(&nics[i], &addr);
    }
    mn_mesh_roles(&like, NULL, "");
    for (size_t i = 0; i < host->n_nics; i++) {
        if (!bare[i])
            continue;
        nics[i].addrs = host->nics[i].addrs;
        nics[i].n_addrs = host->nics[i].n_addrs;
        if (!host->nics[i].wireless) { /* whatever its speed: who cables it means it */
            nics[i].role = host->nics[i].role;
            mn_strlcpy(nics[i].role_why, host->nics[i].role_why, sizeof nics[i].role_why);
        } else if (!nics[i].role_why[0]) {
            mn_strlcpy(nics[i].role_why, "wireless", sizeof nics[i].role_why);
        }
    }
    free(bare);
}

static void nic_from_host(struct mn_survey_nic *to, const struct mn_host *host,
                          const struct mn_nic *nic)
{
    static const uint8_t zero[6];

    mn_strlcpy(to->netdev, nic->netdev, sizeof to->netdev);
    memcpy(to->mac, nic->mac, sizeof to->mac);
    to->has_mac = nic->has_mac && !(nic->mac[0] & 1) && memcmp(nic->mac, zero, 6) != 0;
    to->kind = nic->kind;
    mn_strlcpy(to->driver, nic->driver, sizeof to->driver);
    to->mtu = nic->mtu;
    to->admin_up = nic->admin_up;
    to->carrier = nic->carrier;
    to->speed_mbps = nic->speed_mbps;
    to->role = nic->role;
    mn_strlcpy(to->role_why, nic->role_why, sizeof to->role_why);
    for (size_t i = 0; i < nic->n_addrs && i < MN_SURVEY_ADDRS_MAX; i++)
        *(struct mn_addr *)mn_grow((void **)&to->addrs, &to->n_addrs, sizeof *to->addrs) =
            nic->addrs[i];
    to->pci = nic->pci;
    to->pci.path[0] = '\0';
    mn_strlcpy(to->phys_port, nic->phys_port, sizeof to->phys_port);
    mn_strlcpy(to->master, nic->master, sizeof to->master);
    if (nic->rdma < 0)
        return;
    const struct mn_rdma_port *rdma = &host->rdma[nic->rdma];
    mn_strlcpy(to->device, rdma->device, sizeof to->device);
    to->port = rdma->port;
    for (size_t i = 0; i < rdma->n_gids; i++)
        to->gid_types |= 1 << rdma->gids[i].type;
}

struct mn_survey_node *mn_survey_add_host(struct mn_survey *survey, const struct mn_host *host,
                                          const char *name, const char *model)
{
    struct mn_survey_node *node =
        mn_grow((void **)&survey->nodes, &survey->n_nodes, sizeof *survey->nodes);
    struct mn_nic *nics = mn_zalloc((host->n_nics + 1) * sizeof *nics);

    if (host->n_nics)
        memcpy(nics, host->nics, host->n_nics * sizeof *nics);
    roles(host, nics);
    mn_strlcpy(node->name, name, sizeof node->name);
    mn_strlcpy(node->hostname, host->hostname, sizeof node->hostname);
    mn_strlcpy(node->model, model ? model : "", sizeof node->model);
    for (size_t i = 0; i < host->n_nics && node->n_nics < MN_MESH_NICS_MAX; i++)
        if (is_port(&nics[i]))
            nic_from_host(mn_grow((void **)&node->nics, &node->n_nics, sizeof *node->nics), host,
                          &nics[i]);
    free(nics);
    return node;
}

/* --- merging -------------------------------------------------------------------------------- */

int mn_survey_node_index(const struct mn_survey *survey, const char *name)
{
    for (size_t i = 0; i < survey->n_nodes; i++)
        if (!strcmp(survey->nodes[i].name, name))
            return (int)i;
    return -1;
}

int mn_survey_nic_index(const struct mn_survey_node *node, const char *netdev)
{
    for (size_t i = 0; i < node->n_nics; i++)
        if (!strcmp(node->nics[i].netdev, netdev))
            return (int)i;
    return -1;
}

int mn_survey_mac_is(const struct mn_survey *survey, const struct mn_survey_node *node, size_t nic,
                     const uint8_t mac[6])
{
    if (!node->nics[nic].has_mac || memcmp(node->nics[nic].mac, mac, 6) != 0)
        return 0;
    for (size_t n = 0; n < survey->n_nodes; n++)
        for (size_t i = 0; i < survey->nodes[n].n_nics && &survey->nodes[n] != node; i++)
            if (survey->nodes[n].nics[i].has_mac && !memcmp(survey->nodes[n].nics[i].mac, mac, 6))
                return 0;
    return 1;
}

const struct mn_survey_nic *mn_survey_end_nic(const struct mn_survey *survey,
                                              const struct mn_mesh_end *end)
{
    return &survey->nodes[end->node].nics[end->nic];
}

static int same_end(const struct mn_mesh_end *a, const struct mn_mesh_end *b)
{
    return a->node == b->node && a->nic == b->nic;
}

void mn_survey_saw(struct mn_survey *survey, const struct mn_sighting *new)
{
    for (size_t i = 0; i < survey->n_seen; i++) {
        struct mn_sighting *old = &survey->seen[i];

        if (old->way != new->way || !same_end(&old->at, &new->at) ||
            !same_end(&old->from, &new->from))
            continue;
        old->mtu = new->mtu ? new->mtu : old->mtu;
        return;
    }
    *(struct mn_sighting *)mn_grow((void **)&survey->seen, &survey->n_seen, sizeof *survey->seen) =
        *new;
}

void mn_survey_met(struct mn_survey *survey, const struct mn_survey_stranger *new)
{
    for (size_t i = 0; i < survey->n_strangers; i++) {
        struct mn_survey_stranger *old = &survey->strangers[i];

        if (old->way != new->way || !same_end(&old->at, &new->at) ||
            memcmp(old->mac, new->mac, sizeof old->mac) != 0)
            continue;
        *old = *new;
        return;
    }
    *(struct mn_survey_stranger *)mn_grow((void **)&survey->strangers, &survey->n_strangers,
                                          sizeof *survey->strangers) = *new;
}

static void node_copy(struct mn_survey_node *to, const struct mn_survey_node *from)
{
    *to = *from;
    to->nics = NULL;
    to->n_nics = 0;
    to->taken = NULL;
    to->n_taken = 0;
    for (size_t i = 0; i < from->n_taken; i++)
        *(struct mn_survey_taken *)mn_grow((void **)&to->taken, &to->n_taken, sizeof *to->taken) =
            from->taken[i];
    for (size_t i = 0; i < from->n_nics; i++) {
        struct mn_survey_nic *nic = mn_grow((void **)&to->nics, &to->n_nics, sizeof *nic);

        *nic = from->nics[i];
        nic->addrs = NULL;
        nic->n_addrs = 0;
        for (size_t a = 0; a < from->nics[i].n_addrs; a++)
            *(struct mn_addr *)mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *nic->addrs) =
                from->nics[i].addrs[a];
    }
}

/* Where an end of other is in survey, once all of other's nodes are there. */
static int follow(const struct mn_survey *survey, const struct mn_survey *other,
                  struct mn_mesh_end *end)
{
    const struct mn_survey_node *node = &other->nodes[end->node];
    int at = mn_survey_node_index(survey, node->name);
    int nic = at < 0 ? 0 : mn_survey_nic_index(&survey->nodes[at], node->nics[end->nic].netdev);

    if (nic < 0)
        return 0;
    *end = (struct mn_mesh_end){at, nic};
    return 1;
}

static enum mn_err unknown_end(const struct mn_survey *other, const struct mn_mesh_end *end,
                               struct mn_diag *diag)
{
    const struct mn_survey_node *node = &other->nodes[end->node];

    return mn_fail(diag, MN_ERR_CONFIG,
                   "somebody was heard at or from %s/%s, but %s does not name that NIC among its "
                   "own; ask all nodes again",
                   node->name, node->nics[end->nic].netdev, node->name);
}

/* Before anything is changed. */
static enum mn_err check_merge(const struct mn_survey *survey, const struct mn_survey *other,
                               struct mn_diag *diag)
{
    size_t nodes = survey->n_nodes;

    for (size_t i = 0; i < other->n_nodes; i++)
        nodes += mn_survey_node_index(survey, other->nodes[i].name) < 0;
    if (nodes > MN_MESH_NODES_MAX)
        return mn_fail(diag, MN_ERR_CONFIG, "%zu nodes; a mesh has at most %d", nodes,
                       MN_MESH_NODES_MAX);
    for (size_t i = 0; i < 2 * other->n_seen + other->n_strangers; i++) {
        const struct mn_mesh_end *from = i < other->n_seen ? &other->seen[i].at
                                         : i < 2 * other->n_seen
                                             ? &other->seen[i - other->n_seen].from
                                             : &other->strangers[i - 2 * other->n_seen].at;
        struct mn_mesh_end end = *from;

        if (!follow(survey, other, &end))
            return unknown_end(other, from, diag);
    }
    return MN_OK;
}

enum mn_err mn_survey_merge(struct mn_survey *survey, const struct mn_survey *other,
                            struct mn_diag *diag)
{
    enum mn_err err = check_merge(survey, other, diag);

    for (size_t i = 0; i < other->n_nodes && !err; i++)
        if (mn_survey_node_index(survey, other->nodes[i].name) < 0)
            node_copy(mn_grow((void **)&survey->nodes, &survey->n_nodes, sizeof *survey->nodes),
                      &other->nodes[i]);
    for (size_t i = 0; i < other->n_seen && !err; i++) {
        struct mn_sighting seen = other->seen[i];

        if (survey->n_seen >= MN_SURVEY_SEEN_MAX)
            err = mn_fail(diag, MN_ERR_CONFIG, "more than %d sightings; no mesh has so many",
                          MN_SURVEY_SEEN_MAX);
        else if (follow(survey, other, &seen.at) && follow(survey, other, &seen.from))
            mn_survey_saw(survey, &seen);
    }
    for (size_t i = 0; i < other->n_strangers && !err; i++) {
        struct mn_survey_stranger met = other->strangers[i];

        if (survey->n_strangers >= MN_SURVEY_STRANGERS_MAX)
            err = mn_fail(diag, MN_ERR_CONFIG, "more than %d strangers; no mesh has so many",
                          MN_SURVEY_STRANGERS_MAX);
        else if (follow(survey, other, &met.at))
            mn_survey_met(survey, &met);
    }
    return err;
}
