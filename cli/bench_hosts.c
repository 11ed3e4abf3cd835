/* On which hosts the ranks are, and in which order: neighbours in the ring of ranks are neighbours
 * on the mesh where its cables allow it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_collective.h"
#include "cli/host_name.h"
#include "cli/mesh_option.h"
#include "cli/rank_env.h"
#include "cli/rank_order.h"
#include "fleet/ssh.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

enum mn_err mn_bench_token(const struct mn_bench_options *o, uint8_t token[MN_KEY_SIZE],
                           struct mn_diag *diag)
{
    return mn_token_read(o->token_file, "meshnet serve prints one", token, diag);
}

enum mn_err mn_bench_mesh(struct mn_collective_session *s, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    char path[512];
    enum mn_err err = mn_mesh_option(o->mesh, diag);

    if (err)
        return err;
    if (mn_mesh_find_file(path, sizeof path))
        return mn_mesh_read(path, &s->mesh, diag);
    if (o->links || o->pairs || o->print_order || o->predict)
        return mn_fail(diag, MN_ERR_USAGE,
                       "which mesh? give --mesh FILE; meshnet discover writes one");
    return MN_OK;
}

static enum mn_err own_node(const struct mn_mesh *mesh, int *self, struct mn_diag *diag)
{
    struct mn_host host;
    char why[256];
    enum mn_err err = mn_host_read(NULL, &host, diag);

    if (!err)
        err = mn_mesh_find_self(mesh, &host, self, why, sizeof why, diag);
    mn_host_free(&host);
    return err;
}

/* -1: no node, or not told by its name. */
static int node_of(const struct mn_mesh *mesh, int self, const char *host)
{
    return !strcmp(host, "localhost") ? self : mn_names_node(mesh, host);
}

void mn_bench_address(const struct mn_mesh *mesh, int self, const char *name, char *host,
                      size_t size)
{
    const struct mn_addr *found = mn_names_address(mesh, self, node_of(mesh, self, name));
    struct mn_addr addr;

    mn_strlcpy(host, name, size);
    if (!found)
        return;
    addr = *found;
    addr.prefix = -1;
    mn_addr_format(&addr, host, size);
}

/* What --hosts names has to be a node of the mesh, or for agents at least some host: ssh knows
 * names of its own. */
static enum mn_err check_hosts(const struct mn_collective_session *s, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    struct mn_names names = {.mesh = s->mesh, .self = s->self};
    enum mn_err err = MN_OK;

    (void)mn_mesh_find_file(names.path, sizeof names.path);
    for (size_t i = 0; i < o->hosts.count && !err; i++) {
        const char *name = o->hosts.items[i];
        if (o->agents && !mn_ssh_is_here(name))
            err = mn_names_check(&names, "--hosts", name, diag);
        if (!err && o->print_order && node_of(&s->mesh, s->self, name) < 0)
            err = mn_names_not_a_node(&names, "--hosts", name, diag);
    }
    return err;
}

/* The nodes of the hosts that were given, or all, this one first. 0: they are not nodes, or one
 * comes twice, and stay as they are. */
static int nodes_of(const struct mn_collective_session *s, int self, int *nodes)
{
    const struct mn_opt_list *given = &s->options->hosts;
    int n = 0;

    if (!given->count) {
        nodes[n++] = self;
        for (int i = 0; i < (int)s->mesh.n_nodes; i++)
            if (i != self)
                nodes[n++] = i;
        return n;
    }
    for (; n < (int)given->count && n < (int)s->mesh.n_nodes; n++) {
        nodes[n] = node_of(&s->mesh, self, given->items[n]);
        for (int i = 0; i < n; i++)
            if (nodes[i] == nodes[n])
                return 0;
        if (nodes[n] < 0)
            return 0;
    }
    return n == (int)given->count ? n : 0;
}

/* The name by which ssh or the agents' addresses are found: as it was given, unless the system
 * knows the node by its host name alone. */
static const char *host_of(const struct mn_collective_session *s, int self, int node)
{
    const struct mn_opt_list *given = &s->options->hosts;
    const char *hostname = s->mesh.nodes[node].hostname;

    for (size_t i = 0; i < given->count; i++) {
        const char *name = given->items[i];
        if (node_of(&s->mesh, self, name) != node)
            continue;
        if (node == self)
            return mn_ssh_is_here(name) ? name : "localhost";
        return strcmp(name, hostname) != 0 && mn_names_unknown(name) && !mn_names_unknown(hostname)
                   ? hostname
                   : name;
    }
    return node == self ? "localhost" : hostname;
}

enum mn_err mn_bench_hosts(struct mn_collective_session *s, struct mn_diag *diag)
{
    int n = (int)s->mesh.n_nodes, self, *nodes, *order;

    if (!n || s->options->local)
        return MN_OK;
    enum mn_err err = own_node(&s->mesh, &self, diag);
    if (err) /* a mesh file that nobody asked for may be another cluster's */
        return s->options->mesh || s->options->print_order || !s->options->hosts.count ? err
                                                                                       : MN_OK;
    s->self = self;
    err = check_hosts(s, diag);
    if (err)
        return err;
    nodes = mn_zalloc((size_t)(n + 1) * sizeof *nodes);
    order = mn_zalloc((size_t)(n + 1) * sizeof *order);
    n = nodes_of(s, self, nodes);
    if (n) {
        struct mn_rank_order ring;
        mn_rank_order_best(&s->mesh, nodes, n, &ring);
        s->missing = ring.missing;
        s->gaps = mn_rank_order_gaps(&s->mesh, &ring);
        memcpy(order, ring.nodes, (size_t)n * sizeof *order);
        mn_rank_order_free(&ring);
        s->names.items = mn_zalloc((size_t)n * sizeof *s->names.items);
        for (int i = 0; i < n; i++)
            s->names.items[s->names.count++] = host_of(s, self, order[i]);
        s->hosts = &s->names;
    }
    for (int i = 0; n && s->options->print_order && i < n; i++)
        printf("%s%s", s->mesh.nodes[order[i]].name, i + 1 < n ? "," : "\n");
    if (!n && s->options->print_order)
        err = mn_fail(
            diag, MN_ERR_CONFIG,
            "--hosts: a node is there twice; expected different ones, to put them in order");
    free(nodes);
    free(order);
    return err;
}
