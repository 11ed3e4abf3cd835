/* Which NIC of a host is a cable's end, and which leads to the office: what speaks for a network is
 * weighed, for a mesh of two nodes in one office looks like two cables otherwise. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

#define FAR_SLOWER 8 /* times: 1G beside 10G, 10G beside 100G, not 25G beside 100G */

struct look {
    const struct mn_host *host;
    const struct mn_mesh *mesh; /* may be NULL */
    long fastest;               /* of the usable NICs, Mb/s; 0 = none is known */
    int rdma;                   /* one of them has it */
};

struct evidence {
    int strong, weak;
    char text[152];
};

__attribute__((format(printf, 2, 3))) static void note(struct evidence *e, const char *fmt, ...)
{
    size_t used = strlen(e->text);
    va_list args;
    va_start(args, fmt);
    if (used && used < sizeof e->text - 3)
        used += (size_t)snprintf(e->text + used, sizeof e->text - used, ", ");
    vsnprintf(e->text + used, sizeof e->text - used, fmt, args);
    va_end(args);
}

/* Bridges and virtual odds and ends carry the containers and tunnels of the host, a bond's or
 * bridge's members have no traffic of their own, every fe80::/10 address is in everybody's subnet,
 * and a host's own prefix (/32, /128) is in nobody's. */
int mn_mesh_usable(const struct mn_nic *nic)
{
    size_t addrs = 0;
    for (size_t i = 0; i < nic->n_addrs; i++)
        addrs += !mn_addr_is_link_local(&nic->addrs[i]) &&
                 nic->addrs[i].prefix < (nic->addrs[i].family == AF_INET6 ? 128 : 32);
    return addrs > 0 && !nic->master[0] && nic->kind != MN_NIC_LOOPBACK &&
           nic->kind != MN_NIC_BRIDGE && nic->kind != MN_NIC_OTHER;
}

/* Room for the two ends of a cable and nobody else. */
static int point_to_point(const struct mn_nic *nic)
{
    if (nic->kind == MN_NIC_THUNDERBOLT)
        return 1;
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (!mn_addr_is_link_local(&nic->addrs[i]) &&
            nic->addrs[i].prefix < (nic->addrs[i].family == AF_INET6 ? 126 : 30))
            return 0;
    return 1;
}

/* A node through which others reach the world is still at the other end of a cable. */
static int gateway_is_node(const struct look *l, const struct mn_nic *nic)
{
    for (size_t n = 0; l->mesh && nic->gateway.family && n < l->mesh->n_nodes; n++)
        for (size_t i = 0; i < l->mesh->nodes[n].n_nics; i++) {
            const struct mn_mesh_nic *theirs = &l->mesh->nodes[n].nics[i];
            for (size_t a = 0; a < theirs->n_addrs && theirs->role != MN_ROLE_MANAGEMENT; a++)
                if (mn_addr_equal(&theirs->addrs[a], &nic->gateway))
                    return 1;
        }
    return 0;
}

static int far_slower(const struct mn_nic *nic, long than)
{
    return nic->speed_mbps > 0 && than / FAR_SLOWER >= nic->speed_mbps;
}

/* What is made for data, and shows no other sign of a network, may have a route all the same. */
static int made_for_data(const struct look *l, const struct mn_nic *nic)
{
    int others = 0;
    if (nic->leased || nic->hosts > 1 || !nic->speed_mbps || nic->speed_mbps < l->fastest)
        return 0;
    for (size_t i = 0; i < l->host->n_nics; i++) {
        const struct mn_nic *other = &l->host->nics[i];
        if (other == nic || !mn_mesh_usable(other) ||
            (nic->phys_port[0] && !strcmp(nic->phys_port, other->phys_port)))
            continue;
        others++;
        if (!far_slower(other, nic->speed_mbps) && nic->rdma < 0)
            return 0;
    }
    return nic->rdma >= 0 || others > 0;
}

/* Routes to other cables lead through neighbours too; those have the size of a cable's subnet. */
static int has_gateway(const struct look *l, const struct mn_nic *nic)
{
    if (!nic->gateway.family)
        return 0;
    return nic->gateway_prefix < (nic->gateway.family == AF_INET6 ? 48 : 24) ||
           nic->speed_mbps < l->fastest || (l->rdma && nic->rdma < 0);
}

/* passed: there is a route that does not count, and why. */
static void weigh(const struct look *l, const struct mn_nic *nic, struct evidence *e,
                  const char **passed)
{
    char via[MN_ADDR_TEXT];
    int routed = nic->default_route || has_gateway(l, nic), closed = point_to_point(nic);
    *passed = !routed                   ? NULL
              : closed                  ? "its subnet has room for one other only"
              : gateway_is_node(l, nic) ? "the gateway is a node of the mesh"
              : made_for_data(l, nic)   ? "it is as fast as any and no other host was seen there"
                                        : NULL;
    mn_addr_format(&nic->gateway, via, sizeof via);
    if (routed)
        note(e, "%s%s%s", nic->default_route ? "the default route" : "a gateway",
             nic->gateway.family ? nic->default_route ? " by " : ", " : "",
             nic->gateway.family ? via : "");
    if (routed && !*passed)
        *(nic->default_route ? &e->strong : &e->weak) = 1;
    if (nic->wireless)
        note(e, "wireless");
    if (far_slower(nic, l->fastest))
        note(e, "%g beside %g Gb/s", (double)nic->speed_mbps / 1000, (double)l->fastest / 1000);
    e->strong |= nic->wireless || far_slower(nic, l->fastest);
    if (nic->hosts > 1 && !closed)
        note(e, "%d other hosts in its subnet", nic->hosts);
    if (nic->leased && !closed)
        note(e, "a leased address");
    e->weak |= !closed && (nic->hosts > 1 || nic->leased);
}

static int has_route(const struct mn_mesh *mesh, int node, size_t nic)
{
    for (size_t i = 0; i < 2 * mesh->n_routes; i++) {
        const struct mn_mesh_end *end = &mesh->routes[i / 2].ends[i % 2];
        if (end->node == node && end->nic == (int)nic)
            return 1;
    }
    return 0;
}

/* What the owner has written into the file stays as it is. */
static void take_from_file(struct mn_host *host, const struct mn_mesh *mesh, const char *name)
{
    int node = mesh ? mn_mesh_node_index(mesh, name) : -1;
    for (size_t i = 0; node >= 0 && i < host->n_nics; i++)
        for (size_t k = 0; k < mesh->nodes[node].n_nics; k++) {
            const struct mn_mesh_nic *file = &mesh->nodes[node].nics[k];
            struct mn_nic *nic = &host->nics[i];
            if (nic->role || strcmp(file->netdev, nic->netdev) != 0)
                continue;
            nic->role = has_route(mesh, node, k) ? MN_ROLE_CABLE : file->role;
            if (file->role == MN_ROLE_MANAGEMENT)
                mn_strlcpy(nic->role_why, "so says the mesh file", sizeof nic->role_why);
        }
}

/* Nothing but networks: the best of them has to do. */
static void keep_something(struct mn_host *host, const struct evidence *e)
{
    int left = 0, weak = 0, wired = 0;
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (!mn_mesh_usable(nic))
            continue;
        left += nic->role != MN_ROLE_MANAGEMENT;
        weak += e[i].weak && !e[i].strong;
        wired += e[i].strong && !nic->wireless;
    }
    for (size_t i = 0; i < host->n_nics && !left; i++) {
        struct mn_nic *nic = &host->nics[i];
        if ((!e[i].weak && !e[i].strong) || (weak && e[i].strong) ||
            (!weak && wired && nic->wireless))
            continue;
        nic->role = MN_ROLE_AUTO;
        snprintf(nic->role_why, sizeof nic->role_why, "%s; but there is no other network",
                 e[i].text);
    }
}

enum mn_err mn_mesh_roles(struct mn_host *host, const struct mn_mesh *mesh, const char *node)
{
    struct look look = {.host = host, .mesh = mesh};
    struct evidence *e = calloc(host->n_nics + 1, sizeof *e);
    if (!e)
        return MN_ERR_NOMEM;
    take_from_file(host, mesh, node);
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (!mn_mesh_usable(nic))
            continue;
        look.fastest = nic->speed_mbps > look.fastest ? nic->speed_mbps : look.fastest;
        look.rdma |= nic->rdma >= 0;
    }
    for (size_t i = 0; i < host->n_nics; i++) {
        struct mn_nic *nic = &host->nics[i];
        const char *passed;
        if (nic->role || !mn_mesh_usable(nic))
            continue;
        weigh(&look, nic, &e[i], &passed);
        if (e[i].strong || e[i].weak) {
            nic->role = MN_ROLE_MANAGEMENT;
            mn_strlcpy(nic->role_why, e[i].text, sizeof nic->role_why);
        } else if (passed) {
            snprintf(nic->role_why, sizeof nic->role_why, "%s; but %s", e[i].text, passed);
        }
    }
    keep_something(host, e);
    free(e);
    return MN_OK;
}
