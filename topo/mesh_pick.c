/* This host as a node of a mesh: what --skip, --take and --node make of its NICs. */
#include "topo/mesh_pick.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

static int listed(const struct mn_opt_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->items[i], text))
            return 1;
    return 0;
}

static enum mn_err check_names(const struct mn_host *host, const struct mn_opt_list *list,
                               const char *option, struct mn_diag *diag)
{
    for (size_t i = 0; i < list->count; i++)
        if (!mn_host_nic(host, list->items[i]))
            return mn_fail(diag, MN_ERR_USAGE, "--%s %s: this host has no such NIC", option,
                           list->items[i]);
    return MN_OK;
}

/* Into *to: host as a node of mesh (self, or -1 for a new one), without the NICs of --skip, each
 * NIC with its role, under the name of --node. It shares all but the NICs' array with host. */
enum mn_err mn_mesh_pick(const struct mn_mesh_choice *ask, const struct mn_host *host,
                         const struct mn_mesh *mesh, int self, struct mn_host *to,
                         struct mn_diag *diag)
{
    *to = *host;
    to->n_nics = 0;
    to->nics = mn_zalloc((host->n_nics + 1) * sizeof *to->nics);
    enum mn_err err = ask->some ? MN_OK : check_names(host, ask->skip, "skip", diag);
    if (!err)
        err = check_names(host, ask->take, "take", diag);
    for (size_t i = 0; i < host->n_nics && !err; i++) {
        struct mn_nic *nic = &to->nics[to->n_nics];
        if (listed(ask->skip, host->nics[i].netdev))
            continue;
        *nic = host->nics[i];
        to->n_nics++;
        if (!listed(ask->take, nic->netdev))
            continue;
        nic->role = MN_ROLE_CABLE;
        if (!mn_mesh_usable(nic))
            err = mn_fail(diag, MN_ERR_USAGE,
                          "--take %s: no cable can be told from it; expected a port or VLAN that "
                          "has an address in a subnet, in no bond or bridge",
                          nic->netdev);
    }
    if (!err && ask->node &&
        !mn_strlcpy(to->hostname, ask->node,
                    sizeof to->hostname < MN_NAME_MAX ? sizeof to->hostname : MN_NAME_MAX))
        err = mn_fail(diag, MN_ERR_USAGE, "--node %s: the name is longer than %d characters",
                      ask->node, MN_NAME_MAX - 1);
    if (!err && mn_mesh_roles(to, mesh, self < 0 ? to->hostname : mesh->nodes[self].name))
        mn_no_memory();
    return err;
}

enum mn_err mn_mesh_add_picked(const struct mn_host *named, struct mn_mesh *mesh,
                               const char *hostname, struct mn_diag *diag)
{
    enum mn_err err = mn_mesh_add_host(mesh, named, diag);
    for (size_t i = 0; !err && i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, named->hostname))
            mn_strlcpy(mesh->nodes[i].hostname, hostname, sizeof mesh->nodes[i].hostname);
    return err;
}

void mn_mesh_copy_roles(const struct mn_host *from, struct mn_host *to)
{
    for (size_t i = 0; i < to->n_nics; i++) {
        const struct mn_nic *nic = mn_host_nic(from, to->nics[i].netdev);
        if (!nic)
            continue;
        to->nics[i].role = nic->role;
        mn_strlcpy(to->nics[i].role_why, nic->role_why, sizeof to->nics[i].role_why);
    }
}

enum mn_err mn_mesh_take(const struct mn_opt_list *names, struct mn_mesh *mesh,
                         struct mn_diag *diag)
{
    for (size_t t = 0; t < names->count; t++) {
        const char *name = names->items[t], *slash = strchr(name, '/');
        int taken = 0;
        for (size_t n = 0; n < mesh->n_nodes; n++)
            for (size_t i = 0; i < mesh->nodes[n].n_nics; i++) {
                const char *node = mesh->nodes[n].name;
                struct mn_mesh_nic *nic = &mesh->nodes[n].nics[i];
                if (slash ? strlen(node) != (size_t)(slash - name) ||
                                strncmp(node, name, strlen(node)) != 0 ||
                                strcmp(slash + 1, nic->name) != 0
                          : strcmp(name, nic->netdev) != 0)
                    continue;
                nic->role = MN_ROLE_CABLE;
                taken = 1;
            }
        if (!taken)
            return mn_fail(diag, MN_ERR_USAGE,
                           "--take %s: no file has such a NIC; expected a netdev or NODE/NIC",
                           name);
    }
    return names->count ? mn_mesh_link_up(mesh, diag) : MN_OK;
}
