/* A script of ip(8), until the next boot. */
#include <stdlib.h>
#include <string.h>

#include "topo/emit/emit.h"

static void put_transit(FILE *file, const struct mn_mesh *mesh, int node,
                        const struct mn_transit *transit)
{
    const struct mn_mesh_node *n = &mesh->nodes[node];
    const struct mn_transit_route *route;
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT];

    if (transit->n_routes)
        fputs("\n# To nodes without a cable to this one, over its neighbours.\n", file);
    for (size_t r = 0; (route = mn_emit_route(transit, -1, 0, &r));)
        fprintf(file, "ip route replace %s via %s dev '%s'\n",
                mn_addr_format(&route->to, to, sizeof to),
                mn_addr_format(&route->via, via, sizeof via), n->nics[route->nic].netdev);
    if (transit->n_sysctls)
        fputc('\n', file);
    for (const struct mn_transit_sysctl *s = transit->sysctls;
         s < transit->sysctls + transit->n_sysctls; s++)
        if (strncmp(s->key, "net/ipv6/", 9) != 0) /* the script below has those */
            fprintf(file, "sysctl -qw '%s=%d'\n", s->key, s->value);
    if (!transit->forwards)
        return;
    char *script = mn_transit_script_text(transit, n);
    fprintf(file, "\nsh -s <<'END_OF_FILE'\n%sEND_OF_FILE\n", script);
    free(script);
}

void mn_emit_iproute2(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                      struct mn_emit *out)
{
    FILE *file = mn_emit_begin(out, 0755, "meshnet-ip.sh");
    const struct mn_mesh_nic *nic;
    char text[MN_ADDR_TEXT];
    const char *addr;

    fputs("#!/bin/sh\n", file);
    mn_emit_head(file, "iproute2", mesh, node);
    fputs("set -e\n", file);
    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        fputc('\n', file);
        if (nic->mtu)
            fprintf(file, "ip link set dev '%s' mtu %d\n", nic->netdev, nic->mtu);
        for (size_t a = 0; (addr = mn_emit_addr(nic, 0, &a, text));)
            fprintf(file, "ip address replace %s dev '%s'\n", addr, nic->netdev);
        fprintf(file, "ip link set dev '%s' up\n", nic->netdev);
    }
    put_transit(file, mesh, node, transit);
    fclose(file);
}
