/* A script for NetworkManager: nmcli(1), nm-settings-nmcli(5). A profile of that name is replaced.
 */
#include <string.h>
#include <sys/socket.h>

#include "topo/emit/emit.h"

/* Of the NIC and family. */
static void put_routes(FILE *file, const struct mn_transit *transit, int nic, int family)
{
    const struct mn_transit_route *route;
    char to[MN_ADDR_TEXT], via[MN_ADDR_TEXT];
    const char *between = family == AF_INET ? " ipv4.routes '" : " ipv6.routes '", *end = "";

    for (size_t r = 0; (route = mn_emit_route(transit, nic, family, &r)); between = ",", end = "'")
        fprintf(file, "%s%s %s", between, mn_addr_format(&route->to, to, sizeof to),
                mn_addr_format(&route->via, via, sizeof via));
    fputs(end, file);
}

static void put_family(FILE *file, const struct mn_mesh_nic *nic, int family)
{
    const char *name = family == AF_INET ? "ipv4" : "ipv6", *addr, *between = "";
    char text[MN_ADDR_TEXT];
    size_t at = 0;

    if (!mn_emit_addr(nic, family, &at, text)) {
        fprintf(file, " \\\n    %s.method %s", name, family == AF_INET ? "disabled" : "link-local");
        return;
    }
    fprintf(file, " \\\n    %s.method manual %s.never-default yes %s.addresses '", name, name,
            name);
    for (at = 0; (addr = mn_emit_addr(nic, family, &at, text)); between = ",")
        fprintf(file, "%s%s", between, addr);
    fputs("'", file);
}

/* What NetworkManager has no profile for goes where it is kept, so that all is in one script. */
static void put_files(FILE *file, const struct mn_mesh *mesh, int node,
                      const struct mn_transit *transit)
{
    struct mn_emit files = {.files = NULL};

    mn_emit_transit(mesh, node, transit, "nmcli", &files);
    for (const struct mn_emit_file *f = files.files; f < files.files + files.n_files; f++) {
        int folder = (int)(strrchr(f->path, '/') - f->path);
        fprintf(file, "\nmkdir -p %.*s\ncat >%s <<'END_OF_FILE'\n%sEND_OF_FILE\nchmod %o %s\n",
                folder, f->path, f->path, f->text, f->mode, f->path);
    }
    if (files.also)
        fprintf(file, "\n%s\n", files.also);
    mn_emit_free(&files);
}

void mn_emit_nmcli(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                   struct mn_emit *out)
{
    FILE *file = mn_emit_begin(out, 0755, "meshnet-nmcli.sh");
    const struct mn_mesh_nic *nic;
    char mac[MN_EMIT_MAC];

    fputs("#!/bin/sh\n", file);
    mn_emit_head(file, "nmcli", mesh, node);
    fputs("set -e\n", file);
    for (size_t i = 0; (nic = mn_emit_nic(mesh, node, &i));) {
        fprintf(file, "\nnmcli connection delete 'meshnet-%s' >/dev/null 2>&1 || true\n",
                nic->netdev);
        fprintf(file, "nmcli connection add type ethernet con-name 'meshnet-%s' ifname '%s'",
                nic->netdev, *mn_emit_mac(mesh, node, nic, mac) ? "*" : nic->netdev);
        if (*mac)
            fprintf(file, " \\\n    802-3-ethernet.mac-address %s", mac);
        if (nic->mtu)
            fprintf(file, " \\\n    802-3-ethernet.mtu %d", nic->mtu);
        put_family(file, nic, AF_INET);
        put_routes(file, transit, (int)i - 1, AF_INET);
        put_family(file, nic, AF_INET6);
        put_routes(file, transit, (int)i - 1, AF_INET6);
        fprintf(file,
                "\nnmcli --wait 10 connection up 'meshnet-%s' || true # without a cable it waits\n",
                nic->netdev);
    }
    put_files(file, mesh, node, transit);
    fclose(file);
}
