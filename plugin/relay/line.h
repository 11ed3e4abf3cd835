/* A line: the control connection between a relayd and who comes to it, a process or another relayd.
 * Authenticated both ways before a frame is believed; strangers are bounded as a listener's are
 * (arrive.h). Nothing here blocks; one thread a line. */
#ifndef MN_RELAY_LINE_H
#define MN_RELAY_LINE_H

#include "plugin/relay/frame.h"
#include "plugin/relay/sign.h"

struct mn_line;

/* Dials a neighbour's relayd. doors are tried in turn. config: for the cluster key, node, socket
 * and settings; must stay while the line lives. */
struct mn_line_dial {
    const struct mn_config *config;
    enum mn_line_kind kind;
    int node, relay_node; /* own index, and of whose relayd it must be */
    const char *relay_name;
    const struct mn_relay_door *doors;
    int n_doors;
    uint16_t port;
};
enum mn_err mn_line_dial(const struct mn_line_dial *dial, struct mn_line **line,
                         struct mn_diag *diag);
/* The relayd's side of a socket that was accepted; takes fd over, also on error. */
enum mn_err mn_line_accept(const struct mn_config *config, int node, int fd, struct mn_line **line,
                           struct mn_diag *diag);
void mn_line_close(struct mn_line *line);

/* Sends, reads, answers pings, dials and greets. MN_OK: it is up; MN_ERR_AGAIN: not yet; else it
 * has ended, as *diag says (peer and address named), and stays so. Bounded: greeting by
 * transport.handshake. */
enum mn_err mn_line_step(struct mn_line *line, struct mn_diag *diag);
/* Queues a frame; sent by step or at once. MN_ERR_AGAIN: more than MN_LINE_QUEUE bytes wait (a
 * peer that does not read): nothing is queued. */
#define MN_LINE_QUEUE (1u << 20)
enum mn_err mn_line_put(struct mn_line *line, enum mn_line_frame type, const void *payload,
                        size_t len);
/* The next frame that has come, payload valid until the next call for this line. MN_ERR_AGAIN:
 * none. */
enum mn_err mn_line_get(struct mn_line *line, enum mn_line_frame *type, uint8_t **payload,
                        size_t *len);

/* For who waits: asks for a sign of life, at most once a MN_RELAY_PING_MS, and how long an answer
 * is overdue; 0 = none is. */
void mn_line_ping(struct mn_line *line);
unsigned mn_line_silent_ms(const struct mn_line *line);

/* For poll(2) or epoll(7): descriptor (it may change until the line is up) and events wanted. */
int mn_line_fd(const struct mn_line *line);
unsigned mn_line_events(const struct mn_line *line);

const struct mn_line_hello *mn_line_who(const struct mn_line *line); /* once up */
const uint8_t *mn_line_key(const struct mn_line *line);              /* once up */
/* "node-b (10.0.1.2)" for messages. */
const char *mn_line_peer(const struct mn_line *line);

#endif
