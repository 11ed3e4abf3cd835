/* Who may open a line, and what proves it (docs/relay.md, Lines). With the cluster key a process
 * signs for itself; without it the relayd of its node does, over the local socket. */
#ifndef MN_RELAY_SIGN_H
#define MN_RELAY_SIGN_H

#include "plugin/config.h"

enum mn_line_kind { MN_LINE_PROCESS = 1, MN_LINE_RELAY };

/* What both MACs and the line's key are over. */
struct mn_line_hello {
    uint8_t random[2][16]; /* [0] relayd's, [1] of who comes */
    uint32_t relay_node;   /* whose relayd it is, index in the mesh file */
    uint8_t kind;          /* enum mn_line_kind */
    uint32_t node;         /* of who comes */
    uint32_t uid, pid;
};

struct mn_line_signed {
    uint8_t proof[MN_MAC_SIZE];   /* of who comes */
    uint8_t welcome[MN_MAC_SIZE]; /* of the relayd */
    uint8_t key[MN_KEY_SIZE];     /* the line's: wipe it */
};

void mn_line_sign(const uint8_t cluster_key[MN_KEY_SIZE], const struct mn_line_hello *hello,
                  struct mn_line_signed *out);

/* A hello as it travels and as it is signed: its fields in that order, little-endian, nothing
 * between. get: 0 for a kind that is none. */
#define MN_LINE_HELLO_SIZE (2 * 16 + 4 + 1 + 4 + 4 + 4)
void mn_line_hello_put(const struct mn_line_hello *hello, uint8_t out[MN_LINE_HELLO_SIZE]);
int mn_line_hello_get(const uint8_t in[MN_LINE_HELLO_SIZE], struct mn_line_hello *hello);

/* The local socket's conversation, a stream (AF_UNIX), one question a connection, at most
 * MN_ASK_MS, the answer ends with the connection:
 *   "sign" and a hello (kind, node, uid and pid are overwritten by what the daemon knows of the
 *   asker) is answered by a byte MN_ASK_SIGNED, the hello as signed, proof, welcome and key;
 *   "state" (a line break behind it is allowed) by JSON, which begins with "{";
 *   "same" and 16 random bytes by 16 others, which the cluster key makes of them and which tell
 *   nodes with the same key from others;
 *   anything else is text, at most MN_ASK_WORDS, that says why not.
 * connect(2) of a socket that does not wait fails with EAGAIN while many others ask: it is tried
 * again. The server's half is fleet/relay/local.c. */
#define MN_ASK_SIGNED 1
#define MN_ASK_ANSWER (1 + MN_LINE_HELLO_SIZE + 2 * MN_MAC_SIZE + MN_KEY_SIZE)
#define MN_ASK_WORDS  512
#define MN_ASK_MS     2000
/* Begins to ask, without waiting: *fd is for poll(2). MN_ERR_PEER_DEAD: nobody is there now;
 * MN_ERR_AUTH: asking again is of no use. */
enum mn_err mn_line_ask(const char *socket_path, const struct mn_line_hello *hello, int *fd,
                        struct mn_diag *diag);
/* MN_ERR_AGAIN: no answer yet. Closes *fd otherwise. hello: as it was signed. */
enum mn_err mn_line_answer(int *fd, struct mn_line_hello *hello, struct mn_line_signed *out,
                           struct mn_diag *diag);

#endif
