/* systemd.network(5). */
#include "topo/emit/emit.h"

void mn_emit_networkd(const struct mn_mesh *mesh, int node, struct mn_emit *out)
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
        fclose(file);
    }
}
