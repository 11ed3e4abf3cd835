/* The netlink answers of a recorded host, from JSON. Format: tests/fixtures/README.md.
 * Read with libyaml, of which JSON is a subset: it tells lines, and the plugin, which carries
 * mn_host_read(), needs it anyway for the mesh file. */
#include "topo/nic_read.h"

#include <limits.h>
#include <linux/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "topo/base/alloc.h"

#define MAX_FILE (1u << 20)

struct recorded {
    const char *path;
    yaml_document_t *document;
    struct mn_host *host;
    struct mn_diag *diag;
    struct mn_neighbour *neighbours;
    size_t n_neighbours;
};

static enum mn_err wrong(const struct recorded *r, const yaml_node_t *node, const char *key,
                         const char *expected)
{
    return mn_fail(r->diag, MN_ERR_CONFIG, "%s:%zu:%zu: \"%s\" is missing or wrong; expected %s",
                   r->path, node->start_mark.line + 1, node->start_mark.column + 1, key, expected);
}

static yaml_node_t *get(const struct recorded *r, const yaml_node_t *map, const char *key)
{
    if (map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        if (name->type == YAML_SCALAR_NODE &&
            strcmp((const char *)name->data.scalar.value, key) == 0)
            return yaml_document_get_node(r->document, p->value);
    }
    return NULL;
}

static const char *get_text(const struct recorded *r, const yaml_node_t *map, const char *key)
{
    const yaml_node_t *node = get(r, map, key);
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

/* An integer in 0..max; absent gives def, unless that is negative. */
static int get_number(const struct recorded *r, const yaml_node_t *map, const char *key,
                      unsigned long long max, long long def, unsigned long long *value)
{
    char *end;
    if (!get(r, map, key)) {
        *value = def < 0 ? 0 : (unsigned long long)def;
        return def >= 0;
    }
    const char *text = get_text(r, map, key);
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *value <= max;
}

static int is_true(const struct recorded *r, const yaml_node_t *map, const char *key)
{
    return strcmp(get_text(r, map, key), "true") == 0;
}

static int parse_mac(const char *text, uint8_t mac[6])
{
    unsigned part[6];
    int used = 0;
    if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &part[0], &part[1], &part[2], &part[3], &part[4],
               &part[5], &used) != 6 ||
        text[used] != '\0')
        return 0;
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)part[i];
    return 1;
}

static int parse_arp_type(const char *text, unsigned *type)
{
    static const struct {
        const char *name;
        unsigned type;
    } rows[] = {{"", ARPHRD_ETHER},
                {"ether", ARPHRD_ETHER},
                {"loopback", ARPHRD_LOOPBACK},
                {"infiniband", ARPHRD_INFINIBAND},
                {"none", ARPHRD_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, text) == 0) {
            *type = rows[i].type;
            return 1;
        }
    return 0;
}

static enum mn_err add_link(struct recorded *r, const yaml_node_t *link)
{
    struct mn_host *host = r->host;
    struct mn_nic *nic = mn_push(&host->nics, &host->n_nics, sizeof *nic, r->diag);
    if (!nic)
        return MN_ERR_NOMEM;
    unsigned arp_type;
    unsigned long long number;
    const char *name = get_text(r, link, "name"), *mac = get_text(r, link, "mac");
    if (!*name || !mn_strlcpy(nic->netdev, name, sizeof nic->netdev) || strchr(name, '/'))
        return wrong(r, link, "name", "a netdev name of at most 15 characters");
    if (!get_number(r, link, "ifindex", INT_MAX, -1, &number) || number == 0)
        return wrong(r, link, "ifindex", "a number from 1");
    nic->ifindex = (int)number;
    if (!get_number(r, link, "mtu", INT_MAX, 1500, &number))
        return wrong(r, link, "mtu", "a number");
    nic->mtu = (int)number;
    if (!parse_arp_type(get_text(r, link, "type"), &arp_type))
        return wrong(r, link, "type", "ether, loopback, infiniband or none");
    nic->kind = mn_nic_kind_of(arp_type, get_text(r, link, "kind"));
    nic->has_mac = *mac != '\0';
    if (nic->has_mac && !parse_mac(mac, nic->mac))
        return wrong(r, link, "mac", "six bytes like 02:00:00:00:00:01");
    if (!mn_strlcpy(nic->master, get_text(r, link, "master"), sizeof nic->master))
        return wrong(r, link, "master", "a netdev name of at most 15 characters");
    nic->admin_up = is_true(r, link, "up");
    nic->carrier = is_true(r, link, "carrier");
    return MN_OK;
}

static enum mn_err add_addr(struct recorded *r, const yaml_node_t *entry)
{
    unsigned long long ifindex, prefix;
    struct mn_addr parsed;
    if (mn_addr_parse(get_text(r, entry, "address"), &parsed, NULL) != MN_OK || parsed.prefix >= 0)
        return wrong(r, entry, "address", "an address without its prefix length");
    if (strcmp(get_text(r, entry, "family"), parsed.family == AF_INET ? "inet" : "inet6") != 0)
        return wrong(r, entry, "family", "inet or inet6, like the address");
    if (!get_number(r, entry, "prefix", parsed.family == AF_INET ? 32 : 128, -1, &prefix))
        return wrong(r, entry, "prefix", "0 to 32, or 128 for inet6");
    if (!get_number(r, entry, "ifindex", INT_MAX, -1, &ifindex))
        return wrong(r, entry, "ifindex", "the ifindex of a link");
    parsed.prefix = (int)prefix;
    for (size_t i = 0; i < r->host->n_nics; i++) {
        struct mn_nic *nic = &r->host->nics[i];
        if (nic->ifindex != (int)ifindex)
            continue;
        struct mn_addr *addr = mn_push(&nic->addrs, &nic->n_addrs, sizeof *addr, r->diag);
        if (!addr)
            return MN_ERR_NOMEM;
        *addr = parsed;
        nic->leased |= is_true(r, entry, "dynamic") && !mn_addr_is_link_local(addr) &&
                       !mn_addr_is_self_assigned(addr);
        return MN_OK;
    }
    return wrong(r, entry, "ifindex", "the ifindex of a link");
}

/* What old recordings do not have: routes and neighbours. */

static enum mn_err add_route(struct recorded *r, const yaml_node_t *entry)
{
    const char *to = get_text(r, entry, "to"), *via = get_text(r, entry, "via");
    unsigned long long ifindex;
    struct mn_route route = {.to = {.family = AF_INET}};
    if (!get_number(r, entry, "ifindex", INT_MAX, -1, &ifindex))
        return wrong(r, entry, "ifindex", "the ifindex of a link");
    if (strcmp(to, "default") != 0 && mn_addr_parse(to, &route.to, NULL))
        return wrong(r, entry, "to", "\"default\", or a subnet");
    if (*via && (mn_addr_parse(via, &route.via, NULL) || route.via.prefix >= 0))
        return wrong(r, entry, "via", "the address of a gateway, or nothing");
    if (route.to.prefix < 0)
        route.to.prefix = route.to.family == AF_INET ? 32 : 128;
    route.ifindex = (int)ifindex;
    mn_host_add_route(r->host, &route);
    return MN_OK;
}

static enum mn_err add_neighbour(struct recorded *r, const yaml_node_t *entry)
{
    unsigned long long ifindex;
    struct mn_neighbour found = {.mac_size = 6};
    if (!get_number(r, entry, "ifindex", INT_MAX, -1, &ifindex))
        return wrong(r, entry, "ifindex", "the ifindex of a link");
    if (mn_addr_parse(get_text(r, entry, "address"), &found.addr, NULL) || found.addr.prefix >= 0)
        return wrong(r, entry, "address", "an address without a prefix length");
    if (!parse_mac(get_text(r, entry, "mac"), found.mac))
        return wrong(r, entry, "mac", "six bytes like 02:00:00:00:00:01");
    found.ifindex = (int)ifindex;
    struct mn_neighbour *place = mn_push(&r->neighbours, &r->n_neighbours, sizeof *place, r->diag);
    if (!place)
        return MN_ERR_NOMEM;
    *place = found;
    return MN_OK;
}

static enum mn_err read_list(struct recorded *r, const yaml_node_t *root, const char *key,
                             int required,
                             enum mn_err (*add)(struct recorded *, const yaml_node_t *))
{
    const yaml_node_t *list = get(r, root, key);
    if (!list && !required)
        return MN_OK;
    if (!list || list->type != YAML_SEQUENCE_NODE)
        return wrong(r, root, key, "a list");
    enum mn_err err = MN_OK;
    for (yaml_node_item_t *item = list->data.sequence.items.start;
         err == MN_OK && item < list->data.sequence.items.top; item++)
        err = add(r, yaml_document_get_node(r->document, *item));
    return err;
}

static enum mn_err read_document(struct recorded *r)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    unsigned long long memlock;
    if (!root)
        return mn_fail(r->diag, MN_ERR_CONFIG, "%s: empty; expected a JSON object", r->path);
    mn_strlcpy(r->host->hostname, get_text(r, root, "hostname"), sizeof r->host->hostname);
    if (!get_number(r, root, "memlock", UINT64_MAX, LLONG_MAX, &memlock))
        return wrong(r, root, "memlock", "bytes, or nothing for unlimited");
    r->host->memlock = memlock == LLONG_MAX ? UINT64_MAX : memlock;
    enum mn_err err = read_list(r, root, "links", 1, add_link);
    if (!err)
        err = read_list(r, root, "addresses", 1, add_addr);
    if (!err)
        err = read_list(r, root, "routes", 0, add_route);
    if (!err)
        err = read_list(r, root, "neighbours", 0, add_neighbour);
    if (!err)
        mn_host_count_neighbours(r->host, r->neighbours, r->n_neighbours);
    free(r->neighbours);
    return err;
}

enum mn_err mn_host_read_recorded(const char *path, struct mn_host *host, struct mn_diag *diag)
{
    char *text;
    size_t len;
    yaml_parser_t parser;
    yaml_document_t document;
    enum mn_err err = mn_file_read_named(path, MAX_FILE, &text, &len, diag);
    if (err != MN_OK)
        return err;
    if (!yaml_parser_initialize(&parser)) {
        free(text);
        return mn_fail(diag, MN_ERR_NOMEM, "%s: no memory for the parser", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (yaml_parser_load(&parser, &document)) {
        struct recorded r = {.path = path, .document = &document, .host = host, .diag = diag};
        err = read_document(&r);
        yaml_document_delete(&document);
    } else {
        err = mn_fail(diag, MN_ERR_CONFIG, "%s:%zu:%zu: not JSON: %s", path,
                      parser.problem_mark.line + 1, parser.problem_mark.column + 1,
                      parser.problem ? parser.problem : "out of memory");
    }
    yaml_parser_delete(&parser);
    free(text);
    return err;
}
