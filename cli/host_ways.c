/* Other ways to a host than its name: another cable, the management network. */
#include <string.h>

#include "cli/host_name.h"

int mn_names_find(const struct mn_mesh *mesh, int self, const char *host)
{
    int node = !strcmp(host, "localhost") ? self : mn_names_node(mesh, host);
    struct mn_addr addr;

    if (node >= 0 || mn_addr_parse(host, &addr, NULL))
        return node;
    for (size_t i = 0; i < mesh->n_nodes; i++)
        for (size_t k = 0; k < mesh->nodes[i].n_nics; k++)
            for (size_t a = 0; a < mesh->nodes[i].nics[k].n_addrs; a++)
                if (mn_addr_equal(&mesh->nodes[i].nics[k].addrs[a], &addr))
                    return (int)i;
    return -1;
}

static int is_next_to(const struct mn_mesh_node *own, const struct mn_addr *addr)
{
    for (size_t i = 0; i < own->n_nics; i++)
        for (size_t k = 0; k < own->nics[i].n_addrs; k++)
            if (mn_addr_share_subnet(&own->nics[i].addrs[k], addr))
                return 1;
    return 0;
}

int mn_names_ways(const struct mn_mesh *mesh, int self, const char *host,
                  char ways[MN_NAMES_WAYS][MN_ADDR_TEXT])
{
    int node = mn_names_find(mesh, self, host), n = 0;

    if (node < 0 || node == self)
        return 0;
    /* First those that need no router, which may drop what it does not know. */
    for (int routed = 0; routed < 2; routed++)
        for (size_t i = 0; i < mesh->nodes[node].n_nics; i++) {
            const struct mn_mesh_nic *nic = &mesh->nodes[node].nics[i];
            for (size_t k = 0; k < nic->n_addrs && n < MN_NAMES_WAYS; k++) {
                struct mn_addr addr = nic->addrs[k];
                int next = self >= 0 && is_next_to(&mesh->nodes[self], &addr);
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
