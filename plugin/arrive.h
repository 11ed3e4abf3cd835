/* Sockets that have connected to a listener and have not said what for. Whoever reaches the port
 * can make them; this is what keeps them from keeping others out, layer by layer.
 *
 * Who is silent is held back by the kernel until his first bytes are there (TCP_DEFER_ACCEPT), in a
 * queue of 4096 a port and behind that by SYN cookies; meshnet's connectors send theirs with the
 * end of the TCP handshake.
 *
 * Who says something wrong is closed by the first look at it, which is at accept: no memory is
 * spent.
 *
 * Who says half a frame, or is silent for long, waits in a table of 2 to 64 places a listener: an
 * eighth of the process's descriptors, shared by its listeners. When it is full, one of the address
 * that has most places in it makes room, by lot, if possible one that has been there for 300 ms.
 * Nobody is turned away because the table is full.
 *
 * Of many at once at most 512 are taken a step and address; the others wait in the kernel.
 *
 * When the process has no descriptor left, the reserve (one for the process) still lets one in at a
 * time to be looked at: strangers are closed, a peer keeps it; what is behind waits in the kernel
 * until there are descriptors again. That is said once a minute at most. */
#ifndef MN_ARRIVE_H
#define MN_ARRIVE_H

#include <stdint.h>

#define MN_MAX_WAITING 64

struct mn_arrival {
    int fd;
    uint64_t source; /* its address, of IPv6 the first half */
    uint64_t came_ms;
};

struct mn_arrivals {
    struct mn_arrival waiting[MN_MAX_WAITING];
    int n;
    uint64_t lot;
};

enum mn_verdict { MN_ARRIVAL_WAITS, MN_ARRIVAL_TAKEN, MN_ARRIVAL_STRANGER };

/* Says what a socket is, by what can be read of it. TAKEN: it belongs to whom it is for. */
typedef enum mn_verdict (*mn_arrival_judge)(void *listener, int fd);

/* Every open is followed by one close; both are quick and may come from any thread. */
void mn_arrivals_open(struct mn_arrivals *arrivals);
void mn_arrivals_close(struct mn_arrivals *arrivals);
/* Looks at those that wait, then takes what has connected to fds. Who has not said what it is for
 * within patience_ms goes. */
void mn_arrivals_step(struct mn_arrivals *arrivals, const int *fds, int n_fds, unsigned patience_ms,
                      mn_arrival_judge judge, void *listener);

#endif
