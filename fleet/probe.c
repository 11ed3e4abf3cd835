/* The run: rounds of probes, what is heard between them, and when all is known. */
#include "fleet/probe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/lldp.h"
#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define ROUND_S     0.2
#define LAST_ROUNDS 3   /* so that all others know what this node knows */
#define AT_ONCE     256 /* frames of one socket, before the others have their turn */
#define LLDP_EVERY  5   /* rounds */
#define LLDP_TTL    10  /* seconds */
#define IP_AND_UDP  48

static uint64_t bit(int index)
{
    return index >= 0 && index < MN_PROBE_NODES_MAX ? 1ull << index : 0;
}

static uint64_t all(const struct mn_probe_plan *plan)
{
    return plan->count >= MN_PROBE_NODES_MAX ? ~0ull : bit(plan->count) - 1;
}

/* --- what is sent ----------------------------------------------------------------------------- */

static void add_size(int *sizes, int *n, int size)
{
    for (int i = 0; i < *n; i++)
        if (sizes[i] == size)
            return;
    if (*n < MN_PROBE_SIZES_MAX && size <= sizes[0])
        sizes[(*n)++] = size;
}

/* Into sizes: the MTU of the NIC, those that NICs usually have, those of the peers. */
static int sizes_of(const struct mn_probe_state *state, size_t at, int *sizes)
{
    static const int usual[] = {9000, 4200, 1500, 1280};
    const struct mn_probe_port *port = &state->ports[at];
    int n = 1;

    sizes[0] = port->mtu < MN_PROBE_FRAME_MAX ? port->mtu : MN_PROBE_FRAME_MAX - 1;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        add_size(sizes, &n, usual[i]);
    for (size_t i = 0; i < state->n_peers; i++)
        if (state->peers[i].port == at)
            add_size(sizes, &n, state->peers[i].last.mtu);
    return n;
}

static void fill_heard(const struct mn_probe_state *state, size_t port,
                       struct mn_probe_frame *frame)
{
    for (size_t i = 0; i < state->n_peers && frame->n_heard < MN_PROBE_HEARD_MAX; i++) {
        const struct mn_probe_peer *peer = &state->peers[i];
        int mtu = peer->mtu[0] > peer->mtu[1] ? peer->mtu[0] : peer->mtu[1];
        if (peer->port == port)
            frame->heard[frame->n_heard++] =
                (struct mn_probe_echo){peer->last.session, peer->last.nic,
                                       (uint16_t)(mtu > 65535 ? 65535 : mtu)};
    }
}

static void send_sizes(struct mn_probe_state *state, size_t at, struct mn_probe_frame *frame)
{
    int sizes[MN_PROBE_SIZES_MAX], n = sizes_of(state, at, sizes);

    for (int i = 0; i < n; i++)
        for (int way = MN_SURVEY_IPV6; way <= MN_SURVEY_RAW; way++) {
            int size = sizes[i] - (way == MN_SURVEY_IPV6 ? IP_AND_UDP : 0);
            frame->way = (enum mn_survey_way)way;
            frame->sequence = ++state->sequence;
            if (size > 0 && mn_probe_frame_write(frame, state->key, state->buffer, (size_t)size))
                (void)mn_probe_send(&state->ports[at], frame->way, state->buffer, (size_t)size);
        }
}

static void send_lldp(struct mn_probe_state *state, struct mn_probe_port *port, int ttl)
{
    uint8_t buf[MN_LLDP_MAX];
    size_t len = mn_lldp_write(port->mac, port->netdev, state->plan->name, ttl, buf);

    (void)mn_probe_send(port, MN_SURVEY_LLDP, buf, len);
}

static void send_round(struct mn_probe_state *state, int round)
{
    for (size_t i = 0; i < state->n_ports; i++) {
        struct mn_probe_port *port = &state->ports[i];
        struct mn_probe_frame frame = {
            .run = state->plan->run,
            .session = state->session,
            .begun = state->begun,
            .content = state->content,
            .index = bit(state->plan->index) ? (uint8_t)state->plan->index : MN_PROBE_NO_INDEX,
            .nic = (uint8_t)i,
            .kind = port->kind,
            .mtu = (uint16_t)(port->mtu > 65535 ? 65535 : port->mtu),
            .speed_mbps = (uint32_t)port->speed_mbps,
        };
        if (!port->carrier)
            continue;
        if (!port->opened)
            mn_probe_open(port);
        mn_strlcpy(frame.node, state->plan->name, sizeof frame.node);
        mn_strlcpy(frame.netdev, port->netdev, sizeof frame.netdev);
        memcpy(frame.mac, port->mac, sizeof frame.mac);
        fill_heard(state, i, &frame);
        send_sizes(state, i, &frame);
        if (state->plan->lldp && round % LLDP_EVERY == 0)
            send_lldp(state, port, LLDP_TTL);
    }
}

/* --- what is heard ---------------------------------------------------------------------------- */

static void met_stranger(struct mn_probe_state *state, size_t port, enum mn_survey_way way,
                         const uint8_t mac[6], const struct mn_lldp *lldp)
{
    struct mn_survey_stranger *stranger = NULL;

    for (size_t i = 0; i < state->n_strangers && !stranger; i++)
        if (state->strangers[i].at.nic == (int)port && state->strangers[i].way == way &&
            !memcmp(state->strangers[i].mac, mac, 6))
            stranger = &state->strangers[i];
    if (!stranger && state->ports[port].n_strangers >= MN_PROBE_STRANGE_MAX)
        return;
    if (!stranger) {
        state->ports[port].n_strangers++;
        stranger =
            mn_grow((void **)&state->strangers, &state->n_strangers, sizeof *state->strangers);
    }
    stranger->at = (struct mn_mesh_end){0, (int)port};
    stranger->way = way;
    memcpy(stranger->mac, mac, 6);
    if (!lldp)
        return;
    mn_strlcpy(stranger->system, lldp->system[0] ? lldp->system : lldp->chassis,
               sizeof stranger->system);
    mn_strlcpy(stranger->port, lldp->described[0] ? lldp->described : lldp->port,
               sizeof stranger->port);
}

static struct mn_probe_peer *peer_of(struct mn_probe_state *state, size_t port,
                                     const struct mn_probe_frame *frame)
{
    for (size_t i = 0; i < state->n_peers; i++) {
        struct mn_probe_peer *peer = &state->peers[i];
        if (peer->port == port && peer->last.session == frame->session &&
            peer->last.nic == frame->nic)
            return peer;
    }
    if (state->n_peers >= MN_PROBE_PEERS_MAX)
        return NULL;
    struct mn_probe_peer *peer =
        mn_grow((void **)&state->peers, &state->n_peers, sizeof *state->peers);
    peer->port = port;
    return peer;
}

static void met_peer(struct mn_probe_state *state, size_t port, const struct mn_probe_frame *frame,
                     int mtu)
{
    struct mn_probe_peer *peer = peer_of(state, port, frame);
    uint32_t last;

    if (!peer || frame->sequence <= peer->sequence[frame->way])
        return;
    last = peer->sequence[0] > peer->sequence[1] ? peer->sequence[0] : peer->sequence[1];
    peer->sequence[frame->way] = frame->sequence;
    if (mtu > peer->mtu[frame->way])
        peer->mtu[frame->way] = mtu;
    if (frame->sequence < last) /* the other way's are ahead */
        return;
    peer->last = *frame;
    for (int i = 0; i < frame->n_heard; i++)
        if (frame->heard[i].session == state->session && frame->heard[i].nic == port)
            peer->back_mtu = frame->heard[i].mtu;
    state->begun |= frame->begun & all(state->plan);
    state->content = (state->content & bit(state->plan->index)) |
                     ((state->content | frame->content) & ~bit(state->plan->index));
}

static void hear(struct mn_probe_state *state, size_t port, enum mn_survey_way way)
{
    for (int i = 0; i < AT_ONCE; i++) {
        struct mn_probe_frame frame;
        struct mn_lldp lldp;
        uint8_t mac[6];
        int mtu;
        size_t len = mn_probe_receive(&state->ports[port], way, state->buffer, &mtu, mac);
        if (!len)
            return;
        if (way == MN_SURVEY_LLDP) {
            if (!mn_lldp_parse(state->buffer, len, &lldp, NULL) && lldp.ttl)
                met_stranger(state, port, way, mac, &lldp);
            continue;
        }
        enum mn_probe_verdict verdict =
            mn_probe_frame_read(state->buffer, len, way, state->plan->run, state->key, &frame);
        if (verdict == MN_PROBE_GOOD)
            met_peer(state, port, &frame, mtu);
        else if (verdict == MN_PROBE_STRANGER)
            met_stranger(state, port, way, mac, NULL);
    }
}

/* 0 when there is nobody left to answer to. */
static int hear_until(struct mn_probe_state *state, double end)
{
    struct pollfd fds[MN_PROBE_PORTS_MAX * MN_PROBE_WAYS];
    double left;

    while ((left = end - mn_seconds()) > 0 && !(state->plan->stop && *state->plan->stop)) {
        nfds_t n = 0;
        for (size_t i = 0; i < state->n_ports * MN_PROBE_WAYS; i++)
            fds[n++] =
                (struct pollfd){state->ports[i / MN_PROBE_WAYS].fds[i % MN_PROBE_WAYS], POLLIN, 0};
        if (poll(fds, n, (int)(left * 1000) + 1) <= 0)
            continue;
        for (size_t i = 0; i < state->n_ports * MN_PROBE_WAYS; i++)
            if (fds[i].revents)
                hear(state, i / MN_PROBE_WAYS, (enum mn_survey_way)(i % MN_PROBE_WAYS));
    }
    return !(state->plan->stop && *state->plan->stop);
}

/* --- when all is known ------------------------------------------------------------------------ */

static int all_through(const struct mn_probe_port *port, const struct mn_probe_peer *peer)
{
    int least = peer->last.mtu < port->mtu ? peer->last.mtu : port->mtu;

    return (peer->mtu[0] >= least || peer->mtu[1] >= least) && peer->back_mtu >= least;
}

/* Whoever is at the other end of each port was heard, and has heard this one, by the largest probe
 * that both ends can take. */
static int is_content(const struct mn_probe_state *state)
{
    char known[MN_PROBE_PORTS_MAX] = {0};

    for (size_t i = 0; i < state->n_peers; i++) {
        known[state->peers[i].port] = 1;
        if (!all_through(&state->ports[state->peers[i].port], &state->peers[i]))
            return 0;
    }
    for (size_t i = 0; i < state->n_ports; i++)
        if (!known[i] && (state->ports[i].carrier || state->ports[i].brought_up))
            return 0;
    return 1;
}

static enum mn_err rounds(struct mn_probe_state *state, struct mn_diag *diag)
{
    const struct mn_probe_plan *plan = state->plan;
    const int known = plan->count > 0 && plan->count <= MN_PROBE_NODES_MAX;
    double begin = mn_seconds(), seconds = plan->ms / 1000.0, late = MN_PROBE_LATE_MS / 1000.0;
    double end = begin + seconds + (known && plan->count > 1 ? late : 0);
    int quiet = 0; /* rounds in which nothing was left to be known */
    enum mn_err err = MN_OK;

    for (int round = 0; !err; round++) {
        double now = mn_seconds();
        send_round(state, round);
        if (!hear_until(state, now + ROUND_S < end ? now + ROUND_S : end))
            return mn_fail(diag, MN_ERR_FAILED, "interrupted");
        err = mn_probe_look(state, diag);
        now = mn_seconds();
        if (known && state->begun == all(plan) && end > now + seconds)
            end = now + seconds;
        int content = known && state->begun == all(plan) && is_content(state);
        state->content =
            content ? state->content | bit(plan->index) : state->content & ~bit(plan->index);
        quiet = known && state->content == all(plan) ? quiet + 1 : 0;
        if (now >= end || (quiet > LAST_ROUNDS && !plan->whole))
            break;
    }
    return err;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void take_heard(struct mn_probe_state *state)
{
    struct mn_probe_result *result = state->result;

    for (size_t i = 0; i < state->n_peers; i++) {
        const struct mn_probe_peer *peer = &state->peers[i];
        const struct mn_probe_frame *last = &peer->last;
        struct mn_lldp name = {.ttl = 1};
        if (!state->plan->run && !peer->back_mtu) {
            /* Not shown to be of today. */
            mn_strlcpy(name.system, last->node, sizeof name.system);
            mn_strlcpy(name.port, last->netdev, sizeof name.port);
            met_stranger(state, peer->port, last->way, last->mac, &name);
            continue;
        }
        struct mn_probe_heard *heard =
            mn_grow((void **)&result->heard, &result->n_heard, sizeof *result->heard);
        mn_strlcpy(heard->at, state->ports[peer->port].netdev, sizeof heard->at);
        mn_strlcpy(heard->node, last->node, sizeof heard->node);
        mn_strlcpy(heard->netdev, last->netdev, sizeof heard->netdev);
        memcpy(heard->mac, last->mac, sizeof heard->mac);
        heard->kind = last->kind;
        heard->nic_mtu = last->mtu;
        heard->speed_mbps = (long)last->speed_mbps;
        heard->way = peer->sequence[MN_SURVEY_IPV6] ? MN_SURVEY_IPV6 : MN_SURVEY_RAW;
        heard->mtu = peer->mtu[0] > peer->mtu[1] ? peer->mtu[0] : peer->mtu[1];
        heard->back_mtu = peer->back_mtu;
    }
}

/* LLDP of a node of the run is no stranger's. */
static void forget_known(struct mn_probe_state *state)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->n_strangers; i++) {
        const struct mn_survey_stranger *stranger = &state->strangers[i];
        int known = 0;
        for (size_t k = 0; k < state->n_peers && stranger->way == MN_SURVEY_LLDP; k++)
            known |= (int)state->peers[k].port == stranger->at.nic &&
                     !memcmp(state->peers[k].last.mac, stranger->mac, 6);
        if (!known)
            state->strangers[kept++] = *stranger;
    }
    state->n_strangers = kept;
}

static int has_ipv6(const struct mn_probe_state *state, const char *netdev)
{
    const struct mn_survey_node *node = &state->result->survey.nodes[0];
    int at = mn_survey_nic_index(node, netdev);

    for (size_t i = 0; at >= 0 && i < node->nics[at].n_addrs; i++)
        if (mn_addr_is_link_local(&node->nics[at].addrs[i]))
            return 1;
    return 0;
}

/* What was to be sent and could not. */
static void say_why(struct mn_probe_state *state)
{
    for (size_t i = 0; i < state->n_ports; i++) {
        const struct mn_probe_port *port = &state->ports[i];
        struct mn_probe_nic *nic = port->nic;
        size_t used = strlen(nic->why);
        if (!port->opened && !nic->why[0])
            mn_strlcpy(nic->why, "no carrier: no cable, or the other end is switched off",
                       sizeof nic->why);
        else if (port->opened && !(nic->probed & 1 << MN_SURVEY_IPV6))
            snprintf(nic->why + used, sizeof nic->why - used, "%s%s%s", used ? "; " : "",
                     has_ipv6(state, port->netdev) ? "its IPv6 address came too late"
                                                   : "IPv6 is off there",
                     port->refused == EPERM ? " (a firewall forbids it)" : "");
    }
}

static void end(struct mn_probe_state *state)
{
    for (size_t i = 0; i < state->n_ports; i++) {
        if (state->plan->lldp && state->ports[i].opened)
            send_lldp(state, &state->ports[i], 0);
        mn_probe_close(&state->ports[i]);
    }
    mn_probe_put_back(state);
    free(state->ports);
    free(state->peers);
    free(state->strangers);
    free(state->buffer);
    mn_wipe(state->key, sizeof state->key);
}

enum mn_err mn_probe_run(const struct mn_probe_plan *plan, struct mn_probe_result *result,
                         struct mn_diag *diag)
{
    struct mn_probe_state state = {.plan = plan, .result = result, .begun = bit(plan->index)};
    double begin = mn_seconds();

    memset(result, 0, sizeof *result);
    enum mn_err err = mn_random(&state.session, sizeof state.session, diag);
    mn_probe_key(plan->key, plan->run, state.key);
    state.buffer = mn_zalloc(MN_PROBE_FRAME_MAX);
    if (!err)
        err = mn_probe_choose(&state, diag);
    if (!err)
        err = rounds(&state, diag);
    if (!err) {
        take_heard(&state);
        forget_known(&state);
        err = mn_probe_survey(&state, diag);
    }
    if (!err) {
        say_why(&state);
    }
    end(&state);
    result->seconds = mn_seconds() - begin;
    return err;
}

void mn_probe_result_free(struct mn_probe_result *result)
{
    mn_survey_free(&result->survey);
    free(result->nics);
    free(result->heard);
    memset(result, 0, sizeof *result);
}
