/* Grouped receives: n buffers, one request, filled by tag. */
#include <sched.h>
#include <string.h>

#include "bench/check/kit.h"

#define SLOT       2048
#define IDLE_TESTS 200

struct group {
    struct mn_pair pair;
    struct mn_buf out[MN_RAW_MAX_RECVS], in[MN_RAW_MAX_RECVS], *bufs[MN_RAW_MAX_RECVS];
    size_t sizes[MN_RAW_MAX_RECVS];
    int tags[MN_RAW_MAX_RECVS];
    struct mn_req recv, sends[MN_RAW_MAX_RECVS];
    int n;
};

static struct group group; /* large; one rule a process */

static int begin(struct mn_check *check)
{
    mn_check_init(check);
    if (check->props.max_recvs < 2)
        mn_check_skip(check, "maxRecvs is %d: receives are not grouped", check->props.max_recvs);
    mn_kit_connect(check, &group.pair);
    group.n = check->props.max_recvs < MN_RAW_MAX_RECVS ? check->props.max_recvs : MN_RAW_MAX_RECVS;
    for (int i = 0; i < group.n; i++) {
        mn_kit_buf(check, group.pair.send, SLOT, 0, &group.out[i]);
        mn_kit_buf(check, group.pair.recv, SLOT, 0, &group.in[i]);
        group.bufs[i] = &group.in[i];
        group.sizes[i] = SLOT;
    }
    return group.n;
}

static void clear(int n)
{
    for (int i = 0; i < n; i++)
        memset(group.in[i].data, 0x3c, SLOT);
}

static void post(struct mn_check *check, int n)
{
    mn_kit_irecv_group(check, group.pair.recv, n, group.bufs, group.sizes, group.tags, &group.recv);
}

static size_t length(int i)
{
    return (size_t)(100 + 37 * i);
}

static void send_one(struct mn_check *check, int i, int tag)
{
    mn_kit_fill(&group.out[i], length(i), 200u + (unsigned)i);
    mn_kit_isend(check, group.pair.send, &group.out[i], length(i), tag, &group.sends[i]);
}

static void wait_all(struct mn_check *check, int n)
{
    struct mn_req *all[MN_RAW_MAX_RECVS + 1];

    all[0] = &group.recv;
    for (int i = 0; i < n; i++)
        all[1 + i] = &group.sends[i];
    mn_kit_wait(check, all, (size_t)n + 1);
}

static void expect_slot(struct mn_check *check, int slot, int message, const char *what)
{
    if (group.recv.sizes[slot] != (int)length(message))
        mn_check_fail(check, "%s: slot %d reports %d bytes, its message has %zu", what, slot,
                      group.recv.sizes[slot], length(message));
    mn_kit_expect(check, &group.in[slot], length(message), 200u + (unsigned)message, what);
}

/* Message i carries tag 10 + i; the slots are permuted, so position alone gives the wrong buffers.
 */
static void check_tags(struct mn_check *check)
{
    int max = begin(check);

    for (int n = 1; n <= max; n++) {
        clear(n);
        for (int i = 0; i < n; i++)
            group.tags[i] = 10 + (n - 1 - i);
        post(check, n);
        for (int i = 0; i < n; i++)
            send_one(check, i, 10 + i);
        wait_all(check, n);
        for (int slot = 0; slot < n; slot++)
            expect_slot(check, slot, n - 1 - slot, "slots chosen by tag");
    }
}

static void check_equal(struct mn_check *check)
{
    int n = begin(check);

    for (int i = 0; i < n; i++)
        group.tags[i] = 5;
    post(check, n);
    for (int i = 0; i < n; i++)
        send_one(check, i, 5);
    wait_all(check, n);
    for (int i = 0; i < n; i++)
        expect_slot(check, i, i, "equal tags in index order");
}

static void check_partial(struct mn_check *check)
{
    int n = begin(check);

    for (int i = 0; i < n; i++)
        group.tags[i] = i;
    post(check, n);
    for (int i = 0; i < n - 1; i++)
        send_one(check, i, i);
    mn_check_step(check, "test of a receive of %d with %d messages sent", n, n - 1);
    for (int i = 0; i < IDLE_TESTS; i++) {
        for (int s = 0; s < n - 1; s++)
            mn_kit_test(check, &group.sends[s]);
        if (mn_kit_test(check, &group.recv))
            mn_check_fail(check, "a receive of %d buffers was done after %d messages", n, n - 1);
        sched_yield();
    }
    send_one(check, n - 1, n - 1);
    wait_all(check, n);
}

static void check_sizes(struct mn_check *check)
{
    int n = begin(check) - 1;

    for (int i = 0; i < n; i++)
        group.tags[i] = i;
    post(check, n);
    for (int i = n; i < MN_RAW_MAX_RECVS; i++)
        group.recv.sizes[i] = 0x5a5a5a5a;
    for (int i = 0; i < n; i++)
        send_one(check, i, i);
    wait_all(check, n);
    for (int i = 0; i < n; i++)
        expect_slot(check, i, i, "sizes");
    for (int i = n; i < MN_RAW_MAX_RECVS; i++)
        if (group.recv.sizes[i] != 0x5a5a5a5a)
            mn_check_fail(check, "test wrote sizes[%d] of a receive of %d buffers", i, n);
}

/* The first receive wants tags 1 and 2, the second 3: the message for 3 comes first and must wait.
 */
static void check_head(struct mn_check *check)
{
    struct mn_buf *second[1];
    struct mn_req late, early;
    size_t size = SLOT;
    int tag = 3, posted = 0;

    begin(check);
    group.tags[0] = 1;
    group.tags[1] = 2;
    post(check, 2);
    mn_kit_buf(check, group.pair.recv, SLOT, 0, &group.in[2]);
    second[0] = &group.in[2];
    mn_kit_irecv_group(check, group.pair.recv, 1, second, &size, &tag, &late);
    mn_kit_fill(&group.out[2], length(2), 202);
    mn_check_step(check, "isend of tag 3 while the head receive wants tags 1 and 2");
    posted = mn_kit_try_isend(check, group.pair.send, &group.out[2], length(2), 3, &early);
    for (int i = 0; i < IDLE_TESTS; i++) {
        if (mn_kit_test(check, &late))
            mn_check_fail(check, "the second receive completed before the first was filled");
        mn_kit_test(check, &group.recv);
        if (posted)
            mn_kit_test(check, &early);
        sched_yield();
    }
    send_one(check, 0, 1);
    send_one(check, 1, 2);
    wait_all(check, 2);
    if (!posted)
        mn_kit_isend(check, group.pair.send, &group.out[2], length(2), 3, &early);
    mn_kit_wait2(check, &late, &early);
    expect_slot(check, 0, 0, "the head receive");
    expect_slot(check, 1, 1, "the head receive");
    mn_kit_expect(check, &group.in[2], length(2), 202, "the second receive");
}

static const struct mn_check_rule rules[] = {
    {"group.tags", "each message goes to the slot with its tag",
     "irecv posts 1 to maxRecvs buffers; the tag of isend selects the slot", check_tags,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: posts slots of several ranks with "
                 "their ranks as tags",
     .breaks = "Data of one GPU arrives in the buffer of another.", .flags = MN_CHECK_ENDS},
    {"group.equal_tags", "equal tags fill slots in index order",
     "messages of one sender stay in order inside a group", check_equal, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: several slots of one rank take "
                 "its messages in the order of its sends",
     .breaks = "Two messages between one pair of GPUs change places.", .flags = MN_CHECK_ENDS},
    {"group.partial", "a group is done only when all its slots are",
     "the buffers of a grouped receive complete as one request", check_partial,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: hands on all slots of the group "
                 "when test says done",
     .breaks = "The GPU reads buffers that have not arrived.", .flags = MN_CHECK_ENDS},
    {"group.sizes", "test writes one size a slot and no more",
     "the array has as many ints as the receive had buffers", check_sizes, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: reads a size for each slot, from "
                 "an array on its stack",
     .breaks = "Memory behind an array on NCCL's stack is overwritten.", .flags = MN_CHECK_ENDS},
    {"group.head", "a receive is filled before the next is considered",
     "receives match in posting order; a tag that fits no free slot of the first one waits",
     check_head, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: has several groups in flight, of "
                 "which the first is the older step",
     .breaks = "Data of one step arrives in the buffers of the next.", .flags = MN_CHECK_ENDS},
};

MN_CHECK_FAMILY(mn_check_group_family, "group", "grouped receives and tags", rules);
