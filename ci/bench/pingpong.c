/* Half the round trip of 8 bytes over plain TCP: both sides ask the kernel again and again, as a
 * plugin's test call does. The measure the plugin's latency is held against.
 *
 *   pingpong serve ADDRESS PORT          one client, then ends
 *   pingpong ADDRESS PORT ROUNDS         prints p50 in microseconds */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE     8
#define WARMUP      1000
#define PATIENCE_NS 5000000000LL

static void die(const char *what)
{
    fprintf(stderr, "pingpong: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void set_up(int fd)
{
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) ||
        fcntl(fd, F_SETFL, O_NONBLOCK))
        die("socket options");
}

/* Returns 0 when the other side has closed before the first byte. */
static int receive(int fd, char *buf)
{
    size_t got = 0;
    int64_t deadline = 0;
    for (unsigned long turn = 1; got < MESSAGE; turn++) {
        ssize_t n = recv(fd, buf + got, MESSAGE - got, MSG_DONTWAIT);
        if (n > 0) {
            got += (size_t)n;
            continue;
        }
        if (n == 0 && got == 0)
            return 0;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            die("recv");
        /* The clock is read seldom, so that the loop is the call and little else. */
        if (turn % 4096)
            continue;
        if (!deadline)
            deadline = now_ns() + PATIENCE_NS;
        errno = ETIMEDOUT;
        if (now_ns() > deadline)
            die("recv");
    }
    return 1;
}

static void transmit(int fd, const char *buf)
{
    if (send(fd, buf, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
        die("send");
}

static int serve(const struct sockaddr_in *at)
{
    char buf[MESSAGE];
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(listener, (const struct sockaddr *)at, sizeof *at) || listen(listener, 1))
        die("listen");
    alarm(30);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        die("accept");
    alarm(0);
    set_up(fd);
    while (receive(fd, buf))
        transmit(fd, buf);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int measure(const struct sockaddr_in *to, long rounds)
{
    char buf[MESSAGE] = "pingpong";
    int64_t *took = calloc((size_t)rounds, sizeof *took);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!took || fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to))
        die("connect");
    set_up(fd);
    for (long i = -WARMUP; i < rounds; i++) {
        int64_t start = now_ns();
        transmit(fd, buf);
        if (!receive(fd, buf))
            die("closed early");
        if (i >= 0)
            took[i] = now_ns() - start;
    }
    qsort(took, (size_t)rounds, sizeof *took, by_value);
    printf("%.3f\n", (double)took[rounds / 2] / 2000.0);
    close(fd);
    free(took);
    return 0;
}

int main(int argc, char **argv)
{
    int serving = argc == 4 && !strcmp(argv[1], "serve");
    struct sockaddr_in at = {.sin_family = AF_INET};
    if (argc != 4)
        goto usage;
    if (inet_pton(AF_INET, argv[serving + 1], &at.sin_addr) != 1)
        goto usage;
    long port = strtol(argv[serving + 2], NULL, 10);
    if (port < 1 || port > 65535)
        goto usage;
    at.sin_port = htons((uint16_t)port);
    if (serving)
        return serve(&at);
    long rounds = strtol(argv[3], NULL, 10);
    if (rounds < 1 || rounds > 10000000)
        goto usage;
    return measure(&at, rounds);
usage:
    fprintf(stderr, "usage: pingpong serve ADDRESS PORT | pingpong ADDRESS PORT ROUNDS\n");
    return 2;
}
