/* NetworkManager's own files, a profile a NIC: nm-settings-keyfile(5). */
#include <sys/socket.h>

#include "topo/emit/emit.h"

static void put_family(FILE *file, const struct mn_mesh_nic *nic, int index, int family,
                       const struct mn_transit *transit)
{
    char text[MN_ADDR_TEXT], via[MN_ADDR_TEXT];
    const struct mn_transit_route *route;
    const char *addr;
    int count = 0;

    fprintf(file, "\n[%s]\n", family == AF_INET ? "ipv4" : "ipv6");
    for (size_t at = 0; (addr = mn_emit_addr(nic, family, &at, text));)
        fprintf(file, "address%d=%s\n", ++count, addr);
    fprintf(file, "method=%s\n", count ? "manual" : family == AF_INET ? "disabled" : "link-local");
    if (count)
        fputs("never-default=true\n", file);
    count = 0;
    for (size_t at = 0; (route = mn_emit_route(transit, index, family, &at));)
        fprintf(file, "route%d=%s,%s\n", ++count, mn_addr_format(&route->to, text, sizeof text),
                mn_addr_format(&route->via, via, sizeof via));
}

void mn_emit_keyfile(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                     struct mn_emit *out)
{
    const struct mn_mesh_nic *nic;
    char mac[MN_EMIT_MAC];

    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        /* NetworkManager leaves aside what others may read. */
        FILE *file = mn_emit_begin(out, 0600,
                                   "/etc/NetworkManager/system-connections/meshnet-%s.nmconnection",
                                   nic->netdev);
        mn_emit_head(file, "keyfile", mesh, node);
        fprintf(file, "[connection]\nid=meshnet-%s\ntype=ethernet\n", nic->netdev);
        if (!*mn_emit_mac(mesh, node, nic, mac))
            fprintf(file, "interface-name=%s\n", nic->netdev);
        fputs("\n[ethernet]\n", file);
        if (*mac)
            fprintf(file, "mac-address=%s\n", mac);
        if (nic->mtu)
            fprintf(file, "mtu=%d\n", nic->mtu);
        put_family(file, nic, (int)i - 1, AF_INET, transit);
        put_family(file, nic, (int)i - 1, AF_INET6, transit);
        fclose(file);
    }
    mn_emit_transit(mesh, node, transit, "keyfile", out);
}
