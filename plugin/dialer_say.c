/* What is said of a peer that is not reached: without a cable to it, and at an attempt that failed.
 */
#include <stdio.h>
#include <string.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/dialer_impl.h"
#include "plugin/reach.h"
#include "plugin/transport.h"

void mn_dialer_remote(const struct mn_handle *handle, struct mn_side *side)
{
    memset(side, 0, sizeof *side);
    side->node_id = handle->node_id;
    memcpy(side->locals, handle->locals, sizeof side->locals);
    side->n_locals = handle->n_locals;
}

static void list_addresses(const struct mn_side *side, const char *between, char *text, size_t size)
{
    char addr[MN_ADDR_TEXT], gid[24];
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i < side->n_locals && used < size; i++) {
        gid[0] = 0;
        if (side->locals[i].gid_index >= 0)
            snprintf(gid, sizeof gid, " gid %d", side->locals[i].gid_index);
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", i ? between : "",
                                 mn_addr_format(&side->locals[i].addr, addr, sizeof addr), gid);
    }
}

static int has_rdma(const struct mn_side *self, const struct mn_side *remote)
{
    int found = self->rdma_table[0] || self->rdma_text[0];

    for (int i = 0; i < self->n_locals; i++)
        found |= self->rdma[i].state != MN_RDMA_NONE;
    for (int i = 0; i < remote->n_locals; i++)
        found |= remote->locals[i].gid_index >= 0;
    return found;
}

void mn_dialer_add_tables(struct mn_dialer *d, struct mn_diag *diag)
{
    struct mn_side remote;
    char mine[320], theirs[320];
    size_t used = strlen(diag->text), left = sizeof diag->text - used;

    mn_dialer_remote(&d->handle, &remote);
    list_addresses(&remote, "\n  ", theirs, sizeof theirs);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->explain(&d->self);
    if (has_rdma(&d->self, &remote)) {
        snprintf(diag->text + used, left,
                 ". The peer's GIDs when it listened:\n  %s\nOwn GIDs now:\n%s%s%s", theirs,
                 d->self.rdma_table[0] ? d->self.rdma_table : "  none\n",
                 d->self.rdma_text[0] ? "not usable: " : "", d->self.rdma_text);
        return;
    }
    list_addresses(&d->self, "\n  ", mine, sizeof mine);
    snprintf(diag->text + used, left,
             ". The peer's addresses when it listened:\n  %s\nOwn addresses:\n  %s", theirs, mine);
}

static void no_way(const struct mn_dialer *d, const char *mine, const char *theirs,
                   struct mn_diag *diag)
{
    static const char *const routes[] =
        {[MN_REACH_AUTO] = "no route leads from here to one of them",
         [MN_REACH_CABLES] = "no route leads along the cables to one of them, and transport.reach: "
                             "cables takes no other way",
         [MN_REACH_MANAGEMENT] = "transport.reach: management takes no other way"};
    const char *management = d->self.reach == MN_REACH_CABLES ? ""
                             : d->handle.n_far                ? ", nor to its management address"
                             : d->handle.truncated
                                 ? ", and the peer's handle had no room for a management address"
                                 : ", and the peer has told no management address";

    mn_fail(diag, MN_ERR_CONFIG,
            "no cable to the peer and no way to it: own addresses %s, the peer's %s share no "
            "subnet under both netmasks, %s%s; give both a management network (role: management in "
            "the mesh file) or routes through neighbours (meshnet topo apply)",
            mine, theirs, routes[d->self.reach], management);
}

enum mn_err mn_dialer_no_cable(struct mn_dialer *d, struct mn_diag *diag)
{
    struct mn_side remote;
    char mine[320], theirs[320];

    mn_dialer_remote(&d->handle, &remote);
    list_addresses(&d->self, ", ", mine, sizeof mine);
    list_addresses(&remote, ", ", theirs, sizeof theirs);
    const struct mn_beside *cable = mn_far_neighbour(d->config, &d->handle);
    if (cable && d->self.allow_tcp != MN_TCP_ALLOWED)
        mn_fail(diag, MN_ERR_CONFIG,
                "no cable to the peer: own addresses %s, the peer's %s share no subnet under both "
                "netmasks, though link %s of the mesh file joins them over %s (an address that is "
                "gone, a NIC that is off?); a neighbour is reached in another way only when "
                "transport.allow_tcp is true",
                mine, theirs, cable->link, cable->netdev);
    else if (!mn_plan_reaches_far(&d->self))
        mn_fail(diag, MN_ERR_CONFIG,
                "no cable to the peer: own addresses %s, the peer's %s share no subnet under both "
                "netmasks, and a setting forbids to reach it in another way (transport.reach: "
                "direct, kind: verbs or allow_tcp: false)",
                mine, theirs);
    else if (d->config->pointers & ~NCCL_PTR_HOST)
        mn_fail(
            diag, MN_ERR_CONFIG,
            "no cable to the peer: own addresses %s, the peer's %s share no subnet under both "
            "netmasks; TCP would reach it, but takes no GPU memory, which is offered here: with "
            "a mesh file (meshnet discover) meshnet knows beforehand whom no cable reaches, or "
            "set transport.gpu_direct: false",
            mine, theirs);
    else
        no_way(d, mine, theirs, diag);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->offer(&d->self);
    mn_dialer_add_tables(d, diag);
    return MN_ERR_CONFIG;
}

enum mn_err mn_dialer_explain(const struct mn_dialer *d, enum mn_err code, const char *why,
                              struct mn_diag *diag)
{
    struct mn_pair pair = d->candidates[d->current];
    int routed = pair.connector == MN_ROUTED;
    struct mn_addr remote = d->handle.locals[routed ? 0 : pair.acceptor].addr;
    int silent = code == MN_ERR_LINK_DEAD && (!d->conn || d->conn->state == MN_CONN_CONNECT);
    char addr[MN_ADDR_TEXT], reach[512] = "", way[512];

    remote.prefix = -1;
    if (routed) {
        const struct mn_far_way *tried = &d->ways[pair.acceptor];
        if (silent)
            mn_far_why(d->config, tried, d->handle.port, reach, sizeof reach);
        return mn_fail(diag, code, "peer port %u, which %s, %s: %s%s%s", d->handle.port,
                       mn_far_neighbour(d->config, &d->handle) ? "shares no subnet with this node"
                                                               : "has no cable to this node",
                       mn_far_text(d->config, tried, way, sizeof way), why, silent ? "; " : "",
                       reach);
    }
    const char *netdev = d->self.locals[pair.connector].netdev;
    if (silent)
        mn_reach_why(netdev, &remote, d->handle.port, reach, sizeof reach);
    return mn_fail(diag, code, "peer %s port %u over %s: %s%s%s",
                   mn_addr_format(&remote, addr, sizeof addr), d->handle.port, netdev, why,
                   silent ? "; " : "", reach);
}
