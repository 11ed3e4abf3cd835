/* Whether the subnets of different cables run into one another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/link_impl.h"
#include "topo/mesh_check.h"

#define DEEP 162 /* prefix lengths: as many subnets can be within one another */

struct link_net {
    size_t link, place; /* among the mesh's links, among all subnets of links */
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
            *net = (struct link_net){l, *count - 1, subnet};
        }
    }
    return MN_OK;
}

/* A subnet before those that are in it. */
static int by_subnet(const void *x, const void *y)
{
    const struct link_net *a = x, *b = y;
    int d = a->subnet.family - b->subnet.family;

    d = d ? d : memcmp(a->subnet.bytes, b->subnet.bytes, sizeof a->subnet.bytes);
    d = d ? d : a->subnet.prefix - b->subnet.prefix;
    return d ? d : (a->place > b->place) - (a->place < b->place);
}

int mn_link_equal_in(const struct mn_addr *a, const struct mn_addr *b, int prefix)
{
    struct mn_addr x = *a, y = *b;

    x.prefix = y.prefix = prefix;
    return mn_addr_share_subnet(&x, &y);
}

static int overlap(const struct mn_addr *a, const struct mn_addr *b)
{
    return mn_link_equal_in(a, b, a->prefix < b->prefix ? a->prefix : b->prefix);
}

/* Two subnets that overlap, of different links: the later one as early in the file as can be. */
struct pair {
    const struct link_net *before, *after;
};

static void note(struct pair *worst, const struct link_net *a, const struct link_net *b)
{
    struct pair pair = a->place < b->place ? (struct pair){a, b} : (struct pair){b, a};

    if (a->link != b->link &&
        (!worst->after || pair.after->place < worst->after->place ||
         (pair.after == worst->after && pair.before->place < worst->before->place)))
        *worst = pair;
}

/* nets in order: what a subnet overlaps lies around it, or is in it and comes later. */
static struct pair find_overlap(const struct link_net *nets, size_t count)
{
    const struct link_net *around[DEEP];
    struct pair worst = {NULL, NULL};
    size_t depth = 0;

    for (size_t i = 0; i < count; i++) {
        while (depth && !overlap(&around[depth - 1]->subnet, &nets[i].subnet))
            depth--;
        for (size_t k = 0; k < depth; k++)
            note(&worst, around[k], &nets[i]);
        if (depth < DEEP && !(depth && around[depth - 1]->subnet.prefix == nets[i].subnet.prefix))
            around[depth++] = &nets[i];
    }
    return worst;
}

/* Links that no file names get their names here: their NICs are what a user knows. */
static void ends_of(const struct mn_mesh *mesh, const struct mn_mesh_link *link, char *text,
                    size_t size)
{
    const struct mn_mesh_end *a = &link->ends[0], *b = &link->ends[1];

    snprintf(text, size, "%s/%s, %s/%s", mesh->nodes[a->node].name, mn_mesh_end_nic(mesh, a)->name,
             mesh->nodes[b->node].name, mn_mesh_end_nic(mesh, b)->name);
}

enum mn_err mn_link_overlap(const struct mn_mesh *mesh, const char *file, struct mn_diag *diag)
{
    struct link_net *nets = NULL;
    size_t count = 0;
    enum mn_err err = link_nets(mesh, &nets, &count, diag);
    if (!err && count)
        qsort(nets, count, sizeof *nets, by_subnet);
    struct pair pair = find_overlap(nets, err ? 0 : count);
    if (pair.after) {
        char one[MN_ADDR_TEXT], two[MN_ADDR_TEXT];
        const struct mn_mesh_link *link = &mesh->links[pair.after->link];
        const struct mn_mesh_link *before = &mesh->links[pair.before->link];
        const struct mn_mesh_nic *nic = mn_mesh_end_nic(mesh, &link->ends[0]);
        char ends[2][4 * MN_NAME_MAX + 16];
        ends_of(mesh, link, ends[0], sizeof ends[0]);
        ends_of(mesh, before, ends[1], sizeof ends[1]);
        err = mn_mesh_fail_at(diag, file, link->line ? link->line : nic->line,
                              link->line ? link->column : nic->column,
                              "subnet %s of link \"%s\" (%s) overlaps subnet %s of link \"%s\" "
                              "(%s); expected a subnet of its own for each cable",
                              mn_addr_format(&pair.after->subnet, two, sizeof two), link->name,
                              ends[0], mn_addr_format(&pair.before->subnet, one, sizeof one),
                              before->name, ends[1]);
    }
    free(nets);
    return err;
}
