/* systemd.network(5). */
#include "topo/emit/emit.h"

static void put_routes(FILE *file, const struct mn_transit *transit, int nic)
{
    const struct mn_transit_route *route;
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT];

    for (size_t r = 0; (route = mn_emit_route(transit, nic, 0, &r));)
        fprintf(file, "\n[Route]\nDestination=%s\nGateway=%s\n",
                mn_addr_format(&route->to, to, sizeof to),
                mn_addr_format(&route->via, via, sizeof via));
}

void mn_emit_networkd(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                      struct mn_emit *out)
{
    const struct mn_mesh_nic *nic;
    char mac[MN_EMIT_MAC], text[MN_ADDR_TEXT];
    const char *addr;

    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        FILE *file =
            mn_emit_begin(out, 0644, "/etc/systemd/network/60-meshnet-%s.network", nic->netdev);
        mn_emit_head(file, "networkd", mesh, node);
        /* VLANs and bonds on top have the same MAC, and another type. */
        if (*mn_emit_mac(mesh, node, nic, mac))
            fprintf(file, "[Match]\nMACAddress=%s\nType=ether\n", mac);
        else
            fprintf(file, "[Match]\nName=%s\n", nic->netdev);
        fputs("\n[Link]\nRequiredForOnline=no\n", file);
        if (nic->mtu)
            fprintf(file, "MTUBytes=%d\n", nic->mtu);
        fputs("\n[Network]\nDHCP=no\nIPv6AcceptRA=no\nLinkLocalAddressing=ipv6\n", file);
        for (size_t a = 0; (addr = mn_emit_addr(nic, 0, &a, text));)
            fprintf(file, "Address=%s\n", addr);
        put_routes(file, transit, (int)i - 1);
        fclose(file);
    }
    mn_emit_transit(mesh, node, transit, "networkd", out);
}
