/* A line: the control connection between a relayd and who comes to it, a process or another relayd.
 * Authenticated both ways before a frame is believed. Nothing here blocks; one thread a line.
 *
 * The greeting, each message whole and nothing else, before both send frames:
 *
 *   who comes   "MNRL" 4 | version 2 | zero 2 | random 16
 *   relayd      "MNRL" 4 | version 2 | zero 2 | random 16 | its node 4
 *   who comes   kind 1 | node 4 | uid 4 | pid 4 | proof 16
 *   relayd      0 1 | welcome 16, or why not 1 (line_impl.h) and the end
 *
 * Both ends of another version say so: the first 8 bytes stay as they are. Little-endian. */
#ifndef MN_RELAY_LINE_H
#define MN_RELAY_LINE_H

#include "plugin/arrive.h"
#include "plugin/relay/frame.h"
#include "plugin/relay/sign.h"
#include "plugin/relay/way.h"

struct mn_line;

/* Dials a neighbour's relayd. doors are tried in turn, transport.handshake each. config: for the
 * cluster key, node, socket and settings; must stay while the line lives. */
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

/* What a socket that was accepted is, by what can be read of it, for a judge of mn_arrivals_step:
 * TAKEN: it begins as a line does, and mn_line_accept() may have it. Strangers are so bounded as a
 * listener's are; one of another version is told. Lines that are not up yet are the owner's to
 * bound. */
enum mn_verdict mn_line_judge(int fd);
/* The relayd's side of such a socket; takes fd over, also on error. config has a cluster key. */
enum mn_err mn_line_accept(const struct mn_config *config, int node, int fd, struct mn_line **line,
                           struct mn_diag *diag);
/* A line over a socket whose two ends have proved themselves to each other, with no relayd at
 * either: up at once. Takes fd over, also on error. key: of its data connections. name: as
 * mn_line_peer() says it. silence_ms: as relay.silence. */
enum mn_err mn_line_over(const struct mn_config *config, int fd, const uint8_t key[MN_KEY_SIZE],
                         const char *name, unsigned silence_ms, struct mn_line **line,
                         struct mn_diag *diag);
void mn_line_close(struct mn_line *line); /* NULL is ignored */

/* Sends, reads, dials and greets. MN_OK: it is up, or was and has frames that were not taken;
 * MN_ERR_AGAIN: not yet; else it has ended, as *diag says (peer and address named), and stays so.
 * Until it is up it wants to be called every MN_LINE_STEP_MS: it has deadlines. */
#define MN_LINE_STEP_MS 50
enum mn_err mn_line_step(struct mn_line *line, struct mn_diag *diag);
/* Queues a frame; sent at once where that goes, else by step; before the line is up when it is.
 * MN_ERR_AGAIN: more than MN_LINE_QUEUE bytes wait (a peer that does not read): nothing is queued.
 * MN_ERR_NOMEM; the error of a line that has ended. */
#define MN_LINE_QUEUE (1u << 20)
enum mn_err mn_line_put(struct mn_line *line, enum mn_line_frame type, const void *payload,
                        size_t len);
/* Of one that has ended: whether its other end has closed it, and it did not break. */
int mn_line_has_closed(const struct mn_line *line);
/* Bytes that wait to be sent. */
size_t mn_line_waits(const struct mn_line *line);
/* While it is held, frames are only queued; then they go together. */
void mn_line_hold(struct mn_line *line, int held);
/* The next frame that step has read, payload valid until the next call for this line. Pings are
 * answered here. MN_ERR_AGAIN: none; MN_ERR_PROTO: the line ends, as step says. Call it until then
 * after each step. */
enum mn_err mn_line_get(struct mn_line *line, enum mn_line_frame *type, uint8_t **payload,
                        size_t *len);

/* A cable that is silent ends a line at both ends within about relay.silence, by TCP's keepalive;
 * a peer that is stopped does not. For who waits: asks for a sign of life, at most once a
 * MN_RELAY_PING_MS, and how long an answer is overdue; 0 = none is. Anything that comes is one. */
void mn_line_ping(struct mn_line *line);
unsigned mn_line_silent_ms(const struct mn_line *line);

/* Whether a line that has ended was reset: by a process that has ended with something unread, or by
 * the system of one that had given it up, whose cable was silent for a while. */
int mn_line_was_reset(const struct mn_line *line);

/* For poll(2) or epoll(7), level-triggered: descriptor (it may change until the line is up; -1:
 * none now) and events wanted. */
int mn_line_fd(const struct mn_line *line);
unsigned mn_line_events(const struct mn_line *line);

const struct mn_line_hello *mn_line_who(const struct mn_line *line); /* once up */
const uint8_t *mn_line_key(const struct mn_line *line);              /* once up */
/* "node-b (10.0.1.2)" for messages; of who came "10.0.1.2" until he is given a name. */
const char *mn_line_peer(const struct mn_line *line);
void mn_line_call(struct mn_line *line, const char *name);

#endif
