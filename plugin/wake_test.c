/* Owners that sleep: every transport, over loopback and on the libibverbs double, which ctest puts
 * before the library (LD_LIBRARY_PATH). A wake-up that is lost shows as a sleep that ends by its
 * bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define PATIENCE_MS 60000 /* the bound of every wait */
#define QUIET_MS    30    /* a sleep in which nothing is expected */
#define MESSAGES    10000
#define WINDOW      4 /* messages under way */
#define MOST        (300u << 10)

static uint64_t (*counter)(const char *name);
static void (*set)(const char *settings);

static void find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbols[] = {library ? dlsym(library, "fakeverbs_counter") : NULL,
                       library ? dlsym(library, "fakeverbs_set") : NULL};

    memcpy(&counter, &symbols[0], sizeof counter);
    memcpy(&set, &symbols[1], sizeof set);
}

/* One end with its owner. */
struct end {
    struct mn_comm *comm;
    int epoll;
    unsigned changed;
    uint8_t *memory;
    void *mhandle;
};

struct ends {
    struct mn_net *net;
    struct end send, recv;
};

static void watch(struct end *e)
{
    struct mn_wake wakes[MN_WAKES];
    int n = e->comm->ops->descriptors(e->comm, wakes, MN_WAKES);

    assert_in_range(n, 1, MN_WAKES);
    for (int i = 0; i < n; i++) {
        struct epoll_event event = {.events = wakes[i].events | EPOLLET, .data.fd = wakes[i].fd};
        /* Those from before are there still. */
        if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, wakes[i].fd, &event))
            assert_int_equal(epoll_ctl(e->epoll, EPOLL_CTL_MOD, wakes[i].fd, &event), 0);
    }
    e->changed = e->comm->wakes_changed;
}

static void ready(struct end *e, void *comm)
{
    e->comm = comm;
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(e->epoll >= 0);
    e->memory = calloc(WINDOW, MOST);
    assert_non_null(e->memory);
    assert_int_equal(mn_net_reg_mr(comm, e->memory, (size_t)WINDOW * MOST, NCCL_PTR_HOST,
                                   &e->mhandle),
                     0);
    watch(e);
}

/* Skips the transport that is not to be had here. */
static int pushes;

static void open_ends(enum mn_transport_kind kind, int sleeps, struct ends *e)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    void *listener, *send = NULL, *recv = NULL;
    char handle[MN_HANDLE_SIZE];

    memset(e, 0, sizeof *e);
    if (kind == MN_TRANSPORT_VERBS && !set)
        skip();
    assert_int_equal(mn_net_open(NULL, -1, &e->net), 0);
    e->net->config.settings.transport = kind;
    e->net->config.sleeps = sleeps;
    e->net->config.pushes = pushes;
    assert_int_equal(mn_net_listen(e->net, 0, handle, &listener), 0);
    while (!send || !recv) {
        if (!send)
            assert_int_equal(mn_net_connect(e->net, 0, -1, handle, &send), 0);
        if (!recv)
            assert_int_equal(mn_net_accept(listener, &recv), 0);
        nanosleep(&(struct timespec){0, 100000}, NULL);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(mn_net_close_listen(listener), 0);
    assert_int_equal(((struct mn_comm *)send)->ops->kind, kind);
    ready(&e->send, send);
    ready(&e->recv, recv);
}

static void close_ends(struct ends *e)
{
    if (e->send.comm)
        assert_int_equal(mn_net_close_send(e->send.comm), 0);
    if (e->recv.comm)
        assert_int_equal(mn_net_close_recv(e->recv.comm), 0);
    assert_int_equal(mn_net_finalize(e->net), 0);
    close(e->send.epoll);
    close(e->recv.epoll);
    free(e->send.memory);
    free(e->recv.memory);
}

static int sleep_ms(struct end *e, int ms)
{
    struct epoll_event events[MN_WAKES];
    int n;

    if (e->changed != e->comm->wakes_changed)
        watch(e);
    n = epoll_wait(e->epoll, events, MN_WAKES, ms);
    assert_true(n >= 0);
    return n;
}

static enum mn_err post(struct end *e, int slot, size_t size, struct mn_request **request)
{
    void *data = e->memory + (size_t)slot * MOST;
    int tag = 3;

    if (e->comm->is_send)
        return e->comm->ops->isend(e->comm, data, size, tag, e->mhandle, request);
    return e->comm->ops->irecv(e->comm, 1, &data, &size, &tag, &e->mhandle, request);
}

/* Until nothing is left to be done before a sleep; requests that end meanwhile end the wait. */
static int armed(struct end *e, struct mn_request *request)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    enum mn_err err;
    int done = 0;

    while (!done && (err = e->comm->ops->arm(e->comm))) {
        assert_int_equal(err, MN_ERR_AGAIN);
        if (request)
            assert_int_equal(e->comm->ops->test(request, &done, NULL), MN_OK);
        assert_true(mn_now_ms() < end);
    }
    return !done;
}

/* Descriptors are ready for no reason at first: sleeps until they are not. */
static void settle(struct end *e, struct mn_request *request)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    do {
        assert_true(armed(e, request));
        assert_true(mn_now_ms() < end);
    } while (sleep_ms(e, QUIET_MS));
}

static void finish(struct end *e, struct mn_request *request)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int done = 0; !done;) {
        assert_int_equal(e->comm->ops->test(request, &done, NULL), MN_OK);
        assert_true(mn_now_ms() < end);
    }
}

static struct mn_request *posted(struct end *e, size_t size)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct mn_request *request = NULL;

    while (!request) {
        assert_int_equal(post(e, 0, size, &request), MN_OK);
        assert_true(mn_now_ms() < end);
    }
    return request;
}

/* --- one at a time ---------------------------------------------------------------------------- */

static const struct way {
    enum mn_transport_kind kind;
    int pushes;
} tcp = {MN_TRANSPORT_TCP, 0}, tcp_by_a_thread = {MN_TRANSPORT_TCP, 1},
  verbs = {MN_TRANSPORT_VERBS, 0};

static enum mn_transport_kind kind_of(void **state)
{
    const struct way *way = *state;

    pushes = way->pushes;
    return way->kind;
}

static void a_receiver_sleeps_until_something_comes(void **state)
{
    struct ends e;

    open_ends(kind_of(state), 1, &e);
    for (int i = 0; i < 8; i++) {
        struct mn_request *recv = posted(&e.recv, MOST), *send;
        size_t size = i % 2 ? MOST : 8;
        settle(&e.recv, recv);
        send = posted(&e.send, size);
        assert_true(sleep_ms(&e.recv, PATIENCE_MS) > 0);
        /* Nobody polls the sender: what it still has to do is told to it alone. */
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        int sent = 0, received = 0;
        while (!received) {
            assert_int_equal(e.recv.comm->ops->test(recv, &received, NULL), MN_OK);
            if (!sent && size == MOST)
                assert_int_equal(e.send.comm->ops->test(send, &sent, NULL), MN_OK);
            assert_true(mn_now_ms() < end);
        }
        if (!sent)
            finish(&e.send, send);
    }
    close_ends(&e);
}

static void a_sender_sleeps_until_its_message_is_taken(void **state)
{
    struct ends e;

    open_ends(kind_of(state), 1, &e);
    for (int i = 0; i < 8; i++) {
        struct mn_request *recv = posted(&e.recv, MOST), *send = posted(&e.send, MOST);
        int received = 0, sent = 0;
        while (!received || !sent) {
            if (!received)
                assert_int_equal(e.recv.comm->ops->test(recv, &received, NULL), MN_OK);
            if (sent)
                continue;
            if (!received) {
                assert_int_equal(e.send.comm->ops->test(send, &sent, NULL), MN_OK);
                continue;
            }
            /* All is there: its acknowledgement comes, or came. */
            if (armed(&e.send, send)) {
                assert_true(sleep_ms(&e.send, PATIENCE_MS) > 0);
                assert_int_equal(e.send.comm->ops->test(send, &sent, NULL), MN_OK);
            } else {
                sent = 1;
            }
        }
    }
    close_ends(&e);
}

static void the_end_of_a_peer_wakes(void **state)
{
    for (int sender_ends = 0; sender_ends < 2; sender_ends++) {
        struct ends e;
        open_ends(kind_of(state), 1, &e);
        struct mn_request *recv = posted(&e.recv, MOST);
        struct end *left = sender_ends ? &e.recv : &e.send, *gone = sender_ends ? &e.send : &e.recv;
        settle(left, sender_ends ? recv : NULL);
        assert_int_equal((sender_ends ? mn_net_close_send : mn_net_close_recv)(gone->comm), 0);
        gone->comm = NULL;
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        enum mn_err err = MN_OK;
        while (!err || err == MN_ERR_AGAIN) {
            if (!err)
                assert_true(sleep_ms(left, PATIENCE_MS) > 0);
            err = left->comm->ops->arm(left->comm);
            assert_true(mn_now_ms() < end);
        }
        assert_true(err == MN_ERR_PEER_DEAD || err == MN_ERR_CLOSED);
        assert_int_equal(left->comm->ops->arm(left->comm), err);
        close_ends(&e);
    }
}

static void no_more_descriptors_are_written_than_asked_for(void **state)
{
    struct mn_wake wakes[MN_WAKES + 1];
    struct ends e;

    open_ends(kind_of(state), 1, &e);
    const struct mn_transport *ops = e.recv.comm->ops;
    int n = ops->descriptors(e.recv.comm, wakes, MN_WAKES);
    for (int max = 0; max <= n; max++) {
        memset(wakes, 0xff, sizeof wakes);
        assert_int_equal(ops->descriptors(e.recv.comm, wakes, max), n);
        for (int i = 0; i < n; i++)
            assert_int_equal(wakes[i].fd >= 0, i < max);
    }
    close_ends(&e);
}

/* --- without end ------------------------------------------------------------------------------ */

struct owner {
    struct end *end;
    int sleeps, failed;
    uint64_t chance, slept;
};

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 31;
}

/* Both ends draw the same. */
static size_t size_of(uint64_t number)
{
    uint64_t chance = number;
    uint64_t drawn = draw(&chance);

    return drawn % 64 == 0 ? MOST - drawn / 64 % 1000 : drawn % 8 == 0 ? 20000 : drawn % 600;
}

static void perhaps_pause(struct owner *o)
{
    uint64_t drawn = draw(&o->chance);

    if (drawn % 16 == 0)
        nanosleep(&(struct timespec){0, (long)(drawn / 16 % 300) * 1000}, NULL);
}

static int message_is_right(const uint8_t *data, uint64_t number)
{
    size_t size = size_of(number);

    return !size || (data[0] == (uint8_t)number && data[size - 1] == (uint8_t)number);
}

/* Nothing is left to do: sleeps, if so minded. A sender that has found no room may have to look
 * for announcements. */
static int rest(struct owner *o, int moved, int no_room)
{
    struct end *e = o->end;

    if (moved || !o->sleeps)
        return 1;
    enum mn_err err = e->comm->ops->arm(e->comm);
    if (err)
        return err == MN_ERR_AGAIN;
    int looks = no_room && e->comm->ops->kind == MN_TRANSPORT_VERBS;
    o->slept++;
    return sleep_ms(e, looks ? 1 : PATIENCE_MS) > 0 || looks;
}

static void *own(void *arg)
{
    struct owner *o = arg;
    struct end *e = o->end;
    struct mn_request *requests[WINDOW] = {NULL};
    uint64_t next = 0, first = 0, end = mn_now_ms() + 3 * PATIENCE_MS;

    while (first < MESSAGES && !o->failed) {
        int moved = 0, no_room = 0;
        for (; next < MESSAGES && next < first + WINDOW && !no_room; next += !no_room) {
            uint8_t *data = e->memory + next % WINDOW * MOST;
            size_t size = e->comm->is_send ? size_of(next) : MOST;
            if (e->comm->is_send && size)
                data[0] = data[size - 1] = (uint8_t)next;
            o->failed |= post(e, (int)(next % WINDOW), size, &requests[next % WINDOW]) != MN_OK;
            no_room = !requests[next % WINDOW];
            moved |= !no_room;
            perhaps_pause(o);
        }
        for (int done = 1; done && first < next;) {
            int size = -1;
            o->failed |= e->comm->ops->test(requests[first % WINDOW], &done, &size) != MN_OK;
            if (done && !e->comm->is_send)
                o->failed |= (size_t)size != size_of(first) ||
                             !message_is_right(e->memory + first % WINDOW * MOST, first);
            first += done != 0;
            moved |= done;
        }
        o->failed |= !rest(o, moved, no_room) || mn_now_ms() > end;
    }
    return NULL;
}

static void pass_all(enum mn_transport_kind kind, int sender_sleeps, int receiver_sleeps)
{
    struct ends e;
    pthread_t thread;

    open_ends(kind, 1, &e);
    struct owner send = {.end = &e.send, .sleeps = sender_sleeps, .chance = 1},
                 recv = {.end = &e.recv, .sleeps = receiver_sleeps, .chance = 2};
    assert_int_equal(pthread_create(&thread, NULL, own, &send), 0);
    own(&recv);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(send.failed, 0);
    assert_int_equal(recv.failed, 0);
    assert_int_equal(send.slept > 0, sender_sleeps);
    assert_int_equal(recv.slept > 0, receiver_sleeps);
    close_ends(&e);
}

static void no_wake_up_of_a_receiver_is_lost(void **state)
{
    pass_all(kind_of(state), 0, 1);
}

static void no_wake_up_of_a_sender_is_lost(void **state)
{
    pass_all(kind_of(state), 1, 0);
}

static void none_is_lost_where_both_sleep(void **state)
{
    pass_all(kind_of(state), 1, 1);
}

/* --- RDMA alone ------------------------------------------------------------------------------- */

static void who_does_not_sleep_has_no_channel(void **state)
{
    struct ends e;

    (void)state;
    open_ends(MN_TRANSPORT_VERBS, 0, &e);
    assert_int_equal(counter("channels"), 0);
    assert_int_equal(e.recv.comm->ops->arm(e.recv.comm), MN_ERR_UNSUPPORTED);
    close_ends(&e);
    open_ends(MN_TRANSPORT_VERBS, 1, &e);
    assert_true(counter("channels") > 0);
    close_ends(&e);
    assert_int_equal(counter("channels"), 0);
}

/* Its descriptor goes with it, and that of the next one is told. */
static void a_control_connection_that_is_cut_wakes(void **state)
{
    static const struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct ends e;

    (void)state;
    open_ends(MN_TRANSPORT_VERBS, 1, &e);
    const struct verbs_comm *recv = (const struct verbs_comm *)e.recv.comm;
    const struct verbs_comm *send = (const struct verbs_comm *)e.send.comm;
    struct mn_request *request = posted(&e.recv, MOST);
    settle(&e.recv, request);
    unsigned changed = e.recv.comm->wakes_changed;
    assert_int_equal(connect(send->control.fd, &none, sizeof none), 0);
    assert_true(sleep_ms(&e.recv, PATIENCE_MS) > 0);
    assert_true(armed(&e.recv, request));
    assert_true(e.recv.comm->wakes_changed != changed);
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (recv->control.fd < 0 || send->control.fd < 0) {
        (void)sleep_ms(&e.send, 1);
        assert_true(armed(&e.send, NULL) && armed(&e.recv, request));
        assert_true(mn_now_ms() < end);
    }
    struct mn_wake wakes[MN_WAKES];
    int n = e.recv.comm->ops->descriptors(e.recv.comm, wakes, MN_WAKES);
    assert_int_equal(wakes[n - 1].fd, recv->control.fd);
    settle(&e.recv, request);
    assert_int_equal(mn_net_close_send(e.send.comm), 0);
    e.send.comm = NULL;
    assert_true(sleep_ms(&e.recv, PATIENCE_MS) > 0);
    close_ends(&e);
}

/* Completions come late: nobody calls anything while they do. */
static void what_is_under_way_at_the_double_wakes(void **state)
{
    if (set)
        set("delay=50,reorder=1");
    a_receiver_sleeps_until_something_comes(state);
    a_sender_sleeps_until_its_message_is_taken(state);
    none_is_lost_where_both_sleep(state);
    set("delay=0,reorder=0");
}

/* clang-format off */
#define OF(way, test) {#way ": " #test, test, NULL, NULL, (void *)(uintptr_t)&way}
/* clang-format on */
#define EVERY(way)                                                                                 \
    OF(way, a_receiver_sleeps_until_something_comes),                                              \
        OF(way, a_sender_sleeps_until_its_message_is_taken), OF(way, the_end_of_a_peer_wakes),     \
        OF(way, no_more_descriptors_are_written_than_asked_for),                                   \
        OF(way, no_wake_up_of_a_receiver_is_lost), OF(way, no_wake_up_of_a_sender_is_lost),        \
        OF(way, none_is_lost_where_both_sleep)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVERY(tcp),
        EVERY(tcp_by_a_thread),
        EVERY(verbs),
        OF(verbs, who_does_not_sleep_has_no_channel),
        OF(verbs, a_control_connection_that_is_cut_wakes),
        OF(verbs, what_is_under_way_at_the_double_wakes),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("MESHNET_CONFIG");
    find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
