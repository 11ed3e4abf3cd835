/* Hello both ways is 8 bytes of magic and 16 random ones; then the client's proof; then the
 * server's verdict of one byte, with its proof over that and all before. Behind each proof is the
 * header of the stream that its side seals from then on. */
#include "fleet/ctl_greet.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC   "MNCTL\0\0\4"
#define HELLO   (8 + MN_CTL_RANDOM)
#define PROOF   (MN_MAC_SIZE + MN_SEAL_HEADER)
#define VERDICT (1 + PROOF)

_Static_assert(VERDICT <= sizeof((struct mn_ctl_greeting *)0)->in, "room for the longest word");

/* What a proof is of. REFUSED comes with none: who says so has another token. */
enum { CLIENT = 'c', WELCOME = 's', BUSY = 'b', REFUSED = 'r' };

static void proof(const uint8_t token[MN_KEY_SIZE], const struct mn_ctl_greeting *g, char of,
                  uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[1 + sizeof g->random];

    text[0] = (uint8_t)of;
    memcpy(text + 1, g->random, sizeof g->random);
    mn_mac128(token, text, sizeof text, mac);
}

static int is_proof(const uint8_t token[MN_KEY_SIZE], const struct mn_ctl_greeting *g, char of,
                    const uint8_t *got)
{
    uint8_t want[MN_MAC_SIZE];

    proof(token, g, of, want);
    return mn_mac_equal(want, got, sizeof want);
}

/* Of one way of the connection: both sides' randomness makes it fresh. */
static void stream_key(const uint8_t token[MN_KEY_SIZE], const struct mn_ctl_greeting *g,
                       int to_server, uint8_t key[MN_SEAL_KEY])
{
    mn_derive(token, to_server ? "meshnet to serv" : "meshnet to clnt", g->random, sizeof g->random,
              key);
}

static void begin_out(struct mn_ctl *ctl, const struct mn_ctl_greeting *g,
                      const uint8_t token[MN_KEY_SIZE], uint8_t header[MN_SEAL_HEADER])
{
    uint8_t key[MN_SEAL_KEY];

    stream_key(token, g, !g->server, key);
    mn_seal_out(&ctl->out, key, header);
    mn_wipe(key, sizeof key);
}

static void begin_in(struct mn_ctl *ctl, const struct mn_ctl_greeting *g,
                     const uint8_t token[MN_KEY_SIZE], const uint8_t header[MN_SEAL_HEADER])
{
    uint8_t key[MN_SEAL_KEY];

    stream_key(token, g, g->server, key);
    mn_seal_in(&ctl->in, key, header);
    mn_wipe(key, sizeof key);
}

static void forget_streams(struct mn_ctl *ctl)
{
    mn_wipe(&ctl->in, sizeof ctl->in);
    mn_wipe(&ctl->out, sizeof ctl->out);
}

/* The words of a handshake are few enough for any socket's buffer: one that takes them only in part
 * is none that works. */
static enum mn_err say(struct mn_ctl *ctl, const void *data, size_t len, struct mn_diag *diag)
{
    ssize_t n;

    do
        n = send(ctl->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)len)
        return MN_OK;
    return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: the control connection broke: %s", ctl->peer,
                   n < 0 ? strerror(errno) : "it takes nothing");
}

/* The next word of len bytes. */
static enum mn_err hear(struct mn_ctl *ctl, struct mn_ctl_greeting *g, size_t len,
                        struct mn_diag *diag)
{
    while (g->n_in < len) {
        ssize_t n = recv(ctl->fd, g->in + g->n_in, len - g->n_in, MSG_DONTWAIT);
        if (n > 0)
            g->n_in += (size_t)n;
        else if (n == 0)
            return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: closed the control connection", ctl->peer);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return MN_ERR_AGAIN;
        else if (errno != EINTR)
            return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: the control connection broke: %s",
                           ctl->peer, strerror(errno));
    }
    g->n_in = 0;
    return MN_OK;
}

enum mn_err mn_ctl_greet_begin(struct mn_ctl *ctl, int server, struct mn_ctl_greeting *g,
                               struct mn_diag *diag)
{
    uint8_t hello[HELLO] = MAGIC;
    int one = 1;

    *g = (struct mn_ctl_greeting){.server = server};
    forget_streams(ctl);
    enum mn_err err = mn_random(g->random[server], MN_CTL_RANDOM, diag);
    if (err)
        return err;
    /* Both ends of a measurement start by a message: one that is held back counts as theirs. */
    (void)setsockopt(ctl->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    memcpy(hello + 8, g->random[server], MN_CTL_RANDOM);
    return say(ctl, hello, sizeof hello, diag);
}

static enum mn_err hear_hello(struct mn_ctl *ctl, struct mn_ctl_greeting *g,
                              const uint8_t token[MN_KEY_SIZE], struct mn_diag *diag)
{
    uint8_t mine[PROOF];
    enum mn_err err = hear(ctl, g, HELLO, diag);

    if (err)
        return err;
    if (memcmp(g->in, MAGIC, 8) != 0)
        return mn_fail(diag, MN_ERR_PROTO, "%s: does not speak this meshnet's control protocol",
                       ctl->peer);
    memcpy(g->random[!g->server], g->in + 8, MN_CTL_RANDOM);
    g->greeted = 1;
    if (g->server)
        return MN_OK;
    proof(token, g, CLIENT, mine);
    begin_out(ctl, g, token, mine + MN_MAC_SIZE);
    return say(ctl, mine, sizeof mine, diag);
}

static enum mn_err hear_client(struct mn_ctl *ctl, struct mn_ctl_greeting *g,
                               const uint8_t token[MN_KEY_SIZE], struct mn_diag *diag)
{
    static const uint8_t no[VERDICT] = {REFUSED};
    enum mn_err err = hear(ctl, g, PROOF, diag);

    if (err)
        return err;
    if (is_proof(token, g, CLIENT, g->in)) {
        begin_in(ctl, g, token, g->in + MN_MAC_SIZE);
        return MN_OK;
    }
    (void)say(ctl, no, sizeof no, NULL);
    return mn_fail(diag, MN_ERR_AUTH,
                   "%s: has another token; give both sides the same, by "
                   "--token-file or MESHNET_TOKEN",
                   ctl->peer);
}

static enum mn_err hear_server(struct mn_ctl *ctl, struct mn_ctl_greeting *g,
                               const uint8_t token[MN_KEY_SIZE], struct mn_diag *diag)
{
    enum mn_err err = hear(ctl, g, VERDICT, diag);

    if (err)
        return err;
    if (g->in[0] == REFUSED)
        return mn_fail(diag, MN_ERR_AUTH,
                       "%s: refused this token; give both sides the same, by --token-file or "
                       "MESHNET_TOKEN",
                       ctl->peer);
    if ((g->in[0] != WELCOME && g->in[0] != BUSY) || !is_proof(token, g, (char)g->in[0], g->in + 1))
        return mn_fail(diag, MN_ERR_AUTH,
                       "%s: has another token; give both sides the same, by --token-file or "
                       "MESHNET_TOKEN",
                       ctl->peer);
    if (g->in[0] != WELCOME)
        return mn_fail(diag, MN_ERR_FAILED,
                       "%s: is busy with another client; try again later, or start it with "
                       "--clients 2",
                       ctl->peer);
    begin_in(ctl, g, token, g->in + 1 + MN_MAC_SIZE);
    return MN_OK;
}

enum mn_err mn_ctl_greet(struct mn_ctl *ctl, struct mn_ctl_greeting *g,
                         const uint8_t token[MN_KEY_SIZE], struct mn_diag *diag)
{
    enum mn_err err = g->greeted ? MN_OK : hear_hello(ctl, g, token, diag);

    if (!err)
        err = (g->server ? hear_client : hear_server)(ctl, g, token, diag);
    if (err && err != MN_ERR_AGAIN)
        forget_streams(ctl);
    return err;
}

enum mn_err mn_ctl_greet_end(struct mn_ctl *ctl, const struct mn_ctl_greeting *g,
                             const uint8_t token[MN_KEY_SIZE], int place, struct mn_diag *diag)
{
    uint8_t verdict[VERDICT] = {place ? WELCOME : BUSY};

    proof(token, g, (char)verdict[0], verdict + 1);
    if (place)
        begin_out(ctl, g, token, verdict + 1 + MN_MAC_SIZE);
    return say(ctl, verdict, sizeof verdict, diag);
}
