/* Any bytes as what a stranger sends to a listener, or a listener to a connecting process, in
 * pieces, and to the door for those that come back: nobody crashes, no comm comes out, the end of a
 * connection is heard, nothing is left behind. Keys and randoms are known here, so that inputs may
 * hold what only the peer can write. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn_impl.h"
#include "plugin/reopen_impl.h"
#include "plugin/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mn_config config = {
    .mesh = {.digest = {.hash = 5, .n_items = 2, .items = {{1, 1}, {2, 2}}},
             .path = "fuzz.yaml",
             .names = {"node a", "transport.silence"}},
};

static void fill_side(struct mn_side *side)
{
    memset(side, 0, sizeof *side);
    strcpy(side->node, "fuzz");
    side->node_id = 1;
    side->allow_tcp = MN_TCP_ALLOWED;
    side->n_locals = 2;
    for (int i = 0; i < 2; i++)
        side->locals[i].addr =
            (struct mn_addr){.family = AF_INET, .prefix = 31, .bytes = {127, 9, (uint8_t)i, 1}};
}

/* --- a transport that has a SETUP of its own ----------------------------------------------------
 */

/* What the peer's says of how this end's goes on. */
enum { SETUP_DONE, SETUP_WAITS, SETUP_FAILS };

static enum mn_err setup_begin(struct mn_conn *conn, struct mn_bytes *out, struct mn_diag *diag)
{
    static int some;

    (void)diag;
    conn->setup = &some;
    conn->setup_later = !conn->connector;
    if (conn->connector)
        mn_put(out, SETUP_DONE, 1);
    return MN_OK;
}

static void setup_answer(struct mn_conn *conn, struct mn_bytes *out)
{
    (void)conn;
    mn_put(out, SETUP_DONE, 1);
}

static enum mn_err setup_peer(struct mn_conn *conn, struct mn_bytes *in, struct mn_diag *diag)
{
    conn->traffic_class = (int)mn_get(in, 1);
    return in->bad || in->at != in->end ? mn_fail(diag, MN_ERR_PROTO, "SETUP of a wrong length")
                                        : MN_OK;
}

static enum mn_err setup_step(struct mn_conn *conn, struct mn_diag *diag)
{
    if (conn->traffic_class == SETUP_WAITS)
        return MN_ERR_AGAIN;
    return conn->traffic_class == SETUP_DONE ? MN_OK : mn_fail(diag, MN_ERR_SYS, "no memory");
}

static void setup_cancel(struct mn_conn *conn)
{
    conn->setup = NULL;
}

static const struct mn_transport with_setup = {.name = "fuzz",
                                               .keeps_control = 1,
                                               .begin = setup_begin,
                                               .answer = setup_answer,
                                               .peer = setup_peer,
                                               .step = setup_step,
                                               .cancel = setup_cancel};

/* --- connections ------------------------------------------------------------------------------ */

#define STATES 6 /* HELLO to LANES */

/* The role and the state of a connection, so that frames behind the proof are reached, and its
 * transport. */
static struct mn_conn *conn_new(uint8_t role, int fd)
{
    mn_settings_default(&config.settings);
    struct mn_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        abort();
    conn->config = &config;
    conn->connector = role & 1;
    conn->state = MN_CONN_HELLO + (role >> 1) % STATES;
    conn->transport = role / (2 * STATES) & 1 ? &with_setup : &mn_transport_tcp;
    conn->door = conn->transport->keeps_control ? 7 : 0;
    conn->stepped_ms = mn_now_ms();
    fill_side(&conn->side[conn->connector]);
    if (conn->state >= MN_CONN_LINKS)
        fill_side(&conn->side[!conn->connector]);
    if (conn->state == MN_CONN_LANES) {
        conn->n_lanes = 2;
        conn->lanes_up = 1;
        conn->lanes_agreed = conn->connector;
        conn->lanes[0].fd = conn->lanes[1].fd = -1;
    }
    mn_chan_init(&conn->chan, fd);
    return conn;
}

/* A socket for what may be a lane; 1: it is one. */
static int attach(struct mn_conn *conn, const uint8_t *data, size_t size)
{
    int fd = dup(conn->chan.fd), lane = size > 9 ? data[8] | data[9] << 8 : 0;

    if (fd < 0)
        return 0;
    enum mn_err err = mn_conn_attach(conn, fd, data, size);
    if (err)
        close(fd);
    else if (lane < 1 || lane >= conn->n_lanes || conn->lanes[lane].fd != fd ||
             mn_conn_attach(conn, fd, data, size) != MN_ERR_PROTO)
        abort();
    return !err;
}

/* The peer closes: said at once by whoever reads, in any state. lost: a reset that sending has
 * learnt of. An acceptor that waits for lanes looks at the clock alone, and who has a SETUP under
 * way leaves what is not an ERROR for later. */
static void end(struct mn_conn *conn, int *peer, int lost)
{
    uint8_t byte;

    close(*peer);
    *peer = -1;
    conn->chan.lost = lost ? ECONNRESET : 0;
    enum mn_err err = mn_conn_step(conn, NULL);
    if ((!err || err == MN_ERR_AGAIN) &&
        !(conn->state == MN_CONN_LANES && !conn->connector && conn->lanes_agreed) &&
        recv(conn->chan.fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) <= 0)
        abort();
}

/* The first byte is the role, the second says in which pieces the rest comes. How far it got. */
static enum mn_conn_state handshake(const uint8_t *data, size_t size)
{
    int pair[2], failed = 0;

    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return MN_CONN_CONNECT;
    struct mn_conn *conn = conn_new(data[0], pair[0]);
    (void)attach(conn, data, size);
    for (size_t at = 2, step = data[1] + 1u; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (write(pair[1], data + at, n) != (ssize_t)n)
            break;
        enum mn_err err = mn_conn_step(conn, NULL);
        failed = err && err != MN_ERR_AGAIN;
        if (conn->state == MN_CONN_READY || failed)
            break;
    }
    enum mn_conn_state state = conn->state;
    if (state != MN_CONN_READY && !failed)
        end(conn, &pair[1], data[0] / (4 * STATES) & 1);
    mn_conn_close(conn);
    if (pair[1] >= 0)
        close(pair[1]);
    return state;
}

/* --- the door --------------------------------------------------------------------------------- */

static enum mn_verdict judge(const uint8_t *data, size_t size)
{
    unsigned long strangers = 0;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return MN_ARRIVAL_WAITS;
    if (size && write(pair[1], data, size) != (ssize_t)size)
        abort();
    if (!size)
        shutdown(pair[1], SHUT_WR);
    enum mn_verdict verdict = mn_reopen_judge(&strangers, pair[0]);
    if (verdict != MN_ARRIVAL_TAKEN)
        close(pair[0]);
    close(pair[1]);
    return verdict;
}

/* At the door for those that come back: who knows the key is let in, once. */
static int knock(const uint8_t *data, size_t size)
{
    uint64_t attempt = 0;
    int pair[2];

    if (size < 3 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return 0;
    struct mn_conn *conn = conn_new(0, pair[0]);
    memset(conn->session, 0xa5, sizeof conn->session);
    struct mn_reopen *reopen = mn_reopen_new(conn, 1);
    if (!reopen)
        abort();
    int taken = judge(data + 2, size - 2) == MN_ARRIVAL_TAKEN;
    if (taken && (size < 10 + MN_RETURN_SIZE ||
                  !mn_return_check(reopen, 1, data + 10, MN_RETURN_SIZE, &attempt) || !attempt ||
                  !mn_reopen_is_done(reopen)))
        abort();
    if (judge(data + 2, size - 2) == MN_ARRIVAL_TAKEN || judge(data, 0) != MN_ARRIVAL_STRANGER)
        abort();
    mn_reopen_free(reopen);
    mn_conn_close(conn);
    close(pair[1]);
    return taken;
}

/* As a listener looks at a first frame, and answers one of another version. */
static void greet(const uint8_t *payload, size_t len)
{
    static const uint8_t key[MN_KEY_SIZE];
    uint8_t hello[17];

    if (mn_hello_check(key, payload, len, NULL) == MN_ERR_PROTO && len == MN_HELLO_SIZE &&
        mn_hello_version(hello) == sizeof hello && hello[0] == payload[0])
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 10)
        greet(data + 10, size - 10);
    (void)knock(data, size);
    (void)handshake(data, size);
    return 0;
}
