/* Other ways to a host than its name: another cable, the management network. */
#include <string.h>

#include "cli/bench_collective.h"

static int is_next_to(const struct mn_mesh_node *own, const struct mn_addr *addr)
{
    for (size_t i = 0; i < own->n_nics; i++)
        for (size_t k = 0; k < own->nics[i].n_addrs; k++)
            if (mn_addr_share_subnet(&own->nics[i].addrs[k], addr))
                return 1;
    return 0;
}

int mn_bench_ways(const struct mn_collective_session *s, int rank,
                  char ways[MN_BENCH_WAYS][MN_ADDR_TEXT])
{
    const char *host = s->hosts->items[rank];
    int node = s->mesh.n_nodes ? mn_bench_node(&s->mesh, s->self, host) : -1, n = 0;

    if (node < 0 || node == s->self)
        return 0;
    /* First those that need no router, which may drop what it does not know. */
    for (int routed = 0; routed < 2; routed++)
        for (size_t i = 0; i < s->mesh.nodes[node].n_nics; i++) {
            const struct mn_mesh_nic *nic = &s->mesh.nodes[node].nics[i];
            for (size_t k = 0; k < nic->n_addrs && n < MN_BENCH_WAYS; k++) {
                struct mn_addr addr = nic->addrs[k];
                int next = s->self >= 0 && is_next_to(&s->mesh.nodes[s->self], &addr);
                addr.prefix = -1;
                /* One of a link alone leads nowhere without the name of a NIC here. */
                if (next == routed || mn_addr_is_link_local(&addr) ||
                    !strcmp(mn_addr_format(&addr, ways[n], sizeof ways[n]), host))
                    continue;
                n++;
            }
        }
    return n;
}
