/* Any bytes as what a stranger sends to a listener, or a listener to a connecting process, in
 * pieces, and to the door for those that come back: nobody crashes, no comm comes out, nothing is
 * left behind. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* The role and the state of a connection, so that frames behind the proof are reached. */
static struct mn_conn *conn_new(uint8_t role, int fd)
{
    mn_settings_default(&config.settings);
    struct mn_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        abort();
    conn->config = &config;
    conn->connector = role & 1;
    conn->state = MN_CONN_HELLO + (role >> 1) % 6;
    conn->transport = &mn_transport_tcp;
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

/* The first byte is the role, the second says in which pieces the rest comes. How far it got. */
static enum mn_conn_state handshake(const uint8_t *data, size_t size)
{
    int pair[2];

    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return MN_CONN_CONNECT;
    struct mn_conn *conn = conn_new(data[0], pair[0]);
    for (size_t at = 2, step = data[1] + 1u; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (write(pair[1], data + at, n) != (ssize_t)n)
            break;
        enum mn_err err = mn_conn_step(conn, NULL);
        if (conn->state == MN_CONN_READY || (err && err != MN_ERR_AGAIN))
            break;
    }
    mn_conn_attach(conn, -1, data, size);
    enum mn_conn_state state = conn->state;
    mn_conn_close(conn);
    close(pair[1]);
    return state;
}

/* The same at the door for those that come back: nobody has a key, so nobody is let in. */
static void knock(const uint8_t *data, size_t size)
{
    unsigned long strangers = 0;
    int pair[2];

    if (size < 3 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return;
    struct mn_conn *conn = conn_new(0, pair[0]);
    memset(conn->session, 0xa5, sizeof conn->session);
    struct mn_reopen *reopen = mn_reopen_new(conn, 1);
    if (reopen && write(pair[1], data + 2, size - 2) > 0 &&
        mn_reopen_judge(&strangers, pair[0]) == MN_ARRIVAL_TAKEN)
        abort();
    mn_reopen_free(reopen);
    mn_conn_close(conn);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    knock(data, size);
    (void)handshake(data, size);
    return 0;
}
