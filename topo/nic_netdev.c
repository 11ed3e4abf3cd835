/* Links and addresses from the kernel (rtnetlink through libnl-route). */
#include "topo/nic_read.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <string.h>
#include <sys/socket.h>

#include "topo/base/alloc.h"

enum mn_nic_kind mn_nic_kind_of(unsigned arp_type, const char *link_kind)
{
    static const struct {
        const char *link_kind;
        enum mn_nic_kind kind;
    } rows[] = {
        {"bond", MN_NIC_BOND},     {"team", MN_NIC_BOND}, {"vlan", MN_NIC_VLAN},
        {"bridge", MN_NIC_BRIDGE}, {"veth", MN_NIC_VETH}, {"ipoib", MN_NIC_INFINIBAND},
    };
    if (link_kind && *link_kind) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (strcmp(rows[i].link_kind, link_kind) == 0)
                return rows[i].kind;
        return MN_NIC_OTHER;
    }
    return arp_type == ARPHRD_LOOPBACK     ? MN_NIC_LOOPBACK
           : arp_type == ARPHRD_ETHER      ? MN_NIC_ETHERNET
           : arp_type == ARPHRD_INFINIBAND ? MN_NIC_INFINIBAND
                                           : MN_NIC_OTHER;
}

/* What this stands on, in this namespace; of a veth the number is another's. */
static int lower_of(struct rtnl_link *link)
{
    static const char *const kinds[] = {"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"};
    const char *kind = rtnl_link_get_type(link);
    int32_t elsewhere;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && kind; i++)
        if (!strcmp(kind, kinds[i]) && rtnl_link_get_link_netnsid(link, &elsewhere))
            return rtnl_link_get_link(link);
    return 0;
}

static enum mn_err add_link(struct mn_host *host, struct nl_cache *links, struct rtnl_link *link,
                            struct mn_diag *diag)
{
    const char *name = rtnl_link_get_name(link);
    /* Bridges also answer with AF_BRIDGE links; only the plain ones are netdevs. */
    if (!name || rtnl_link_get_family(link) != AF_UNSPEC)
        return MN_OK;
    struct mn_nic *nic = mn_push(&host->nics, &host->n_nics, sizeof *nic, diag);
    if (!nic)
        return MN_ERR_NOMEM;
    mn_strlcpy(nic->netdev, name, sizeof nic->netdev);
    nic->ifindex = rtnl_link_get_ifindex(link);
    nic->kind = mn_nic_kind_of(rtnl_link_get_arptype(link), rtnl_link_get_type(link));
    nic->lower = lower_of(link);
    nic->mtu = (int)rtnl_link_get_mtu(link);
    nic->admin_up = (rtnl_link_get_flags(link) & IFF_UP) != 0;
    /* Down links keep the flag of their last life. */
    nic->carrier = nic->admin_up && rtnl_link_get_carrier(link) != 0;
    const struct nl_addr *mac = rtnl_link_get_addr(link);
    /* IPoIB has 20 bytes, tunnels have 4: neither is a MAC. */
    if (mac && nl_addr_get_len(mac) == sizeof nic->mac && nic->kind != MN_NIC_LOOPBACK) {
        memcpy(nic->mac, nl_addr_get_binary_addr(mac), sizeof nic->mac);
        nic->has_mac = 1;
    }
    int master = rtnl_link_get_master(link);
    if (master > 0)
        rtnl_link_i2name(links, master, nic->master, sizeof nic->master);
    return MN_OK;
}

static enum mn_err add_addr(struct mn_host *host, struct rtnl_addr *entry, struct mn_diag *diag)
{
    int family = rtnl_addr_get_family(entry);
    const struct nl_addr *local = rtnl_addr_get_local(entry);
    if (!local || (family != AF_INET && family != AF_INET6) ||
        rtnl_addr_get_flags(entry) & IFA_F_DADFAILED)
        return MN_OK;
    unsigned len = nl_addr_get_len(local);
    if (len != (family == AF_INET ? 4u : 16u))
        return MN_OK;
    for (size_t i = 0; i < host->n_nics; i++) {
        struct mn_nic *nic = &host->nics[i];
        if (nic->ifindex != rtnl_addr_get_ifindex(entry))
            continue;
        struct mn_addr *addr = mn_push(&nic->addrs, &nic->n_addrs, sizeof *addr, diag);
        if (!addr)
            return MN_ERR_NOMEM;
        addr->family = family;
        addr->prefix = rtnl_addr_get_prefixlen(entry);
        memcpy(addr->bytes, nl_addr_get_binary_addr(local), len);
        nic->leased |= !(rtnl_addr_get_flags(entry) & IFA_F_PERMANENT) &&
                       !mn_addr_is_link_local(addr) && !mn_addr_is_self_assigned(addr);
        break;
    }
    return MN_OK;
}

static enum mn_err nl_failed(struct mn_diag *diag, const char *what, int code)
{
    return mn_fail(diag, MN_ERR_SYS, "netlink: %s: %s", what, nl_geterror(code));
}

static enum mn_err read_caches(struct nl_sock *sock, struct mn_host *host, struct mn_diag *diag)
{
    struct nl_cache *links = NULL, *addrs = NULL;
    enum mn_err err = MN_OK;
    int code = rtnl_link_alloc_cache(sock, AF_UNSPEC, &links);
    if (code < 0)
        return nl_failed(diag, "cannot list links", code);
    for (struct nl_object *obj = nl_cache_get_first(links); obj && err == MN_OK;
         obj = nl_cache_get_next(obj))
        err = add_link(host, links, (struct rtnl_link *)obj, diag);
    nl_cache_free(links);
    if (err != MN_OK)
        return err;

    code = rtnl_addr_alloc_cache(sock, &addrs);
    if (code < 0)
        return nl_failed(diag, "cannot list addresses", code);
    for (struct nl_object *obj = nl_cache_get_first(addrs); obj && err == MN_OK;
         obj = nl_cache_get_next(obj))
        err = add_addr(host, (struct rtnl_addr *)obj, diag);
    nl_cache_free(addrs);
    return err;
}

enum mn_err mn_nl_open(struct nl_sock **sock, struct mn_diag *diag)
{
    *sock = nl_socket_alloc();
    if (!*sock)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a netlink socket");
    int code = nl_connect(*sock, NETLINK_ROUTE); /* sets close-on-exec */
    if (code < 0) {
        nl_socket_free(*sock);
        return nl_failed(diag, "cannot connect", code);
    }
    /* The kernel answers at once; the bound is for a seccomp filter or a broken one. */
    struct timeval bound = {.tv_sec = 5};
    setsockopt(nl_socket_get_fd(*sock), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    nl_socket_enable_msg_peek(*sock); /* a PF with many VFs exceeds the default buffer */
    return MN_OK;
}

enum mn_err mn_host_read_netlink(struct mn_host *host, struct mn_diag *diag)
{
    struct nl_sock *sock;
    enum mn_err err = mn_nl_open(&sock, diag);
    if (err != MN_OK)
        return err;
    err = read_caches(sock, host, diag);
    nl_socket_free(sock);
    return err;
}

enum mn_err mn_netdev_bytes(const char *netdev, uint64_t *rx, uint64_t *tx, struct mn_diag *diag)
{
    struct nl_sock *sock;
    struct rtnl_link *link;
    enum mn_err err = mn_nl_open(&sock, diag);
    if (err != MN_OK)
        return err;
    int code = rtnl_link_get_kernel(sock, 0, netdev, &link);
    if (code < 0) {
        err = mn_fail(diag, MN_ERR_NOTFOUND, "no byte counters for netdev \"%s\": %s", netdev,
                      nl_geterror(code));
    } else {
        *rx = rtnl_link_get_stat(link, RTNL_LINK_RX_BYTES);
        *tx = rtnl_link_get_stat(link, RTNL_LINK_TX_BYTES);
        rtnl_link_put(link);
    }
    nl_socket_free(sock);
    return err;
}
