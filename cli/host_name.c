#include "cli/host_name.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

enum mn_err mn_names_read(struct mn_names *names, struct mn_diag *diag)
{
    struct mn_host host = {.n_nics = 0};
    char why[256];

    mn_mesh_init(&names->mesh);
    names->self = -1;
    if (!mn_mesh_find_file(names->path, sizeof names->path)) {
        names->path[0] = 0;
        return MN_OK;
    }
    enum mn_err err = mn_mesh_read(names->path, &names->mesh, diag);
    if (!err)
        err = mn_host_read(NULL, &host, diag);
    /* Who looks at a mesh from outside is none of its nodes. */
    if (!err)
        (void)mn_mesh_find_self(&names->mesh, &host, &names->self, why, sizeof why, NULL);
    mn_host_free(&host);
    return err;
}

void mn_names_free(struct mn_names *names)
{
    mn_mesh_free(&names->mesh);
}

int mn_names_node(const struct mn_mesh *mesh, const char *name)
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].name, name))
            return (int)i;
    for (size_t i = 0; i < mesh->n_nodes; i++)
        if (!strcmp(mesh->nodes[i].hostname, name))
            return (int)i;
    return -1;
}

static void list_nodes(const struct mn_mesh *mesh, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (size_t i = 0; i < mesh->n_nodes && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", mesh->nodes[i].name);
}

int mn_names_unknown(const char *name)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int rc = getaddrinfo(name, NULL, &hints, &list);

    if (!rc)
        freeaddrinfo(list);
    return rc;
}

static enum mn_err unknown(const struct mn_names *names, const char *option, const char *name,
                           int rc, struct mn_diag *diag)
{
    char nodes[400];

    if (!names->path[0])
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s %.200s: no such host (%s), and there is no mesh file that could have a "
                       "node of that name",
                       option, name, gai_strerror(rc));
    list_nodes(&names->mesh, nodes, sizeof nodes);
    return mn_fail(diag, MN_ERR_CONFIG,
                   "%s %.200s: it is not a node of %s (nodes: %s), and no such host is known (%s)",
                   option, name, names->path, nodes, gai_strerror(rc));
}

enum mn_err mn_names_not_a_node(const struct mn_names *names, const char *option, const char *name,
                                struct mn_diag *diag)
{
    char nodes[400];

    list_nodes(&names->mesh, nodes, sizeof nodes);
    return mn_fail(diag, MN_ERR_CONFIG, "%s %.200s: it is not a node of %s (nodes: %s)", option,
                   name, names->path, nodes);
}

enum mn_err mn_names_check(const struct mn_names *names, const char *option, const char *name,
                           struct mn_diag *diag)
{
    int rc = mn_names_node(&names->mesh, name) < 0 ? mn_names_unknown(name) : 0;

    return rc ? unknown(names, option, name, rc, diag) : MN_OK;
}

static int in_subnet(const struct mn_mesh_nic *nic, const struct mn_addr *other)
{
    for (size_t a = 0; a < nic->n_addrs; a++)
        if (mn_addr_share_subnet(&nic->addrs[a], other))
            return (int)a;
    return -1;
}

/* The far end of a cable or route of both; NULL: they have none. */
static const struct mn_addr *over_ends(const struct mn_mesh *mesh, int self, int node,
                                       const struct mn_mesh_end ends[2])
{
    int far = ends[0].node == self ? 1 : 0;

    if (ends[far].node != node || ends[!far].node != self)
        return NULL;
    const struct mn_mesh_nic *near_nic = &mesh->nodes[self].nics[ends[!far].nic];
    const struct mn_mesh_nic *nic = &mesh->nodes[node].nics[ends[far].nic];
    for (size_t a = 0; a < near_nic->n_addrs; a++) {
        int i =
            mn_addr_is_link_local(&near_nic->addrs[a]) ? -1 : in_subnet(nic, &near_nic->addrs[a]);
        if (i >= 0)
            return &nic->addrs[i];
    }
    return nic->n_addrs ? &nic->addrs[0] : NULL;
}

/* The other end of a network for management that both are in. */
static const struct mn_addr *over_management(const struct mn_mesh_node *own,
                                             const struct mn_mesh_node *far)
{
    for (size_t i = 0; i < own->n_nics; i++)
        for (size_t k = 0; k < far->n_nics; k++)
            for (size_t a = 0; a < own->nics[i].n_addrs; a++) {
                const struct mn_addr *addr = &own->nics[i].addrs[a];
                int there = mn_addr_is_link_local(addr) ? -1 : in_subnet(&far->nics[k], addr);
                if (there >= 0 && own->nics[i].role == MN_ROLE_MANAGEMENT &&
                    far->nics[k].role == MN_ROLE_MANAGEMENT)
                    return &far->nics[k].addrs[there];
            }
    return NULL;
}

const struct mn_addr *mn_names_address(const struct mn_mesh *mesh, int self, int node)
{
    const struct mn_addr *addr = NULL;

    if (self < 0 || node < 0 || self == node)
        return NULL;
    for (size_t i = 0; i < mesh->n_links && !addr; i++)
        addr = over_ends(mesh, self, node, mesh->links[i].ends);
    for (size_t i = 0; i < mesh->n_routes && !addr; i++)
        addr = over_ends(mesh, self, node, mesh->routes[i].ends);
    return addr ? addr : over_management(&mesh->nodes[self], &mesh->nodes[node]);
}

enum mn_err mn_names_host(const struct mn_names *names, const char *option, const char *name,
                          char *host, size_t size, struct mn_diag *diag)
{
    const struct mn_mesh *mesh = &names->mesh;
    int node = mn_names_node(mesh, name);
    struct mn_addr addr;

    if (!mn_strlcpy(host, name, size))
        return mn_fail(diag, MN_ERR_USAGE, "%s: the name is too long", option);
    if (node < 0 || !strcmp(name, "localhost"))
        return mn_names_check(names, option, name, diag);
    if (node == names->self)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s %s: it is this node (%s); name another one, or localhost for two "
                       "processes of this host",
                       option, name, names->path);
    const struct mn_addr *found = mn_names_address(mesh, names->self, node);
    /* Without a cable in between another network may lead there, which the file does not know. */
    if (!found && !mn_names_unknown(mesh->nodes[node].hostname))
        return mn_strlcpy(host, mesh->nodes[node].hostname, size)
                   ? MN_OK
                   : mn_fail(diag, MN_ERR_USAGE, "%s: the name is too long", option);
    for (size_t n = 0; n < mesh->nodes[node].n_nics && !found; n++)
        if (mesh->nodes[node].nics[n].n_addrs)
            found = &mesh->nodes[node].nics[n].addrs[0];
    if (!found)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s %s: %s gives this node no address, and no such host is known", option,
                       name, names->path);
    addr = *found;
    addr.prefix = -1;
    mn_addr_format(&addr, host, size);
    return MN_OK;
}

int mn_names_listening(const struct mn_mesh_node *node, struct mn_addr *addrs, int *count)
{
    int room = *count, all = 0;

    for (size_t n = 0; n < node->n_nics; n++)
        for (size_t a = 0; a < node->nics[n].n_addrs; a++) {
            const struct mn_addr *addr = &node->nics[n].addrs[a];
            if (addr->family == AF_INET6 && mn_addr_is_link_local(addr))
                continue;
            if (all < room)
                addrs[all] = *addr;
            all++;
        }
    *count = all < room ? all : room;
    return all;
}

enum mn_err mn_names_own(const struct mn_names *names, const char *option, const char *name,
                         struct mn_addr *addrs, int *count, int *all, struct mn_diag *diag)
{
    int node = mn_names_node(&names->mesh, name), room = *count, rc;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;

    *count = *all = 0;
    if (node >= 0 && node != names->self)
        return mn_fail(diag, MN_ERR_CONFIG, "%s %s: another node of %s; this one is %s", option,
                       name, names->path,
                       names->self < 0 ? "none of it" : names->mesh.nodes[names->self].name);
    if (node >= 0) {
        *count = room;
        *all = mn_names_listening(&names->mesh.nodes[node], addrs, count);
        return *all ? MN_OK
                    : mn_fail(diag, MN_ERR_CONFIG, "%s %s: %s gives this node no address", option,
                              name, names->path);
    }
    rc = getaddrinfo(name, NULL, &hints, &list);
    if (rc)
        return unknown(names, option, name, rc, diag);
    (void)mn_addr_from_sockaddr(list->ai_addr, &addrs[0]);
    *count = *all = 1;
    freeaddrinfo(list);
    return MN_OK;
}

void mn_names_add(const char *name, struct mn_addr *addrs, int *count, int room)
{
    static const uint8_t any[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;

    if (getaddrinfo(name, NULL, &hints, &list))
        return;
    for (const struct addrinfo *at = list; at && *count < room; at = at->ai_next) {
        struct mn_addr addr;
        int known = mn_addr_from_sockaddr(at->ai_addr, &addr) < 0 || mn_addr_is_link_local(&addr) ||
                    !memcmp(addr.bytes, any, sizeof any);
        for (int i = 0; i < *count && !known; i++)
            known = mn_addr_equal(&addrs[i], &addr);
        if (!known)
            addrs[(*count)++] = addr;
    }
    freeaddrinfo(list);
}
