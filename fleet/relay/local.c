#include "fleet/relay/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fleet/relay/local_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"
#include "topo/base/log.h"

#define PAUSE_S 0.1 /* of the listening socket when descriptors have run out */

/* Behind the clients in what epoll says. */
enum { DOOR = MN_LOCAL_CLIENTS, TIMER };

/* One for all who ask within MN_LOCAL_FRESH_S. */
struct state {
    size_t len, users;
    char *text;
};

struct client {
    int fd; /* -1: free */
    struct ucred who;
    double deadline;
    size_t got, len, sent;
    uint8_t ask[MN_LOCAL_ASK + 1], answer[MN_ASK_WORDS];
    struct state *state; /* in place of answer */
};

struct mn_relay_local {
    struct mn_local_plan plan;
    struct mn_local_bound bound;
    int epoll, timer, paused;
    double resume;
    struct state *fresh;
    double fresh_at;
    uint64_t refused;
    struct client clients[MN_LOCAL_CLIENTS];
};

/* --- the state, told to many ------------------------------------------------------------------ */

static void let_go(struct state *state)
{
    if (state && !--state->users) {
        free(state->text);
        free(state);
    }
}

static struct state *take_state(struct mn_relay_local *l)
{
    double now = mn_seconds();

    if (l->fresh && now >= l->fresh_at + MN_LOCAL_FRESH_S) {
        let_go(l->fresh);
        l->fresh = NULL;
    }
    if (!l->fresh) {
        struct state *s = mn_zalloc(sizeof *s);
        FILE *file = open_memstream(&s->text, &s->len);
        if (!file)
            mn_no_memory();
        struct mn_out *out = mn_out_new(file, MN_OUT_JSON);
        l->plan.state(l->plan.ctx, out);
        mn_out_free(out);
        if (fclose(file))
            mn_no_memory();
        s->users = 1;
        l->fresh = s;
        l->fresh_at = now;
    }
    l->fresh->users++;
    return l->fresh;
}

/* --- a question and its answer ---------------------------------------------------------------- */

enum mn_local_question mn_local_question(const uint8_t *ask, size_t len)
{
    static const struct {
        const char *word;
        size_t least, most;
        enum mn_local_question is;
    } rows[] = {
        {"sign", MN_LOCAL_ASK, MN_LOCAL_ASK, MN_LOCAL_SIGN},
        {"same", 4 + MN_KEY_SIZE, 4 + MN_KEY_SIZE, MN_LOCAL_SAME},
        {"state", 5, 5, MN_LOCAL_STATE},
        {"state\n", 6, 6, MN_LOCAL_STATE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t word = strlen(rows[i].word);
        if (len <= rows[i].most && !memcmp(ask, rows[i].word, len < word ? len : word))
            return len < rows[i].least ? MN_LOCAL_MORE : rows[i].is;
    }
    return MN_LOCAL_NONSENSE;
}

static int may_sign(const struct mn_local_plan *plan, uid_t uid)
{
    if (plan->anyone || !uid || uid == geteuid())
        return 1;
    for (size_t i = 0; i < plan->n_users; i++)
        if (plan->users[i] == uid)
            return 1;
    return 0;
}

static void say(struct client *c, const char *text)
{
    c->len = strlen(text);
    memcpy(c->answer, text, c->len);
}

static void sign(struct mn_relay_local *l, struct client *c)
{
    struct mn_line_hello hello;
    struct mn_line_signed made;
    char why[MN_ASK_WORDS];
    uint8_t *at = c->answer;

    if (!may_sign(&l->plan, c->who.uid)) {
        l->refused++;
        snprintf(why, sizeof why,
                 "user %u may not use the relay of this node: start meshnet relayd with --users %u "
                 "(or --anyone), or give the user the cluster key",
                 c->who.uid, c->who.uid);
        say(c, why);
        return;
    }
    if (!mn_line_hello_get(c->ask + 4, &hello)) {
        say(c, "what is to be signed is no hello: another version of meshnet?");
        return;
    }
    hello.kind = MN_LINE_PROCESS;
    hello.node = l->plan.node;
    hello.uid = c->who.uid;
    hello.pid = (uint32_t)c->who.pid;
    mn_line_sign(l->plan.cluster_key, &hello, &made);
    *at++ = MN_ASK_SIGNED;
    mn_line_hello_put(&hello, at);
    at += MN_LINE_HELLO_SIZE;
    memcpy(at, made.proof, sizeof made.proof);
    at += sizeof made.proof;
    memcpy(at, made.welcome, sizeof made.welcome);
    at += sizeof made.welcome;
    memcpy(at, made.key, sizeof made.key);
    c->len = MN_ASK_ANSWER;
    mn_wipe(&made, sizeof made);
}

static void make_same(const struct mn_relay_local *l, struct client *c)
{
    uint8_t made[32];

    mn_derive(l->plan.cluster_key, "relayd same", c->ask + 4, MN_KEY_SIZE, made);
    memcpy(c->answer, made, MN_MAC_SIZE);
    c->len = MN_MAC_SIZE;
    mn_wipe(made, sizeof made);
}

static void end(struct mn_relay_local *l, struct client *c)
{
    uint8_t rest[4096];

    /* With something unread the end would be a reset. */
    (void)!recv(c->fd, rest, sizeof rest, MSG_DONTWAIT);
    (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    let_go(c->state);
    mn_wipe(c, sizeof *c);
    c->fd = -1;
}

static void answer(struct mn_relay_local *l, struct client *c)
{
    const void *from = c->state ? (const void *)c->state->text : c->answer;
    size_t len = c->state ? c->state->len : c->len;
    struct epoll_event event = {.events = EPOLLOUT, .data.u32 = (uint32_t)(c - l->clients)};

    while (c->sent < len) {
        ssize_t n =
            send(c->fd, (const char *)from + c->sent, len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN && !epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &event))
            return;
        if (n <= 0)
            break;
        c->sent += (size_t)n;
    }
    end(l, c);
}

static void hear(struct mn_relay_local *l, struct client *c)
{
    ssize_t n = recv(c->fd, c->ask + c->got, sizeof c->ask - c->got, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        end(l, c);
        return;
    }
    c->got += (size_t)n;
    switch (mn_local_question(c->ask, c->got)) {
    case MN_LOCAL_MORE:
        if (n)
            return;
        say(c, "half a question");
        break;
    case MN_LOCAL_SIGN:
        sign(l, c);
        break;
    case MN_LOCAL_SAME:
        make_same(l, c);
        break;
    case MN_LOCAL_STATE:
        c->state = take_state(l);
        break;
    case MN_LOCAL_NONSENSE:
        say(c, "expected \"sign\" and a hello, \"same\" and 16 bytes, or \"state\"");
        break;
    }
    answer(l, c);
}

/* --- who comes -------------------------------------------------------------------------------- */

/* A place for one of that user: when there is none, of the user with most the oldest goes. */
static struct client *place_for(struct mn_relay_local *l, uid_t uid)
{
    struct client *goes = NULL;
    size_t most = 0;

    for (int i = 0; i < MN_LOCAL_CLIENTS; i++)
        if (l->clients[i].fd < 0)
            return &l->clients[i];
    for (int i = 0; i < MN_LOCAL_CLIENTS; i++) {
        struct client *c = &l->clients[i];
        size_t count = c->who.uid == uid;
        for (int k = 0; k < MN_LOCAL_CLIENTS; k++)
            count += l->clients[k].who.uid == c->who.uid;
        if (!goes || count > most || (count == most && c->deadline < goes->deadline))
            goes = c;
        most = count > most ? count : most;
    }
    end(l, goes);
    return goes;
}

static void pause_door(struct mn_relay_local *l)
{
    (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->bound.fd, NULL);
    l->paused = 1;
    l->resume = mn_seconds() + PAUSE_S;
}

static void welcome(struct mn_relay_local *l)
{
    for (int i = 0; i < MN_LOCAL_TURN; i++) {
        struct ucred who;
        socklen_t len = sizeof who;
        int fd = accept4(l->bound.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
            return;
        if (fd < 0) {
            pause_door(l);
            return;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || len != sizeof who) {
            close(fd);
            continue;
        }
        struct client *c = place_for(l, who.uid);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(c - l->clients)};
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event)) {
            close(fd);
            continue;
        }
        c->fd = fd;
        c->who = who;
        c->deadline = mn_seconds() + MN_ASK_MS / 1000.0;
        hear(l, c);
    }
}

static void time_out(struct mn_relay_local *l)
{
    double now = mn_seconds(), next = 0;
    struct itimerspec at = {.it_value.tv_sec = 0};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = DOOR};

    if (l->paused && now >= l->resume)
        l->paused = epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->bound.fd, &event) != 0;
    if (l->paused)
        next = now >= l->resume ? l->resume = now + PAUSE_S : l->resume;
    for (int i = 0; i < MN_LOCAL_CLIENTS; i++) {
        struct client *c = &l->clients[i];
        if (c->fd >= 0 && now >= c->deadline)
            end(l, c);
        if (c->fd >= 0 && (next <= 0 || c->deadline < next))
            next = c->deadline;
    }
    if (next > 0) {
        at.it_value.tv_sec = (time_t)next;
        at.it_value.tv_nsec = 1 + (long)((next - (double)at.it_value.tv_sec) * 999999998.0);
    }
    /* Setting it takes back that it has rung. */
    (void)timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void mn_relay_local_step(struct mn_relay_local *l)
{
    struct epoll_event events[MN_LOCAL_TURN];
    int n = epoll_wait(l->epoll, events, MN_LOCAL_TURN, 0), comes = 0;

    for (int i = 0; i < n; i++) {
        uint32_t who = events[i].data.u32;
        struct client *c = who < MN_LOCAL_CLIENTS ? &l->clients[who] : NULL;
        comes |= who == DOOR;
        if (!c || c->fd < 0)
            continue;
        if (c->len || c->state)
            answer(l, c);
        else
            hear(l, c);
    }
    /* After the others: it may give their places away. */
    if (comes)
        welcome(l);
    time_out(l);
}

/* --- opening and closing ---------------------------------------------------------------------- */

enum mn_err mn_relay_local_open(const struct mn_local_plan *plan, struct mn_relay_local **local,
                                struct mn_diag *diag)
{
    struct mn_relay_local *l = mn_zalloc(sizeof *l);
    struct epoll_event door = {.events = EPOLLIN, .data.u32 = DOOR},
                       timer = {.events = EPOLLIN, .data.u32 = TIMER};

    *local = NULL;
    l->plan = *plan;
    for (int i = 0; i < MN_LOCAL_CLIENTS; i++)
        l->clients[i].fd = -1;
    l->bound.fd = plan->fd;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    enum mn_err err =
        plan->fd >= 0 ? mn_local_adopt(plan->fd, diag) : mn_local_bind(plan->path, &l->bound, diag);
    if (!err &&
        (l->epoll < 0 || l->timer < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->bound.fd, &door) ||
         epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &timer)))
        err = mn_fail_errno(diag, "%s: waiting for who comes", plan->path);
    if (err)
        mn_relay_local_close(l);
    else
        *local = l;
    return err;
}

int mn_relay_local_fd(const struct mn_relay_local *local)
{
    return local->epoll;
}

uint64_t mn_relay_local_refused(const struct mn_relay_local *local)
{
    return local->refused;
}

void mn_relay_local_close(struct mn_relay_local *l)
{
    if (!l)
        return;
    for (int i = 0; i < MN_LOCAL_CLIENTS; i++)
        if (l->clients[i].fd >= 0)
            end(l, &l->clients[i]);
    let_go(l->fresh);
    mn_local_unbind(&l->bound);
    if (l->epoll >= 0)
        close(l->epoll);
    if (l->timer >= 0)
        close(l->timer);
    free(l);
}
