/* Opening devices and handing their events on. Events come through a pipe, as they come through a
 * descriptor from the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin/carrier.h"
#include "plugin/tasks_kit.h"
#include "plugin/conn.h"
#include "plugin/transport/verbs/device_impl.h"
#include "topo/base/log.h"

#define N 8

static struct ibv_device listed[N] = {
    {.name = "mlx5_0"}, {.name = "iw0", .transport_type = IBV_TRANSPORT_IWARP},
    {.name = "closed"}, {.name = "efa0", .transport_type = IBV_TRANSPORT_UNSPECIFIED},
    {.name = "mute"},   {.name = "nopd"},
    {.name = "noport"}, {.name = "mlx5_1"},
};
static struct ibv_device *list[N + 1];
static struct ibv_context contexts[N];
static struct ibv_pd pds[N];
static int opened, closed, no_list, events[N][2];
static atomic_int states[N][3]; /* by port */
static atomic_int acked, asked[N];

static int number_of(const struct ibv_context *context)
{
    return (int)(context - contexts);
}

static int is(const struct ibv_context *context, const char *name)
{
    return strcmp(listed[number_of(context)].name, name) == 0;
}

static struct ibv_device **get_list(int *count)
{
    *count = N;
    for (int i = 0; i < N; i++)
        list[i] = &listed[i];
    errno = ENOSYS;
    return no_list ? NULL : list;
}

static void free_list(struct ibv_device **devices)
{
    assert_ptr_equal(devices, list);
}

static const char *get_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct ibv_context *context = &contexts[device - listed];
    if (is(context, "closed")) {
        errno = EACCES;
        return NULL;
    }
    opened++;
    return context;
}

static int close_device(struct ibv_context *context)
{
    (void)context;
    closed++;
    return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    attr->phys_port_cnt = 2;
    attr->max_qp_wr = 100 + number_of(context);
    return is(context, "mute") ? EIO : 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
    attr->state = (enum ibv_port_state)atomic_load(&states[number_of(context)][port]);
    /* The first port of mlx5_1 is of no use, the second is. */
    attr->link_layer = is(context, "noport") || (is(context, "mlx5_1") && port == 1)
                           ? 99
                           : IBV_LINK_LAYER_ETHERNET;
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    if (is(context, "nopd")) {
        errno = ENOMEM;
        return NULL;
    }
    return &pds[number_of(context)];
}

static int get_event(struct ibv_context *context, struct ibv_async_event *event)
{
    atomic_fetch_add(&asked[number_of(context)], 1);
    ssize_t got = read(context->async_fd, event, sizeof *event);
    if (got == (ssize_t)sizeof *event)
        return 0;
    if (got >= 0)
        errno = EIO;
    return -1;
}

static int given_back;

static int dealloc_pd(struct ibv_pd *pd)
{
    assert_true(pd >= pds && pd < pds + N);
    given_back++;
    return 0;
}

static void ack_event(struct ibv_async_event *event)
{
    (void)event;
    atomic_fetch_add(&acked, 1);
}

static const struct mn_ibv library = {
    .version = "1.14",
    .get_device_list = get_list,
    .free_device_list = free_list,
    .get_device_name = get_name,
    .open_device = open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port_compat = query_port,
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .get_async_event = get_event,
    .ack_async_event = ack_event,
};

/* --- what is logged ----------------------------------------------------------------------------
 */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[8192];

static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    pthread_mutex_lock(&log_lock);
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s: %s\n", names[level], msg);
    pthread_mutex_unlock(&log_lock);
}

static int was_logged(const char *text)
{
    pthread_mutex_lock(&log_lock);
    int found = strstr(logged, text) != NULL;
    pthread_mutex_unlock(&log_lock);
    return found;
}

static int forget(void **state)
{
    (void)state;
    pthread_mutex_lock(&log_lock);
    logged[0] = '\0';
    pthread_mutex_unlock(&log_lock);
    return 0;
}

/* --- opening -----------------------------------------------------------------------------------
 */

static struct verbs_device devices[VERBS_MAX_DEVICES];

static void only_usable_devices_are_opened(void **state)
{
    (void)state;
    opened = closed = 0;
    assert_int_equal(verbs_devices_open(&library, devices, VERBS_MAX_DEVICES), 2);
    assert_string_equal(devices[0].name, "mlx5_0");
    assert_string_equal(devices[1].name, "mlx5_1");
    assert_int_equal(devices[0].index, 0);
    assert_int_equal(devices[1].index, 1);
    assert_ptr_equal(devices[1].context, &contexts[7]);
    assert_ptr_equal(devices[1].pd, &pds[7]);
    assert_ptr_equal(devices[1].ibv, &library);
    assert_int_equal(devices[1].attr.max_qp_wr, 107);
    assert_int_equal(opened - closed, 2);
    verbs_devices_close(devices, 2);
    assert_int_equal(opened, closed);
    assert_int_equal(given_back, 2);
    assert_true(was_logged("info: RDMA device iw0"));
    assert_true(was_logged("info: RDMA device efa0"));
    assert_true(was_logged("info: RDMA device noport"));
    assert_true(was_logged("warn: RDMA device closed cannot be opened (Permission denied)"));
    assert_true(was_logged("warn: RDMA device mute"));
    assert_true(was_logged("warn: RDMA device nopd"));
}

static void too_many_devices_are_told(void **state)
{
    (void)state;
    struct verbs_device one;
    assert_int_equal(verbs_devices_open(&library, &one, 1), 1);
    assert_true(was_logged("warn: 1 RDMA devices are in use; iw0"));
}

static void no_list_is_no_device(void **state)
{
    (void)state;
    no_list = 1;
    assert_int_equal(verbs_devices_open(&library, devices, VERBS_MAX_DEVICES), 0);
    no_list = 0;
    assert_true(was_logged("info: libibverbs 1.14 lists no RDMA device"));
}

/* --- events ------------------------------------------------------------------------------------
 */

/* The id of a thread of this name, or 0. */
static int find_thread(const char *name)
{
    int id = 0;

    assert_true(mn_tasks(name, &id) >= 0);
    return id;
}

static void no_device_no_thread(void **state)
{
    (void)state;
    struct verbs_device *a, *b;
    int n = verbs_devices(&a);
    assert_int_equal(verbs_devices(&b), n);
    assert_ptr_equal(a, b);
    assert_int_equal(find_thread("mn-verbs-event") != 0, n > 0);
    verbs_devices_quit();
    assert_int_equal(mn_tasks_left("mn-verbs-event"), 0);
}

static struct verbs_watch first = {.port = 1}, second = {.port = 2}, other = {.port = 2};

static void set_state(int number, int port, enum ibv_port_state state)
{
    atomic_store(&states[number][port], state);
}

static int start_events(void **state)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);

    assert_int_equal(verbs_devices_open(&library, devices, VERBS_MAX_DEVICES), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(events[i], O_CLOEXEC), 0);
        devices[i].context->async_fd = events[i][0];
        for (int port = 1; port <= 2; port++)
            set_state(number_of(devices[i].context), port, IBV_PORT_ACTIVE);
    }
    sched_setaffinity(0, sizeof one, &one);
    verbs_events_start(devices, 2);
    sched_setaffinity(0, sizeof before, &before);
    first.device = second.device = &devices[0];
    other.device = &devices[1];
    verbs_watch_add(&first);
    verbs_watch_add(&second);
    verbs_watch_add(&other);
    return forget(state);
}

static void send_event(int device, struct ibv_async_event event)
{
    int before = atomic_load(&acked);
    assert_int_equal(write(events[device][1], &event, sizeof event), sizeof event);
    /* Acknowledged means handled. */
    for (int i = 0; i < 10000 && atomic_load(&acked) == before; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    assert_int_equal(atomic_load(&acked), before + 1);
}

static void send_port(int device, enum ibv_event_type type, int port)
{
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
        set_state(number_of(devices[device].context), port,
                  type == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE);
    send_event(device, (struct ibv_async_event){.event_type = type, .element.port_num = port});
}

/* The line comes after the acknowledgement. */
static void expect_log(const char *text)
{
    for (int i = 0; i < 10000 && !was_logged(text); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    assert_true(was_logged(text));
}

static void the_thread_is_out_of_the_way(void **state)
{
    (void)state;
    send_port(0, IBV_EVENT_GID_CHANGE, 1);
    int id = find_thread("mn-verbs-event");
    assert_int_not_equal(id, 0);
    cpu_set_t its, ours;
    assert_int_equal(sched_getaffinity(id, sizeof its, &its), 0);
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    assert_true(CPU_COUNT(&its) >= CPU_COUNT(&ours));

    char path[64], line[128];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", id);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "SigBlk:", 7) == 0)
            blocked = strtoull(line + 7, NULL, 16);
    fclose(file);
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_true(blocked >> (signals[i] - 1) & 1);
}

static void port_events_reach_the_watches_of_the_port(void **state)
{
    (void)state;
    send_port(0, IBV_EVENT_PORT_ERR, 2);
    assert_int_equal(first.port_down, 0);
    assert_int_not_equal(second.port_down, 0);
    assert_int_equal(other.port_down, 0);
    expect_log("warn: mlx5_0 port 2: port is DOWN");

    /* The time is that of the first event. */
    unsigned since = second.port_down;
    send_port(0, IBV_EVENT_PORT_ERR, 2);
    assert_int_equal(second.port_down, since);
    send_port(0, IBV_EVENT_PORT_ACTIVE, 2);
    assert_int_equal(second.port_down, 0);
    expect_log("info: mlx5_0 port 2: port is ACTIVE again");
    send_port(1, IBV_EVENT_GID_CHANGE, 2);
    expect_log("info: mlx5_1 port 2: GID table changed");
    assert_int_equal(first.fatal + second.fatal + other.fatal, 0);
}

static void queue_errors_reach_their_watch(void **state)
{
    (void)state;
    static const struct {
        enum ibv_event_type type;
        int is_qp, fatal;
    } rows[] = {{IBV_EVENT_QP_FATAL, 1, 1},      {IBV_EVENT_QP_REQ_ERR, 1, 1},
                {IBV_EVENT_QP_ACCESS_ERR, 1, 1}, {IBV_EVENT_CQ_ERR, 0, 1},
                {IBV_EVENT_COMM_EST, 1, 0},      {IBV_EVENT_QP_LAST_WQE_REACHED, 1, 0},
                {IBV_EVENT_SQ_DRAINED, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verbs_watch mine = {.device = &devices[0], .port = 1};
        struct ibv_qp qp = {.qp_context = &mine};
        struct ibv_cq cq = {.cq_context = &mine};
        struct ibv_async_event event = {.event_type = rows[i].type};
        if (rows[i].is_qp)
            event.element.qp = &qp;
        else
            event.element.cq = &cq;
        verbs_watch_add(&mine);
        send_event(0, event);
        assert_int_equal(mine.fatal, rows[i].fatal ? (int)rows[i].type + 1 : 0);
        assert_int_equal(first.fatal + second.fatal + other.fatal, 0);

        /* Once it is removed its memory is the owner's again. */
        verbs_watch_remove(&mine);
        verbs_watch_remove(&mine);
        mine.fatal = -7;
        mine.port_down = 7;
        send_event(0, event);
        send_port(0, IBV_EVENT_PORT_ERR, 1);
        send_port(0, IBV_EVENT_PORT_ACTIVE, 1);
        assert_int_equal(mine.fatal, -7);
        assert_int_equal(mine.port_down, 7);
    }
}

static void a_port_down_already_is_seen_at_once(void **state)
{
    (void)state;
    struct verbs_watch mine = {.device = &devices[1], .port = 2, .port_down = 5, .fatal = 9};
    verbs_watch_add(&mine);
    assert_int_equal(mine.port_down, 0);
    assert_int_equal(mine.fatal, 0);
    verbs_watch_remove(&mine);
    set_state(7, 2, IBV_PORT_DOWN);
    verbs_watch_add(&mine);
    assert_int_not_equal(mine.port_down, 0);
    send_port(1, IBV_EVENT_PORT_ACTIVE, 2);
    assert_int_equal(mine.port_down, 0);
    verbs_watch_remove(&mine);
    set_state(7, 2, IBV_PORT_ACTIVE);
}

/* Back before the driver has compared, it is the port of which the driver told last. */
static void a_port_that_comes_back_untold_is_asked(void **state)
{
    (void)state;
    struct verbs_watch mine = {.device = &devices[1], .port = 2};
    unsigned told = atomic_load(&verbs_alarm);
    set_state(7, 2, IBV_PORT_DOWN);
    verbs_watch_add(&mine);
    assert_int_not_equal(mine.port_down, 0);
    set_state(7, 2, IBV_PORT_ACTIVE);
    expect_log("info: mlx5_1 port 2: port is ACTIVE again");
    assert_int_equal(mine.port_down, 0);
    assert_int_not_equal(atomic_load(&verbs_alarm), told);
    verbs_watch_remove(&mine);
}

/* It may have been renamed, and its port works. */
static void a_netdev_that_is_not_there_says_nothing_of_its_port(void **state)
{
    struct verbs_watch mine = {.device = &devices[1], .port = 1, .netdev = "no-such-netdev"},
                       up = {.device = &devices[1], .port = 1, .netdev = "lo"};
    uint64_t end = mn_now_ms() + 10000;
    int fd;

    (void)state;
    verbs_watch_add(&up);
    for (int looked = 0; !looked; assert_true(mn_now_ms() < end)) {
        verbs_watch_add(&mine);
        send_port(0, IBV_EVENT_PORT_ACTIVE, 2); /* the others are looked at for a while */
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        verbs_watch_remove(&mine);
        assert_int_equal(mine.port_down, 0);
        looked = !mine.netdev;
    }
    verbs_watch_remove(&up);
    assert_int_equal(up.port_down, 0);
    /* qemu's emulation of one process does not pass the question on. */
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(!up.netdev, mn_has_carrier(fd, "lo") < 0);
    close(fd);
}

static void *come_and_go(void *arg)
{
    struct verbs_watch *mine = arg;
    for (int i = 0; i < 2000; i++) {
        verbs_watch_add(mine);
        verbs_watch_remove(mine);
    }
    return NULL;
}

static void watches_come_and_go_under_events(void **state)
{
    (void)state;
    pthread_t threads[3];
    struct verbs_watch mine[3];
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < 3; i++) {
        mine[i].device = &devices[0];
        mine[i].port = (uint8_t)(1 + i % 2);
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &mine[i]), 0);
    }
    for (int i = 0; i < 100; i++) {
        send_port(0, IBV_EVENT_PORT_ERR, 1 + i % 2);
        send_port(0, IBV_EVENT_PORT_ACTIVE, 1 + i % 2);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(first.port_down, 0);
    assert_int_equal(second.port_down, 0);
}

static void a_device_that_fails_fails_its_watches(void **state)
{
    (void)state;
    send_event(0, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
    assert_int_equal(first.fatal, IBV_EVENT_DEVICE_FATAL + 1);
    assert_int_equal(second.fatal, IBV_EVENT_DEVICE_FATAL + 1);
    assert_int_equal(other.fatal, 0);
    expect_log("warn: mlx5_0: the device failed");
}

static void an_unplugged_device_is_given_up(void **state)
{
    (void)state;
    first.fatal = 0;
    close(events[0][1]);
    expect_log("warn: mlx5_0: the device is gone");
    assert_int_equal(first.fatal, IBV_EVENT_DEVICE_FATAL + 1);
    assert_int_equal(other.fatal, 0);
    /* Its descriptor is readable for ever; it is not asked again, and the other device is. */
    int before = asked[0];
    for (int i = 0; i < 20; i++)
        send_port(1, IBV_EVENT_PORT_ERR, 2);
    assert_int_equal(asked[0], before);
    assert_int_not_equal(other.port_down, 0);
}

static int stop_events(void **state)
{
    (void)state;
    verbs_events_stop();
    assert_int_equal(mn_tasks_left("mn-verbs-event"), 0);
    verbs_events_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest opening[] = {
        cmocka_unit_test_setup(no_device_no_thread, forget),
        cmocka_unit_test_setup(only_usable_devices_are_opened, forget),
        cmocka_unit_test_setup(too_many_devices_are_told, forget),
        cmocka_unit_test_setup(no_list_is_no_device, forget),
    };
    const struct CMUnitTest with_events[] = {
        cmocka_unit_test_setup(the_thread_is_out_of_the_way, forget),
        cmocka_unit_test_setup(port_events_reach_the_watches_of_the_port, forget),
        cmocka_unit_test_setup(queue_errors_reach_their_watch, forget),
        cmocka_unit_test_setup(a_port_that_comes_back_untold_is_asked, forget),
        cmocka_unit_test_setup(a_netdev_that_is_not_there_says_nothing_of_its_port, forget),
        cmocka_unit_test_setup(a_port_down_already_is_seen_at_once, forget),
        cmocka_unit_test_setup(watches_come_and_go_under_events, forget),
        cmocka_unit_test_setup(a_device_that_fails_fails_its_watches, forget),
        cmocka_unit_test_setup(an_unplugged_device_is_given_up, forget),
    };
    mn_log_set_sink(keep);
    int failed = cmocka_run_group_tests(opening, NULL, NULL);
    return cmocka_run_group_tests(with_events, start_events, stop_events) + failed;
}
