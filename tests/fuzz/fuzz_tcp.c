/* Any bytes as what happens to a connection over TCP whose two ends are here, with failover or
 * without: what its owners post and ask, in which pieces the sockets' bytes come, which sockets are
 * cut, given up and come back, and what somebody else says on them. While nobody else does, no end
 * fails, each message comes once, whole, to its receive, and all ends in a bounded number of calls.
 * Whatever is said, no write leaves a buffer, and no send is done that has not been sent. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/reopen_impl.h"
#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DATA    3
#define ALL     (DATA + 2)
#define MOST    200000
#define CANARY  64
#define SENDS   48 /* before the end, which evens them out */
#define SLOTS   48
#define GROUPS  12
#define TAGS    4
#define ROUNDS  3000
#define PIECES  64 /* a byte each, at a time */
#define OFFSETS 16384

static struct {
    const uint8_t *at, *end;
} input;

struct sent {
    struct mn_request *request;
    uint32_t seq, size;
};

struct posted {
    struct mn_request *request;
    int n, slots[TCP_RECVS];
};

struct slot {
    uint32_t capacity;
    int tag, number; /* of the tag's */
};

static struct world {
    struct tcp_comm *send, *recv;
    struct mn_reopen back[2][ALL]; /* of either end; [1]: the sender's; none dials */
    int wires[ALL][2];             /* the far end of the receiver's socket, and of the sender's */
    uint64_t attempt;
    int honest; /* nobody else has said anything, no receive is too small */
    struct sent sends[SENDS + SLOTS];
    struct posted groups[GROUPS + SENDS];
    struct slot slots[SLOTS + SENDS];
    int n_sends, n_groups, n_slots;
    int tag_sends[TAGS], tag_slots[TAGS];
    uint32_t sizes[TAGS][SENDS + SLOTS];
    char said[512];
} w;

static struct mn_config config;
static uint8_t text[MOST + OFFSETS], into[SLOTS + SENDS][MOST + CANARY];

static uint32_t take(int bytes)
{
    uint32_t value = 0;

    while (bytes-- && input.at < input.end)
        value = value << 8 | *input.at++;
    return value;
}

static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    if (level <= MN_LOG_WARN)
        snprintf(w.said, sizeof w.said, "%s", msg);
}

static void wrong(const char *what)
{
    fprintf(stderr, "%s; said last: %s\n", what, w.said);
    abort();
}

static int has_failed(void)
{
    return atomic_load(&w.send->error) || atomic_load(&w.recv->error);
}

static uint8_t *text_of(int tag, int number)
{
    return text + (tag * 4001 + number * 37) % OFFSETS;
}

/* --- the wires -------------------------------------------------------------------------------- */

static void hang_up(int lane)
{
    for (int i = 0; i < 2; i++) {
        if (w.wires[lane][i] >= 0)
            close(w.wires[lane][i]);
        w.wires[lane][i] = -1;
    }
}

static void connect_ends(int lane, int fds[2])
{
    hang_up(lane);
    for (int i = 0; i < 2; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
            abort();
        fds[i] = pair[0];
        w.wires[lane][i] = pair[1];
    }
}

/* Up to most bytes of what an end has written; the one at a place is changed by twist. */
static size_t carry(int lane, int to_sender, size_t most, size_t place, uint8_t twist)
{
    static uint8_t bytes[1 << 16];
    int from = w.wires[lane][!to_sender], to = w.wires[lane][to_sender];

    if (from < 0 || to < 0)
        return 0;
    ssize_t n = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_PEEK);
    if (n > 0 && place < (size_t)n)
        bytes[place] ^= twist;
    if (n > 0)
        n = send(to, bytes, (size_t)n, MSG_NOSIGNAL);
    if (n > 0)
        return (size_t)recv(from, bytes, (size_t)n, 0);
    if (most && (n == 0 || errno != EAGAIN))
        hang_up(lane);
    return 0;
}

static size_t carry_all(int to_sender)
{
    size_t all = 0;

    for (int i = 0; i < w.send->n_all; i++)
        all += carry(i, to_sender, SIZE_MAX, SIZE_MAX, 0);
    return all;
}

/* --- the ends --------------------------------------------------------------------------------- */

static struct tcp_comm *open_end(int sender, int failover, int fds[ALL][2])
{
    static struct mn_conn conn;
    struct mn_comm *comm = NULL;

    memset(&conn, 0, sizeof conn);
    conn.config = &config;
    conn.connector = sender;
    conn.failover = failover;
    conn.n_lanes = failover ? ALL : DATA;
    for (int i = 0; i < conn.n_lanes; i++)
        conn.lanes[i] = (struct mn_lane){.fd = fds[i][sender], .pair = i % 2, .control = i >= DATA};
    if (tcp_open(&conn, &comm, NULL))
        abort();
    /* No thread calls what the input does. */
    mn_attend_leave(&((struct tcp_comm *)comm)->attended);
    for (int i = 0; i < conn.n_lanes; i++) {
        atomic_init(&w.back[sender][i].fresh, -1);
        ((struct tcp_comm *)comm)->lanes[i].reopen = failover ? &w.back[sender][i] : NULL;
    }
    return (struct tcp_comm *)comm;
}

static void close_end(struct tcp_comm *comm)
{
    /* Nobody waits for who is here. */
    comm->silence_ms = 0;
    for (int i = 0; i < comm->n_all; i++) {
        if (comm->lanes[i].reopen)
            mn_reopen_give(comm->lanes[i].reopen, -1);
        comm->lanes[i].reopen = NULL;
    }
    mn_transport_tcp.close(&comm->base);
}

/* A socket takes the place of one that was given up: both ends get it. */
static void come_back(int lane)
{
    struct tcp_lane *ours = &w.send->lanes[lane];
    int fds[2];

    if (!w.send->failover || ours->state != TCP_DOWN)
        return;
    connect_ends(lane, fds);
    w.attempt++;
    for (int i = 0; i < 2; i++) {
        w.back[i][lane].attempt = w.attempt;
        mn_reopen_give(&w.back[i][lane], fds[i]);
    }
    ours->dialled = 1;
    struct tcp_link *link = &w.send->failover->links[ours->way];
    link->hold_ms = 0;
    w.send->failover->look_ms = 0;
    (void)tcp_look(w.send);
}

/* What an end makes of sockets that are broken, as if it had waited. */
static void judge(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;
    uint64_t now = mn_now_ms();

    if (!f)
        return;
    for (int i = 0; i < f->n_links; i++)
        f->links[i].well = 1;
    for (int i = 0; i < comm->n_all; i++)
        comm->lanes[i].broken_ms = 0;
    f->look_ms = now;
    (void)tcp_links_look(comm, now);
}

/* The last control socket is always there: with none left the connection would be over. */
static void give_up(int lane, int lost)
{
    if (!w.send->failover || lane == ALL - 1 || w.send->lanes[lane].state != TCP_UP)
        return;
    tcp_give_up(w.send, &w.send->lanes[lane], mn_now_ms(), "fuzz");
    if (lost)
        hang_up(lane);
}

static void cut(int lane)
{
    if (w.send->failover ? lane == ALL - 1 : w.honest)
        return;
    hang_up(lane);
}

/* --- what their owners do --------------------------------------------------------------------- */

static uint32_t pick_size(void)
{
    static const uint32_t sizes[] = {0,     1,     8,     MN_HEAD_SIZE, 1025,  4096,   16384, 16385,
                                     20000, 65535, 65536, 70000,        65537, 140000, 100,   MOST};

    return sizes[take(1) % (sizeof sizes / sizeof *sizes)];
}

static void post_send(uint32_t size, int tag)
{
    struct sent *sent = &w.sends[w.n_sends];
    uint8_t *data = text_of(tag, w.tag_sends[tag]);
    uint32_t seq = w.send->seq_next;

    if (tcp_isend(&w.send->base, data, size, tag, NULL, &sent->request) || !sent->request)
        return;
    sent->seq = seq;
    sent->size = size;
    w.sizes[tag][w.tag_sends[tag]++] = size;
    w.n_sends++;
}

static void post_receive(int n, const int *tags, const size_t *capacities)
{
    struct posted *posted = &w.groups[w.n_groups];
    void *data[TCP_RECVS];

    for (int i = 0; i < n; i++) {
        w.honest &= capacities[i] == MOST;
        data[i] = into[w.n_slots + i];
        memset(into[w.n_slots + i] + capacities[i], 0xaa, CANARY);
    }
    if (tcp_irecv(&w.recv->base, n, data, capacities, tags, NULL, &posted->request) ||
        !posted->request) {
        posted->request = NULL;
        return;
    }
    posted->n = n;
    w.n_groups++;
    for (int i = 0; i < n; i++) {
        posted->slots[i] = w.n_slots;
        w.slots[w.n_slots++] = (struct slot){.capacity = (uint32_t)capacities[i],
                                             .tag = tags[i],
                                             .number = w.tag_slots[tags[i]]++};
    }
}

static void post_any(void)
{
    int n = 1 + (int)take(1) % TCP_RECVS, tags[TCP_RECVS];
    size_t capacities[TCP_RECVS];
    uint8_t small = (uint8_t)take(1);

    if (w.n_groups == GROUPS || w.n_slots + n > SLOTS)
        return;
    for (int i = 0; i < n; i++) {
        tags[i] = (int)take(1) % TAGS;
        capacities[i] = small == 0xff ? pick_size() : MOST;
    }
    post_receive(n, tags, capacities);
}

static void check_canary(int slot)
{
    for (int i = 0; i < CANARY; i++)
        if (into[slot][w.slots[slot].capacity + (uint32_t)i] != 0xaa)
            wrong("a byte beyond the buffer is written");
}

static void check_slot(int at, int size)
{
    const struct slot *slot = &w.slots[at];

    check_canary(at);
    if (size < 0 || (uint32_t)size > slot->capacity)
        wrong("more has come than was asked for");
    if (w.honest && (slot->number >= w.tag_sends[slot->tag] ||
                     w.sizes[slot->tag][slot->number] != (uint32_t)size ||
                     memcmp(into[at], text_of(slot->tag, slot->number), (size_t)size) != 0))
        wrong("what has come is not what was sent");
}

static int test_sends(void)
{
    int left = 0;

    for (int i = 0; i < w.n_sends; i++) {
        struct sent *sent = &w.sends[i];
        int done = 0;
        if (!sent->request)
            continue;
        (void)tcp_send_test(w.send, (struct tcp_send *)sent->request, &done, NULL);
        if (done && ((struct tcp_send *)sent->request)->sent < sent->size)
            wrong("a send is done that has not been sent");
        if (done)
            sent->request = NULL;
        left += !done;
    }
    return left;
}

static int test_receives(void)
{
    int left = 0;

    for (int i = 0; i < w.n_groups; i++) {
        struct posted *posted = &w.groups[i];
        int done = 0, sizes[TCP_RECVS];
        if (!posted->request)
            continue;
        (void)tcp_recv_test(w.recv, (struct tcp_group *)posted->request, &done, sizes);
        for (int k = 0; done && k < posted->n; k++)
            check_slot(posted->slots[k], sizes[k]);
        if (done)
            posted->request = NULL;
        left += !done;
    }
    return left;
}

/* --- what somebody else says ------------------------------------------------------------------ */

static void say_bytes(int lane, int to_sender, const uint8_t *bytes, size_t n)
{
    w.honest = 0;
    if (w.wires[lane][to_sender] >= 0)
        (void)!send(w.wires[lane][to_sender], bytes, n, MSG_NOSIGNAL);
}

/* A frame of numbers that fit, or nearly. */
static void say_frame(int lane)
{
    struct tcp_frame frame = {.magic = TCP_MAGIC, .type = (uint8_t)(take(1) % (TCP_JOIN + 2))};
    uint8_t what = (uint8_t)take(1);
    int to_sender = what & 1, numbered = frame.type >= TCP_GOT;
    uint32_t seq = take(1), lanes = (uint32_t)w.send->n_lanes;
    const struct tcp_comm *to = to_sender ? w.send : w.recv;

    frame.seq =
        numbered ? seq : (to_sender ? to->seq_acked : to->seq_known) + (uint32_t)(int8_t)seq;
    frame.tag = (int8_t)take(1);
    frame.size = numbered   ? to->lanes[seq % lanes].turn + (uint32_t)(int8_t)take(1)
                 : what & 2 ? take(4)
                            : pick_size();
    frame.offset = what & 4 ? take(4) : take(1);
    frame.length = what & 8 ? take(4) : what & 16 ? take(2) : frame.size - frame.offset;
    frame.flags = what & 32 ? TCP_ACK_ME : 0;
    frame.spare = what & 64 ? take(4) : 0;
    if (what & 128)
        (take(1) & 1 ? (frame.zero = 1) : (frame.magic = take(4)));
    say_bytes(lane, to_sender, (const uint8_t *)&frame, sizeof frame);
}

static void say_data(int lane)
{
    size_t n = take(1) & 1 ? pick_size() : take(1);

    say_bytes(lane, 0, text, n);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void do_next(void)
{
    uint8_t what = (uint8_t)take(1);
    int lane = (what >> 4) % w.send->n_all, side = what >> 7;
    struct tcp_comm *comm = side ? w.send : w.recv;

    switch (what & 15) {
    case 0:
        if (w.n_sends < SENDS) {
            uint32_t size = pick_size();
            post_send(size, (what >> 4) % TAGS);
        }
        break;
    case 1:
        post_any();
        break;
    case 2:
        (void)carry(lane, 0, take(2), SIZE_MAX, 0);
        break;
    case 3:
        (void)carry_all(side);
        break;
    case 4:
        (void)test_sends();
        break;
    case 5:
        (void)test_receives();
        break;
    case 6:
        if (comm->failover)
            (void)tcp_control(comm);
        break;
    case 7:
        (void)tcp_arm(&comm->base);
        break;
    case 8:
        give_up(lane, (int)take(1) & 1);
        break;
    case 9:
        cut(lane);
        break;
    case 10:
        judge(comm);
        break;
    case 11:
        come_back(lane);
        break;
    case 12: {
        uint8_t by = (uint8_t)take(1);
        size_t place = take(1);
        w.honest &= !by;
        (void)carry(lane, by & 1, place + 1, place, by);
        break;
    }
    case 13:
        say_frame(lane);
        break;
    case 14:
        say_data(lane);
        break;
    default:
        for (size_t i = 0, n = take(1) % PIECES; i < n && !has_failed(); i++) {
            (void)carry(lane, 0, 1, SIZE_MAX, 0);
            (void)carry(lane, 1, 1, SIZE_MAX, 0);
            (void)tcp_arm(&w.recv->base);
            (void)tcp_arm(&w.send->base);
        }
    }
}

/* Small messages that are done may be in no socket. */
static int is_recovering(const struct tcp_comm *comm)
{
    if (comm->n_todo)
        return 1;
    for (int i = 0; i < comm->n_all; i++)
        if (comm->lanes[i].off || comm->lanes[i].say || comm->lanes[i].tx)
            return 1;
    return 0;
}

static void recover(int round)
{
    judge(w.send);
    judge(w.recv);
    (void)tcp_arm(&w.send->base); /* its owner has more to send */
    (void)tcp_control(w.recv);
    w.recv->failover->look_ms = 0;
    (void)tcp_look(w.recv);
    for (int i = 0; i < w.send->n_all && round % 4 == 3; i++)
        come_back(i);
}

/* As many receives as messages of each tag. Nobody is called without a reason. */
static void end_well(void)
{
    size_t most = MOST;
    int left = 1;

    for (int round = 0; left && round < ROUNDS && !has_failed(); round++) {
        for (int tag = 0; tag < TAGS; tag++) {
            if (w.tag_sends[tag] < w.tag_slots[tag])
                post_send(20000, tag);
            else if (w.tag_sends[tag] > w.tag_slots[tag])
                post_receive(1, &tag, &most);
        }
        left = test_sends();
        (void)carry_all(0);
        left += test_receives();
        (void)carry_all(1);
        if (w.send->failover && (is_recovering(w.send) || is_recovering(w.recv)))
            recover(round);
        for (int tag = 0; tag < TAGS; tag++)
            left += w.tag_sends[tag] != w.tag_slots[tag];
    }
    if (has_failed())
        wrong("an end has failed");
    if (left)
        wrong("it does not end");
}

static void begin(uint8_t what)
{
    int fds[ALL][2], failover = what & 1;

    memset(&w, 0, sizeof w);
    memset(w.wires, -1, sizeof w.wires);
    mn_log_set_sink(keep);
    mn_settings_default(&config.settings);
    config.hop = what >> 1 & 1;
    config.unpolled = what >> 2 & 1;
    for (int i = 0; i < (failover ? ALL : DATA); i++)
        connect_ends(i, fds[i]);
    for (uint32_t i = 0; !text[0] && i < sizeof text; i++)
        text[i] = (uint8_t)(1 + i * 2654435761u / 65536);
    w.send = open_end(1, failover, fds);
    w.recv = open_end(0, failover, fds);
    w.honest = 1;
    /* Numbers wrap. */
    uint32_t first = what & 8 ? UINT32_MAX - 20 : what & 16 ? INT32_MAX - 20u : 0;
    w.send->seq_next = w.send->seq_acked = w.send->seq_header = w.send->seq_take = first;
    w.recv->seq_known = w.recv->seq_unmatched = w.recv->seq_landed = w.recv->fence_seq = first;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    input.at = data + 1;
    input.end = data + size;
    begin(data[0]);
    while (input.at < input.end && !has_failed())
        do_next();
    if (w.honest)
        end_well();
    for (int i = 0; i < w.n_slots; i++)
        check_canary(i);
    for (int i = 0; i < w.send->n_all; i++)
        hang_up(i);
    close_end(w.send);
    close_end(w.recv);
    mn_transport_tcp.settle(&config);
    mn_log_set_sink(NULL);
    return 0;
}
