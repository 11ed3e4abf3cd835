/* The netlink answers of a recorded host, from JSON. Format: tests/fixtures/README.md. */
#include "topo/nic_read.h"

#include <cjson/cJSON.h>
#include <linux/if_arp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define MAX_FILE (1u << 20)

struct recorded {
    const char *path;
    struct mn_host *host;
    struct mn_diag *diag;
};

static enum mn_err wrong(const struct recorded *r, const char *list, int index, const char *key,
                         const char *expected)
{
    return mn_fail(r->diag, MN_ERR_CONFIG, "%s: %s[%d]: \"%s\" is missing or wrong; expected %s",
                   r->path, list, index, key, expected);
}

static const char *get_text(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

/* An integer in min..max; absent gives def. */
static int get_int(const cJSON *object, const char *key, int min, int max, int def, int *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    *value = def;
    if (!item)
        return def >= min;
    double number = cJSON_GetNumberValue(item);
    if (!(number >= min && number <= max) || number != (int)number)
        return 0;
    *value = (int)number;
    return 1;
}

static int is_true(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
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

static enum mn_err add_link(const struct recorded *r, const cJSON *link, int index)
{
    struct mn_host *host = r->host;
    struct mn_nic *nic = mn_host_push(&host->nics, &host->n_nics, sizeof *nic, r->diag);
    if (!nic)
        return MN_ERR_NOMEM;
    unsigned arp_type;
    const char *name = get_text(link, "name"), *mac = get_text(link, "mac");
    if (!*name || !mn_strlcpy(nic->netdev, name, sizeof nic->netdev) || strchr(name, '/'))
        return wrong(r, "links", index, "name", "a netdev name of at most 15 characters");
    if (!get_int(link, "ifindex", 1, INT_MAX, 0, &nic->ifindex))
        return wrong(r, "links", index, "ifindex", "a number from 1");
    if (!get_int(link, "mtu", 0, INT_MAX, 1500, &nic->mtu))
        return wrong(r, "links", index, "mtu", "a number");
    if (!parse_arp_type(get_text(link, "type"), &arp_type))
        return wrong(r, "links", index, "type", "ether, loopback, infiniband or none");
    nic->kind = mn_nic_kind_of(arp_type, get_text(link, "kind"));
    nic->has_mac = *mac != '\0';
    if (nic->has_mac && !parse_mac(mac, nic->mac))
        return wrong(r, "links", index, "mac", "six bytes like 02:00:00:00:00:01");
    if (!mn_strlcpy(nic->master, get_text(link, "master"), sizeof nic->master))
        return wrong(r, "links", index, "master", "a netdev name of at most 15 characters");
    nic->admin_up = is_true(link, "up");
    nic->carrier = is_true(link, "carrier");
    return MN_OK;
}

static enum mn_err add_addr(const struct recorded *r, const cJSON *entry, int index)
{
    int ifindex, prefix;
    struct mn_addr parsed;
    if (mn_addr_parse(get_text(entry, "address"), &parsed, NULL) != MN_OK || parsed.prefix >= 0)
        return wrong(r, "addresses", index, "address", "an address without its prefix length");
    if (strcmp(get_text(entry, "family"), parsed.family == AF_INET ? "inet" : "inet6") != 0)
        return wrong(r, "addresses", index, "family", "inet or inet6, like the address");
    if (!get_int(entry, "prefix", 0, parsed.family == AF_INET ? 32 : 128, -1, &prefix))
        return wrong(r, "addresses", index, "prefix", "0 to 32, or 128 for inet6");
    if (!get_int(entry, "ifindex", 1, INT_MAX, 0, &ifindex))
        return wrong(r, "addresses", index, "ifindex", "the ifindex of a link");
    parsed.prefix = prefix;
    for (size_t i = 0; i < r->host->n_nics; i++) {
        struct mn_nic *nic = &r->host->nics[i];
        if (nic->ifindex != ifindex)
            continue;
        struct mn_addr *addr = mn_host_push(&nic->addrs, &nic->n_addrs, sizeof *addr, r->diag);
        if (!addr)
            return MN_ERR_NOMEM;
        *addr = parsed;
        return MN_OK;
    }
    return wrong(r, "addresses", index, "ifindex", "the ifindex of a link");
}

static enum mn_err read_document(const struct recorded *r, const cJSON *document)
{
    const cJSON *links = cJSON_GetObjectItemCaseSensitive(document, "links");
    const cJSON *addrs = cJSON_GetObjectItemCaseSensitive(document, "addresses");
    const cJSON *memlock = cJSON_GetObjectItemCaseSensitive(document, "memlock");
    if (!cJSON_IsArray(links) || !cJSON_IsArray(addrs))
        return mn_fail(r->diag, MN_ERR_CONFIG,
                       "%s: expected an object with the lists \"links\" and \"addresses\"",
                       r->path);
    mn_strlcpy(r->host->hostname, get_text(document, "hostname"), sizeof r->host->hostname);
    r->host->memlock = UINT64_MAX;
    if (cJSON_IsNumber(memlock) && memlock->valuedouble >= 0 && memlock->valuedouble < 1e18)
        r->host->memlock = (uint64_t)memlock->valuedouble;
    enum mn_err err = MN_OK;
    int index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, links)
    {
        err = add_link(r, item, index++);
        if (err != MN_OK)
            return err;
    }
    index = 0;
    cJSON_ArrayForEach(item, addrs)
    {
        err = add_addr(r, item, index++);
        if (err != MN_OK)
            return err;
    }
    return MN_OK;
}

enum mn_err mn_host_read_recorded(const char *path, struct mn_host *host, struct mn_diag *diag)
{
    char *text;
    const char *stop = NULL;
    enum mn_err err = mn_file_read(path, MAX_FILE, &text, NULL, diag);
    if (err != MN_OK)
        return err;
    cJSON *document = cJSON_ParseWithOpts(text, &stop, 1);
    if (!document) {
        int line = 1;
        for (const char *at = text; stop && at < stop; at++)
            line += *at == '\n';
        err = mn_fail(diag, MN_ERR_CONFIG, "%s:%d: not JSON", path, line);
    } else {
        struct recorded r = {.path = path, .host = host, .diag = diag};
        err = read_document(&r, document);
    }
    cJSON_Delete(document);
    free(text);
    return err;
}
