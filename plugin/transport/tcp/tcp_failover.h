/* TCP: what happens when a socket breaks or a link goes, and when it returns. The protocol is that
 * of tests/models/failover.pml.
 *
 * Of every socket the sender keeps a log of the frames that it has given to it, until their message
 * has landed or GOT says that they were read. A socket is given up when it is broken, or when its
 * link has no carrier, or does not answer, while another link does. Then
 *
 *   sender    closes it by a reset, and says SYNC {lane, turn} on a control socket
 *   receiver  reads what is there, closes it: that is the fence, since all that is written to
 *             buffers is written by its own reads; and says ANSWER {lane, turn, bytes of the
 *             socket that have come to their place}. It says REQUEST where it sees first.
 *   sender    gives to other sockets what its log has beyond those bytes
 *
 * A socket carries its frames in order, so the count says of every byte whether it has arrived. Any
 * socket may introduce messages while fence_seq is ahead: their FIRST frames come in any order.
 *
 * Control sockets, one a link, carry nothing else, so that no data can be in front of these frames.
 * Each is said again on another when the one that it was said on goes: all can be heard twice. With
 * the turn, which counts the sockets that a lane has had, what is old has no effect.
 *
 * A lane comes back with a new socket (reopen.h): first after hold_ms without a fault, twice as
 * long after each time that it did not hold. JOIN {lane, turn} wakes who sleeps. The receiver takes
 * no socket that is older than the one which the sender has given up: SYNC names that one's
 * attempt.
 *
 * A receiver that closes says what has landed, ACK, on every control socket: nobody is left to say
 * it again when the link that carries its acknowledgements has gone.
 *
 * Small messages that are done before they have landed are sent from a copy. */
#ifndef MN_TCP_FAILOVER_H
#define MN_TCP_FAILOVER_H

#include "plugin/transport/tcp/tcp.h"

#define TCP_LINKS      8
#define TCP_NO_CARRIER 1 /* REQUEST's offset; else 0 */

/* On the control sockets: seq is the lane, size its turn. tag: the lane that carries FIRST and ACK,
 * -1 = none, and in length the number of that choice, ANSWER's apart; SYNC: offset is the next
 * message's number, spare the socket's attempt; REQUEST: offset is why; ANSWER: the count in offset
 * and length. */
enum { TCP_SAY_SYNC = 1, TCP_SAY_REQUEST = 2, TCP_SAY_ANSWER = 4, TCP_SAY_JOIN = 8 };

#define TCP_CONTROL_CALLS 256 /* calls between looks at the control sockets */

struct tcp_failover {
    int delivered;  /* as tcp_attend.c saw it last: nothing is to be done */
    int is_last;    /* … the receiver has closed, and said what has landed */
    int stands_in;  /* nobody waits: that all sockets are gone is told when somebody does */
    int blind;      /* receiver: no word wakes who stands in */
    uint32_t calls; /* wraps */
    int n_links;
    int n_broken;               /* lanes that are, and not yet given up */
    int n_waiting;              /* … that are FENCED */
    int n_due;                  /* … with something to be said */
    uint32_t first_turn;        /* choices of comm->first so far */
    struct tcp_lane *control;   /* to say it on; NULL = none can at present */
    uint64_t look_ms, dark_ms;  /* the last look; since when no lane can be used, 0 = some can */
    unsigned bound_ms, hold_ms; /* of silence; the least before a link is used again */
    unsigned heard_ms;          /* so lately an idle link that is well has answered */
    struct tcp_link links[TCP_LINKS];
};

/* tcp_failover.c: its life. lanes[] is filled; there is none without memory, or without another
 * socket or a control socket. */
enum mn_err tcp_failover_open(struct tcp_comm *comm, const struct mn_conn *conn);
void tcp_failover_close(struct tcp_comm *comm);

/* tcp_attend.c: with failover, from open to close, outside of calls. */
void tcp_attend_join(struct tcp_comm *comm);
/* Receiver: it has a new control socket. */
void tcp_attend_watch(struct tcp_comm *comm, const struct tcp_lane *control);
/* Of a sender's small messages that are done: the peer's kernel has them, where the peer reads them
 * whatever becomes of the link; or it has no room for them, and answers. */
enum tcp_delivery { TCP_UNDER_WAY, TCP_HAS_NO_ROOM, TCP_DELIVERED };
enum tcp_delivery tcp_delivery(const struct tcp_comm *comm);
/* Of one of its sockets, by an end and not by a reset: it gives no socket up so. */
int tcp_peer_has_closed(const struct tcp_comm *comm);
/* tcp_life.c: all that its calls would do, but for data that is received, and its end. */
enum mn_err tcp_attend(struct tcp_comm *comm);
/* Small messages that are done are in no socket that will deliver them, or may not be. */
int tcp_is_owing(const struct tcp_comm *comm);

/* tcp_link.c. A socket has failed: fails the comm when no other is left, which failover delays. */
enum mn_err tcp_broken(struct tcp_comm *comm, struct tcp_lane *lane, int error, const char *doing);
/* Looks at all sockets, now and then; gives up what is out, takes back what has returned. */
enum mn_err tcp_links_look(struct tcp_comm *comm, uint64_t now);
/* No socket is left and none has come back in time: the comm ends here, and only here, because of
 * its links. The last one's error says whether the peer's process has ended, too. */
enum mn_err tcp_last_link(struct tcp_comm *comm, const struct tcp_lane *lane, int error,
                          const char *doing);
/* Finds sockets that are broken; whether one is up that is not. */
int tcp_any_left(struct tcp_comm *comm);
/* No other link is known to be well: silence of this one is waited for. */
int tcp_is_last(const struct tcp_comm *comm, const struct tcp_lane *lane);
/* Of its link, as this end sees it. */
int tcp_has_carrier(const struct tcp_comm *comm, const struct tcp_lane *lane);
/* Sender: gives a socket up. cause: in words, "its carrier is lost". */
void tcp_give_up(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t now, const char *cause);
/* Closes a lane's socket, in whatever state. by_reset: the peer shall not take it for an end. */
void tcp_shut(struct tcp_comm *comm, struct tcp_lane *lane, enum tcp_state state, int by_reset);
/* It has a new socket. */
void tcp_lane_is_up(struct tcp_comm *comm, struct tcp_lane *lane, int fd, uint64_t attempt);
/* Once all of a link's sockets are settled, or all are back. */
void tcp_tell_gone(struct tcp_comm *comm, struct tcp_link *link, uint64_t now);
void tcp_tell_back(struct tcp_comm *comm, struct tcp_link *link, uint64_t now);

/* tcp_control.c: reads what was said, says what is due. */
enum mn_err tcp_control(struct tcp_comm *comm);
void tcp_say(struct tcp_comm *comm, struct tcp_lane *lane, unsigned what);
/* What is due and of no use any more. */
void tcp_unsay(struct tcp_comm *comm, struct tcp_lane *lane, unsigned what);
/* The control socket has gone: another says all that may not have been heard. */
void tcp_choose_control(struct tcp_comm *comm);
/* Receiver, which closes: says on every control socket what has landed. */
void tcp_say_landed(struct tcp_comm *comm);

/* tcp_replay.c: the sender's log. Room for one frame more; 0: none yet. */
int tcp_log_room(struct tcp_comm *comm, struct tcp_lane *lane);
void tcp_log(struct tcp_lane *lane, enum tcp_type type, uint32_t seq, uint32_t offset,
             uint32_t length);
/* Frames before number were read. 0: there are not so many. */
int tcp_log_got(struct tcp_lane *lane, uint32_t number);
/* What lies beyond pos bytes of the socket is to be sent again. 0: pos cannot be. */
int tcp_log_again(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t pos);
/* Whether there is something to be sent again, and the next of it. */
int tcp_todo(struct tcp_comm *comm);
struct tcp_part tcp_todo_take(struct tcp_comm *comm);
/* A place for a small message's copy, or NULL. */
uint8_t *tcp_copy_room(struct tcp_comm *comm, struct tcp_send *send);

/* Receiver: FIRST frames of a socket that went are still missing. */
static inline int tcp_is_recovering(const struct tcp_comm *comm)
{
    return (int32_t)(comm->fence_seq - comm->seq_known) > 0;
}

/* tcp_fence.c: the receiver's part. turn: of the socket that is given up. */
enum mn_err tcp_fence(struct tcp_comm *comm, struct tcp_lane *lane, const struct tcp_frame *sync);
/* Takes new sockets that have come. */
enum mn_err tcp_take_back(struct tcp_comm *comm, struct tcp_lane *lane);
/* The lane that the sender says carries FIRST. */
void tcp_set_first(struct tcp_comm *comm, int32_t lane);

#endif
