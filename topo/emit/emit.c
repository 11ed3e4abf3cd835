#include "topo/emit/emit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

const struct mn_emit_format mn_emit_formats[] = {
    {"netplan", "for netplan (Ubuntu, DGX OS)", "netplan try", mn_emit_netplan},
    {"networkd", "for systemd-networkd, a file a NIC", "networkctl reload", mn_emit_networkd},
    {"keyfile", "for NetworkManager, a file a NIC", "nmcli connection reload", mn_emit_keyfile},
    {"nmcli", "for NetworkManager, a script", "sh meshnet-nmcli.sh", mn_emit_nmcli},
    {"iproute2", "until the next boot, a script", "sh meshnet-ip.sh", mn_emit_iproute2},
    {"hostfile", "of all nodes, for mpirun", "mpirun --hostfile hostfile", mn_emit_hostfile},
    {"json", "the node's NICs and neighbours, for programs", NULL, mn_emit_json},
    {.name = NULL},
};

const struct mn_emit_format *mn_emit_find(const char *name)
{
    for (const struct mn_emit_format *f = mn_emit_formats; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

/* Names go into scripts and patterns: what has a meaning there is no name of a NIC. */
static enum mn_err check_name(const struct mn_mesh_node *node, const struct mn_mesh_nic *nic,
                              struct mn_diag *diag)
{
    static const char *const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_.@+-";

    return strspn(nic->netdev, plain) == strlen(nic->netdev)
               ? MN_OK
               : mn_fail(diag, MN_ERR_CONFIG,
                         "node %s: netdev \"%s\": expected letters, digits and _.@+- alone, as "
                         "scripts and configuration files take them",
                         node->name, nic->netdev);
}

enum mn_err mn_emit_check(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                          struct mn_diag *diag)
{
    const struct mn_mesh_node *n = &mesh->nodes[node];
    const struct mn_mesh_nic *nic;
    enum mn_err err = MN_OK;

    for (size_t at = 0; !err && (nic = mn_emit_nic(mesh, node, &at));)
        err = check_name(n, nic, diag);
    for (size_t i = 0; !err && i < transit->n_nics; i++)
        err = check_name(n, &n->nics[transit->nics[i]], diag);
    return err;
}

static enum mn_err check(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                         struct mn_diag *diag)
{
    enum mn_err err = mn_emit_check(mesh, node, transit, diag);

    if (err)
        return err;
    if (!mn_emit_nic(mesh, node, &(size_t){0}))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "node %s has no NIC with an address in the mesh file: nothing to configure",
                       mesh->nodes[node].name);
    return MN_OK;
}

enum mn_err mn_emit(const struct mn_emit_format *format, const struct mn_mesh *mesh, int node,
                    struct mn_emit *out, struct mn_diag *diag)
{
    struct mn_transit transit;

    *out = (struct mn_emit){.files = NULL};
    mn_transit_find(mesh, node, &transit);
    enum mn_err err = check(mesh, node, &transit, diag);
    if (!err)
        format->emit(mesh, node, &transit, out);
    mn_transit_free(&transit);
    return err;
}

void mn_emit_free(struct mn_emit *out)
{
    for (size_t i = 0; i < out->n_files; i++)
        free(out->files[i].text);
    free(out->files);
    *out = (struct mn_emit){.files = NULL};
}

FILE *mn_emit_begin(struct mn_emit *out, unsigned mode, const char *path, ...)
{
    struct mn_emit_file *file = mn_grow((void **)&out->files, &out->n_files, sizeof *out->files);
    size_t len;
    va_list args;

    va_start(args, path);
    vsnprintf(file->path, sizeof file->path, path, args);
    va_end(args);
    file->mode = mode;
    FILE *stream = open_memstream(&file->text, &len);
    if (!stream)
        mn_no_memory();
    return stream;
}

void mn_emit_head(FILE *file, const char *format, const struct mn_mesh *mesh, int node)
{
    fprintf(file, "# Written by meshnet topo emit %s for node %s%s%s.\n", format,
            mesh->nodes[node].name, mesh->name[0] ? " of mesh " : "", mesh->name);
}

const struct mn_mesh_nic *mn_emit_nic(const struct mn_mesh *mesh, int node, size_t *at)
{
    for (; *at < mesh->nodes[node].n_nics; (*at)++)
        if (mesh->nodes[node].nics[*at].n_addrs &&
            mesh->nodes[node].nics[*at].role != MN_ROLE_MANAGEMENT)
            return &mesh->nodes[node].nics[(*at)++];
    return NULL;
}

const char *mn_emit_addr(const struct mn_mesh_nic *nic, int family, size_t *at,
                         char buf[MN_ADDR_TEXT])
{
    while (*at < nic->n_addrs) {
        const struct mn_addr *addr = &nic->addrs[(*at)++];
        if (!family || addr->family == family)
            return mn_addr_format(addr, buf, MN_ADDR_TEXT);
    }
    return NULL;
}

const struct mn_transit_route *mn_emit_route(const struct mn_transit *transit, int nic, int family,
                                             size_t *at)
{
    while (*at < transit->n_routes) {
        const struct mn_transit_route *route = &transit->routes[(*at)++];
        if ((nic < 0 || route->nic == nic) && (!family || route->to.family == family))
            return route;
    }
    return NULL;
}

static void put_text(FILE *file, char *text)
{
    fputs(text, file);
    fclose(file);
    free(text);
}

static void put_file(const struct mn_mesh *mesh, int node, const char *format, const char *path,
                     char *text, struct mn_emit *out)
{
    FILE *file = mn_emit_begin(out, 0644, "%s", path);

    mn_emit_head(file, format, mesh, node);
    put_text(file, text);
}

void mn_emit_transit(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                     const char *format, struct mn_emit *out)
{
    const struct mn_mesh_node *n = &mesh->nodes[node];

    if (mn_transit_is_empty(transit))
        return;
    char *sysctls = mn_transit_sysctl_text(transit);
    if (*sysctls) {
        put_file(mesh, node, format, MN_TRANSIT_SYSCTL_PATH, sysctls, out);
        out->also = "sysctl --system";
    } else {
        free(sysctls);
    }
    if (!transit->forwards)
        return;
    FILE *file = mn_emit_begin(out, 0755, "%s", MN_TRANSIT_SCRIPT_PATH);
    fputs("#!/bin/sh\n", file);
    mn_emit_head(file, format, mesh, node);
    put_text(file, mn_transit_script_text(transit, n));
    put_file(mesh, node, format, MN_TRANSIT_UNIT_PATH, mn_transit_unit_text(), out);
    put_file(mesh, node, format, MN_TRANSIT_BOOT_PATH, mn_transit_wants_text(), out);
    put_file(mesh, node, format, MN_TRANSIT_DOCKER_PATH, mn_transit_wants_text(), out);
    out->also = "sysctl --system && systemctl daemon-reload && systemctl start " MN_TRANSIT_UNIT;
}

static int shares_mac(const struct mn_mesh_node *node, const struct mn_mesh_nic *nic)
{
    for (const struct mn_mesh_nic *other = node->nics; other < node->nics + node->n_nics; other++)
        if (other != nic && other->has_mac && !memcmp(other->mac, nic->mac, sizeof nic->mac))
            return 1;
    return 0;
}

const char *mn_emit_mac(const struct mn_mesh *mesh, int node, const struct mn_mesh_nic *nic,
                        char buf[MN_EMIT_MAC])
{
    const uint8_t *m = nic->mac;

    buf[0] = 0;
    if (nic->has_mac && !shares_mac(&mesh->nodes[node], nic))
        snprintf(buf, MN_EMIT_MAC, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4],
                 m[5]);
    return buf;
}
