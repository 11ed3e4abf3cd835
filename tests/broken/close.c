/* The closes: either end first, whatever is in flight. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/broken/ref.h"

/* kind: of the end that closes. Some faults concern other processes alone. */
static void free_channel(struct channel *channel, enum kind kind)
{
    const int keep = kind == SEND ? IS(TWO_SENDER_SILENT) : IS(TWO_RECEIVER_SILENT);

    ref_drop_messages(channel);
    if (channel->incoming)
        ref_discard(channel->incoming);
    if (channel->fd >= 0 && !keep)
        close(channel->fd);
    free(channel->leftover.from);
    free(channel);
}

static void close_side(struct channel *channel, enum kind kind)
{
    channel->closed[kind] = 1;
    channel->ends[kind] = NULL;
    if (kind == SEND && IS(CLOSE_DROPS))
        ref_drop_messages(channel);
    if (channel->fd >= 0 || (channel->closed[SEND] && channel->closed[RECV]))
        free_channel(channel, kind);
}

void ref_free_comm(struct comm *comm)
{
    struct comm **at = &ref_comms;

    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    close_side(comm->channel, comm->kind);
    while (comm->registrations) {
        struct registration *r = comm->registrations;
        comm->registrations = r->next;
        free(r);
    }
    free(comm);
}

void ref_free_listener(struct listener *l)
{
    struct listener **at = &ref_listeners;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    while (l->waiting) {
        struct channel *channel = l->waiting;
        l->waiting = channel->next;
        if (!IS(NEVER_ACCEPTED_SILENT))
            close_side(channel, RECV);
    }
    close(l->fd);
    if (l->coming >= 0)
        close(l->coming);
    if (!IS(LISTEN_LEAK))
        free(l);
}

atomic_int ref_disturbed;

/* Fails what the others have posted, and for a while what they want to post. */
static void disturb_others(const struct comm *comm)
{
    pthread_mutex_lock(&ref_lock);
    ref_disturbed = 1;
    for (struct comm *other = ref_comms; other; other = other->next)
        for (int i = 0; other->channel != comm->channel && i < SLOTS; i++)
            if (other->requests[i].used && !other->requests[i].done)
                other->requests[i].trouble = PEER_GONE;
    pthread_mutex_unlock(&ref_lock);
    ref_nap();
    ref_disturbed = 0;
}

void ref_lose_messages(void)
{
    pthread_mutex_lock(&ref_lock);
    for (struct comm *comm = ref_comms; comm; comm = comm->next)
        ref_drop_messages(comm->channel);
    pthread_mutex_unlock(&ref_lock);
}

ncclResult_t ref_close(void *end)
{
    struct comm *comm = end;
    struct channel *channel = comm->channel;
    enum kind kind = comm->kind;
    char byte;

    if (IS(CLOSE_CRASHES) && kind == SEND)
        abort();
    if (IS(CLOSE_BUSY) && comm->out)
        return ref_refuse("requests are out");
    if (IS(CLOSE_WAITS) && kind == SEND)
        while (!channel->closed[RECV])
            ref_nap();
    if (IS(TWO_CLOSE_WAITS) && kind == SEND && channel->fd >= 0)
        (void)recv(channel->fd, &byte, 1, 0);
    if (IS(CLOSE_DISTURBS))
        disturb_others(comm);
    if (IS(CLOSE_FAILS_NEXT) && kind == RECV)
        ref_disturbed = 1;
    pthread_mutex_lock(&ref_lock);
    if (!(IS(CLOSE_KEEPS_BUFFERS) && kind == RECV))
        ref_free_comm(comm);
    pthread_mutex_unlock(&ref_lock);
    return ncclSuccess;
}

ncclResult_t ref_close_listen(void *listen)
{
    struct listener *l = listen;

    if (IS(UNUSED_LISTEN_CRASH) && !l->accepted && !l->waiting)
        abort();
    if (IS(HALF_OPEN_CRASH) && l->waiting)
        abort();
    pthread_mutex_lock(&ref_lock);
    if (IS(LISTEN_OWNS) && l->given)
        l->given->closed[RECV] = 1;
    if (IS(TWO_LISTEN_OWNS) && l->given && l->given->fd >= 0)
        (void)shutdown(l->given->fd, SHUT_RDWR);
    ref_free_listener(l);
    pthread_mutex_unlock(&ref_lock);
    return ncclSuccess;
}
