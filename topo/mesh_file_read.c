/* From the tree of a mesh file to the model. Each level is a table of keys; its rows are read in
 * table order, so that a row may rely on those above it. */
#include "topo/mesh_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_setting.h"
#include "topo/mesh_yaml.h"

struct reader {
    const char *file;
    struct mn_diag *diag;
    struct mn_mesh *mesh;
    size_t node, nic, link; /* being read */
};

struct key {
    const char *name;
    enum mn_err (*read)(struct reader *r, const char *key, const struct mn_yaml *value);
    int required;
};

__attribute__((format(printf, 3, 4))) static enum mn_err
fail(struct reader *r, const struct mn_yaml *at, const char *fmt, ...)
{
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mn_mesh_fail_at(r->diag, r->file, at->line, at->column, "%s", text);
}

/* --- keys ----------------------------------------------------------------------------------- */

/* Edit distance, bounded by the length of keys. */
static size_t distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b), m = strlen(a);
    if (n >= 32 || m >= 32)
        return 99;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[n];
}

/* keys: the names known here, NULL at the end. */
static enum mn_err fail_unknown(struct reader *r, const char *what, const struct mn_yaml *key,
                                const char *const *keys)
{
    const char *nearest = NULL;
    size_t best = 4;
    char list[256] = "";
    for (; *keys; keys++) {
        size_t used = strlen(list), d = distance(key->text, *keys);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", *keys);
        if (d < best && d < strlen(*keys)) {
            best = d;
            nearest = *keys;
        }
    }
    if (nearest)
        return fail(r, key, "unknown key \"%.64s\" in %s; did you mean \"%s\"?", key->text, what,
                    nearest);
    return fail(r, key, "unknown key \"%.64s\" in %s; expected %s", key->text, what, list);
}

static enum mn_err fail_kind(struct reader *r, const char *key, const struct mn_yaml *value,
                             const char *expected)
{
    if (value->kind == MN_YAML_SCALAR && !mn_yaml_is_null(value))
        return fail(r, value, "%s: \"%.64s\"; expected %s", key, value->text, expected);
    return fail(r, value, "%s: %s; expected %s", key, mn_yaml_kind_name(value), expected);
}

static enum mn_err check_duplicates(struct reader *r, const char *what, const struct mn_yaml *map)
{
    for (size_t i = 0; i < map->n_items; i += 2)
        for (size_t j = 0; j < i; j += 2)
            if (!strcmp(map->items[i]->text, map->items[j]->text))
                return fail(r, map->items[i],
                            "duplicate key \"%.64s\" in %s, first on line %d; expected it once",
                            map->items[i]->text, what, map->items[j]->line);
    return MN_OK;
}

static const struct mn_yaml *map_get(const struct mn_yaml *map, const char *key)
{
    for (size_t i = 0; i < map->n_items; i += 2)
        if (!strcmp(map->items[i]->text, key))
            return map->items[i + 1];
    return NULL;
}

/* Refuses keys outside the table first: a file of twenty wrong lines is told about line one. */
static enum mn_err check_keys(struct reader *r, const char *what, const struct mn_yaml *map,
                              const char *const *names)
{
    for (size_t i = 0; i < map->n_items; i += 2) {
        size_t k = 0;
        while (names[k] && strcmp(map->items[i]->text, names[k]) != 0)
            k++;
        if (!names[k])
            return fail_unknown(r, what, map->items[i], names);
    }
    return check_duplicates(r, what, map);
}

static enum mn_err read_map(struct reader *r, const char *what, const struct mn_yaml *map,
                            const struct key *keys)
{
    const char *names[16] = {NULL};
    if (map->kind != MN_YAML_MAP)
        return fail_kind(r, what, map, "a mapping (key: value)");
    for (size_t k = 0; keys[k].name; k++)
        names[k] = keys[k].name;
    enum mn_err err = check_keys(r, what, map, names);
    for (const struct key *key = keys; key->name && !err; key++) {
        const struct mn_yaml *value = map_get(map, key->name);
        if (value)
            err = key->read(r, key->name, value);
        else if (key->required)
            err = fail(r, map, "%s lacks the key \"%s\"", what, key->name);
    }
    return err;
}

/* --- values --------------------------------------------------------------------------------- */

static struct mn_mesh_node *this_node(struct reader *r)
{
    return &r->mesh->nodes[r->node];
}

static struct mn_mesh_nic *this_nic(struct reader *r)
{
    return &this_node(r)->nics[r->nic];
}

static enum mn_err read_text(struct reader *r, const char *key, const struct mn_yaml *value,
                             size_t size, char *text)
{
    if (value->kind != MN_YAML_SCALAR || mn_yaml_is_null(value) || !*value->text)
        return fail_kind(r, key, value, "text");
    if (strlen(value->text) >= size)
        return fail(r, value, "%s: \"%.40s…\" is %zu bytes long; expected at most %zu", key,
                    value->text, strlen(value->text), size - 1);
    mn_strlcpy(text, value->text, size);
    return MN_OK;
}

/* A name that stands in "node/nic". */
static enum mn_err read_name(struct reader *r, const char *key, const struct mn_yaml *value,
                             char *name)
{
    enum mn_err err = read_text(r, key, value, MN_NAME_MAX, name);
    if (err)
        return err;
    if (strchr(name, '/'))
        return fail(r, value, "%s: \"%s\" contains a slash; expected a name without one", key,
                    name);
    if (name[0] == ' ' || name[strlen(name) - 1] == ' ')
        return fail(r, value, "%s: \"%s\" begins or ends with a space; expected a name", key, name);
    return MN_OK;
}

static enum mn_err read_long(struct reader *r, const char *key, const struct mn_yaml *value,
                             long min, long max, long *number)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %ld to %ld", min, max);
    if (value->kind != MN_YAML_SCALAR || !value->plain ||
        !mn_parse_long(value->text, min, max, number))
        return fail_kind(r, key, value, expected);
    return MN_OK;
}

/* Takes each element of a list with the reader r->…: count is where the caller keeps its index. */
static enum mn_err read_list(struct reader *r, const char *key, const struct mn_yaml *list,
                             size_t max, const char *expected,
                             enum mn_err (*read)(struct reader *r, const struct mn_yaml *item))
{
    if (list->kind != MN_YAML_LIST)
        return fail_kind(r, key, list, expected);
    if (list->n_items > max)
        return fail(r, list->items[max], "%s: %zu entries; expected at most %zu", key,
                    list->n_items, max);
    for (size_t i = 0; i < list->n_items; i++) {
        enum mn_err err = read(r, list->items[i]);
        if (err)
            return err;
    }
    return MN_OK;
}

/* --- NIC ------------------------------------------------------------------------------------ */

static enum mn_err nic_netdev(struct reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    enum mn_err err = read_text(r, key, value, sizeof nic->netdev, nic->netdev);
    if (!err &&
        (strpbrk(nic->netdev, "/: ") || !strcmp(nic->netdev, ".") || !strcmp(nic->netdev, "..")))
        err = fail(r, value,
                   "netdev: \"%s\"; expected a network interface without slash, colon "
                   "and space",
                   nic->netdev);
    if (!err)
        mn_strlcpy(nic->name, nic->netdev, sizeof nic->name);
    return err;
}

static enum mn_err nic_name(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_name(r, key, value, this_nic(r)->name);
}

static enum mn_err nic_device(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_text(r, key, value, sizeof this_nic(r)->device, this_nic(r)->device);
}

static enum mn_err nic_port(struct reader *r, const char *key, const struct mn_yaml *value)
{
    long port = 1;
    enum mn_err err = read_long(r, key, value, 1, 254, &port);
    if (!err && !this_nic(r)->device[0])
        err = fail(r, value, "port: %ld without a device; expected the key \"device\" beside it",
                   port);
    this_nic(r)->port = (int)port;
    return err;
}

static int parse_mac(const char *text, uint8_t mac[6])
{
    static const uint8_t zero[6];
    for (int i = 0; i < 6; i++, text += 3) {
        unsigned byte = 0;
        for (int j = 0; j < 2; j++) {
            char c = text[j];
            int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
            if (digit < 0)
                return 0;
            byte = byte << 4 | (unsigned)digit;
        }
        if (text[2] != (i < 5 ? ':' : '\0'))
            return 0;
        mac[i] = (uint8_t)byte;
    }
    return !(mac[0] & 1) && memcmp(mac, zero, 6) != 0;
}

static enum mn_err nic_mac(struct reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    if (value->kind != MN_YAML_SCALAR || !parse_mac(value->text, nic->mac))
        return fail_kind(r, key, value, "the MAC address of one NIC, like 4c:bb:47:00:00:01");
    nic->has_mac = 1;
    for (size_t n = 0; n < r->node; n++)
        for (size_t i = 0; i < r->mesh->nodes[n].n_nics; i++) {
            const struct mn_mesh_nic *other = &r->mesh->nodes[n].nics[i];
            if (other->has_mac && !memcmp(other->mac, nic->mac, 6))
                return fail(r, value,
                            "mac: \"%s\" is used twice, before by %s/%s; expected one owner",
                            value->text, r->mesh->nodes[n].name, other->name);
        }
    return MN_OK;
}

/* The first and last address of an IPv4 subnet name the net and everybody in it. */
static int is_net_or_broadcast(const struct mn_addr *addr)
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

static enum mn_err read_address(struct reader *r, const char *key, const struct mn_yaml *value,
                                struct mn_addr *addr)
{
    struct mn_diag why;
    if (value->kind != MN_YAML_SCALAR || mn_yaml_is_null(value))
        return fail_kind(r, key, value, "an address");
    if (mn_addr_parse(value->text, addr, &why))
        return fail(r, value, "%s: %s", key, why.text);
    return MN_OK;
}

static enum mn_err nic_address(struct reader *r, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    struct mn_addr addr;
    char why[512];
    enum mn_err err = read_address(r, "addresses", value, &addr);
    if (err)
        return err;
    if (addr.prefix < 0)
        return fail(
            r, value,
            "addresses: \"%s\" has no prefix length; expected it behind a slash, like %s/24",
            value->text, value->text);
    if (is_net_or_broadcast(&addr))
        return fail(r, value,
                    "addresses: \"%s\" is the network or broadcast address of its subnet; expected "
                    "the address of a host",
                    value->text);
    if (mn_mesh_addr_conflict(r->mesh, r->node, r->nic, &addr, why))
        return fail(r, value, "%s", why);
    *(struct mn_addr *)mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *nic->addrs) = addr;
    return MN_OK;
}

static enum mn_err nic_addresses(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_list(r, key, value, MN_MESH_ADDRS_MAX, "a list of addresses, like [10.0.1.1/24]",
                     nic_address);
}

static enum mn_err gid_index(struct reader *r, const char *key, const struct mn_yaml *value)
{
    long index = -1;
    enum mn_err err = read_long(r, key, value, 0, 65535, &index);
    this_nic(r)->gid_index = (int)index;
    return err;
}

static enum mn_err gid_address(struct reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    enum mn_err err = read_address(r, key, value, &nic->gid_addr);
    if (err)
        return err;
    if (nic->gid_addr.prefix >= 0)
        return fail(r, value, "gid address: \"%s\"; expected it without a prefix length",
                    value->text);
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], &nic->gid_addr))
            return MN_OK;
    return fail(r, value, "gid address: \"%s\" is not among the addresses of NIC %s", value->text,
                nic->name);
}

static enum mn_err nic_gid(struct reader *r, const char *key, const struct mn_yaml *value)
{
    static const struct key keys[] = {{"index", gid_index, 1},
                                      {"address", gid_address, 0},
                                      {NULL, NULL, 0}};
    return read_map(r, key, value, keys);
}

static enum mn_err nic_speed(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_long(r, key, value, 1, 10000000, &this_nic(r)->speed_mbps);
}

static enum mn_err nic_mtu(struct reader *r, const char *key, const struct mn_yaml *value)
{
    long mtu = 0;
    enum mn_err err = read_long(r, key, value, 576, 65536, &mtu);
    this_nic(r)->mtu = (int)mtu;
    return err;
}

static enum mn_err nic_group(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_name(r, key, value, this_nic(r)->group);
}

static enum mn_err read_nic(struct reader *r, const struct mn_yaml *value)
{
    static const struct key keys[] =
        {{"netdev", nic_netdev, 1}, {"name", nic_name, 0},   {"device", nic_device, 0},
         {"port", nic_port, 0},     {"mac", nic_mac, 0},     {"addresses", nic_addresses, 0},
         {"gid", nic_gid, 0},       {"speed", nic_speed, 0}, {"mtu", nic_mtu, 0},
         {"group", nic_group, 0},   {NULL, NULL, 0}};
    struct mn_mesh_node *node = this_node(r);
    struct mn_mesh_nic *nic = mn_grow((void **)&node->nics, &node->n_nics, sizeof *node->nics);
    r->nic = node->n_nics - 1;
    nic->line = value->line;
    nic->column = value->column;
    nic->port = 1;
    nic->gid_index = -1;
    enum mn_err err = read_map(r, "a NIC", value, keys);
    if (err)
        return err;
    size_t first = (size_t)mn_mesh_nic_index(node, nic->name);
    if (first != r->nic)
        return fail(r, value, "NIC name \"%s\" is used twice in node %s, first on line %d",
                    nic->name, node->name, node->nics[first].line);
    return MN_OK;
}

/* --- node ----------------------------------------------------------------------------------- */

static enum mn_err node_name(struct reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_node *node = this_node(r);
    enum mn_err err = read_name(r, key, value, node->name);
    if (err)
        return err;
    mn_strlcpy(node->hostname, node->name, sizeof node->hostname);
    size_t first = (size_t)mn_mesh_node_index(r->mesh, node->name);
    if (first != r->node)
        return fail(r, value, "node name \"%s\" is used twice, first on line %d", node->name,
                    r->mesh->nodes[first].line);
    return MN_OK;
}

static enum mn_err node_hostname(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_text(r, key, value, sizeof this_node(r)->hostname, this_node(r)->hostname);
}

static enum mn_err node_nics(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_list(r, key, value, MN_MESH_NICS_MAX, "a list of NICs (- netdev: …)", read_nic);
}

static enum mn_err read_node(struct reader *r, const struct mn_yaml *value)
{
    static const struct key keys[] = {{"name", node_name, 1},
                                      {"hostname", node_hostname, 0},
                                      {"nics", node_nics, 0},
                                      {NULL, NULL, 0}};
    struct mn_mesh *mesh = r->mesh;
    struct mn_mesh_node *node = mn_grow((void **)&mesh->nodes, &mesh->n_nodes, sizeof *mesh->nodes);
    r->node = mesh->n_nodes - 1;
    node->line = value->line;
    node->column = value->column;
    return read_map(r, "a node", value, keys);
}

/* --- link ----------------------------------------------------------------------------------- */

static enum mn_err link_name(struct reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_link *link = &r->mesh->links[r->link];
    enum mn_err err = read_name(r, key, value, link->name);
    for (size_t i = 0; i < r->link && !err; i++)
        if (!strcmp(r->mesh->links[i].name, link->name))
            err = fail(r, value, "link name \"%s\" is used twice, first on line %d", link->name,
                       r->mesh->links[i].line);
    return err;
}

static enum mn_err read_end(struct reader *r, const struct mn_yaml *value, struct mn_mesh_end *end)
{
    char node[MN_NAME_MAX];
    const char *slash = value->kind == MN_YAML_SCALAR ? strchr(value->text, '/') : NULL;
    if (!slash || slash == value->text || (size_t)(slash - value->text) >= sizeof node)
        return fail_kind(r, "ends", value, "node/nic, like spark-a/p0");
    mn_strlcpy(node, value->text, (size_t)(slash - value->text) + 1);
    end->node = mn_mesh_node_index(r->mesh, node);
    if (end->node < 0)
        return fail(r, value, "ends: \"%.130s\": no node is named \"%s\"", value->text, node);
    end->nic = mn_mesh_nic_index(&r->mesh->nodes[end->node], slash + 1);
    if (end->nic < 0)
        return fail(r, value, "ends: \"%.130s\": node %s has no NIC named \"%.64s\"", value->text,
                    node, slash + 1);
    for (size_t i = 0; i < r->link; i++)
        for (int side = 0; side < 2; side++)
            if (!memcmp(&r->mesh->links[i].ends[side], end, sizeof *end))
                return fail(r, value,
                            "ends: \"%.130s\" is in two links, first on line %d; a cable has a NIC "
                            "of its own at either end",
                            value->text, r->mesh->links[i].line);
    return MN_OK;
}

static enum mn_err link_ends(struct reader *r, const char *key, const struct mn_yaml *value)
{
    static const char *const expected = "a list of two ends, like [spark-a/p0, spark-b/p0]";
    struct mn_mesh_link *link = &r->mesh->links[r->link];
    if (value->kind != MN_YAML_LIST)
        return fail_kind(r, key, value, expected);
    if (value->n_items != 2)
        return fail(r, value, "ends: %zu entries; expected %s", value->n_items, expected);
    for (int side = 0; side < 2; side++) {
        enum mn_err err = read_end(r, value->items[side], &link->ends[side]);
        if (err)
            return err;
    }
    if (link->ends[0].node == link->ends[1].node)
        return fail(r, value, "ends: both on node %s; expected two nodes",
                    r->mesh->nodes[link->ends[0].node].name);
    if (!mn_link_subnet(mn_mesh_end_nic(r->mesh, &link->ends[0]),
                        mn_mesh_end_nic(r->mesh, &link->ends[1]), &link->subnet))
        return fail(
            r, value,
            "ends: %.130s and %.130s share no subnet under both prefix lengths; expected an "
            "address of each inside the other's subnet",
            value->items[0]->text, value->items[1]->text);
    return MN_OK;
}

static enum mn_err read_link(struct reader *r, const struct mn_yaml *value)
{
    static const struct key keys[] = {{"name", link_name, 0},
                                      {"ends", link_ends, 1},
                                      {NULL, NULL, 0}};
    struct mn_mesh *mesh = r->mesh;
    struct mn_mesh_link *link = mn_grow((void **)&mesh->links, &mesh->n_links, sizeof *mesh->links);
    r->link = mesh->n_links - 1;
    link->line = value->line;
    link->column = value->column;
    return read_map(r, "a link", value, keys);
}

/* --- settings ------------------------------------------------------------------------------- */

static enum mn_err read_setting(struct reader *r, const struct mn_setting *row,
                                const struct mn_yaml *value)
{
    char expected[128];
    mn_setting_expected(row, expected, sizeof expected);
    if (value->kind != MN_YAML_SCALAR || (mn_yaml_is_null(value)) ||
        !mn_setting_set(row, value->text, &r->mesh->settings))
        return fail_kind(r, row->key, value, expected);
    return MN_OK;
}

static enum mn_err read_section(struct reader *r, const char *section, const struct mn_yaml *map)
{
    const char *names[32] = {NULL};
    size_t count = 0;
    struct mn_diag why;
    if (map->kind != MN_YAML_MAP)
        return fail_kind(r, section, map, "a mapping (key: value)");
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++)
        if (!strcmp(row->section, section))
            names[count++] = row->key;
    enum mn_err err = check_keys(r, section, map, names);
    for (const struct mn_setting *row = mn_setting_rows; row->section && !err; row++) {
        const struct mn_yaml *value =
            strcmp(row->section, section) == 0 ? map_get(map, row->key) : NULL;
        if (value)
            err = read_setting(r, row, value);
    }
    if (!err && mn_settings_check(&r->mesh->settings, &why))
        err = fail(r, map, "%s", why.text);
    return err;
}

/* --- file ----------------------------------------------------------------------------------- */

static enum mn_err mesh_version(struct reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind != MN_YAML_SCALAR || strcmp(value->text, "1") != 0)
        return fail_kind(r, key, value, "1, the version that this meshnet reads");
    return MN_OK;
}

static enum mn_err mesh_name(struct reader *r, const char *key, const struct mn_yaml *value)
{
    return read_name(r, key, value, r->mesh->name);
}

static enum mn_err mesh_nodes(struct reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind == MN_YAML_LIST && value->n_items == 0)
        return fail(r, value, "nodes: an empty list; expected at least one node (- name: …)");
    return read_list(r, key, value, MN_MESH_NODES_MAX, "a list of nodes (- name: …)", read_node);
}

static enum mn_err mesh_links(struct reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind == MN_YAML_LIST && value->n_items == 0)
        return fail(r, value,
                    "links: an empty list; expected links, or no such key: then every pair of NICs "
                    "that share a subnet is a link");
    return read_list(r, key, value, MN_MESH_LINKS_MAX, "a list of links (- ends: […])", read_link);
}

static enum mn_err read_mesh(struct reader *r, const struct mn_yaml *root)
{
    static const struct key keys[] = {{"version", mesh_version, 1},
                                      {"name", mesh_name, 0},
                                      {"nodes", mesh_nodes, 1},
                                      {"links", mesh_links, 0},
                                      {"transport", read_section, 0},
                                      {"plugin", read_section, 0},
                                      {NULL, NULL, 0}};
    enum mn_err err = read_map(r, "the mesh file", root, keys);
    if (err)
        return err;
    if (!r->mesh->n_links)
        return mn_link_find(r->mesh, r->file, r->diag);
    mn_link_name(r->mesh);
    return mn_link_overlap(r->mesh, r->file, r->diag);
}

enum mn_err mn_mesh_parse(const char *name, const char *text, size_t len, struct mn_mesh *mesh,
                          struct mn_diag *diag)
{
    struct reader r = {.file = name, .diag = diag, .mesh = mesh};
    struct mn_yaml *root;
    mn_mesh_free(mesh);
    enum mn_err err = mn_yaml_parse(name, text, len, &root, diag);
    if (!err && (!root || mn_yaml_is_null(root)))
        err = mn_mesh_fail_at(diag, name, 1, 1,
                              "the file is empty; expected a mesh that begins with \"version: 1\"");
    else if (!err)
        err = read_mesh(&r, root);
    mn_yaml_free(root);
    if (err)
        mn_mesh_free(mesh);
    return err;
}

enum mn_err mn_mesh_read(const char *path, struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct mn_diag why;
    char *text;
    size_t len;
    mn_mesh_free(mesh);
    enum mn_err err = mn_file_read(path, MN_YAML_MAX, &text, &len, &why);
    if (err)
        return mn_fail(diag, err == MN_ERR_NOMEM ? err : MN_ERR_CONFIG, "%s", why.text);
    err = mn_mesh_parse(path, text, len, mesh, diag);
    free(text);
    return err;
}
