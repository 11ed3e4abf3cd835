/* One user, or one node, asks for all that a relay has: others have their part all the same, and
 * carry their bytes. */
#include "fleet/relay/engine_stream.h"

#include <sys/resource.h>

#include "fleet/relay/quota.h"

#define RELAY 1
#define MOST  256 /* senders of one user */
#define OTHER 4000000001

static struct kit_end many[MOST], s, d;

/* Senders of that user of node 0, whose receivers never come, until he is refused; returns how many
 * he has. */
static int senders_until_full(int from, uint32_t uid)
{
    int n = from;

    do {
        assert_in_range(n, 0, MOST - 1);
        kit_dial_as(&many[n], 0, RELAY, MN_LINE_PROCESS, uid);
        kit_attach_sender(&many[n], kit_frame(0, 2, 1000 + (unsigned)n));
        kit_until_answered(&many[n]);
    } while (!many[n++].gone.why);
    assert_int_equal(many[n - 1].gone.why, MN_GONE_FULL);
    kit_leave(&many[n - 1]);
    return n - 1 - from;
}

static void who_sends_to_nobody_has_not_all_buffers(void **state)
{
    (void)state;
    kit_start(RELAY);
    int first = senders_until_full(0, OTHER), n = first;
    assert_in_range(first, 4, MOST);
    /* Users of his own node, */
    kit_attach(&s, &d, 0, 2, 1);
    stream_both(&s, &d, 1, 200);
    kit_leave(&s);
    kit_leave(&d);
    int next = senders_until_full(n, OTHER + 1);
    assert_in_range(next, 1, first);
    n += next;
    /* … and of another one, when his names as many users as it likes. */
    for (uint32_t uid = OTHER + 2; (next = senders_until_full(n, uid)); uid++)
        n += next;
    kit_attach(&s, &d, 2, 0, 2);
    stream_both(&s, &d, 2, 200);
    kit_leave(&s);
    kit_leave(&d);
    for (int i = 0; i < n; i++)
        kit_leave(&many[i]);
    kit_until_figure(RELAY, "buffers", "in_use", 0);
    assert_int_equal(senders_until_full(0, OTHER), first);
    for (int i = 0; i < first; i++)
        kit_leave(&many[i]);
    kit_stop(RELAY);
}

/* --- ways ------------------------------------------------------------------------------------- */

static void put_many(struct kit_end *e, struct mn_line_attach f, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        memcpy(f.flow.id, &i, sizeof i);
        kit_put(e, &f);
        if (i % 64 == 63)
            (void)kit_step(e);
        assert_int_equal(e->gone.why, 0);
    }
    (void)kit_step(e);
}

/* A relay before it passes on what one node's processes ask for, whoever they are. */
static void one_node_has_not_all_ways_of_a_relay_in_the_middle(void **state)
{
    struct kit_end before;
    struct mn_line_attach f = kit_frame(0, 4, 0);

    (void)state;
    f.at = 2;
    kit_start(2);
    kit_start(3);
    kit_dial_as(&before, 1, 2, MN_LINE_RELAY, 0);
    put_many(&before, f, 0, MN_QUOTA_NODE_WAYS);
    kit_until_figure(2, "counts", "flows", MN_QUOTA_NODE_WAYS);
    kit_until_figure(3, "counts", "flows", MN_QUOTA_NODE_WAYS);
    assert_int_equal(before.gone.why, 0);
    put_many(&before, f, MN_QUOTA_NODE_WAYS, 1);
    kit_until_gone(&before, MN_GONE_FULL);
    if (!strstr(before.gone.text, "from one node"))
        fail_msg("%s", before.gone.text);
    before.gone.why = 0;
    kit_attach(&s, &d, 4, 1, MN_QUOTA_NODE_WAYS + 1);
    stream_both(&s, &d, MN_QUOTA_NODE_WAYS + 1, 200);
    kit_leave(&s);
    kit_leave(&d);
    kit_leave(&before);
    kit_stop(3);
    kit_stop(2);
}

/* Receivers cost no buffers: connections to them are dialled, here to nobody. */
static void one_user_has_not_all_ways(void **state)
{
    struct kit_end greedy;
    struct mn_line_attach f = kit_frame(0, 2, 0);
    struct mn_hop *hops[MN_RELAY_KINDS];
    struct rlimit files;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 4 * MN_QUOTA_USER_WAYS)
        skip();
    f.role = MN_RELAY_RECEIVER;
    kit_start(RELAY);
    kit_dial_as(&greedy, 2, RELAY, MN_LINE_PROCESS, OTHER);
    for (int k = 0; k < MN_RELAY_KINDS; k++)
        assert_int_equal(mn_hop_listen(&configs[2], configs[2].devices, mn_line_key(greedy.line),
                                       f.handles[k], &hops[k], &greedy.diag),
                         MN_OK);
    put_many(&greedy, f, 0, MN_QUOTA_USER_WAYS);
    kit_until_figure(RELAY, "counts", "flows", MN_QUOTA_USER_WAYS);
    put_many(&greedy, f, MN_QUOTA_USER_WAYS, 1);
    kit_until_gone(&greedy, MN_GONE_FULL);
    if (!strstr(greedy.gone.text, "from one user"))
        fail_msg("%s", greedy.gone.text);
    greedy.gone.why = 0;
    /* Nor does he come to ways that others have. */
    kit_dial(&s, 0, RELAY);
    kit_attach_sender(&s, kit_frame(0, 2, MN_QUOTA_USER_WAYS + 1));
    kit_until_answered(&s);
    assert_true(s.attached);
    put_many(&greedy, f, MN_QUOTA_USER_WAYS + 1, 1);
    kit_until_gone(&greedy, MN_GONE_FULL);
    (void)kit_step(&s);
    assert_int_equal(s.gone.why, 0);
    kit_leave(&s);
    kit_attach(&s, &d, 0, 2, MN_QUOTA_USER_WAYS + 2);
    /* Two thousand connections that nobody answers are looked at meanwhile, which ThreadSanitizer
     * makes dear. */
    stream_both(&s, &d, MN_QUOTA_USER_WAYS + 2, 20);
    kit_leave(&s);
    kit_leave(&d);
    for (int k = 0; k < MN_RELAY_KINDS; k++)
        mn_hop_close(hops[k]);
    kit_leave(&greedy);
    kit_stop(RELAY);
}

/* --- lines ------------------------------------------------------------------------------------ */

static struct kit_end lines[MN_QUOTA_NODE_LINES];

/* A line more of that user of node 0 is ended as soon as it is up. */
static void no_line_more(uint32_t uid)
{
    double refused = kit_figure(RELAY, "counts", "refused");
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct kit_end e;
    enum mn_err err = kit_try_as(&e, 0, RELAY, MN_LINE_PROCESS, uid);

    while (!err || err == MN_ERR_AGAIN) {
        assert_true(mn_now_ms() < end);
        kit_nap();
        err = mn_line_step(e.line, &e.diag);
    }
    kit_leave(&e);
    kit_until_figure(RELAY, "counts", "refused", refused + 1);
}

/* Of one user: engine_stranger_test. */
static void one_node_has_not_all_lines(void **state)
{
    struct rlimit files;
    int n = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 2 * MN_QUOTA_NODE_LINES + 256)
        skip();
    kit_start(RELAY);
    while (n < MN_QUOTA_NODE_LINES) {
        uint32_t uid = OTHER + (uint32_t)(n / MN_QUOTA_USER_LINES);
        kit_dial_as(&lines[n++], 0, RELAY, MN_LINE_PROCESS, uid);
    }
    no_line_more(OTHER + MN_QUOTA_NODE_LINES);
    /* Other nodes have lines, and who has left has made room. */
    kit_dial(&s, 2, RELAY);
    kit_leave(&s);
    kit_leave(&lines[--n]);
    kit_attach(&s, &d, 2, 0, 1);
    stream_both(&s, &d, 1, 20);
    kit_leave(&s);
    kit_leave(&d);
    while (n)
        kit_leave(&lines[--n]);
    kit_stop(RELAY);
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(18531);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sends_to_nobody_has_not_all_buffers),
        cmocka_unit_test(one_node_has_not_all_ways_of_a_relay_in_the_middle),
        cmocka_unit_test(one_user_has_not_all_ways),
        cmocka_unit_test(one_node_has_not_all_lines),
    };
    return cmocka_run_group_tests(tests, open_kit, close_kit);
}
