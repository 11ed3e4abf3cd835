/* Rules that set addresses against cables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/whole_rule.h"

static int counts(const struct mn_addr *addr)
{
    return !mn_addr_is_link_local(addr) && !mn_addr_is_loopback(addr);
}

static int has_address(const struct mn_survey_nic *nic)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (counts(&nic->addrs[i]))
            return 1;
    return 0;
}

int mn_nics_share(const struct mn_survey_nic *a, const struct mn_survey_nic *b,
                  const struct mn_addr **one, const struct mn_addr **two)
{
    for (size_t i = 0; i < a->n_addrs; i++)
        for (size_t k = 0; k < b->n_addrs; k++)
            if (counts(&a->addrs[i]) && mn_addr_share_subnet(&a->addrs[i], &b->addrs[k])) {
                if (one)
                    *one = &a->addrs[i];
                if (two)
                    *two = &b->addrs[k];
                return 1;
            }
    return 0;
}

/* --- one address on two NICs ------------------------------------------------------------------ */

/* Every address of the mesh, to be sorted. */
struct owned {
    const struct mn_addr *addr;
    struct mn_mesh_end end;
};

static int owned_order(const void *a, const void *b)
{
    const struct owned *x = a, *y = b;
    int order = x->addr->family - y->addr->family;

    order = order ? order : memcmp(x->addr->bytes, y->addr->bytes, sizeof x->addr->bytes);
    order = order ? order : x->end.node - y->end.node;
    return order ? order : x->end.nic - y->end.nic;
}

void mn_whole_address_twice(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    struct owned *all = NULL;
    size_t n = 0;

    for (size_t node = 0; node < w->survey->n_nodes; node++)
        for (size_t i = 0; i < w->survey->nodes[node].n_nics; i++) {
            const struct mn_survey_nic *nic = &w->survey->nodes[node].nics[i];

            /* Bridges for containers and virtual machines have the same everywhere. */
            for (size_t a = 0; a < nic->n_addrs && nic->kind != MN_NIC_BRIDGE; a++)
                if (counts(&nic->addrs[a]))
                    *(struct owned *)mn_grow((void **)&all, &n, sizeof *all) =
                        (struct owned){&nic->addrs[a], {(int)node, (int)i}};
        }
    if (n)
        qsort(all, n, sizeof *all, owned_order);
    for (size_t i = 1; i < n; i++) {
        char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE], addr[MN_ADDR_TEXT];

        if (!mn_addr_equal(all[i].addr, all[i - 1].addr) ||
            !memcmp(&all[i].end, &all[i - 1].end, sizeof all[i].end))
            continue;
        struct mn_trouble *t =
            mn_trouble_add(w->found, rule, "%.90s, %.90s", mn_where_nic(w, &all[i - 1].end, text),
                           mn_where_nic(w, &all[i].end, other));
        mn_addr_format(all[i].addr, addr, sizeof addr);
        snprintf(t->seen, sizeof t->seen, "%s at both", addr);
        snprintf(t->expected, sizeof t->expected, "an address of its own for each NIC");
        snprintf(t->fix, sizeof t->fix, "on %s: ip address del %s dev %s",
                 mn_whole_node(w, all[i].end.node), addr,
                 mn_survey_end_nic(w->survey, &all[i].end)->netdev);
    }
    free(all);
}

/* --- subnets and cables ------------------------------------------------------------------------
 */

/* A half with its subnet, in a row over all cables. */
struct net {
    const struct mn_cable *cable;
    const struct mn_cable_half *half;
    const struct mn_survey_nic *nics[2];
    const struct mn_addr *addr[2];
};

static struct net *nets_read(const struct mn_whole *w, size_t *n)
{
    struct net *nets = NULL;

    *n = 0;
    for (size_t i = 0; i < w->cabling.n_cables; i++)
        for (int h = 0; h < w->cabling.cables[i].n_halves; h++) {
            struct net *net = mn_grow((void **)&nets, n, sizeof *nets);

            net->cable = &w->cabling.cables[i];
            net->half = &net->cable->halves[h];
            mn_half_nics(w, net->cable, net->half, net->nics);
            mn_nics_share(net->nics[0], net->nics[1], &net->addr[0], &net->addr[1]);
        }
    return nets;
}

static int overlap(struct mn_addr a, struct mn_addr b)
{
    a.prefix = b.prefix = a.prefix < b.prefix ? a.prefix : b.prefix;
    return mn_addr_share_subnet(&a, &b);
}

void mn_whole_one_subnet(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    size_t n;
    struct net *nets = nets_read(w, &n);

    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE], net[MN_ADDR_TEXT];

            if (!nets[i].addr[0] || !nets[k].addr[0] ||
                !overlap(*nets[i].addr[0], *nets[k].addr[0]))
                continue;
            struct mn_addr subnet = mn_addr_network(nets[i].addr[0]);
            struct mn_trouble *t =
                mn_trouble_add(w->found, rule, "%s",
                               mn_where_half(w, nets[i].cable, nets[i].half, text));
            snprintf(t->seen, sizeof t->seen, "%s, as has %s",
                     mn_addr_format(&subnet, net, sizeof net),
                     mn_where_half(w, nets[k].cable, nets[k].half, other));
            snprintf(t->expected, sizeof t->expected, "a subnet of its own%s",
                     nets[i].cable == nets[k].cable ? " for each half of the port" : "");
            snprintf(t->fix, sizeof t->fix,
                     "take these addresses off and let meshnet topo address number the cable");
            break; /* once a cable is enough */
        }
    free(nets);
}

void mn_whole_no_subnet(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    size_t n;
    struct net *nets = nets_read(w, &n);

    for (size_t i = 0; i < n; i++) {
        const struct mn_addr *first[2] = {NULL, NULL};
        char text[MN_WHERE_SIZE], a[MN_ADDR_TEXT], b[MN_ADDR_TEXT];
        const int *ports = nets[i].cable->ports;

        if (nets[i].addr[0] || !has_address(nets[i].nics[0]) || !has_address(nets[i].nics[1]) ||
            (w->misled && w->wants[ports[0]] != ports[1]) ||
            /* crosswise: told with the first half */
            (w->wants[ports[0]] == ports[1] && i > 0 && nets[i - 1].cable == nets[i].cable &&
             !nets[i - 1].addr[0]))
            continue;
        for (int side = 0; side < 2; side++)
            for (size_t k = nets[i].nics[side]->n_addrs; k-- > 0;)
                if (counts(&nets[i].nics[side]->addrs[k]))
                    first[side] = &nets[i].nics[side]->addrs[k];
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s",
                                              mn_where_half(w, nets[i].cable, nets[i].half, text));
        snprintf(t->seen, sizeof t->seen, "%s and %s", mn_addr_format(first[0], a, sizeof a),
                 mn_addr_format(first[1], b, sizeof b));
        snprintf(t->expected, sizeof t->expected,
                 "two addresses of one subnet, and no others in it");
        if (w->wants[ports[0]] == ports[1])
            snprintf(t->fix, sizeof t->fix,
                     "the halves of the cable are numbered crosswise: exchange the addresses of "
                     "both halves at one end, or let meshnet topo address number them");
        else
            snprintf(t->fix, sizeof t->fix,
                     "take these addresses off and let meshnet topo address number the cable");
    }
    free(nets);
}
