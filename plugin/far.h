/* Peers without a common cable: at which addresses of this host they find it, and by which way this
 * one goes to theirs (far_way.c), as the kernel's routing table says. A way is probed in both
 * directions by the TCP connection that is opened over it, and which the data then takes. */
#ifndef MN_FAR_H
#define MN_FAR_H

#include "plugin/handle.h"

/* Fills config->far, beside and uncabled, once its devices are known: the management NICs of node
 * self of the mesh file; without one those of NCCL_SOCKET_IFNAME, else that of the default route
 * and what else seems to be for management. Never a cable's end. self -1: no mesh file. None where
 * the settings rule TCP and the relay out. MN_ERR_NOMEM. */
enum mn_err mn_far_choose(struct mn_config *config, const struct mn_host *host,
                          const struct mn_mesh *mesh, int self, struct mn_diag *diag);

/* Those of config->far that this host has now, with the address that their NIC got instead where
 * one has changed since. Returns how many. */
int mn_far_now(const struct mn_config *config, struct mn_local far[MN_MAX_FAR]);

/* Whether data goes over that NIC. */
int mn_far_is_cable(const struct mn_config *config, int ifindex);

/* The link by which the mesh file makes the peer of a handle a neighbour, or NULL: such a one is
 * not reached in another way because an address is gone. */
const struct mn_beside *mn_far_neighbour(const struct mn_config *config,
                                         const struct mn_handle *peer);

enum mn_far_kind {
    MN_FAR_CABLES,     /* along cables, through neighbours that forward; never a default route */
    MN_FAR_MANAGEMENT, /* over the management network */
    MN_FAR_ELSEWHERE   /* wherever else the routing table leads */
};

struct mn_far_way {
    struct mn_addr to;
    enum mn_far_kind kind;
    struct mn_addr from; /* this host's address on that way */
    struct mn_addr via;  /* the first node on it; family 0: none is in between */
    int ifindex;
    int prefix; /* of the route's destination: 0 is a default route */
};
#define MN_FAR_WAYS (MN_MAX_LOCALS + MN_MAX_FAR)

/* The ways to the peer of a handle, best first: along cables, over management, else elsewhere;
 * those that were silent lately behind all others; of one kind alone where transport.reach says so.
 * A default route elsewhere only where there is nothing else.
 * Returns how many. */
int mn_far_ways(const struct mn_config *config, const struct mn_handle *peer,
                struct mn_far_way ways[MN_FAR_WAYS]);
/* Nobody answered on that way: for a minute others are tried before it. */
void mn_far_silent(const struct mn_addr *to);
/* While a connection along the cables waits for an answer: where its packets get to is looked at,
 * see hops.h; and once it has come to an end. Others are left alone. */
void mn_far_ask(const struct mn_far_way *way);
void mn_far_rest(const struct mn_far_way *way);
/* "along the cables through b (10.0.1.1 to 10.0.2.2)", … Returns text. */
char *mn_far_text(const struct mn_config *config, const struct mn_far_way *way, char *text,
                  size_t size);
/* Where nobody answers: at which node it seems to end, and what to do. Returns text. */
char *mn_far_why(const struct mn_config *config, const struct mn_far_way *way, uint16_t port,
                 char *text, size_t size);
/* Says once for each peer and kind of way how it is reached and what would be faster: at INFO, and
 * at WARN of a neighbour whose cable is of no use now. conn: the finished handshake. */
struct mn_conn;
void mn_far_tell(const struct mn_config *config, const struct mn_handle *peer,
                 const struct mn_conn *conn, const struct mn_far_way *way);

#endif
