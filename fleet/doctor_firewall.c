/* What could stop packets at this node:
 *   "firewall": {"error": why it is not known, "drops": [{"netdev", "verdict": "drops" | "may",
 *     "where", "packet"}]}: of what comes in from the other end of a cable
 *   "forwarding": {"routes": [{"to", "via"}]: those to other cables of the mesh over a neighbour,
 *     "sysctls": [{"key", "seen", "wanted", "why"}]: those that are not as passing on needs them,
 *     "drops": [{"from", "to": netdevs, "verdict", "where"}]} */
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/doctor_ask.h"
#include "fleet/nft.h"
#include "topo/base/alloc.h"
#include "topo/nic_read.h"
#include "topo/transit.h"

#define MOST 128 /* of a list */

static const char *word(enum mn_nft_verdict verdict)
{
    return verdict == MN_NFT_DROPS ? "drops" : "may";
}

/* --- what comes in ---------------------------------------------------------------------------- */

/* The first address of the other end, in the family of ours. */
static const struct mn_addr *addr_of(const struct mn_mesh_nic *nic, int family)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (nic->addrs[i].family == family)
            return &nic->addrs[i];
    return NULL;
}

/* Which end of the link is this node's; -1: none. */
static int own_end(const struct mn_doctor_look *look, const struct mn_mesh_link *link)
{
    return mn_link_is_bare(link)              ? -1
           : link->ends[0].node == look->self ? 0
           : link->ends[1].node == look->self ? 1
                                              : -1;
}

static void judge_cable(const struct mn_doctor_look *look, const cJSON *rules,
                        const struct mn_mesh_link *link, int end, cJSON *drops)
{
    const struct mn_nic *nic = mn_doctor_nic(look, (size_t)link->ends[end].nic);
    const struct mn_mesh *mesh = look->mesh;
    const struct mn_mesh_end *far = &link->ends[!end];
    const struct mn_addr *to =
        addr_of(&mesh->nodes[look->self].nics[link->ends[end].nic], link->subnet.family);
    const struct mn_addr *from =
        addr_of(&mesh->nodes[far->node].nics[far->nic], link->subnet.family);
    int port = mesh->settings.port_range.first ? mesh->settings.port_range.first : 40000;
    char where[160], text[64];

    if (!nic || !to || !from)
        return;
    /* RDMA in hardware passes the firewall by; soft-RoCE does not. */
    int soft = nic->rdma >= 0 && !look->host->rdma[nic->rdma].pci.address[0];
    for (int i = 0; i < 1 + soft; i++) {
        struct mn_nft_packet packet = {.in = nic->netdev,
                                       .from = *from,
                                       .to = *to,
                                       .protocol = i ? "udp" : "tcp",
                                       .port = i ? 4791 : port};
        enum mn_nft_verdict verdict = mn_nft_judge(rules, &packet, where, sizeof where);
        if (verdict == MN_NFT_PASSES)
            continue;
        cJSON *json = cJSON_CreateObject();
        snprintf(text, sizeof text, "%s to port %d", i ? "RoCE, UDP" : "TCP", packet.port);
        cJSON_AddStringToObject(json, "netdev", nic->netdev);
        cJSON_AddStringToObject(json, "verdict", word(verdict));
        cJSON_AddStringToObject(json, "where", where);
        cJSON_AddStringToObject(json, "packet", text);
        cJSON_AddItemToArray(drops, json);
    }
}

void mn_doctor_ask_firewall(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *firewall = cJSON_AddObjectToObject(answer, "firewall"), *rules;
    struct mn_diag diag;

    if (mn_nft_read(&rules, &diag)) {
        cJSON_AddStringToObject(firewall, "error", diag.text);
        return;
    }
    cJSON *drops = cJSON_AddArrayToObject(firewall, "drops");
    for (size_t i = 0; look->self >= 0 && i < look->mesh->n_links; i++) {
        int end = own_end(look, &look->mesh->links[i]);
        if (end >= 0)
            judge_cable(look, rules, &look->mesh->links[i], end, drops);
    }
    cJSON_Delete(rules);
}

/* --- what passes through ---------------------------------------------------------------------- */

static int is_in_mesh(const struct mn_mesh *mesh, const struct mn_addr *addr)
{
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++)
            for (size_t k = 0; k < mesh->nodes[n].nics[i].n_addrs; k++)
                if (mesh->nodes[n].nics[i].role != MN_ROLE_MANAGEMENT &&
                    mn_addr_equal(&mesh->nodes[n].nics[i].addrs[k], addr))
                    return 1;
    return 0;
}

static int to_addr(const struct nl_addr *from, struct mn_addr *addr)
{
    int family = from ? nl_addr_get_family(from) : AF_UNSPEC;
    unsigned len = from ? nl_addr_get_len(from) : 0;

    memset(addr, 0, sizeof *addr);
    if (!len || (family != AF_INET && family != AF_INET6) || len != (family == AF_INET ? 4u : 16u))
        return 0;
    addr->family = family;
    addr->prefix = (int)nl_addr_get_prefixlen(from);
    memcpy(addr->bytes, nl_addr_get_binary_addr(from), len);
    return 1;
}

static void add_route(const struct mn_doctor_look *look, struct rtnl_route *route, cJSON *list)
{
    struct mn_addr to, via;
    char text[MN_ADDR_TEXT];

    if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_nnexthops(route) < 1 ||
        cJSON_GetArraySize(list) >= MOST || !to_addr(rtnl_route_get_dst(route), &to))
        return;
    struct rtnl_nexthop *hop = rtnl_route_nexthop_n(route, 0);
    if (!to_addr(rtnl_route_nh_get_gateway(hop), &via) || !is_in_mesh(look->mesh, &via))
        return;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "to", mn_addr_format(&to, text, sizeof text));
    via.prefix = -1;
    cJSON_AddStringToObject(json, "via", mn_addr_format(&via, text, sizeof text));
    cJSON_AddItemToArray(list, json);
}

static void add_routes(const struct mn_doctor_look *look, cJSON *list)
{
    struct nl_sock *sock = nl_socket_alloc();
    struct nl_cache *routes = NULL;

    if (sock && !nl_connect(sock, NETLINK_ROUTE) && mn_nl_routes(sock, &routes) >= 0) {
        for (struct nl_object *at = nl_cache_get_first(routes); at; at = nl_cache_get_next(at))
            add_route(look, (struct rtnl_route *)at, list);
        nl_cache_free(routes);
    }
    if (sock)
        nl_socket_free(sock);
}

static void add_sysctls(const struct mn_transit *transit, cJSON *list)
{
    for (size_t i = 0; i < transit->n_sysctls; i++) {
        const struct mn_transit_sysctl *s = &transit->sysctls[i];
        char text[32];
        if (!mn_doctor_line(text, sizeof text, "/proc/sys/%s", s->key))
            continue;
        long long seen = strtoll(text, NULL, 10), all;
        /* The larger one counts. */
        if (strstr(s->key, "/rp_filter") &&
            mn_doctor_line(text, sizeof text, "/proc/sys/net/ipv4/conf/all/rp_filter") &&
            (all = strtoll(text, NULL, 10)) > seen)
            seen = all;
        if (seen == s->value)
            continue;
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "key", s->key);
        cJSON_AddNumberToObject(json, "seen", (double)seen);
        cJSON_AddNumberToObject(json, "wanted", s->value);
        cJSON_AddStringToObject(json, "why", s->why);
        cJSON_AddItemToArray(list, json);
    }
}

/* From a neighbour at one cable to one at another. */
static void judge_pair(const struct mn_doctor_look *look, const cJSON *rules,
                       const struct mn_mesh_link *a, const struct mn_mesh_link *b, cJSON *drops)
{
    const struct mn_mesh_link *links[2] = {a, b};
    const struct mn_nic *nics[2];
    const struct mn_addr *far[2];
    char where[160];

    for (int i = 0; i < 2; i++) {
        int end = own_end(look, links[i]);
        if (end < 0)
            return;
        const struct mn_mesh_end *other = &links[i]->ends[!end];
        nics[i] = mn_doctor_nic(look, (size_t)links[i]->ends[end].nic);
        far[i] = addr_of(&look->mesh->nodes[other->node].nics[other->nic], a->subnet.family);
        if (!nics[i] || !far[i])
            return;
    }
    struct mn_nft_packet packet = {.in = nics[0]->netdev,
                                   .out = nics[1]->netdev,
                                   .from = *far[0],
                                   .to = *far[1],
                                   .protocol = "tcp",
                                   .port = 40000};
    enum mn_nft_verdict verdict = mn_nft_judge(rules, &packet, where, sizeof where);
    if (verdict == MN_NFT_PASSES || nics[0] == nics[1] || cJSON_GetArraySize(drops) >= MOST)
        return;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "from", packet.in);
    cJSON_AddStringToObject(json, "to", packet.out);
    cJSON_AddStringToObject(json, "verdict", word(verdict));
    cJSON_AddStringToObject(json, "where", where);
    cJSON_AddItemToArray(drops, json);
}

void mn_doctor_ask_forwarding(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *forwarding = cJSON_AddObjectToObject(answer, "forwarding"), *rules = NULL;
    const struct mn_mesh *mesh = look->mesh;
    struct mn_transit transit;

    if (look->self < 0)
        return;
    mn_transit_find(mesh, look->self, &transit);
    add_routes(look, cJSON_AddArrayToObject(forwarding, "routes"));
    add_sysctls(&transit, cJSON_AddArrayToObject(forwarding, "sysctls"));
    cJSON *drops = cJSON_AddArrayToObject(forwarding, "drops");
    if (transit.forwards && !mn_nft_read(&rules, NULL))
        for (size_t i = 0; i < mesh->n_links; i++)
            for (size_t k = 0; k < mesh->n_links; k++)
                if (i != k)
                    judge_pair(look, rules, &mesh->links[i], &mesh->links[k], drops);
    cJSON_Delete(rules);
    mn_transit_free(&transit);
}
