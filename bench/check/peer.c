#include "bench/check/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/far.h"

#define POLL_MS 20
#define END_MS  1000 /* for a process whose socket has ended to end itself */
#define MOVE    (64u << 10)
#define MOVES   256

/* Addresses are others than in the process this one was forked from, as between two programs: what
 * passes them on must not work by luck. Fills the gaps between libraries, too. */
static void move_addresses(void)
{
    static void *volatile heap;

    for (int i = 0; i < MOVES; i++)
        (void)mmap(NULL, MOVE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    heap = malloc(MOVE);
    (void)heap;
}

void mn_peer_start(struct mn_check *check, void (*run)(struct mn_check *check, int fd),
                   struct mn_peer *peer)
{
    int fds[2];

    if (check->target->second_fd) {
        run(check, check->target->second_fd);
        mn_check_pass(check);
    }
    if (check->target->far) {
        mn_far_start(check, peer);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        mn_check_skip(check, "no sockets to a second process: %s", strerror(errno));
    peer->pid = mn_check_fork(check);
    if (peer->pid == 0) {
        close(fds[0]);
        move_addresses();
        run(check, fds[1]);
        _exit(0);
    }
    close(fds[1]);
    check->other = peer->pid;
    peer->fd = fds[0];
    peer->control = -1;
}

void mn_peer_signal(struct mn_check *check, struct mn_peer *peer, int signal)
{
    mn_check_step(check, "SIG%s to the peer's process", sigabbrev_np(signal));
    if (peer->control < 0)
        kill(peer->pid, signal);
    else
        (void)send(peer->control, &(char){(char)signal}, 1, MSG_NOSIGNAL);
}

void mn_peer_kill(struct mn_check *check, struct mn_peer *peer)
{
    mn_peer_signal(check, peer, SIGKILL);
    while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(peer->fd);
}

/* The first process has ended and its verdict stands, or how it died does. Of the second one the
 * same is waited for: a verdict of its own, or its death. */
static _Noreturn void ended(struct mn_check *check)
{
    const uint64_t until = mn_check_now_ns() + END_MS * 1000000u;
    int status = 0;
    pid_t pid = 0;

    if (check->second)
        _exit(0);
    while (check->other && pid == 0 && mn_check_now_ns() < until) {
        pid = waitpid(check->other, &status, WNOHANG);
        if (pid == 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (pid > 0 && WIFSIGNALED(status))
        mn_check_fail(check, "the other process crashed with SIG%s",
                      sigabbrev_np(WTERMSIG(status)));
    mn_check_fail(check, "the other process has ended");
}

void mn_peer_tell(struct mn_check *check, int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        struct pollfd pfd = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            ended(check);
        sent += n > 0 ? (size_t)n : 0;
        if (n < 0 && mn_check_expired(check))
            mn_check_fail(check, "the other process does not listen");
        if (n < 0)
            (void)poll(&pfd, 1, POLL_MS);
    }
}

/* call: what returns over there, NULL for any word. */
static void hear(struct mn_check *check, int fd, void *data, size_t size, const char *call)
{
    for (size_t got = 0; got < size;) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        ssize_t n = 0;
        if (mn_check_expired(check) && call)
            mn_check_fail(check, "%s does not return at the peer", call);
        if (mn_check_expired(check))
            mn_check_fail(check, "the other process does not come on");
        if (poll(&pfd, 1, POLL_MS) < 1)
            continue;
        n = recv(fd, (char *)data + got, size - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            ended(check);
        got += n > 0 ? (size_t)n : 0;
    }
}

void mn_peer_hear(struct mn_check *check, int fd, void *data, size_t size)
{
    hear(check, fd, data, size, NULL);
}

void mn_peer_hear_call(struct mn_check *check, int fd, void *data, size_t size, const char *call)
{
    hear(check, fd, data, size, call);
}

void mn_peer_accept(struct mn_check *check, int fd, struct mn_pair *pair)
{
    mn_kit_listen(check, 0, pair);
    mn_peer_tell(check, fd, pair->handle, sizeof pair->handle);
    mn_check_step(check, "accept a connection from another process");
    while (!pair->recv) {
        mn_kit_try_accept(check, pair);
        if (!pair->recv && mn_check_expired(check))
            mn_check_fail(check, "no connection from another process: accept stays at NULL");
        mn_check_pause(check);
    }
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair->listen));
    pair->listen = NULL;
}

void mn_peer_connect(struct mn_check *check, int fd, struct mn_pair *pair)
{
    *pair = (struct mn_pair){.dev = 0};
    mn_peer_hear(check, fd, pair->handle, sizeof pair->handle);
    mn_check_step(check, "connect to another process");
    while (!pair->send) {
        mn_kit_try_connect(check, pair);
        if (!pair->send && mn_check_expired(check))
            mn_check_fail(check, "no connection to another process: connect stays at NULL");
        mn_check_pause(check);
    }
}
