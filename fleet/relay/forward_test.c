/* What an end that writes where it may, and whenever it likes, can bring about: its connection is
 * played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/relay/engine.h"

#define LENGTH 1000

static struct mn_request request;
static int has_room, n_ranges, n_sent;
static struct {
    uint8_t *at;
    size_t size;
} ranges[4];
static uint8_t sent[MN_HEAD_SIZE];
static unsigned order[64]; /* groups of what was sent */

static enum mn_err reg_mr(struct mn_comm *comm, void *data, size_t size, int type, void **mhandle)
{
    (void)comm;
    (void)type;
    ranges[n_ranges].at = data;
    ranges[n_ranges].size = size;
    *mhandle = &ranges[n_ranges++];
    return MN_OK;
}

static enum mn_err irecv(struct mn_comm *comm, int n, void **data, const size_t *sizes,
                         const int *tags, void **mhandles, struct mn_request **posted)
{
    (void)comm;
    (void)n;
    (void)data;
    (void)sizes;
    (void)tags;
    (void)mhandles;
    *posted = NULL;
    return MN_OK;
}

static enum mn_err isend(struct mn_comm *comm, void *data, size_t size, int tag, void *mhandle,
                         struct mn_request **posted)
{
    (void)comm;
    (void)mhandle;
    *posted = has_room ? &request : NULL;
    if (has_room && tag == MN_TAG_HEAD && size == sizeof sent) {
        struct mn_relay_head head = {.group = 0};
        memcpy(sent, data, size);
        assert_true(mn_relay_head_get(sent, &head) && n_sent < 64);
        order[n_sent++] = head.group;
    }
    return MN_OK;
}

static enum mn_err test(struct mn_request *asked, int *done, int *sizes)
{
    (void)asked;
    *done = 1;
    sizes[0] = MN_HEAD_SIZE;
    sizes[1] = LENGTH;
    return MN_OK;
}

static const struct mn_transport played = {.name = "played",
                                           .reg_mr = reg_mr,
                                           .irecv = irecv,
                                           .isend = isend,
                                           .test = test};

static struct mn_relay relay;
static struct mn_comm comm = {.ops = &played};
static struct relayd_line lines[RELAYD_SIDES];
static struct relayd_way way;
static struct relayd_buf buf;
static struct relayd_hop in, out;

static int set_up(void **state)
{
    (void)state;
    n_ranges = n_sent = has_room = 0;
    memset(&relay, 0, sizeof relay);
    memset(lines, 0, sizeof lines);
    way = (struct relayd_way){.nodes.n = 3,
                              .at = 1,
                              .pair = 7,
                              .line = {&lines[RELAYD_PREV], &lines[RELAYD_NEXT]}};
    in = (struct relayd_hop){.relay = &relay,
                             .way = &way,
                             .state = RELAYD_HOP_HOT,
                             .is_in = 1,
                             .kind = MN_RELAY_SMALL_ONES,
                             .comm = &comm};
    out = in;
    out.is_in = 0;
    way.edge[RELAYD_PREV][MN_RELAY_SMALL_ONES] = &in;
    way.edge[RELAYD_NEXT][MN_RELAY_SMALL_ONES] = &out;
    if (mn_pool_open(8u << 20, &relay.pool, NULL) ||
        !mn_pool_take(&relay.pool, MN_RELAY_SMALL_ONES, 3, 0, &in.run) ||
        !(in.heard = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), (size_t)sysconf(_SC_PAGESIZE))))
        return 1;
    buf = (struct relayd_buf){.in = &in,
                              .request = {&request, NULL},
                              .heard = in.heard,
                              .data = mn_pool_data(&relay.pool, &in.run, 0),
                              .head = mn_pool_head(&relay.pool, &in.run, 0)};
    relayd_list_push(&in.posted, &buf);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(in.heard);
    mn_pool_close(&relay.pool);
    return 0;
}

static void who_sends_can_write_to_the_connection_s_own_memory_alone(void **state)
{
    const struct mn_pool *pool = &relay.pool;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    assert_int_equal(relayd_hop_register(&in), MN_OK);
    assert_int_equal(n_ranges, 2);
    assert_ptr_equal(ranges[0].at, in.heard);
    assert_int_equal(ranges[0].size, page);
    assert_ptr_equal(ranges[1].at, mn_pool_data(pool, &in.run, 0));
    assert_int_equal(ranges[1].size, 3 * MN_RELAY_SMALL);
    /* By pages, as RDMA does it, it is no more. */
    assert_int_equal(((uintptr_t)ranges[0].at | (uintptr_t)ranges[1].at) % page, 0);
    /* What goes out is anybody's, and headers lie where no incoming connection has access. */
    assert_int_equal(relayd_hop_register(&out), MN_OK);
    assert_int_equal(n_ranges, 4);
    assert_ptr_equal(ranges[2].at, pool->heads);
    assert_ptr_equal(ranges[3].at, pool->base);
    assert_int_equal(ranges[2].size + ranges[3].size, pool->size);
    assert_true(ranges[3].at + ranges[3].size <= ranges[2].at);
}

static void a_header_goes_on_as_it_was_checked(void **state)
{
    const struct mn_relay_head head = {.pair = 7,
                                       .kind = MN_RELAY_SMALL_ONES,
                                       .length = LENGTH,
                                       .total = LENGTH};
    uint8_t good[MN_HEAD_SIZE];
    int moved = 0;

    (void)state;
    mn_relay_head_put(&head, good);
    memcpy(buf.heard, good, sizeof good);
    assert_int_equal(relayd_receive(&in, &moved), MN_OK);
    assert_true(moved && out.current == &buf && !n_sent);
    /* It waits for room, and the end that sent it makes it one of another's. */
    memset(buf.heard, 0xee, sizeof good);
    has_room = 1;
    relayd_pump(&out);
    assert_int_equal(n_sent, 1);
    assert_memory_equal(sent, good, sizeof good);
}

/* --- order ------------------------------------------------------------------------------------ */

#define SMALL_ONES 21
#define BULK_ONES  4

static struct relayd_buf bufs[SMALL_ONES + BULK_ONES];
static uint8_t heads[SMALL_ONES + BULK_ONES][MN_HEAD_SIZE];

/* Pieces that wait for the same way, the bulk ones first. */
static void all_wait(struct relayd_hop *bulk)
{
    *bulk = out;
    bulk->kind = MN_RELAY_BULK;
    way.edge[RELAYD_NEXT][MN_RELAY_BULK] = bulk;
    for (int i = 0; i < SMALL_ONES + BULK_ONES; i++) {
        enum mn_relay_kind kind = i < BULK_ONES ? MN_RELAY_BULK : MN_RELAY_SMALL_ONES;
        bufs[i] = (struct relayd_buf){.in = &in,
                                      .way = &way,
                                      .head = heads[i],
                                      .data = heads[i],
                                      .said = {.kind = (uint8_t)kind, .length = LENGTH}};
        bufs[i].said.total = LENGTH;
        bufs[i].said.group = (uint32_t)i;
        mn_relay_head_put(&bufs[i].said, heads[i]);
        relayd_list_push(&way.waiting[kind], &bufs[i]);
    }
}

/* A bulk piece that waits is overtaken by no more than MN_RELAY_OVERTAKE small ones; each kind
 * keeps its order. */
static void small_pieces_overtake_bulk_with_a_bound(void **state)
{
    struct relayd_hop bulk;
    int small = BULK_ONES, at = 0;

    (void)state;
    all_wait(&bulk);
    relayd_pump(&out);
    assert_int_equal(n_sent, 0);
    has_room = 1;
    relayd_pump(&bulk);
    assert_int_equal(n_sent, SMALL_ONES + BULK_ONES);
    for (int large = 0; large < BULK_ONES; large++) {
        for (int i = 0; i < MN_RELAY_OVERTAKE && small < n_sent; i++)
            assert_int_equal(order[at++], small++);
        assert_int_equal(order[at++], large);
    }
    assert_int_equal(at, n_sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_sends_can_write_to_the_connection_s_own_memory_alone,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_header_goes_on_as_it_was_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_pieces_overtake_bulk_with_a_bound, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
