/* What nodes without a cable to each other need of this one: routes, sysctls, rules. */
#include <dirent.h>
#include <netlink/route/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/apply_kernel.h"
#include "fleet/apply_place.h"
#include "fleet/nft.h"
#include "topo/base/alloc.h"
#include "topo/emit/emit.h"
#include "topo/transit.h"

#define WHAT        "transit between cables"
#define ALL_FORWARD "net/ipv6/conf/all/forwarding"

/* Of one plan. */
struct task {
    const struct mn_transit *t;
    const struct mn_mesh_node *node;
    const struct mn_host *host;
    const struct mn_kernel *kernel;
    const char *root;
    struct mn_apply_plan *plan;
    struct mn_changes old, record; /* what apply has set, and will have */
};

static void drop_route(struct task *k, const char *nic, const char *text)
{
    struct mn_changes *list = &k->plan->kernel;

    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind == MN_CHANGE_ROUTE && list->items[i].from &&
            !strcmp(list->items[i].nic, nic) && !strcmp(list->items[i].from, text))
            return;
    mn_strlcpy(mn_change_add(list, MN_CHANGE_ROUTE, NULL, NULL, text, NULL)->nic, nic, IF_NAMESIZE);
}

/* Those that apply has set and that lead nowhere any more, or another way by now. */
static void drop_old_routes(struct task *k)
{
    for (size_t i = 0; i < k->old.count; i++) {
        const struct mn_change *c = &k->old.items[i];
        struct rtnl_link *link =
            c->kind == MN_CHANGE_ROUTE && c->to ? mn_kernel_link(k->kernel, c, NULL) : NULL;
        int wanted = 0;
        for (size_t r = 0; link && r < k->record.count; r++)
            wanted |= k->record.items[r].kind == MN_CHANGE_ROUTE &&
                      !strcmp(k->record.items[r].nic, rtnl_link_get_name(link)) &&
                      !strcmp(k->record.items[r].to, c->to);
        char *have = link && !wanted
                         ? mn_kernel_find_route(k->kernel, rtnl_link_get_ifindex(link), c->to)
                         : NULL;
        if (have)
            drop_route(k, rtnl_link_get_name(link), have);
        free(have);
    }
}

static void plan_routes(struct task *k)
{
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT], text[2 * MN_ADDR_TEXT + 8], other[IF_NAMESIZE], *old;

    for (size_t i = 0; i < k->t->n_routes; i++) {
        const struct mn_transit_route *route = &k->t->routes[i];
        const struct mn_nic *nic = mn_host_nic(k->host, k->node->nics[route->nic].netdev);
        snprintf(text, sizeof text, "%s via %s", mn_addr_format(&route->to, to, sizeof to),
                 mn_addr_format(&route->via, via, sizeof via));
        if (!nic)
            continue;
        mn_change_add(&k->record, MN_CHANGE_ROUTE, nic, NULL, NULL, text);
        if (mn_kernel_has_route(k->kernel, nic->ifindex, text))
            continue;
        for (size_t at = 0; (old = mn_kernel_rival(k->kernel, to, &at, other)); free(old))
            drop_route(k, other, old);
        mn_change_add(&k->plan->kernel, MN_CHANGE_ROUTE, nic, NULL, NULL, text);
    }
    drop_old_routes(k);
}

static int is_cable(const struct mn_transit *t, const struct mn_mesh_node *node, const char *nic)
{
    for (size_t i = 0; i < t->n_nics; i++)
        if (!strcmp(node->nics[t->nics[i]].netdev, nic))
            return 1;
    return 0;
}

/* Of a bridge or bond: it hears no routers itself. */
static int is_part(const char *nic)
{
    char path[64];

    snprintf(path, sizeof path, "/sys/class/net/%.15s/master", nic);
    return !access(path, F_OK);
}

/* An interface that forwards believes no router unless told to, and the switch of all interfaces
 * writes each one's own: before it comes what keeps the default routes that routers have told of,
 * and what undoing it has to put back after it. */
static void plan_before_all(const struct mn_transit *t, const struct mn_mesh_node *node,
                            struct mn_changes *list)
{
    static const char *const conf = "/proc/sys/net/ipv6/conf";
    struct dirent **nics;
    char key[320], now[64];
    int n = scandir(conf, &nics, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        const char *nic = nics[i]->d_name;
        int every = !strcmp(nic, "all") || *nic == '.';
        snprintf(key, sizeof key, "net/ipv6/conf/%s/forwarding", nic);
        if (!every && mn_sysctl_read(key, now, sizeof now) && strcmp(now, "0") != 0)
            mn_change_add(list, MN_CHANGE_SYSCTL, NULL, key, now, "1");
        snprintf(key, sizeof key, "net/ipv6/conf/%s/accept_ra", nic);
        if (!every && strcmp(nic, "lo") != 0 && !is_cable(t, node, nic) && !is_part(nic) &&
            mn_sysctl_read(key, now, sizeof now) && !strcmp(now, "1"))
            mn_change_add(list, MN_CHANGE_SYSCTL, NULL, key, now, "2");
        free(nics[i]);
    }
    if (n >= 0)
        free(nics);
}

/* Into the record, with what was there first. */
static void record_sysctl(struct task *k, const char *key, const char *from, const char *to)
{
    const struct mn_change *first = mn_record_find(&k->old, MN_CHANGE_SYSCTL, key);

    if ((first || from) && !mn_record_find(&k->record, MN_CHANGE_SYSCTL, key))
        mn_change_add(&k->record, MN_CHANGE_SYSCTL, NULL, key, first ? first->from : from, to);
}

static int is_ipv6(const struct mn_change *c)
{
    return c->kind == MN_CHANGE_SYSCTL && !strncmp(c->what, "net/ipv6/", 9);
}

/* What went along with the switch of all interfaces, when it was set and now. */
static void record_before_all(struct task *k, size_t from)
{
    const struct mn_changes *lists[] = {&k->old, &k->plan->kernel};

    for (size_t l = 0; l < 2; l++)
        for (size_t i = l ? from : 0; i < lists[l]->count; i++) {
            const struct mn_change *c = &lists[l]->items[i];
            if (is_ipv6(c) && strcmp(c->what, ALL_FORWARD) != 0)
                record_sysctl(k, c->what, c->from, c->to);
        }
}

/* Those that apply has set come to be what they were; backwards, for the switch of all interfaces
 * writes each one's own. */
static void take_back_sysctls(struct task *k)
{
    char now[64];
    int all = 0;

    for (size_t i = k->old.count; i-- > 0;) {
        const struct mn_change *c = &k->old.items[i];
        if (c->kind != MN_CHANGE_SYSCTL || mn_record_find(&k->record, c->kind, c->what) ||
            !mn_sysctl_read(c->what, now, sizeof now) || strcmp(now, c->to) != 0 ||
            (!strcmp(c->from, c->to) && !all))
            continue;
        all |= !strcmp(c->what, ALL_FORWARD);
        mn_change_add(&k->plan->kernel, MN_CHANGE_SYSCTL, NULL, c->what, now, c->from);
    }
}

static void plan_sysctls(struct task *k)
{
    struct mn_changes *list = &k->plan->kernel;
    char now[64], want[16];

    for (size_t i = 0; i < k->t->n_sysctls; i++) {
        const struct mn_transit_sysctl *row = &k->t->sysctls[i];
        size_t before = list->count;
        snprintf(want, sizeof want, "%d", row->value);
        if (!mn_sysctl_read(row->key, now, sizeof now))
            continue;
        int differs = strcmp(now, want) != 0, all = !strcmp(row->key, ALL_FORWARD);
        if (all && differs)
            plan_before_all(k->t, k->node, list);
        if (all)
            record_before_all(k, before);
        if (differs)
            mn_change_add(list, MN_CHANGE_SYSCTL, NULL, row->key, now, want);
        record_sysctl(k, row->key, differs ? now : NULL, want);
    }
    take_back_sysctls(k);
}

/* The script of the apply before, which knows how to take away what it has made. */
static char *old_script(const struct task *k)
{
    const struct mn_change *rule = mn_record_find(&k->old, MN_CHANGE_RULE, WHAT);
    char *path, *text = NULL;
    unsigned mode;

    if (rule)
        return mn_strdup(rule->to);
    path = mn_asprintf("%s%s", k->root, MN_TRANSIT_SCRIPT_PATH);
    (void)mn_place_read(path, &text, &mode, NULL);
    free(path);
    return text;
}

/* What the rules to come cannot lift: another table's drop. iptables' own chain they do. */
static void note_drops(struct task *k)
{
    const struct mn_mesh_nic *in = &k->node->nics[k->t->nics[0]];
    const struct mn_mesh_nic *out = &k->node->nics[k->t->nics[k->t->n_nics - 1]];
    char where[160];
    cJSON *rules;

    if (!in->n_addrs || !out->n_addrs || mn_nft_read(&rules, NULL))
        return;
    struct mn_nft_packet packet = {.in = in->netdev,
                                   .out = out->netdev,
                                   .from = in->addrs[0],
                                   .to = out->addrs[0],
                                   .protocol = "tcp",
                                   .port = 40000};
    if (mn_nft_judge(rules, &packet, where, sizeof where) == MN_NFT_DROPS &&
        !strstr(where, "chain FORWARD of table ip")) {
        char *text = mn_asprintf("packets do not pass between its cables, and no rule of apply can "
                                 "lift that: %s drops them; have it accept what goes from %s to %s "
                                 "and back",
                                 where, in->netdev, out->netdev);
        mn_text_push(&k->plan->notes, &k->plan->n_notes, text);
        free(text);
    }
    cJSON_Delete(rules);
}

static void plan_rules(struct task *k)
{
    char *old = old_script(k);
    char *script = k->t->forwards ? mn_transit_script_text(k->t, k->node) : NULL;
    struct mn_change change = {.kind = MN_CHANGE_RULE, .what = (char[]){WHAT}, .to = script};
    int possible = mn_rules_possible();

    if (script && !possible)
        mn_text_push(&k->plan->notes, &k->plan->n_notes,
                     "packets between cables pass unless a firewall drops them: neither nft nor "
                     "iptables works here to make a rule with");
    else if ((script || old) && !mn_rule_holds(&change))
        mn_change_add(&k->plan->kernel, MN_CHANGE_RULE, NULL, WHAT, old, script);
    if (script && possible)
        mn_change_add(&k->record, MN_CHANGE_RULE, NULL, WHAT, NULL, script);
    if (script && k->t->n_nics)
        note_drops(k);
    free(old);
    free(script);
}

enum mn_err mn_apply_transit(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                             const struct mn_kernel *kernel, const char *root,
                             struct mn_apply_plan *plan, struct mn_diag *diag)
{
    struct mn_transit transit;
    struct task k = {.t = &transit,
                     .node = &mesh->nodes[node],
                     .host = host,
                     .kernel = kernel,
                     .root = root,
                     .plan = plan};

    mn_transit_find(mesh, node, &transit);
    /* Its script is run as root, and has their names in it. */
    enum mn_err err = mn_emit_check(mesh, node, &transit, diag);
    if (!err) {
        mn_record_read(root, &k.old);
        plan_routes(&k);
        plan_sysctls(&k);
        plan_rules(&k);
        mn_record_plan(root, &k.record, &plan->files);
        mn_changes_free(&k.old);
        mn_changes_free(&k.record);
    }
    mn_transit_free(&transit);
    return err;
}
