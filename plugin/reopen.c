#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/bytes.h"
#include "plugin/reopen_impl.h"
#include "plugin/thread.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define BUCKETS    256
#define ROUND_MS   10   /* between two rounds of the thread, however many come */
#define UNDER_WAY  20   /* between looks at what is being dialled or looked at */
#define WATCH_MS   4000 /* between looks at control connections whose comms may make no call */
#define FRAME_SIZE (8 + MN_RETURN_SIZE)
#define LANE_STEP  0x9e3779b97f4a7c15u /* between the ids of a connection's sockets; odd */

/* Taken inside of arrive.c's, never around it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mn_reopen *buckets[BUCKETS];
static int n_lost, n_watched;
static uint64_t watch_ms; /* when those that are watched are looked at next */
static int wake = -1;     /* eventfd; the thread runs while it is one */
static int ending;
static pthread_t thread;

/* --- frames ----------------------------------------------------------------------------------- */

void mn_return_write(const struct mn_reopen *r, int connector, uint64_t attempt,
                     uint8_t frame[MN_RETURN_SIZE])
{
    uint8_t text[2 + 16] = {'r', connector ? 'c' : 'a'};
    struct mn_bytes b = {frame, frame + MN_RETURN_SIZE, 0};

    mn_put(&b, r->id, 8);
    mn_put(&b, attempt, 8);
    memcpy(text + 2, frame, 16);
    mn_mac128(r->key, text, sizeof text, frame + 16);
}

int mn_return_check(const struct mn_reopen *r, int by_connector, const uint8_t *payload, size_t len,
                    uint64_t *attempt)
{
    uint8_t frame[MN_RETURN_SIZE], good[MN_RETURN_SIZE];
    struct mn_bytes b = {frame + 8, frame + sizeof frame, 0};

    if (len != sizeof frame)
        return 0;
    memcpy(frame, payload, sizeof frame);
    *attempt = mn_get(&b, 8);
    mn_return_write(r, by_connector, *attempt, good);
    return !memcmp(frame, good, 8) && mn_mac_equal(good + 16, frame + 16, MN_MAC_SIZE);
}

uint64_t mn_return_id(const uint8_t *payload)
{
    uint8_t text[8];
    struct mn_bytes b = {text, text + sizeof text, 0};

    memcpy(text, payload, sizeof text);
    return mn_get(&b, 8);
}

/* --- who comes back --------------------------------------------------------------------------- */

static void say_words(const struct mn_reopen *r, int fd)
{
    struct mn_chan chan;

    mn_chan_init(&chan, fd);
    if (!mn_chan_put(&chan, r->word, r->words, r->n_words))
        (void)mn_chan_flush(&chan, NULL);
}

void mn_reopen_give(struct mn_reopen *r, int fd)
{
    if (fd >= 0 && r->n_words)
        say_words(r, fd);
    int old = atomic_exchange(&r->fresh, fd);

    r->given = r->attempt;
    if (r->wakes && fd >= 0)
        mn_attend_wake(r->wakes);
    if (old >= 0 && fd >= 0)
        mn_socket_reset(old);
    else if (old >= 0)
        close(old);
}

/* Of a good RETURN: reads it, answers, and takes the socket in. */
static int let_in(struct mn_reopen *r, int fd, uint64_t attempt)
{
    uint8_t frame[FRAME_SIZE];
    struct mn_chan chan;

    if (recv(fd, frame, sizeof frame, MSG_DONTWAIT) != sizeof frame)
        return 0;
    r->attempt = attempt;
    mn_return_write(r, 0, attempt, frame);
    mn_chan_init(&chan, fd);
    if (mn_chan_put(&chan, MN_FRAME_RETURN, frame, MN_RETURN_SIZE) || mn_chan_flush(&chan, NULL))
        return 0;
    mn_reopen_give(r, fd);
    return 1;
}

static int comes_back(int fd, const uint8_t *payload, size_t len)
{
    uint64_t id = len == MN_RETURN_SIZE ? mn_return_id(payload) : 0, attempt;
    int taken = 0;

    pthread_mutex_lock(&lock);
    for (struct mn_reopen *r = buckets[id % BUCKETS]; r && !taken; r = r->next)
        if (!r->connector && r->id == id && !r->ended &&
            mn_return_check(r, 1, payload, len, &attempt) && attempt > r->attempt) {
            taken = let_in(r, fd, attempt);
            break;
        }
    pthread_mutex_unlock(&lock);
    return taken;
}

enum mn_verdict mn_reopen_judge(void *strangers, int fd)
{
    unsigned long *n = strangers;
    uint8_t bytes[FRAME_SIZE];
    const uint8_t *payload;
    enum mn_frame type;
    size_t len;
    enum mn_err err = mn_chan_peek(fd, bytes, sizeof bytes, &type, &payload, &len);

    if (err == MN_ERR_AGAIN)
        return MN_ARRIVAL_WAITS;
    if (!err && type == MN_FRAME_RETURN && comes_back(fd, payload, len))
        return MN_ARRIVAL_TAKEN;
    ++*n;
    if (!(*n & (*n - 1)))
        MN_INFO("%lu connections so far to the door for those that come back, who have no "
                "connection here to come back to",
                *n);
    return MN_ARRIVAL_STRANGER;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void lose(struct mn_reopen *r, uint64_t now)
{
    r->lost = 1;
    n_lost++;
    r->rounds = 0;
    r->due_ms = now;
}

/* Of the new one, if its comm has not taken it yet. Where the peer has ended that is the last that
 * is looked at: such a socket's state is another one later. */
static int is_silent(struct mn_reopen *r)
{
    int fresh = atomic_load(&r->fresh), fd = fresh >= 0 ? fresh : r->watched;

    if (r->watched >= 0 && mn_socket_has_ended(fd)) {
        r->watched = -1;
        n_watched--;
    }
    return r->watched >= 0 && !r->lost && mn_socket_is_silent(fd);
}

/* What there is to dial; returns until when nothing is, in ms; -1 = for ever. */
static int dial_all(void)
{
    uint64_t now = mn_now_ms(), first = UINT64_MAX;

    pthread_mutex_lock(&lock);
    int looks = n_watched && now >= watch_ms;
    if (looks)
        watch_ms = now + WATCH_MS;
    if (n_watched)
        first = watch_ms;
    for (int i = 0; i < BUCKETS && (n_lost || looks); i++)
        for (struct mn_reopen *r = buckets[i]; r; r = r->next) {
            if (looks && is_silent(r))
                lose(r, now);
            if (!r->lost)
                continue;
            mn_reopen_dial(r, now);
            n_lost -= !r->lost;
            if (r->lost && r->chan)
                first = now + UNDER_WAY < first ? now + UNDER_WAY : first;
            else if (r->lost && r->due_ms < first)
                first = r->due_ms;
        }
    pthread_mutex_unlock(&lock);
    return first == UINT64_MAX ? -1 : first <= now ? 0 : (int)(first - now);
}

static int is_ending(void)
{
    pthread_mutex_lock(&lock);
    int result = ending;
    pthread_mutex_unlock(&lock);
    return result;
}

static void *serve(void *arg)
{
    struct pollfd fds[1 + MN_REOPEN_FDS] = {{.fd = *(int *)arg, .events = POLLIN}};
    int doors[MN_REOPEN_FDS], waiting;
    eventfd_t count;

    while (!is_ending()) {
        mn_reopen_door_step();
        int wait_ms = dial_all();
        int n = mn_reopen_door_fds(doors, &waiting);
        for (int i = 0; i < n; i++)
            fds[1 + i] = (struct pollfd){.fd = doors[i], .events = POLLIN};
        if (waiting && (wait_ms < 0 || wait_ms > UNDER_WAY))
            wait_ms = UNDER_WAY;
        (void)poll(fds, (nfds_t)n + 1, wait_ms);
        (void)eventfd_read(fds[0].fd, &count);
        /* Strangers cost no more than this thread's share of so many rounds. */
        (void)poll(fds, 1, ROUND_MS);
    }
    return NULL;
}

static int start(void)
{
    int error = 0;

    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0)
        return errno;
    error = mn_thread_start("mn-reopen", serve, &wake, &thread);
    if (error) {
        close(wake);
        wake = -1;
    }
    return error;
}

static int wake_locked(void)
{
    int error = wake < 0 ? start() : 0;

    if (!error)
        (void)eventfd_write(wake, 1);
    return error;
}

int mn_reopen_wake(void)
{
    pthread_mutex_lock(&lock);
    int error = wake_locked();
    pthread_mutex_unlock(&lock);
    return error;
}

void mn_reopen_quit(void)
{
    pthread_mutex_lock(&lock);
    int running = wake >= 0;
    ending = 1;
    if (running)
        (void)eventfd_write(wake, 1);
    pthread_mutex_unlock(&lock);
    if (running)
        pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    if (running)
        close(wake);
    wake = -1;
    ending = 0;
    pthread_mutex_unlock(&lock);
}

/* --- a connection's way back ------------------------------------------------------------------ */

static void add_way(struct mn_reopen *r, const struct mn_conn *conn, struct mn_pair pair)
{
    struct mn_way *way = &r->ways[r->n_ways++];

    way->routed = pair.connector == MN_ROUTED;
    if (!way->routed)
        way->local = conn->side[1].locals[pair.connector];
    way->remote = conn->side[0].locals[pair.acceptor].addr;
}

/* The cables that carry the data, and the way that the handshake took. */
static void list_ways(struct mn_reopen *r, const struct mn_conn *conn)
{
    int known = 0;

    for (int i = 0; i < conn->plan.n_pairs; i++) {
        add_way(r, conn, conn->plan.pairs[i]);
        known |= !memcmp(&conn->plan.pairs[i], &conn->control, sizeof conn->control);
    }
    if (!known)
        add_way(r, conn, conn->control);
}

static struct mn_reopen *make(const struct mn_conn *conn, uint16_t port, int lane)
{
    struct mn_reopen *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->id = conn->id + (uint64_t)(lane + 1) * LANE_STEP;
    memcpy(r->key, conn->session, sizeof r->key);
    atomic_init(&r->fresh, -1);
    r->watched = -1;
    r->connector = conn->connector;
    r->port = port;
    r->traffic_class = conn->traffic_class;
    r->patience_ms = conn->config->settings.handshake_ms / 3;
    mn_strlcpy(r->peer, conn->peer_text, sizeof r->peer);
    if (r->connector && lane < 0)
        list_ways(r, conn);
    else if (r->connector)
        add_way(r, conn,
                conn->plan.n_pairs ? conn->plan.pairs[conn->lanes[lane].pair] : conn->control);
    pthread_mutex_lock(&lock);
    r->next = buckets[r->id % BUCKETS];
    buckets[r->id % BUCKETS] = r;
    pthread_mutex_unlock(&lock);
    return r;
}

struct mn_reopen *mn_reopen_new(const struct mn_conn *conn, uint16_t port)
{
    return make(conn, port, -1);
}

struct mn_reopen *mn_reopen_new_lane(const struct mn_conn *conn, uint16_t port, int lane)
{
    return make(conn, port, lane);
}

void mn_reopen_keep(struct mn_reopen *r, const struct mn_config *config)
{
    if (r && !r->connector)
        r->holds = mn_reopen_hold_door(config) > 0;
}

void mn_reopen_fail(struct mn_reopen *r, enum mn_frame type, const void *words, size_t len)
{
    if (!r)
        return;
    pthread_mutex_lock(&lock);
    r->ended = !len;
    r->word = type;
    r->n_words = len < sizeof r->words ? len : sizeof r->words;
    if (len) {
        memcpy(r->words, words, r->n_words);
    } else {
        n_lost -= r->lost;
        n_watched -= r->watched >= 0;
        r->lost = 0;
        r->watched = -1;
    }
    pthread_mutex_unlock(&lock);
}

void mn_reopen_wakes(struct mn_reopen *r, struct mn_attended *attended)
{
    if (!r)
        return;
    pthread_mutex_lock(&lock);
    r->wakes = attended;
    pthread_mutex_unlock(&lock);
}

void mn_reopen_free(struct mn_reopen *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&lock);
    struct mn_reopen **at = &buckets[r->id % BUCKETS];
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    n_lost -= r->lost;
    n_watched -= r->watched >= 0;
    pthread_mutex_unlock(&lock);
    if (r->chan)
        mn_chan_close(r->chan);
    free(r->chan);
    mn_reopen_give(r, -1);
    if (r->holds)
        mn_reopen_release_door();
    mn_wipe(r->key, sizeof r->key);
    free(r);
}

/* Begins behind the cable that is out. */
static void choose_way(struct mn_reopen *r, const char *netdev)
{
    for (int i = 0; i < r->n_ways; i++)
        if (!r->ways[i].routed && !strcmp(r->ways[i].local.netdev, netdev))
            r->way = (i + 1) % r->n_ways;
}

int mn_reopen_lost(struct mn_reopen *r)
{
    return mn_reopen_lost_on(r, NULL);
}

int mn_reopen_lost_on(struct mn_reopen *r, const char *netdev)
{
    int error = 0;

    if (!r)
        return 0;
    if (!r->connector)
        return r->holds;
    pthread_mutex_lock(&lock);
    int waits = r->lost || mn_reopen_is_done(r) || r->ended;
    if (!waits)
        error = wake_locked();
    if (!waits && !error) {
        lose(r, mn_now_ms());
        if (netdev)
            choose_way(r, netdev);
    }
    int tell = error && !r->told;
    r->told |= error != 0;
    pthread_mutex_unlock(&lock);
    if (tell)
        MN_WARN("peer %s: opening a connection that was lost again: starting the thread for it: "
                "%s; trying on",
                r->peer, mn_thread_why(error));
    return !error;
}

void mn_reopen_watch(struct mn_reopen *r, int fd)
{
    if (!r || !r->connector)
        return;
    pthread_mutex_lock(&lock);
    n_watched += (fd >= 0) - (r->watched >= 0);
    r->watched = fd;
    if (fd >= 0) /* without the thread its comm's calls alone look */
        (void)wake_locked();
    pthread_mutex_unlock(&lock);
}

int mn_reopen_is_done(struct mn_reopen *r)
{
    return r && atomic_load_explicit(&r->fresh, memory_order_relaxed) >= 0;
}

int mn_reopen_take(struct mn_reopen *r)
{
    uint64_t attempt;

    return mn_reopen_take_attempt(r, &attempt);
}

int mn_reopen_take_attempt(struct mn_reopen *r, uint64_t *attempt)
{
    if (!mn_reopen_is_done(r))
        return -1;
    pthread_mutex_lock(&lock);
    int fd = atomic_exchange(&r->fresh, -1);
    *attempt = r->given;
    pthread_mutex_unlock(&lock);
    return fd;
}
