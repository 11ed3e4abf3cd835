/* A control connection that is lost is opened again while its comm lives.
 *
 * NCCL closes the listener as soon as accept has given a comm, so that nobody is there to be
 * dialled again. A process therefore has one door for those that come back to any of its
 * connections: a port at the addresses of its devices, open while a listener or a comm lives that
 * may need it. READY tells the connector which. Whoever has lost the connection says so by
 * mn_reopen_lost(); the connector dials, over its cables in turn, at once and then ever more
 * seldom, and says
 *
 *   RETURN {id 8, attempt 8, MAC 16}     and is answered by the same with the acceptor's MAC
 *
 * under the key of the session. An attempt is good once, and only when its number is higher than
 * that of all before, so that what was overheard opens nothing. Everybody else is closed:
 * strangers, old attempts, and who asks for a comm that is gone. Sockets that say nothing are
 * bounded as a listener's are (arrive.h).
 *
 * A thread does it, for both sides; it sleeps until somebody comes or is to be dialled. The comm is
 * only given the new socket, and looks for it when it likes. Each end takes the newest. */
#ifndef MN_REOPEN_H
#define MN_REOPEN_H

#include "plugin/attend.h"
#include "plugin/conn.h"

struct mn_reopen;

/* Holds the process's door open, at the addresses of all devices of config; opens it if need be.
 * Returns its port; 0: there is none, which is told at WARN, and nothing is held. */
uint16_t mn_reopen_hold_door(const struct mn_config *config);
void mn_reopen_release_door(void);

/* The way back of one connection whose plan is made. port: the acceptor's door. NULL: no memory.
 * Takes no lock but its own for a moment. */
struct mn_reopen *mn_reopen_new(const struct mn_conn *conn, uint16_t port);
/* The same for one of its sockets, lane of conn->lanes: it comes back over its own cable alone. */
struct mn_reopen *mn_reopen_new_lane(const struct mn_conn *conn, uint16_t port, int lane);
/* The connection is a comm's now; the acceptor's holds the door from here on. reopen may be NULL,
 * here and below. */
void mn_reopen_keep(struct mn_reopen *reopen, const struct mn_config *config);
void mn_reopen_free(struct mn_reopen *reopen);

/* The comm has failed, and looks at nothing any more. Over each connection that comes back the
 * frame is said, by the thread; with nothing to say none comes back. */
void mn_reopen_fail(struct mn_reopen *reopen, enum mn_frame type, const void *words, size_t len);

/* A new one wakes it, until it leaves; NULL: nobody. */
void mn_reopen_wakes(struct mn_reopen *reopen, struct mn_attended *attended);

/* The control connection is no use any more. 0: it will not come back. */
int mn_reopen_lost(struct mn_reopen *reopen);
/* The same, and the cable of this netdev is dialled over last. */
int mn_reopen_lost_on(struct mn_reopen *reopen, const char *netdev);
/* Connector: the control connection, so that it is opened again when it is silent though its comm
 * makes no call, which the peer may need an answer to. Before it is closed: -1, none. */
void mn_reopen_watch(struct mn_reopen *reopen, int fd);
/* Whether there is a new one to be taken. A load. */
int mn_reopen_is_done(struct mn_reopen *reopen);
/* Its socket, the caller's; -1: none yet. */
int mn_reopen_take(struct mn_reopen *reopen);
/* The same, and which attempt it is of: both ends have the same number. */
int mn_reopen_take_attempt(struct mn_reopen *reopen, uint64_t *attempt);

/* No context is left, nor a comm: ends the thread. */
void mn_reopen_quit(void);

#endif
