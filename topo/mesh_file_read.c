/* From the tree of a mesh file to the model. */
#include "topo/mesh_file.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_read.h"
#include "topo/mesh_setting.h"

/* --- node ----------------------------------------------------------------------------------- */

static enum mn_err node_name(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_node *node = mn_reader_node(r);
    enum mn_err err = mn_read_name(r, key, value, node->name);
    if (err)
        return err;
    mn_strlcpy(node->hostname, node->name, sizeof node->hostname);
    int first = mn_lookup_node(&r->lookup, r->mesh, node->name);
    if (first >= 0)
        return mn_read_fail(r, value, "node name \"%s\" is used twice, first on line %d",
                            node->name, r->mesh->nodes[first].line);
    return mn_lookup_put_node(&r->lookup, r->mesh, (int)r->node, r->diag);
}

static enum mn_err node_hostname(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_text(r, key, value, sizeof mn_reader_node(r)->hostname,
                        mn_reader_node(r)->hostname);
}

static enum mn_err node_nics(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_list(r, key, value, MN_MESH_NICS_MAX, "a list of NICs (- netdev: …)",
                        mn_read_nic);
}

static enum mn_err node_gpus(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_list(r, key, value, MN_MESH_GPUS_MAX, "a list of GPUs (- pci: …)", mn_read_gpu);
}

static enum mn_err read_node(struct mn_reader *r, const struct mn_yaml *value)
{
    static const struct mn_read_key keys[] = {{"name", node_name, 1},
                                              {"hostname", node_hostname, 0},
                                              {"nics", node_nics, 0},
                                              {"gpus", node_gpus, 0}, /* names NICs */
                                              {NULL, NULL, 0}};
    struct mn_mesh *mesh = r->mesh;
    struct mn_mesh_node *node = mn_push(&mesh->nodes, &mesh->n_nodes, sizeof *node, r->diag);
    if (!node)
        return MN_ERR_NOMEM;
    r->node = mesh->n_nodes - 1;
    node->line = value->line;
    node->column = value->column;
    return mn_read_map(r, "a node", value, keys);
}

/* --- link ----------------------------------------------------------------------------------- */

static enum mn_err link_name(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_link *link = &r->mesh->links[r->link];
    enum mn_err err = mn_read_name(r, key, value, link->name);
    if (err)
        return err;
    int first = mn_lookup_link(&r->lookup, r->mesh, link->name);
    if (first >= 0)
        return mn_read_fail(r, value, "link name \"%s\" is used twice, first on line %d",
                            link->name, r->mesh->links[first].line);
    return mn_lookup_put_link(&r->lookup, r->mesh, (int)r->link, r->diag);
}

static enum mn_err read_end(struct mn_reader *r, const struct mn_yaml *value,
                            struct mn_mesh_end *end)
{
    char node[MN_NAME_MAX];
    const char *slash = value->kind == MN_YAML_SCALAR ? strchr(value->text, '/') : NULL;
    if (!slash || slash == value->text || (size_t)(slash - value->text) >= sizeof node)
        return mn_read_fail_kind(r, "ends", value, "node/nic, like spark-a/p0");
    mn_strlcpy(node, value->text, (size_t)(slash - value->text) + 1);
    end->node = mn_lookup_node(&r->lookup, r->mesh, node);
    if (end->node < 0)
        return mn_read_fail(r, value, "ends: \"%.130s\": no node is named \"%s\"", value->text,
                            node);
    end->nic = mn_mesh_nic_index(&r->mesh->nodes[end->node], slash + 1);
    if (end->nic < 0)
        return mn_read_fail(r, value, "ends: \"%.130s\": node %s has no NIC named \"%.64s\"",
                            value->text, node, slash + 1);
    if (mn_mesh_end_nic(r->mesh, end)->role == MN_ROLE_MANAGEMENT)
        return mn_read_fail(r, value,
                            "ends: \"%.130s\" has the role management, so that no data goes over "
                            "it; expected another NIC, or \"role: cable\" there",
                            value->text);
    return MN_OK;
}

enum mn_err mn_read_ends(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                         struct mn_mesh_end ends[2])
{
    static const char *const expected = "a list of two ends, like [spark-a/p0, spark-b/p0]";
    if (value->kind != MN_YAML_LIST)
        return mn_read_fail_kind(r, key, value, expected);
    if (value->n_items != 2)
        return mn_read_fail(r, value, "ends: %zu entries; expected %s", value->n_items, expected);
    for (int side = 0; side < 2; side++) {
        enum mn_err err = read_end(r, value->items[side], &ends[side]);
        if (err)
            return err;
    }
    if (ends[0].node == ends[1].node)
        return mn_read_fail(r, value, "ends: both on node %s; expected two nodes",
                            r->mesh->nodes[ends[0].node].name);
    return MN_OK;
}

static enum mn_err link_ends(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_link *link = &r->mesh->links[r->link];
    enum mn_err err = mn_read_ends(r, key, value, link->ends);
    if (err)
        return err;
    for (int side = 0; side < 2; side++) {
        int first = mn_lookup_end(&r->lookup, r->mesh, &link->ends[side]);
        if (first >= 0)
            return mn_read_fail(r, value->items[side],
                                "ends: \"%.130s\" is in two links, first on line %d; a cable has a "
                                "NIC of its own at either end",
                                value->items[side]->text, r->mesh->links[first].line);
    }
    err = mn_lookup_put_ends(&r->lookup, r->mesh, (int)r->link, r->diag);
    if (err)
        return err;
    const struct mn_mesh_nic *a = mn_mesh_end_nic(r->mesh, &link->ends[0]);
    const struct mn_mesh_nic *b = mn_mesh_end_nic(r->mesh, &link->ends[1]);
    if (!mn_link_subnet(a, b, &link->subnet) && !mn_nic_is_bare(a) && !mn_nic_is_bare(b))
        return mn_read_fail(
            r, value,
            "ends: %.130s and %.130s share no subnet under both prefix lengths; expected an "
            "address of each inside the other's subnet, or, where routers are in between, an "
            "entry of routes",
            value->items[0]->text, value->items[1]->text);
    return MN_OK;
}

static enum mn_err read_link(struct mn_reader *r, const struct mn_yaml *value)
{
    static const struct mn_read_key keys[] = {{"name", link_name, 0},
                                              {"ends", link_ends, 1},
                                              {NULL, NULL, 0}};
    struct mn_mesh *mesh = r->mesh;
    struct mn_mesh_link *link = mn_push(&mesh->links, &mesh->n_links, sizeof *link, r->diag);
    if (!link)
        return MN_ERR_NOMEM;
    r->link = mesh->n_links - 1;
    link->line = value->line;
    link->column = value->column;
    return mn_read_map(r, "a link", value, keys);
}

/* --- settings ------------------------------------------------------------------------------- */

static enum mn_err read_setting(struct mn_reader *r, const struct mn_setting *row,
                                const struct mn_yaml *value)
{
    char expected[128];
    mn_setting_expected(row, expected, sizeof expected);
    if (value->kind != MN_YAML_SCALAR || (mn_yaml_is_null(value)) ||
        !mn_setting_set(row, value->text, &r->mesh->settings))
        return mn_read_fail_kind(r, row->key, value, expected);
    r->mesh->given |= UINT64_C(1) << (row - mn_setting_rows);
    return MN_OK;
}

static enum mn_err read_section(struct mn_reader *r, const char *section, const struct mn_yaml *map)
{
    const char *names[32] = {NULL};
    size_t count = 0;
    if (map->kind != MN_YAML_MAP)
        return mn_read_fail_kind(r, section, map, "a mapping (key: value)");
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++)
        if (!strcmp(row->section, section))
            names[count++] = row->key;
    enum mn_err err = mn_read_check_keys(r, section, map, names);
    for (const struct mn_setting *row = mn_setting_rows; row->section && !err; row++) {
        const struct mn_yaml *value =
            strcmp(row->section, section) == 0 ? mn_read_map_get(map, row->key) : NULL;
        if (value)
            err = read_setting(r, row, value);
    }
    return err;
}

/* --- file ----------------------------------------------------------------------------------- */

static enum mn_err mesh_version(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind != MN_YAML_SCALAR || strcmp(value->text, "1") != 0)
        return mn_read_fail_kind(r, key, value, "1, the version that this meshnet reads");
    return MN_OK;
}

static enum mn_err mesh_name(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_name(r, key, value, r->mesh->name);
}

static enum mn_err mesh_nodes(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind == MN_YAML_LIST && value->n_items == 0)
        return mn_read_fail(r, value,
                            "nodes: an empty list; expected at least one node (- name: …)");
    return mn_read_list(r, key, value, MN_MESH_NODES_MAX, "a list of nodes (- name: …)", read_node);
}

static enum mn_err mesh_links(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind == MN_YAML_LIST && value->n_items == 0)
        return mn_read_fail(
            r, value,
            "links: an empty list; expected links, or no such key: then every pair of NICs "
            "that share a subnet is a link");
    return mn_read_list(r, key, value, MN_MESH_LINKS_MAX, "a list of links (- ends: […])",
                        read_link);
}

static enum mn_err read_mesh(struct mn_reader *r, const struct mn_yaml *root)
{
    static const struct mn_read_key keys[] = {{"version", mesh_version, 1},
                                              {"name", mesh_name, 0},
                                              {"nodes", mesh_nodes, 1},
                                              {"links", mesh_links, 0},
                                              {"routes", mn_read_routes, 0},
                                              {"transport", read_section, 0},
                                              {"plugin", read_section, 0},
                                              {"relay", read_section, 0},
                                              {NULL, NULL, 0}};
    enum mn_err err = mn_read_map(r, "the mesh file", root, keys);
    if (err)
        return err;
    if (!r->mesh->n_links)
        return mn_link_find(r->mesh, r->file, r->diag);
    err = mn_link_name(r->mesh, r->diag);
    return err ? err : mn_link_overlap(r->mesh, r->file, r->diag);
}

enum mn_err mn_mesh_parse(const char *name, const char *text, size_t len, struct mn_mesh *mesh,
                          struct mn_diag *diag)
{
    struct mn_reader r = {.file = name, .diag = diag, .mesh = mesh};
    struct mn_yaml *root;
    mn_mesh_free(mesh);
    enum mn_err err = mn_yaml_parse(name, text, len, &root, diag);
    if (!err && (!root || mn_yaml_is_null(root)))
        err = mn_mesh_fail_at(diag, name, 1, 1,
                              "the file is empty; expected a mesh that begins with \"version: 1\"");
    else if (!err)
        err = read_mesh(&r, root);
    mn_yaml_free(root);
    mn_lookup_free(&r.lookup);
    if (err)
        mn_mesh_free(mesh);
    return err;
}

static struct {
    char *path, *text;
    size_t len;
    struct mn_diag why;
} held;

void mn_mesh_hold(const char *path, const char *text, size_t len, const struct mn_diag *why)
{
    free(held.path);
    free(held.text);
    held.path = path ? mn_strdup(path) : NULL;
    held.text = NULL;
    held.len = len;
    if (text) {
        held.text = mn_zalloc(len + 1);
        memcpy(held.text, text, len);
    }
    if (why)
        held.why = *why;
}

enum mn_err mn_mesh_read(const char *path, struct mn_mesh *mesh, struct mn_diag *diag)
{
    char *text;
    size_t len;
    mn_mesh_free(mesh);
    if (held.path && !strcmp(held.path, path))
        return held.text ? mn_mesh_parse(path, held.text, held.len, mesh, diag)
                         : mn_fail(diag, MN_ERR_CONFIG, "%s", held.why.text);
    enum mn_err err = mn_file_read_named(path, MN_YAML_MAX, &text, &len, diag);
    if (err)
        return err;
    err = mn_mesh_parse(path, text, len, mesh, diag);
    free(text);
    return err;
}

enum mn_err mn_settings_in_force(struct mn_settings *settings, struct mn_diag *diag)
{
    struct mn_mesh mesh;
    char path[512];
    enum mn_err err = MN_OK;

    mn_mesh_init(&mesh);
    if (mn_mesh_find_file(path, sizeof path))
        err = mn_mesh_read(path, &mesh, diag);
    *settings = mesh.settings;
    mn_mesh_free(&mesh);
    return err ? err : mn_settings_from_env(settings, diag);
}
