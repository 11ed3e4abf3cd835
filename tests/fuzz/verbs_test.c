/* What the fuzzer of connections over RDMA begins with: each input leads to the state or the error
 * that it is there for. */
#include "tests/fuzz/corpus_kit.h"

#include "tests/fuzz/fuzz_verbs.c"

enum { RECEIVER, SENDER };

static struct {
    uint8_t bytes[2048];
    size_t len;
} made;

static void put(uint64_t value, int bytes)
{
    assert_true(made.len + (size_t)bytes <= sizeof made.bytes);
    while (bytes--)
        made.bytes[made.len++] = (uint8_t)(value >> 8 * bytes);
}

static void begin(int sender, int failover)
{
    made.len = 0;
    put((uint64_t)(sender | failover << 1), 1);
}

static void op(enum op what, unsigned more)
{
    put(what | more << 4, 1);
}

/* Announcement ahead of the one in turn, of a group of n. */
static void announced(unsigned ahead, uint32_t size, int tag, unsigned n, unsigned parts)
{
    op(ARRIVE, 0);
    put(ahead, 1);
    put(1 | parts << 4, 1);
    put(0, 2);
    put(size, 4);
    put((uint64_t)tag, 1);
    put(n, 1);
}

static void send_one(unsigned request, size_t size, int tag)
{
    op(POST, request);
    put(size, 3);
    put((uint64_t)tag, 1);
}

/* All of a size. */
static void receive(unsigned request, unsigned n, size_t size)
{
    op(POST, request);
    put(n - 1, 1);
    for (unsigned i = 0; i < n; i++)
        put(size, 2);
}

static void written(unsigned qp, unsigned ahead, unsigned segment, unsigned segments, size_t length)
{
    op(ARRIVE, 0);
    put(1 | 2 | qp << 4, 1);
    put(ahead | segment << 4 | (segments - 1) << 7, 4);
    put(length, 4);
}

/* Until all that has come is read, which takes turns. */
static void test(unsigned request)
{
    for (int i = 0; i < 5; i++)
        op(TEST, request);
}

static void later(unsigned ms)
{
    op(LOOK, 0);
    put(ms, 2);
}

static void release_all(enum ibv_wc_status status)
{
    unsigned which = 0;

    while (a_status(which) != status)
        which++;
    op(RELEASE, which);
    put(255, 1);
}

/* Of a turn that is so far from the link's. read: now. */
static void word(enum verbs_word word, int link, int turn, const void *more, size_t n, int read)
{
    op(SAY, 0);
    put((uint64_t)((int)word | link << 3 | (turn + 1) << 4 | !read << 6), 1);
    put(n, 1);
    for (size_t i = 0; i < n; i++)
        put(((const uint8_t *)more)[i], 1);
}

static void frame(enum mn_frame type, const void *payload, size_t n)
{
    op(WRITE, 0);
    put(8 + n, 1);
    put(0x4d534631, 4);
    put(type, 1);
    put(0, 1);
    put(n, 1); /* little-endian */
    put(0, 1);
    for (size_t i = 0; i < n; i++)
        put(((const uint8_t *)payload)[i], 1);
}

static void port_is(int link, int down, int event)
{
    op(PORT, 0);
    put((uint64_t)(link | down << 1 | event << 2), 1);
}

static const uint8_t no_segment[] = {0, 2, 0, 0, 1, 0, 0, 0}, /* from VERBS_FIRST_SEQ on, one */
    queue_pairs[1 + 20 * PER_LINK] = {PER_LINK};

/* Of what was made: how the comm stands then; to be ended. */
static struct verbs_comm *lead(const char *name)
{
    corpus_is_current("verbs", name, made.bytes, made.len);
    struct verbs_comm *comm = drive(made.bytes, made.len);
    assert_non_null(comm);
    return comm;
}

static void leads_to(const char *name, enum mn_err err)
{
    struct verbs_comm *comm = lead(name);

    assert_int_equal(verbs_error(comm), err);
    end(comm);
}

/* --- the sender ------------------------------------------------------------------------------- */

static void sends_are_done(void **state)
{
    struct verbs_comm *comm;

    (void)state;
    begin(SENDER, 0);
    send_one(0, 10, 1); /* nothing is announced */
    announced(0, BUFFER, 1, 1, 4);
    send_one(0, BUFFER, 1);
    test(0);
    announced(0, 100, 1, 2, 1);
    send_one(0, 10, 1); /* half a group */
    announced(1, 100, 2, 2, 1);
    send_one(0, 10, 2);
    send_one(1, 10, 1);
    comm = lead("sends");
    assert_int_equal(comm->seq, VERBS_FIRST_SEQ + 3);
    assert_non_null(world.requests[0]);
    end(comm);
    assert_null(world.requests[0]);
    assert_null(world.requests[1]);

    begin(SENDER, 0);
    op(HOLD, 1);
    op(BURST, 0);
    put(300, 2);
    for (int i = 0; i < 4; i++) {
        release_all(IBV_WC_SUCCESS);
        op(BURST, 0);
        put(1, 2);
    }
    comm = lead("sends-many");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_int_equal(comm->waiting, 0);
    assert_int_equal(comm->seq, VERBS_FIRST_SEQ + VERBS_SLOTS);
    end(comm);
}

static void sends_fail(void **state)
{
    (void)state;
    begin(SENDER, 0);
    announced(0, 10, 1, 1, 1);
    send_one(0, 20, 1);
    leads_to("sends-too-long", MN_ERR_TOO_LONG);
    begin(SENDER, 0);
    announced(0, 2 * BUFFER, 1, 1, 1);
    send_one(0, BUFFER + 1, 1);
    leads_to("sends-outside", MN_ERR_USAGE);
    begin(SENDER, 0);
    announced(0, 10, 1, 1, 1);
    op(DEVICE, 1);
    send_one(0, 10, 1);
    leads_to("sends-refused", MN_ERR_SYS);
    begin(SENDER, 0);
    op(HOLD, 1);
    announced(0, 10, 1, 1, 1);
    send_one(0, 10, 1);
    release_all(IBV_WC_RETRY_EXC_ERR);
    test(0);
    later(1000);
    leads_to("sends-broken", MN_ERR_LINK_DEAD);
}

/* The closing peer says what has landed: a slot is used again before its completion comes. */
static void completions_of_before_are_dropped(void **state)
{
    static const uint8_t landed[] = {1, 2, 0, 0};

    (void)state;
    for (int end_of = 0; end_of < 2; end_of++) {
        begin(end_of, 1);
        op(HOLD, 1);
        if (end_of == SENDER) {
            announced(0, 10, 1, 1, 1);
            send_one(0, 10, 1);
        } else {
            receive(0, 1, 10);
        }
        op(STALE, 0);
        put(0, 1);
        op(STALE, 0);
        put(1, 1);
        test(0);
        if (end_of == SENDER) {
            frame(MN_FRAME_BYE, landed, sizeof landed);
            test(0);
            announced(0, 10, 1, 1, 1);
            send_one(0, 10, 1);
            release_all(IBV_WC_SUCCESS);
            test(0);
        }
        struct verbs_comm *comm = lead(end_of ? "sends-stale" : "receives-stale");
        assert_int_equal(comm->stale, end_of ? 3 : 2);
        end(comm);
    }
}

/* --- the receiver ----------------------------------------------------------------------------- */

static void receives_are_done(void **state)
{
    (void)state;
    begin(RECEIVER, 0);
    receive(0, 2, 200);
    written(0, 0, 0, 1, 100);
    test(0);
    written(2, 0, 0, 2, 100);
    written(3, 0, 1, 2, 50);
    test(0);
    receive(1, 1, 0);
    written(1, 0, 0, 1, 0);
    test(1);
    struct verbs_comm *comm = lead("receives");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_int_equal(comm->seq_landed, VERBS_FIRST_SEQ + 3);
    assert_null(world.requests[0]);
    assert_null(world.requests[1]);
    end(comm);
}

static void writes_that_cannot_be_are_refused(void **state)
{
    struct verbs_comm *comm;

    (void)state;
    begin(RECEIVER, 0);
    receive(0, 1, 200);
    written(0, 3, 0, 1, 10);
    test(0);
    leads_to("receives-not-open", MN_ERR_PROTO);
    begin(RECEIVER, 0);
    for (unsigned i = 0; i < 10; i++)
        receive(i, 1, 200);
    written(0, 9, 0, 1, 10); /* posted, and waits to be announced */
    test(0);
    leads_to("receives-not-announced", MN_ERR_PROTO);
    begin(RECEIVER, 0);
    receive(0, 1, 200);
    written(0, 0, 0, 2, 10);
    written(0, 0, 0, 2, 10);
    test(0);
    leads_to("receives-twice", MN_ERR_PROTO);
    begin(RECEIVER, 0);
    receive(0, 1, 200);
    written(0, 0, 0, 1, 201);
    test(0);
    leads_to("receives-too-long", MN_ERR_PROTO);
    begin(RECEIVER, 0);
    receive(0, 1, 200);
    op(ARRIVE, 0);
    put(2 | 8, 1);
    put(0, 6);
    test(0);
    leads_to("receives-no-write", MN_ERR_PROTO);
    begin(RECEIVER, 0);
    receive(0, 1, 200);
    op(ARRIVE, 0);
    put(0, 1);
    put(1u << 27, 4); /* of turn 1 */
    put(0, 2);
    test(0);
    comm = lead("receives-turn");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_int_equal(comm->stale, 1);
    end(comm);
}

/* --- links ------------------------------------------------------------------------------------ */

static void silence_is_asked_about(void **state)
{
    (void)state;
    for (int end_of = 0; end_of < 2; end_of++) {
        unsigned quiet = 16000;
        begin(end_of, 0);
        if (end_of == SENDER) {
            announced(0, 10, 1, 1, 1);
            op(HOLD, 1);
            send_one(0, 10, 1);
        } else {
            receive(0, 1, 10);
            op(HOLD, 1);
        }
        port_is(0, 1, 0);
        port_is(1, 1, 0);
        later(100);
        port_is(0, 0, 0);
        port_is(1, 0, 0);
        later(quiet / 16);
        release_all(IBV_WC_SUCCESS);
        test(0);
        later(quiet);
        later(quiet);
        release_all(IBV_WC_SUCCESS);
        if (end_of == SENDER) {
            announced(0, 10, 1, 1, 1);
            send_one(1, 10, 1);
            test(1);
        } else {
            test(0);
        }
        struct verbs_comm *comm = lead(end_of ? "sends-silence" : "receives-silence");
        assert_int_equal(verbs_error(comm), MN_OK);
        end(comm);
    }
}

/* Link 0 is given up, of which nothing has arrived, and made anew as far as the peer's word. */
static void sender_joins(void)
{
    begin(SENDER, 1);
    op(HOLD, 1);
    announced(0, BUFFER, 1, 1, 4);
    send_one(0, BUFFER, 1);
    port_is(0, 1, 0);
    later(100);
    test(0);
    word(VERBS_ANSWER, 0, 0, no_segment, sizeof no_segment, 1);
    word(VERBS_ANSWER, 0, 0, no_segment, sizeof no_segment, 1);
    op(HOLD, 0);
    release_all(IBV_WC_SUCCESS);
    test(0);
    port_is(0, 0, 0);
    later(100);
    later(60000);
    later(100);
}

static void a_senders_link_goes_and_comes_back(void **state)
{
    struct verbs_comm *comm;

    (void)state;
    sender_joins();
    word(VERBS_JOINED, 0, -1, NULL, 0, 1);
    word(VERBS_JOINED, 0, 0, queue_pairs, sizeof queue_pairs, 1);
    later(100);
    announced(0, 10, 1, 1, 1);
    send_one(1, 10, 1);
    test(1);
    later(100);
    word(VERBS_JOINED, 0, 0, queue_pairs, sizeof queue_pairs, 1);
    word(VERBS_ANSWER, 0, -1, no_segment, sizeof no_segment, 1);
    word(VERBS_SYNC_REQUEST, 0, -1, "old", 3, 1);
    comm = lead("sends-link-returns");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_null(world.requests[0]);
    assert_int_equal(comm->links[0].recovery.state, VERBS_UP);
    assert_int_equal(comm->links[0].recovery.turn, 1);
    assert_int_equal(comm->links[0].recovery.stats.back, 1);
    end(comm);

    sender_joins();
    word(VERBS_SYNC_REQUEST, 0, 0, "no\1", 3, 1);
    word(VERBS_SYNC_REQUEST, 1, 0, "nor this", 8, 1);
    comm = lead("sends-link-asked");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_int_equal(comm->links[0].recovery.state, VERBS_FENCED);
    assert_int_equal(comm->links[1].recovery.state, VERBS_FENCED);
    end(comm);

    sender_joins();
    word(VERBS_JOINED, 0, 0, queue_pairs, 3, 1);
    leads_to("sends-link-wrong", MN_ERR_PROTO);
}

static void receiver_falls(void)
{
    begin(RECEIVER, 1);
    receive(0, 2, 10);
    written(0, 0, 0, 1, 10);
    word(VERBS_SYNC, 0, 0, "the cable\1", 10, 1);
    for (int i = 0; i < PER_LINK * RECEIVES / VERBS_BATCH; i++)
        test(0);
    later(100);
    word(VERBS_SYNC, 0, 0, "the cable", 9, 1);
}

static void a_receivers_link_goes_and_comes_back(void **state)
{
    struct verbs_comm *comm;

    (void)state;
    receiver_falls();
    word(VERBS_SYNC, 0, -1, "old", 3, 1);
    word(VERBS_SYNC, 0, 1, "of one whose JOIN was lost", 26, 1);
    word(VERBS_JOIN, 0, 1, queue_pairs, sizeof queue_pairs, 1);
    later(100);
    later(100);
    word(VERBS_JOIN, 0, 0, queue_pairs, sizeof queue_pairs, 1);
    word(VERBS_JOINED, 0, 0, NULL, 0, 1);
    written(0, 0, 0, 1, 10);
    test(0);
    comm = lead("receives-link-returns");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_null(world.requests[0]);
    assert_int_equal(comm->links[0].recovery.state, VERBS_UP);
    assert_int_equal(comm->links[0].recovery.turn, 2);
    assert_int_equal(comm->links[0].recovery.stats.back, 1);
    end(comm);

    receiver_falls();
    word(VERBS_JOIN, 0, 1, queue_pairs, 3, 1);
    leads_to("receives-link-wrong", MN_ERR_PROTO);

    begin(RECEIVER, 1);
    op(HOLD, 1);
    receive(0, 2, 10);
    op(ARRIVE, 0);
    put(4 | 2 << 6, 1); /* no answer, by queue pair 0 */
    put(0, 6);
    test(0);
    later(100);
    word(VERBS_SYNC, 0, 0, "asked for", 9, 1);
    comm = lead("receives-broken");
    assert_int_equal(verbs_error(comm), MN_OK);
    assert_int_equal(comm->links[0].recovery.stats.lost, 1);
    assert_true(comm->links[0].recovery.state > VERBS_UP);
    end(comm);
}

static void words_that_do_not_fit_end_it(void **state)
{
    static const uint8_t no_link[] = {VERBS_SYNC, 7, 0, 0, 0, 0};

    (void)state;
    for (int end_of = 0; end_of < 2; end_of++) {
        begin(end_of, 1);
        frame(MN_FRAME_LINK, no_link, sizeof no_link);
        leads_to(end_of ? "word-no-link-s" : "word-no-link", MN_ERR_PROTO);
        begin(end_of, 1);
        word(VERBS_WORDS, 0, 0, NULL, 0, 1);
        leads_to(end_of ? "word-unknown-s" : "word-unknown", MN_ERR_PROTO);
    }
    begin(SENDER, 1);
    word(VERBS_SYNC, 0, 0, NULL, 0, 1);
    leads_to("word-sync", MN_ERR_PROTO);
    begin(SENDER, 1);
    word(VERBS_ANSWER, 0, 1, no_segment, sizeof no_segment, 1);
    leads_to("word-answer", MN_ERR_PROTO);
    begin(RECEIVER, 1);
    word(VERBS_SYNC_REQUEST, 0, 0, NULL, 0, 1);
    leads_to("word-request", MN_ERR_PROTO);
    begin(RECEIVER, 1);
    word(VERBS_SYNC, 0, 1, NULL, 0, 1);
    leads_to("word-ahead", MN_ERR_PROTO);
}

/* --- the control connection ------------------------------------------------------------------- */

static void a_control_connection_ends(void **state)
{
    static const uint8_t landed[] = {0, 2, 0, 0}, failed[] = {MN_ERR_TOO_LONG, 'w', 1};

    (void)state;
    begin(SENDER, 1);
    frame(MN_FRAME_BYE, landed, sizeof landed);
    op(PEER, 0);
    later(1);
    later(1000);
    leads_to("closes", MN_ERR_CLOSED);
    begin(RECEIVER, 1);
    op(PEER, 0);
    later(1);
    later(1000);
    leads_to("ends", MN_ERR_PEER_DEAD);
    begin(RECEIVER, 0);
    frame(MN_FRAME_FAILED, failed, sizeof failed);
    leads_to("gives-up", MN_ERR_TOO_LONG);
    begin(RECEIVER, 0);
    frame(MN_FRAME_HELLO, NULL, 0);
    leads_to("frame-unknown", MN_ERR_PROTO);
    begin(RECEIVER, 0);
    op(WRITE, 0);
    put(8, 1);
    put(0, 8);
    leads_to("frame-none", MN_ERR_PROTO);
}

static void a_control_connection_is_opened_again(void **state)
{
    struct verbs_comm *comm;

    (void)state;
    for (int end_of = 0; end_of < 2; end_of++) {
        begin(end_of, 1);
        op(PEER, 1);
        later(1);
        later(2000);
        op(REOPEN, 0);
        later(1);
        word(end_of ? VERBS_SYNC_REQUEST : VERBS_SYNC, 0, 0, "before", 6, 0);
        op(REOPEN, 0);
        later(1);
        comm = lead(end_of ? "reopens-s" : "reopens");
        assert_int_equal(verbs_error(comm), MN_OK);
        /* The receiver has waited long enough for what is flushed. */
        assert_int_equal(comm->links[0].recovery.state, end_of ? VERBS_FENCED : VERBS_DOWN);
        assert_true(comm->control.fd >= 0);
        end(comm);
        begin(end_of, 1);
        word(VERBS_WORDS, 0, 0, NULL, 0, 0);
        op(REOPEN, 0);
        later(1);
        leads_to(end_of ? "reopens-wrong-s" : "reopens-wrong", MN_ERR_PROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_are_done),
        cmocka_unit_test(sends_fail),
        cmocka_unit_test(completions_of_before_are_dropped),
        cmocka_unit_test(receives_are_done),
        cmocka_unit_test(writes_that_cannot_be_are_refused),
        cmocka_unit_test(silence_is_asked_about),
        cmocka_unit_test(a_senders_link_goes_and_comes_back),
        cmocka_unit_test(a_receivers_link_goes_and_comes_back),
        cmocka_unit_test(words_that_do_not_fit_end_it),
        cmocka_unit_test(a_control_connection_ends),
        cmocka_unit_test(a_control_connection_is_opened_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
