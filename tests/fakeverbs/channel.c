/* Completion channels: an event for the first completion after a queue was armed. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fv_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (channel->base.fd < 0) {
        free(channel);
        return NULL;
    }
    channel->end = &channel->first;
    fv_lock();
    fv_context_of(context)->children++;
    fv.channels++;
    fv_unlock();
    fv_helper_start();
    return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
    fv_lock();
    int busy = base->refcnt > 0;
    if (!busy) {
        fv_context_of(base->context)->children--;
        fv.channels--;
    }
    fv_unlock();
    if (busy)
        return EBUSY;
    fv_helper_stop();
    close(base->fd);
    free(base);
    return 0;
}

int fv_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
    struct fv_cq *cq = (struct fv_cq *)base;
    enum fv_notify notify = solicited_only ? FV_SOLICITED : FV_ANY;
    if (!base->channel)
        return EINVAL; /* a device takes it, and nobody is ever woken */
    fv_lock();
    if (notify > cq->notify)
        cq->notify = notify;
    fv_run();
    fv_unlock();
    return 0;
}

void fv_channel_notify(struct fv_cq *cq, int solicited)
{
    struct fv_channel *channel = (struct fv_channel *)cq->base.channel;
    uint64_t one = 1;
    if (cq->notify == FV_NOT_ARMED || (cq->notify == FV_SOLICITED && !solicited))
        return;
    cq->notify = FV_NOT_ARMED;
    if (fv_fails(FV_FAIL_EVENT))
        return;
    if (cq->waiting++ == 0) {
        cq->next = NULL;
        *channel->end = cq;
        channel->end = &cq->next;
    }
    if (write(channel->base.fd, &one, sizeof one) != sizeof one)
        fv_die("cannot queue an event of a completion queue");
}

/* The first queue with events is no more of them. */
static void take_first(struct fv_channel *channel)
{
    channel->first = channel->first->next;
    if (!channel->first)
        channel->end = &channel->first;
}

int ibv_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **out, void **context)
{
    struct fv_channel *channel = (struct fv_channel *)base;
    uint64_t token;
    if (read(base->fd, &token, sizeof token) != sizeof token)
        return -1;
    fv_lock();
    struct fv_cq *cq = channel->first;
    if (!cq)
        fv_die("an event of a completion queue that is gone was taken meanwhile");
    cq->taken++;
    if (--cq->waiting == 0)
        take_first(channel);
    fv_unlock();
    *out = &cq->base;
    *context = cq->base.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *base, unsigned int n)
{
    struct fv_cq *cq = (struct fv_cq *)base;
    fv_lock();
    cq->taken -= (int)n;
    if (cq->taken < 0)
        fv_die("more events of a completion queue were acknowledged than taken");
    fv_unlock();
}

void fv_channel_drop(struct fv_cq *cq)
{
    struct fv_channel *channel = (struct fv_channel *)cq->base.channel;
    uint64_t token;
    if (!channel)
        return;
    if (cq->taken)
        fv_die("ibv_destroy_cq with an event of its channel not acknowledged: it would hang");
    struct pollfd fd = {.fd = channel->base.fd, .events = POLLIN};
    for (; cq->waiting > 0; cq->waiting--)
        if (poll(&fd, 1, 0) != 1 || read(fd.fd, &token, sizeof token) != sizeof token)
            fv_die("cannot take an event of a completion queue back");
    struct fv_cq **at = &channel->first;
    while (*at && *at != cq)
        at = &(*at)->next;
    if (*at)
        *at = cq->next;
    for (channel->end = &channel->first; *channel->end; channel->end = &(*channel->end)->next)
        ;
    channel->base.refcnt--;
}
