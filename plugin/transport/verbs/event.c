/* Asynchronous events of the devices, handed to the watches they concern. */
#include "plugin/transport/verbs/device_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/thread.h"
#include "topo/base/log.h"

/* Guards the list and what the thread does with its members, so that a removed watch is never
 * written. Not held while an event is acknowledged or logged: destroying a queue pair waits for the
 * acknowledgement of its events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct verbs_watch *watches;
atomic_uint verbs_alarm;

/* What is written to the thread's eventfd: that a watch was added whose port is down, or that it is
 * to end. */
#define PORT_DOWN ((eventfd_t)1)
#define STOP      ((eventfd_t)1 << 32)
#define ASK_MS    1000

struct reader {
    struct verbs_device *devices;
    int n;
    struct pollfd fds[VERBS_MAX_DEVICES + 1]; /* the last one is the eventfd */
    int wake;
    int down; /* a port may be */
    uint64_t asked_ms;
    pthread_t thread;
};

static struct reader *reader; /* NULL: no thread; changed by start and stop only */

struct verbs_watch *verbs_watches_lock(void)
{
    pthread_mutex_lock(&lock);
    return watches;
}

void verbs_watches_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void verbs_watch_down(struct verbs_watch *watch)
{
    unsigned now = (unsigned)mn_now_ms();
    if (atomic_load_explicit(&watch->port_down, memory_order_relaxed) == 0)
        atomic_store_explicit(&watch->port_down, now ? now : 1, memory_order_relaxed);
}

void verbs_watch_add(struct verbs_watch *watch)
{
    struct verbs_device *device = watch->device;
    struct ibv_port_attr attr;
    int down;
    atomic_store_explicit(&watch->port_down, 0, memory_order_relaxed);
    atomic_store_explicit(&watch->fatal, 0, memory_order_relaxed);
    watch->dark = watch->asked = 0;
    pthread_mutex_lock(&lock);
    /* Asked under the lock: whatever changes afterwards has its event handled afterwards. */
    down = mn_ibv_query_port(device->ibv, device->context, watch->port, &attr) == 0 &&
           attr.state != IBV_PORT_ACTIVE;
    if (down) {
        verbs_watch_down(watch);
        verbs_cache_changed(device);
    }
    watch->next = watches;
    watches = watch;
    pthread_mutex_unlock(&lock);
    if (down && reader)
        eventfd_write(reader->wake, PORT_DOWN);
}

void verbs_watch_remove(struct verbs_watch *watch)
{
    pthread_mutex_lock(&lock);
    struct verbs_watch **at = &watches;
    while (*at && *at != watch)
        at = &(*at)->next;
    if (*at)
        *at = watch->next;
    pthread_mutex_unlock(&lock);
}

enum scope { QP, CQ, PORT, DEVICE };

static const struct event {
    enum ibv_event_type type;
    enum scope scope;
    int fatal, down, up; /* what it does to the watches; none: it is only told */
    const char *text;
} events[] = {
    {IBV_EVENT_CQ_ERR, CQ, 1, 0, 0, "completion queue error"},
    {IBV_EVENT_QP_FATAL, QP, 1, 0, 0, "fatal queue pair error"},
    {IBV_EVENT_QP_REQ_ERR, QP, 1, 0, 0, "queue pair: invalid request"},
    {IBV_EVENT_QP_ACCESS_ERR, QP, 1, 0, 0, "queue pair: access violation"},
    {IBV_EVENT_DEVICE_FATAL, DEVICE, 1, 0, 0, "the device failed"},
    {IBV_EVENT_PORT_ACTIVE, PORT, 0, 0, 1, "port is ACTIVE again"},
    {IBV_EVENT_PORT_ERR, PORT, 0, 1, 0, "port is DOWN"},
    {IBV_EVENT_LID_CHANGE, PORT, 0, 0, 0, "LID changed"},
    {IBV_EVENT_PKEY_CHANGE, PORT, 0, 0, 0, "partition keys changed"},
    {IBV_EVENT_SM_CHANGE, PORT, 0, 0, 0, "subnet manager changed"},
    {IBV_EVENT_CLIENT_REREGISTER, PORT, 0, 0, 0, "subnet manager asks for registration anew"},
    {IBV_EVENT_GID_CHANGE, PORT, 0, 0, 0, "GID table changed"},
};

static const struct event *find_event(enum ibv_event_type type)
{
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i].type == type)
            return &events[i];
    return NULL;
}

static int concerns(const struct verbs_watch *watch, const struct verbs_device *device,
                    const struct event *event, const struct ibv_async_event *got)
{
    switch (event->scope) {
    case QP:
        return got->element.qp->qp_context == watch;
    case CQ:
        return got->element.cq->cq_context == watch;
    case PORT:
        return watch->device == device && watch->port == got->element.port_num;
    case DEVICE:
        break;
    }
    return watch->device == device;
}

static void apply(const struct verbs_device *device, const struct event *event,
                  const struct ibv_async_event *got)
{
    pthread_mutex_lock(&lock);
    for (struct verbs_watch *watch = watches; watch; watch = watch->next) {
        if (!concerns(watch, device, event, got))
            continue;
        if (event->fatal)
            atomic_store_explicit(&watch->fatal, (int)event->type + 1, memory_order_relaxed);
        if (event->down)
            verbs_watch_down(watch);
        if (event->up)
            atomic_store_explicit(&watch->port_down, 0, memory_order_relaxed);
        if (event->down || event->up)
            watch->dark = 0; /* the device knows of it */
    }
    pthread_mutex_unlock(&lock);
    /* After what it is about: whoever sees the count sees that, too. */
    atomic_fetch_add_explicit(&verbs_alarm, 1, memory_order_release);
}

/* Queue pairs and completion queues are their connection's to explain. */
static void tell(const struct verbs_device *device, const struct event *event, int port)
{
    enum mn_log_level level = event->fatal || event->down ? MN_LOG_WARN : MN_LOG_INFO;
    if (event->scope == PORT)
        mn_log(level, __FILE__, __LINE__, "%s port %d: %s", device->name, port, event->text);
    else if (event->scope == DEVICE)
        mn_log(level, __FILE__, __LINE__, "%s: %s", device->name, event->text);
    else
        MN_INFO("%s: %s", device->name, event->text);
}

static void handle(struct verbs_device *device, struct ibv_async_event *got)
{
    const struct event *event = find_event(got->event_type);
    int port = 0;
    if (event) {
        if (event->scope == PORT)
            port = got->element.port_num;
        if (event->scope == PORT || event->scope == DEVICE)
            verbs_cache_changed(device);
        apply(device, event, got);
        if (event->down || event->up)
            verbs_carriers_told(mn_now_ms());
    }
    device->ibv->ack_async_event(got);
    if (event)
        tell(device, event, port);
}

/* Takes what is there. 0: nothing will ever come again; as when the device is unplugged, which
 * leaves its descriptor readable for ever. */
static int drain(struct verbs_device *device)
{
    for (;;) {
        struct ibv_async_event got;
        if (device->ibv->get_async_event(device->context, &got) == 0)
            handle(device, &got);
        else if (errno == EAGAIN)
            return 1;
        else if (errno != EINTR)
            return 0;
    }
}

static void lose(struct verbs_device *device)
{
    static const struct event gone = {IBV_EVENT_DEVICE_FATAL,
                                      DEVICE,
                                      1,
                                      0,
                                      0,
                                      "the device is gone, it tells no events any more"};
    verbs_cache_mute(device);
    verbs_cache_changed(device);
    apply(device, &gone, NULL);
    tell(device, &gone, 0);
}

/* Those that have just gone have their events before them; those that failed are their owner's. */
static int is_to_ask(const struct verbs_watch *watch, unsigned now)
{
    unsigned down = atomic_load_explicit(&watch->port_down, memory_order_relaxed);
    return down && (int)(now - down) >= ASK_MS && !watch->dark;
}

/* Whether one of a port's watches is still down. The device may take long to answer: those that are
 * asked for are marked, as one that is added meanwhile knows better. */
static int ask_port(const struct verbs_device *device, int port, uint64_t now)
{
    struct ibv_port_attr attr;
    int down = 0, asked = 0, up;

    pthread_mutex_lock(&lock);
    for (struct verbs_watch *w = watches; w; w = w->next) {
        if (w->device != device || w->port != port ||
            atomic_load_explicit(&w->fatal, memory_order_relaxed))
            continue;
        w->asked = (uint8_t)is_to_ask(w, (unsigned)now);
        asked |= w->asked;
        down |= atomic_load_explicit(&w->port_down, memory_order_relaxed) && !w->dark;
    }
    pthread_mutex_unlock(&lock);
    up = asked && mn_ibv_query_port(device->ibv, device->context, (uint8_t)port, &attr) == 0 &&
         attr.state == IBV_PORT_ACTIVE;
    if (!up)
        return down;
    verbs_cache_changed(device);
    pthread_mutex_lock(&lock);
    for (struct verbs_watch *w = watches; w; w = w->next)
        if (w->device == device && w->port == port && w->asked)
            atomic_store_explicit(&w->port_down, 0, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add_explicit(&verbs_alarm, 1, memory_order_release);
    tell(device, find_event(IBV_EVENT_PORT_ACTIVE), port);
    verbs_carriers_told(now); /* that it goes again may not be told either */
    return 1;
}

/* The kernel tells of carriers up to a second late, and drivers (mlx5) only what differs from what
 * they told last: a port found down that is back by then is never told to be. So those that are
 * down are asked, once a second. Returns in how many ms it is time again; -1: none is down. */
static int ask_ports(struct reader *r, uint64_t now)
{
    if (!r->down)
        return -1;
    if (now - r->asked_ms < ASK_MS)
        return (int)(r->asked_ms + ASK_MS - now);
    r->asked_ms = now;
    r->down = 0;
    for (int i = 0; i < r->n; i++)
        for (int port = 1; port <= r->devices[i].attr.phys_port_cnt; port++)
            r->down |= ask_port(&r->devices[i], port, now);
    return r->down ? ASK_MS : -1;
}

/* What wakes the thread may be a port that goes. */
static void look_for_ports(struct reader *r, uint64_t now)
{
    if (!r->down)
        r->asked_ms = now;
    r->down = 1;
}

static int sooner(int one, int other)
{
    return one < 0 || (other >= 0 && other < one) ? other : one;
}

static void *read_events(void *arg)
{
    struct reader *r = arg;
    for (;;) {
        uint64_t now = mn_now_ms();
        eventfd_t why = 0;
        /* The ports first: one that is back has the carriers looked at. */
        int ports = ask_ports(r, now), carriers = verbs_carriers_look(now);
        if (carriers >= 0)
            look_for_ports(r, now);
        int n = poll(r->fds, (nfds_t)r->n + 1, sooner(carriers, ports));
        if (n < 0) {
            if (errno == EINTR)
                continue;
            MN_WARN("events of RDMA devices are not read any more: poll: %s", strerror(errno));
            for (int i = 0; i < r->n; i++)
                verbs_cache_mute(&r->devices[i]);
            return NULL;
        }
        if (r->fds[r->n].revents && eventfd_read(r->wake, &why) == 0 && why >= STOP)
            return NULL;
        if (n > 0)
            look_for_ports(r, mn_now_ms());
        for (int i = 0; i < r->n; i++) {
            short revents = r->fds[i].revents;
            /* After the last event of a device that hangs up, drain() says EAGAIN. */
            if (revents && (!drain(&r->devices[i]) || revents & (POLLHUP | POLLERR | POLLNVAL))) {
                r->fds[i].fd = -1;
                lose(&r->devices[i]);
            }
        }
    }
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static int start_thread(struct reader *r)
{
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->wake < 0)
        return errno;
    r->fds[r->n] = (struct pollfd){.fd = r->wake, .events = POLLIN};
    int err = mn_thread_start("mn-verbs-event", read_events, r, &r->thread);
    if (err)
        close(r->wake);
    return err;
}

void verbs_events_start(struct verbs_device *devices, int n)
{
    struct reader *r = calloc(1, sizeof *r);
    int err = r ? 0 : ENOMEM;
    if (r) {
        r->devices = devices;
        r->n = n;
        for (int i = 0; i < n; i++) {
            int fd = devices[i].context->async_fd;
            if (!set_nonblocking(fd)) {
                MN_WARN("events of %s cannot be read (%s)", devices[i].name, strerror(errno));
                verbs_cache_mute(&devices[i]);
                fd = -1;
            }
            r->fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        err = start_thread(r);
    }
    if (err != 0) {
        MN_WARN("no thread for the events of RDMA devices: %s; a lost port is only noticed by its "
                "silence",
                mn_thread_why(err));
        for (int i = 0; i < n; i++)
            verbs_cache_mute(&devices[i]);
        free(r);
        return;
    }
    reader = r;
}

void verbs_events_stop(void)
{
    if (!reader)
        return;
    eventfd_write(reader->wake, STOP);
    pthread_join(reader->thread, NULL);
    close(reader->wake);
    free(reader);
    reader = NULL;
}
