/* What there is on this host that packets between its cables may not pass: settings and routes that
 * are not as they have been made, a firewall. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_far.h"
#include "fleet/apply_kernel.h"
#include "fleet/apply_place.h"
#include "fleet/nft.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/transit.h"

#define OBSTACLES 256

struct look {
    const struct mn_mesh *mesh;
    int node;
    const struct mn_host *host;
    const struct mn_kernel *kernel;
    struct mn_far_obstacle *list;
    size_t n;
};

__attribute__((format(printf, 6, 7))) static void add(struct look *l, int from, int to, int own,
                                                      int sure, const char *fmt, ...)
{
    va_list args;

    if (l->n == OBSTACLES)
        return;
    struct mn_far_obstacle *o = mn_grow((void **)&l->list, &l->n, sizeof *o);
    *o = (struct mn_far_obstacle){.from = from, .to = to, .own = own, .sure = sure};
    va_start(args, fmt);
    vsnprintf(o->why, sizeof o->why, fmt, args);
    va_end(args);
}

/* At the other end of the NIC's cable. */
static const struct mn_mesh_end *far_end(const struct look *l, int nic)
{
    for (size_t i = 0; i < l->mesh->n_links; i++)
        for (int side = 0; side < 2; side++) {
            const struct mn_mesh_end *own = &l->mesh->links[i].ends[side];
            if (own->node == l->node && own->nic == nic && !mn_link_is_bare(&l->mesh->links[i]))
                return &l->mesh->links[i].ends[!side];
        }
    return NULL;
}

/* A setting of one NIC is about what comes in there. */
static int node_of_key(const struct look *l, const struct mn_transit *t, const char *key)
{
    char part[IF_NAMESIZE + 8];

    for (size_t i = 0; i < t->n_nics; i++) {
        const struct mn_mesh_end *far = far_end(l, t->nics[i]);
        snprintf(part, sizeof part, "/conf/%s/", l->mesh->nodes[l->node].nics[t->nics[i]].netdev);
        if (far && strstr(key, part))
            return far->node;
    }
    return MN_FAR_ANY;
}

static void look_at_sysctls(struct look *l, const struct mn_transit *t)
{
    char now[64], all[64];

    for (size_t i = 0; i < t->n_sysctls; i++) {
        const struct mn_transit_sysctl *s = &t->sysctls[i];
        int filter = strstr(s->key, "/rp_filter") != NULL;
        if ((!filter && !strstr(s->key, "/forwarding")) || !mn_sysctl_read(s->key, now, sizeof now))
            continue;
        long seen = strtol(now, NULL, 10);
        /* Of the two the larger one counts, and 1 is the strict one. */
        if (filter && mn_sysctl_read("net/ipv4/conf/all/rp_filter", all, sizeof all) &&
            strtol(all, NULL, 10) > seen)
            seen = strtol(all, NULL, 10);
        if (filter ? seen == 1 : seen != s->value)
            add(l, node_of_key(l, t, s->key), MN_FAR_ANY, 0, !filter,
                "%s is %ld, and was set to %d: %s", s->key, seen, s->value, s->why);
    }
}

static void look_at_routes(struct look *l, const struct mn_transit *t)
{
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT], text[2 * MN_ADDR_TEXT + 8];

    for (size_t i = 0; i < t->n_routes; i++) {
        const struct mn_transit_route *r = &t->routes[i];
        const struct mn_nic *nic =
            mn_host_nic(l->host, l->mesh->nodes[l->node].nics[r->nic].netdev);
        snprintf(text, sizeof text, "%s via %s", mn_addr_format(&r->to, to, sizeof to),
                 mn_addr_format(&r->via, via, sizeof via));
        if (nic && !mn_kernel_has_route(l->kernel, nic->ifindex, text))
            add(l, MN_FAR_ANY, MN_FAR_ANY, 0, 1, "the route %s over %s has gone", text,
                nic->netdev);
    }
}

static const struct mn_addr *addr_of(const struct mn_mesh_nic *nic, int family)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (nic->addrs[i].family == family && !mn_addr_is_link_local(&nic->addrs[i]))
            return &nic->addrs[i];
    return NULL;
}

/* From the cable at in to that at out, or to this node, where out is -1. */
static void judge(struct look *l, const cJSON *rules, int in, int out, int family)
{
    const struct mn_mesh_nic *nics = l->mesh->nodes[l->node].nics;
    const struct mn_mesh_end *a = far_end(l, in), *b = out < 0 ? NULL : far_end(l, out);
    const struct mn_addr *from = a ? addr_of(mn_mesh_end_nic(l->mesh, a), family) : NULL;
    const struct mn_addr *to = out < 0 ? addr_of(&nics[in], family)
                               : b     ? addr_of(mn_mesh_end_nic(l->mesh, b), family)
                                       : NULL;
    char where[160];

    if (!from || !to)
        return;
    /* As it is asked: apply_far_ask.c. */
    struct mn_nft_packet packet = {.in = nics[in].netdev,
                                   .out = out < 0 ? NULL : nics[out].netdev,
                                   .from = *from,
                                   .to = *to,
                                   .protocol = "udp",
                                   .port = 9};
    enum mn_nft_verdict verdict = mn_nft_judge(rules, &packet, where, sizeof where);
    if (verdict == MN_NFT_PASSES)
        return;
    if (out < 0)
        add(l, a->node, MN_FAR_ANY, 1, verdict == MN_NFT_DROPS, "%s drops what comes in over %s",
            where, nics[in].netdev);
    else
        add(l, a->node, b->node, 0, verdict == MN_NFT_DROPS, "%s drops what goes from %s to %s",
            where, nics[in].netdev, nics[out].netdev);
}

static void look_at_firewall(struct look *l, const struct mn_transit *t)
{
    struct mn_diag diag = {.text = ""};
    cJSON *rules;

    if (mn_nft_read(&rules, &diag)) {
        add(l, MN_FAR_ANY, MN_FAR_ANY, 1, 0, "its firewall could not be read (%.200s)", diag.text);
        return;
    }
    for (int six = 0; six < 2; six++) {
        int family = six ? AF_INET6 : AF_INET;
        if (!(six ? t->ipv6 : t->ipv4))
            continue;
        for (size_t i = 0; i < t->n_nics; i++) {
            judge(l, rules, t->nics[i], -1, family);
            for (size_t k = 0; k < t->n_nics && t->forwards; k++)
                if (i != k)
                    judge(l, rules, t->nics[i], t->nics[k], family);
        }
    }
    cJSON_Delete(rules);
}

size_t mn_far_obstacles(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                        const struct mn_kernel *kernel, struct mn_far_obstacle **list)
{
    struct look l = {.mesh = mesh, .node = node, .host = host, .kernel = kernel};
    struct mn_transit transit;

    mn_transit_find(mesh, node, &transit);
    look_at_sysctls(&l, &transit);
    look_at_routes(&l, &transit);
    look_at_firewall(&l, &transit);
    mn_transit_free(&transit);
    *list = l.list;
    return l.n;
}
