/* How failover begins and ends with its comm. */
#include <stdlib.h>
#include <string.h>

#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define BOUND_MS 2000 /* of silence, at most, while another link answers */
#define HOLD_MS  2000 /* before a link is used again, at most at first */
#define LEAST_MS 500  /* of silence: a lost packet is sent again after 200 */

static void add_link(struct tcp_comm *comm, const struct mn_conn *conn, int lane)
{
    struct tcp_failover *f = comm->failover;
    int pair = conn->lanes[lane].pair, i = 0;

    while (i < f->n_links && conn->lanes[f->links[i].lane].pair != pair)
        i++;
    comm->lanes[lane].way = (uint8_t)i;
    if (i < f->n_links)
        return;
    struct tcp_link *link = &f->links[f->n_links++];
    link->lane = lane;
    link->well = 1;
    link->hold_ms = f->hold_ms;
    link->weight = conn->plan.n_pairs ? conn->plan.weights[pair] : 0;
    if (conn->plan.n_pairs)
        mn_strlcpy(link->name, comm->lanes[lane].link, sizeof link->name);
}

static int make_logs(struct tcp_comm *comm)
{
    size_t lanes = (size_t)comm->n_lanes;
    struct tcp_part *logs = calloc(lanes * TCP_LOG, sizeof *logs);

    comm->lanes[0].log = logs;
    comm->todo_size = (uint32_t)lanes * TCP_LOG;
    comm->todo = calloc(comm->todo_size, sizeof *comm->todo);
    comm->copies = malloc(TCP_COPIES);
    for (size_t i = 1; logs && i < lanes; i++)
        comm->lanes[i].log = logs + i * TCP_LOG;
    return logs && comm->todo && comm->copies;
}

enum mn_err tcp_failover_open(struct tcp_comm *comm, const struct mn_conn *conn)
{
    unsigned tenth = comm->silence_ms / 10, probe = comm->silence_ms / 12000;

    if (!conn->failover || comm->n_lanes == comm->n_all || comm->n_lanes < 2)
        return MN_OK;
    struct tcp_failover *f = comm->failover = calloc(1, sizeof *f);
    if (!f || (comm->base.is_send && !make_logs(comm)))
        return MN_ERR_NOMEM;
    f->hold_ms = tenth < HOLD_MS ? tenth : HOLD_MS;
    f->bound_ms = tenth < LEAST_MS ? LEAST_MS : tenth < BOUND_MS ? tenth : BOUND_MS;
    f->heard_ms = (probe < 1 ? 1 : probe) * 1000 + 700;
    f->control = &comm->lanes[comm->n_lanes];
    f->look_ms = mn_now_ms();
    for (int i = 0; i < comm->n_all; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        add_link(comm, conn, i);
        lane->acked_ms = f->look_ms;
        /* Without a door nothing comes back; what is there moves all the same. */
        if (conn->door && !(lane->reopen = mn_reopen_new_lane(conn, conn->door, i)))
            return MN_ERR_NOMEM;
        mn_reopen_keep(lane->reopen, conn->config);
    }
    return MN_OK;
}

static void tell_links(const struct tcp_comm *comm)
{
    const struct tcp_failover *f = comm->failover;
    char who[TCP_WHO];

    for (int i = 0; i < f->n_links; i++) {
        const struct tcp_link_sum *sum = &f->links[i].sum;
        if (sum->gone)
            MN_INFO("%s: went %u times, came back %u times; %llu ms of standing still for it; "
                    "%llu bytes were sent again",
                    tcp_name(comm, &comm->lanes[f->links[i].lane], who), sum->gone, sum->back,
                    (unsigned long long)sum->stall_ms, (unsigned long long)sum->again);
    }
}

void tcp_failover_close(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;

    if (!f)
        return;
    tell_links(comm);
    for (int i = 0; i < comm->n_all; i++)
        mn_reopen_free(comm->lanes[i].reopen);
    free(comm->lanes[0].log);
    free(comm->todo);
    free(comm->copies);
    free(f);
}
