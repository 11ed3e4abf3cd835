/* netplan's YAML: netplan.readthedocs.io, "YAML configuration". Strings are quoted: a netdev may be
 * called "on". */
#include "topo/emit/emit.h"

static void put_routes(FILE *file, const struct mn_transit *transit, int nic)
{
    const struct mn_transit_route *route;
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT];
    const char *head = "      routes:\n";

    for (size_t r = 0; (route = mn_emit_route(transit, nic, 0, &r)); head = "")
        fprintf(file, "%s        - {to: \"%s\", via: \"%s\"}\n", head,
                mn_addr_format(&route->to, to, sizeof to),
                mn_addr_format(&route->via, via, sizeof via));
}

void mn_emit_netplan(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                     struct mn_emit *out)
{
    /* Others may not read it, netplan asks. */
    FILE *file = mn_emit_begin(out, 0600, "/etc/netplan/60-meshnet.yaml");
    const struct mn_mesh_nic *nic;
    char mac[MN_EMIT_MAC], text[MN_ADDR_TEXT];
    const char *addr;

    mn_emit_head(file, "netplan", mesh, node);
    fputs("network:\n  version: 2\n  ethernets:\n", file);
    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        fprintf(file, "    \"%s\":\n", nic->netdev);
        if (*mn_emit_mac(mesh, node, nic, mac))
            fprintf(file, "      match: {macaddress: \"%s\"}\n      set-name: \"%s\"\n", mac,
                    nic->netdev);
        /* No boot waits for a cable. */
        fputs("      optional: true\n      dhcp4: false\n      dhcp6: false\n"
              "      accept-ra: false\n      link-local: [ipv6]\n      addresses:\n",
              file);
        for (size_t a = 0; (addr = mn_emit_addr(nic, 0, &a, text));)
            fprintf(file, "        - \"%s\"\n", addr);
        if (nic->mtu)
            fprintf(file, "      mtu: %d\n", nic->mtu);
        put_routes(file, transit, (int)i - 1);
    }
    fclose(file);
    mn_emit_transit(mesh, node, transit, "netplan", out);
}
