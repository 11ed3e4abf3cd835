/* For owners that sleep. */
#include <sys/epoll.h>

#include "plugin/transport/tcp/tcp_failover.h"

int tcp_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max)
{
    const struct tcp_comm *comm = (const struct tcp_comm *)base;

    int n = 0;

    for (int i = 0; i < comm->n_all; i++) {
        const struct tcp_lane *lane = &comm->lanes[i];
        unsigned events = base->is_send ? EPOLLOUT : EPOLLIN;
        if (lane->fd < 0)
            continue;
        /* Any lane may become the one that things come back by. */
        if (comm->failover || lane == comm->first)
            events = EPOLLIN | EPOLLOUT;
        if (n < max)
            wakes[n] = (struct mn_wake){lane->fd, events};
        n++;
    }
    return n;
}

/* Does what test() would, which leaves each socket at the end of what it has or takes: from there
 * on the kernel tells of more. */
enum mn_err tcp_arm(struct mn_comm *base)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    enum mn_err err = (enum mn_err)atomic_load_explicit(&comm->error, memory_order_relaxed);

    if (!err && !comm->idle)
        err = tcp_idle(comm);
    if (!err)
        err = base->is_send ? tcp_send_arm(comm) : tcp_recv_arm(comm);
    if (!err && comm->failover)
        err = tcp_control(comm);
    if (err)
        return err;
    if (!comm->idle)
        return MN_ERR_AGAIN;
    err = tcp_look(comm);
    /* What has changed in this very look may have something to do. */
    return !err && comm->n_todo && !comm->idle ? MN_ERR_AGAIN : err;
}
