/* Views of a mesh: this node's neighbours, and the whole (--check, --merge). */
#include "cli/discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define REACH_MOST   64 /* nodes */

static const struct mn_mesh_node *end_node(const struct mn_mesh *mesh, const struct mn_mesh_end *e)
{
    return &mesh->nodes[e->node];
}

static const struct mn_mesh_nic *end_nic(const struct mn_mesh *mesh, const struct mn_mesh_end *e)
{
    return &end_node(mesh, e)->nics[e->nic];
}

/* The address of an end that lies in the link's subnet. */
static char *end_address(const struct mn_mesh *mesh, const struct mn_mesh_link *link, int side,
                         char *buf, size_t size)
{
    const struct mn_mesh_nic *nic = end_nic(mesh, &link->ends[side]);
    for (size_t i = 0; i < nic->n_addrs && !mn_link_is_bare(link); i++) {
        struct mn_addr own = nic->addrs[i];
        own.prefix = link->subnet.prefix;
        struct mn_addr net = mn_addr_network(&own);
        if (mn_addr_equal(&net, &link->subnet))
            return mn_addr_format(&nic->addrs[i], buf, size);
    }
    buf[0] = '\0';
    return buf;
}

/* The slower end's speed, 0 when no end gives one. */
static long link_speed(const struct mn_mesh *mesh, const struct mn_mesh_link *link)
{
    long a = end_nic(mesh, &link->ends[0])->speed_mbps;
    long b = end_nic(mesh, &link->ends[1])->speed_mbps;
    return a == 0 ? b : b == 0 || a < b ? a : b;
}

static void cell_optional(struct mn_out *out, const char *text)
{
    mn_out_cell(out, text[0] ? text : NULL);
}

static void cell_known(struct mn_out *out, long value)
{
    if (value > 0)
        mn_out_cell_int(out, value);
    else
        mn_out_cell(out, NULL);
}

static void put_link_tail(struct mn_out *out, const struct mn_mesh *mesh,
                          const struct mn_mesh_link *link)
{
    char text[MN_ADDR_TEXT];
    mn_out_cell(out,
                mn_link_is_bare(link) ? NULL : mn_addr_format(&link->subnet, text, sizeof text));
    cell_optional(out, mn_speed_format(link_speed(mesh, link), text, sizeof text));
}

void mn_discover_neighbours(struct mn_out *out, const struct mn_mesh *mesh, const char *path,
                            int self, const struct mn_host *host)
{
    static const struct mn_col cols[] = {
        {"neighbour", "NEIGHBOUR", 0},
        {"link", "LINK", 0},
        {"nic", "NIC", 0},
        {"state", "STATE", 0},
        {"address", "ADDRESS", 0},
        {"peer_nic", "ITS NIC", 0},
        {"peer_address", "ITS ADDRESS", 0},
        {"subnet", "SUBNET", MN_DROP(1)},
        {"speed", "SPEED", 1 | MN_DROP(2)},
    };
    char text[MN_ADDR_TEXT];
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_note(out, MN_BOLD, "This node is %s of %s: %zu node%s, %zu link%s, %s",
                mesh->nodes[self].name, path, mesh->n_nodes, mesh->n_nodes == 1 ? "" : "s",
                mesh->n_links, mesh->n_links == 1 ? "" : "s", mn_mesh_shape(mesh));
    mn_out_table(out, "neighbours", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        int mine = link->ends[0].node == self ? 0 : 1;
        if (link->ends[mine].node != self)
            continue;
        mn_out_row(out);
        mn_out_cell(out, end_node(mesh, &link->ends[!mine])->name);
        mn_out_cell(out, link->name);
        const struct mn_mesh_nic *own = end_nic(mesh, &link->ends[mine]);
        mn_out_cell(out, own->name);
        mn_discover_state(out, host, mn_mesh_nic_on_host(host, own));
        cell_optional(out, end_address(mesh, link, mine, text, sizeof text));
        mn_out_cell(out, end_nic(mesh, &link->ends[!mine])->name);
        cell_optional(out, end_address(mesh, link, !mine, text, sizeof text));
        put_link_tail(out, mesh, link);
    }
    mn_out_table_end(out);
}

static void put_nodes(struct mn_out *out, const struct mn_mesh *mesh, int self)
{
    static const struct mn_col cols[] = {
        {"node", "NODE", 0},   {"hostname", "HOST", 0}, {"nics", "NICS", 1},
        {"links", "LINKS", 1}, {"self", "", 0},
    };
    mn_out_table(out, "nodes", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < mesh->n_nodes; i++) {
        const struct mn_mesh_node *node = &mesh->nodes[i];
        int links = 0;
        for (size_t k = 0; k < mesh->n_links; k++)
            links += mesh->links[k].ends[0].node == (int)i || mesh->links[k].ends[1].node == (int)i;
        mn_out_row(out);
        mn_out_cell(out, node->name);
        mn_out_cell(out, node->hostname);
        mn_out_cell_int(out, (int64_t)node->n_nics);
        mn_out_cell_int(out, links);
        mn_out_cell(out, self == (int)i ? "this host" : "");
    }
    mn_out_table_end(out);
}

static void put_nic(struct mn_out *out, const struct mn_mesh_nic *nic)
{
    char text[MN_MESH_ADDRS_MAX * (MN_ADDR_TEXT + 1)] = "", addr[MN_ADDR_TEXT];
    const uint8_t *m = nic->mac;
    size_t len = 0;
    for (size_t i = 0; i < nic->n_addrs && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "",
                                mn_addr_format(&nic->addrs[i], addr, sizeof addr));
    mn_out_cell(out, nic->name);
    mn_out_cell(out, nic->netdev);
    cell_optional(out, nic->device);
    cell_known(out, nic->device[0] ? nic->port : 0);
    cell_optional(out, text);
    if (nic->has_mac)
        mn_out_cellf(out, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    else
        mn_out_cell(out, NULL);
    cell_known(out, nic->speed_mbps);
    cell_known(out, nic->mtu);
    cell_optional(out, nic->group);
    mn_out_cell(out, mn_nic_role_name(nic->role));
}

/* Every NIC as the file has it: with the links, enough to wire the mesh from. */
static void put_nics(struct mn_out *out, const struct mn_mesh *mesh)
{
    static const struct mn_col cols[] = {
        {"node", "NODE", 0},
        {"nic", "NIC", 0},
        {"netdev", "NETDEV", 0},
        {"device", "RDMA", 0},
        {"port", "PORT", 1 | MN_DROP(2)},
        {"addresses", "ADDRESSES", 0},
        {"mac", "MAC", MN_DROP(1)},
        {"mbps", "MBIT/S", 1},
        {"mtu", "MTU", 1},
        {"group", "GROUP", MN_DROP(3)},
        {"role", "ROLE", 0},
    };
    mn_out_table(out, "nics", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < mesh->n_nodes; i++) {
        for (size_t k = 0; k < mesh->nodes[i].n_nics; k++) {
            mn_out_row(out);
            mn_out_cell(out, mesh->nodes[i].name);
            put_nic(out, &mesh->nodes[i].nics[k]);
        }
    }
    mn_out_table_end(out);
}

static void put_links(struct mn_out *out, const struct mn_mesh *mesh)
{
    static const struct mn_col cols[] = {
        {"link", "LINK", 0},         {"a", "END", 0},
        {"a_address", "ADDRESS", 0}, {"b", "OTHER END", 0},
        {"b_address", "ADDRESS", 0}, {"subnet", "SUBNET", 0},
        {"speed", "SPEED", 1},
    };
    char text[MN_ADDR_TEXT];
    mn_out_table(out, "links", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        mn_out_row(out);
        mn_out_cell(out, link->name);
        for (int side = 0; side < 2; side++) {
            mn_out_cellf(out, "%s/%s", end_node(mesh, &link->ends[side])->name,
                         end_nic(mesh, &link->ends[side])->name);
            cell_optional(out, end_address(mesh, link, side, text, sizeof text));
        }
        put_link_tail(out, mesh, link);
    }
    mn_out_table_end(out);
}

/* hops[to] from one node over links, -1 where no path leads. Breadth first. */
static void hops_from(const struct mn_mesh *mesh, int from, int *hops)
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        hops[i] = -1;
    hops[from] = 0;
    for (int distance = 0, grew = 1; grew; distance++) {
        grew = 0;
        for (size_t i = 0; i < 2 * mesh->n_links; i++) {
            const struct mn_mesh_link *link = &mesh->links[i / 2];
            int a = link->ends[i % 2].node, b = link->ends[1 - i % 2].node;
            if (hops[a] == distance && hops[b] < 0) {
                hops[b] = distance + 1;
                grew = 1;
            }
        }
    }
}

static void cell_reach(struct mn_out *out, const struct mn_mesh *mesh, int from, int to, int hops)
{
    char text[256] = "";
    size_t len = 0;
    if (from == to) {
        mn_out_cell(out, "");
        return;
    }
    if (hops > 1) {
        mn_out_color(out, MN_YELLOW);
        mn_out_cellf(out, "%d hops", hops);
        return;
    }
    if (hops < 0) {
        mn_out_color(out, MN_RED);
        mn_out_cell(out, "no path");
        return;
    }
    for (size_t i = 0; i < mesh->n_links && len < sizeof text; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        if ((link->ends[0].node == from && link->ends[1].node == to) ||
            (link->ends[1].node == from && link->ends[0].node == to))
            len +=
                (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "", link->name);
    }
    mn_out_cell(out, text);
}

/* Of many nodes nobody reads who reaches whom in a table. */
static void put_reach(struct mn_out *out, const struct mn_mesh *mesh)
{
    if (mesh->n_nodes > REACH_MOST) {
        mn_out_note(out, MN_PLAIN, "Who reaches whom is not shown of more than %d nodes.",
                    REACH_MOST);
        return;
    }
    struct mn_col *cols = mn_zalloc((mesh->n_nodes + 1) * sizeof *cols);
    int *hops = mn_zalloc((mesh->n_nodes + 1) * sizeof *hops);
    cols[0] = (struct mn_col){"from", "FROM \\ TO", 0};
    for (size_t i = 0; i < mesh->n_nodes; i++)
        cols[i + 1] = (struct mn_col){mesh->nodes[i].name, mesh->nodes[i].name, 0};
    mn_out_table(out, "reach", NULL, cols, (int)mesh->n_nodes + 1);
    for (size_t i = 0; i < mesh->n_nodes; i++) {
        hops_from(mesh, (int)i, hops);
        mn_out_row(out);
        mn_out_cell(out, mesh->nodes[i].name);
        for (size_t k = 0; k < mesh->n_nodes; k++)
            cell_reach(out, mesh, (int)i, (int)k, hops[k]);
    }
    mn_out_table_end(out);
    free(cols);
    free(hops);
}

static void say_management(struct mn_out *out, const struct mn_mesh *mesh)
{
    char *text = mn_strdup("");
    for (size_t i = 0; i < mesh->n_nodes; i++)
        for (size_t k = 0; k < mesh->nodes[i].n_nics; k++) {
            const struct mn_mesh_nic *nic = &mesh->nodes[i].nics[k];
            if (nic->role != MN_ROLE_MANAGEMENT)
                continue;
            char *more = mn_asprintf("%s %s/%s", text, mesh->nodes[i].name, nic->name);
            free(text);
            text = more;
        }
    if (*text) {
        mn_out_note(out, MN_PLAIN, "For management, no cables:%s", text);
        mn_out_note(out, MN_PLAIN, "%s", "");
    }
    free(text);
}

static void say_bare(struct mn_out *out, const struct mn_mesh *mesh)
{
    char names[MN_BARE_NAMES];
    size_t n = mn_mesh_bare(mesh, -1, names);

    mn_out_int(out, "n_bare_links", NULL, (int64_t)n);
    if (!n)
        return;
    mn_out_note(out, MN_YELLOW,
                "Without addresses yet, so that nothing goes over them: %s. meshnet topo address "
                "gives them.",
                names);
    mn_out_note(out, MN_PLAIN, "%s", "");
}

void mn_discover_mesh(struct mn_out *out, const struct mn_mesh *mesh, const char *path, int self)
{
    mn_out_str(out, "file", "File", path);
    if (mesh->name[0])
        mn_out_str(out, "name", "Name", mesh->name);
    mn_out_str(out, "shape", "Shape", mn_mesh_shape(mesh));
    mn_out_int(out, "n_nodes", "Nodes", (int64_t)mesh->n_nodes);
    mn_out_int(out, "n_links", "Links", (int64_t)mesh->n_links);
    mn_out_note(out, MN_PLAIN, "%s", "");
    put_nodes(out, mesh, self);
    mn_out_note(out, MN_PLAIN, "%s", "");
    put_nics(out, mesh);
    mn_out_note(out, MN_PLAIN, "%s", "");
    say_management(out, mesh);
    put_links(out, mesh);
    mn_out_note(out, MN_PLAIN, "%s", "");
    say_bare(out, mesh);
    put_reach(out, mesh);
}
