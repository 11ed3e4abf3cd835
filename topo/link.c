/* Cables: pairs of NICs whose addresses share a subnet under both real netmasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/index.h"
#include "topo/base/log.h"
#include "topo/link_impl.h"
#include "topo/mesh_check.h"

int mn_link_subnet(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b, struct mn_addr *subnet)
{
    for (size_t i = 0; i < a->n_addrs; i++)
        for (size_t j = 0; j < b->n_addrs; j++) {
            const struct mn_addr *x = &a->addrs[i], *y = &b->addrs[j];
            if (mn_addr_is_link_local(x) || !mn_addr_share_subnet(x, y))
                continue;
            *subnet = mn_addr_network(x->prefix <= y->prefix ? x : y);
            return 1;
        }
    return 0;
}

int mn_link_is_bare(const struct mn_mesh_link *link)
{
    return !link->subnet.family;
}

int mn_nic_is_bare(const struct mn_mesh_nic *nic)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (!mn_addr_is_link_local(&nic->addrs[i]))
            return 0;
    return 1;
}

static void end_name(const struct mn_mesh *mesh, const struct mn_mesh_end *end, char *text)
{
    snprintf(text, 2 * MN_NAME_MAX, "%s/%s", mesh->nodes[end->node].name,
             mn_mesh_end_nic(mesh, end)->name);
}

/* --- finding -------------------------------------------------------------------------------- */

/* All NICs of the mesh that may be cables' ends in one row, joined into nets of those that share a
 * subnet. */
struct nets {
    const struct mn_mesh *mesh;
    struct mn_mesh_end *ends;
    size_t n_ends;
    size_t *root; /* towards the first end of the net an end is in */
    struct net_addr {
        struct mn_addr addr;
        size_t end;
    } * addrs; /* in order, without those that name no cable */
    size_t n_addrs;
};

static size_t net_of(const struct nets *nets, size_t end)
{
    for (; nets->root[end] != end; end = nets->root[end])
        nets->root[end] = nets->root[nets->root[end]];
    return end;
}

static void join(const struct nets *nets, size_t a, size_t b)
{
    size_t x = net_of(nets, a), y = net_of(nets, b);
    nets->root[x > y ? x : y] = x > y ? y : x;
}

static enum mn_err list_end(struct nets *nets, int node, int index, struct mn_diag *diag)
{
    const struct mn_mesh_nic *nic = &nets->mesh->nodes[node].nics[index];
    struct mn_mesh_end *end = mn_push(&nets->ends, &nets->n_ends, sizeof *end, diag);

    if (!end)
        return MN_ERR_NOMEM;
    *end = (struct mn_mesh_end){node, index};
    for (size_t a = 0; a < nic->n_addrs; a++) {
        if (!nic->addrs[a].family || mn_addr_is_link_local(&nic->addrs[a]))
            continue;
        struct net_addr *addr = mn_push(&nets->addrs, &nets->n_addrs, sizeof *addr, diag);
        if (!addr)
            return MN_ERR_NOMEM;
        *addr = (struct net_addr){nic->addrs[a], nets->n_ends - 1};
    }
    return MN_OK;
}

static enum mn_err list_ends(struct nets *nets, struct mn_diag *diag)
{
    const struct mn_mesh *mesh = nets->mesh;
    enum mn_err err = MN_OK;

    for (size_t n = 0; n < mesh->n_nodes && !err; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics && !err; i++)
            if (mesh->nodes[n].nics[i].role != MN_ROLE_MANAGEMENT)
                err = list_end(nets, (int)n, (int)i, diag);
    if (err)
        return err;
    nets->root = calloc(nets->n_ends + 1, sizeof *nets->root);
    if (!nets->root)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory to find the links");
    for (size_t i = 0; i < nets->n_ends; i++)
        nets->root[i] = i;
    return MN_OK;
}

static int by_addr(const void *x, const void *y)
{
    const struct net_addr *a = x, *b = y;
    int d = a->addr.family - b->addr.family;

    d = d ? d : memcmp(a->addr.bytes, b->addr.bytes, sizeof a->addr.bytes);
    return d ? d : (a->end > b->end) - (a->end < b->end);
}

/* Addresses from first to before last that are equal in as many bits as this prefix has. Of those
 * with no longer prefix of their own each shares a subnet with each. */
static void join_run(const struct nets *nets, size_t first, size_t last, int prefix)
{
    const struct net_addr *one = NULL;
    int nodes = 0; /* more than one */

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = first; i < last && (!pass || nodes); i++) {
            const struct net_addr *other = &nets->addrs[i];
            if (other->addr.prefix > prefix)
                continue;
            one = one ? one : other;
            if (pass)
                join(nets, one->end, other->end);
            else
                nodes |= nets->ends[one->end].node != nets->ends[other->end].node;
        }
}

/* Two addresses share a subnet when they are equal in the bits of the longer prefix: looked for
 * with each prefix that there is. */
static void join_all(const struct nets *nets, int family)
{
    char seen[129] = {0};

    for (size_t i = 0; i < nets->n_addrs; i++) {
        const struct mn_addr *addr = &nets->addrs[i].addr;
        if (addr->family == family && addr->prefix >= 0 && addr->prefix <= 128)
            seen[addr->prefix] = 1;
    }
    for (int prefix = 0; prefix <= 128; prefix++)
        for (size_t i = 0, end; seen[prefix] && i < nets->n_addrs; i = end) {
            end = i + 1;
            if (nets->addrs[i].addr.family != family)
                continue;
            while (end < nets->n_addrs &&
                   mn_link_equal_in(&nets->addrs[i].addr, &nets->addrs[end].addr, prefix))
                end++;
            join_run(nets, i, end, prefix);
        }
}

static enum mn_err nets_join(struct nets *nets, struct mn_diag *diag)
{
    enum mn_err err = list_ends(nets, diag);

    if (!err && nets->n_addrs) {
        qsort(nets->addrs, nets->n_addrs, sizeof *nets->addrs, by_addr);
        join_all(nets, AF_INET);
        join_all(nets, AF_INET6);
    }
    return err;
}

/* More than two NICs share a subnet. Each of another node: a switched network, which is no cable.
 * Several of one node: nobody can tell which cable a packet will take. */
static enum mn_err net_too_large(const struct nets *nets, const size_t *members, size_t count,
                                 const char *file, struct mn_diag *diag)
{
    char names[3][2 * MN_NAME_MAX];
    for (size_t i = 0; i < 3; i++)
        end_name(nets->mesh, &nets->ends[members[i]], names[i]);
    for (size_t i = 1; i < count; i++) {
        const struct mn_mesh_end *end = &nets->ends[members[i]];
        if (end->node != nets->ends[members[i - 1]].node)
            continue;
        const struct mn_mesh_nic *nic = mn_mesh_end_nic(nets->mesh, end);
        return mn_mesh_fail_at(diag, file, nic->line, nic->column,
                               "the subnets of %s, %s and %s%s run into one another; expected a "
                               "subnet of its own for each cable, with one NIC at either end",
                               names[0], names[1], names[2], count > 3 ? " and others" : "");
    }
    MN_INFO("%s, %s, %s%s share a subnet: a switched network, not counted as a link", names[0],
            names[1], names[2], count > 3 ? ", …" : "");
    return MN_OK;
}

static uint64_t hash_of_ends(struct mn_mesh_end a, struct mn_mesh_end b)
{
    int turned = a.node > b.node || (a.node == b.node && a.nic > b.nic);
    struct mn_mesh_end ends[2] = {turned ? b : a, turned ? a : b};

    return mn_hash(ends, sizeof ends);
}

/* A link that existed keeps its name. were: the links of old by both ends. */
static enum mn_err link_add(struct mn_mesh *mesh, const struct mn_mesh *old,
                            const struct mn_index *were, struct mn_mesh_end a, struct mn_mesh_end b,
                            struct mn_diag *diag)
{
    struct mn_mesh_link *link = mn_push(&mesh->links, &mesh->n_links, sizeof *link, diag);
    uint64_t hash = hash_of_ends(a, b);
    int found;
    if (!link)
        return MN_ERR_NOMEM;
    link->ends[0] = a;
    link->ends[1] = b;
    mn_link_subnet(mn_mesh_end_nic(mesh, &a), mn_mesh_end_nic(mesh, &b), &link->subnet);
    for (size_t at = 0; (found = mn_index_next(were, hash, &at)) >= 0;) {
        const struct mn_mesh_link *was = &old->links[found];
        for (int side = 0; side < 2; side++)
            if (!memcmp(&was->ends[side], &a, sizeof a) && !memcmp(&was->ends[!side], &b, sizeof b))
                mn_strlcpy(link->name, was->name, sizeof link->name);
    }
    return MN_OK;
}

/* members: the ends of the first net, of the second and so on; ends_at: where in it those of the
 * net of that first end stop. */
static void sort_members(const struct nets *nets, size_t *members, size_t *ends_at)
{
    size_t place = 0;

    for (size_t i = 0; i < nets->n_ends; i++)
        ends_at[net_of(nets, i)]++;
    for (size_t i = 0; i < nets->n_ends; i++) {
        size_t count = ends_at[i];
        ends_at[i] = place;
        place += count;
    }
    for (size_t i = 0; i < nets->n_ends; i++)
        members[ends_at[net_of(nets, i)]++] = i;
}

static enum mn_err links_of(struct mn_mesh *mesh, const struct mn_mesh *old,
                            const struct nets *nets, const char *file, struct mn_diag *diag)
{
    size_t *members = calloc(2 * nets->n_ends + 1, sizeof *members), place = 0;
    size_t *ends_at = members + nets->n_ends;
    struct mn_index were = {.slots = NULL};
    enum mn_err err = MN_OK;
    if (!members)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory to find the links");
    for (size_t i = 0; i < old->n_links && !err; i++)
        err = mn_index_put(&were, hash_of_ends(old->links[i].ends[0], old->links[i].ends[1]),
                           (int)i, diag);
    sort_members(nets, members, ends_at);
    for (size_t net = 0; net < nets->n_ends && !err; net++) {
        const size_t *first = members + place;
        size_t count = ends_at[net] - place;
        place = ends_at[net];
        if (count == 2)
            err = link_add(mesh, old, &were, nets->ends[first[0]], nets->ends[first[1]], diag);
        else if (count > 2)
            err = net_too_large(nets, first, count, file, diag);
    }
    mn_index_free(&were);
    free(members);
    return err;
}

/* Nobody but who wrote them down knows of them. */
static enum mn_err keep_bare(struct mn_mesh *mesh, const struct mn_mesh *old, struct mn_diag *diag)
{
    struct mn_mesh_lookup taken = {.owners = NULL};
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < mesh->n_links && !err; i++)
        err = mn_lookup_put_ends(&taken, mesh, (int)i, diag);
    for (size_t i = 0; i < old->n_links && !err; i++) {
        const struct mn_mesh_link *was = &old->links[i];
        int waits = mn_link_is_bare(was) && (mn_nic_is_bare(mn_mesh_end_nic(mesh, &was->ends[0])) ||
                                             mn_nic_is_bare(mn_mesh_end_nic(mesh, &was->ends[1])));
        if (!waits || mn_lookup_end(&taken, mesh, &was->ends[0]) >= 0 ||
            mn_lookup_end(&taken, mesh, &was->ends[1]) >= 0)
            continue;
        struct mn_mesh_link *link = mn_push(&mesh->links, &mesh->n_links, sizeof *link, diag);
        err = link ? MN_OK : MN_ERR_NOMEM;
        if (link) {
            *link = *was;
            err = mn_lookup_put_ends(&taken, mesh, (int)mesh->n_links - 1, diag);
        }
    }
    mn_lookup_free(&taken);
    return err;
}

enum mn_err mn_link_find(struct mn_mesh *mesh, const char *file, struct mn_diag *diag)
{
    struct mn_mesh old = *mesh;
    struct nets nets = {.mesh = mesh};
    mesh->links = NULL;
    mesh->n_links = 0;
    enum mn_err err = nets_join(&nets, diag);
    if (!err)
        err = links_of(mesh, &old, &nets, file, diag);
    if (!err)
        err = keep_bare(mesh, &old, diag);
    free(nets.ends);
    free(nets.root);
    free(nets.addrs);
    if (!err)
        err = mn_link_close_gaps(mesh, &old, diag);
    free(old.links);
    if (!err)
        err = mn_link_name(mesh, diag);
    return err ? err : mn_link_overlap(mesh, file, diag);
}

enum mn_err mn_mesh_link_up(struct mn_mesh *mesh, struct mn_diag *diag)
{
    enum mn_err err = mn_mesh_addrs_check(mesh, diag);
    return err ? err : mn_link_find(mesh, NULL, diag);
}
