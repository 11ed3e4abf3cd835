/* What this host has, read through rtnetlink, and its links. */
#include "fleet/apply_kernel.h"

#include <netlink/netlink.h>
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
    nl_cache_free(kernel->routes);
    kernel->links = kernel->routes = NULL;
    mn_kernel_drop_addresses(kernel);
}

enum mn_err mn_kernel_refresh(struct mn_kernel *kernel, struct mn_diag *diag)
{
    drop_caches(kernel);
    int code = rtnl_link_alloc_cache(kernel->sock, AF_UNSPEC, &kernel->links);
    if (code >= 0)
        code = mn_kernel_read_addresses(kernel);
    if (code >= 0)
        code = mn_nl_routes(kernel->sock, &kernel->routes);
    return code < 0 ? mn_fail(diag, MN_ERR_SYS, "netlink: listing links, addresses and routes: %s",
                              nl_geterror(code))
                    : MN_OK;
}

int mn_kernel_dump(const struct mn_kernel *kernel, int type, void *question, size_t size,
                   int (*each)(struct nl_msg *msg, void *context), void *context)
{
    struct nl_cb *own = nl_socket_get_cb(kernel->sock), *cb = nl_cb_clone(own);

    nl_cb_put(own);
    if (!cb)
        return -NLE_NOMEM;
    nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, each, context);
    int code = nl_send_simple(kernel->sock, type, NLM_F_DUMP, question, size);
    if (code >= 0)
        code = nl_recvmsgs(kernel->sock, cb);
    nl_cb_put(cb);
    return code;
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
