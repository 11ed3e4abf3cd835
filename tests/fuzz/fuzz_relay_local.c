/* Any bytes at relayd's local socket, in two parts: what is signed is signed for who asks, and
 * every other answer is text, JSON or 16 bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fleet/relay/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[MN_KEY_SIZE] = {3, 1, 4};
static struct mn_relay_local *local;
static struct sockaddr_un at = {.sun_family = AF_UNIX};

static void state(void *ctx, struct mn_out *out)
{
    (void)ctx;
    mn_out_int(out, "flows", NULL, 0);
}

static void end(void)
{
    mn_relay_local_close(local);
}

static void start(void)
{
    static struct mn_local_plan plan = {.fd = -1, .cluster_key = key, .node = 5, .state = state};

    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/fuzz-relay-%d", getpid());
    plan.path = at.sun_path;
    if (mn_relay_local_open(&plan, &local, NULL))
        abort();
    (void)atexit(end);
}

static void check(const uint8_t *got, size_t len)
{
    struct mn_line_hello hello;
    struct mn_line_signed made;

    if (len == MN_MAC_SIZE || (len && got[0] == '{'))
        return;
    if (len != MN_ASK_ANSWER || got[0] != MN_ASK_SIGNED) {
        for (size_t i = 0; i < len; i++)
            if (got[i] < ' ' || got[i] > '~' || len > MN_ASK_WORDS)
                abort();
        return;
    }
    if (!mn_line_hello_get(got + 1, &hello) || hello.kind != MN_LINE_PROCESS || hello.node != 5 ||
        hello.uid != getuid() || hello.pid != (uint32_t)getpid())
        abort();
    mn_line_sign(key, &hello, &made);
    if (memcmp(got + 1 + MN_LINE_HELLO_SIZE, made.proof, MN_MAC_SIZE) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t got[4096];
    size_t len = 0, half = size ? data[0] % size : 0;
    ssize_t n;

    if (!local)
        start();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        abort();
    (void)!send(fd, data, half, MSG_NOSIGNAL);
    mn_relay_local_step(local);
    (void)!send(fd, data + half, size - half, MSG_NOSIGNAL);
    mn_relay_local_step(local);
    shutdown(fd, SHUT_WR);
    mn_relay_local_step(local);
    while ((n = recv(fd, got + len, sizeof got - len, 0)) > 0)
        len += (size_t)n;
    if (n < 0 || !len)
        abort(); /* it has not ended, or without a word */
    check(got, len);
    close(fd);
    return 0;
}
