/* Any bytes at relayd's local socket, in two parts, of one or two who ask at once, whoever they are
 * and whether or not they wait for the answer: what is signed is signed for who asks and may, and
 * every other answer is text, JSON or 16 bytes. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "fleet/relay/local.h"

#define STRANGER 4711
#define FRIEND   4712
#define MUCH     1100 /* numbers in a state, more than a socket takes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte: who asks; he comes twice; the state is long; he leaves before the answer. */
enum { IS_STRANGER = 1, IS_FRIEND = 2, TWO = 4, LONG = 8, LEAVES = 16 };

static const uint8_t key[MN_KEY_SIZE] = {3, 1, 4};
static const uint32_t users[] = {FRIEND};
static struct mn_relay_local *local;
static struct sockaddr_un at = {.sun_family = AF_UNIX};
static uint8_t how;

static uid_t asker(void)
{
    return how & IS_STRANGER ? STRANGER : how & IS_FRIEND ? FRIEND : getuid();
}

/* In place of libc's: the kernel would know that it is always this user. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    int rc = (int)syscall(SYS_getsockopt, fd, level, name, value, len);

    if (!rc && level == SOL_SOCKET && name == SO_PEERCRED)
        ((struct ucred *)value)->uid = asker();
    return rc;
}

static void state(void *ctx, struct mn_out *out)
{
    (void)ctx;
    mn_out_list_begin(out, "flows", NULL);
    for (int i = 0; how & LONG && i < MUCH; i++) {
        mn_out_begin(out, NULL, NULL);
        mn_out_strf(out, "way", NULL, "%0200d", i);
        mn_out_end(out);
    }
    mn_out_list_end(out);
}

static void end(void)
{
    mn_relay_local_close(local);
}

static void start(void)
{
    static struct mn_local_plan plan =
        {.fd = -1, .cluster_key = key, .node = 5, .users = users, .n_users = 1, .state = state};

    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/fuzz-relay-%d", getpid());
    if (!plan.path)
        (void)atexit(end);
    plan.path = at.sun_path;
    if (mn_relay_local_open(&plan, &local, NULL))
        abort();
}

static void check(const uint8_t *got, size_t len)
{
    struct mn_line_hello hello;
    struct mn_line_signed made;

    if (len == MN_MAC_SIZE || got[0] == '{')
        return;
    if (len != MN_ASK_ANSWER || got[0] != MN_ASK_SIGNED) {
        for (size_t i = 0; i < len; i++)
            if (got[i] < ' ' || got[i] > '~' || len > MN_ASK_WORDS)
                abort();
        return;
    }
    if (!mn_line_hello_get(got + 1, &hello) || hello.kind != MN_LINE_PROCESS || hello.node != 5 ||
        hello.uid != asker() || hello.pid != (uint32_t)getpid())
        abort();
    if (how & IS_STRANGER)
        abort();
    mn_line_sign(key, &hello, &made);
    if (memcmp(got + 1 + MN_LINE_HELLO_SIZE, made.proof, MN_MAC_SIZE) != 0)
        abort();
}

static int ask(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        abort();
    return fd;
}

static void hear(int fd)
{
    static uint8_t got[1 << 20];
    size_t len = 0;
    ssize_t n;
    int left = 100;

    /* More of a long answer comes once some of it was read. */
    while (!(how & LEAVES) && (n = recv(fd, got + len, sizeof got - len, 0)) != 0) {
        if (n < 0 && (errno != EAGAIN || !left--))
            abort(); /* it has not ended */
        len += n > 0 ? (size_t)n : 0;
        if (n < 0)
            mn_relay_local_step(local);
    }
    if (!(how & LEAVES) && !len)
        abort(); /* without a word */
    if (len)
        check(got, len);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2], n = 1;

    if (!size)
        return 0;
    if ((how ^ data[0]) & LONG) { /* a state is told again for a while */
        mn_relay_local_close(local);
        local = NULL;
    }
    how = *data++;
    size--;
    if (!local)
        start();
    n += how & TWO ? 1 : 0;
    size_t half = size ? data[0] % size : 0;
    for (int i = 0; i < n; i++) {
        fds[i] = ask();
        (void)!send(fds[i], data, half, MSG_NOSIGNAL);
        mn_relay_local_step(local);
    }
    for (int i = 0; i < n; i++)
        (void)!send(fds[i], data + half, size - half, MSG_NOSIGNAL);
    mn_relay_local_step(local);
    for (int i = 0; i < n; i++)
        shutdown(fds[i], SHUT_WR);
    mn_relay_local_step(local);
    for (int i = 0; i < n; i++)
        hear(fds[i]);
    mn_relay_local_step(local);
    return 0;
}
