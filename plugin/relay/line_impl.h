/* Inside of a line: line.c dials and closes, line_greet.c greets, line_frames.c sends and reads. */
#ifndef MN_RELAY_LINE_IMPL_H
#define MN_RELAY_LINE_IMPL_H

#include "plugin/relay/line.h"

#define MN_LINE_MAGIC  0x4c524e4du /* "MNRL" */
#define MN_LINE_DOORS  8
#define MN_LINE_FIRST  24                  /* bytes of the first message, */
#define MN_LINE_SECOND (MN_LINE_FIRST + 4) /* … of the relayd's answer */
#define MN_LINE_THIRD  (13 + MN_MAC_SIZE)  /* … of the proof */
#define MN_LINE_LAST   (1 + MN_MAC_SIZE)   /* … and of the welcome */
#define MN_LINE_HEADER 4                   /* of a frame */
#define MN_LINE_READ   (16u << 10)         /* read at a time */

/* Why a relayd lets nobody in. */
enum mn_line_refusal { MN_LINE_LET_IN, MN_LINE_WRONG_KEY, MN_LINE_REFUSALS };

enum mn_line_state {
    MN_LINE_CONNECT, /* who dials */
    MN_LINE_FIRST_SAID,
    MN_LINE_ASKING, /* the own node's relayd */
    MN_LINE_PROVED,
    MN_LINE_HEARS,  /* the relayd: the first message is to come, */
    MN_LINE_DOUBTS, /* … the proof */
    MN_LINE_UP,
    MN_LINE_ENDED
};

struct mn_line {
    const struct mn_config *config;
    enum mn_line_state state;
    int fd, ask_fd;
    uint64_t due_ms; /* of what is waited for until it is up */
    struct mn_line_hello hello;
    struct mn_line_signed signs;
    struct mn_diag why; /* it has ended */
    char name[MN_NAME_MAX], address[MN_ADDR_TEXT], peer[MN_NAME_MAX + MN_ADDR_TEXT + 4];
    /* who dials */
    struct mn_relay_door doors[MN_LINE_DOORS];
    int n_doors, door;
    uint16_t port;
    uint64_t ask_due_ms;
    /* frames */
    uint8_t *tx;
    size_t tx_len, tx_off, tx_room;
    uint8_t rx[MN_LINE_READ];
    size_t rx_len, rx_off;
    int held;
    int reset;    /* by the other end */
    int tx_error; /* errno of a send; 0 = none */
    int closed;   /* by the other end */
    int over;     /* nothing comes any more, as why says; what has come is still to be taken */
    uint32_t pings;
    uint64_t pinged_ms, since_ms; /* the last ping; the first that nothing came after, 0 = none */
};

/* The line ends: returns code. Frames that are there may still be taken. */
enum mn_err mn_line_end(struct mn_line *line, enum mn_err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* By errno, of a call on its socket. */
enum mn_err mn_line_end_errno(struct mn_line *line, int error);

/* line_greet.c. One step; MN_OK: the state is another, go on. */
enum mn_err mn_line_greet(struct mn_line *line);
/* Says the first message of who dials, once connected. */
enum mn_err mn_line_say_first(struct mn_line *line);
/* Reads until rx has that much. */
enum mn_err mn_line_fill(struct mn_line *line, size_t want);

/* line_frames.c */
void mn_line_flush(struct mn_line *line);
void mn_line_read(struct mn_line *line);
/* A whole frame, or something that is none, is there to be taken. */
int mn_line_has_frame(const struct mn_line *line);

#endif
