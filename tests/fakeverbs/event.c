/* Asynchronous events: a queue a context, and an eventfd that counts it. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define SETTLE_MS 5000

void fv_event_put(struct fv_context *context, struct ibv_async_event event)
{
    struct fv_event *e = calloc(1, sizeof *e);
    uint64_t one = 1;
    if (!e || write(context->vctx.context.async_fd, &one, sizeof one) != sizeof one)
        fv_die("cannot queue an event");
    e->event = event;
    *context->events_end = e;
    context->events_end = &e->next;
    fv.counters[FV_EVENTS]++;
}

void fv_event_qp(struct fv_qp *qp, enum ibv_event_type type)
{
    fv_event_put(fv_context_of(qp->base.context),
                 (struct ibv_async_event){.element.qp = &qp->base, .event_type = type});
}

static int about_object(enum ibv_event_type type)
{
    return type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
           type == IBV_EVENT_QP_ACCESS_ERR;
}

void fv_event_drop(struct fv_context *context, void *object)
{
    struct fv_event **at = &context->events;
    while (*at) {
        struct fv_event *e = *at;
        /* The members of element share their place. */
        if (object && !(about_object(e->event.event_type) && e->event.element.qp == object)) {
            at = &e->next;
            continue;
        }
        struct pollfd fd = {.fd = context->vctx.context.async_fd, .events = POLLIN};
        uint64_t token;
        /* Who waits for events may have taken it in between, and finds none. */
        if (poll(&fd, 1, 0) == 1 && read(fd.fd, &token, sizeof token) != sizeof token &&
            errno != EAGAIN)
            fv_die("cannot take an event back");
        *at = e->next;
        free(e);
    }
    context->events_end = at;
}

static int *unacked_of(const struct ibv_async_event *event)
{
    if (!about_object(event->event_type))
        return NULL;
    return event->event_type == IBV_EVENT_CQ_ERR ? &((struct fv_cq *)event->element.cq)->unacked
                                                 : &((struct fv_qp *)event->element.qp)->unacked;
}

int ibv_get_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
    struct fv_context *context = fv_context_of(base);
    for (;;) {
        uint64_t token;
        if (read(base->async_fd, &token, sizeof token) != sizeof token)
            return -1;
        fv_lock();
        struct fv_event *e = context->events;
        if (e) {
            *event = e->event;
            context->events = e->next;
            if (!e->next)
                context->events_end = &context->events;
            int *unacked = unacked_of(event);
            if (unacked)
                ++*unacked;
        }
        fv_unlock();
        if (e) {
            free(e);
            return 0;
        }
    }
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    fv_lock();
    int *unacked = unacked_of(event);
    if (unacked && --*unacked < 0)
        fv_die("an event was acknowledged twice");
    fv_unlock();
}

void fv_event_settle(struct fv_context *context, void *object, const int *unacked, const char *verb)
{
    for (int ms = 0;; ms++) {
        fv_event_drop(context, object);
        if (!*unacked)
            return;
        if (ms == SETTLE_MS)
            fv_die("%s with an event that is not acknowledged: it would hang", verb);
        fv_unlock();
        usleep(1000);
        fv_lock();
    }
}
