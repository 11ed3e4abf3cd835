/* For tests of lines: both ends over TCP on loopback in one thread. Each test file has these for
 * itself. */
#ifndef MN_RELAY_LINE_ENDS_H
#define MN_RELAY_LINE_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/relay/line_impl.h"
#include "topo/base/alloc.h"

#define PATIENCE_MS 20000

static struct mn_config client, server;
static int door_fd = -1; /* listens */
static uint16_t port;
static struct mn_relay_door door;

static inline void make(struct mn_config *config, const char *name, const char *key)
{
    struct mn_local *local = &config->devices[0].locals[0];

    memset(config, 0, sizeof *config);
    mn_settings_default(&config->settings);
    config->settings.handshake_ms = 1000;
    strcpy(config->node, name);
    config->n_devices = config->devices[0].n_locals = 1;
    assert_int_equal(mn_addr_parse("127.9.0.1/24", &local->addr, NULL), MN_OK);
    strcpy(local->netdev, "lo");
    local->ifindex = if_nametoindex("lo");
    config->has_key = 1;
    memcpy(config->cluster_key, key, MN_KEY_SIZE);
}

static inline int set_up(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f090001)}};
    socklen_t len = sizeof at;

    (void)state;
    make(&client, "node-a", "0123456789abcdef");
    make(&server, "node-b", "0123456789abcdef");
    door.from = door.to = client.devices[0].locals[0].addr;
    door_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return door_fd < 0 || bind(door_fd, (struct sockaddr *)&at, len) || listen(door_fd, 16) ||
           getsockname(door_fd, (struct sockaddr *)&at, &len) || !(port = ntohs(at.sin_port));
}

static inline int tear_down(void **state)
{
    (void)state;
    return door_fd >= 0 && close(door_fd);
}

struct end {
    struct mn_line *line;
    enum mn_err err;
    struct mn_diag diag;
};

static inline void dial(struct end *e, int relay_node)
{
    struct mn_line_dial d = {.config = &client,
                             .kind = MN_LINE_PROCESS,
                             .node = 3,
                             .relay_node = relay_node,
                             .relay_name = "node-b",
                             .doors = &door,
                             .n_doors = 1,
                             .port = port};

    memset(e, 0, sizeof *e);
    assert_int_equal(mn_line_dial(&d, &e->line, &e->diag), MN_OK);
}

static inline void pause_a_little(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static inline int accept_one(void)
{
    struct pollfd p = {.fd = door_fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    int fd = accept4(door_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    return fd;
}

/* As a judge does. */
static inline int accept_greeting(struct end *a)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (a && a->line->state == MN_LINE_CONNECT) {
        assert_int_equal(mn_line_step(a->line, &a->diag), MN_ERR_AGAIN);
        assert_true(mn_now_ms() < end);
    }
    int fd = accept_one();

    for (enum mn_verdict v; (v = mn_line_judge(fd)) != MN_ARRIVAL_TAKEN; pause_a_little()) {
        assert_int_equal(v, MN_ARRIVAL_WAITS);
        assert_true(mn_now_ms() < end);
    }
    return fd;
}

static inline void take_in(struct end *a, struct end *e)
{
    memset(e, 0, sizeof *e);
    assert_int_equal(mn_line_accept(&server, 7, accept_greeting(a), &e->line, &e->diag), MN_OK);
}

static inline void until_both_know(struct end *a, struct end *b)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    a->err = MN_ERR_AGAIN;
    if (b)
        b->err = MN_ERR_AGAIN;
    for (; a->err == MN_ERR_AGAIN || (b && b->err == MN_ERR_AGAIN); pause_a_little()) {
        if (a->err == MN_ERR_AGAIN)
            a->err = mn_line_step(a->line, &a->diag);
        if (b && b->err == MN_ERR_AGAIN)
            b->err = mn_line_step(b->line, &b->diag);
        assert_true(mn_now_ms() < end);
    }
}

static inline void join(struct end *a, struct end *b)
{
    dial(a, 7);
    take_in(a, b);
    until_both_know(a, b);
    if (a->err || b->err)
        fail_msg("%s; %s", a->diag.text, b->diag.text);
}

static inline void part(struct end *a, struct end *b)
{
    mn_line_close(a->line);
    mn_line_close(b->line);
}

/* The next frame, which must come. */
static inline size_t await(struct end *e, enum mn_line_frame want, uint8_t **payload)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    enum mn_line_frame type;
    size_t len;
    enum mn_err err;

    while ((err = mn_line_get(e->line, &type, payload, &len)) == MN_ERR_AGAIN) {
        err = mn_line_step(e->line, &e->diag);
        if (err)
            fail_msg("%s", e->diag.text);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(err, MN_OK);
    assert_int_equal(type, want);
    return len;
}

static inline void await_end(struct end *e, enum mn_err want, const char *text)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    enum mn_line_frame type;
    uint8_t *payload;
    size_t len;

    while (!(e->err = mn_line_step(e->line, &e->diag)) || e->err == MN_ERR_AGAIN) {
        while (!mn_line_get(e->line, &type, &payload, &len))
            ;
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(e->err, want);
    if (!strstr(e->diag.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, e->diag.text);
    assert_int_equal(mn_line_step(e->line, NULL), want); /* stays so */
}

#endif
