/* What the two ends of a flow say to each other (docs/relay.md, Data), and the queue that brings it
 * there whole, once and in order, over whatever way is open.
 *
 * A TALK frame's words: number 4 | the other's frames that have come 4 | messages. Without messages
 * it has number 0 and is the acknowledgement alone; numbers go round. Each message
 * {type 1, fields}, little-endian:
 *
 *   OPEN    way 1, pair 4                                  S: pieces for that pair can be sent
 *   CLOSED  way 1, pair 4                                  either: has closed it
 *   GROUP   group 4, n 1, n times {tag 4, size 4}          D: a receive is posted
 *   PIECES  way 1, pair 4, group 4, slot 1, first 4, which 8   D: first + i for each bit i, in that
 *                                                          order, after those named before
 *   DONE    group 4, slot 1                                D: all of it is in the user's buffer
 *   FAILED  code 1                                         either: its end of the flow is of no use
 *   REFUSED way 1, pair 4                                  either: as CLOSED, and for good
 */
#ifndef MN_RELAY_TALK_H
#define MN_RELAY_TALK_H

#include "plugin/relay/frame.h"
#include "topo/base/err.h"

enum relay_word_type {
    RELAY_OPEN = 1,
    RELAY_CLOSED,
    RELAY_GROUP,
    RELAY_PIECES,
    RELAY_DONE,
    RELAY_FAILED,
    RELAY_REFUSED
};

struct relay_word {
    uint8_t type, way, slot, n, code;
    uint32_t pair, group, first;
    uint64_t which; /* not 0 */
    int32_t tags[MN_MAX_RECVS];
    uint32_t sizes[MN_MAX_RECVS];
};

#define RELAY_TALKS     64 /* frames that are not acknowledged; a power of two */
#define RELAY_TALK_HEAD 8
#define RELAY_ACK_EVERY 8

struct relay_talk {
    uint32_t said, acked; /* numbers: the last made, the last that has come */
    uint32_t next;        /* the next to be handed to a line */
    uint32_t heard, told; /* the other's last; … as acknowledged */
    uint8_t words[RELAY_TALKS][MN_TALK_MAX];
    uint16_t len[RELAY_TALKS];
    uint8_t now[MN_TALK_MAX]; /* being filled */
    uint16_t now_len;
};

/* 0: no room; nothing is queued. */
int relay_talk_put(struct relay_talk *talk, const struct relay_word *word);
/* Whether there is room for a good deal more. */
int relay_talk_has_room(const struct relay_talk *talk);
/* The next frame for the line, an acknowledgement alone where that is due; 0: none. Once the line
 * has taken it, relay_talk_taken(). */
size_t relay_talk_next(struct relay_talk *talk, uint8_t words[MN_TALK_MAX]);
void relay_talk_taken(struct relay_talk *talk);
/* Another line: what is not acknowledged goes again. */
void relay_talk_again(struct relay_talk *talk);
/* Whether all that was said is with a line; … has come. */
int relay_talk_is_out(const struct relay_talk *talk);
int relay_talk_is_heard(const struct relay_talk *talk);

/* A frame's words. MN_OK: messages are its messages; MN_ERR_AGAIN: nothing new; MN_ERR_PROTO. */
enum mn_err relay_talk_hear(struct relay_talk *talk, uint8_t *words, size_t len,
                            struct mn_bytes *messages);
/* The next message. 1; 0: none is left; -1: none that there is. Fields are in bounds: way, slot, n,
 * sizes; what they name is to be looked at. */
int relay_word_get(struct mn_bytes *messages, struct relay_word *word);
void relay_word_put(struct mn_bytes *b, const struct relay_word *word);

#endif
