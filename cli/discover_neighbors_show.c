/* What was found: cables with both ends, strangers, and what was left alone. */
#include <stdio.h>
#include <string.h>

#include "cli/discover.h"
#include "cli/discover_neighbors.h"
#include "cli/discover_hosts.h"
#include "topo/cabling.h"
#include "topo/case.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const ways[] = {"ipv6", "raw", "lldp"};

/* One half of a cable, with what each end heard of the other. */
struct half {
    struct mn_mesh_end ends[2]; /* of the survey */
    const struct mn_survey_nic *nics[2];
    const struct mn_sighting *seen[2]; /* at that end; NULL = nothing */
};

/* The largest wins when the other was heard in two ways. */
static const struct mn_sighting *sighting(const struct mn_survey *survey,
                                          const struct mn_mesh_end *at,
                                          const struct mn_mesh_end *from)
{
    const struct mn_sighting *best = NULL;

    for (size_t i = 0; i < survey->n_seen; i++) {
        const struct mn_sighting *s = &survey->seen[i];
        if (s->at.node == at->node && s->at.nic == at->nic && s->from.node == from->node &&
            s->from.nic == from->nic && (!best || s->mtu > best->mtu))
            best = s;
    }
    return best;
}

/* 0: an end is none of the survey's, as of a link that only the old file has. */
static int half_of(const struct mn_neighbors *found, const struct mn_mesh_link *link,
                   struct half *half)
{
    const struct mn_survey *survey = &found->survey;

    for (int side = 0; side < 2; side++) {
        const struct mn_mesh_end *end = &link->ends[side];
        if ((size_t)end->node >= survey->n_nodes)
            return 0;
        const struct mn_survey_node *node = &survey->nodes[end->node];
        int nic = mn_survey_nic_index(node, found->mesh.nodes[end->node].nics[end->nic].netdev);
        if (nic < 0)
            return 0;
        half->ends[side] = (struct mn_mesh_end){end->node, nic};
        half->nics[side] = &node->nics[nic];
    }
    for (int side = 0; side < 2; side++)
        half->seen[side] = sighting(survey, &half->ends[side], &half->ends[!side]);
    return 1;
}

static void cell_known(struct mn_out *out, long value)
{
    if (value > 0)
        mn_out_cell_int(out, value);
    else
        mn_out_cell(out, NULL);
}

static void put_state(struct mn_out *out, const struct half *half)
{
    const struct mn_survey_nic *a = half->nics[0], *b = half->nics[1];
    int least = a->mtu < b->mtu ? a->mtu : b->mtu, mtu[2] = {0, 0}; /* 0 = not measured */

    for (int side = 0; side < 2; side++)
        mtu[side] = half->seen[side] ? half->seen[side]->mtu : 0;

    if (!half->seen[0] && !half->seen[1]) {
        mn_out_cell(out, "not heard");
        return;
    }
    if (!half->seen[0] || !half->seen[1]) {
        mn_out_color(out, MN_RED);
        mn_out_cell(out, "one way only");
    } else if (mtu[0] && mtu[1] && (mtu[0] != mtu[1] || mtu[0] < least)) {
        mn_out_color(out, MN_YELLOW);
        mn_out_cell(out,
                    mtu[0] < least && mtu[1] < least ? "less passes than the MTU" : "MTU unlike");
    } else if (a->mtu && b->mtu && a->mtu != b->mtu) {
        mn_out_color(out, MN_YELLOW);
        mn_out_cell(out, "MTU unlike");
    } else if (a->speed_mbps && b->speed_mbps && a->speed_mbps != b->speed_mbps) {
        mn_out_color(out, MN_YELLOW);
        mn_out_cell(out, "speed unlike");
    } else {
        mn_out_cell(out, "up");
    }
}

static void put_cable(struct mn_out *out, const struct mn_neighbors *found,
                      const struct mn_mesh_link *link, const struct half *half)
{
    char text[64];
    long a = half->nics[0]->speed_mbps, b = half->nics[1]->speed_mbps;
    const struct mn_sighting *seen = half->seen[0] ? half->seen[0] : half->seen[1];

    mn_out_row(out);
    mn_out_cell(out, link->name);
    for (int side = 0; side < 2; side++) {
        mn_out_cell(out, found->mesh.nodes[link->ends[side].node].name);
        const struct mn_survey_nic *nic = half->nics[side];
        mn_case_label(found->survey.nodes[half->ends[side].node].model, nic->netdev,
                      nic->pci.address, nic->phys_port, text, sizeof text);
        mn_out_cell(out, *text ? text : NULL);
        mn_out_cell(out, nic->netdev);
    }
    mn_speed_format(!a ? b : !b || a < b ? a : b, text, sizeof text);
    mn_out_cell(out, *text ? text : NULL);
    cell_known(out, a);
    cell_known(out, b);
    /* What end 1 heard went from 0 to 1. */
    cell_known(out, half->seen[1] ? half->seen[1]->mtu : 0);
    cell_known(out, half->seen[0] ? half->seen[0]->mtu : 0);
    mn_out_cell(out, seen ? ways[seen->way] : NULL);
    put_state(out, half);
}

/* A list in JSON, and no head of a table in text. */
static void put_nothing(struct mn_out *out, const char *key)
{
    mn_out_list_begin(out, key, NULL);
    mn_out_list_end(out);
}

static void put_cables(struct mn_out *out, const struct mn_neighbors *found)
{
    static const struct mn_col cols[] = {
        {"cable", "CABLE", MN_DROP(3)},
        {"a", "NODE", 0},
        {"a_port", "PORT", MN_DROP(4)},
        {"a_netdev", "NETDEV", 0},
        {"b", "OTHER END", 0},
        {"b_port", "PORT", MN_DROP(4)},
        {"b_netdev", "NETDEV", 0},
        {"speed", "SPEED", 1 | MN_DROP(2)},
        {"a_mbps", NULL, 1},
        {"b_mbps", NULL, 1},
        {"mtu_out", "MTU →", 1},
        {"mtu_back", "← MTU", 1},
        {"by", "BY", MN_DROP(1)},
        {"state", "STATE", 0},
    };

    if (!found->mesh.n_links) {
        put_nothing(out, "cables");
        return;
    }
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_table(out, "cables", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < found->mesh.n_links; i++) {
        struct half half;
        if (half_of(found, &found->mesh.links[i], &half))
            put_cable(out, found, &found->mesh.links[i], &half);
    }
    mn_out_table_end(out);
}

static void put_strangers(struct mn_out *out, const struct mn_survey *survey)
{
    static const struct mn_col cols[] = {
        {"at", "HEARD AT", 0},     {"by", "BY", 0},     {"mac", "MAC", MN_DROP(1)},
        {"system", "STRANGER", 0}, {"port", "PORT", 0},
    };

    if (!survey->n_strangers) {
        put_nothing(out, "strangers");
        return;
    }
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_note(out, MN_BOLD, "Strangers, who are not of this run:");
    mn_out_table(out, "strangers", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < survey->n_strangers; i++) {
        const struct mn_survey_stranger *s = &survey->strangers[i];
        const uint8_t *m = s->mac;
        mn_out_row(out);
        mn_out_cellf(out, "%s/%s", survey->nodes[s->at.node].name,
                     survey->nodes[s->at.node].nics[s->at.nic].netdev);
        mn_out_cell(out, ways[s->way]);
        mn_out_cellf(out, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
        mn_out_cell(out, s->system[0] ? s->system : NULL);
        mn_out_cell(out, s->port[0] ? s->port : NULL);
    }
    mn_out_table_end(out);
}

/* In JSON every NIC, in text those of which there is something to say. */
static void put_nics(struct mn_out *out, const struct mn_neighbors *found)
{
    int first = 1;

    mn_out_list_begin(out, "nics", NULL);
    for (size_t i = 0; i < found->n_results; i++)
        for (size_t k = 0; k < found->results[i].n_nics; k++) {
            const struct mn_probe_nic *nic = &found->results[i].nics[k];
            const char *node = found->results[i].survey.nodes[0].name;
            if (nic->why[0] && first)
                mn_out_note(out, MN_PLAIN, "%s", "");
            first &= !nic->why[0];
            mn_out_begin(out, NULL, NULL);
            mn_out_str(out, "node", NULL, node);
            mn_out_str(out, "netdev", NULL, nic->netdev);
            mn_out_bool(out, "ipv6", NULL, nic->probed >> MN_SURVEY_IPV6 & 1);
            mn_out_bool(out, "raw", NULL, nic->probed >> MN_SURVEY_RAW & 1);
            mn_out_bool(out, "lldp", NULL, nic->probed >> MN_SURVEY_LLDP & 1);
            mn_out_str(out, "why", NULL, nic->why[0] ? nic->why : NULL);
            if (nic->why[0])
                mn_out_note(out, MN_DIM, "%s/%s: %s%s", node, nic->netdev,
                            nic->probed & 3 ? "" : "not probed: ", nic->why);
            mn_out_end(out);
        }
    mn_out_list_end(out);
}

/* Both halves of a port are one cable. */
static void put_head(struct mn_out *out, const struct mn_neighbors *found)
{
    const struct mn_mesh *mesh = &found->mesh;
    size_t nodes = found->survey.n_nodes, halves = 0, cables;
    char text[64] = "", kept[64] = "";
    struct mn_cabling cabling;

    mn_cabling_read(&found->survey, &cabling);
    cables = cabling.n_cables;
    for (size_t i = 0; i < cables; i++)
        halves += (size_t)cabling.cables[i].n_halves;
    mn_cabling_free(&cabling);
    if (halves > cables)
        snprintf(text, sizeof text, " (%zu halves)", halves);
    if (mesh->n_links > halves)
        snprintf(kept, sizeof kept, ", %zu link%s of the file not seen", mesh->n_links - halves,
                 mesh->n_links - halves == 1 ? "" : "s");
    mn_out_note(out, MN_BOLD, "%zu node%s, %zu cable%s%s%s: %s", nodes, nodes == 1 ? "" : "s",
                cables, cables == 1 ? "" : "s", text, kept, mn_survey_shape(&found->survey));
    mn_out_int(out, "n_cables", NULL, (int64_t)cables);
}

void mn_neighbors_show(struct mn_out *out, const struct mn_neighbors *found)
{
    const struct mn_mesh *mesh = &found->mesh;

    put_head(out, found);
    mn_out_str(out, "shape", NULL, mn_survey_shape(&found->survey));
    mn_out_int(out, "n_nodes", NULL, (int64_t)mesh->n_nodes);
    mn_out_int(out, "n_links", NULL, (int64_t)mesh->n_links);
    put_cables(out, found);
    put_strangers(out, &found->survey);
    put_nics(out, found);
    mn_discover_failed(out, found->failed);
    mn_out_note(out, MN_PLAIN, "%s", "");
}
