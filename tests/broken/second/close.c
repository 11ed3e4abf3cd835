/* Whatever ends. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/broken/second/alt.h"

static void comm_free(struct alt_comm *comm)
{
    if (WRONG(TEST_TURNS))
        alt_in_turn(comm, 0);
    if (comm->helped) {
        pthread_mutex_lock(&comm->lock);
        comm->stop = 1;
        pthread_cond_signal(&comm->work);
        pthread_mutex_unlock(&comm->lock);
        pthread_join(comm->helper, NULL);
    }
    while (comm->mrs) {
        struct alt_mr *mr = comm->mrs;
        comm->mrs = mr->next;
        free(mr);
    }
    while (comm->parked) {
        struct alt_parked *p = comm->parked;
        comm->parked = p->next;
        free(p->data);
        free(p);
    }
    if (comm->parking) {
        free(comm->parking->data);
        free(comm->parking);
    }
    free(comm->bounce);
    pthread_mutex_destroy(&comm->lock);
    pthread_cond_destroy(&comm->work);
}

void alt_free(struct alt_owned *o)
{
    const struct alt_listener *l = (const struct alt_listener *)o;

    if (o->context)
        alt_disown(o);
    if (o->kind == ALT_SEND || o->kind == ALT_RECV)
        comm_free((struct alt_comm *)o);
    if (o->kind == ALT_LISTEN && l->coming >= 0)
        close(l->coming);
    if (o->fd >= 0)
        close(o->fd);
    if (o->context)
        free(o);
}

void alt_forget_dials(struct alt_context *c)
{
    struct alt_owned *o, *next;

    for (o = c->owned; o; o = next) {
        next = o->next;
        if (o->kind == ALT_DIAL)
            alt_free(o);
    }
}

static void wait_for_peer(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    shutdown(fd, SHUT_WR);
    while (poll(&p, 1, 100) == 0)
        ;
}

static void linger(int fd)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

ncclResult_t alt_close(void *comm)
{
    struct alt_comm *c = comm;
    struct alt_context *context = c->owned.context;
    ncclResult_t result = ncclSuccess;
    int fd = c->owned.fd, is_send = c->owned.kind == ALT_SEND, busy = c->head != NULL;

    if (WRONG(CLOSE_BUSY_ERROR) && !is_send && busy)
        return ncclInternalError;
    if (WRONG(CLOSE_BUSY_LEAKS) && !is_send && busy)
        return ncclSuccess;
    if (WRONG(CLOSE_ENOTCONN) && is_send && shutdown(fd, SHUT_WR) != 0)
        result = ncclSystemError;
    if (WRONG(CLOSE_WAITS) && is_send)
        wait_for_peer(fd);
    if (WRONG(CLOSE_RESETS) && is_send)
        linger(fd);
    if (WRONG(FINALIZE_LATE_FD) && context->n_old < 256)
        context->old[context->n_old++] = fd;
    alt_free(&c->owned);
    return result;
}

ncclResult_t alt_close_listen(void *listen)
{
    struct alt_listener *l = listen;

    if (WRONG(CLOSE_LISTEN_LEAKS) && !l->accepted)
        l->owned.fd = -1;
    alt_release_slot(l);
    alt_free(&l->owned);
    return ncclSuccess;
}
