/* Links and addresses of this host, read and set through rtnetlink. */
#include "fleet/apply_kernel.h"

#include <linux/if_addr.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/nic_read.h"

static void drop_caches(struct mn_kernel *kernel)
{
    nl_cache_free(kernel->links);
    nl_cache_free(kernel->addrs);
    nl_cache_free(kernel->routes);
    kernel->links = kernel->addrs = kernel->routes = NULL;
}

enum mn_err mn_kernel_refresh(struct mn_kernel *kernel, struct mn_diag *diag)
{
    drop_caches(kernel);
    int code = rtnl_link_alloc_cache(kernel->sock, AF_UNSPEC, &kernel->links);
    if (code >= 0)
        code = rtnl_addr_alloc_cache(kernel->sock, &kernel->addrs);
    if (code >= 0)
        code = rtnl_route_alloc_cache(kernel->sock, AF_UNSPEC, 0, &kernel->routes);
    return code < 0 ? mn_fail(diag, MN_ERR_SYS, "netlink: listing links, addresses and routes: %s",
                              nl_geterror(code))
                    : MN_OK;
}

enum mn_err mn_kernel_open(struct mn_kernel **kernel, struct mn_diag *diag)
{
    struct mn_kernel *k = mn_zalloc(sizeof *k);
    enum mn_err err = mn_nl_open(&k->sock, diag);

    if (!err)
        err = mn_kernel_refresh(k, diag);
    if (err)
        mn_kernel_close(k);
    *kernel = err ? NULL : k;
    return err;
}

void mn_kernel_close(struct mn_kernel *kernel)
{
    if (!kernel)
        return;
    drop_caches(kernel);
    nl_socket_free(kernel->sock);
    free(kernel);
}

enum mn_err mn_kernel_failed(struct mn_diag *diag, const struct mn_change *change, const char *to,
                             int code)
{
    return mn_fail(diag, MN_ERR_SYS, "%s: %s %s: %s%s", change->nic,
                   mn_change_kind_name(change->kind), to, nl_geterror(code),
                   code == -NLE_PERM ? "; changing the network needs root, or CAP_NET_ADMIN" : "");
}

static int has_mac(struct rtnl_link *link, const uint8_t mac[6])
{
    const struct nl_addr *addr = rtnl_link_get_addr(link);

    return addr && nl_addr_get_len(addr) == 6 && !memcmp(nl_addr_get_binary_addr(addr), mac, 6);
}

struct rtnl_link *mn_kernel_link(const struct mn_kernel *kernel, const struct mn_change *change,
                                 struct mn_diag *diag)
{
    struct rtnl_link *same = NULL;
    int count = 0;

    for (struct nl_object *obj = nl_cache_get_first(kernel->links); obj;
         obj = nl_cache_get_next(obj)) {
        struct rtnl_link *link = (struct rtnl_link *)obj;
        int known = !change->has_mac || has_mac(link, change->mac);
        if (rtnl_link_get_family(link) != AF_UNSPEC || !known)
            continue;
        if (!strcmp(rtnl_link_get_name(link), change->nic))
            return link;
        same = link;
        count++;
    }
    if (change->has_mac && count == 1)
        return same;
    mn_fail(diag, MN_ERR_NOTFOUND, "%s: there is no such NIC%s any more", change->nic,
            change->has_mac ? " of its MAC" : "");
    return NULL;
}

/* --- addresses -------------------------------------------------------------------------------- */

#define PEER      " peer "         /* the prefix length is that of the other end's address */
#define OWN_ROUTE " noprefixroute" /* who set it adds the route to its subnet too */
#define TEXT_SIZE (2 * MN_ADDR_TEXT + sizeof PEER + sizeof OWN_ROUTE)

static int flag_own_route(struct rtnl_addr *addr)
{
    return (rtnl_addr_get_flags(addr) & IFA_F_NOPREFIXROUTE) != 0;
}

static int to_addr(const struct nl_addr *from, int family, struct mn_addr *addr)
{
    *addr = (struct mn_addr){.family = family};
    if (!from || (family != AF_INET && family != AF_INET6) ||
        nl_addr_get_len(from) != (family == AF_INET ? 4u : 16u))
        return 0;
    addr->prefix = (int)nl_addr_get_prefixlen(from);
    memcpy(addr->bytes, nl_addr_get_binary_addr(from), nl_addr_get_len(from));
    return 1;
}

/* 0 for what no change is about: link-local ones, which the kernel makes, and other families. */
static int address_text(struct rtnl_addr *entry, char *text, size_t size)
{
    char buf[MN_ADDR_TEXT], far[MN_ADDR_TEXT];
    struct mn_addr addr, peer;
    int family = rtnl_addr_get_family(entry);

    if (!to_addr(rtnl_addr_get_local(entry), family, &addr) || mn_addr_is_link_local(&addr))
        return 0;
    int has_peer = to_addr(rtnl_addr_get_peer(entry), family, &peer);
    if (!has_peer)
        addr.prefix = rtnl_addr_get_prefixlen(entry);
    snprintf(text, size, "%s%s%s%s", mn_addr_format(&addr, buf, sizeof buf), has_peer ? PEER : "",
             has_peer ? mn_addr_format(&peer, far, sizeof far) : "",
             flag_own_route(entry) ? OWN_ROUTE : "");
    return 1;
}

void mn_text_push(char ***texts, size_t *n, const char *text)
{
    char **place = mn_grow((void **)texts, n, sizeof **texts);

    *place = mn_strdup(text);
}

void mn_texts_free(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

size_t mn_kernel_addresses(const struct mn_kernel *kernel, int ifindex, char ***texts)
{
    char text[TEXT_SIZE];
    size_t n = 0;

    *texts = NULL;
    for (struct nl_object *obj = nl_cache_get_first(kernel->addrs); obj;
         obj = nl_cache_get_next(obj)) {
        struct rtnl_addr *entry = (struct rtnl_addr *)obj;
        if (rtnl_addr_get_ifindex(entry) == ifindex && address_text(entry, text, sizeof text))
            mn_text_push(texts, &n, text);
    }
    return n;
}

/* As it was written, or with the route that goes with it where none is asked for. */
int mn_kernel_has_address(const struct mn_kernel *kernel, int ifindex, const char *text)
{
    char **have;
    size_t n = mn_kernel_addresses(kernel, ifindex, &have), len = strcspn(text, " ");
    int found = 0;

    for (size_t i = 0; i < n; i++)
        found |= strcspn(have[i], " ") == len && !strncmp(have[i], text, len);
    mn_texts_free(have, n);
    return found;
}

/* Where the first of several IPv4 addresses in a subnet goes, the others go with it, unless the NIC
 * is told to keep them. Returns what it was told before, '\0' = could not be. */
static char keep_others(const char *nic, char value)
{
    char path[128], old = '\0';

    snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/promote_secondaries", nic);
    FILE *file = fopen(path, "re+");
    if (!file)
        return '\0';
    if (fread(&old, 1, 1, file) == 1 && old != value) {
        rewind(file);
        fputc(value, file);
    }
    fclose(file);
    return old;
}

static struct nl_addr *nl_addr_of(const char *text, int *family)
{
    char plain[MN_ADDR_TEXT];
    struct mn_addr addr;

    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, " "), text);
    if (mn_addr_parse(plain, &addr, NULL) || addr.prefix < 0)
        return NULL;
    struct nl_addr *nl = nl_addr_build(addr.family, addr.bytes, addr.family == AF_INET ? 4 : 16);
    if (nl)
        nl_addr_set_prefixlen(nl, addr.prefix);
    *family = addr.family;
    return nl;
}

/* Of the text's local address, peer and flag; NULL: it has none of them. */
static struct rtnl_addr *entry_of(const char *text, int ifindex, int *family)
{
    const char *far = strstr(text, PEER);
    struct rtnl_addr *entry = rtnl_addr_alloc();
    struct nl_addr *local = nl_addr_of(text, family);
    struct nl_addr *peer = far ? nl_addr_of(far + sizeof PEER - 1, family) : NULL;
    int good = entry && local && (!far || peer) && rtnl_addr_set_local(entry, local) >= 0;

    if (good) {
        rtnl_addr_set_ifindex(entry, ifindex);
        good = !peer || rtnl_addr_set_peer(entry, peer) >= 0;
        if (strstr(text, OWN_ROUTE))
            rtnl_addr_set_flags(entry, IFA_F_NOPREFIXROUTE);
    }
    if (!good && entry) {
        rtnl_addr_put(entry);
        entry = NULL;
    }
    nl_addr_put(local);
    nl_addr_put(peer);
    return entry;
}

enum mn_err mn_kernel_set_address(struct mn_kernel *kernel, const struct mn_change *change,
                                  int ifindex, const char *text, int on, struct mn_diag *diag)
{
    int family = 0;
    char keep = '\0';
    struct rtnl_addr *entry = entry_of(text, ifindex, &family);

    if (!entry)
        return mn_fail(diag, MN_ERR_PROTO, "%s: no address can be read from \"%s\"", change->nic,
                       text);
    if (!on && family == AF_INET)
        keep = keep_others(change->nic, '1');
    int code = on ? rtnl_addr_add(kernel->sock, entry, NLM_F_CREATE | NLM_F_REPLACE)
                  : rtnl_addr_delete(kernel->sock, entry, 0);
    if (keep == '0')
        keep_others(change->nic, '0');
    rtnl_addr_put(entry);
    if (code == -NLE_NOADDR || code == -NLE_EXIST)
        code = 0; /* so it is already */
    return code < 0 ? mn_kernel_failed(diag, change, text, code) : MN_OK;
}
