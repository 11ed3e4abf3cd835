/* What ends, is refused or breaks the rules: both ends are told, others go on, and nothing of it is
 * left in the relays. */
#include "fleet/relay/engine_stream.h"

static struct kit_end s, d, s2, d2;

static void carry(struct kit_end *from, struct kit_end *to, unsigned flow)
{
    stream_both(from, to, flow, 60);
}

static void start(int first, int last)
{
    for (int i = first; i <= last; i++)
        kit_start(i);
}

static void stop(int first, int last)
{
    for (int i = first; i <= last; i++)
        kit_stop(i);
}

static void an_end_that_leaves_is_told_to_the_other(void **state)
{
    (void)state;
    start(1, 3);
    for (int sender = 0; sender < 2; sender++) {
        kit_attach(&s, &d, 0, 4, 1);
        carry(&s, &d, 1);
        kit_leave(sender ? &s : &d);
        kit_until_gone(sender ? &d : &s, MN_GONE_ENDED);
        kit_leave(sender ? &d : &s);
    }
    stop(1, 3);
}

/* As by the system of one that gave it up, so that the other must not take it for ended. */
static void an_end_whose_line_is_reset_may_come_again(void **state)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    (void)state;
    start(1, 2);
    kit_attach(&s, &d, 0, 3, 1);
    carry(&s, &d, 1);
    assert_int_equal(setsockopt(mn_line_fd(d.line), SOL_SOCKET, SO_LINGER, &at_once,
                                sizeof at_once),
                     0);
    kit_leave(&d);
    kit_until_gone(&s, MN_GONE_LOST);
    kit_leave(&s);
    stop(1, 2);
}

/* Its trunks' buffers stay; all else is given back. */
static void nothing_is_left_of_who_has_left(void **state)
{
    (void)state;
    start(1, 1);
    for (unsigned i = 0; i < 3; i++) {
        kit_attach(&s, &d, 0, 2, 10 + i);
        kit_leave(&s);
        kit_leave(&d);
    }
    kit_until_figure(1, "buffers", "in_use", 0);
    assert_int_equal(kit_figure(1, "counts", "gone"), 3);
    stop(1, 1);
}

static void a_relay_that_ends_is_told_and_used_again_when_it_is_back(void **state)
{
    (void)state;
    start(1, 3);
    kit_attach(&s, &d, 0, 4, 1);
    carry(&s, &d, 1);
    kit_stop(2);
    kit_until_gone(&s, MN_GONE_RELAY);
    kit_until_gone(&d, MN_GONE_RELAY);
    kit_let_go(&s);
    kit_let_go(&d);
    kit_start(2);
    kit_attach_anew(&s, &d, 0, 4, 1, 2);
    carry(&s, &d, 1);
    kit_leave(&s);
    kit_leave(&d);
    stop(1, 3);
}

static void who_attaches_anew_is_another_to_the_other_end(void **state)
{
    (void)state;
    start(1, 2);
    kit_attach(&s, &d, 0, 3, 1);
    uint32_t pair = s.pair;
    struct mn_line_attach f = kit_frame(0, 3, 1);
    f.instance = 2;
    kit_dial(&s2, 0, 1);
    kit_attach_sender(&s2, f);
    kit_until_gone(&d, MN_GONE_PEER);
    kit_leave(&s);
    s = s2;
    kit_let_go(&d);
    kit_attach_receiver(&d, f);
    kit_until_open(&s, &d);
    assert_int_not_equal(s.pair, pair);
    carry(&s, &d, 1);
    kit_leave(&s);
    kit_leave(&d);
    stop(1, 2);
}

/* --- a receiver that does not read ------------------------------------------------------------ */

/* As many as the relays take, for so long. */
static void push(struct stream *t, unsigned ms)
{
    uint64_t end = mn_now_ms() + ms;

    for (t->posted = t->count; mn_now_ms() < end && !t->s->gone.why; kit_nap()) {
        (void)kit_step(t->s);
        if (!t->s->gone.why)
            stream_transmit(t);
    }
}

/* Within it the others go on, however slow they are. */
#ifdef __SANITIZE_THREAD__
#define TAKES_NOTHING_MS 8000
#else
#define TAKES_NOTHING_MS 3000
#endif

static void silence(unsigned ms)
{
    for (int i = 0; i < NODES; i++)
        configs[i].settings.relay_silence_ms = ms;
}

static void a_receiver_that_takes_nothing_loses_its_way_and_others_go_on(void **state)
{
    (void)state;
    silence(TAKES_NOTHING_MS);
    start(1, 3);
    kit_attach(&s, &d, 0, 4, 1);
    kit_attach(&s2, &d2, 0, 4, 2);
    struct stream stuck = stream_begin(&s, &d, 1, MN_RELAY_BULK, 1000);
    push(&stuck, 500);
    assert_true(stuck.finished < stuck.count);
    carry(&s2, &d2, 2);
    push(&stuck, PATIENCE_MS);
    kit_until_gone(&s, MN_GONE_PEER);
    assert_non_null(strstr(s.gone.text, "n4"));
    carry(&s2, &d2, 2);
    kit_leave(&s);
    kit_leave(&d);
    stream_end(&stuck);
    kit_leave(&s2);
    kit_leave(&d2);
    stop(1, 3);
    silence(KIT_SILENCE_MS);
}

/* Whoever has none takes one that is free: as many as there are buffers have all of them. Nobody
 * has to wait for them as long as for a silent cable. */
static void who_keeps_the_last_buffers_is_waited_for_for_less(void **state)
{
    static struct kit_end from[MN_RELAY_BUFFERS], to[MN_RELAY_BUFFERS];
    struct stream stuck[MN_RELAY_BUFFERS];
    const struct kit_end *gone = NULL;

    (void)state;
    silence(MN_RELAY_KEEPS * 2000);
    start(1, 2);
    kit_attach(&s2, &d2, 0, 3, 99);
    for (unsigned i = 0; i < MN_RELAY_BUFFERS; i++) {
        kit_attach(&from[i], &to[i], 0, 3, i + 1);
        stuck[i] = stream_begin(&from[i], &to[i], i + 1, MN_RELAY_BULK, 1000);
    }
    for (uint64_t end = mn_now_ms() + 2 * PATIENCE_MS; !gone; assert_true(mn_now_ms() < end))
        for (unsigned i = 0; i < MN_RELAY_BUFFERS && !gone; i++) {
            push(&stuck[i], 50);
            gone = from[i].gone.why ? &from[i] : NULL;
        }
    assert_int_equal(gone->gone.why, MN_GONE_PEER);
    if (!strstr(gone->gone.text, "no buffer is free"))
        fail_msg("%s", gone->gone.text);
    carry(&s2, &d2, 99);
    for (unsigned i = 0; i < MN_RELAY_BUFFERS; i++) {
        kit_leave(&from[i]);
        kit_leave(&to[i]);
        stream_end(&stuck[i]);
    }
    kit_leave(&s2);
    kit_leave(&d2);
    stop(1, 2);
    silence(KIT_SILENCE_MS);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void is_refused(int node, int relay, struct mn_line_attach f, const char *why)
{
    kit_dial(&s, node, relay);
    kit_put(&s, &f);
    kit_until_gone(&s, MN_GONE_REFUSED);
    if (!strstr(s.gone.text, why))
        fail_msg("%s", s.gone.text);
    kit_leave(&s);
}

static void what_is_no_way_of_who_comes_is_refused(void **state)
{
    struct mn_line_attach good = kit_frame(0, 3, 1), f;

    (void)state;
    start(1, 1);
    f = good;
    f.mesh++;
    is_refused(0, 1, f, "mesh file");
    f = good;
    f.nodes.nodes[2] = 3;
    f.nodes.nodes[3] = 2;
    is_refused(0, 1, f, "no such way");
    f = good;
    f.at = 2;
    is_refused(0, 1, f, "no such way");
    is_refused(2, 1, good, "another node");
    f = good;
    f.role = MN_RELAY_RECEIVER;
    is_refused(0, 1, f, "last node");
    assert_int_equal(kit_figure(1, "counts", "flows"), 0);
    assert_int_equal(kit_figure(1, "counts", "refused"), 5);
    stop(1, 1);
}

/* The flow of another, as its number is known: the nodes are not the same. */
static void a_flow_is_not_taken_over_from_elsewhere(void **state)
{
    (void)state;
    start(1, 2);
    kit_attach(&s2, &d2, 0, 3, 1);
    is_refused(0, 1, kit_frame(0, 2, 1), "another way");
    carry(&s2, &d2, 1);
    kit_leave(&s2);
    kit_leave(&d2);
    stop(1, 2);
}

static void more_than_the_buffers_is_refused_until_some_are_back(void **state)
{
    static struct kit_end many[64];
    struct mn_line_attach f;
    int n = 0;

    (void)state;
    start(1, 1);
    do {
        f = kit_frame(0, 2, (unsigned)n);
        kit_dial(&many[n], 0, 1);
        kit_attach_sender(&many[n], f);
        kit_until_answered(&many[n]);
    } while (!many[n++].gone.why && n < 64);
    assert_in_range(n, 5, 63);
    assert_int_equal(many[n - 1].gone.why, MN_GONE_FULL);
    for (int i = 0; i < n; i++)
        kit_leave(&many[i]);
    kit_until_figure(1, "buffers", "in_use", 0);
    kit_attach(&s, &d, 0, 2, 1);
    carry(&s, &d, 1);
    kit_leave(&s);
    kit_leave(&d);
    stop(1, 1);
}

/* --- pieces that break the rules -------------------------------------------------------------- */

static void send_piece(struct stream *t, const struct mn_relay_head *head, size_t length)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    memset(t->out, 1, length);
    mn_relay_head_put(head, stream_head(t->out, 0));
    for (int part = 0; part < 2; part++) {
        struct mn_comm *c = t->s->comms[t->kind];
        struct mn_request *request = NULL;
        int done = 0;
        while (!request) {
            assert_int_equal(c->ops->isend(c, part ? t->out : stream_head(t->out, 0),
                                           part ? length : MN_HEAD_SIZE, 1 + part, t->mh_out,
                                           &request),
                             MN_OK);
            assert_true(mn_now_ms() < end);
        }
        while (!done && !c->ops->test(request, &done, NULL))
            assert_true(mn_now_ms() < end);
    }
}

static void a_piece_of_an_earlier_turn_is_dropped(void **state)
{
    struct mn_relay_head head = {.kind = MN_RELAY_BULK, .length = 1000, .total = 1000};

    (void)state;
    start(1, 2);
    kit_attach(&s, &d, 0, 3, 1);
    struct stream t = stream_begin(&s, &d, 1, MN_RELAY_BULK, 1);
    head.flow = t.flow;
    head.pair = s.pair ^ 1;
    for (int i = 0; i < 50; i++)
        send_piece(&t, &head, 1000);
    stream_end(&t);
    carry(&s, &d, 1);
    kit_leave(&s);
    kit_leave(&d);
    stop(1, 2);
}

static void break_rule(struct mn_relay_head head, size_t length)
{
    kit_attach(&s, &d, 0, 3, 1);
    struct stream t = stream_begin(&s, &d, 1, MN_RELAY_BULK, 1);
    head.pair = s.pair;
    if (!head.flow.id[0])
        head.flow = t.flow;
    send_piece(&t, &head, length);
    kit_until_gone(&s, MN_GONE_REFUSED);
    kit_until_gone(&d, MN_GONE_REFUSED);
    stream_end(&t);
    kit_leave(&s);
    kit_leave(&d);
}

static void who_breaks_the_rules_is_dropped_alone(void **state)
{
    struct mn_relay_head head = {.kind = MN_RELAY_BULK, .length = 1000, .total = 1000}, h;

    (void)state;
    start(1, 2);
    kit_attach(&s2, &d2, 0, 3, 2);
    break_rule(head, 999);
    h = head;
    h.flow.id[0] = 2;
    break_rule(h, 1000);
    h = head;
    h.kind = MN_RELAY_SMALL_ONES;
    break_rule(h, 1000);
    h = head;
    h.length = MN_RELAY_PIECE + 1;
    break_rule(h, 1000);
    carry(&s2, &d2, 2);
    kit_leave(&s2);
    kit_leave(&d2);
    stop(1, 2);
}

/* --- words ------------------------------------------------------------------------------------ */

static void say(struct kit_end *from, struct kit_end *to, uint8_t role)
{
    struct mn_line_talk f = {.to = role, .len = 5, .words = "hello"};
    unsigned flow = 1;
    uint8_t payload[MN_LINE_MAX];
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    memcpy(f.flow.id, &flow, sizeof flow);
    to->talk.len = 0;
    assert_int_equal(mn_line_put(from->line, MN_LINE_TALK, payload, mn_line_talk_put(&f, payload)),
                     MN_OK);
    while (!to->talk.len) {
        (void)kit_step(from);
        (void)kit_step(to);
        assert_true(mn_now_ms() < end);
        kit_nap();
    }
    assert_memory_equal(to->talk.words, "hello", 5);
}

static void words_pass_from_end_to_end(void **state)
{
    (void)state;
    start(1, 3);
    kit_attach(&s, &d, 0, 4, 1);
    say(&s, &d, MN_RELAY_RECEIVER);
    say(&d, &s, MN_RELAY_SENDER);
    kit_leave(&s);
    kit_leave(&d);
    stop(1, 3);
}

static void who_sends_what_is_no_frame_is_gone_at_once(void **state)
{
    static const uint8_t bad[] = {1, 0, 99, 0, 9};

    (void)state;
    start(1, 1);
    kit_attach(&s, &d, 0, 2, 1);
    assert_int_equal(send(mn_line_fd(d.line), bad, sizeof bad, MSG_NOSIGNAL), sizeof bad);
    kit_until_gone(&s, MN_GONE_PEER);
    assert_non_null(strstr(s.gone.text, "no frame"));
    kit_leave(&s);
    kit_leave(&d);
    stop(1, 1);
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(18526);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_that_leaves_is_told_to_the_other),
        cmocka_unit_test(an_end_whose_line_is_reset_may_come_again),
        cmocka_unit_test(nothing_is_left_of_who_has_left),
        cmocka_unit_test(a_relay_that_ends_is_told_and_used_again_when_it_is_back),
        cmocka_unit_test(who_attaches_anew_is_another_to_the_other_end),
        cmocka_unit_test(a_receiver_that_takes_nothing_loses_its_way_and_others_go_on),
        cmocka_unit_test(who_keeps_the_last_buffers_is_waited_for_for_less),
        cmocka_unit_test(what_is_no_way_of_who_comes_is_refused),
        cmocka_unit_test(a_flow_is_not_taken_over_from_elsewhere),
        cmocka_unit_test(more_than_the_buffers_is_refused_until_some_are_back),
        cmocka_unit_test(a_piece_of_an_earlier_turn_is_dropped),
        cmocka_unit_test(who_breaks_the_rules_is_dropped_alone),
        cmocka_unit_test(who_sends_what_is_no_frame_is_gone_at_once),
        cmocka_unit_test(words_pass_from_end_to_end),
    };
    int failed = cmocka_run_group_tests(tests, open_kit, close_kit);

    (void)argc;
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
