/* One connection being set up: authenticated handshake, common plan, lanes. Both sides are state
 * machines that advance a step a call and never block.
 *
 *   connector                          acceptor
 *   HELLO  random, mac over it     ->
 *                                  <-  HELLO  random
 *   PROOF  mac over both randoms   ->
 *                                  <-  PROOF
 *   LINKS  name, addresses, mesh   ->
 *                                  <-  LINKS  and the id lanes name; PLAN hash
 *   PLAN   hash                    ->
 *   SETUP  <- both, where the transport has one: queue pairs ->
 *          (the acceptor's may be an answer: once its own part is done)
 *   LANE   (first frame of each further socket)
 *   LANES  which of them came up   ->
 *                                  <-  READY  once those have arrived and its own SETUP is done:
 *                                      the port at which it can be come back to (reopen.h), mac
 *
 * Either may end it by ERROR {1 when another attempt would end the same way, reason} once the peer
 * has proved itself.
 *
 * A step acts on what has arrived, the kernel's answer to connect() included, before it looks at
 * the clock. The clock counts from the last progress, and only while somebody calls: a long time
 * between two calls counts for an eighth of what an attempt may take. Once LANES is out the
 * connector gives up when the control connection does, not before: the acceptor may have said
 * READY.
 *
 * mesh: the digest of the mesh file (topo/mesh_digest.h). Another one than the own is warned of and
 * refuses nothing: what matters of it is in the rest of LINKS and in the plan.
 *
 * The MAC in HELLO costs a stranger his place before it costs the acceptor memory: who does not
 * have the handle does not get past the first frame. It can be replayed by who reads the wire; the
 * PROOF over both randoms cannot.
 *
 * A frame is {magic 4, type 1, zero 1, payload length 2} and at most MN_FRAME_MAX bytes, lengths
 * exact. The key of all MACs is the listener's nonce, which only the handle carries, mixed with the
 * cluster key when there is one. This authenticates the set-up; the data that follows is clear. */
#ifndef MN_CONN_H
#define MN_CONN_H

#include "plugin/handle.h"
#include "plugin/plan.h"

#define MN_PROTOCOL_VERSION 10
#define MN_FRAME_MAX        4096
#define MN_MAX_LANES        64 /* bits of LANES */
/* Calls that see no progress before an attempt is given up: one counts for no more than this part
 * of handshake, so that who is away does not come back to a failure. */
#define MN_PATIENT_CALLS 8

enum mn_frame {
    MN_FRAME_HELLO = 1,
    MN_FRAME_PROOF,
    MN_FRAME_LINKS,
    MN_FRAME_PLAN,
    MN_FRAME_SETUP,
    MN_FRAME_LANE,
    MN_FRAME_LANES,
    MN_FRAME_READY,
    MN_FRAME_ERROR,
    /* after READY, on a control connection that stays */
    MN_FRAME_BYE,
    MN_FRAME_FAILED,
    MN_FRAME_RETURN, /* the first of one that is opened again, both ways */
    MN_FRAME_LINK    /* RDMA: of a link that goes or comes back (transport/verbs/recover.h) */
};

/* One socket with the frame being read from and written to it. */
struct mn_chan {
    int fd;
    uint8_t rx[MN_FRAME_MAX];
    size_t rx_len;
    uint8_t tx[MN_FRAME_MAX];
    size_t tx_len, tx_off;
    int lost; /* errno value by which sending learnt that it is; 0: not */
};

void mn_chan_init(struct mn_chan *chan, int fd);
void mn_chan_close(struct mn_chan *chan);
/* Appends a frame to what is to be sent. */
enum mn_err mn_chan_put(struct mn_chan *chan, enum mn_frame type, const void *payload, size_t len);
/* Sends what the kernel takes. MN_OK: all sent; MN_ERR_AGAIN; else the peer is gone. */
enum mn_err mn_chan_flush(struct mn_chan *chan, struct mn_diag *diag);
/* Reads one whole frame, never a byte beyond it. MN_OK: *payload and *len are it (valid until the
 * next call); MN_ERR_AGAIN: not whole yet. */
enum mn_err mn_chan_get(struct mn_chan *chan, enum mn_frame *type, uint8_t **payload, size_t *len,
                        struct mn_diag *diag);

/* Looks at the first size bytes (8 at least) of what a socket has to read and leaves them there.
 * MN_OK: a frame is there whole, *payload in bytes; MN_ERR_AGAIN: perhaps the beginning of one;
 * MN_ERR_PROTO: no frame, or a larger one; MN_ERR_PEER_DEAD. */
enum mn_err mn_chan_peek(int fd, uint8_t *bytes, size_t size, enum mn_frame *type,
                         const uint8_t **payload, size_t *len);

enum mn_conn_state {
    MN_CONN_CONNECT,
    MN_CONN_HELLO,
    MN_CONN_PROOF,
    MN_CONN_LINKS,
    MN_CONN_PLAN,
    MN_CONN_SETUP,
    MN_CONN_LANES,
    MN_CONN_READY
};
const char *mn_conn_state_name(enum mn_conn_state state);

struct mn_lane {
    int fd;
    int pair;    /* index into the plan's pairs */
    int control; /* it carries no data, but what is said of the others when a link goes */
};

struct mn_transport;
struct mn_reopen;

struct mn_conn {
    int connector; /* 1 on the side that called connect */
    enum mn_conn_state state;
    const struct mn_config *config;
    struct mn_chan chan; /* the control connection, lane 0 afterwards */
    uint8_t key[MN_KEY_SIZE], session[MN_KEY_SIZE];
    uint8_t random[2][16];          /* [1] connector's, [0] acceptor's */
    uint64_t id;                    /* names the lanes' owner; chosen by the acceptor */
    struct mn_side side[2];         /* [1] connector, [0] acceptor */
    uint8_t links_mac[MN_MAC_SIZE]; /* over both LINKS payloads */
    struct mn_pair control;
    struct mn_plan plan;
    const struct mn_transport *transport; /* from the plan on */
    void *setup;                          /* the transport's, until the connection is READY */
    int setup_got, setup_done;            /* the peer's SETUP was read; ours is done */
    int setup_later;                      /* acceptor: its SETUP is an answer to the peer's */
    struct mn_lane lanes[MN_MAX_LANES];
    int n_lanes;
    uint64_t lanes_up, lanes_agreed;          /* bit per lane */
    struct mn_chan *lane_chans[MN_MAX_LANES]; /* connector: lanes on their way */
    int ready_sent;
    int failover;             /* TCP: one control socket a link beside those for data */
    uint16_t door;            /* the acceptor's port for those that come back; 0 = none */
    struct mn_reopen *reopen; /* from READY on, where the transport has a use for it; else NULL */
    uint64_t stepped_ms;      /* when it was last called, or begun */
    unsigned idle_ms;         /* without progress, as calls have seen it */
    unsigned patience_ms;     /* connector: how much of it HELLO may be unanswered, where it is
                                 more than handshake */
    uint64_t lanes_ms;        /* when the lanes were begun */
    int again;                /* after a failure: another attempt may go better */
    int lost;                 /* it failed because the peer closed it, without a word */
    int relay_failed;         /* … because no relay was to be had: the next goes without one */
    int traffic_class;
    char peer_text[128]; /* "node-b (10.0.1.2)" once known, else the address */
};

/* Monotonic milliseconds. */
uint64_t mn_now_ms(void);

/* The key of a listener's connections, from its nonce and the cluster key. */
void mn_conn_key(const struct mn_config *config, const uint8_t nonce[MN_NONCE_SIZE],
                 uint8_t key[MN_KEY_SIZE]);

#define MN_HELLO_SIZE (17 + MN_MAC_SIZE) /* the connector's: version, random, mac */
#define MN_LANE_SIZE  (10 + MN_MAC_SIZE) /* id, lane, mac */

/* Whether a HELLO comes from who knows the key. MN_ERR_PROTO: from another version. */
enum mn_err mn_hello_check(const uint8_t key[MN_KEY_SIZE], const uint8_t *payload, size_t len,
                           struct mn_diag *diag);
/* What tells a connector of another version why it gets no further. */
size_t mn_hello_version(uint8_t hello[17]);

/* Advances by what has arrived. MN_OK with state READY: lanes[0..n_lanes) are open sockets, owned
 * by the caller; MN_ERR_AGAIN: call again; else failed, explained, to be closed; conn->again says
 * whether to try once more. */
enum mn_err mn_conn_step(struct mn_conn *conn, struct mn_diag *diag);
void mn_conn_close(struct mn_conn *conn);

/* Acceptor: a lane socket whose LANE frame was read. MN_OK: taken. */
enum mn_err mn_conn_attach(struct mn_conn *conn, int fd, const uint8_t *payload, size_t len);
/* The id a LANE frame names. */
uint64_t mn_lane_frame_id(const uint8_t *payload, size_t len);

/* Opens a non-blocking TCP socket from local (NULL: any) to remote; *fd is connecting.
 * MN_ERR_LINK_DEAD, MN_ERR_PEER_DEAD: address, route or peer are not there now; else there is no
 * socket to be had. */
enum mn_err mn_dial(const struct mn_local *local, const struct mn_addr *remote, uint16_t port,
                    int traffic_class, int *fd, struct mn_diag *diag);
/* It may listen at an address that this host does not have now: a cable's goes with its carrier
 * where the network's configuration says so, and comes back. */
void mn_socket_bind_ahead(int fd, int family);
/* TCP_NODELAY, keepalive and TCP_USER_TIMEOUT so that silence_ms bounds a silent link. */
void mn_socket_tune(int fd, unsigned silence_ms);
/* The opposite: TCP_NODELAY, and keepalive that hears of a process which ended while its link was
 * silent but gives up only after minutes. */
void mn_socket_keep(int fd);
/* Two probes of such a socket were not answered. */
int mn_socket_is_silent(int fd);
/* The peer has closed it. */
int mn_socket_has_ended(int fd);
/* Closes it by a reset, which tells the peer that it is lost, and not that its process ended. */
void mn_socket_reset(int fd);
/* Before close(): what is queued is tried to be delivered for so long. */
void mn_socket_last_words(int fd, unsigned ms);
/* connect()'s outcome: MN_OK, MN_ERR_AGAIN, or why it failed. */
enum mn_err mn_dial_done(int fd, struct mn_diag *diag);

#endif
