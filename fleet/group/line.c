/* Lines: control connections of two ranks through rank 0, which every rank reaches however the
 * cables lead. A thread of rank 0 passes the bytes on. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/group/group_impl.h"
#include "plugin/thread.h"
#include "topo/base/alloc.h"

#define MAX_LINES 8
#define BUFFER    16384
#define FDS       (2 + 2 * MAX_LINES)

/* One way of a line: bytes read and not yet written. */
struct way {
    size_t at, n;
    int ended; /* nothing more comes; said to the reader when all is written */
    uint8_t bytes[BUFFER];
};

struct line {
    unsigned number;
    struct mn_ctl ctls[2]; /* with the two who called, until both are there */
    int fds[2];            /* theirs; -1 = not there yet */
    struct way ways[2];
};

struct mn_group_lines {
    pthread_t thread;
    int stop;
    struct mn_door *door;
    struct line *lines[MAX_LINES];
};

static void hang_up(struct mn_group_lines *l, int i)
{
    for (int side = 0; side < 2; side++)
        if (l->lines[i]->fds[side] >= 0)
            close(l->lines[i]->fds[side]);
    mn_wipe(l->lines[i]->ctls, sizeof l->lines[i]->ctls);
    free(l->lines[i]);
    l->lines[i] = NULL;
}

static struct line *line_numbered(struct mn_group_lines *l, unsigned number)
{
    int free_at = -1;

    for (int i = 0; i < MAX_LINES; i++) {
        if (!l->lines[i])
            free_at = i;
        else if (l->lines[i]->number == number)
            return l->lines[i];
    }
    if (free_at < 0)
        return NULL;
    l->lines[free_at] = mn_zalloc(sizeof *l->lines[free_at]);
    *l->lines[free_at] = (struct line){.number = number, .fds = {-1, -1}};
    return l->lines[free_at];
}

/* Both are there: each is told so, and all that follows is theirs, sealed by keys of their own. */
static int put_through(struct line *line)
{
    for (int side = 0; side < 2; side++) {
        cJSON *message = cJSON_CreateObject();
        cJSON_AddNumberToObject(message, "line", line->number);
        enum mn_err err = mn_ctl_send(&line->ctls[side], message, NULL);
        mn_wipe(&line->ctls[side], sizeof line->ctls[side]);
        if (err)
            return 0;
    }
    return 1;
}

static void answer_call(struct mn_group_lines *l, struct mn_ctl *ctl)
{
    cJSON *message = NULL;
    double number, side;

    if (mn_ctl_receive(ctl, 2000, &message, NULL) ||
        mn_ctl_number(message, "line", 0, 1e9, &number, NULL) ||
        mn_ctl_number(message, "side", 0, 1, &side, NULL)) {
        cJSON_Delete(message);
        mn_ctl_close(ctl);
        return;
    }
    cJSON_Delete(message);
    struct line *line = line_numbered(l, (unsigned)number);
    if (!line || line->fds[(int)side] >= 0) {
        mn_ctl_close(ctl);
        return;
    }
    line->fds[(int)side] = ctl->fd;
    line->ctls[(int)side] = *ctl;
    mn_wipe(ctl, sizeof *ctl);
    for (int i = 0; i < MAX_LINES; i++)
        if (l->lines[i] == line && line->fds[0] >= 0 && line->fds[1] >= 0 && !put_through(line))
            hang_up(l, i);
}

/* Moves what can be moved from one side to the other. 0: the line is over. */
static int pass_on(struct line *line, int from)
{
    struct way *w = &line->ways[from];

    while (!w->ended && w->n < sizeof w->bytes) {
        ssize_t n = recv(line->fds[from], w->bytes + w->n, sizeof w->bytes - w->n, MSG_DONTWAIT);
        if (n > 0)
            w->n += (size_t)n;
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        else
            w->ended = 1;
    }
    while (w->at < w->n) {
        ssize_t n =
            send(line->fds[!from], w->bytes + w->at, w->n - w->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            w->at += (size_t)n;
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 1;
        else
            return 0;
    }
    w->at = w->n = 0;
    return !w->ended;
}

static void *pass_lines(void *arg)
{
    struct mn_group_lines *l = arg;

    for (;;) {
        struct pollfd fds[FDS] = {{.fd = l->stop, .events = POLLIN},
                                  {.fd = mn_door_fd(l->door), .events = POLLIN}};
        struct mn_ctl ctl;
        int of[FDS], n = 2;
        for (int i = 0; i < MAX_LINES; i++)
            for (int side = 0; l->lines[i] && side < 2; side++) {
                const struct line *line = l->lines[i];
                int both = line->fds[0] >= 0 && line->fds[1] >= 0;
                short events = both ? 0 : POLLRDHUP; /* a FIN alone is no POLLHUP */
                if (both && line->ways[side].n < BUFFER)
                    events |= POLLIN;
                if (both && line->ways[!side].at < line->ways[!side].n)
                    events |= POLLOUT;
                fds[n] = (struct pollfd){.fd = line->fds[side], .events = events};
                of[n++] = i;
            }
        if (poll(fds, (nfds_t)n, mn_door_wait_ms(l->door)) < 0)
            continue;
        if (fds[0].revents)
            return NULL;
        for (int k = 2; k < n; k++) {
            struct line *line = l->lines[of[k]];
            if (!line || !fds[k].revents)
                continue;
            /* One who waits for the other and goes away. */
            if (line->fds[0] < 0 || line->fds[1] < 0 || !pass_on(line, 0) || !pass_on(line, 1))
                hang_up(l, of[k]);
        }
        while (mn_door_look(l->door, 1, &ctl))
            answer_call(l, &ctl);
    }
}

enum mn_err mn_group_open_lines(struct mn_group *g, struct mn_diag *diag)
{
    if (g->plan.rank)
        return MN_OK;
    struct mn_group_lines *l = mn_zalloc(sizeof *l);
    enum mn_err err = mn_group_door(&g->plan, &l->door, diag);
    if (err) {
        free(l);
        return err;
    }
    l->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = l->stop < 0 ? errno : pthread_create(&l->thread, NULL, pass_lines, l);
    if (error) {
        if (l->stop >= 0)
            close(l->stop);
        mn_door_close(l->door);
        free(l);
        return mn_fail(diag, MN_ERR_SYS, "a thread for the lines between ranks: %s",
                       mn_thread_why(error));
    }
    g->lines = l;
    return MN_OK;
}

void mn_group_close_lines(struct mn_group *g)
{
    struct mn_group_lines *l = g->lines;

    if (!l)
        return;
    (void)eventfd_write(l->stop, 1);
    pthread_join(l->thread, NULL);
    close(l->stop);
    mn_door_close(l->door);
    for (int i = 0; i < MAX_LINES; i++)
        if (l->lines[i])
            hang_up(l, i);
    free(l);
    g->lines = NULL;
}

enum mn_err mn_group_line(struct mn_group *g, unsigned number, int peer, struct mn_ctl *ctl,
                          struct mn_diag *diag)
{
    /* For one who has died on the way to it: no longer than rank 0 waits for this rank. */
    unsigned wait_ms = g->plan.timeout_ms / (g->spares ? 2 : 1);
    cJSON *message = cJSON_CreateObject(), *reply;

    cJSON_AddNumberToObject(message, "line", number);
    cJSON_AddNumberToObject(message, "side", g->plan.rank < peer ? 0 : 1);
    enum mn_err err = mn_ctl_reach(g->plan.host, g->plan.port, g->plan.token, wait_ms, ctl, diag);
    if (err)
        cJSON_Delete(message);
    else
        err = mn_ctl_send(ctl, message, diag);
    mn_strlcpy(ctl->peer, g->peers[peer].name, sizeof ctl->peer);
    if (!err)
        err = mn_ctl_receive(ctl, wait_ms, &reply, diag);
    if (!err) {
        cJSON_Delete(reply);
        /* The peer itself is at the other end now. */
        err = mn_ctl_authenticate(ctl, g->plan.rank > peer, g->plan.token, wait_ms, diag);
    }
    if (err)
        mn_ctl_close(ctl);
    return err;
}
