/* What the mesh file wants of a node against what is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fleet/apply_kernel.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

/* A NIC that the mesh file configures, and the host's. */
struct pair {
    struct mn_mesh_nic *want;
    const struct mn_nic *have;
    int taken;
    const struct mn_kernel *kernel;
    char **addrs; /* there now */
    size_t n_addrs;
};

struct work {
    const struct mn_apply_want *want;
    struct mn_mesh_node *node;
    const struct mn_kernel *kernel;
    struct mn_apply_plan *plan;
    struct pair *pairs;
    size_t n_pairs;
};

/* "NIC", or "NODE/NIC". */
static int listed(const struct work *w, const char *netdev, const char *name)
{
    size_t len = strlen(w->node->name);

    for (size_t i = 0; i < w->want->n_take; i++) {
        const char *take = w->want->take[i];
        if (!strncmp(take, w->node->name, len) && take[len] == '/')
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
        int taken = listed(w, want->netdev, want->name);
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
        struct pair *p = mn_grow((void **)&w->pairs, &w->n_pairs, sizeof *w->pairs);
        *p = (struct pair){.want = want, .have = have, .kernel = w->kernel};
        p->taken = taken || listed(w, have->netdev, have->netdev);
        p->n_addrs = mn_kernel_addresses(w->kernel, have->ifindex, &p->addrs);
    }
    return MN_OK;
}

/* --- what differs ----------------------------------------------------------------------------- */

static int parse_text(const char *text, struct mn_addr *addr)
{
    char plain[MN_ADDR_TEXT];

    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, " "), text);
    return !mn_addr_parse(plain, addr, NULL);
}

static int wanted(const struct mn_mesh_nic *nic, const char *text)
{
    struct mn_addr addr;

    for (size_t i = 0; parse_text(text, &addr) && i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], &addr) && nic->addrs[i].prefix == addr.prefix)
            return 1;
    return 0;
}

/* Of IPv6, an address that stands with another prefix length: that one's text. */
static const char *same_other_prefix(const struct pair *p, const struct mn_addr *want)
{
    struct mn_addr addr;

    for (size_t i = 0; i < p->n_addrs; i++)
        if (want->family == AF_INET6 && parse_text(p->addrs[i], &addr) &&
            mn_addr_equal(&addr, want) && addr.prefix != want->prefix)
            return p->addrs[i];
    return NULL;
}

static int is_replaced(const struct pair *p, const char *text)
{
    struct mn_addr addr;

    for (size_t i = 0; parse_text(text, &addr) && i < p->want->n_addrs; i++)
        if (addr.family == AF_INET6 && mn_addr_equal(&p->want->addrs[i], &addr))
            return 1;
    return 0;
}

static void add_mtu(struct mn_changes *list, const struct pair *p)
{
    char from[16], to[16];

    snprintf(from, sizeof from, "%d", p->have->mtu);
    snprintf(to, sizeof to, "%d", p->want->mtu);
    if (p->want->mtu && p->want->mtu != p->have->mtu)
        mn_change_add(list, MN_CHANGE_MTU, p->have, NULL, from, to);
}

static void add_link(struct mn_changes *list, const struct pair *p)
{
    if (!p->have->admin_up)
        mn_change_add(list, MN_CHANGE_LINK, p->have, NULL, "down", "up");
}

static void add_addresses(struct mn_changes *list, const struct pair *p)
{
    char text[MN_ADDR_TEXT];

    for (size_t i = 0; i < p->want->n_addrs; i++) {
        const struct mn_addr *addr = &p->want->addrs[i];
        int there = 0;
        if (mn_addr_is_link_local(addr))
            continue;
        mn_addr_format(addr, text, sizeof text);
        for (size_t k = 0; k < p->n_addrs; k++)
            there |= strcspn(p->addrs[k], " ") == strlen(text) &&
                     !strncmp(p->addrs[k], text, strlen(text));
        if (!there)
            mn_change_add(list, MN_CHANGE_ADDRESS, p->have, NULL, same_other_prefix(p, addr), text);
    }
}

static int goes(const struct pair *p, const char *text)
{
    return !wanted(p->want, text) && !is_replaced(p, text);
}

static int reaches(const struct mn_addr *own, struct mn_addr gateway)
{
    gateway.prefix = own->prefix;
    return mn_addr_share_subnet(own, &gateway);
}

/* Its source is an address that goes; of whatever NIC. */
static int loses_source(const struct pair *p, const char *route)
{
    const char *src = strstr(route, " src ");
    struct mn_addr source, addr;

    for (size_t i = 0; src && parse_text(src + 5, &source) && i < p->n_addrs; i++)
        if (goes(p, p->addrs[i]) && parse_text(p->addrs[i], &addr) && mn_addr_equal(&addr, &source))
            return 1;
    return 0;
}

/* A NIC without any IPv4 address has no IPv4 routes. */
static int loses_all(const struct pair *p, const char *route)
{
    struct mn_addr addr;
    int gone = 0;

    if (!parse_text(route, &addr) || addr.family != AF_INET)
        return 0;
    for (size_t i = 0; i < p->n_addrs; i++)
        gone |= parse_text(p->addrs[i], &addr) && addr.family == AF_INET;
    for (size_t i = 0; i < p->want->n_addrs; i++)
        gone &= p->want->addrs[i].family != AF_INET;
    return gone;
}

/* The gateway lies in the subnet of an address that goes and of none that stays, or it goes with
 * the addresses otherwise: the kernel drops the route without a word, so that it is named here. A
 * peer's address is a subnet of its own. */
static int loses(const struct pair *p, const char *route)
{
    const char *via = strstr(route, " via "), *peer;
    struct mn_addr gateway, addr;
    int lost = 0, kept = 0;

    if (loses_source(p, route) || loses_all(p, route))
        return 1;
    via = via && parse_text(via + 5, &gateway) ? via : NULL;
    for (size_t i = 0; i < p->n_addrs; i++) {
        if (!goes(p, p->addrs[i]) || !parse_text(p->addrs[i], &addr))
            continue;
        peer = strstr(p->addrs[i], " peer ");
        if (peer && !parse_text(peer + 6, &addr))
            continue;
        lost |= via && reaches(&addr, gateway);
    }
    for (size_t i = 0; i < p->want->n_addrs; i++)
        kept |= via && reaches(&p->want->addrs[i], gateway);
    return lost && !kept;
}

struct losses {
    struct mn_changes *list;
    const struct pair *p;
};

static void drop_route(const char *nic, int ifindex, const char *text, void *context)
{
    const struct losses *l = context;
    int own = ifindex == l->p->have->ifindex;

    if (own ? !loses(l->p, text) : !loses_source(l->p, text))
        return;
    struct mn_change *c =
        mn_change_add(l->list, MN_CHANGE_ROUTE, own ? l->p->have : NULL, NULL, text, NULL);
    mn_strlcpy(c->nic, nic, sizeof c->nic);
}

static void drop_routes(struct mn_changes *list, const struct pair *p)
{
    mn_kernel_each_route(p->kernel, drop_route, &(struct losses){list, p});
}

static void drop_addresses(struct mn_changes *list, const struct pair *p)
{
    for (size_t i = 0; i < p->n_addrs; i++)
        if (goes(p, p->addrs[i]))
            mn_change_add(list, MN_CHANGE_ADDRESS, p->have, NULL, p->addrs[i], NULL);
}

/* New addresses come before old ones go: a NIC without any loses all its routes. */
static void (*const steps[])(struct mn_changes *,
                             const struct pair *) = {add_mtu, add_link, add_addresses, drop_routes,
                                                     drop_addresses};
#define STEPS (sizeof steps / sizeof *steps)

/* --- what is left alone ----------------------------------------------------------------------- */

static const char *guarded(const struct pair *p)
{
    return p->taken                              ? NULL
           : p->have->default_route              ? "it has the default route"
           : p->have->role == MN_ROLE_MANAGEMENT ? p->have->role_why
           : p->have->master[0]                  ? "it is part of another interface"
                                                 : NULL;
}

/* The default route among them, which may be another NIC's. */
static const char *loses_default(const struct pair *p, const struct mn_changes *list)
{
    for (size_t i = 0; !p->taken && i < list->count; i++) {
        const struct mn_change *c = &list->items[i];
        if (c->kind == MN_CHANGE_ROUTE && c->from && !strstr(c->from, " table ") &&
            (!strncmp(c->from, "0.0.0.0/0 ", 10) || !strncmp(c->from, "::/0 ", 5)))
            return "the default route goes with its address";
    }
    return NULL;
}

static enum mn_err guard(struct work *w, const struct pair *p, struct mn_diag *diag)
{
    struct mn_changes list = {.items = NULL};
    const char *why = guarded(p);

    for (size_t s = 0; s < STEPS; s++)
        steps[s](&list, p);
    why = why ? why : loses_default(p, &list);
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

    for (size_t i = 0; i < w->n_pairs && !err; i++)
        err = guard(w, &w->pairs[i], diag);
    for (size_t s = 0; s < STEPS && !err; s++)
        for (size_t i = 0; i < w->n_pairs; i++)
            if (w->pairs[i].want->role != MN_ROLE_MANAGEMENT)
                steps[s](&w->plan->kernel, &w->pairs[i]);
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
