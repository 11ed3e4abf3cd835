/* Which node of the mesh is this host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

const struct mn_nic *mn_mesh_nic_on_host(const struct mn_host *host, const struct mn_mesh_nic *file)
{
    const struct mn_nic *nic = mn_host_nic(host, file->netdev);
    for (size_t i = 0; !nic && i < file->n_addrs; i++)
        if (!mn_addr_is_link_local(&file->addrs[i]))
            nic = mn_host_nic_by_addr(host, &file->addrs[i]);
    return nic;
}

/* A way to tell that a node is this host: 1 and what matched in text. */
struct test {
    const char *what;
    int (*match)(const struct mn_mesh_node *node, const struct mn_host *host, char *text,
                 size_t size);
};

static int match_mac(const struct mn_mesh_node *node, const struct mn_host *host, char *text,
                     size_t size)
{
    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t j = 0; j < host->n_nics; j++) {
            const struct mn_mesh_nic *want = &node->nics[i];
            const struct mn_nic *have = &host->nics[j];
            if (!want->has_mac || !have->has_mac || memcmp(want->mac, have->mac, 6) != 0)
                continue;
            snprintf(text, size, "%s has the MAC %02x:%02x:%02x:%02x:%02x:%02x of its NIC %s",
                     have->netdev, have->mac[0], have->mac[1], have->mac[2], have->mac[3],
                     have->mac[4], have->mac[5], want->name);
            return 1;
        }
    return 0;
}

static int match_address(const struct mn_mesh_node *node, const struct mn_host *host, char *text,
                         size_t size)
{
    char addr[MN_ADDR_TEXT];
    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t j = 0; j < node->nics[i].n_addrs; j++) {
            const struct mn_addr *want = &node->nics[i].addrs[j];
            const struct mn_nic *have = mn_host_nic_by_addr(host, want);
            if (!have)
                continue;
            snprintf(text, size, "%s has the address %s of its NIC %s", have->netdev,
                     mn_addr_format(want, addr, sizeof addr), node->nics[i].name);
            return 1;
        }
    return 0;
}

static int match_hostname(const struct mn_mesh_node *node, const struct mn_host *host, char *text,
                          size_t size)
{
    if (strcmp(node->hostname, host->hostname) != 0)
        return 0;
    snprintf(text, size, "the host name is %s", host->hostname);
    return 1;
}

/* Up to the first dot: one side often carries the domain. */
static int match_short_hostname(const struct mn_mesh_node *node, const struct mn_host *host,
                                char *text, size_t size)
{
    size_t a = strcspn(node->hostname, "."), b = strcspn(host->hostname, ".");
    if (a == 0 || a != b || strncmp(node->hostname, host->hostname, a) != 0)
        return 0;
    snprintf(text, size, "the host name %s is %s without the domain", host->hostname,
             node->hostname);
    return 1;
}

static const struct test tests[] = {{"MAC addresses", match_mac},
                                    {"IP addresses", match_address},
                                    {"host names", match_hostname},
                                    {"host names without domain", match_short_hostname}};

static void list_nodes(const struct mn_mesh *mesh, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < mesh->n_nodes && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", mesh->nodes[i].name);
}

enum mn_err mn_mesh_find_self(const struct mn_mesh *mesh, const struct mn_host *host, int *node,
                              char *why, size_t why_size, struct mn_diag *diag)
{
    const char *named = getenv("MESHNET_NODE");
    char names[400], text[256], first[256];
    list_nodes(mesh, names, sizeof names);
    *node = -1;
    if (named && *named) {
        *node = mn_mesh_node_index(mesh, named);
        if (*node < 0)
            return mn_fail(diag, MN_ERR_CONFIG,
                           "MESHNET_NODE=\"%.100s\" is no node of the mesh; expected one of %s",
                           named, names);
        snprintf(why, why_size, "MESHNET_NODE says so");
        return MN_OK;
    }
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        for (size_t i = 0; i < mesh->n_nodes; i++) {
            if (!tests[t].match(&mesh->nodes[i], host, text, sizeof text))
                continue;
            if (*node >= 0) {
                const char *other = mesh->nodes[*node].name;
                *node = -1;
                return mn_fail(
                    diag, MN_ERR_CONFIG,
                    "this host matches two nodes by %s: %s (%s) and %s (%s); correct the "
                    "mesh file or set MESHNET_NODE to one of them",
                    tests[t].what, other, first, mesh->nodes[i].name, text);
            }
            *node = (int)i;
            memcpy(first, text, sizeof first);
        }
        if (*node >= 0) {
            snprintf(why, why_size, "%s", first);
            return MN_OK;
        }
    }
    return mn_fail(diag, MN_ERR_CONFIG,
                   "this host (%s) is no node of the mesh: no MAC address, IP address or host name "
                   "matches any of %s; correct the mesh file or set MESHNET_NODE",
                   host->hostname, names);
}

void mn_node_name(char *name, size_t size)
{
    const char *given = getenv("MESHNET_NODE");

    if (given && *given)
        mn_strlcpy(name, given, size);
    else if (gethostname(name, size - 1))
        mn_strlcpy(name, "?", size);
}
