#include "cli/topo_show.h"

#include "topo/mesh_check.h"

static void put_nic(struct mn_out *out, const struct mn_mesh_nic *nic)
{
    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "nic", NULL, nic->name);
    mn_out_str(out, "netdev", NULL, nic->netdev);
    mn_out_int(out, "mbps", NULL, nic->speed_mbps);
    mn_out_end(out);
}

static void put_port(struct mn_out *out, const struct mn_draw *draw,
                     const struct mn_draw_port *port)
{
    const struct mn_mesh_node *node = &draw->mesh->nodes[port->node];

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "port", NULL, mn_draw_port_name(draw, port));
    mn_out_list_begin(out, "nics", NULL);
    for (size_t i = 0; i < port->n_nics; i++)
        put_nic(out, &node->nics[port->nics[i]]);
    mn_out_list_end(out);
    mn_out_int(out, "cables", NULL, port->cables);
    mn_out_end(out);
}

static void put_node(struct mn_out *out, const struct mn_draw *draw, int node)
{
    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "node", NULL, draw->mesh->nodes[node].name);
    mn_out_list_begin(out, "ports", NULL);
    for (size_t i = 0; i < draw->n_ports; i++)
        if (draw->ports[i].node == node)
            put_port(out, draw, &draw->ports[i]);
    mn_out_list_end(out);
    mn_out_list_begin(out, "management", NULL);
    for (size_t i = 0; i < draw->mesh->nodes[node].n_nics; i++)
        if (draw->mesh->nodes[node].nics[i].role == MN_ROLE_MANAGEMENT)
            put_nic(out, &draw->mesh->nodes[node].nics[i]);
    mn_out_list_end(out);
    mn_out_end(out);
}

static void put_link(struct mn_out *out, const struct mn_draw *draw,
                     const struct mn_draw_cable *cable, size_t i)
{
    const struct mn_mesh_link *link = &draw->mesh->links[cable->links[i]];
    char text[MN_ADDR_TEXT];

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "link", NULL, link->name);
    mn_out_str(out, "a_nic", NULL, mn_draw_nic(draw, cable, i, 0)->name);
    mn_out_str(out, "b_nic", NULL, mn_draw_nic(draw, cable, i, 1)->name);
    mn_out_str(out, "subnet", NULL,
               mn_link_is_bare(link) ? NULL : mn_addr_format(&link->subnet, text, sizeof text));
    mn_out_end(out);
}

static void put_cable(struct mn_out *out, const struct mn_draw *draw,
                      const struct mn_draw_cable *cable)
{
    static const char *const keys[][2] = {{"a_node", "a_port"}, {"b_node", "b_port"}};

    mn_out_begin(out, NULL, NULL);
    for (int end = 0; end < 2; end++) {
        const struct mn_draw_port *port = &draw->ports[cable->ports[end]];
        mn_out_str(out, keys[end][0], NULL, draw->mesh->nodes[port->node].name);
        mn_out_str(out, keys[end][1], NULL, mn_draw_port_name(draw, port));
    }
    mn_out_int(out, "mbps", NULL, mn_draw_speed(draw, cable));
    mn_out_list_begin(out, "links", NULL);
    for (size_t i = 0; i < cable->n_links; i++)
        put_link(out, draw, cable, i);
    mn_out_list_end(out);
    mn_out_end(out);
}

void mn_topo_show_json(const struct mn_draw *draw, const char *path, FILE *file)
{
    struct mn_out *out = mn_out_new(file, MN_OUT_JSON);

    mn_out_str(out, "file", NULL, path);
    mn_out_str(out, "name", NULL, draw->mesh->name[0] ? draw->mesh->name : NULL);
    mn_out_str(out, "shape", NULL, mn_mesh_shape(draw->mesh));
    mn_out_list_begin(out, "nodes", NULL);
    for (size_t i = 0; i < draw->mesh->n_nodes; i++)
        put_node(out, draw, (int)i);
    mn_out_list_end(out);
    mn_out_list_begin(out, "cables", NULL);
    for (size_t i = 0; i < draw->n_cables; i++)
        put_cable(out, draw, &draw->cables[i]);
    mn_out_list_end(out);
    mn_out_free(out);
}
