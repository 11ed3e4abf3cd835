/* Small messages are done before they have landed. When their link goes while their owner makes no
 * call here, since it waits elsewhere for what the peer makes of them, nobody would send them
 * again; and a receiver whose owner has all that it asked for, and waits elsewhere, would not say
 * so again to a sender that has lost its word. The thread of attend.h does then what their calls
 * would. It looks at senders now and then, until all has been delivered; a receiver's control
 * sockets wake it, on which nothing is said while all links are well. */
#include <linux/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/log.h"

#define OWES_MS    50
#define AWAY_MS    500 /* between looks at a receiver that has lost a socket */
#define CLOSE_WAIT 8   /* TCP_CLOSE_WAIT of netinet/tcp.h, as CLOSED in tcp_link.c */

enum tcp_delivery tcp_delivery(const struct tcp_comm *comm)
{
    enum tcp_delivery delivery = TCP_DELIVERED;
    struct tcp_info info;

    if (tcp_is_owing(comm))
        return TCP_UNDER_WAY;
    for (int i = 0; i < comm->n_lanes; i++) {
        if (comm->lanes[i].off)
            continue;
        if (!tcp_read_info(&comm->lanes[i], &info) || info.tcpi_unacked)
            return TCP_UNDER_WAY;
        if (info.tcpi_notsent_bytes)
            delivery = TCP_HAS_NO_ROOM;
    }
    return delivery;
}

int tcp_peer_has_closed(const struct tcp_comm *comm)
{
    struct tcp_info info;

    for (int i = 0; i < comm->n_all; i++)
        if (tcp_read_info(&comm->lanes[i], &info) && info.tcpi_state == CLOSE_WAIT)
            return 1;
    return 0;
}

/* One that is being called is its owner's. */
static unsigned look_at_sender(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;

    if (!comm->eager_bytes || atomic_load(&comm->error) || !tcp_any_left(comm))
        f->delivered = 1;
    else if (comm->attended.calls != comm->attended.seen)
        f->delivered = 0;
    else if (!f->delivered) /* of an error the next call tells */
        f->delivered = !tcp_attend(comm) && tcp_delivery(comm) == TCP_DELIVERED;
    return f->delivered ? 0 : OWES_MS;
}

/* A socket that is away comes back without a word where there is no other. */
static unsigned look_at_receiver(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;
    int away = f->blind;

    if (atomic_load(&comm->error) || tcp_attend(comm))
        return 0;
    for (int i = 0; i < comm->n_all; i++)
        away |= comm->lanes[i].off;
    if (f->n_broken == comm->n_all) /* the peer has ended, which the owner learns when he calls */
        return 0;
    return f->n_due || comm->ack_due ? OWES_MS : away ? AWAY_MS : 0;
}

static unsigned look(struct mn_attended *attended)
{
    struct tcp_comm *comm =
        (struct tcp_comm *)((char *)attended - offsetof(struct tcp_comm, attended));

    return comm->base.is_send ? look_at_sender(comm) : look_at_receiver(comm);
}

void tcp_attend_watch(struct tcp_comm *comm, const struct tcp_lane *control)
{
    if (comm->attended.joined && !comm->base.is_send && control->fd >= 0)
        comm->failover->blind |= mn_attend_watch(&comm->attended, control->fd) != 0;
}

void tcp_attend_join(struct tcp_comm *comm)
{
    char who[sizeof comm->peer + 32];

    snprintf(who, sizeof who, "%s peer %s", comm->base.is_send ? "send to" : "receive from",
             comm->peer);
    comm->attended.look = look;
    comm->failover->delivered = 0;
    int error = mn_attend_join(&comm->attended, who);
    for (int i = comm->n_lanes; i < comm->n_all; i++)
        tcp_attend_watch(comm, &comm->lanes[i]);
    if (!error)
        mn_attend_wake(&comm->attended);
}
