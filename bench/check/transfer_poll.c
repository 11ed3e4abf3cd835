/* What test reports, and what a done request allows. */
#include <string.h>

#include "bench/check/kit.h"
#include "bench/check/transfer.h"

#define IDLE_TESTS 400

void mn_transfer_done(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send, recv;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 100000, 0, &out);
    mn_kit_buf(check, pair.recv, 100000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 100000, 0, &recv);
    mn_check_step(check, "test of a receive with nothing sent");
    for (int i = 0; i < IDLE_TESTS; i++)
        if (mn_kit_test(check, &recv))
            mn_check_fail(check, "a receive completed although nothing was sent");
    mn_kit_isend(check, pair.send, &out, 100000, 0, &send);
    mn_kit_wait2(check, &recv, &send);
}

void mn_transfer_sizes_null(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req reqs[2];
    int done[2] = {0, 0};

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 1000, 0, &out);
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_fill(&out, 1000, 60);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &reqs[0]);
    mn_kit_isend(check, pair.send, &out, 1000, 0, &reqs[1]);
    mn_check_step(check, "test with sizes NULL");
    while (!done[0] || !done[1]) {
        for (int i = 0; i < 2; i++)
            if (!done[i])
                mn_check_ok(check, "test with sizes NULL",
                            mn_raw_test(&check->raw, reqs[i].request, &done[i], NULL));
        if (mn_check_expired(check))
            mn_check_fail(check, "%s not done", done[0] ? "the send" : "the receive");
        mn_check_pause(check);
    }
    mn_kit_expect(check, &in, 1000, 60, "tested without sizes");
}

void mn_transfer_reuse(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send, recv;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 20000, 0, &out);
    mn_kit_buf(check, pair.recv, 20000, 0, &in);
    for (unsigned i = 0; i < 8; i++) {
        mn_kit_fill(&out, 20000, 70 + i);
        int posted = i % 2; /* else a send that may complete before its receive is posted */
        if (posted) {
            mn_kit_irecv(check, pair.recv, &in, 20000, 0, &recv);
            mn_kit_isend(check, pair.send, &out, 20000, 0, &send);
        } else {
            posted = mn_kit_isend_early(check, &pair, &out, 20000, &in, &send, &recv);
        }
        for (int tests = 0; tests < IDLE_TESTS && !mn_kit_test(check, &send); tests++)
            ;
        if (send.done)
            memset(out.data, 0xee, 20000);
        if (!posted)
            mn_kit_irecv(check, pair.recv, &in, 20000, 0, &recv);
        mn_kit_wait2(check, &recv, &send);
        mn_kit_expect(check, &in, 20000, 70 + i, "the send buffer was overwritten after done");
    }
}

void mn_transfer_test_returns(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;
    long sleeps;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &recv);
    mn_check_step(check, "test of a receive with nothing sent");
    sleeps = mn_check_sleeps();
    for (int i = 0; i < IDLE_TESTS; i++)
        mn_kit_test(check, &recv);
    sleeps = mn_check_sleeps() - sleeps;
    if (sleeps >= IDLE_TESTS * 3 / 4)
        mn_check_fail(check, "test slept in %ld of %d calls: NCCL polls it", sleeps, IDLE_TESTS);
}
