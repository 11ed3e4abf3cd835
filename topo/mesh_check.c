#include "topo/mesh_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum mn_err mn_mesh_fail_at(struct mn_diag *diag, const char *file, int line, int column,
                            const char *fmt, ...)
{
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!file)
        return mn_fail(diag, MN_ERR_CONFIG, "%s", text);
    return mn_fail(diag, MN_ERR_CONFIG, "%s:%d:%d: %s", file, line, column, text);
}

/* text as in mn_mesh_addr_conflict. */
static int conflict(const struct mn_mesh *mesh, size_t node, size_t nic, size_t other_node,
                    size_t other_nic, const struct mn_addr *addr, const struct mn_addr *other,
                    char *text)
{
    char one[MN_ADDR_TEXT], two[MN_ADDR_TEXT];
    const struct mn_mesh_node *mine = &mesh->nodes[node], *theirs = &mesh->nodes[other_node];
    mn_addr_format(addr, one, sizeof one);
    mn_addr_format(other, two, sizeof two);
    if (mn_addr_equal(addr, other)) {
        snprintf(
            text, 512,
            "address %s is used twice, by %s/%s and before it by %s/%s (%s); expected an address "
            "of its own for each NIC",
            one, mine->name, mine->nics[nic].name, theirs->name, theirs->nics[other_nic].name, two);
        return 1;
    }
    /* Wired and wireless in one office, even where its owner made a cable of the wired one. */
    enum mn_nic_role one_role = mine->nics[nic].role, two_role = theirs->nics[other_nic].role;
    if ((one_role == MN_ROLE_MANAGEMENT && two_role != MN_ROLE_AUTO) ||
        (two_role == MN_ROLE_MANAGEMENT && one_role != MN_ROLE_AUTO))
        return 0;
    if (node != other_node || nic == other_nic || mn_addr_is_link_local(addr) ||
        !mn_addr_share_subnet(addr, other))
        return 0;
    snprintf(
        text, 512,
        "NICs %s (%s) and %s (%s) of node %s are in one subnet; expected a subnet of its own for "
        "each cable",
        theirs->nics[other_nic].name, two, mine->nics[nic].name, one, mine->name);
    return 1;
}

int mn_mesh_addr_conflict(const struct mn_mesh *mesh, const struct mn_mesh_lookup *before,
                          size_t node, size_t nic, const struct mn_addr *addr, char *text)
{
    const struct mn_mesh_owner *owner = mn_lookup_addr(before, mesh, addr);
    if (owner && owner->node < (int)node)
        return conflict(mesh, node, nic, (size_t)owner->node, (size_t)owner->nic, addr,
                        &mesh->nodes[owner->node].nics[owner->nic].addrs[owner->addr], text);
    for (size_t i = 0; i <= nic; i++) {
        const struct mn_mesh_nic *other = &mesh->nodes[node].nics[i];
        for (size_t a = 0; a < other->n_addrs && &other->addrs[a] != addr; a++)
            if (conflict(mesh, node, nic, node, i, addr, &other->addrs[a], text))
                return 1;
    }
    return 0;
}

static enum mn_err check_addrs(const struct mn_mesh *mesh, size_t node, size_t nic,
                               struct mn_mesh_lookup *before, struct mn_diag *diag)
{
    const struct mn_mesh_nic *own = &mesh->nodes[node].nics[nic];
    enum mn_err err = MN_OK;
    char text[512];

    for (size_t a = 0; a < own->n_addrs && !err; a++) {
        if (mn_mesh_addr_conflict(mesh, before, node, nic, &own->addrs[a], text))
            return mn_fail(diag, MN_ERR_CONFIG, "%s", text);
        err = mn_lookup_put_addr(before, mesh, (int)node, (int)nic, (int)a, diag);
    }
    return err;
}

enum mn_err mn_mesh_addrs_check(const struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct mn_mesh_lookup before = {.owners = NULL};
    enum mn_err err = MN_OK;

    for (size_t n = 0; n < mesh->n_nodes && !err; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics && !err; i++)
            err = check_addrs(mesh, n, i, &before, diag);
    mn_lookup_free(&before);
    return err;
}

int mn_addr_is_net_or_broadcast(const struct mn_addr *addr)
{
    struct mn_addr net = mn_addr_network(addr);
    if (addr->family != AF_INET || addr->prefix >= 31)
        return 0;
    if (!memcmp(net.bytes, addr->bytes, 4))
        return 1;
    for (int bit = addr->prefix; bit < 32; bit++)
        net.bytes[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    return !memcmp(net.bytes, addr->bytes, 4);
}
