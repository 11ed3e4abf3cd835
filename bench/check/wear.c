/* Long use and edges: counters that wrap, requests that come round again, tags of any value, one
 * sender far ahead of another. */
#include <limits.h>
#include <string.h>

#include "bench/check/kit.h"

#define LONG   66000 /* more than 16 bits count */
#define DEPTH  4
#define SLOT   64
#define ROUNDS 700 /* a pool of requests comes round more than once */
#define BURST  24
#define FLOOD  4096
#define WHOLE  ((size_t)4 << 20)

static struct mn_pair pair;

/* A part of a registration: no guards around it. */
static struct mn_buf part(const struct mn_buf *buf, size_t at, size_t size)
{
    struct mn_buf one = *buf;

    one.data = buf->data + at;
    one.base = one.data;
    one.size = one.room = size;
    return one;
}

static void give_up(struct mn_check *check, const char *what, int done, int all)
{
    if (mn_check_expired(check))
        mn_check_fail(check, "%s: %d of %d arrived", what, done, all);
    mn_check_pause(check);
}

static size_t length_of(int i)
{
    return sizeof i + (size_t)i % 61;
}

static void expect_number(struct mn_check *check, const struct mn_buf *in, int size, int i)
{
    int number;

    memcpy(&number, in->data, sizeof number);
    if (number != i)
        mn_check_fail(check, "receive %d got message %d", i, number);
    if ((size_t)size != length_of(i))
        mn_check_fail(check, "message %d: %d bytes reported, sent were %zu", i, size, length_of(i));
}

/* DEPTH receives are out whenever a message is sent; each message is its number. */
static void check_messages(struct mn_check *check)
{
    struct mn_req sends[DEPTH], recvs[DEPTH];
    struct mn_buf out, in;
    int posted = 0, sent = 0, done = 0;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, DEPTH * SLOT * 2, 0, &out);
    mn_kit_buf(check, pair.recv, DEPTH * SLOT * 2, 0, &in);
    mn_check_step(check, "%d messages over one connection", LONG);
    while (done < LONG) {
        const int turn = posted - done == DEPTH || posted == LONG, k = done % DEPTH;
        if (posted < LONG && posted - done < DEPTH) {
            struct mn_buf to = part(&in, (size_t)(posted % DEPTH) * SLOT * 2, SLOT * 2), *buf = &to;
            posted += mn_kit_try_irecv(check, pair.recv, 1, &buf, &to.size, &(int){0},
                                       &recvs[posted % DEPTH]);
        }
        if (turn && sent < posted) {
            struct mn_buf from = part(&out, (size_t)(sent % DEPTH) * SLOT * 2, SLOT * 2);
            memcpy(from.data, &sent, sizeof sent);
            sent +=
                mn_kit_try_isend(check, pair.send, &from, length_of(sent), 0, &sends[sent % DEPTH]);
        }
        if (turn && done < sent && mn_kit_test(check, &recvs[k]) && mn_kit_test(check, &sends[k])) {
            struct mn_buf to = part(&in, (size_t)k * SLOT * 2, SLOT * 2);
            expect_number(check, &to, recvs[k].sizes[0], done++);
        } else if (turn) {
            give_up(check, "long use", done, LONG);
        }
    }
}

static int group_size(struct mn_check *check, int most)
{
    const int max = check->props.max_recvs;

    if (max < 2)
        mn_check_skip(check, "maxRecvs is %d: receives are not grouped", max);
    return max < most ? max : most;
}

struct group {
    struct mn_buf out, in, slots[8], *bufs[8];
    size_t sizes[8], lengths[8];
    int tags[8];
    struct mn_req recv, sends[8];
};

static struct group group;

static void open_group(struct mn_check *check, size_t slot)
{
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 8 * slot, 0, &group.out);
    mn_kit_buf(check, pair.recv, 8 * slot, 0, &group.in);
    for (int i = 0; i < 8; i++) {
        group.slots[i] = part(&group.in, (size_t)i * slot, slot);
        group.bufs[i] = &group.slots[i];
        group.sizes[i] = slot;
    }
}

static void send_to(struct mn_check *check, int slot, unsigned seed)
{
    struct mn_buf from = part(&group.out, (size_t)slot * group.sizes[0], group.lengths[slot]);

    mn_kit_fill(&from, from.size, seed);
    mn_kit_isend(check, pair.send, &from, from.size, group.tags[slot], &group.sends[slot]);
}

static void expect_group(struct mn_check *check, int n, unsigned seed, const char *what)
{
    struct mn_req *all[9] = {&group.recv};

    for (int i = 0; i < n; i++)
        all[1 + i] = &group.sends[i];
    mn_kit_wait(check, all, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        struct mn_buf to = part(&group.slots[i], 0, group.lengths[i]);
        if ((size_t)group.recv.sizes[i] != group.lengths[i])
            mn_check_fail(check, "%s: slot %d reports %d bytes, its message has %zu", what, i,
                          group.recv.sizes[i], group.lengths[i]);
        mn_kit_expect(check, &to, to.size, seed + (unsigned)i, what);
    }
}

/* Groups of every size in turn, tags equal or not, some messages empty. */
static void check_groups(struct mn_check *check)
{
    int most;

    mn_check_init(check);
    most = group_size(check, 8);
    open_group(check, SLOT);
    for (int round = 0; round < ROUNDS; round++) {
        const int n = 1 + round * 5 % most, equal = round % 3 == 0;
        for (int i = 0; i < n; i++) {
            group.tags[i] = equal ? 9 : 20 + (i + round) % n;
            group.lengths[i] = round * 13 % 7 == i % 7 ? 0 : (size_t)(1 + (round + 17 * i) % SLOT);
        }
        mn_kit_irecv_group(check, pair.recv, n, group.bufs, group.sizes, group.tags, &group.recv);
        for (int i = 0; i < n; i++)
            send_to(check, equal ? i : n - 1 - i, (unsigned)(round * 8 + (equal ? i : n - 1 - i)));
        expect_group(check, n, (unsigned)(round * 8), "group after group");
    }
}

/* A tag is a rank, and 0 is one; or a step's number: any int that is not negative. */
static void check_tags(struct mn_check *check)
{
    static const int tags[] = {0, 1, 65536, 65537, INT_MAX, 32768, 255, 256};
    int n;

    mn_check_init(check);
    n = group_size(check, 8);
    open_group(check, SLOT);
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < n; i++) {
            group.tags[i] = tags[way ? (i + 4) % 8 : i];
            group.lengths[i] = (size_t)(10 + i);
        }
        mn_kit_irecv_group(check, pair.recv, n, group.bufs, group.sizes, group.tags, &group.recv);
        for (int i = n - 1; i >= 0; i--)
            send_to(check, i, (unsigned)(way * 8 + i));
        expect_group(check, n, (unsigned)(way * 8), "tags of any value");
    }
}

/* Looked at the moment the group is done, before any other call. */
static void check_whole(struct mn_check *check)
{
    mn_check_init(check);
    group_size(check, 2);
    open_group(check, WHOLE);
    for (int i = 0; i < 2; i++) {
        group.tags[i] = i;
        group.lengths[i] = WHOLE;
    }
    mn_kit_irecv_group(check, pair.recv, 2, group.bufs, group.sizes, group.tags, &group.recv);
    for (int i = 0; i < 2; i++)
        send_to(check, i, 70u + (unsigned)i);
    mn_check_step(check, "test until a group of two large messages is done");
    while (!mn_kit_test(check, &group.recv)) {
        for (int i = 0; i < 2; i++)
            mn_kit_test(check, &group.sends[i]);
        give_up(check, "a group of two", 0, 2);
    }
    for (int i = 0; i < 2; i++)
        mn_kit_expect(check, &group.slots[i], WHOLE, 70u + (unsigned)i, "a group that is done");
    expect_group(check, 2, 70, "a group that is done");
}

struct burst {
    struct mn_buf out, in, slots[2], *bufs[2];
    struct mn_req sends[2][BURST], recv;
    int next[2], posted, done;
};

static unsigned char *message_of(struct burst *b, int tag, int i)
{
    return b->out.data + (size_t)(tag * BURST + i) * SLOT;
}

/* 0: not now. */
static int send_next(struct mn_check *check, struct burst *b, int tag)
{
    const int i = b->next[tag];
    struct mn_buf from = part(&b->out, (size_t)(tag * BURST + i) * SLOT, SLOT);

    if (i == BURST ||
        !mn_kit_try_isend(check, pair.send, &from, (size_t)(20 + i), 1 + tag, &b->sends[tag][i]))
        return 0;
    b->next[tag]++;
    return 1;
}

static void post_next(struct mn_check *check, struct burst *b)
{
    const size_t sizes[2] = {SLOT, SLOT};
    const int tags[2] = {1, 2};

    if (b->posted == b->done && b->posted < BURST)
        b->posted += mn_kit_try_irecv(check, pair.recv, 2, b->bufs, sizes, tags, &b->recv);
}

static void look_at(struct mn_check *check, struct burst *b)
{
    for (int tag = 0; tag < 2; tag++) {
        if (b->recv.sizes[tag] != 20 + b->done)
            mn_check_fail(check, "message %d of tag %d has %d bytes, reported were %d", b->done,
                          1 + tag, 20 + b->done, b->recv.sizes[tag]);
        if (memcmp(b->slots[tag].data, message_of(b, tag, b->done), (size_t)(20 + b->done)) != 0)
            mn_check_fail(check, "message %d of tag %d arrived as another", b->done, 1 + tag);
    }
    b->done++;
}

/* All that tag 1 may send, then tag 2 one by one; receives of both come one at a time. */
static void check_bursts(struct mn_check *check)
{
    static struct burst b;

    mn_check_init(check);
    group_size(check, 2);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, (size_t)2 * BURST * SLOT, 0, &b.out);
    mn_kit_buf(check, pair.recv, (size_t)2 * SLOT, 0, &b.in);
    mn_kit_fill(&b.out, b.out.size, 5);
    for (int tag = 0; tag < 2; tag++) {
        b.slots[tag] = part(&b.in, (size_t)tag * SLOT, SLOT);
        b.bufs[tag] = &b.slots[tag];
    }
    mn_check_step(check, "%d messages of one tag before those of another", BURST);
    post_next(check, &b);
    while (b.done < BURST) {
        while (send_next(check, &b, 0))
            ;
        if (b.next[1] < b.next[0])
            send_next(check, &b, 1);
        for (int tag = 0; tag < 2; tag++)
            for (int i = 0; i < b.next[tag]; i++)
                mn_kit_test(check, &b.sends[tag][i]);
        if (b.posted > b.done && mn_kit_test(check, &b.recv))
            look_at(check, &b);
        post_next(check, &b);
        give_up(check, "groups of two tags, one ahead", b.done, BURST);
    }
}

/* Beyond what NCCL has in flight: an error says as much as a NULL request; an old one does not. */
static void check_beyond(struct mn_check *check)
{
    struct mn_buf in;
    void *data, *first = NULL;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.recv, SLOT, 0, &in);
    data = in.data;
    mn_check_step(check, "irecv until there are no resources");
    for (int i = 0; i < FLOOD; i++) {
        void *request = MN_KIT_STALE;
        int result = mn_raw_irecv(&check->raw, pair.recv, 1, &data, &in.size, &(int){0},
                                  &in.mhandle, &request);
        if (result || !request)
            return;
        if (request == MN_KIT_STALE)
            mn_check_fail(check, "receive %d: success, and *request left as it was", i);
        if (request == first)
            mn_check_fail(check, "receive %d is the request of one that is under way", i);
        first = i ? first : request;
    }
}

static const struct mn_check_rule rules[] = {
    {"wear.messages", "a connection carries more messages than 16 bits count",
     "the n-th send meets the n-th receive, for days; each size is that of its message",
     check_messages, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: a connection lives as long as its "
                 "communicator, with several steps posted at any time",
     .breaks = "After minutes of a job results are wrong and nothing reports it.",
     .flags = MN_CHECK_SLOW},
    {"wear.groups", "group after group, of any size",
     "nothing of a group is left for the next: no slot, no size, no place to begin at",
     check_groups, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: posts groups of as many slots as "
                 "have a step to receive, again and again",
     .breaks = "After a while point-to-point data arrives in the buffer of another rank.",
     .since = 5},
    {"wear.tags", "any rank is a tag",
     "a tag is an int: 0 is one like others, and nothing is cut off it", check_tags,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: the tag is the rank of the "
                 "sender, which is 0 for one of them",
     .breaks = "Data of one GPU arrives in the buffer of another.", .since = 5},
    {"wear.whole", "a group is done when every byte of it is there",
     "the GPU is told of all slots as soon as test reports done", check_whole,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: moves the tails of all slots of "
                 "the group as soon as test says done",
     .breaks = "The GPU reads buffers that have not arrived.", .since = 5},
    {"wear.bursts", "one sender may be far ahead of another in the same groups",
     "a message without a free slot in the head receive waits, is not lost, and keeps its order",
     check_bursts, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: several local ranks share a "
                 "connection, each posts at its own pace with its own tag",
     .breaks = "Point-to-point data is lost or changes places when ranks run at different speeds.",
     .since = 5},
    {"wear.beyond", "beyond its requests a plugin says so",
     "no resources is a NULL request or an error, never an old request with success", check_beyond,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 never has more than NCCL_NET_MAX_REQUESTS receives in flight; its own "
                 "Socket reports an error beyond",
     .breaks = "A program that asks for more tests a request that is long gone."},
};

MN_CHECK_FAMILY(mn_check_wear_family, "wear", "long use, counters and edges", rules);
