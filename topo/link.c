/* Cables: pairs of NICs whose addresses share a subnet under both real netmasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"
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

/* --- names ---------------------------------------------------------------------------------- */

static int name_taken(const struct mn_mesh *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->n_links; i++)
        if (!strcmp(mesh->links[i].name, name))
            return 1;
    return 0;
}

/* Bytes of text up to max, not through the middle of a character. */
static int whole_characters(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);
    if (len > max)
        for (len = max; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--;
    return (int)len;
}

/* The name of the nth link between two nodes. */
static void default_name(const struct mn_mesh *mesh, const struct mn_mesh_link *link, int n,
                         char name[MN_NAME_MAX])
{
    const size_t share = (MN_NAME_MAX - 8) / 2; /* leaves room for "-" and "-4096" */
    const char *a = mesh->nodes[link->ends[0].node].name;
    const char *b = mesh->nodes[link->ends[1].node].name;
    int len = snprintf(name, MN_NAME_MAX, "%.*s-%.*s", whole_characters(a, share), a,
                       whole_characters(b, share), b);
    if (n > 1)
        snprintf(name + len, MN_NAME_MAX - (size_t)len, "-%d", n);
}

void mn_link_name(struct mn_mesh *mesh)
{
    for (size_t i = 0; i < mesh->n_links; i++) {
        struct mn_mesh_link *link = &mesh->links[i];
        char name[MN_NAME_MAX];
        int n = 1;
        if (link->name[0])
            continue;
        do
            default_name(mesh, link, n++, name);
        while (name_taken(mesh, name));
        mn_strlcpy(link->name, name, sizeof link->name);
    }
}

/* A link that has gone because it was management leaves its number to those after it. */
static void close_gap(struct mn_mesh *mesh, const struct mn_mesh_link *gone)
{
    for (int n = 2; n <= MN_MESH_LINKS_MAX; n++) {
        char name[MN_NAME_MAX], before[MN_NAME_MAX];
        size_t i = 0;
        default_name(mesh, gone, n, name);
        default_name(mesh, gone, n - 1, before);
        while (i < mesh->n_links && strcmp(mesh->links[i].name, name) != 0)
            i++;
        if (i < mesh->n_links && !name_taken(mesh, before))
            mn_strlcpy(mesh->links[i].name, before, sizeof mesh->links[i].name);
        else if (i == mesh->n_links && n > (int)mesh->n_links + 1)
            return;
    }
}

static void close_gaps(struct mn_mesh *mesh, const struct mn_mesh *old)
{
    for (size_t i = 0; i < old->n_links; i++) {
        const struct mn_mesh_link *was = &old->links[i];
        if (mn_mesh_end_nic(mesh, &was->ends[0])->role == MN_ROLE_MANAGEMENT ||
            mn_mesh_end_nic(mesh, &was->ends[1])->role == MN_ROLE_MANAGEMENT)
            close_gap(mesh, was);
    }
}

/* --- finding -------------------------------------------------------------------------------- */

/* All NICs of the mesh in one row, joined into nets of those that share a subnet. */
struct nets {
    const struct mn_mesh *mesh;
    struct mn_mesh_end *ends;
    size_t n_ends;
    size_t *root; /* of the net an end is in: the index of its first end */
};

static size_t net_of(const struct nets *nets, size_t end)
{
    while (nets->root[end] != end)
        end = nets->root[end];
    return end;
}

static enum mn_err nets_join(struct nets *nets, struct mn_diag *diag)
{
    const struct mn_mesh *mesh = nets->mesh;
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++) {
            if (mesh->nodes[n].nics[i].role == MN_ROLE_MANAGEMENT)
                continue;
            struct mn_mesh_end *end = mn_push(&nets->ends, &nets->n_ends, sizeof *end, diag);
            if (!end)
                return MN_ERR_NOMEM;
            *end = (struct mn_mesh_end){(int)n, (int)i};
        }
    nets->root = calloc(nets->n_ends + 1, sizeof *nets->root);
    if (!nets->root)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory to find the links");
    for (size_t b = 0; b < nets->n_ends; b++) {
        nets->root[b] = b;
        for (size_t a = 0; a < b; a++) {
            struct mn_addr subnet;
            if (nets->ends[a].node == nets->ends[b].node ||
                !mn_link_subnet(mn_mesh_end_nic(mesh, &nets->ends[a]),
                                mn_mesh_end_nic(mesh, &nets->ends[b]), &subnet))
                continue;
            size_t x = net_of(nets, a), y = net_of(nets, b);
            nets->root[x > y ? x : y] = x > y ? y : x;
        }
    }
    return MN_OK;
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

/* A link that existed keeps its name and place. */
static enum mn_err link_add(struct mn_mesh *mesh, const struct mn_mesh *old, struct mn_mesh_end a,
                            struct mn_mesh_end b, struct mn_diag *diag)
{
    struct mn_mesh_link *link = mn_push(&mesh->links, &mesh->n_links, sizeof *link, diag);
    if (!link)
        return MN_ERR_NOMEM;
    link->ends[0] = a;
    link->ends[1] = b;
    mn_link_subnet(mn_mesh_end_nic(mesh, &a), mn_mesh_end_nic(mesh, &b), &link->subnet);
    for (size_t i = 0; i < old->n_links; i++) {
        const struct mn_mesh_link *was = &old->links[i];
        for (int side = 0; side < 2; side++)
            if (!memcmp(&was->ends[side], &a, sizeof a) && !memcmp(&was->ends[!side], &b, sizeof b))
                mn_strlcpy(link->name, was->name, sizeof link->name);
    }
    return MN_OK;
}

static enum mn_err links_of(struct mn_mesh *mesh, const struct mn_mesh *old,
                            const struct nets *nets, const char *file, struct mn_diag *diag)
{
    size_t *members = calloc(nets->n_ends + 1, sizeof *members);
    enum mn_err err = members ? MN_OK : mn_fail(diag, MN_ERR_NOMEM, "no memory to find the links");
    for (size_t net = 0; net < nets->n_ends && !err; net++) {
        size_t count = 0;
        for (size_t i = net; i < nets->n_ends; i++)
            if (net_of(nets, i) == net)
                members[count++] = i;
        if (count == 2)
            err = link_add(mesh, old, nets->ends[members[0]], nets->ends[members[1]], diag);
        else if (count > 2)
            err = net_too_large(nets, members, count, file, diag);
    }
    free(members);
    return err;
}

static int is_end(const struct mn_mesh *mesh, const struct mn_mesh_end *end)
{
    for (size_t i = 0; i < 2 * mesh->n_links; i++)
        if (!memcmp(&mesh->links[i / 2].ends[i % 2], end, sizeof *end))
            return 1;
    return 0;
}

/* Nobody but who wrote them down knows of them. */
static enum mn_err keep_bare(struct mn_mesh *mesh, const struct mn_mesh *old, struct mn_diag *diag)
{
    for (size_t i = 0; i < old->n_links; i++) {
        const struct mn_mesh_link *was = &old->links[i];
        int waits = mn_link_is_bare(was) && (mn_nic_is_bare(mn_mesh_end_nic(mesh, &was->ends[0])) ||
                                             mn_nic_is_bare(mn_mesh_end_nic(mesh, &was->ends[1])));
        if (!waits || is_end(mesh, &was->ends[0]) || is_end(mesh, &was->ends[1]))
            continue;
        struct mn_mesh_link *link = mn_push(&mesh->links, &mesh->n_links, sizeof *link, diag);
        if (!link)
            return MN_ERR_NOMEM;
        *link = *was;
    }
    return MN_OK;
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
    close_gaps(mesh, &old);
    free(old.links);
    mn_link_name(mesh);
    return err ? err : mn_link_overlap(mesh, file, diag);
}

enum mn_err mn_mesh_link_up(struct mn_mesh *mesh, struct mn_diag *diag)
{
    enum mn_err err = mn_mesh_addrs_check(mesh, diag);
    return err ? err : mn_link_find(mesh, NULL, diag);
}

/* --- subnets -------------------------------------------------------------------------------- */

struct link_net {
    size_t link;
    struct mn_addr subnet;
};

/* Every subnet of every link: one with IPv4 and IPv6 addresses has two. */
static enum mn_err link_nets(const struct mn_mesh *mesh, struct link_net **nets, size_t *count,
                             struct mn_diag *diag)
{
    for (size_t l = 0; l < mesh->n_links; l++) {
        const struct mn_mesh_nic *a = mn_mesh_end_nic(mesh, &mesh->links[l].ends[0]);
        struct mn_mesh_nic one = *a;
        for (size_t i = 0; i < a->n_addrs; i++) {
            struct mn_addr subnet;
            one.addrs = &a->addrs[i];
            one.n_addrs = 1;
            if (!mn_link_subnet(&one, mn_mesh_end_nic(mesh, &mesh->links[l].ends[1]), &subnet))
                continue;
            struct link_net *net = mn_push(nets, count, sizeof *net, diag);
            if (!net)
                return MN_ERR_NOMEM;
            net->link = l;
            net->subnet = subnet;
        }
    }
    return MN_OK;
}

static int overlap(const struct mn_addr *a, const struct mn_addr *b)
{
    struct mn_addr x = *a, y = *b;
    x.prefix = y.prefix = a->prefix < b->prefix ? a->prefix : b->prefix;
    return mn_addr_share_subnet(&x, &y);
}

enum mn_err mn_link_overlap(const struct mn_mesh *mesh, const char *file, struct mn_diag *diag)
{
    struct link_net *nets = NULL;
    size_t count = 0;
    enum mn_err err = link_nets(mesh, &nets, &count, diag);
    for (size_t b = 0; b < count && !err; b++)
        for (size_t a = 0; a < b && !err; a++) {
            char one[MN_ADDR_TEXT], two[MN_ADDR_TEXT];
            if (nets[a].link == nets[b].link || !overlap(&nets[a].subnet, &nets[b].subnet))
                continue;
            const struct mn_mesh_link *link = &mesh->links[nets[b].link];
            const struct mn_mesh_nic *nic = mn_mesh_end_nic(mesh, &link->ends[0]);
            err = mn_mesh_fail_at(diag, file, link->line ? link->line : nic->line,
                                  link->line ? link->column : nic->column,
                                  "subnet %s of link \"%s\" overlaps subnet %s of link \"%s\"; "
                                  "expected a subnet of its own for each cable",
                                  mn_addr_format(&nets[b].subnet, two, sizeof two), link->name,
                                  mn_addr_format(&nets[a].subnet, one, sizeof one),
                                  mesh->links[nets[a].link].name);
        }
    free(nets);
    return err;
}
