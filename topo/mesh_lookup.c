#include "topo/mesh_lookup.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

void mn_lookup_free(struct mn_mesh_lookup *lookup)
{
    mn_index_free(&lookup->nodes);
    mn_index_free(&lookup->links);
    mn_index_free(&lookup->macs);
    mn_index_free(&lookup->addrs);
    mn_index_free(&lookup->ends);
    free(lookup->owners);
    *lookup = (struct mn_mesh_lookup){.owners = NULL};
}

int mn_lookup_node(const struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh,
                   const char *name)
{
    uint64_t hash = mn_hash_text(name);
    int found;

    for (size_t at = 0; (found = mn_index_next(&lookup->nodes, hash, &at)) >= 0;)
        if (!strcmp(mesh->nodes[found].name, name))
            break;
    return found;
}

enum mn_err mn_lookup_put_node(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int node,
                               struct mn_diag *diag)
{
    return mn_index_put(&lookup->nodes, mn_hash_text(mesh->nodes[node].name), node, diag);
}

int mn_lookup_link(const struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh,
                   const char *name)
{
    uint64_t hash = mn_hash_text(name);
    int found;

    for (size_t at = 0; (found = mn_index_next(&lookup->links, hash, &at)) >= 0;)
        if (!strcmp(mesh->links[found].name, name))
            break;
    return found;
}

enum mn_err mn_lookup_put_link(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int link,
                               struct mn_diag *diag)
{
    return mn_index_put(&lookup->links, mn_hash_text(mesh->links[link].name), link, diag);
}

int mn_lookup_end(const struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh,
                  const struct mn_mesh_end *end)
{
    uint64_t hash = mn_hash(end, sizeof *end);
    int found;

    for (size_t at = 0; (found = mn_index_next(&lookup->ends, hash, &at)) >= 0;)
        if (!memcmp(&mesh->links[found / 2].ends[found % 2], end, sizeof *end))
            return found / 2;
    return -1;
}

enum mn_err mn_lookup_put_ends(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int link,
                               struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int side = 0; side < 2 && !err; side++)
        err = mn_index_put(&lookup->ends,
                           mn_hash(&mesh->links[link].ends[side], sizeof(struct mn_mesh_end)),
                           2 * link + side, diag);
    return err;
}

static const struct mn_mesh_nic *owner_nic(const struct mn_mesh *mesh,
                                           const struct mn_mesh_owner *owner)
{
    return &mesh->nodes[owner->node].nics[owner->nic];
}

static enum mn_err put_owner(struct mn_mesh_lookup *lookup, struct mn_index *index, uint64_t hash,
                             struct mn_mesh_owner owner, struct mn_diag *diag)
{
    struct mn_mesh_owner *place =
        mn_push(&lookup->owners, &lookup->n_owners, sizeof *lookup->owners, diag);

    if (!place)
        return MN_ERR_NOMEM;
    *place = owner;
    return mn_index_put(index, hash, (int)lookup->n_owners - 1, diag);
}

const struct mn_mesh_owner *mn_lookup_mac(const struct mn_mesh_lookup *lookup,
                                          const struct mn_mesh *mesh, const uint8_t mac[6])
{
    uint64_t hash = mn_hash(mac, 6);
    int found;

    for (size_t at = 0; (found = mn_index_next(&lookup->macs, hash, &at)) >= 0;)
        if (!memcmp(owner_nic(mesh, &lookup->owners[found])->mac, mac, 6))
            return &lookup->owners[found];
    return NULL;
}

enum mn_err mn_lookup_put_mac(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int node,
                              int nic, struct mn_diag *diag)
{
    return put_owner(lookup, &lookup->macs, mn_hash(mesh->nodes[node].nics[nic].mac, 6),
                     (struct mn_mesh_owner){node, nic, -1}, diag);
}

static uint64_t addr_hash(const struct mn_addr *addr)
{
    return mn_hash(addr->bytes, addr->family == AF_INET ? 4 : 16);
}

const struct mn_mesh_owner *mn_lookup_addr(const struct mn_mesh_lookup *lookup,
                                           const struct mn_mesh *mesh, const struct mn_addr *addr)
{
    uint64_t hash = addr_hash(addr);
    int found;

    for (size_t at = 0; (found = mn_index_next(&lookup->addrs, hash, &at)) >= 0;) {
        const struct mn_mesh_owner *owner = &lookup->owners[found];
        if (mn_addr_equal(&owner_nic(mesh, owner)->addrs[owner->addr], addr))
            return owner;
    }
    return NULL;
}

enum mn_err mn_lookup_put_addr(struct mn_mesh_lookup *lookup, const struct mn_mesh *mesh, int node,
                               int nic, int addr, struct mn_diag *diag)
{
    return put_owner(lookup, &lookup->addrs, addr_hash(&mesh->nodes[node].nics[nic].addrs[addr]),
                     (struct mn_mesh_owner){node, nic, addr}, diag);
}
