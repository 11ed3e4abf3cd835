#include "fleet/door.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/ctl_greet.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define AT_ONCE 64  /* taken from a socket before the guests have their turn */
#define PAUSE_S 0.1 /* of the sockets when descriptors have run out */
#define LEAST   8   /* guests, however few descriptors there are */
#define OVER_S  1.0 /* a shortage is, when none was met for so long */
#define AGAIN_S 60  /* a shortage is said no more often */

/* PROVEN waits for a place, SILENT is welcome and has said nothing yet, READY is let through. */
enum step { FREE, GREETS, PROVEN, SILENT, READY };

struct guest {
    enum step step;
    double deadline;
    struct mn_ctl ctl;
    uint64_t source;
    struct mn_ctl_greeting greeting;
};

struct mn_door {
    struct mn_door_plan plan;
    int epoll, room, n_guests;
    int listening; /* the sockets are in epoll: descriptors have not run out */
    int short_of;  /* descriptors: said */
    int takes;     /* somebody was taken in after the last who could not be */
    double met;    /* when that was */
    double lacked; /* when it was said last; 0 = never */
    double resume; /* when to try the sockets again */
    double said;
    unsigned unsaid;
    struct guest guests[MN_DOOR_GUESTS];
};

static void say(struct mn_door *d, int of_stranger, const char *text)
{
    if (d->plan.say)
        d->plan.say(of_stranger, text);
}

static void turned_away(struct mn_door *d, const struct mn_diag *diag)
{
    char text[sizeof diag->text + 64];
    double now = mn_seconds();

    if (now < d->said + 1) {
        d->unsaid++;
        return;
    }
    if (d->unsaid)
        snprintf(text, sizeof text, "%s (and %u more like this)", diag->text, d->unsaid);
    else
        snprintf(text, sizeof text, "%s", diag->text);
    d->said = now;
    d->unsaid = 0;
    say(d, 1, text);
}

static enum mn_err watch(struct mn_door *d, int fd, uint32_t index, struct mn_diag *diag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};

    if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
        return mn_fail_errno(diag, "epoll_ctl");
    return MN_OK;
}

/* A child of the process may have the descriptor too: closing it alone would leave it watched. */
static void unwatch(struct mn_door *d, int fd)
{
    (void)epoll_ctl(d->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Sockets are numbered behind the guests. */
static enum mn_err listen_again(struct mn_door *d, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int i = 0; i < d->plan.n_fds && !err; i++)
        err = watch(d, d->plan.fds[i], (uint32_t)(MN_DOOR_GUESTS + i), diag);
    d->listening = !err;
    return err;
}

static void listen_later(struct mn_door *d)
{
    for (int i = 0; i < d->plan.n_fds; i++)
        unwatch(d, d->plan.fds[i]);
    d->listening = 0;
    d->resume = mn_seconds() + PAUSE_S;
}

static int room_for(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t share = limit.rlim_cur / 4;
    return share > MN_DOOR_GUESTS ? MN_DOOR_GUESTS : share < LEAST ? LEAST : (int)share;
}

enum mn_err mn_door_open(const struct mn_door_plan *plan, struct mn_door **door,
                         struct mn_diag *diag)
{
    struct mn_door *d = mn_zalloc(sizeof *d);

    d->plan = *plan;
    d->room = room_for();
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    enum mn_err err = d->epoll < 0 ? mn_fail_errno(diag, "epoll_create1") : listen_again(d, diag);
    if (err) {
        mn_door_close(d);
        d = NULL;
    }
    *door = d;
    return err;
}

void mn_door_close(struct mn_door *d)
{
    if (!d)
        return;
    for (int i = 0; i < MN_DOOR_GUESTS; i++)
        if (d->guests[i].step != FREE)
            close(d->guests[i].ctl.fd);
    if (d->epoll >= 0)
        close(d->epoll);
    mn_wipe(d, sizeof *d);
    free(d);
}

int mn_door_fd(const struct mn_door *d)
{
    return d->epoll;
}

int mn_door_guests(const struct mn_door *d)
{
    return d->n_guests;
}

int mn_door_wait_ms(const struct mn_door *d)
{
    return d->n_guests || !d->listening || (d->short_of && d->takes) ? MN_DOOR_LOOK_MS : -1;
}

static void drop(struct mn_door *d, struct guest *g)
{
    unwatch(d, g->ctl.fd);
    mn_ctl_close(&g->ctl);
    g->step = FREE;
    d->n_guests--;
}

static struct mn_addr address_of(int fd)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    struct mn_addr addr = {.prefix = -1};

    if (getpeername(fd, (struct sockaddr *)&ss, &len) == 0)
        (void)mn_addr_from_sockaddr((const struct sockaddr *)&ss, &addr);
    return addr;
}

static int beside(const struct mn_door *d, uint64_t source)
{
    int n = 0;

    for (int i = 0; i < MN_DOOR_GUESTS; i++)
        n += d->guests[i].step == GREETS && d->guests[i].source == source;
    return n;
}

/* Makes room for one more; 0 when all who are here have proven themselves. Where each has an
 * address of his own the lot is between all: a fixed choice would fall on one place, whoever came
 * to it. */
static int evict(struct mn_door *d)
{
    int beside_him[MN_DOOR_GUESTS], most = 1;
    uint32_t random, n = 0;
    struct mn_diag diag;

    for (int i = 0; i < MN_DOOR_GUESTS; i++) {
        beside_him[i] = d->guests[i].step == GREETS ? beside(d, d->guests[i].source) : 0;
        if (beside_him[i] > most) {
            most = beside_him[i];
            n = 0;
        }
        n += beside_him[i] == most;
    }
    if (!n || mn_random(&random, sizeof random, NULL))
        return 0;
    uint32_t nth = random % n;
    for (int i = 0; i < MN_DOOR_GUESTS; i++) {
        struct guest *g = &d->guests[i];
        if (beside_him[i] != most || nth-- > 0)
            continue;
        mn_fail(&diag, MN_ERR_AUTH, "%s: had said nothing yet when too many came", g->ctl.peer);
        drop(d, g);
        turned_away(d, &diag);
        return 1;
    }
    return 0;
}

static void receive(struct mn_door *d, int fd)
{
    struct mn_addr addr = address_of(fd);
    char text[MN_ADDR_TEXT];
    struct mn_diag diag;
    int i = 0;

    if (d->n_guests >= d->room && !evict(d)) {
        close(fd);
        return;
    }
    while (d->guests[i].step != FREE)
        i++;
    struct guest *g = &d->guests[i];
    *g = (struct guest){.step = GREETS, .deadline = mn_seconds() + MN_DOOR_GREET_S, .ctl.fd = fd};
    memcpy(&g->source, addr.bytes, sizeof g->source);
    snprintf(g->ctl.peer, sizeof g->ctl.peer, "%s %s", d->plan.who,
             mn_addr_format(&addr, text, sizeof text));
    d->n_guests++;
    if (watch(d, fd, (uint32_t)i, &diag) || mn_ctl_greet_begin(&g->ctl, 1, &g->greeting, &diag)) {
        drop(d, g);
        turned_away(d, &diag);
    }
}

/* Strangers give theirs back first; without any, those who wait at the socket wait on. */
static void run_short(struct mn_door *d, int error)
{
    char text[200];
    double now = mn_seconds();

    if (!d->short_of && (!d->lacked || now > d->lacked + AGAIN_S)) {
        snprintf(text, sizeof text,
                 "takes in nobody new for the time being: %s; raise the limit (ulimit -n) or end "
                 "what holds so many",
                 strerror(error));
        say(d, 0, text);
        d->short_of = 1;
        d->lacked = now;
    }
    d->takes = 0;
    d->met = now;
    if (!evict(d))
        listen_later(d);
}

/* A place that a stranger gave back is soon lacking again: that does not end it. */
static void end_shortage(struct mn_door *d)
{
    if (!d->short_of || !d->takes || mn_seconds() < d->met + OVER_S)
        return;
    d->short_of = 0;
    say(d, 0, "takes in who comes again");
}

/* Without a descriptor accept() fails where nobody waits, too. */
static int somebody_waits(int listening)
{
    struct pollfd p = {.fd = listening, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void take_in(struct mn_door *d, int listening)
{
    for (int n = 0; n < AT_ONCE && d->listening; n++) {
        int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            d->takes = 1;
            receive(d, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            int error = errno;
            if (!somebody_waits(listening))
                return;
            run_short(d, error);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

/* Something has come from a guest, if only his end. */
static void attend(struct mn_door *d, struct guest *g)
{
    struct mn_diag diag = {.text = ""};
    enum mn_err err = MN_ERR_AGAIN;

    if (g->step == GREETS)
        err = mn_ctl_greet(&g->ctl, &g->greeting, d->plan.token, &diag);
    else if (g->step == SILENT && mn_ctl_gone(&g->ctl))
        err = mn_fail(&diag, MN_ERR_PEER_DEAD, "%s: left without a word", g->ctl.peer);
    else if (g->step == SILENT)
        err = MN_OK;
    if (err == MN_ERR_AGAIN)
        return;
    if (err) {
        drop(d, g);
        turned_away(d, &diag);
        return;
    }
    unwatch(d, g->ctl.fd);
    g->deadline = mn_seconds() + MN_DOOR_PLACE_S;
    g->step = g->step == GREETS ? PROVEN : READY;
}

static void welcome(struct mn_door *d, struct guest *g)
{
    struct mn_diag diag;
    int i = (int)(g - d->guests);
    enum mn_err err = mn_ctl_greet_end(&g->ctl, &g->greeting, d->plan.token, 1, &diag);

    if (!err && d->plan.first_word)
        err = watch(d, g->ctl.fd, (uint32_t)i, &diag);
    g->deadline = mn_seconds() + MN_DOOR_GREET_S;
    g->step = d->plan.first_word ? SILENT : READY;
    if (err) {
        drop(d, g);
        turned_away(d, &diag);
    }
}

/* What does not wait for a word of the guest. */
static void move_on(struct mn_door *d, struct guest *g, int place, double now)
{
    struct mn_diag diag;

    if (g->step == PROVEN && place) {
        welcome(d, g);
    } else if (g->step == PROVEN && now > g->deadline) {
        (void)mn_ctl_greet_end(&g->ctl, &g->greeting, d->plan.token, 0, NULL);
        drop(d, g);
    } else if ((g->step == GREETS || g->step == SILENT) && now > g->deadline) {
        mn_fail(&diag, MN_ERR_TIMEOUT, "%s: came, and said nothing for %.0f s", g->ctl.peer,
                MN_DOOR_GREET_S);
        drop(d, g);
        turned_away(d, &diag);
    }
}

/* Guests first: who is turned away for a newcomer has had his say. */
static void look(struct mn_door *d)
{
    struct epoll_event events[MN_DOOR_GUESTS];
    int n = epoll_wait(d->epoll, events, MN_DOOR_GUESTS, 0);

    for (int i = 0; i < n; i++)
        if (events[i].data.u32 < MN_DOOR_GUESTS)
            attend(d, &d->guests[events[i].data.u32]);
    for (int i = 0; i < n; i++)
        if (events[i].data.u32 >= MN_DOOR_GUESTS)
            take_in(d, d->plan.fds[events[i].data.u32 - MN_DOOR_GUESTS]);
    if (!d->listening && mn_seconds() > d->resume)
        (void)listen_again(d, NULL);
    end_shortage(d);
}

int mn_door_look(struct mn_door *d, int place, struct mn_ctl *ctl)
{
    double now = mn_seconds();

    look(d);
    for (int i = 0; i < MN_DOOR_GUESTS; i++) {
        struct guest *g = &d->guests[i];
        if (g->step != FREE)
            move_on(d, g, place, now);
        if (g->step != READY)
            continue;
        *ctl = g->ctl;
        mn_wipe(&g->ctl, sizeof g->ctl);
        g->step = FREE;
        d->n_guests--;
        return 1;
    }
    return 0;
}
