/* Who gets through a door, and that strangers keep nobody out. One thread plays all: the door and
 * those before it go step by step. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fleet/ctl_greet.h"
#include "fleet/door.h"

#define STRANGERS 300

static const uint8_t right[MN_KEY_SIZE] = {1, 2, 3}, wrong[MN_KEY_SIZE] = {1, 2, 4};
static int listening;
static struct sockaddr_in at;
static struct mn_door *door;
static char said[8][256];
static int n_said;
static struct rlimit limit;

static void say(int of_stranger, const char *text)
{
    if (!of_stranger && n_said < 8)
        snprintf(said[n_said++], sizeof *said, "%s", text);
}

static void open_door(int first_word)
{
    struct mn_door_plan plan = {.fds = &listening,
                                .n_fds = 1,
                                .token = {1, 2, 3},
                                .who = "guest",
                                .first_word = first_word,
                                .say = say};
    assert_int_equal(mn_door_open(&plan, &door, NULL), MN_OK);
}

static int setup(void **state)
{
    struct mn_addr addr;
    socklen_t len = sizeof at;

    (void)state;
    n_said = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 1;
    return mn_addr_parse("127.0.0.1", &addr, NULL) || mn_ctl_listen(&addr, 0, &listening, NULL) ||
           getsockname(listening, (struct sockaddr *)&at, &len);
}

static int teardown(void **state)
{
    (void)state;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    mn_door_close(door);
    door = NULL;
    close(listening);
    return 0;
}

/* Comes from 127.0.0.N, says nothing. */
static struct mn_ctl come(int n)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7f000000u + (uint32_t)n)};
    struct mn_ctl ctl = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .peer = "door"};

    assert_true(ctl.fd >= 0);
    assert_int_equal(bind(ctl.fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(ctl.fd, (struct sockaddr *)&at, sizeof at), 0);
    return ctl;
}

/* Door and guest by turns, until the guest knows. place: whether there is one. Returns what the
 * guest heard; *inside.fd >= 0: the door let somebody through. */
static enum mn_err enter(struct mn_ctl *guest, const uint8_t *token, int place,
                         struct mn_ctl *inside, struct mn_diag *diag)
{
    struct mn_ctl_greeting greeting;
    enum mn_err err = mn_ctl_greet_begin(guest, 0, &greeting, diag);

    inside->fd = -1;
    while (!err && (err = mn_ctl_greet(guest, &greeting, token, diag)) == MN_ERR_AGAIN) {
        struct pollfd p[] = {{.fd = mn_door_fd(door), .events = POLLIN},
                             {.fd = guest->fd, .events = POLLIN}};
        (void)poll(p, 2, mn_door_wait_ms(door));
        if (inside->fd < 0)
            (void)mn_door_look(door, place, inside);
        err = MN_OK;
    }
    return err;
}

static void test_who_gets_through(void **state)
{
    struct mn_ctl guest, inside;
    struct mn_diag diag = {.text = ""};

    (void)state;
    open_door(0);
    guest = come(1);
    assert_int_equal(enter(&guest, right, 1, &inside, &diag), MN_OK);
    assert_true(inside.fd >= 0);
    assert_string_equal(inside.peer, "guest 127.0.0.1");
    cJSON *m = cJSON_CreateObject();
    assert_int_equal(mn_ctl_send(&guest, m, &diag), MN_OK);
    assert_int_equal(mn_ctl_receive(&inside, 5000, &m, &diag), MN_OK);
    cJSON_Delete(m);
    mn_ctl_close(&inside);
    mn_ctl_close(&guest);

    guest = come(1);
    assert_int_equal(enter(&guest, wrong, 1, &inside, &diag), MN_ERR_AUTH);
    assert_non_null(strstr(diag.text, "token"));
    assert_int_equal(inside.fd, -1);
    mn_ctl_close(&guest);

    guest = come(1);
    assert_int_equal(enter(&guest, right, 0, &inside, &diag), MN_ERR_FAILED);
    assert_non_null(strstr(diag.text, "busy"));
    assert_int_equal(inside.fd, -1);
    mn_ctl_close(&guest);
    assert_int_equal(mn_door_guests(door), 0);
}

/* Who has nothing to say is not let through where a first word is asked for. */
static void test_a_first_word(void **state)
{
    struct mn_ctl guest, inside;
    struct mn_diag diag;

    (void)state;
    open_door(1);
    guest = come(1);
    assert_int_equal(enter(&guest, right, 1, &inside, &diag), MN_OK);
    assert_int_equal(inside.fd, -1);
    assert_int_equal(mn_door_look(door, 1, &inside), 0);
    assert_int_equal(mn_ctl_send(&guest, cJSON_CreateObject(), &diag), MN_OK);
    while (!mn_door_look(door, 1, &inside)) {
        struct pollfd p = {.fd = mn_door_fd(door), .events = POLLIN};
        (void)poll(&p, 1, mn_door_wait_ms(door));
    }
    mn_ctl_close(&inside);
    mn_ctl_close(&guest);
}

/* More than the door holds, from one address: who comes from another keeps his place before he has
 * said a word, and who comes after them all gets through. */
static void test_strangers_keep_nobody_out(void **state)
{
    struct mn_ctl strangers[STRANGERS], early = {.fd = -1}, late, inside;
    struct mn_diag diag;

    (void)state;
    open_door(0);
    early = come(1);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = come(2);
        (void)mn_door_look(door, 1, &inside);
    }
    assert_true(mn_door_guests(door) <= MN_DOOR_GUESTS);
    assert_true(mn_door_guests(door) < STRANGERS);
    late = come(3);
    assert_int_equal(enter(&late, right, 1, &inside, &diag), MN_OK);
    mn_ctl_close(&inside);
    assert_int_equal(enter(&early, right, 1, &inside, &diag), MN_OK);
    mn_ctl_close(&inside);
    mn_ctl_close(&early);
    mn_ctl_close(&late);
    for (int i = 0; i < STRANGERS; i++)
        mn_ctl_close(&strangers[i]);
}

/* Whether the door has closed it, of one who said nothing. */
static int turned_away(const struct mn_ctl *ctl)
{
    char rest[256];
    ssize_t n;

    while ((n = recv(ctl->fd, rest, sizeof rest, MSG_DONTWAIT)) > 0)
        ;
    return n == 0;
}

/* More than the door holds, each from an address of his own: the lot does not meet the last ones
 * more than others. */
static void test_the_last_may_stay(void **state)
{
    struct mn_ctl strangers[STRANGERS], inside;
    int stayed = 0;

    (void)state;
    open_door(0);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = come(1 + i);
        (void)mn_door_look(door, 1, &inside);
    }
    int room = mn_door_guests(door);
    assert_true(room < STRANGERS);
    for (int i = room; i < STRANGERS; i++)
        stayed += !turned_away(&strangers[i]);
    assert_true(stayed >= (STRANGERS - room) / 2);
    for (int i = 0; i < STRANGERS; i++)
        mn_ctl_close(&strangers[i]);
}

/* Takes all descriptors but so many. */
static int take_descriptors(int taken[64], int but, const struct mn_ctl *highest)
{
    struct rlimit few = limit;
    int n = 0;

    few.rlim_cur = (rlim_t)highest->fd + 8;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < 64 && (taken[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    assert_in_range(n, 1 + but, 63);
    while (but--)
        close(taken[--n]);
    return n;
}

/* Descriptors run out: said once, and the guest who waits meanwhile gets through afterwards. */
static void test_descriptors_run_out(void **state)
{
    struct mn_ctl guest, inside;
    struct mn_diag diag;
    int taken[64], n;

    (void)state;
    open_door(0);
    guest = come(1);
    n = take_descriptors(taken, 0, &guest);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mn_door_look(door, 1, &inside), 0);
        poll(NULL, 0, mn_door_wait_ms(door) + 20);
    }
    assert_int_equal(n_said, 1);
    assert_non_null(strstr(said[0], "ulimit -n"));
    while (n)
        close(taken[--n]);
    assert_int_equal(enter(&guest, right, 1, &inside, &diag), MN_OK);
    mn_ctl_close(&inside);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < 300 && n_said < 2 && mn_door_wait_ms(door) >= 0; i++) {
        poll(NULL, 0, mn_door_wait_ms(door));
        (void)mn_door_look(door, 1, &inside);
    }
    assert_int_equal(n_said, 2);
    assert_int_equal(mn_door_wait_ms(door), -1);
    mn_ctl_close(&guest);
}

/* One place, which each stranger takes from the one before: that is one shortage. */
static void test_strangers_fill_no_log(void **state)
{
    struct mn_ctl strangers[20], inside;
    int taken[64], n;

    (void)state;
    open_door(0);
    for (int i = 0; i < 20; i++)
        strangers[i] = come(2);
    n = take_descriptors(taken, 1, &strangers[19]);
    (void)mn_door_look(door, 1, &inside);
    assert_int_equal(mn_door_guests(door), 1);
    assert_in_range(n_said, 1, 2);
    while (n)
        close(taken[--n]);
    for (int i = 0; i < 20; i++)
        mn_ctl_close(&strangers[i]);
}

/* A child that closes the door it has by fork changes nothing for the parent's guests. */
static void test_a_child_leaves_it_alone(void **state)
{
    struct mn_ctl guest, inside;
    struct mn_diag diag;
    int status;

    (void)state;
    open_door(0);
    guest = come(1);
    (void)mn_door_look(door, 1, &inside);
    pid_t pid = fork();
    if (pid == 0) {
        mn_door_close(door);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(enter(&guest, right, 1, &inside, &diag), MN_OK);
    mn_ctl_close(&inside);
    mn_ctl_close(&guest);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_who_gets_through),          T(test_a_first_word),
        T(test_strangers_keep_nobody_out), T(test_the_last_may_stay),
        T(test_descriptors_run_out),       T(test_strangers_fill_no_log),
        T(test_a_child_leaves_it_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
