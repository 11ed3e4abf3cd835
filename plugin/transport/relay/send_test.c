/* What the sending end makes of what it is asked for, with a data connection that counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "plugin/transport/relay/flow.h"
#include "topo/base/alloc.h"

#define PAIR       7
#define SILENCE_MS 50

static struct mn_request request;
static unsigned headers, payloads;

static enum mn_err count_isend(struct mn_comm *comm, void *data, size_t size, int tag,
                               void *mhandle, struct mn_request **out)
{
    (void)comm, (void)data, (void)size, (void)mhandle;
    headers += tag == MN_TAG_HEAD;
    payloads += tag == MN_TAG_PAYLOAD;
    *out = &request;
    return MN_OK;
}

static enum mn_err never_done(struct mn_request *r, int *done, int *sizes)
{
    (void)r, (void)sizes;
    *done = 0;
    return MN_OK;
}

static const struct mn_transport counting = {.isend = count_isend, .test = never_done};
static struct mn_comm data = {.ops = &counting, .is_send = 1};
static struct mn_relay_own own;
static struct mn_config config = {.relay = &own, .settings.silence_ms = SILENCE_MS};
static struct relay_comm *comm;
static uint8_t heads[RELAY_POSTED][MN_HEAD_SIZE], bytes[1000];

static int set_up(void **state)
{
    (void)state;
    comm = mn_zalloc(sizeof *comm);
    comm->base.is_send = 1;
    comm->config = &config;
    comm->n_ways = 1;
    comm->talk.next = 1;
    comm->talk_way = -1;
    comm->ways[0].state = RELAY_IS_OPEN;
    comm->ways[0].pair = PAIR;
    comm->ways[0].hops[MN_RELAY_SMALL_ONES].comm = &data;
    comm->ways[0].hops[MN_RELAY_SMALL_ONES].heads = heads;
    comm->ways[0].hops[MN_RELAY_BULK].comm = &data;
    comm->ways[0].hops[MN_RELAY_BULK].heads = heads;
    headers = payloads = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(comm);
    return 0;
}

static void post(uint32_t group)
{
    const struct relay_word word = {.type = RELAY_GROUP,
                                    .group = group,
                                    .n = 1,
                                    .sizes = {sizeof bytes}};

    assert_int_equal(relay_send_word(comm, &word), MN_OK);
}

static enum mn_err ask(uint32_t group)
{
    const struct relay_word word = {.type = RELAY_PIECES, .pair = PAIR, .group = group, .which = 1};

    return relay_send_word(comm, &word);
}

static void send_one(void)
{
    struct mn_request *r;

    assert_int_equal(relay_isend(&comm->base, bytes, sizeof bytes, 0, NULL, &r), MN_OK);
    assert_non_null(r);
}

static enum mn_err done(uint32_t group)
{
    const struct relay_word word = {.type = RELAY_DONE, .group = group};

    return relay_send_word(comm, &word);
}

static void what_is_asked_for_is_sent_once(void **state)
{
    (void)state;
    post(0);
    assert_int_equal(ask(0), MN_OK);
    relay_send_advance(comm);
    assert_int_equal(headers, 0); /* nobody has sent it yet */
    send_one();
    relay_send_advance(comm);
    assert_int_equal(headers, 1);
    assert_int_equal(payloads, 1);
    assert_int_equal(done(0), MN_OK);
    assert_int_equal(done(0), MN_ERR_PROTO);
}

/* On this way the receiver has given it up, which is not said yet, and got it over another. */
static void what_has_come_over_another_way_is_not_sent(void **state)
{
    (void)state;
    post(0);
    send_one();
    assert_int_equal(ask(0), MN_OK);
    assert_int_equal(done(0), MN_OK);
    relay_send_advance(comm);
    assert_int_equal(relay_error(comm), MN_OK);
    assert_int_equal(headers, 0);
}

/* … so long ago that its place is another receive's. */
static void a_place_that_is_anothers_is_not_sent(void **state)
{
    struct relay_hop *hop = &comm->ways[0].hops[MN_RELAY_SMALL_ONES];
    uint32_t run_tail;

    (void)state;
    for (uint32_t i = 0; i < RELAY_GROUPS; i++) {
        post(i);
        send_one();
        if (!i)
            assert_int_equal(ask(0), MN_OK);
        assert_int_equal(done(i), MN_OK);
        comm->sends[i].used = 0; /* as test() does */
    }
    post(RELAY_GROUPS);
    send_one();
    run_tail = hop->run_tail;
    relay_send_advance(comm);
    assert_int_equal(headers, 0);
    assert_int_equal(hop->run_head, run_tail);
    assert_int_equal(ask(RELAY_GROUPS), MN_OK);
    relay_send_advance(comm);
    assert_int_equal(headers, 1);
}

static void what_there_is_not_is_refused(void **state)
{
    struct relay_word word = {.type = RELAY_PIECES, .pair = PAIR, .which = 1};

    (void)state;
    assert_int_equal(ask(0), MN_ERR_PROTO); /* no such receive */
    assert_int_equal(done(0), MN_ERR_PROTO);
    post(0);
    word.slot = 1;
    assert_int_equal(relay_send_word(comm, &word), MN_ERR_PROTO);
    word.slot = 0;
    word.first = 1; /* of a small one there is one piece */
    assert_int_equal(relay_send_word(comm, &word), MN_ERR_PROTO);
    word.first = 0;
    word.way = 1;
    assert_int_equal(relay_send_word(comm, &word), MN_ERR_PROTO);
    word.way = 0;
    word.pair = PAIR + 1; /* of another turn: ignored */
    assert_int_equal(relay_send_word(comm, &word), MN_OK);
    assert_int_equal(done(0), MN_ERR_PROTO); /* nothing was sent */
    for (int i = 0; i < RELAY_POSTED; i++)
        assert_int_equal(ask(0), MN_OK);
    assert_int_equal(ask(0), MN_ERR_PROTO); /* more than it can have posted */
    word = (struct relay_word){.type = RELAY_GROUP, .group = 2, .n = 1};
    assert_int_equal(relay_send_word(comm, &word), MN_ERR_PROTO); /* not the next one */
}

static void comes_and_goes(void)
{
    struct relay_way *way = &comm->ways[0];

    relay_way_gone(comm, way, MN_GONE_RELAY, 0, "has taken nothing");
    way->state = RELAY_IS_OPEN;
    way->pair = PAIR;
}

static void wait_as_long(void)
{
    usleep((SILENCE_MS + 10) * 1000);
}

static void ways_that_only_open_are_none(void **state)
{
    (void)state;
    for (uint32_t group = 0; group < 2; group++) {
        post(group);
        send_one();
    }
    comes_and_goes();
    comes_and_goes();
    assert_int_equal(done(0), MN_OK); /* something has come */
    wait_as_long();
    assert_int_equal(relay_look_hopeless(comm), MN_OK);
    comes_and_goes();
    wait_as_long();
    assert_int_equal(relay_look_hopeless(comm), MN_OK); /* it happens */
    comes_and_goes();
    assert_int_equal(relay_look_hopeless(comm), MN_ERR_LINK_DEAD);
}

/* Who asks for more than can be posted has had some. */
static void pieces_of_one_long_message_come(void **state)
{
    const struct relay_word group = {.type = RELAY_GROUP, .n = 1, .sizes = {64 * MN_RELAY_PIECE}},
                            most = {.type = RELAY_PIECES,
                                    .pair = PAIR,
                                    .which = (1ull << RELAY_POSTED) - 1},
                            one = {.type = RELAY_PIECES,
                                   .pair = PAIR,
                                   .first = RELAY_POSTED,
                                   .which = 1};

    (void)state;
    assert_int_equal(relay_send_word(comm, &group), MN_OK);
    send_one();
    comes_and_goes();
    comes_and_goes();
    wait_as_long();
    assert_int_equal(relay_send_word(comm, &most), MN_OK);
    assert_int_equal(relay_send_word(comm, &one), MN_OK);
    assert_int_equal(relay_look_hopeless(comm), MN_OK);
    comes_and_goes();
    assert_int_equal(relay_send_word(comm, &most), MN_OK);
    comes_and_goes();
    assert_int_equal(relay_send_word(comm, &most), MN_OK);
    wait_as_long();
    assert_int_equal(relay_look_hopeless(comm), MN_ERR_LINK_DEAD);
}

/* Of a receiver that posts nothing nothing is expected. */
static void who_has_nothing_to_send_waits(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        comes_and_goes();
    wait_as_long();
    post(0);
    send_one();
    assert_int_equal(relay_look_hopeless(comm), MN_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_asked_for_is_sent_once),
        TEST(what_has_come_over_another_way_is_not_sent),
        TEST(a_place_that_is_anothers_is_not_sent),
        TEST(what_there_is_not_is_refused),
        TEST(ways_that_only_open_are_none),
        TEST(pieces_of_one_long_message_come),
        TEST(who_has_nothing_to_send_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
