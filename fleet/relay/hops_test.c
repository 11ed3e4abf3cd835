/* How the loop is to rest because of a data connection: what its transport says is played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fleet/relay/engine.h"

static enum mn_err says;
static unsigned armed;

static enum mn_err arm(struct mn_comm *comm)
{
    (void)comm;
    armed++;
    return says;
}

static int descriptors(struct mn_comm *comm, struct mn_wake *wakes, int max)
{
    (void)comm;
    (void)wakes;
    (void)max;
    return 0;
}

static const struct mn_transport played = {.name = "played",
                                           .kind = MN_TRANSPORT_TCP,
                                           .arm = arm,
                                           .descriptors = descriptors};

static struct mn_relay relay;
static struct mn_comm comm = {.ops = &played};
static struct relayd_hop hop;
static struct relayd_way way;

/* Turns of the loop in which nothing moves. */
static void turns(unsigned n)
{
    for (unsigned i = 0; i < n && hop.state == RELAYD_HOP_HOT; i++) {
        relay.spins = relay.naps = 0;
        relayd_hop_step(&hop);
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&relay, 0, sizeof relay);
    memset(&way, 0, sizeof way);
    hop = (struct relayd_hop){.relay = &relay,
                              .way = &way,
                              .state = RELAYD_HOP_HOT,
                              .hop = NULL,
                              .comm = &comm};
    way.edge[RELAYD_NEXT][MN_RELAY_BULK] = &hop;
    armed = 0;
    return 0;
}

/* As RDMA says while a queue pair is broken and its cable is waited for. */
static void what_cannot_be_put_to_sleep_for_long_is_no_reason_to_spin(void **state)
{
    (void)state;
    says = MN_ERR_AGAIN;
    turns(3);
    assert_true(relay.spins && !relay.naps);
    turns(1000);
    assert_true(relay.naps && !relay.spins);
    assert_int_equal(armed, 1003);
    says = MN_OK;
    turns(1);
    assert_int_equal(hop.state, RELAYD_HOP_ASLEEP);
    assert_false(relay.spins || relay.naps);
    /* It is awake again: what there was before is forgotten. */
    relayd_hop_wake(&hop);
    hop.moved_us = 0;
    says = MN_ERR_AGAIN;
    turns(3);
    assert_true(relay.spins && !relay.naps);
}

static void what_has_nothing_to_wake_it_is_looked_at_now_and_then(void **state)
{
    (void)state;
    says = MN_ERR_UNSUPPORTED;
    turns(3);
    assert_true(relay.naps && !relay.spins);
    assert_int_equal(hop.state, RELAYD_HOP_HOT);
}

/* Its way has ended before LOST_MS were over, and a hop whose cable is out still holds its buffers.
 */
static void who_is_gone_is_looked_for_no_more_when_its_way_has_ended(void **state)
{
    (void)state;
    hop.is_in = hop.busy = 1;
    hop.comm = NULL;
    relay.now_ms = 1000;
    relayd_hop_broken(&hop, MN_ERR_PEER_DEAD);
    assert_false(hop.failed);
    relayd_hop_end(&hop);
    assert_false(relayd_hop_is_idle(&hop));
    relay.now_ms = 5000;
    relayd_hop_lost(&hop);
    assert_false(hop.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_cannot_be_put_to_sleep_for_long_is_no_reason_to_spin, set_up),
        cmocka_unit_test_setup(what_has_nothing_to_wake_it_is_looked_at_now_and_then, set_up),
        cmocka_unit_test_setup(who_is_gone_is_looked_for_no_more_when_its_way_has_ended, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
