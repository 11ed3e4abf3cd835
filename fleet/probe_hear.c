/* What is heard: who is of the run, what he knows, and strangers. */
#include <string.h>

#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"

#define AT_ONCE 256 /* frames of one socket, before the others have their turn */

uint64_t mn_probe_bit(int index)
{
    return index >= 0 && index < MN_PROBE_NODES_MAX ? 1ull << index : 0;
}

uint64_t mn_probe_all(const struct mn_probe_plan *plan)
{
    return plan->count >= MN_PROBE_NODES_MAX ? ~0ull : mn_probe_bit(plan->count) - 1;
}

void mn_probe_met(struct mn_probe_state *state, size_t port, enum mn_survey_way way,
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
    if (lldp->bridges > stranger->bridges)
        stranger->bridges = lldp->bridges;
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
    state->begun |= frame->begun & mn_probe_all(state->plan);
    state->content = (state->content & mn_probe_bit(state->plan->index)) |
                     ((state->content | frame->content) & ~mn_probe_bit(state->plan->index));
}

void mn_probe_hear(struct mn_probe_state *state, size_t port, enum mn_survey_way way)
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
                mn_probe_met(state, port, way, mac, &lldp);
            continue;
        }
        enum mn_probe_verdict verdict =
            mn_probe_frame_read(state->buffer, len, way, state->plan->run, state->key, &frame);
        if (verdict == MN_PROBE_GOOD)
            met_peer(state, port, &frame, mtu);
        else if (verdict == MN_PROBE_STRANGER)
            mn_probe_met(state, port, way, mac, NULL);
    }
}
