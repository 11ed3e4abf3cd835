/* What travels on a line, and the header in front of each piece. Little-endian, lengths exact;
 * every mn_*_get returns 0 for what is not as written here, and nothing of it is to be used then.
 *
 * A frame on the wire: {length of payload 2, type 1, zero 1} payload, at most MN_LINE_MAX. */
#ifndef MN_RELAY_FRAME_H
#define MN_RELAY_FRAME_H

#include "plugin/bytes.h"
#include "plugin/relay/relay.h"

#define MN_LINE_MAX  1024
#define MN_TALK_MAX  512
#define MN_WORDS_MAX 256

enum mn_line_frame {
    MN_LINE_PING = 1, /* {number 4}; answered by the line itself */
    MN_LINE_PONG,
    MN_LINE_ATTACH,
    MN_LINE_ATTACHED, /* R1 to S: handles to connect to */
    MN_LINE_OPENED,
    MN_LINE_GONE,    /* of one way of a flow */
    MN_LINE_TALK,    /* end to end; relays pass it on */
    MN_LINE_DRAINED, /* to the relay before: buffers that a flow has given back here */
    MN_LINE_TRUNK,   /* relay to relay: handles of this class and kind are wanted */
    MN_LINE_TRUNKED, /* … and given */
    MN_LINE_FRAMES
};

struct mn_line_attach {
    struct mn_relay_flow flow;
    uint8_t way;  /* number of the way in the flow, below MN_RELAY_WAYS */
    uint8_t role; /* enum mn_relay_role: of the end that attaches */
    uint8_t at;   /* the addressee's place in nodes */
    uint32_t instance;
    uint64_t mesh; /* digest of the mesh file: indices mean the same on both */
    struct mn_relay_way nodes;
    uint8_t handles[MN_RELAY_KINDS][MN_HANDLE_SIZE]; /* of a receiver; else zero */
};
struct mn_line_attached {
    struct mn_relay_flow flow;
    uint8_t way;
    uint32_t instance;
    uint8_t handles[MN_RELAY_KINDS][MN_HANDLE_SIZE];
};
/* OPENED and GONE name the instance that their line's ATTACH had: of the receiver on the line to
 * him, on all others of the sender. What is of another is of a turn that is over. */
struct mn_line_opened {
    struct mn_relay_flow flow;
    uint8_t way;
    uint32_t instance, pair;
};
enum mn_gone {
    MN_GONE_RELAY = 1, /* a relay or its cable: attach again in a while */
    MN_GONE_PEER,      /* the other end has detached or died: it attaches again, or not */
    MN_GONE_FULL,      /* no buffers, or a quota */
    MN_GONE_REFUSED,   /* another mesh file, no such way, no right: attaching again is of no use */
    MN_GONE_ENDED,     /* the other end's process has closed the flow, or ended: it does not attach
                          again */
    MN_GONE_LOST       /* its line was reset: it has ended, or gave a silent line up and attaches
                          again in a moment */
};
struct mn_line_gone {
    struct mn_relay_flow flow;
    uint8_t way;
    uint32_t instance;
    uint8_t why;             /* enum mn_gone */
    char text[MN_WORDS_MAX]; /* for people; from a wire: only printable */
};
struct mn_line_talk {
    struct mn_relay_flow flow;
    uint8_t way;
    uint8_t to; /* enum mn_relay_role */
    uint16_t len;
    uint8_t words[MN_TALK_MAX];
};
struct mn_line_drained {
    struct mn_relay_flow flow;
    uint8_t way, kind, class; /* of the trunk that they belong to */
    uint32_t pair;            /* of the pieces: the flow's turn may be another meanwhile */
    uint16_t count;
};
struct mn_line_trunk {
    uint8_t class, kind;
    uint8_t handle[MN_HANDLE_SIZE]; /* of TRUNKED, zero: refused, no buffers; TRUNK: zero */
};

#define MN_LINE_PAIR(name)                                                                         \
    size_t mn_line_##name##_put(const struct mn_line_##name *f, uint8_t out[MN_LINE_MAX]);         \
    int mn_line_##name##_get(const uint8_t *payload, size_t len, struct mn_line_##name *f)
MN_LINE_PAIR(attach);
MN_LINE_PAIR(attached);
MN_LINE_PAIR(opened);
MN_LINE_PAIR(gone);
MN_LINE_PAIR(talk);
MN_LINE_PAIR(drained);
MN_LINE_PAIR(trunk);
#undef MN_LINE_PAIR

/* In front of each piece: MN_HEAD_SIZE bytes, tag MN_TAG_HEAD; the payload has MN_TAG_PAYLOAD. */
#define MN_HEAD_SIZE 64
enum { MN_TAG_HEAD = 1, MN_TAG_PAYLOAD };

enum mn_piece {
    MN_PIECE_DATA,
    MN_PIECE_EMPTY, /* behind the message's end */
    MN_PIECE_LATER  /* its send has not come, and others behind it have: to be asked for again */
};

struct mn_relay_head {
    struct mn_relay_flow flow;
    uint32_t pair; /* of the way, as OPENED said */
    uint8_t way, kind, slot;
    uint8_t empty;   /* enum mn_piece */
    uint32_t group;  /* number of the receive in the flow */
    uint32_t piece;  /* of the slot: its bytes begin at piece * MN_RELAY_PIECE */
    uint32_t length; /* of the payload */
    uint64_t total;  /* of the message */
};
void mn_relay_head_put(const struct mn_relay_head *head, uint8_t out[MN_HEAD_SIZE]);
/* Checked for itself: lengths, kinds, counts; not whether there is such a flow. */
int mn_relay_head_get(const uint8_t in[MN_HEAD_SIZE], struct mn_relay_head *head);

#endif
