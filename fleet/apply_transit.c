/* What nodes without a cable to each other need of this one: routes, sysctls, rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_kernel.h"
#include "fleet/apply_place.h"
#include "topo/base/alloc.h"
#include "topo/transit.h"

#define WHAT "transit between cables"

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

static void plan_sysctls(const struct mn_transit *t, struct mn_changes *list)
{
    char now[64], want[16];

    for (size_t i = 0; i < t->n_sysctls; i++) {
        const struct mn_transit_sysctl *row = &t->sysctls[i];
        snprintf(want, sizeof want, "%d", row->value);
        if (mn_sysctl_read(row->key, now, sizeof now) && strcmp(now, want) != 0 &&
            (row->only_from < 0 || atoi(now) == row->only_from))
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

void mn_apply_transit(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                      const struct mn_kernel *kernel, const char *root, struct mn_apply_plan *plan)
{
    struct mn_transit transit;

    mn_transit_find(mesh, node, &transit);
    plan_routes(&transit, &mesh->nodes[node], host, kernel, &plan->kernel);
    plan_sysctls(&transit, &plan->kernel);
    plan_rules(&transit, &mesh->nodes[node], root, plan);
    mn_transit_free(&transit);
}
