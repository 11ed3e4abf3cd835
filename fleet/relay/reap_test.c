/* Lines that are told of something and take nothing: what ends with them, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/relay/engine.h"
#include "plugin/relay/line_impl.h"

#define LINES 3

static struct mn_mesh_node nodes[4];
static struct mn_mesh mesh = {.nodes = nodes, .n_nodes = 4};
static struct mn_relay relay;
static struct relayd_line *lines[LINES]; /* of processes of node 0, 1, 2; relay's list has the last
                                            one first */
static int fds[LINES];                   /* their other ends */

static struct relayd_line *add_line(uint32_t node, int *other)
{
    struct relayd_line *line = calloc(1, sizeof *line);
    int pair[2];

    assert_non_null(line);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    *other = pair[1];
    assert_int_equal(mn_line_accept(&relay.config, 3, pair[0], &line->line, NULL), MN_OK);
    line->line->state = MN_LINE_UP;
    line->source.what = RELAYD_LINE;
    line->relay = &relay;
    line->up = 1;
    line->dialled = line->fd = -1;
    line->who = (struct mn_line_hello){.kind = MN_LINE_PROCESS, .node = node, .pid = 1};
    line->next = relay.lines;
    relay.lines = line;
    relay.n_lines++;
    return line;
}

static void add_way(uint8_t flow, struct relayd_line *prev, struct relayd_line *next)
{
    struct relayd_way *way = calloc(1, sizeof *way);

    assert_non_null(way);
    way->key.flow.id[0] = flow;
    way->nodes =
        (struct mn_relay_way){.n = 3,
                              .nodes = {(uint16_t)prev->who.node, 3, (uint16_t)next->who.node}};
    way->at = 1;
    way->pair = 1;
    way->line[RELAYD_PREV] = prev;
    way->line[RELAYD_NEXT] = next;
    way->next = relay.ways;
    relay.ways = way;
    mn_flows_add(&relay.flows, &way->key);
}

static int set_up(void **state)
{
    (void)state;
    memset(&relay, 0, sizeof relay);
    for (int i = 0; i < 4; i++)
        strcpy(nodes[i].name, "n");
    mn_settings_default(&relay.config.settings);
    relay.config.has_key = 1;
    relay.mesh = &mesh;
    relay.self = 3;
    relay.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < LINES; i++)
        lines[i] = add_line((uint32_t)i, &fds[i]);
    return relay.epoll < 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (struct relayd_line *l = relay.lines; l; l = l->next)
        relayd_line_fail(l, "the test is over");
    relayd_reap(&relay);
    for (int i = 0; i < LINES; i++)
        close(fds[i]);
    return close(relay.epoll) || relay.lines || relay.ways || relay.flows.count;
}

/* GONE frames that have come to a line's other end. */
static int told(int i)
{
    uint8_t bytes[4096];
    ssize_t len = recv(fds[i], bytes, sizeof bytes, MSG_DONTWAIT);
    int n = 0;

    for (ssize_t at = 0; at + MN_LINE_HEADER <= len;
         at += MN_LINE_HEADER + bytes[at] + 256 * bytes[at + 1])
        n += bytes[at + 2] == MN_LINE_GONE;
    return n;
}

/* Line 2 takes nothing more, which is seen when it is to be told that line 0 has ended: its other
 * flow ends as well. */
static void a_line_that_ends_while_another_is_torn_down_takes_its_ways_along(void **state)
{
    (void)state;
    add_way(1, lines[0], lines[2]);
    add_way(2, lines[1], lines[2]);
    (void)mn_line_end(lines[2]->line, MN_ERR_TIMEOUT, "is silent");
    relayd_line_fail(lines[0], "has ended");
    relayd_reap(&relay);
    assert_null(relay.ways);
    assert_int_equal(relay.flows.count, 0);
    assert_int_equal(told(1), 1);
    assert_int_equal(relay.n_lines, 1);
    assert_ptr_equal(relay.lines, lines[1]);
}

/* What it said before is heard first, and whether it has closed or was reset. */
static void a_line_whose_end_is_met_in_telling_ends_by_its_own_step(void **state)
{
    static const uint8_t frame[100];

    (void)state;
    (void)mn_line_end(lines[0]->line, MN_ERR_PEER_DEAD, "is gone");
    relayd_line_put(lines[0], MN_LINE_TALK, frame, sizeof frame);
    assert_false(lines[0]->ended);
    relayd_line_step(lines[0]);
    assert_true(lines[0]->ended);
    assert_true(lines[0]->left);
}

/* Nothing would ever wake the relay for it. epoll(7) takes no file. */
static void a_line_that_cannot_be_listened_to_ends(void **state)
{
    static const uint8_t frame[100];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd = lines[0]->line->fd;

    (void)state;
    lines[0]->line->fd = file;
    relayd_line_put(lines[0], MN_LINE_TALK, frame, sizeof frame);
    assert_true(lines[0]->ended);
    assert_false(lines[1]->ended);
    lines[0]->line->fd = fd;
    close(file);
    relayd_line_put(lines[1], MN_LINE_TALK, frame, sizeof frame);
    assert_false(lines[1]->ended);
}

/* Processes have less: there are many of them. */
static void a_line_that_does_not_read_ends_before_it_has_much_memory(void **state)
{
    static const uint8_t frame[MN_LINE_MAX];
    size_t most[2] = {0, 0};

    (void)state;
    lines[1]->who.kind = MN_LINE_RELAY;
    for (int i = 0; i < 2; i++)
        for (size_t waits = 0; !lines[i]->ended; most[i] = waits) {
            relayd_line_put(lines[i], MN_LINE_TALK, frame, sizeof frame);
            waits = mn_line_waits(lines[i]->line);
        }
    assert_in_range(most[0], RELAYD_USER_QUEUE, RELAYD_USER_QUEUE + 2 * MN_LINE_MAX);
    assert_in_range(most[1], MN_LINE_QUEUE - 2 * MN_LINE_MAX, MN_LINE_QUEUE);
    relayd_reap(&relay);
    assert_ptr_equal(relay.lines, lines[2]);
}

/* Whoever talks more than the next relay takes loses his way, and nobody else's. */
static void a_flow_that_talks_too_much_ends_before_the_line_that_it_shares(void **state)
{
    struct mn_line_talk talk = {.flow.id = {1}, .to = MN_RELAY_RECEIVER, .len = MN_TALK_MAX};
    uint8_t payload[MN_LINE_MAX];
    size_t len = mn_line_talk_put(&talk, payload);

    (void)state;
    lines[1]->who.kind = MN_LINE_RELAY;
    add_way(1, lines[0], lines[1]);
    add_way(2, lines[2], lines[1]);
    for (int i = 0; i < 10000 && relay.flows.count == 2; i++)
        relayd_frame(lines[0], MN_LINE_TALK, payload, len);
    relayd_reap(&relay);
    assert_int_equal(relay.flows.count, 1);
    assert_int_equal(relay.ways->key.flow.id[0], 2);
    assert_int_equal(relay.n_lines, LINES);
    assert_int_equal(told(0), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_line_that_cannot_be_listened_to_ends),
        TEST(a_line_whose_end_is_met_in_telling_ends_by_its_own_step),
        TEST(a_line_that_does_not_read_ends_before_it_has_much_memory),
        TEST(a_flow_that_talks_too_much_ends_before_the_line_that_it_shares),
        TEST(a_line_that_ends_while_another_is_torn_down_takes_its_ways_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
