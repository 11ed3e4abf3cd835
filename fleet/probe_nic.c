/* Which NICs are probed, their state, and this host as the survey has it. */
#include <errno.h>
#include <fcntl.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

/* NETDEV, of every node, or NODE/NETDEV. */
static int listed(const struct mn_probe_plan *plan, const struct mn_opt_list *list,
                  const char *netdev)
{
    size_t node = strlen(plan->name);

    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i];
        if (!strcmp(item, netdev) || (!strncmp(item, plan->name, node) && item[node] == '/' &&
                                      !strcmp(item + node + 1, netdev)))
            return 1;
    }
    return 0;
}

/* --- this host -------------------------------------------------------------------------------- */

void mn_probe_model(char *model, size_t size)
{
    int fd = open("/sys/class/dmi/id/product_name", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, model, size - 1);

    model[n > 0 ? n : 0] = 0;
    model[strcspn(model, "\n")] = 0;
    if (fd >= 0)
        close(fd);
}

/* A node of the survey; what is skipped stands at the end of host's NICs, past *n_nics. */
static struct mn_survey_node *add_host(const struct mn_probe_plan *plan, struct mn_host *host,
                                       struct mn_survey *survey)
{
    struct mn_host rest = *host;
    char model[64];

    rest.n_nics = 0;
    for (size_t i = 0; i < host->n_nics; i++) {
        struct mn_nic nic = host->nics[i];
        if (listed(plan, &plan->skip, nic.netdev))
            continue;
        if (listed(plan, &plan->take, nic.netdev))
            nic.role = MN_ROLE_CABLE;
        host->nics[i] = host->nics[rest.n_nics];
        host->nics[rest.n_nics++] = nic;
    }
    mn_probe_model(model, sizeof model);
    return mn_survey_add_host(survey, &rest, plan->name, model);
}

static enum mn_err read_host(struct mn_host *host, struct mn_diag *diag)
{
    enum mn_err err = mn_host_read(NULL, host, diag);

    return err ? err : mn_host_around(NULL, host, diag);
}

static struct mn_probe_port *port_of(struct mn_probe_state *state, const char *netdev)
{
    for (size_t i = 0; i < state->n_ports; i++)
        if (!strcmp(state->ports[i].netdev, netdev))
            return &state->ports[i];
    return NULL;
}

enum mn_err mn_probe_survey(struct mn_probe_state *state, struct mn_diag *diag)
{
    struct mn_survey *survey = &state->result->survey;
    struct mn_host host;
    enum mn_err err = read_host(&host, diag);

    if (!err) {
        struct mn_survey_node *node = add_host(state->plan, &host, survey);
        for (size_t i = 0; i < node->n_nics; i++) {
            const struct mn_probe_port *port = port_of(state, node->nics[i].netdev);
            if (port && port->brought_up) /* for the probe alone */
                node->nics[i].admin_up = 0;
            /* The other end may have been put back before this one. */
            if (port && port->opened && state->plan->up)
                node->nics[i].carrier = 1;
        }
        err = mn_survey_add_taken(node, &host, diag);
    }
    for (size_t i = 0; i < state->n_strangers && !err; i++) {
        struct mn_survey_stranger stranger = state->strangers[i];
        stranger.at.nic =
            mn_survey_nic_index(&survey->nodes[0], state->ports[stranger.at.nic].netdev);
        if (stranger.at.nic >= 0)
            *(struct mn_survey_stranger *)mn_grow((void **)&survey->strangers, &survey->n_strangers,
                                                  sizeof stranger) = stranger;
    }
    mn_host_free(&host);
    return err;
}

/* --- the choice ------------------------------------------------------------------------------- */

/* Through which the default route leads: the NIC, or a VLAN or the like that stands on it. */
static const struct mn_nic *to_default(const struct mn_host *host, const struct mn_nic *nic,
                                       int depth)
{
    const struct mn_nic *found = nic->default_route ? nic : NULL;

    for (size_t i = 0; i < host->n_nics && !found && depth; i++)
        if (host->nics[i].lower == nic->ifindex)
            found = to_default(host, &host->nics[i], depth - 1);
    return found;
}

/* Why a NIC is left alone; 0: it is probed. */
static int left_alone(const struct mn_probe_plan *plan, const struct mn_host *host,
                      const struct mn_survey_nic *nic, char *why, size_t size)
{
    const struct mn_nic *here = mn_host_nic(host, nic->netdev);

    if (nic->master[0])
        return snprintf(why, size, "it is in %s", nic->master);
    if (listed(plan, &plan->take, nic->netdev))
        return 0;
    const struct mn_nic *way = here ? to_default(host, here, 4) : NULL;
    if (way)
        return snprintf(why, size, "the default route leads through %s; --take %s probes it",
                        way == here ? "it" : way->netdev, nic->netdev);
    if (nic->role == MN_ROLE_MANAGEMENT)
        return snprintf(why, size, "management (%s); --take %s probes it", nic->role_why,
                        nic->netdev);
    if (here && here->wireless)
        return snprintf(why, size, "wireless");
    return 0;
}

static int can_be_an_end(const struct mn_survey_nic *nic)
{
    return nic->kind != MN_NIC_LOOPBACK && nic->kind != MN_NIC_BRIDGE && nic->kind != MN_NIC_BOND &&
           nic->kind != MN_NIC_VLAN && (nic->has_mac || nic->kind == MN_NIC_INFINIBAND);
}

static void add_port(struct mn_probe_state *state, const struct mn_survey_nic *nic, int ifindex,
                     size_t at)
{
    struct mn_probe_port *port =
        mn_grow((void **)&state->ports, &state->n_ports, sizeof *state->ports);

    mn_strlcpy(port->netdev, nic->netdev, sizeof port->netdev);
    port->ifindex = ifindex;
    port->mtu = nic->mtu;
    port->speed_mbps = nic->speed_mbps;
    port->kind = nic->kind;
    memcpy(port->mac, nic->mac, sizeof port->mac);
    for (int way = 0; way < MN_PROBE_WAYS; way++)
        port->fds[way] = -1;
    /* The result's array is done growing when this is followed. */
    port->nic = &state->result->nics[at];
}

/* Of several nodes each has NICs that others lack. */
static enum mn_err check_names(const struct mn_probe_plan *plan, const struct mn_host *host,
                               const struct mn_opt_list *list, const char *option,
                               struct mn_diag *diag)
{
    size_t node = strlen(plan->name);

    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->items[i], *slash = strchr(item, '/');
        int mine = slash && (size_t)(slash - item) == node && !strncmp(item, plan->name, node);
        if ((mine || (!slash && plan->count < 2)) && !mn_host_nic(host, mine ? slash + 1 : item))
            return mn_fail(diag, MN_ERR_USAGE, "--%s %s: %s has no such NIC", option, item,
                           plan->name);
    }
    return MN_OK;
}

static void choose(struct mn_probe_state *state, const struct mn_host *host,
                   const struct mn_survey_node *node)
{
    struct mn_probe_result *result = state->result;

    /* All of them at once: ports point at theirs. */
    result->nics = mn_zalloc((node->n_nics + 1) * sizeof *result->nics);
    for (size_t i = 0; i < node->n_nics; i++) {
        const struct mn_survey_nic *nic = &node->nics[i];
        struct mn_probe_nic *to = &result->nics[result->n_nics];
        if (!can_be_an_end(nic))
            continue;
        mn_strlcpy(to->netdev, nic->netdev, sizeof to->netdev);
        result->n_nics++;
        if (!left_alone(state->plan, host, nic, to->why, sizeof to->why))
            add_port(state, nic, mn_host_nic(host, nic->netdev)->ifindex, result->n_nics - 1);
    }
}

/* --- state ------------------------------------------------------------------------------------ */

static enum mn_err open_netlink(struct nl_sock **sock, struct mn_diag *diag)
{
    *sock = nl_socket_alloc();
    if (!*sock)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a netlink socket");
    int code = nl_connect(*sock, NETLINK_ROUTE);
    if (code < 0) {
        nl_socket_free(*sock);
        *sock = NULL;
        return mn_fail(diag, MN_ERR_SYS, "netlink: cannot connect: %s", nl_geterror(code));
    }
    return MN_OK;
}

/* 0, or what netlink says. */
static int switch_port(struct nl_sock *sock, const struct mn_probe_port *port, int up)
{
    struct rtnl_link *link = NULL, *change = rtnl_link_alloc();
    int code = change ? rtnl_link_get_kernel(sock, port->ifindex, NULL, &link) : -NLE_NOMEM;

    if (code >= 0) {
        (up ? rtnl_link_set_flags : rtnl_link_unset_flags)(change, IFF_UP);
        code = rtnl_link_change(sock, link, change, 0);
        rtnl_link_put(link);
    }
    if (change)
        rtnl_link_put(change);
    return code;
}

static void bring_up(struct nl_sock *sock, struct mn_probe_port *port)
{
    int code = switch_port(sock, port, 1);

    port->brought_up = code >= 0;
    if (code < 0)
        snprintf(port->nic->why, sizeof port->nic->why, "switched off, and --up may not: %s%s",
                 nl_geterror(code), code == -NLE_PERM ? " (CAP_NET_ADMIN is needed: sudo)" : "");
}

static void look(struct nl_sock *sock, struct mn_probe_port *port, int up)
{
    struct rtnl_link *link = NULL;

    port->carrier = 0;
    if (rtnl_link_get_kernel(sock, port->ifindex, NULL, &link) < 0)
        return;
    int on = (rtnl_link_get_flags(link) & IFF_UP) != 0;
    port->carrier = on && rtnl_link_get_carrier(link) != 0;
    port->mtu = (int)rtnl_link_get_mtu(link);
    rtnl_link_put(link);
    if (!on && up && !port->brought_up && !port->nic->why[0])
        bring_up(sock, port);
    else if (!on && !port->nic->why[0])
        snprintf(port->nic->why, sizeof port->nic->why,
                 "switched off; --up brings it up for the probe");
}

enum mn_err mn_probe_look(struct mn_probe_state *state, struct mn_diag *diag)
{
    struct nl_sock *sock;
    enum mn_err err = open_netlink(&sock, diag);

    for (size_t i = 0; i < state->n_ports && !err; i++)
        look(sock, &state->ports[i], state->plan->up);
    nl_socket_free(sock);
    return err;
}

void mn_probe_put_back(struct mn_probe_state *state)
{
    struct nl_sock *sock;
    struct mn_diag diag;

    for (size_t i = 0; i < state->n_ports; i++) {
        const struct mn_probe_port *port = &state->ports[i];
        if (!port->brought_up)
            continue;
        int code = open_netlink(&sock, &diag) ? -NLE_FAILURE : switch_port(sock, port, 0);
        nl_socket_free(sock);
        if (code < 0)
            MN_WARN("%s stays up: %s; ip link set dev %s down", port->netdev, nl_geterror(code),
                    port->netdev);
    }
}

enum mn_err mn_probe_choose(struct mn_probe_state *state, struct mn_diag *diag)
{
    struct mn_survey survey = {.n_nodes = 0};
    struct mn_host host;
    enum mn_err err = read_host(&host, diag);

    if (!err)
        err = check_names(state->plan, &host, &state->plan->take, "take", diag);
    if (!err)
        err = check_names(state->plan, &host, &state->plan->skip, "skip", diag);
    if (!err) {
        const struct mn_survey_node *node = add_host(state->plan, &host, &survey);
        choose(state, &host, node);
    }
    mn_survey_free(&survey);
    mn_host_free(&host);
    return err ? err : mn_probe_look(state, diag);
}
