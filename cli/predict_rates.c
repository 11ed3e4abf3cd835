/* What bench --links measured, as a fabric's rates. */
#include <stdlib.h>
#include <string.h>

#include "cli/collective_predict.h"
#include "cli/results.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

#define GBPS (1e9 / 8)
/* Of what a cable carries one way and the other, together: with less both ways at once it is the
 * host that had no more. */
#define DUPLEX 0.8

/* What a node's cables carried both ways at once at most; alone: some cable carried as much as one
 * way and the other, so that the host is not what limits. */
struct host {
    double both;
    int alone;
};

static int cable_of(const struct mn_mesh *mesh, const struct mn_fabric *fabric, const char *link)
{
    for (size_t c = 0; link && c < fabric->n_cables; c++)
        if (!strcmp(mesh->links[fabric->cables[c].link].name, link))
            return (int)c;
    return -1;
}

/* 1: the cell was a cable of the mesh. */
static int take(const cJSON *cell, const struct mn_mesh *mesh, struct mn_fabric *fabric,
                struct host *hosts)
{
    int at = cable_of(mesh, fabric, mn_results_text(cell, "link", NULL));
    double out = mn_results_number(cell, "out_gbps", 0), in = mn_results_number(cell, "in_gbps", 0);
    double both = mn_results_number(cell, "both_gbps", 0);
    double latency = mn_results_number(cell, "p50_us", 0);

    if (at < 0 || strcmp(mn_results_text(cell, "mode", ""), "link") != 0 || !(out > 0) || !(in > 0))
        return 0;
    struct mn_fabric_cable *cable = &fabric->cables[at];
    int turned = strcmp(mn_results_text(cell, "from", ""), mesh->nodes[cable->nodes[0]].name) != 0;
    cable->rate = (turned ? in : out) * GBPS;
    cable->back = (turned ? out : in) * GBPS;
    cable->both = both * GBPS;
    if (latency > 0)
        cable->latency = latency / 1e6;
    for (int i = 0; i < 2; i++) {
        struct host *host = &hosts[cable->nodes[i]];
        host->alone |= !(both > 0) || both >= DUPLEX * (out + in);
        host->both = both > host->both ? both : host->both;
    }
    return 1;
}

static void limit_hosts(struct mn_fabric *fabric, const struct host *hosts)
{
    fabric->hosts = mn_zalloc(((size_t)fabric->n + 1) * sizeof *fabric->hosts);
    for (int n = 0; n < fabric->n; n++)
        fabric->hosts[n] = hosts[n].alone ? 0 : hosts[n].both * GBPS;
}

/* Ports carry what their fastest cable did, alone. */
static void limit_groups(struct mn_fabric *fabric)
{
    for (size_t g = 0; g < fabric->n_groups; g++)
        fabric->groups[g].rate = 0;
    for (size_t i = 0; i < 2 * fabric->n_cables; i++) {
        const struct mn_fabric_cable *cable = &fabric->cables[i / 2];
        for (int d = 0; d < 2; d++)
            if (cable->groups[i % 2] >= 0 &&
                fabric->groups[cable->groups[i % 2]].rate < mn_fabric_rate(cable, d))
                fabric->groups[cable->groups[i % 2]].rate = mn_fabric_rate(cable, d);
    }
}

enum mn_err mn_predict_rates(const char *path, const struct mn_mesh *mesh, struct mn_fabric *fabric,
                             struct mn_diag *diag)
{
    struct host *hosts = mn_zalloc(((size_t)fabric->n + 1) * sizeof *hosts);
    struct mn_results results = {.json = NULL};
    int taken = 0;
    const cJSON *cell;
    enum mn_err err = mn_results_read(path, &results, diag);

    if (!err && results.kind != MN_RESULTS_MATRIX)
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "%s: results of kind \"%s\"; expected what meshnet bench --links --json "
                      "writes",
                      path, mn_results_kinds[results.kind].name);
    if (!err)
        cJSON_ArrayForEach(cell, cJSON_GetObjectItemCaseSensitive(results.json, "cells"))
        {
            taken += take(cell, mesh, fabric, hosts);
        }
    if (!err && !taken)
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "%s: none of its links was measured and is one of the mesh file; expected "
                      "results of meshnet bench --links of this mesh",
                      path);
    if (!err) {
        limit_hosts(fabric, hosts);
        limit_groups(fabric);
    }
    mn_results_free(&results);
    free(hosts);
    return err;
}
