/* One survey of what many nodes found. */
#include <stdlib.h>
#include <string.h>

#include "fleet/probe.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

/* The node of that name, made when nobody of it has answered. -1: there is no room. */
static int node_named(struct mn_survey *survey, const char *name)
{
    int at = mn_survey_node_index(survey, name);

    if (at >= 0 || survey->n_nodes >= MN_MESH_NODES_MAX)
        return at;
    struct mn_survey_node *node =
        mn_grow((void **)&survey->nodes, &survey->n_nodes, sizeof *survey->nodes);
    mn_strlcpy(node->name, name, sizeof node->name);
    mn_strlcpy(node->hostname, name, sizeof node->hostname);
    return (int)survey->n_nodes - 1;
}

/* Of a node that has not answered, a NIC is what its probes say of it. */
static int nic_heard(struct mn_survey_node *node, const struct mn_probe_heard *heard, int answered)
{
    static const uint8_t none[6];
    int at = mn_survey_nic_index(node, heard->netdev);

    if (at >= 0 || answered || node->n_nics >= MN_MESH_NICS_MAX)
        return at;
    struct mn_survey_nic *nic = mn_grow((void **)&node->nics, &node->n_nics, sizeof *nic);
    mn_strlcpy(nic->netdev, heard->netdev, sizeof nic->netdev);
    memcpy(nic->mac, heard->mac, sizeof nic->mac);
    nic->kind = heard->kind;
    nic->has_mac = !(nic->mac[0] & 1) && memcmp(nic->mac, none, sizeof none) != 0 &&
                   nic->kind != MN_NIC_INFINIBAND;
    nic->mtu = heard->nic_mtu;
    nic->speed_mbps = heard->speed_mbps;
    nic->admin_up = nic->carrier = 1;
    return (int)node->n_nics - 1;
}

static void take_heard(const struct mn_probe_result *result, int node, size_t answered,
                       struct mn_survey *survey)
{
    for (size_t i = 0; i < result->n_heard; i++) {
        const struct mn_probe_heard *heard = &result->heard[i];
        struct mn_sighting seen = {.way = heard->way, .mtu = heard->mtu};
        int from = node_named(survey, heard->node);
        if (from < 0)
            continue;
        const int silent = (size_t)from >= answered;
        seen.at = (struct mn_mesh_end){node, mn_survey_nic_index(&survey->nodes[node], heard->at)};
        seen.from = (struct mn_mesh_end){from, nic_heard(&survey->nodes[from], heard, !silent)};
        if (seen.at.nic < 0 || seen.from.nic < 0)
            continue;
        mn_survey_saw(survey, &seen);
        if (!silent || !heard->back_mtu)
            continue;
        /* It cannot say so itself. */
        seen = (struct mn_sighting){seen.from, seen.at, heard->way, heard->back_mtu};
        mn_survey_saw(survey, &seen);
    }
}

enum mn_err mn_probe_gather(const struct mn_probe_result *results, size_t n,
                            struct mn_survey *survey, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    memset(survey, 0, sizeof *survey);
    for (size_t i = 0; i < n && !err; i++) {
        const struct mn_survey_node *node = &results[i].survey.nodes[0];
        int other = mn_survey_node_index(survey, node->name);
        if (other >= 0)
            err = mn_fail(diag, MN_ERR_CONFIG,
                          "two nodes are called %s (host names %s and %s); give each a name of its "
                          "own: its host name, or MESHNET_NODE there",
                          node->name, survey->nodes[other].hostname, node->hostname);
        else
            err = mn_survey_merge(survey, &results[i].survey, diag);
    }
    for (size_t i = 0; i < n && !err; i++)
        take_heard(&results[i], (int)i, n, survey);
    if (err)
        mn_survey_free(survey);
    return err;
}
