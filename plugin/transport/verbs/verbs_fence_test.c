/* The end of a link step by step, where one end makes no call, a device loses what it acknowledged,
 * or the control connection is gone: both ends in one thread, on the libibverbs double. */
#include <sys/ioctl.h>

#include "plugin/tasks_kit.h"
#include "plugin/transport/verbs/recover_kit.h"

#define LONG  40000 /* of silence: nothing below is given up for it */
#define SHORT 2000

static void open_and_move(struct kit *kit, unsigned silence_ms, uint64_t seed)
{
    kit_open(kit, 2, 1, silence_ms, seed);
    assert_int_equal(kit_move(kit, 20), MN_OK);
}

/* With receives that nobody sends to yet. */
static void post_receives(struct kit *kit)
{
    kit->messages = kit->n_recvs + KIT_WINDOW;
    while (kit->n_recvs - kit->received < KIT_WINDOW)
        assert_int_equal(kit_post_recv(kit), MN_OK);
}

static void receiver_alone_for(struct kit *kit, unsigned ms)
{
    for (uint64_t until = mn_now_ms() + ms; mn_now_ms() < until;)
        kit_receiver_alone(kit);
}

static void sender_alone_for(struct kit *kit, unsigned ms)
{
    for (uint64_t until = mn_now_ms() + ms; mn_now_ms() < until;)
        kit_sender_alone(kit);
}

static void move_for(struct kit *kit, unsigned ms)
{
    for (uint64_t until = mn_now_ms() + ms; mn_now_ms() < until;)
        assert_int_equal((kit->messages = 1000000, kit_step(kit)), MN_OK);
}

static void finish(struct kit *kit)
{
    kit_set("lost=fv0:none,lost=fv1:none,link=fv0:up,link=fv1:up,noflush=0,delay=0");
    unsigned n = kit->n_recvs > kit->n_sends ? kit->n_recvs : kit->n_sends;
    assert_int_equal(kit_move(kit, n + 20), MN_OK);
    kit_close(kit);
}

static struct verbs_recovery *at(struct verbs_comm *comm, int link)
{
    return &comm->links[link].recovery;
}

static enum mn_err hear_sync(struct verbs_comm *comm, int link, uint32_t turn)
{
    uint8_t frame[] = {VERBS_SYNC, (uint8_t)link, (uint8_t)turn, 0, 0, 0, 'x'};

    return verbs_hear(comm, frame, sizeof frame);
}

/* A message of two parts: that of link 1 is acknowledged, that of link 0 is held up, and the
 * receiver has not looked. */
static struct verbs_send *half_acknowledged(struct kit *kit)
{
    struct verbs_comm *comm = kit_sender(kit);
    int p = 0;

    kit->size = KIT_SIZE;
    kit->messages = kit->n_recvs + 1;
    while (!verbs_cts_valid(&comm->ring[comm->seq % VERBS_RING], comm->seq))
        kit_receiver_alone(kit);
    kit_set("lost=fv0:both");
    while (kit->n_sends < kit->messages)
        kit_sender_alone(kit);
    struct verbs_send *send = (struct verbs_send *)kit->sends[(kit->n_sends - 1) % KIT_WINDOW];
    assert_int_equal(send->n_parts, 2);
    p = comm->qps[send->parts[1].qp].link == 1;
    while (send->parts[p].acked < send->parts[p].n_segments)
        kit_sender_alone(kit);
    return send;
}

/* Its receiver has it, and its sender has not looked. */
static void received_alone(struct kit *kit)
{
    struct verbs_comm *comm = kit_sender(kit);

    kit->size = 1000;
    kit->messages = kit->n_recvs + 1;
    while (!verbs_cts_valid(&comm->ring[comm->seq % VERBS_RING], comm->seq))
        kit_receiver_alone(kit);
    while (kit->n_sends < kit->messages)
        assert_int_equal(kit_post_send(kit), MN_OK);
    while (kit->received < kit->messages)
        kit_receiver_alone(kit);
}

/* --- what a device says that is not so ---------------------------------------------------------
 */

/* The peer's device acknowledged a part and failed before it said so: not yet done when its link is
 * given up, the message is not done either when its other part is. */
static void what_was_acknowledged_and_lost_is_sent_again(void **state)
{
    struct ibv_wc wc = {.opcode = IBV_WC_RDMA_WRITE};
    struct kit kit;

    (void)state;
    open_and_move(&kit, LONG, 1);
    kit_set("noflush=1");
    struct verbs_send *send = half_acknowledged(&kit);
    struct verbs_comm *receiver = kit_receiver(&kit);
    while (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        (void)ibv_poll_cq(receiver->links[1].cq, 1, &wc); /* it is lost here */
    verbs_give_up(kit_sender(&kit), 1, mn_now_ms(), "a test");
    kit_set("lost=fv0:none");
    while (send->pending)
        assert_int_equal(verbs_send_progress(kit_sender(&kit)), MN_OK);
    finish(&kit);
}

/* ... but what nobody knows of yet is not lost. */
static void what_has_arrived_is_counted_before_its_queue_pair_goes(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, LONG, 2);
    kit_set("noflush=1");
    (void)half_acknowledged(&kit);
    struct verbs_comm *receiver = kit_receiver(&kit);
    assert_int_equal(hear_sync(receiver, 1, 0), MN_OK);
    assert_int_equal(at(receiver, 1)->state, VERBS_FENCED);
    at(receiver, 1)->polls = 1000000;
    assert_int_equal(verbs_fence_step(receiver, 1, mn_now_ms() + 1000), MN_OK);
    assert_int_equal(at(receiver, 1)->state, VERBS_DOWN);
    assert_true(at(receiver, 1)->unsure);
    assert_true(receiver->slots[receiver->seq_landed % VERBS_RING].arrived);
    verbs_give_up(kit_sender(&kit), 1, mn_now_ms(), "a test");
    finish(&kit);
}

/* Of a group in turn some are done, others not even begun. */
static void a_group_in_turn_is_done_in_part(void **state)
{
    static struct verbs_send sends[VERBS_SLOTS];
    static struct verbs_comm comm;
    struct verbs_recovery r = {.turn = 0};

    (void)state;
    comm.sends = sends;
    comm.seq = 1000;
    comm.head_n = 3;
    comm.head_filled = 5; /* 1001 is to be sent … */
    sends[7].active = 1;  /* … 1002 is under way, 1000 is done */
    sends[7].cts.seq = 1002;
    verbs_note_done(&comm, &r);
    assert_int_equal(r.done_seq, 1003);
    assert_int_equal(r.done[0] & 15, 12);
}

/* The second SYNC is of a turn of which the receiver has heard nothing: not JOIN, either. */
static void an_answer_for_a_turn_that_never_was_is_sure(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, LONG, 3);
    struct verbs_comm *receiver = kit_receiver(&kit);
    assert_int_equal(hear_sync(receiver, 1, 0), MN_OK);
    post_receives(&kit);
    while (at(receiver, 1)->state != VERBS_DOWN)
        kit_receiver_alone(&kit);
    at(receiver, 1)->unsure = 1;
    assert_int_equal(hear_sync(receiver, 1, 0), MN_OK);
    assert_int_equal(at(receiver, 1)->unsure, 1);
    assert_int_equal(hear_sync(receiver, 1, 1), MN_OK);
    assert_int_equal(at(receiver, 1)->unsure, 0);
    assert_true(at(receiver, 1)->say & 1u << VERBS_ANSWER);
    kit_close(&kit);
}

/* --- an end that makes no call -----------------------------------------------------------------
 */

/* The sender's own evidence: the receiver says nothing, and the other link answers all the time. */
static void a_sender_finds_a_silent_link_itself(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 4);
    post_receives(&kit);
    kit.messages = kit.n_sends + 4;
    kit.size = KIT_SIZE;
    kit_set("lost=fv1:both");
    while (!kit_count("127.0.0.2/8 to 127.0.0.2/8): is given up: no answer for "))
        kit_sender_alone(&kit);
    assert_int_equal(kit_count("is given up: "), 1);
    finish(&kit);
}

/* As when the peer's process was stopped for a while: the first to answer accuses nobody. */
static void links_that_were_silent_together_are_not_given_up_one_by_one(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, LONG, 13);
    post_receives(&kit);
    kit.messages = kit.n_sends + 4;
    kit.size = KIT_SIZE;
    kit_set("lost=fv0:both,lost=fv1:both");
    sender_alone_for(&kit, LONG / 16 + 500);
    uint64_t heard = at(kit_sender(&kit), 0)->heard_ms;
    kit_set("lost=fv0:none");
    while (at(kit_sender(&kit), 0)->heard_ms == heard)
        kit_sender_alone(&kit);
    sender_alone_for(&kit, 200);
    kit_set("lost=fv1:none");
    finish(&kit);
    assert_int_equal(kit_count("is given up: "), 0);
}

/* Bytes that the receiver has said and the sender has not read. */
static int unread(const struct kit *kit)
{
    int bytes = 0;

    assert_int_equal(ioctl(kit->conns[1].lanes[0].fd, FIONREAD, &bytes), 0);
    return bytes;
}

static void a_sender_that_calls_nothing_is_asked_once(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 5);
    post_receives(&kit);
    kit_set("lost=fv1:both");
    while (!unread(&kit))
        kit_receiver_alone(&kit);
    int bytes = unread(&kit);
    receiver_alone_for(&kit, 300);
    assert_int_equal(unread(&kit), bytes);
    finish(&kit);
}

/* ... though the queue pair has failed, whose receive requests come back. */
static void a_queue_pair_that_failed_gets_no_more_requests(void **state)
{
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 6);
    post_receives(&kit);
    struct verbs_comm *receiver = kit_receiver(&kit);
    kit_set("delay=20000"); /* some long after the first */
    assert_int_equal(receiver->links[1].device->ibv->modify_qp(receiver->qps[1].qp, &to,
                                                               IBV_QP_STATE),
                     0);
    while (!unread(&kit))
        kit_receiver_alone(&kit);
    int bytes = unread(&kit);
    while (receiver->qps[1].consumed < receiver->rq_depth)
        kit_receiver_alone(&kit);
    receiver_alone_for(&kit, 50);
    assert_int_equal(receiver->qps[1].consumed, receiver->rq_depth);
    assert_int_equal(unread(&kit), bytes);
    finish(&kit);
}

/* All links fail before the sender has given the first up: it is waited for as long as it takes. */
static void a_receiver_whose_links_all_fail_waits_for_its_sender(void **state)
{
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 7);
    post_receives(&kit);
    struct verbs_comm *receiver = kit_receiver(&kit);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(receiver->links[i].device->ibv->modify_qp(receiver->qps[i].qp, &to,
                                                                   IBV_QP_STATE),
                         0);
        receiver_alone_for(&kit, 400);
    }
    receiver_alone_for(&kit, SHORT + 500);
    finish(&kit);
}

/* All of a device's failures may be read before the next look at links. */
static void links_that_fail_at_one_look_wait_for_each_other(void **state)
{
    struct kit kit;

    (void)state;
    for (int end_of = 0; end_of < 2; end_of++) {
        open_and_move(&kit, SHORT, 18);
        struct verbs_comm *comm = end_of ? kit_sender(&kit) : kit_receiver(&kit);
        for (int i = 0; i < 2; i++) {
            at(comm, i)->broken = 1;
            strcpy(at(comm, i)->cause, "a test");
            verbs_set_away(comm, i, 1);
            assert_true(verbs_quiet(comm, i));
        }
        assert_int_equal(verbs_recover(comm, mn_now_ms()), MN_OK);
        assert_int_equal(comm->broken_ms, 0);
        finish(&kit);
    }
}

/* One cable was out and is back, which its sender, who is not called, has not read; the next is. */
static void a_port_that_is_down_for_long_waits_for_a_sender_that_is_not_called(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 19);
    post_receives(&kit);
    struct verbs_comm *receiver = kit_receiver(&kit);
    verbs_give_up(receiver, 1, mn_now_ms(), "a test");
    kit_set("link=fv0:down");
    receiver_alone_for(&kit, 2 * SHORT + 1000);
    assert_true(at(receiver, 0)->asked);
    kit_set("link=fv0:up");
    finish(&kit);
}

static void a_sender_whose_links_all_fail_waits_for_its_receiver(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 8);
    post_receives(&kit);
    kit.messages = kit.n_sends + 4;
    while (kit.n_sends < kit.messages)
        assert_int_equal(kit_post_send(&kit), MN_OK);
    for (int i = 0; i < 2; i++)
        verbs_give_up(kit_sender(&kit), i, mn_now_ms(), "a test");
    for (uint64_t until = mn_now_ms() + SHORT + 500; mn_now_ms() < until;)
        kit_sender_alone(&kit);
    finish(&kit);
}

/* Both make calls, the ports are up, and nothing comes through: every attempt asks the peer, whose
 * answers do not make it last longer. */
static void links_that_are_all_dead_are_waited_for_no_longer(void **state)
{
    static struct mn_config patient; /* the receiver's, so that the sender says what it finds */
    enum mn_err err = MN_OK;
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 17);
    patient = kit.config;
    patient.settings.rdma_silence_ms = LONG;
    kit_receiver(&kit)->config = &patient;
    kit_set("lost=fv0:both,lost=fv1:both");
    for (int i = 0; i < 2; i++)
        verbs_give_up(kit_sender(&kit), i, mn_now_ms(), "a test");
    kit.messages = 1000000;
    while (!err)
        err = kit_step(&kit);
    assert_int_equal(err, MN_ERR_LINK_DEAD);
    assert_true(kit_count("no link has been left for 2 s; check the cables") > 0);
    kit_set("lost=fv0:none,lost=fv1:none");
    while (atomic_load(&kit_receiver(&kit)->job_state) == JOB_RUNNING)
        usleep(100);
    kit_receiver(&kit)->config = &kit.config;
    kit_close(&kit);
}

/* The receiver's queue pairs are ready before the sender's are: what it sent would be lost, and
 * said to be silence. */
static void a_link_that_joins_is_not_probed_by_the_receiver(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 9);
    struct verbs_comm *sender = kit_sender(&kit), *receiver = kit_receiver(&kit);
    verbs_give_up(sender, 1, mn_now_ms(), "a test");
    while (at(sender, 1)->state != VERBS_JOINING || at(sender, 1)->step != VERBS_ASKS ||
           at(sender, 1)->say)
        assert_int_equal((kit.messages = 1000000, kit_step(&kit)), MN_OK);
    post_receives(&kit);
    while (!at(receiver, 1)->early)
        kit_receiver_alone(&kit);
    uint32_t posted = receiver->qps[1].posted;
    receiver_alone_for(&kit, 300);
    assert_int_equal(receiver->qps[1].posted, posted);
    assert_true(at(receiver, 1)->early && !at(receiver, 1)->asked);
    while (kit_count("is back after") < 2)
        assert_int_equal((kit.messages = 1000000, kit_step(&kit)), MN_OK);
    finish(&kit);
}

static int link_of_last(const struct kit *kit)
{
    const struct verbs_send *send =
        (const struct verbs_send *)kit->sends[(kit->n_sends - 1) % KIT_WINDOW];

    return kit_sender(kit)->qps[send->parts[0].qp].link;
}

/* Its owner has all, and waits elsewhere: so would the sender, for good. Twice: the link has come
 * back without a call of his, too, and what is said of it is behind more than one look reads. */
static void a_receiver_that_is_not_called_is_stood_in_for(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 20);
    struct verbs_comm *sender = kit_sender(&kit), *receiver = kit_receiver(&kit);
    for (unsigned round = 0; round < 2; round++) {
        received_alone(&kit);
        for (unsigned i = 0; i < 8 * round; i++) {
            verbs_say_again(sender);
            verbs_say(sender);
        }
        verbs_give_up(sender, link_of_last(&kit), mn_now_ms(), "a test");
        sender_alone_for(&kit, 300);
        assert_int_equal(kit.n_sends - kit.sent, 1);
        verbs_attend_join(receiver);
        assert_true(receiver->attended.joined);
        while (kit.sent < kit.n_sends)
            kit_sender_alone(&kit);
        while (kit_count("is back after") < 2 * (round + 1))
            assert_int_equal(verbs_send_progress(sender), MN_OK);
        verbs_attend_leave(receiver);
    }
    finish(&kit);
}

/* The announcements went into a cable that is out; the look that hears of it has to write them over
 * the other one. */
static void who_stands_in_announces_anew(void **state)
{
    (void)state;
    for (int link = 0; link < 2; link++) {
        struct kit kit;
        open_and_move(&kit, SHORT, 30 + link);
        uint64_t until = mn_now_ms() + 20000;
        kit_set(link ? "lost=fv1:both" : "lost=fv0:both");
        post_receives(&kit);
        verbs_give_up(kit_sender(&kit), link, mn_now_ms(), "a test");
        verbs_attend_join(kit_receiver(&kit));
        while (kit.n_sends < kit.n_recvs || kit.sent < kit.n_sends) {
            kit_sender_alone(&kit);
            assert_true(mn_now_ms() < until);
        }
        verbs_attend_leave(kit_receiver(&kit));
        kit_set(link ? "lost=fv1:none" : "lost=fv0:none");
        finish(&kit);
    }
}

/* ... but the end of the connection is his to find, after what came before it. */
static void who_stands_in_does_not_end_a_connection(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 21);
    struct verbs_comm *receiver = kit_receiver(&kit);
    kit.size = 1000;
    post_receives(&kit);
    while (kit.n_sends < kit.n_recvs || kit.sent < kit.n_sends)
        kit_sender_alone(&kit);
    verbs_attend_join(receiver);
    assert_int_equal(shutdown(kit_sender(&kit)->control.fd, SHUT_WR), 0);
    usleep(300000);
    verbs_attend_leave(receiver);
    assert_int_equal(receiver->ended_ms, 0);
    while (kit.received < kit.n_recvs)
        kit_receiver_alone(&kit);
    assert_int_equal(verbs_error(receiver), MN_OK);
    kit_close(&kit);
}

/* --- coming back -------------------------------------------------------------------------------
 */

/* Until the sender's new queue pair is ready, and the sender has not looked. */
static void join(struct kit *kit, struct verbs_comm *sender)
{
    kit_set("drop_rtr=20");
    while (sender->job_link != 1 || at(sender, 1)->step != VERBS_CONNECTS)
        assert_int_equal((kit->messages = 1000000, kit_step(kit)), MN_OK);
    kit_set("drop_rtr=0");
    while (atomic_load(&sender->job_state) == JOB_RUNNING)
        usleep(100);
}

/* The first request to the new queue pair is refused: with another link, and with none. */
static void a_probe_that_is_refused_is_no_answer(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct kit kit;
        open_and_move(&kit, SHORT, 10);
        struct verbs_comm *sender = kit_sender(&kit);
        verbs_give_up(sender, 1, mn_now_ms(), "a test");
        join(&kit, sender);
        if (alone)
            verbs_give_up(sender, 0, mn_now_ms(), "a test");
        kit_set("fail=post_send:1");
        assert_int_equal(verbs_rejoin(sender, mn_now_ms()), MN_OK);
        assert_int_equal(verbs_error(sender), MN_OK);
        assert_int_equal(at(sender, 1)->state, VERBS_JOINING);
        assert_true(at(sender, 1)->away);
        assert_int_equal(kit_count("is back after"), 0);
        finish(&kit);
    }
}

/* Where all links were away, nothing else would send it. */
static void what_waited_for_a_link_is_sent_when_it_is_back(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, LONG, 11);
    struct verbs_comm *sender = kit_sender(&kit);
    post_receives(&kit);
    kit_set("lost=fv0:both,lost=fv1:both");
    kit.messages = kit.n_sends + KIT_WINDOW;
    while (kit.n_sends < kit.messages)
        kit_sender_alone(&kit);
    for (int i = 0; i < 2; i++)
        verbs_give_up(sender, i, mn_now_ms(), "a test");
    while (at(sender, 0)->state != VERBS_DOWN || at(sender, 1)->state != VERBS_DOWN)
        assert_int_equal(kit_step(&kit), MN_OK);
    assert_int_equal(sender->waiting, KIT_WINDOW);
    kit_set("lost=fv0:none,lost=fv1:none");
    while (sender->n_away == 2)
        assert_int_equal(kit_step(&kit), MN_OK);
    assert_int_equal(sender->waiting, 0);
    finish(&kit);
}

static void links_that_come_and_go_leave_nothing_behind(void **state)
{
    static const char *const kinds[] = {"qps", "cqs", "mrs"};
    uint64_t before[3];
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 12);
    for (int i = 0; i < 3; i++)
        before[i] = kit_counter(kinds[i]);
    int files = mn_descriptors();
    for (unsigned n = 1; n <= 12; n++) {
        verbs_give_up(n & 1 ? kit_sender(&kit) : kit_receiver(&kit), (int)(n / 2 & 1), mn_now_ms(),
                      "a test");
        while (kit_count("is back after") < 2 * n)
            assert_int_equal((kit.messages = 1000000, kit_step(&kit)), MN_OK);
        for (int i = 0; i < 2; i++)
            at(kit_sender(&kit), i)->hold_ms = 0; /* they would have to wait ever longer */
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_counter(kinds[i]), before[i]);
    assert_int_equal(mn_descriptors(), files);
    finish(&kit);
}

/* --- words that do not come --------------------------------------------------------------------
 */

/* The peer is asked what a link has done, and can be asked no more. */
static void without_a_control_connection_the_wait_for_an_answer_ends(void **state)
{
    enum mn_err err = MN_OK;
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 13);
    (void)half_acknowledged(&kit);
    kit_set("lost=fv0:none");
    mn_chan_close(&kit_sender(&kit)->control);
    mn_chan_close(&kit_receiver(&kit)->control);
    verbs_give_up(kit_sender(&kit), 1, mn_now_ms(), "a test");
    kit.messages = 1000000;
    while (!err)
        err = kit_step(&kit);
    assert_int_equal(err, MN_ERR_LINK_DEAD);
    assert_true(kit_count("the control connection is lost since 2 s, and is not opened again") > 0);
    kit_close(&kit);
}

/* A link that seemed to be the last, and its peer gives it up in time. */
static void the_peer_gives_up_a_link_whose_failure_waits_for_its_word(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, SHORT, 14);
    struct verbs_comm *receiver = kit_receiver(&kit);
    receiver->broken_ms = mn_now_ms();
    receiver->broken_link = 1;
    verbs_give_up(kit_sender(&kit), 1, mn_now_ms(), "a test");
    move_for(&kit, 500);
    finish(&kit);
}

/* --- announcements -----------------------------------------------------------------------------
 */

/* The device may read it again: as long as one that was written anew may be under way, its place is
 * not even filled. */
static void the_place_of_what_was_written_anew_stays_as_it_is(void **state)
{
    struct kit kit;

    (void)state;
    open_and_move(&kit, LONG, 15);
    struct verbs_comm *receiver = kit_receiver(&kit);
    struct verbs_qp *qp = &receiver->qps[0];
    receiver->anew = qp->anew = 1;
    qp->anew_posted = qp->retired + 1000;
    qp->anew_until = receiver->seq_next + 1;
    kit.messages = 1000000;
    for (int i = 0; i < 10; i++)
        assert_int_equal(kit_post_recv(&kit), MN_OK);
    assert_int_equal(kit.n_recvs, 21);
    qp->anew_posted = qp->retired;
    assert_int_equal(kit_post_recv(&kit), MN_OK);
    assert_int_equal(kit.n_recvs, 22);
    assert_int_equal(receiver->anew, 0);
    finish(&kit);
}

/* The sender had read an announcement whose link goes: its message comes between the fence and the
 * time when it would be written anew. */
static void a_message_that_came_needs_no_announcement(void **state)
{
    struct kit kit;
    struct ibv_wc wc;

    (void)state;
    open_and_move(&kit, LONG, 16);
    struct verbs_comm *receiver = kit_receiver(&kit);
    kit.size = 1000;
    kit.messages = kit.n_recvs + 1;
    while (kit.n_recvs < kit.messages)
        assert_int_equal(kit_post_recv(&kit), MN_OK);
    int q = receiver->slots[receiver->seq_landed % VERBS_RING].qp, other = !q;
    verbs_set_away(kit_sender(&kit), q, 1); /* so that the message takes the other */
    while (kit.sent < kit.messages)
        kit_sender_alone(&kit);
    assert_int_equal(hear_sync(receiver, q, 0), MN_OK);
    while (receiver->qps[q].consumed < receiver->rq_depth)
        if (ibv_poll_cq(receiver->links[q].cq, 1, &wc) > 0)
            assert_int_equal(verbs_recv_completion(receiver, q, &wc), MN_OK);
    assert_int_equal(verbs_fence_step(receiver, q, mn_now_ms()), MN_OK);
    assert_int_equal(receiver->due, 1);
    while (kit.received < kit.messages)
        kit_receiver_alone(&kit);
    assert_int_equal(receiver->due, 0);
    assert_int_equal(at(receiver, other)->state, VERBS_UP);
    verbs_give_up(kit_sender(&kit), q, mn_now_ms(), "a test");
    finish(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_and_lost_is_sent_again),
        cmocka_unit_test(what_has_arrived_is_counted_before_its_queue_pair_goes),
        cmocka_unit_test(a_group_in_turn_is_done_in_part),
        cmocka_unit_test(an_answer_for_a_turn_that_never_was_is_sure),
        cmocka_unit_test(a_sender_finds_a_silent_link_itself),
        cmocka_unit_test(links_that_were_silent_together_are_not_given_up_one_by_one),
        cmocka_unit_test(a_sender_that_calls_nothing_is_asked_once),
        cmocka_unit_test(a_queue_pair_that_failed_gets_no_more_requests),
        cmocka_unit_test(a_receiver_whose_links_all_fail_waits_for_its_sender),
        cmocka_unit_test(links_that_fail_at_one_look_wait_for_each_other),
        cmocka_unit_test(a_port_that_is_down_for_long_waits_for_a_sender_that_is_not_called),
        cmocka_unit_test(a_sender_whose_links_all_fail_waits_for_its_receiver),
        cmocka_unit_test(links_that_are_all_dead_are_waited_for_no_longer),
        cmocka_unit_test(a_link_that_joins_is_not_probed_by_the_receiver),
        cmocka_unit_test(a_receiver_that_is_not_called_is_stood_in_for),
        cmocka_unit_test(who_stands_in_announces_anew),
        cmocka_unit_test(who_stands_in_does_not_end_a_connection),
        cmocka_unit_test(a_probe_that_is_refused_is_no_answer),
        cmocka_unit_test(what_waited_for_a_link_is_sent_when_it_is_back),
        cmocka_unit_test(links_that_come_and_go_leave_nothing_behind),
        cmocka_unit_test(without_a_control_connection_the_wait_for_an_answer_ends),
        cmocka_unit_test(the_peer_gives_up_a_link_whose_failure_waits_for_its_word),
        cmocka_unit_test(the_place_of_what_was_written_anew_stays_as_it_is),
        cmocka_unit_test(a_message_that_came_needs_no_announcement),
    };

    setenv("FAKEVERBS",
           "dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2,dev=fv2:lo:127.0.0.3,timeout=100000000", 1);
    kit_find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
