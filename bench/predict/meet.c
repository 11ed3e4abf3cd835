/* Which rank is which node, how fast its NICs are, and what limits, in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/predict.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

#define NICS 32 /* of a node, as in the mesh file */

/* Passed between ranks. */
struct introduction {
    int32_t node; /* -1: why not is said there */
    int32_t speed_mbps[NICS];
    uint16_t mtu[NICS]; /* 0 = not known, or beyond */
};

static enum mn_err look(const struct mn_mesh *mesh, struct introduction *own, struct mn_diag *diag)
{
    struct mn_host host;
    char why[256];
    int node = -1;
    enum mn_err err = mn_host_read(NULL, &host, diag);

    if (!err)
        err = mn_mesh_find_self(mesh, &host, &node, why, sizeof why, diag);
    *own = (struct introduction){.node = node};
    for (size_t i = 0; !err && i < mesh->nodes[node].n_nics && i < NICS; i++) {
        const struct mn_nic *nic = mn_mesh_nic_on_host(&host, &mesh->nodes[node].nics[i]);
        if (!nic)
            continue;
        own->speed_mbps[i] = nic->speed_mbps > 0 ? (int32_t)nic->speed_mbps : 0;
        own->mtu[i] = nic->mtu > 0 && nic->mtu <= UINT16_MAX ? (uint16_t)nic->mtu : 0;
    }
    mn_host_free(&host);
    return err;
}

/* What the file says counts. */
static void complete(struct mn_mesh_node *node, const struct introduction *said)
{
    for (size_t i = 0; i < node->n_nics && i < NICS; i++) {
        struct mn_mesh_nic *nic = &node->nics[i];
        if (!nic->speed_mbps && said->speed_mbps[i] > 0)
            nic->speed_mbps = said->speed_mbps[i];
        if (!nic->mtu)
            nic->mtu = said->mtu[i];
    }
}

enum mn_err mn_predict_meet(struct mn_group *group, struct mn_mesh *mesh,
                            struct mn_predict_mesh *made, struct mn_diag *diag)
{
    int n = mn_group_size(group);
    struct introduction own, *all = mn_zalloc((size_t)n * sizeof *all);
    struct mn_diag why = {.text = ""};

    *made = (struct mn_predict_mesh){.nodes = mn_zalloc((size_t)n * sizeof(int)),
                                     .hosts = mn_zalloc((size_t)n * sizeof(int))};
    mn_group_hosts(group, made->hosts);
    look(mesh, &own, &why);
    enum mn_err err = mn_group_allgather(group, &own, sizeof own, all, diag);
    for (int r = 0; r < n && !err; r++) {
        int node = made->nodes[r] = all[r].node;
        if (r == mn_group_rank(group) && node < 0)
            err = mn_fail(diag, why.code ? why.code : MN_ERR_CONFIG, "--predict: %.900s", why.text);
        else if (node < 0 || (size_t)node >= mesh->n_nodes)
            err = mn_fail(diag, MN_ERR_CONFIG,
                          "--predict: %s is no node of the mesh file; expected the same file at "
                          "every host, with all of them",
                          mn_group_name(group, r));
        else
            complete(&mesh->nodes[node], &all[r]);
    }
    free(all);
    if (err)
        return err;
    mn_fabric_from_mesh(mesh, &made->fabric);
    mn_routes_find(&made->fabric, &made->routes);
    made->model = (struct mn_model){.fabric = &made->fabric,
                                    .routes = &made->routes,
                                    .node_of_rank = made->nodes,
                                    .n_ranks = n};
    return MN_OK;
}

void mn_predict_free(struct mn_predict_mesh *made)
{
    if (made->routes.last)
        mn_routes_free(&made->routes);
    mn_fabric_free(&made->fabric);
    free(made->nodes);
    free(made->hosts);
    *made = (struct mn_predict_mesh){.nodes = NULL};
}

static const char *group_name(const struct mn_mesh *mesh, const struct mn_fabric *fabric, int group)
{
    for (size_t c = 0; c < fabric->n_cables; c++)
        for (int i = 0; i < 2; i++)
            if (fabric->cables[c].groups[i] == group)
                return mn_mesh_end_nic(mesh, &mesh->links[fabric->cables[c].link].ends[i])->group;
    return "?";
}

char *mn_predict_limit(const struct mn_mesh *mesh, const struct mn_fabric *fabric,
                       const struct mn_model_result *r, char *text, size_t size)
{
    const struct mn_fabric_cable *cable = r->cable < 0 ? NULL : &fabric->cables[r->cable];
    const char *node = r->node < 0 ? "?" : mesh->nodes[r->node].name;

    if (r->limit == MN_LIMIT_NOTHING)
        snprintf(text, size, "nothing: no cable is used");
    else if (r->limit == MN_LIMIT_LATENCY)
        snprintf(text, size, "latency");
    else if (r->limit == MN_LIMIT_CABLE)
        snprintf(text, size, "%s, %s to %s", mesh->links[cable->link].name,
                 mesh->nodes[cable->nodes[r->direction]].name,
                 mesh->nodes[cable->nodes[!r->direction]].name);
    else if (r->limit == MN_LIMIT_GROUP)
        snprintf(text, size, "port %s of %s, %s", group_name(mesh, fabric, r->group), node,
                 r->direction ? "receiving" : "sending");
    else if (r->limit == MN_LIMIT_FORWARD)
        snprintf(text, size, "%s, passing on", node);
    else
        snprintf(text, size, "%s itself", node);
    return text;
}
