#include "fleet/apply_check.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/neighbour.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/apply_kernel.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"
#include "topo/mesh_check.h"
#include "topo/nic_read.h"

#define DISCARD_PORT 9
#define AGAIN_MS     1000 /* between two packets to one that is silent */

/* --- which ------------------------------------------------------------------------------------ */

static int is_peer(const char *const *peers, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(peers[i], name))
            return 1;
    return 0;
}

static void add_cable(const struct mn_mesh *mesh, const struct mn_mesh_link *link, int side,
                      const char *netdev, struct mn_cable_check **checks, size_t *n)
{
    const struct mn_mesh_nic *own = mn_mesh_end_nic(mesh, &link->ends[side]);
    const struct mn_mesh_nic *far = mn_mesh_end_nic(mesh, &link->ends[!side]);

    for (size_t i = 0; i < own->n_addrs; i++)
        for (size_t k = 0; k < far->n_addrs; k++) {
            const struct mn_addr *a = &own->addrs[i], *b = &far->addrs[k];
            if (mn_addr_is_link_local(a) || !mn_addr_share_subnet(a, b))
                continue;
            struct mn_cable_check *c = mn_grow((void **)checks, n, sizeof *c);
            c->link = link;
            c->peer = mesh->nodes[link->ends[!side].node].name;
            mn_strlcpy(c->netdev, netdev, sizeof c->netdev);
            c->own = *a;
            c->far = *b;
            memcpy(c->mac, far->mac, sizeof c->mac);
            c->has_mac = far->has_mac;
            break;
        }
}

size_t mn_cables_to(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                    const char *const *peers, size_t n_peers, struct mn_cable_check **checks)
{
    size_t n = 0;

    *checks = NULL;
    for (size_t i = 0; i < mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        int side = link->ends[1].node == node;
        if ((link->ends[0].node != node && !side) || mn_link_is_bare(link) ||
            !is_peer(peers, n_peers, mesh->nodes[link->ends[!side].node].name))
            continue;
        const struct mn_mesh_nic *own = mn_mesh_end_nic(mesh, &link->ends[side]);
        const struct mn_nic *nic = NULL;
        /* By what the NIC has now: its name here may not be that of the file. */
        for (size_t k = 0; k < own->n_addrs && !nic; k++)
            nic = mn_host_nic_by_addr(host, &own->addrs[k]);
        add_cable(mesh, link, side, nic ? nic->netdev : own->netdev, checks, &n);
    }
    return n;
}

/* --- asking ----------------------------------------------------------------------------------- */

struct round {
    struct mn_cable_check *checks;
    size_t n;
    struct nl_sock *sock, *news; /* news: wakes when links, addresses or neighbours change */
    struct pollfd *fds;          /* a socket a cable, then news */
    char *known;                 /* known before this run began: says nothing */
};

static void send_one(struct round *r, size_t i)
{
    const struct mn_cable_check *c = &r->checks[i];
    struct sockaddr_storage own, far;
    socklen_t own_size = mn_addr_sockaddr(&c->own, 0, 0, &own);
    socklen_t far_size = mn_addr_sockaddr(&c->far, DISCARD_PORT, 0, &far);

    if (r->fds[i].fd < 0) {
        /* It may not be bound yet: IPv6 looks first whether somebody else has the address. */
        int fd = socket(c->own.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return;
        (void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, c->netdev, (socklen_t)strlen(c->netdev));
        if (bind(fd, (struct sockaddr *)&own, own_size) ||
            connect(fd, (struct sockaddr *)&far, far_size)) {
            close(fd);
            return;
        }
        r->fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    (void)!send(r->fds[i].fd, "", 0, MSG_NOSIGNAL);
}

static void look_at(struct round *r, size_t i)
{
    int error = 0;
    socklen_t size = sizeof error;
    char byte;

    if (!r->fds[i].revents)
        return;
    getsockopt(r->fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == ECONNREFUSED || recv(r->fds[i].fd, &byte, 1, 0) >= 0 || errno == ECONNREFUSED)
        r->checks[i].answer = MN_CABLE_ANSWERS;
}

static int is_neighbour(struct rtnl_neigh *entry, const struct mn_cable_check *c, int ifindex)
{
    const struct nl_addr *dst = rtnl_neigh_get_dst(entry);
    unsigned len = c->far.family == AF_INET ? 4 : 16;

    return rtnl_neigh_get_ifindex(entry) == ifindex && dst && nl_addr_get_len(dst) == len &&
           !memcmp(nl_addr_get_binary_addr(dst), c->far.bytes, len);
}

/* Those who were asked who they are, and said so. At first what is known from before is forgotten,
 * where the kernel lets this process. */
static void look_at_neighbours(struct round *r, int first)
{
    struct nl_cache *cache = NULL;

    if (rtnl_neigh_alloc_cache(r->sock, &cache) < 0)
        return;
    for (size_t i = 0; i < r->n; i++) {
        int ifindex = (int)if_nametoindex(r->checks[i].netdev);
        for (struct nl_object *obj = nl_cache_get_first(cache); obj; obj = nl_cache_get_next(obj)) {
            struct rtnl_neigh *entry = (struct rtnl_neigh *)obj;
            if (!is_neighbour(entry, &r->checks[i], ifindex) ||
                !(rtnl_neigh_get_state(entry) & NUD_REACHABLE))
                continue;
            if (first)
                r->known[i] = rtnl_neigh_delete(r->sock, entry, 0) < 0;
            else if (!r->known[i])
                r->checks[i].answer = MN_CABLE_ANSWERS;
        }
    }
    nl_cache_free(cache);
}

/* Who has asked this host is known to it without having been asked: it is forgotten, so that he is.
 */
static void forget_heard(struct round *r)
{
    struct nl_cache *cache = NULL;

    if (rtnl_neigh_alloc_cache(r->sock, &cache) < 0)
        return;
    for (size_t i = 0; i < r->n; i++) {
        int ifindex = (int)if_nametoindex(r->checks[i].netdev);
        for (struct nl_object *obj = nl_cache_get_first(cache); obj; obj = nl_cache_get_next(obj)) {
            struct rtnl_neigh *entry = (struct rtnl_neigh *)obj;
            if (r->checks[i].answer != MN_CABLE_ANSWERS &&
                is_neighbour(entry, &r->checks[i], ifindex) &&
                (rtnl_neigh_get_state(entry) & (NUD_STALE | NUD_DELAY)))
                (void)rtnl_neigh_delete(r->sock, entry, 0);
        }
    }
    nl_cache_free(cache);
}

/* A Linux host says of all its addresses, on whichever NIC it is asked, that they are there: a
 * cable in the wrong port is known by the MAC alone. */
static void compare_macs(struct round *r)
{
    struct nl_cache *cache = NULL;

    if (rtnl_neigh_alloc_cache(r->sock, &cache) < 0)
        return;
    for (size_t i = 0; i < r->n; i++) {
        struct mn_cable_check *c = &r->checks[i];
        int ifindex = (int)if_nametoindex(c->netdev);
        for (struct nl_object *obj = nl_cache_get_first(cache); obj; obj = nl_cache_get_next(obj)) {
            struct rtnl_neigh *entry = (struct rtnl_neigh *)obj;
            const struct nl_addr *mac = rtnl_neigh_get_lladdr(entry);
            if (c->answer == MN_CABLE_ANSWERS && c->has_mac && is_neighbour(entry, c, ifindex) &&
                mac && nl_addr_get_len(mac) == sizeof c->mac &&
                memcmp(nl_addr_get_binary_addr(mac), c->mac, sizeof c->mac) != 0)
                c->answer = MN_CABLE_CROSSED;
        }
    }
    nl_cache_free(cache);
}

static void drain(struct nl_sock *news)
{
    char text[8192];

    while (recv(nl_socket_get_fd(news), text, sizeof text, MSG_DONTWAIT) > 0)
        ;
}

static enum mn_err open_news(struct nl_sock **news, struct mn_diag *diag)
{
    enum mn_err err = mn_nl_open(news, diag);

    if (!err &&
        nl_socket_add_memberships(*news, RTNLGRP_NEIGH, RTNLGRP_LINK, RTNLGRP_IPV6_IFADDR, 0) < 0)
        err = mn_fail(diag, MN_ERR_SYS, "netlink: listening for news of neighbours");
    return err;
}

static size_t silent(const struct round *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += r->checks[i].answer != MN_CABLE_ANSWERS;
    return n;
}

static void ask_until(struct round *r, double deadline)
{
    double again = 0;

    while (silent(r) && mn_seconds() < deadline) {
        if (mn_seconds() >= again) {
            forget_heard(r);
            for (size_t i = 0; i < r->n; i++)
                if (r->checks[i].answer != MN_CABLE_ANSWERS)
                    send_one(r, i);
            again = mn_seconds() + AGAIN_MS / 1e3;
        }
        double left = (again < deadline ? again : deadline) - mn_seconds();
        if (poll(r->fds, r->n + 1, left > 0 ? (int)(left * 1e3) + 1 : 0) <= 0)
            continue;
        for (size_t i = 0; i < r->n; i++)
            look_at(r, i);
        if (r->fds[r->n].revents) {
            drain(r->news);
            look_at_neighbours(r, 0);
        }
    }
}

static int has_carrier(struct nl_sock *sock, const char *netdev)
{
    struct rtnl_link *link;

    if (rtnl_link_get_kernel(sock, 0, netdev, &link) < 0)
        return 0;
    int has = (rtnl_link_get_flags(link) & IFF_UP) && rtnl_link_get_carrier(link);
    rtnl_link_put(link);
    return has;
}

enum mn_err mn_cables_ask(struct mn_cable_check *checks, size_t n, unsigned ms,
                          struct mn_diag *diag)
{
    struct round r = {.checks = checks, .n = n};
    double deadline = mn_seconds() + ms / 1e3;
    enum mn_err err = mn_nl_open(&r.sock, diag);

    if (!err)
        err = open_news(&r.news, diag);
    r.fds = mn_zalloc((n + 1) * sizeof *r.fds);
    r.known = mn_zalloc(n + 1);
    for (size_t i = 0; i < n; i++)
        r.fds[i].fd = -1;
    if (!err) {
        r.fds[n] = (struct pollfd){.fd = nl_socket_get_fd(r.news), .events = POLLIN};
        look_at_neighbours(&r, 1);
        ask_until(&r, deadline);
        compare_macs(&r);
    }
    for (size_t i = 0; i < n; i++) {
        if (!err && checks[i].answer == MN_CABLE_SILENT && !has_carrier(r.sock, checks[i].netdev))
            checks[i].answer = MN_CABLE_DARK;
        if (r.fds[i].fd >= 0)
            close(r.fds[i].fd);
    }
    nl_socket_free(r.sock);
    nl_socket_free(r.news);
    free(r.fds);
    free(r.known);
    return err;
}

enum mn_err mn_carriers_wait(const char *const *nics, size_t n, unsigned ms, char ***dark,
                             size_t *n_dark, struct mn_diag *diag)
{
    double deadline = mn_seconds() + ms / 1e3;
    struct nl_sock *sock = NULL, *news = NULL;
    enum mn_err err = mn_nl_open(&sock, diag);
    size_t missing = n;

    *dark = NULL;
    *n_dark = 0;
    if (!err)
        err = open_news(&news, diag);
    while (!err && missing) {
        double left = deadline - mn_seconds();
        missing = 0;
        for (size_t i = 0; i < n; i++)
            missing += !has_carrier(sock, nics[i]);
        if (!missing || left <= 0)
            break;
        poll(&(struct pollfd){.fd = nl_socket_get_fd(news), .events = POLLIN}, 1,
             (int)(left * 1e3) + 1);
        drain(news);
    }
    for (size_t i = 0; i < n && !err; i++)
        if (!has_carrier(sock, nics[i]))
            mn_text_push(dark, n_dark, nics[i]);
    nl_socket_free(sock);
    nl_socket_free(news);
    return err;
}
