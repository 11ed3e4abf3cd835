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
#define LAST_ROUNDS 3 /* so that all others know what this node knows */

/* --- rounds ----------------------------------------------------------------------------------- */

/* 0 when it is to be stopped. */
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
                mn_probe_hear(state, i / MN_PROBE_WAYS, (enum mn_survey_way)(i % MN_PROBE_WAYS));
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
        mn_probe_round(state, round);
        if (!hear_until(state, now + ROUND_S < end ? now + ROUND_S : end))
            return mn_fail(diag, MN_ERR_FAILED, "interrupted");
        err = mn_probe_look(state, diag);
        now = mn_seconds();
        if (known && state->begun == mn_probe_all(plan) && end > now + seconds)
            end = now + seconds;
        int content = known && state->begun == mn_probe_all(plan) && is_content(state);
        state->content = content ? state->content | mn_probe_bit(plan->index)
                                 : state->content & ~mn_probe_bit(plan->index);
        quiet = known && state->content == mn_probe_all(plan) ? quiet + 1 : 0;
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
            mn_probe_met(state, peer->port, last->way, last->mac, &name);
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
            mn_probe_send_lldp(state, &state->ports[i], 0);
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
    struct mn_probe_state state = {.plan = plan,
                                   .result = result,
                                   .begun = mn_probe_bit(plan->index)};
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
