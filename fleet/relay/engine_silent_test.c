/* A relay in between, played here, that takes a piece and then says nothing any more, or has opened
 * the way and never comes to the data connection: who has sent to it gives the way up, though
 * nothing else waits. */
#define KIT_SILENCE_MS 3000
#include "fleet/relay/engine_kit.h"

static struct mn_line *line;                  /* the played relay's, */
static struct mn_hop *hops[MN_RELAY_KINDS];   /* … trunks */
static struct mn_comm *comms[MN_RELAY_KINDS]; /* … and what they have become */
static struct mn_line_attach asked;           /* nodes.n 0: not yet */
static int takes;                             /* connections are made */
static uint8_t in_head[MN_HEAD_SIZE], out_head[MN_HEAD_SIZE];
static uint8_t in[MN_RELAY_SMALL], out[1000];

static void play(const struct mn_config *config)
{
    enum mn_line_frame type;
    uint8_t *p, payload[MN_LINE_MAX];
    struct mn_line_trunk trunk;
    struct mn_diag diag;
    size_t len;
    enum mn_err err = mn_line_step(line, &diag);

    if (err && err != MN_ERR_AGAIN)
        fail_msg("%s", diag.text);
    while (!mn_line_get(line, &type, &p, &len))
        if (type == MN_LINE_ATTACH) {
            assert_true(mn_line_attach_get(p, len, &asked));
        } else if (type == MN_LINE_TRUNK) {
            assert_true(mn_line_trunk_get(p, len, &trunk));
            assert_int_equal(mn_hop_listen(config, config->devices, mn_line_key(line), trunk.handle,
                                           &hops[trunk.kind], &diag),
                             MN_OK);
            len = mn_line_trunk_put(&trunk, payload);
            assert_int_equal(mn_line_put(line, MN_LINE_TRUNKED, payload, len), MN_OK);
        }
    for (int k = 0; k < MN_RELAY_KINDS; k++)
        if (takes && hops[k] && !comms[k] && mn_hop_step(hops[k], &comms[k], &diag))
            comms[k] = NULL;
}

static void until_open(const struct mn_config *config, struct kit_end *s)
{
    struct mn_line_opened opened = {.pair = 9};
    uint8_t payload[MN_LINE_MAX];
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!asked.nodes.n || !hops[0] || !hops[1] || (takes && (!comms[0] || !comms[1]))) {
        (void)kit_step(s);
        play(config);
        assert_true(mn_now_ms() < end);
    }
    opened.flow = asked.flow;
    opened.way = asked.way;
    opened.instance = asked.instance;
    assert_int_equal(mn_line_put(line, MN_LINE_OPENED, payload,
                                 mn_line_opened_put(&opened, payload)),
                     MN_OK);
    while (!kit_step(s))
        assert_true(mn_now_ms() < end);
}

/* A piece of 1000 bytes. */
static void send_one(struct kit_end *s, struct mn_request *sends[2])
{
    struct mn_comm *from = s->comms[MN_RELAY_SMALL_ONES];
    struct mn_relay_head head = {.flow = asked.flow,
                                 .pair = 9,
                                 .kind = MN_RELAY_SMALL_ONES,
                                 .length = sizeof out,
                                 .total = sizeof out};
    const int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD};
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    mn_relay_head_put(&head, out_head);
    for (int i = 0; i < 2; i++) {
        void *mh;
        uint8_t *bytes = i ? out : out_head;
        size_t size = i ? sizeof out : sizeof out_head;
        assert_int_equal(from->ops->reg_mr(from, bytes, size, NCCL_PTR_HOST, &mh), 0);
        for (sends[i] = NULL; !sends[i]; assert_true(mn_now_ms() < end))
            assert_int_equal(from->ops->isend(from, bytes, size, tags[i], mh, &sends[i]), 0);
    }
}

static void pass_one(struct kit_end *s)
{
    struct mn_comm *from = s->comms[MN_RELAY_SMALL_ONES], *to = comms[MN_RELAY_SMALL_ONES];
    void *data[2] = {in_head, in}, *handles[2];
    size_t sizes[2] = {sizeof in_head, sizeof in};
    int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD}, got[MN_MAX_RECVS], done = 0;
    struct mn_request *recv = NULL, *sends[2];
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    assert_int_equal(to->ops->reg_mr(to, in_head, sizeof in_head, NCCL_PTR_HOST, &handles[0]), 0);
    assert_int_equal(to->ops->reg_mr(to, in, sizeof in, NCCL_PTR_HOST, &handles[1]), 0);
    assert_int_equal(to->ops->irecv(to, 2, data, sizes, tags, handles, &recv), 0);
    assert_non_null(recv);
    send_one(s, sends);
    for (; !done || sends[0] || sends[1]; assert_true(mn_now_ms() < end)) {
        int sent = 0;
        for (int i = 0; i < 2; i++)
            if (sends[i] && !from->ops->test(sends[i], &sent, NULL) && sent)
                sends[i] = NULL;
        if (!done)
            assert_int_equal(to->ops->test(recv, &done, got), 0);
    }
    assert_int_equal(got[1], sizeof out);
}

static int door;

/* A flow from n0 over n1, a relay, and n2, which is played; the way is open. */
static void begin(struct kit_end *s, int with_data)
{
    unsigned port = 20000 + (unsigned)getpid() % 10000;
    struct mn_diag diag;
    int fd;

    memset(hops, 0, sizeof hops);
    memset(comms, 0, sizeof comms);
    asked.nodes.n = 0;
    takes = with_data;
    kit_open(port);
    door = kit_listen(1, 1, port);
    kit_start(1);
    kit_dial(s, 0, 1);
    kit_attach_sender(s, kit_frame(0, 3, 8));
    for (uint64_t end = mn_now_ms() + PATIENCE_MS;
         (fd = accept4(door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0;
         assert_true(mn_now_ms() < end))
        (void)kit_step(s);
    assert_int_equal(mn_line_accept(&configs[2], 2, fd, &line, &diag), MN_OK);
    until_open(&configs[2], s);
}

static void end(struct kit_end *s)
{
    for (int k = 0; k < MN_RELAY_KINDS; k++)
        mn_hop_close(hops[k]);
    mn_line_close(line);
    kit_leave(s);
    kit_stop(1);
    close(door);
    kit_close();
}

static void a_relay_that_falls_silent_is_given_up(void **state)
{
    struct kit_end s;

    (void)state;
    begin(&s, 1);
    pass_one(&s);
    kit_until_gone(&s, MN_GONE_RELAY);
    assert_non_null(strstr(s.gone.text, "n2"));
    end(&s);
}

/* It answers on its line all the while. */
static void a_relay_whose_data_connection_is_never_made_is_given_up(void **state)
{
    struct mn_request *sends[2];
    struct kit_end s;
    uint64_t until = mn_now_ms() + PATIENCE_MS;

    (void)state;
    begin(&s, 0);
    send_one(&s, sends);
    for (; !s.gone.why; kit_nap()) {
        (void)kit_step(&s);
        play(&configs[2]);
        assert_true(mn_now_ms() < until);
    }
    assert_non_null(strstr(s.gone.text, "no data connection with relay n2"));
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_that_falls_silent_is_given_up),
        cmocka_unit_test(a_relay_whose_data_connection_is_never_made_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
