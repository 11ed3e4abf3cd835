/* What a node uses beside its ports: networks of containers, VPNs and routes, which cables must
 * stay away from. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/survey.h"
#include "topo/taken.h"

static int contains(const struct mn_survey_taken *wide, const struct mn_survey_taken *other)
{
    struct mn_addr net = other->net;

    if (net.family != wide->net.family || net.prefix < wide->net.prefix ||
        strcmp(wide->netdev, other->netdev) != 0)
        return 0;
    net.prefix = wide->net.prefix;
    net = mn_addr_network(&net);
    return mn_addr_equal(&net, &wide->net);
}

static int wider(const void *a, const void *b)
{
    const struct mn_survey_taken *x = a, *y = b;

    return x->net.prefix - y->net.prefix;
}

static void add(struct mn_survey_taken **all, size_t *n, const struct mn_addr *net,
                const struct mn_nic *nic, int route)
{
    struct mn_survey_taken *taken = mn_grow((void **)all, n, sizeof *taken);

    taken->net = *net;
    if (taken->net.prefix < 0)
        taken->net.prefix = net->family == AF_INET ? 32 : 128;
    taken->net = mn_addr_network(&taken->net);
    taken->route = route;
    if (nic)
        mn_strlcpy(taken->netdev, nic->netdev, sizeof taken->netdev);
}

enum mn_err mn_survey_add_taken(struct mn_survey_node *node, const struct mn_host *host,
                                struct mn_diag *diag)
{
    struct mn_survey_taken *all = NULL;
    struct mn_destination *to;
    size_t n = 0, count;
    enum mn_err err = mn_host_destinations(&to, &count, diag);

    if (err)
        return err;
    for (size_t i = 0; i < host->n_nics; i++)
        for (size_t a = 0; a < host->nics[i].n_addrs && host->nics[i].kind != MN_NIC_LOOPBACK; a++)
            if (!mn_addr_is_nobodys(&host->nics[i].addrs[a]))
                add(&all, &n, &host->nics[i].addrs[a], &host->nics[i], 0);
    for (size_t i = 0; i < count; i++)
        if (to[i].to.prefix > 1 && !mn_addr_is_nobodys(&to[i].to))
            add(&all, &n, &to[i].to, mn_host_nic_by_index(host, to[i].ifindex), 1);
    if (n) /* the widest first: they stand for what lies in them */
        qsort(all, n, sizeof *all, wider);
    for (size_t i = 0; i < n && node->n_taken < MN_SURVEY_TAKEN_MAX; i++) {
        size_t k = 0;

        while (k < node->n_taken && !contains(&node->taken[k], &all[i]))
            k++;
        if (k == node->n_taken)
            *(struct mn_survey_taken *)mn_grow((void **)&node->taken, &node->n_taken, sizeof *all) =
                all[i];
    }
    free(all);
    free(to);
    return MN_OK;
}

/* --- beside a mesh -----------------------------------------------------------------------------
 */

/* The node of the mesh that the survey's is, -1 = none: by MAC, then by its names. */
static int node_of(const struct mn_mesh *mesh, const struct mn_survey *survey,
                   const struct mn_survey_node *node)
{
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++)
            for (size_t k = 0; k < node->n_nics && mesh->nodes[n].nics[i].has_mac; k++)
                if (mn_survey_mac_is(survey, node, k, mesh->nodes[n].nics[i].mac))
                    return (int)n;
    for (size_t n = 0; n < mesh->n_nodes; n++)
        if (!strcmp(mesh->nodes[n].name, node->name))
            return (int)n;
    for (size_t n = 0; n < mesh->n_nodes; n++)
        if (!strcmp(mesh->nodes[n].hostname, node->hostname))
            return (int)n;
    return -1;
}

/* The NIC of the survey's node is a cable's end in the mesh. */
static int is_cable(const struct mn_mesh *mesh, int node, const struct mn_survey_node *of,
                    const char *netdev)
{
    int at = mn_survey_nic_index(of, netdev);
    const struct mn_survey_nic *nic = at < 0 ? NULL : &of->nics[at];

    for (size_t i = 0; i < 2 * mesh->n_links; i++) {
        const struct mn_mesh_end *end = &mesh->links[i / 2].ends[i % 2];
        const struct mn_mesh_nic *file = &mesh->nodes[end->node].nics[end->nic];

        if (end->node == node &&
            (nic && nic->has_mac && file->has_mac ? !memcmp(nic->mac, file->mac, sizeof nic->mac)
                                                  : !strcmp(file->netdev, netdev)))
            return 1;
    }
    return 0;
}

void mn_taken_add_survey(struct mn_takens *list, const struct mn_mesh *mesh,
                         const struct mn_survey *survey)
{
    for (const struct mn_survey_node *node = survey->nodes; node < survey->nodes + survey->n_nodes;
         node++) {
        int own = node_of(mesh, survey, node);
        const char *name = own < 0 ? node->name : mesh->nodes[own].name;

        /* Of a survey that was recorded before there were such lists. */
        for (size_t i = 0; i < node->n_nics && !node->n_taken; i++)
            for (size_t a = 0; a < node->nics[i].n_addrs; a++)
                if (!is_cable(mesh, own, node, node->nics[i].netdev) &&
                    !mn_addr_is_nobodys(&node->nics[i].addrs[a]))
                    mn_taken_add(list, &node->nics[i].addrs[a], MN_TAKEN_USED, "%s on %s",
                                 node->nics[i].netdev, name);
        for (size_t i = 0; i < node->n_taken; i++) {
            const struct mn_survey_taken *t = &node->taken[i];

            if (!is_cable(mesh, own, node, t->netdev))
                mn_taken_add(list, &t->net, MN_TAKEN_USED, "%s%s%s%s",
                             t->route ? "a route of " : "", t->netdev, t->netdev[0] ? " on " : "",
                             name);
        }
    }
}
