/* For owners that sleep. */
#include <sys/epoll.h>

#include "plugin/transport/tcp/tcp.h"

int tcp_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max)
{
    const struct tcp_comm *comm = (const struct tcp_comm *)base;

    for (int i = 0; i < comm->n_lanes && i < max; i++) {
        unsigned events = base->is_send ? EPOLLOUT : EPOLLIN;
        /* The way back is lane 0's. */
        wakes[i] = (struct mn_wake){comm->lanes[i].fd, i ? events : EPOLLIN | EPOLLOUT};
    }
    return comm->n_lanes;
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
    if (err)
        return err;
    return comm->idle ? tcp_look(comm) : MN_ERR_AGAIN;
}
