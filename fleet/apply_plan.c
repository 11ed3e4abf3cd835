/* What the mesh file wants of a node against what is there. */
#include <netlink/route/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fleet/apply_plan_impl.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

struct work {
    const struct mn_apply_want *want;
    struct mn_mesh_node *node;
    const struct mn_kernel *kernel;
    struct mn_apply_plan *plan;
    struct mn_apply_pair *pairs;
    size_t n_pairs;
};

/* "NIC", or "NODE/NIC". */
int mn_apply_taken(const struct mn_apply_want *want, const char *netdev, const char *name)
{
    const char *node = want->mesh->nodes[want->node].name;
    size_t len = strlen(node);

    for (size_t i = 0; i < want->n_take; i++) {
        const char *take = want->take[i];
        if (!strncmp(take, node, len) && take[len] == '/')
            take += len + 1;
        if (!strcmp(take, netdev) || !strcmp(take, name))
            return 1;
    }
    return 0;
}

static const char *mac_text(const struct mn_mesh_nic *nic, char text[18])
{
    const uint8_t *m = nic->mac;

    snprintf(text, 18, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    return text;
}

/* By MAC, for names change with slots and kernels; where several have it, by name among them. */
static const struct mn_nic *find_nic(const struct mn_host *host, const struct mn_mesh_nic *want,
                                     struct mn_diag *diag)
{
    const struct mn_nic *named = mn_host_nic(host, want->netdev), *found = NULL;
    char mac[18];
    int count = 0;

    if (!want->has_mac) {
        if (!named)
            mn_fail(diag, MN_ERR_CONFIG, "%s: this host has no such NIC", want->netdev);
        return named;
    }
    for (size_t i = 0; i < host->n_nics; i++) {
        if (!host->nics[i].has_mac || memcmp(host->nics[i].mac, want->mac, 6) != 0)
            continue;
        found = &host->nics[i];
        count++;
        if (found == named)
            return named;
    }
    if (count != 1)
        mn_fail(diag, MN_ERR_CONFIG,
                "%s: %s NIC of this host has the MAC %s that the mesh file gives; correct the file "
                "or discover again",
                want->netdev, count ? "more than one" : "no", mac_text(want, mac));
    return count == 1 ? found : NULL;
}

static enum mn_err find_pairs(struct work *w, struct mn_diag *diag)
{
    for (size_t i = 0; i < w->node->n_nics; i++) {
        struct mn_mesh_nic *want = &w->node->nics[i];
        int taken = mn_apply_taken(w->want, want->netdev, want->name);
        if (taken)
            want->role = MN_ROLE_CABLE;
        if (!want->n_addrs || want->role == MN_ROLE_MANAGEMENT)
            continue;
        const struct mn_nic *have = find_nic(w->want->host, want, diag);
        if (!have)
            return MN_ERR_CONFIG;
        for (size_t k = 0; k < w->n_pairs; k++)
            if (w->pairs[k].have == have)
                return mn_fail(diag, MN_ERR_CONFIG,
                               "%s and %s of the mesh file are one NIC here, %s",
                               w->pairs[k].want->name, want->name, have->netdev);
        struct mn_apply_pair *p = mn_grow((void **)&w->pairs, &w->n_pairs, sizeof *w->pairs);
        *p = (struct mn_apply_pair){.want = want, .have = have, .kernel = w->kernel};
        p->taken = taken || mn_apply_taken(w->want, have->netdev, have->netdev);
        p->n_addrs = mn_kernel_addresses(w->kernel, have->ifindex, &p->addrs);
    }
    return MN_OK;
}

/* How many others it lies on: a VLAN on one, a macvlan on that on two. */
static int depth_of(const struct mn_apply_pair *p)
{
    struct rtnl_link *link = rtnl_link_get(p->kernel->links, p->have->ifindex);
    int depth = 0;

    while (link && rtnl_link_get_link(link) && depth < 8) {
        const char *type = rtnl_link_get_type(link);
        int below = type && strcmp(type, "veth") != 0 ? rtnl_link_get_link(link) : 0;
        rtnl_link_put(link);
        link = below ? rtnl_link_get(p->kernel->links, below) : NULL;
        depth += link != NULL;
    }
    if (link)
        rtnl_link_put(link);
    return depth;
}

/* Those below first: what lies on a NIC cannot have a larger MTU. Else in the file's order. */
static void sort_pairs(struct work *w)
{
    for (size_t i = 1; i < w->n_pairs; i++)
        for (size_t k = i; k && depth_of(&w->pairs[k]) < depth_of(&w->pairs[k - 1]); k--) {
            struct mn_apply_pair pair = w->pairs[k];
            w->pairs[k] = w->pairs[k - 1];
            w->pairs[k - 1] = pair;
        }
}

/* --- what is left alone ----------------------------------------------------------------------- */

static enum mn_err guard(struct work *w, const struct mn_apply_pair *p, struct mn_diag *diag)
{
    struct mn_changes list = {.items = NULL};

    for (size_t s = 0; mn_pair_steps[s]; s++)
        mn_pair_steps[s](&list, p);
    const char *why = mn_pair_guarded(p, &list);
    size_t count = list.count;
    mn_changes_free(&list);
    if (why && count)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s: the mesh file wants it changed, and %s: nothing was changed; --take %s "
                       "if that is meant, role: management in the mesh file if not",
                       p->have->netdev, why, p->have->netdev);
    if (why) {
        char *text =
            mn_asprintf("%s is as the mesh file wants it and left alone: %s", p->have->netdev, why);
        mn_text_push(&w->plan->notes, &w->plan->n_notes, text);
        free(text);
        p->want->role = MN_ROLE_MANAGEMENT;
    }
    return MN_OK;
}

static enum mn_err compare(struct work *w, const char *root, struct mn_diag *diag)
{
    enum mn_err err = find_pairs(w, diag);

    sort_pairs(w);
    for (size_t i = 0; i < w->n_pairs; i++) {
        w->pairs[i].all = w->pairs;
        w->pairs[i].n_all = w->n_pairs;
    }
    for (size_t i = 0; i < w->n_pairs && !err; i++)
        err = guard(w, &w->pairs[i], diag);
    for (size_t i = 0; i < w->n_pairs && !err; i++)
        if (w->pairs[i].want->role != MN_ROLE_MANAGEMENT)
            err = mn_pair_keep_routes(&w->pairs[i], diag);
    for (size_t s = 0; mn_pair_steps[s] && !err; s++)
        for (size_t i = 0; i < w->n_pairs; i++)
            if (w->pairs[i].want->role != MN_ROLE_MANAGEMENT)
                mn_pair_steps[s](&w->plan->kernel, &w->pairs[i]);
    /* What is written goes by the names of this host. */
    for (size_t i = 0; i < w->n_pairs && !err; i++)
        mn_strlcpy(w->pairs[i].want->netdev, w->pairs[i].have->netdev,
                   sizeof w->pairs[i].want->netdev);
    if (!err)
        err = mn_apply_transit(w->want->mesh, w->want->node, w->want->host, w->kernel, root,
                               w->plan, diag);
    for (size_t i = 0; i < w->n_pairs; i++)
        mn_texts_free(w->pairs[i].addrs, w->pairs[i].n_addrs);
    free(w->pairs);
    return err;
}

enum mn_err mn_apply_plan(const struct mn_apply_want *want, const struct mn_kernel *kernel,
                          const char *root, struct mn_apply_plan *plan, struct mn_diag *diag)
{
    struct work w = {.want = want,
                     .node = &want->mesh->nodes[want->node],
                     .kernel = kernel,
                     .plan = plan};

    *plan = (struct mn_apply_plan){.manager = mn_manager_find(root)};
    enum mn_err err = want->host ? compare(&w, root, diag) : MN_OK;
    if (!err)
        err = mn_apply_files(plan->manager, want->mesh, want->node, root, &plan->files,
                             &plan->notes, &plan->n_notes, diag);
    if (!err)
        mn_transit_old_files(plan->manager, want->mesh, want->node, root, &plan->files);
    if (err)
        mn_apply_plan_free(plan);
    return err;
}

void mn_apply_plan_free(struct mn_apply_plan *plan)
{
    mn_changes_free(&plan->kernel);
    mn_changes_free(&plan->files);
    mn_texts_free(plan->notes, plan->n_notes);
    *plan = (struct mn_apply_plan){.manager = NULL};
}
