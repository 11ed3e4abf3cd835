/* What is wrong with the numbers that cables have. */
#include <stdio.h>

#include "topo/address.h"
#include "topo/address_range.h"
#include "topo/mesh_check.h"

static const struct mn_trouble_rule rule_bare = {
    .id = "cable-without-address",
    .severity = MN_SEVERITY_ERROR,
    .title = "a cable without addresses carries nothing",
};
static const struct mn_trouble_rule rule_used = {
    .id = "address-in-use",
    .severity = MN_SEVERITY_ERROR,
    .title = "something else uses the cable's addresses",
    .advice = "The kernel sends packets by the narrower of two routes: one of both is cut off.",
};
static const struct mn_trouble_rule rule_avoid = {
    .id = "address-taken-by-habit",
    .severity = MN_SEVERITY_NOTE,
    .title = "the cable's addresses are what others take by default",
    .advice = "It works until that is installed on a node.",
};

static struct mn_trouble *add(struct mn_troubles *list, const struct mn_trouble_rule *rule,
                              const struct mn_mesh *mesh, const struct mn_mesh_link *link)
{
    const struct mn_mesh_end *ends = link->ends;

    return mn_trouble_add(list, rule, "%.60s (%.30s/%.20s - %.30s/%.20s)", link->name,
                          mesh->nodes[ends[0].node].name, mn_mesh_end_nic(mesh, &ends[0])->name,
                          mesh->nodes[ends[1].node].name, mn_mesh_end_nic(mesh, &ends[1])->name);
}

static void check_subnet(const struct mn_mesh *mesh, const struct mn_mesh_link *link,
                         const struct mn_addr *net, const struct mn_takens *taken,
                         struct mn_troubles *troubles)
{
    char own[MN_ADDR_TEXT], other[MN_ADDR_TEXT];
    struct mn_range range = mn_subnet_range(net);

    for (const struct mn_taken *t = taken->items; t < taken->items + taken->count; t++) {
        struct mn_range that = mn_subnet_range(&t->net);
        if (t->net.family != net->family || that.last < range.first || range.last < that.first)
            continue;
        struct mn_trouble *trouble =
            add(troubles, t->how == MN_TAKEN_USED ? &rule_used : &rule_avoid, mesh, link);
        snprintf(trouble->seen, sizeof trouble->seen, "%s, and %s: %s",
                 mn_addr_format(net, own, sizeof own), mn_addr_format(&t->net, other, sizeof other),
                 t->what);
        snprintf(trouble->expected, sizeof trouble->expected, "a subnet of the cable's own");
        snprintf(trouble->fix, sizeof trouble->fix,
                 "meshnet topo address --renumber, or another network there");
    }
}

static int is_hit(const struct mn_ranges *ranges, const struct mn_addr *net)
{
    struct mn_range range = mn_subnet_range(net);

    return mn_ranges_hit(ranges, range.first, range.last) != NULL;
}

/* Of both families: where none is hit, none of what is taken is. */
static void find_ranges(const struct mn_takens *taken, struct mn_ranges *ranges)
{
    *ranges = (struct mn_ranges){.items = NULL};
    for (size_t i = 0; i < taken->count; i++)
        mn_ranges_add(ranges, mn_subnet_range(&taken->items[i].net));
    mn_ranges_sort(ranges);
}

void mn_address_check(const struct mn_mesh *mesh, const struct mn_takens *taken,
                      struct mn_troubles *troubles)
{
    struct mn_ranges ranges;

    find_ranges(taken, &ranges);
    for (const struct mn_mesh_link *link = mesh->links; link < mesh->links + mesh->n_links;
         link++) {
        const struct mn_mesh_nic *a = mn_mesh_end_nic(mesh, &link->ends[0]);
        struct mn_mesh_nic one = *a;
        struct mn_addr net;

        if (mn_link_is_bare(link)) {
            struct mn_trouble *trouble = add(troubles, &rule_bare, mesh, link);
            snprintf(trouble->expected, sizeof trouble->expected, "an address at either end");
            snprintf(trouble->fix, sizeof trouble->fix, "meshnet topo address");
        }
        for (one.n_addrs = 1; one.addrs < a->addrs + a->n_addrs; one.addrs++)
            if (mn_link_subnet(&one, mn_mesh_end_nic(mesh, &link->ends[1]), &net) &&
                is_hit(&ranges, &net))
                check_subnet(mesh, link, &net, taken, troubles);
    }
    mn_ranges_free(&ranges);
}
