/* A measurement in one line. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/slow_pairs.h"
#include "topo/base/alloc.h"
#include "topo/fabric.h"

#define CARRIED 0.05 /* and more of the bytes: a NIC took part */
#define NAMES   3    /* of cables; more are counted */

/* What the NICs of an end that took part could carry, in Gb/s; 0 = not known. */
static double could_carry(const struct mn_p2p_report *r, int end, const struct mn_mesh_node *node)
{
    const struct mn_environment *env = &r->environments[end];
    double shares[MN_P2P_NICS], sum = 0;
    int rdma = mn_p2p_carrier(r, &r->ends[end], shares) == MN_P2P_RDMA;

    for (int i = 0; i < r->ends[end].n_nics; i++) {
        const char *netdev = r->ends[end].nics[i].netdev;
        double gbps = 0, pcie = 0;
        int mtu = 0;
        if (shares[i] < CARRIED)
            continue;
        for (int k = 0; k < env->n_nics; k++)
            if (!strcmp(env->nics[k].netdev, netdev)) {
                gbps = (double)env->nics[k].speed_mbps / 1000;
                pcie = env->nics[k].pcie_gbps;
                mtu = (int)env->nics[k].mtu;
            }
        for (size_t k = 0; node && k < node->n_nics; k++)
            if (!strcmp(node->nics[k].netdev, netdev) && node->nics[k].speed_mbps)
                gbps = (double)node->nics[k].speed_mbps / 1000;
        if (gbps <= 0)
            return 0;
        sum += (pcie > 0 && pcie < gbps ? pcie : gbps) * mn_fabric_payload(mtu, rdma);
    }
    return sum;
}

static const struct mn_mesh_link *cable_at(const struct mn_mesh *mesh, int self, int peer,
                                           const char *netdev)
{
    for (size_t l = 0; mesh && self >= 0 && l < mesh->n_links; l++)
        for (int side = 0; side < 2; side++) {
            const struct mn_mesh_end *own = &mesh->links[l].ends[side];
            if (own->node == self && (peer < 0 || mesh->links[l].ends[!side].node == peer) &&
                !strcmp(mesh->nodes[self].nics[own->nic].netdev, netdev))
                return &mesh->links[l];
        }
    return NULL;
}

/* " over cable a-b", " over ab and ac", " over 8 NICs", or nothing. */
static void name_ways(const struct mn_p2p_report *r, const struct mn_mesh *mesh, int self, int peer,
                      char *buf, size_t size)
{
    const char *names[NAMES];
    double shares[MN_P2P_NICS];
    int n = 0, cables = 0;

    buf[0] = 0;
    if (mn_p2p_carrier(r, &r->ends[0], shares) == MN_P2P_UNSEEN)
        return;
    for (int i = 0; i < r->ends[0].n_nics; i++) {
        const char *netdev = r->ends[0].nics[i].netdev;
        const struct mn_mesh_link *link = cable_at(mesh, self, peer, netdev);
        if (shares[i] < CARRIED)
            continue;
        if (n < NAMES)
            names[n] = link ? link->name : netdev;
        cables += link != NULL;
        n++;
    }
    if (n > NAMES)
        snprintf(buf, size, " over %d %s", n, cables == n ? "cables" : "NICs");
    for (int i = 0; i < n && n <= NAMES; i++) {
        size_t used = strlen(buf);
        snprintf(buf + used, size - used, "%s%s%s", i ? "" : " over ",
                 i                                ? i + 1 == n ? " and " : ", "
                 : cables && cables == n && n > 1 ? "cables "
                 : cables == n                    ? "cable "
                                                  : "",
                 names[i]);
    }
}

static int node_named(const struct mn_mesh *mesh, const char *name)
{
    for (size_t i = 0; mesh && i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, name))
            return (int)i;
    return -1;
}

/* The best of a direction, in Gb/s; below 0: not measured. */
static double best(const struct mn_p2p_report *r, enum mn_p2p_direction direction)
{
    double most = -1;

    for (size_t i = 0; i < r->n_bandwidth; i++)
        if (r->bandwidth[i].direction == direction && mn_p2p_gbytes(&r->bandwidth[i]) * 8 > most)
            most = mn_p2p_gbytes(&r->bandwidth[i]) * 8;
    return most;
}

/* " (there is no cable between them: TCP over b, at most 9.4 Gb/s; …)", or "". */
static const char *without_cable(const struct mn_mesh *mesh, int self, int peer, char *buf,
                                 size_t size)
{
    char way[256];

    if (!mesh || self < 0 || peer < 0 || self == peer || mn_mesh_has_cable(mesh, self, peer))
        return "";
    snprintf(buf, size, " (there is no cable between them: %s; one would be faster)",
             mn_slow_pair_way(mesh, self, peer, way, sizeof way));
    return buf;
}

char *mn_bench_quote(const struct mn_p2p_report *r, const struct mn_mesh *mesh, int self, char *buf,
                     size_t size)
{
    static const char *const carriers[] = {[MN_P2P_TCP] = "TCP", [MN_P2P_RDMA] = "RDMA"};
    static const char *const between[] = {" to ", " from ", " and, both ways at once, "};
    int peer = node_named(mesh, r->ends[1].node), way = MN_P2P_OUT;
    double shares[MN_P2P_NICS], gbps;
    enum mn_p2p_carrier carrier = mn_p2p_carrier(r, &r->ends[0], shares);
    char over[256], why[320];
    size_t used;

    while ((gbps = best(r, (enum mn_p2p_direction)way)) < 0 && way < MN_P2P_BOTH)
        way++;
    buf[0] = 0;
    if (gbps < 0 && !r->n_latency)
        return buf;
    used = (size_t)snprintf(buf, size, "%s%s%s:", r->ends[0].node, between[gbps < 0 ? 0 : way],
                            r->ends[1].node);
    name_ways(r, mesh, self, peer, over, sizeof over);
    if (gbps >= 0 && used < size)
        used += (size_t)snprintf(buf + used, size - used, " %.3g Gb/s%s%s", gbps, over,
                                 without_cable(mesh, self, peer, why, sizeof why));
    double here = could_carry(r, 0, mesh && self >= 0 ? &mesh->nodes[self] : NULL);
    double there = could_carry(r, 1, peer >= 0 ? &mesh->nodes[peer] : NULL);
    double could =
        (way == MN_P2P_BOTH ? 2 : 1) * (here > 0 && (there <= 0 || here < there) ? here : there);
    if (gbps >= 0 && could > 0 && (carrier == MN_P2P_TCP || carrier == MN_P2P_RDMA) && used < size)
        used += (size_t)snprintf(buf + used, size - used, ", %.0f %% of what %s can",
                                 100 * gbps / could, carriers[carrier]);
    if (r->n_latency && used < size)
        snprintf(buf + used, size - used, "%s %.*f µs", gbps >= 0 ? "," : "",
                 r->latency[0].p50 < 10, r->latency[0].p50);
    return buf;
}
