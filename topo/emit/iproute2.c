/* A script of ip(8), until the next boot. */
#include "topo/emit/emit.h"

void mn_emit_iproute2(const struct mn_mesh *mesh, int node, struct mn_emit *out)
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
    fclose(file);
}
