/* Links that go and come back under traffic: both ends in one thread, on the libibverbs double. */
#include "plugin/transport/verbs/recover_kit.h"

static void everything_arrives_without_a_fault(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 3, 2, 4000, 1);
    assert_int_equal(kit_move(&kit, 300), MN_OK);
    assert_int_equal(kit_count("\n"), 0);
    kit_close(&kit);
}

/* A window of eight is what a sender has where the round trip takes as long as eight messages. */
static void few_buffers_are_announced_at_once(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 4000, 12);
    kit.messages = KIT_WINDOW;
    uint32_t before = kit_receiver(&kit)->seq_announced;
    for (unsigned i = 1; i <= KIT_WINDOW; i++) {
        assert_int_equal(kit_post_recv(&kit), MN_OK);
        assert_int_equal(kit_receiver(&kit)->seq_announced, before + i);
    }
    assert_int_equal(kit_move(&kit, KIT_WINDOW), MN_OK);
    kit_close(&kit);
}

static void a_link_goes_and_comes_back(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 4000, 2);
    assert_int_equal(kit_move(&kit, 50), MN_OK);
    for (int i = 0; i < 40; i++)
        assert_int_equal((kit.messages = 1000, kit_step(&kit)), MN_OK);
    kit_set("link=fv1:down");
    assert_int_equal(kit_move(&kit, 200), MN_OK);
    assert_int_equal(kit_count("is given up: "), 2);
    kit_set("link=fv1:up");
    unsigned n = 200;
    while (kit_count("is back after") < 2)
        assert_int_equal(kit_move(&kit, n += 10), MN_OK);
    assert_int_equal(kit_move(&kit, n + 100), MN_OK);
    assert_int_equal(kit_count("\n"), 5);
    kit_close(&kit);
}

/* No event tells: one way or both, without the peer's knowledge. */
static void silence_beside_a_link_that_answers(void **state)
{
    static const char *const ways[] = {"in", "out", "both"};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct kit kit;
        char text[32];
        kit_open(&kit, 2, 1, 2000, 3 + i);
        assert_int_equal(kit_move(&kit, 40), MN_OK);
        for (int k = 0; k < 40; k++)
            assert_int_equal((kit.messages = 1000, kit_step(&kit)), MN_OK);
        snprintf(text, sizeof text, "lost=fv1:%s", ways[i]);
        kit_set(text);
        assert_int_equal(kit_move(&kit, 200), MN_OK);
        assert_int_equal(kit_count("is given up: "), 2);
        kit_set("lost=fv1:none");
        unsigned n = 200;
        while (kit_count("is back after") < 2)
            assert_int_equal(kit_move(&kit, n += 10), MN_OK);
        assert_int_equal(kit_move(&kit, n + 100), MN_OK);
        kit_close(&kit);
    }
}

/* The kernel may wait for what is in a dead NIC's queue: not while messages go on. */
static void queue_pairs_of_a_dead_link_end_when_it_returns(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 2000, 7);
    assert_int_equal(kit_move(&kit, 50), MN_OK);
    uint64_t before = kit_counter("destroy");
    kit_set("link=fv1:down");
    unsigned n = 50;
    while (kit_count("is given up: ") < 2)
        assert_int_equal(kit_move(&kit, n += 10), MN_OK);
    assert_int_equal(kit_move(&kit, n += 200), MN_OK);
    assert_int_equal(kit_counter("destroy"), before);
    kit_set("link=fv1:up");
    while (kit_count("is back after") < 2)
        assert_int_equal(kit_move(&kit, n += 10), MN_OK);
    assert_int_equal(kit_counter("destroy"), before + 2);
    kit_close(&kit);
}

/* What its queue has lost nobody can count: not with new queue pairs either. */
static void a_link_whose_completion_queue_failed_stays_away(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 2000, 8);
    assert_int_equal(kit_move(&kit, 50), MN_OK);
    kit_set("link=fv1:down");
    unsigned n = 50;
    while (kit_count("is given up: ") < 2)
        assert_int_equal(kit_move(&kit, n += 10), MN_OK);
    assert_int_equal(kit_move(&kit, n += 50), MN_OK);
    atomic_store(&kit_receiver(&kit)->links[1].watch.fatal, IBV_EVENT_CQ_ERR + 1);
    kit_set("link=fv1:up");
    while (kit_count("cannot come back: fv1 or its completion queue has failed") < 1)
        assert_int_equal(kit_move(&kit, n += 10), MN_OK);
    assert_int_equal(kit_count("is back after"), 0);
    kit_close(&kit);
}

/* One is given up, the last is waited for; then the error names peer, link and cause. */
static void all_cables_pulled_for_good(void **state)
{
    enum mn_err err = MN_OK;
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 2000, 9);
    assert_int_equal(kit_move(&kit, 50), MN_OK);
    kit_set("link=fv0:down,link=fv1:down");
    kit.messages = 100000;
    while (!err)
        err = kit_step(&kit);
    assert_int_equal(err, MN_ERR_LINK_DEAD);
    assert_true(kit_count("waiting for it, 2 s at most; check the cable") > 0);
    assert_true(kit_count("the port has been down for ") > 0);
    kit_set("link=fv0:up,link=fv1:up");
    kit_close(&kit);
}

/* As if nobody had looked for so long: a process that was stopped. */
static void look_away(struct verbs_comm *comm, unsigned ms)
{
    uint64_t *const times[] = {&comm->looked_ms, &comm->alone_ms, &comm->alone_seen_ms,
                               &comm->mute_ms};

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (*times[i])
            *times[i] -= ms;
    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        if (link->outage.told_ms)
            link->outage.told_ms -= ms;
        if (atomic_load(&link->watch.port_down))
            atomic_fetch_sub(&link->watch.port_down, ms);
    }
}

/* What is seen first after a minute is that a cable is still out, though it is not. */
static void go_on_after_a_minute(struct kit *kit)
{
    look_away(kit_sender(kit), 60000);
    look_away(kit_receiver(kit), 60000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(kit_step(kit), MN_OK);
    kit_set("link=fv0:up,link=fv1:up,lost=fv0:none");
    assert_int_equal(kit_move(kit, kit->n_sends + 100), MN_OK);
    kit_close(kit);
}

/* The peer's word is read after the time that a look began with. */
static void an_end_that_begins_during_a_look_is_no_stall(void **state)
{
    struct verbs_recovery r = {.carried = 1, .since_ms = 1001};

    (void)state;
    verbs_count_stall(&r, 1000);
    assert_int_equal(r.stall_ms, 0);
    r.carried = 1;
    verbs_count_stall(&r, 1008);
    assert_int_equal(r.stall_ms, 7);
    assert_int_equal(r.stats.stall_ms, 7);
}

static void who_was_stopped_has_not_waited_for_a_cable(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 1, 1, 4000, 10);
    assert_int_equal(kit_move(&kit, 50), MN_OK);
    kit_set("link=fv0:down");
    kit.messages = 100000;
    while (kit_count("waiting for it") < 2)
        assert_int_equal(kit_step(&kit), MN_OK);
    go_on_after_a_minute(&kit);
}

static void who_was_stopped_has_not_waited_for_any_link(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 2, 1, 4000, 11);
    assert_int_equal(kit_move(&kit, 50), MN_OK);
    kit_set("link=fv0:down");
    kit.messages = 100000;
    while (kit_count("is given up: ") < 2)
        assert_int_equal(kit_step(&kit), MN_OK);
    kit_set("link=fv0:up,lost=fv0:both");
    while (kit_sender(&kit)->links[0].recovery.state != VERBS_JOINING)
        assert_int_equal(kit_step(&kit), MN_OK);
    kit_set("link=fv1:down");
    while (!kit_sender(&kit)->alone_ms)
        assert_int_equal(kit_step(&kit), MN_OK);
    go_on_after_a_minute(&kit);
}

static uint64_t draw(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

/* A fault, or its end, on any link but the one that stays. */
static void disturb(uint64_t *chance, int links, int stays)
{
    static const char *const links_do[] = {"link", "link", "lost", "lost", "lost", "lost"};
    static const char *const what[] = {"down", "up", "in", "out", "both", "none"};
    static const char *const calls[] = {"create_qp", "modify_qp", "rtr"};
    int link = (int)draw(chance, (uint64_t)links), fault = (int)draw(chance, 6);
    char text[64];

    if (link == stays)
        snprintf(text, sizeof text, "fail=%s:%d", calls[fault % 3], 1 + (int)draw(chance, 6));
    else
        snprintf(text, sizeof text, "%s=fv%d:%s", links_do[fault], link, what[fault]);
    kit_set(text);
}

static void heal(int links)
{
    kit_set("fail=create_qp:0,fail=modify_qp:0,fail=rtr:0");
    for (int i = 0; i < links; i++) {
        char text[64];
        snprintf(text, sizeof text, "link=fv%d:up,lost=fv%d:none", i, i);
        kit_set(text);
    }
}

/* As after so many messages that what counts them begins anew soon. */
static void begin_at(struct kit *kit, uint32_t before)
{
    struct verbs_comm *sender = kit_sender(kit), *receiver = kit_receiver(kit);

    sender->seq = receiver->seq_next = receiver->seq_announced = receiver->seq_landed = -before;
    for (int q = 0; q < sender->n_qps; q++)
        for (int end = 0; end < 2; end++) {
            struct verbs_qp *qp = &(end ? sender : receiver)->qps[q];
            qp->posted = qp->retired = qp->seen = -before;
        }
}

static void one_scenario(uint64_t seed)
{
    uint64_t chance = seed * 77777 + 1;
    int links = 2 + (int)draw(&chance, 2), lanes = 1 + (int)draw(&chance, 2);
    int stays = (int)draw(&chance, (uint64_t)links);
    char world[256];
    struct kit kit;

    snprintf(world, sizeof world, "seed=%d,delay=%d,reorder=%d,slowcq=%d,linger=%d,portmute=%d",
             (int)seed, (int)(draw(&chance, 3) * 10), (int)draw(&chance, 2), draw(&chance, 4) == 0,
             (int)(draw(&chance, 3) * 20), draw(&chance, 3) == 0);
    kit_set(world);
    kit_open(&kit, links, lanes, 2000, seed);
    if (seed & 1)
        begin_at(&kit, 1 + (uint32_t)draw(&chance, 300));
    kit.messages = 1000000;
    for (int k = 0; k < 30; k++) {
        for (uint64_t n = draw(&chance, 300); n; n--)
            assert_int_equal(kit_step(&kit), MN_OK);
        disturb(&chance, links, stays);
        if (draw(&chance, 3) == 0) /* time for what waits for time */
            for (uint64_t until = mn_now_ms() + draw(&chance, 200); mn_now_ms() < until;)
                assert_int_equal(kit_step(&kit), MN_OK);
    }
    assert_int_equal(kit_move(&kit, kit.n_recvs > kit.n_sends ? kit.n_recvs : kit.n_sends), MN_OK);
    heal(links);
    assert_int_equal(kit_move(&kit, kit.messages + 50), MN_OK);
    assert_int_equal(kit_receiver(&kit)->due, 0);
    kit_set("link=fv0:up,seed=1,delay=0,reorder=0,slowcq=0,linger=0,portmute=0");
    kit_close(&kit);
}

/* KIT_FROM, KIT_SEEDS: which, and how many. */
static void whatever_fails_one_link_is_enough(void **state)
{
    const char *from = getenv("KIT_FROM"), *count = getenv("KIT_SEEDS");
    int first = from ? atoi(from) : 1, n = count ? atoi(count) : 8;

    (void)state;
    if (!kit_set)
        skip();
    for (int seed = first; seed < first + n; seed++) {
        print_message("seed %d\n", seed);
        one_scenario((uint64_t)seed);
    }
}

/* tests/models/failover.pml is what was proved: the code says its words and has its states. DONE is
 * the relay's. */
static void the_model_has_the_same_words_and_states(void **state)
{
    char model[32768], expected[256];
    FILE *f = fopen(SOURCE_DIR "/tests/models/failover.pml", "re");

    (void)state;
    assert_non_null(f);
    model[fread(model, 1, sizeof model - 1, f)] = 0;
    fclose(f);
    snprintf(expected, sizeof expected, "mtype:control = { %s, %s, %s, DONE, %s, %s };",
             verbs_word_names[VERBS_SYNC], verbs_word_names[VERBS_SYNC_REQUEST],
             verbs_word_names[VERBS_ANSWER], verbs_word_names[VERBS_JOIN],
             verbs_word_names[VERBS_JOINED]);
    assert_non_null(strstr(model, expected));
    snprintf(expected, sizeof expected, "mtype:pair = { %s, %s, %s, %s };",
             verbs_state_names[VERBS_UP], verbs_state_names[VERBS_FENCED],
             verbs_state_names[VERBS_DOWN], verbs_state_names[VERBS_JOINING]);
    assert_non_null(strstr(model, expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_has_the_same_words_and_states),
        cmocka_unit_test(everything_arrives_without_a_fault),
        cmocka_unit_test(few_buffers_are_announced_at_once),
        cmocka_unit_test(a_link_goes_and_comes_back),
        cmocka_unit_test(silence_beside_a_link_that_answers),
        cmocka_unit_test(queue_pairs_of_a_dead_link_end_when_it_returns),
        cmocka_unit_test(a_link_whose_completion_queue_failed_stays_away),
        cmocka_unit_test(all_cables_pulled_for_good),
        cmocka_unit_test(an_end_that_begins_during_a_look_is_no_stall),
        cmocka_unit_test(who_was_stopped_has_not_waited_for_a_cable),
        cmocka_unit_test(who_was_stopped_has_not_waited_for_any_link),
        cmocka_unit_test(whatever_fails_one_link_is_enough),
    };

    setenv("FAKEVERBS",
           "dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2,dev=fv2:lo:127.0.0.3,timeout=100000000", 1);
    kit_find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
