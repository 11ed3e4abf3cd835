/* For owners that sleep: completion channels, and what is looked at before they do. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "plugin/transport/verbs/verbs.h"

#define ACKNOWLEDGE_EVERY 64 /* it takes a lock */

enum mn_err verbs_channel_make(struct verbs_comm *comm, struct verbs_link *link,
                               struct mn_diag *diag)
{
    const struct mn_ibv *ibv = link->device->ibv;

    link->channel = ibv->create_comp_channel(link->device->context);
    if (!link->channel)
        return mn_fail_errno(diag, "making a completion channel on %s for the peer %s",
                             link->device->name, comm->peer);
    /* A new descriptor has no other flags. */
    if (fcntl(link->channel->fd, F_SETFL, O_NONBLOCK) == 0)
        return MN_OK;
    return mn_fail_errno(diag, "readying a completion channel on %s for the peer %s",
                         link->device->name, comm->peer);
}

/* A queue with events that were taken and not acknowledged is never destroyed. */
void verbs_channel_settle(struct verbs_link *link)
{
    if (link->events)
        link->device->ibv->ack_cq_events(link->cq, link->events);
    link->events = 0;
}

void verbs_channel_free(struct verbs_link *link)
{
    if (link->channel)
        (void)link->device->ibv->destroy_comp_channel(link->channel);
    link->channel = NULL;
}

int verbs_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max)
{
    const struct verbs_comm *comm = (const struct verbs_comm *)base;
    int n = 0;

    for (int i = 0; i < comm->n_links; i++) {
        if (!comm->links[i].channel)
            continue;
        if (n < max)
            wakes[n] = (struct mn_wake){comm->links[i].channel->fd, EPOLLIN};
        n++;
    }
    if (comm->control.fd >= 0 && n < max)
        wakes[n] = (struct mn_wake){comm->control.fd, EPOLLIN};
    return n + (comm->control.fd >= 0);
}

/* An event is of one completion or more since the queue was armed, and disarms it. */
static enum mn_err arm_link(struct verbs_comm *comm, int i)
{
    struct verbs_link *link = &comm->links[i];
    const struct mn_ibv *ibv = link->device->ibv;
    struct ibv_cq *cq;
    void *context;

    while (!ibv->get_cq_event(link->channel, &cq, &context)) {
        link->armed = 0;
        if (++link->events >= ACKNOWLEDGE_EVERY)
            verbs_channel_settle(link);
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return verbs_fail(comm, i, MN_ERR_SYS, "the completion channel cannot be read: %s",
                          strerror(errno));
    int error = link->armed ? 0 : ibv_req_notify_cq(link->cq, 0);
    if (error)
        return verbs_fail(comm, i, MN_ERR_SYS, "the completion queue cannot be armed: %s",
                          strerror(error));
    link->armed = 1;
    return MN_OK;
}

/* What completed before it was armed makes no event: so that is looked for afterwards. Of an end
 * that is waited for, the peer's, a broken queue pair's or a link's, the clock alone tells. */
enum mn_err verbs_arm(struct mn_comm *base)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    enum mn_err err = verbs_error(comm);
    int closed = comm->peer_closed;

    if (!err && !comm->config->sleeps)
        return MN_ERR_UNSUPPORTED;
    for (int i = 0; i < comm->n_links && !err; i++)
        err = arm_link(comm, i);
    comm->idle += !comm->idle;
    if (!err)
        err = base->is_send ? verbs_send_progress(comm) : verbs_recv_progress(comm);
    if (!err && !comm->idle)
        return MN_ERR_AGAIN;
    if (!err)
        err = verbs_look(comm);
    if (err)
        return err;
    return comm->broken_ms || comm->ended_ms || closed != comm->peer_closed || comm->hurry
               ? MN_ERR_AGAIN
               : MN_OK;
}
