/* What nodes without a cable to each other need of this one: routes, sysctls, rules. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/apply_kernel.h"
#include "fleet/apply_place.h"
#include "topo/base/alloc.h"
#include "topo/emit/emit.h"
#include "topo/transit.h"

#define WHAT        "transit between cables"
#define ALL_FORWARD "net/ipv6/conf/all/forwarding"

static void plan_routes(const struct mn_transit *t, const struct mn_mesh_node *node,
                        const struct mn_host *host, const struct mn_kernel *kernel,
                        struct mn_changes *list)
{
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT], text[2 * MN_ADDR_TEXT + 8];

    for (size_t i = 0; i < t->n_routes; i++) {
        const struct mn_nic *nic = mn_host_nic(host, node->nics[t->routes[i].nic].netdev);
        snprintf(text, sizeof text, "%s via %s", mn_addr_format(&t->routes[i].to, to, sizeof to),
                 mn_addr_format(&t->routes[i].via, via, sizeof via));
        if (nic && !mn_kernel_has_route(kernel, nic->ifindex, text))
            mn_change_add(list, MN_CHANGE_ROUTE, nic, NULL, NULL, text);
    }
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

static void plan_sysctls(const struct mn_transit *t, const struct mn_mesh_node *node,
                         struct mn_changes *list)
{
    char now[64], want[16];

    for (size_t i = 0; i < t->n_sysctls; i++) {
        const struct mn_transit_sysctl *row = &t->sysctls[i];
        snprintf(want, sizeof want, "%d", row->value);
        if (!mn_sysctl_read(row->key, now, sizeof now) || !strcmp(now, want))
            continue;
        if (!strcmp(row->key, ALL_FORWARD))
            plan_before_all(t, node, list);
        mn_change_add(list, MN_CHANGE_SYSCTL, NULL, row->key, now, want);
    }
}

/* The script of the apply before, which knows how to take away what it has made. */
static char *old_script(const char *root)
{
    char *path = mn_asprintf("%s%s", root, MN_TRANSIT_SCRIPT_PATH), *text = NULL;
    unsigned mode;

    (void)mn_place_read(path, &text, &mode, NULL);
    free(path);
    return text;
}

static void plan_rules(const struct mn_transit *t, const struct mn_mesh_node *node,
                       const char *root, struct mn_apply_plan *plan)
{
    char *old = old_script(root), *script = t->forwards ? mn_transit_script_text(t, node) : NULL;
    struct mn_change change = {.kind = MN_CHANGE_RULE, .what = (char[]){WHAT}, .to = script};

    if (script && !mn_rules_possible())
        mn_text_push(&plan->notes, &plan->n_notes,
                     "packets between cables pass unless a firewall drops them: neither nft nor "
                     "iptables works here to make a rule with");
    else if ((script || old) && !mn_rule_holds(&change))
        mn_change_add(&plan->kernel, MN_CHANGE_RULE, NULL, WHAT, old, script);
    free(old);
    free(script);
}

enum mn_err mn_apply_transit(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                             const struct mn_kernel *kernel, const char *root,
                             struct mn_apply_plan *plan, struct mn_diag *diag)
{
    struct mn_transit transit;

    mn_transit_find(mesh, node, &transit);
    /* Its script is run as root, and has their names in it. */
    enum mn_err err = mn_emit_check(mesh, node, &transit, diag);
    if (!err) {
        plan_routes(&transit, &mesh->nodes[node], host, kernel, &plan->kernel);
        plan_sysctls(&transit, &mesh->nodes[node], &plan->kernel);
        plan_rules(&transit, &mesh->nodes[node], root, plan);
    }
    mn_transit_free(&transit);
    return err;
}
