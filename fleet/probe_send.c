/* What is sent in a round. */
#include <string.h>

#include "fleet/lldp.h"
#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"

#define LLDP_EVERY 5  /* rounds */
#define LLDP_TTL   10 /* seconds */
#define IP_AND_UDP 48

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

void mn_probe_send_lldp(struct mn_probe_state *state, struct mn_probe_port *port, int ttl)
{
    uint8_t buf[MN_LLDP_MAX];
    size_t len = mn_lldp_write(port->mac, port->netdev, state->plan->name, ttl, buf);

    (void)mn_probe_send(port, MN_SURVEY_LLDP, buf, len);
}

void mn_probe_round(struct mn_probe_state *state, int round)
{
    for (size_t i = 0; i < state->n_ports; i++) {
        struct mn_probe_port *port = &state->ports[i];
        struct mn_probe_frame frame = {
            .run = state->plan->run,
            .session = state->session,
            .begun = state->begun,
            .content = state->content,
            .index =
                mn_probe_bit(state->plan->index) ? (uint8_t)state->plan->index : MN_PROBE_NO_INDEX,
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
            mn_probe_send_lldp(state, port, LLDP_TTL);
    }
}
