/* Strangers at a listener's sockets: who has to make room, and what happens without descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/arrive.h"
#include "plugin/conn.h"
#include "topo/base/log.h"

#define PATIENCE_MS 60000
#define STRANGERS   100

static int warnings;
static enum mn_verdict all_are;
static int judged, taken[STRANGERS], n_taken;

static void count_warning(enum mn_log_level level, const char *file, int line, const char *text)
{
    (void)file, (void)line;
    warnings += level <= MN_LOG_WARN && strstr(text, "ulimit -n");
}

/* What says 'p' is a peer; nobody else is more than all_are. */
static enum mn_verdict judge(void *listener, int fd)
{
    char word = 0;

    assert_ptr_equal(listener, &all_are);
    judged++;
    if (recv(fd, &word, 1, MSG_PEEK | MSG_DONTWAIT) != 1 || word != 'p')
        return all_are;
    taken[n_taken++] = fd;
    return MN_ARRIVAL_TAKEN;
}

static struct sockaddr_in at(uint32_t address, in_port_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = port,
                                .sin_addr.s_addr = htonl(address)};
}

static int listen_here(struct sockaddr_in *here)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof *here;

    *here = at(INADDR_LOOPBACK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)here, sizeof *here), 0);
    assert_int_equal(listen(fd, 1024), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)here, &len), 0);
    return fd;
}

/* Comes from 127.0.0.1 + host. */
static int come(const struct sockaddr_in *to, uint32_t host)
{
    struct sockaddr_in from = at(INADDR_LOOPBACK + host, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
    return fd;
}

static void step(struct mn_arrivals *a, int fd)
{
    mn_arrivals_step(a, &fd, 1, PATIENCE_MS, judge, &all_are);
}

static int is_closed(int fd)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

static void files(rlim_t limit)
{
    struct rlimit now;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    now.rlim_cur = limit < now.rlim_max ? limit : now.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static int begin(struct mn_arrivals *a, struct sockaddr_in *here)
{
    all_are = MN_ARRIVAL_WAITS;
    judged = n_taken = warnings = 0;
    files(1024);
    mn_arrivals_open(a);
    return listen_here(here);
}

static void one_address_cannot_push_out_another(void **state)
{
    struct sockaddr_in here;
    struct mn_arrivals a;
    int many[STRANGERS], fd = begin(&a, &here), honest = come(&here, 5);

    (void)state;
    step(&a, fd);
    for (int i = 0; i < STRANGERS; i++)
        many[i] = come(&here, 1);
    step(&a, fd);
    assert_int_equal(a.n, MN_MAX_WAITING);
    assert_false(is_closed(honest));
    int closed = 0;
    for (int i = 0; i < STRANGERS; i++)
        closed += is_closed(many[i]);
    assert_int_equal(closed, STRANGERS + 1 - MN_MAX_WAITING);
    assert_int_equal(send(honest, "p", 1, 0), 1);
    step(&a, fd);
    assert_int_equal(n_taken, 1);
    close(taken[0]);
    mn_arrivals_close(&a);
    for (int i = 0; i < STRANGERS; i++)
        close(many[i]);
    close(honest);
    close(fd);
}

static void who_has_just_come_is_spared(void **state)
{
    struct sockaddr_in here;
    struct mn_arrivals a;
    int old[MN_MAX_WAITING], young[MN_MAX_WAITING / 2], fd = begin(&a, &here);

    (void)state;
    for (int i = 0; i < MN_MAX_WAITING; i++)
        old[i] = come(&here, 1);
    step(&a, fd);
    for (int i = 0; i < a.n; i++)
        a.waiting[i].came_ms -= 1000;
    for (int i = 0; i < MN_MAX_WAITING / 2; i++)
        young[i] = come(&here, 1);
    step(&a, fd);
    assert_int_equal(a.n, MN_MAX_WAITING);
    for (int i = 0; i < MN_MAX_WAITING / 2; i++)
        assert_false(is_closed(young[i]));
    mn_arrivals_close(&a);
    for (int i = 0; i < MN_MAX_WAITING; i++)
        close(old[i]);
    for (int i = 0; i < MN_MAX_WAITING / 2; i++)
        close(young[i]);
    close(fd);
}

/* An eighth of 1024 descriptors for ten listeners. */
static void listeners_share_what_the_process_has(void **state)
{
    enum { LISTENERS = 10 };
    struct sockaddr_in here;
    struct mn_arrivals a, others[LISTENERS - 1];
    int many[STRANGERS], fd = begin(&a, &here);

    (void)state;
    for (int i = 0; i < LISTENERS - 1; i++)
        mn_arrivals_open(&others[i]);
    for (int i = 0; i < STRANGERS; i++)
        many[i] = come(&here, 1);
    step(&a, fd);
    assert_int_equal(a.n, 1024 / 8 / LISTENERS);
    for (int i = 0; i < LISTENERS - 1; i++)
        mn_arrivals_close(&others[i]);
    mn_arrivals_close(&a);
    for (int i = 0; i < STRANGERS; i++)
        close(many[i]);
    close(fd);
}

static int lowest_free(void)
{
    int fd = dup(0);

    assert_true(fd >= 0);
    close(fd);
    return fd;
}

/* Strangers are drained and the one peer among them gets in by the reserve; the next one waits, and
 * comes in when there are descriptors again. It is said once. */
static void without_descriptors_peers_wait_and_strangers_go(void **state)
{
    struct sockaddr_in here;
    struct mn_arrivals a;
    int many[STRANGERS], fd = begin(&a, &here), fill[64], n_fill = 0;

    (void)state;
    all_are = MN_ARRIVAL_STRANGER;
    for (int i = 0; i < STRANGERS; i++) {
        many[i] = come(&here, 1);
        if (i == STRANGERS / 2 || i == STRANGERS - 1)
            assert_int_equal(send(many[i], "p", 1, 0), 1);
    }
    files((rlim_t)lowest_free());
    while (n_fill < 64 && (fill[n_fill] = dup(0)) >= 0)
        n_fill++;
    for (int i = 0; i < 3; i++)
        step(&a, fd);
    assert_int_equal(n_taken, 1);
    assert_int_equal(warnings, 1);
    int drained = 0;
    for (int i = 0; i < STRANGERS; i++)
        drained += is_closed(many[i]);
    assert_int_equal(drained, STRANGERS / 2);
    int before = judged;
    step(&a, fd);
    assert_int_equal(judged, before);

    files(1024);
    step(&a, fd);
    assert_int_equal(n_taken, 2);
    assert_int_equal(warnings, 1);
    for (int i = 0; i < n_fill; i++)
        close(fill[i]);
    for (int i = 0; i < n_taken; i++)
        close(taken[i]);
    mn_arrivals_close(&a);
    for (int i = 0; i < STRANGERS; i++)
        close(many[i]);
    close(fd);
}

/* One who has said half of it makes room: of an address with several first. */
static void without_descriptors_who_makes_room_is_drawn_fairly(void **state)
{
    struct sockaddr_in here;
    struct mn_arrivals a;
    int many[5], fd = begin(&a, &here), fill[64], n_fill = 0;

    (void)state;
    all_are = MN_ARRIVAL_WAITS;
    many[0] = come(&here, 1);
    for (int i = 1; i < 4; i++)
        many[i] = come(&here, 2);
    step(&a, fd);
    assert_int_equal(a.n, 4);
    usleep(400000); /* as who has just come, all would be spared alike */
    many[4] = come(&here, 3);
    files((rlim_t)lowest_free());
    while (n_fill < 64 && (fill[n_fill] = dup(0)) >= 0)
        n_fill++;
    step(&a, fd);
    assert_int_equal(warnings, 1);
    assert_false(is_closed(many[0]));
    assert_int_equal(is_closed(many[1]) + is_closed(many[2]) + is_closed(many[3]), 1);
    files(1024);
    for (int i = 0; i < n_fill; i++)
        close(fill[i]);
    mn_arrivals_close(&a);
    for (int i = 0; i < 5; i++)
        close(many[i]);
    close(fd);
}

/* What is said of it is said once a minute in a process. */
static int run_apart(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_descriptors_who_makes_room_is_drawn_fairly),
    };
    int status = 1;
    pid_t child = fork();

    if (child == 0)
        exit(cmocka_run_group_tests(tests, NULL, NULL));
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_address_cannot_push_out_another),
        cmocka_unit_test(who_has_just_come_is_spared),
        cmocka_unit_test(listeners_share_what_the_process_has),
        cmocka_unit_test(without_descriptors_peers_wait_and_strangers_go),
    };

    mn_log_set_sink(count_warning);
    int failed = run_apart();
    return cmocka_run_group_tests(tests, NULL, NULL) + failed;
}
