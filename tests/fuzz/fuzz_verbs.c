/* Any bytes as what a peer, its cables and its host can do to a connection over RDMA: announcements
 * in the sender's ring, immediate values and lengths at the receiver, frames on the control
 * connection, which is lost and opened again; links that fail, are silent, and come back. The
 * device is a few lines here and honest, and the clock is the input's. No write leaves the
 * registered buffer or the announced size, no receive reports more than was posted, nothing is left
 * behind. */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/reopen_impl.h"
#include "plugin/transport/verbs/pages.h"
#include "plugin/transport/verbs/verbs.h"
#include "tests/fuzz/fuzz_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINKS    2
#define PER_LINK 2
#define QPS      (LINKS * PER_LINK)
#define SEGMENT  4096
#define BUFFER   (64 * SEGMENT)
#define REQUESTS 16
#define RECEIVES 128
#define QUEUE    1024
#define HELD     256
#define BURSTS   1024 /* requests of all bursts of an input */
#define START_MS 100000

/* What an input does in turn: the low four bits; the others name a request. */
enum op {
    POST,
    ARRIVE, /* an announcement, or a write */
    TEST,
    SAY,     /* a word about a link */
    WRITE,   /* anything on the control connection */
    LOOK,    /* some time later */
    HOLD,    /* completions wait from here on, or no more */
    RELEASE, /* some that wait, by a status */
    STALE,   /* of queue pairs that are no more */
    PORT,
    DEVICE, /* takes nothing, or gives no queue pairs */
    PEER,   /* closes, or resets, the control connection */
    REOPEN,
    BURST /* requests that nobody tests */
};

static struct fuzz_input input;

static struct world {
    struct ibv_wc arrived[LINKS][QUEUE]; /* what polling finds next */
    unsigned head[LINKS], tail[LINKS];
    struct ibv_wc held[HELD];
    unsigned n_held;
    int holds, refuses, no_qp;
    uint64_t bytes; /* of the send being posted */
    struct qp {
        int made, failed;
        unsigned receives;
    } qps[QPS];
    int peer; /* its end of the control connection; -1: none */
    unsigned bursts;
    struct mn_request *requests[REQUESTS];
    uint32_t room[REQUESTS][VERBS_RECVS]; /* of receives */
} world;

static _Thread_local uint64_t clock_ms; /* 0: the kernel's */

static struct mn_config config;
static struct ibv_context context;
static struct ibv_pd pd;
static struct ibv_cq cqs[LINKS];
static struct ibv_qp qps[QPS];
static struct ibv_mr mr = {.lkey = 7, .rkey = 8};
static uint8_t buffer[BUFFER];
static struct verbs_memory memory = {.mrs = {&mr, &mr}, .length = BUFFER, .type = NCCL_PTR_HOST};

static uint64_t take(int bytes)
{
    return fuzz_take(&input, bytes);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_MONOTONIC || !clock_ms)
        return (int)syscall(SYS_clock_gettime, id, ts);
    *ts = (struct timespec){.tv_sec = (time_t)(clock_ms / 1000),
                            .tv_nsec = (long)(clock_ms % 1000) * 1000000};
    return 0;
}

/* --- the device ------------------------------------------------------------------------------- */

static void arrive(int link, struct ibv_wc wc)
{
    if (world.tail[link] - world.head[link] < QUEUE)
        world.arrived[link][world.tail[link]++ % QUEUE] = wc;
}

static int link_of(const struct ibv_qp *qp)
{
    return (int)(qp - qps) / PER_LINK;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int failed = world.qps[qp - qps].failed;
    struct ibv_wc wc = {.wr_id = wr->wr_id,
                        .qp_num = qp->qp_num,
                        .status = failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS};

    (void)bad;
    if (world.refuses)
        return ENOMEM;
    if (wr->num_sge) {
        const struct ibv_sge *sge = wr->sg_list;
        uint64_t from = sge->addr - (uintptr_t)buffer;
        int data = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if (data && (from > BUFFER || sge->length > BUFFER - from || sge->length > SEGMENT))
            abort();
        world.bytes += sge->length;
    }
    if (!(wr->send_flags & IBV_SEND_SIGNALED))
        return 0;
    if (world.holds && !failed && world.n_held < HELD)
        world.held[world.n_held++] = wc;
    else
        arrive(link_of(qp), wc);
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)bad;
    if (world.refuses)
        return ENOMEM;
    for (; wr; wr = wr->next)
        world.qps[qp - qps].receives++;
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wcs)
{
    int link = (int)(cq - cqs), n = 0;

    while (n < most && world.head[link] != world.tail[link])
        wcs[n++] = world.arrived[link][world.head[link]++ % QUEUE];
    return n;
}

/* So many of those that wait, the oldest first, of a queue pair number or of all (0). */
static void release(unsigned n, uint32_t number, enum ibv_wc_status status)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < world.n_held; i++) {
        struct ibv_wc wc = world.held[i];
        int q = 0;
        if (!n || (number && wc.qp_num != number)) {
            world.held[kept++] = wc;
            continue;
        }
        n--;
        while (q < QPS - 1 && qps[q].qp_num != wc.qp_num)
            q++;
        wc.status = status;
        arrive(q / PER_LINK, wc);
    }
    world.n_held = kept;
}

/* To the error state: what was posted is flushed. */
static int changed_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct qp *own = &world.qps[qp - qps];

    (void)mask;
    if (attr->qp_state != IBV_QPS_ERR || own->failed)
        return 0;
    own->failed = 1;
    release(HELD, qp->qp_num, IBV_WC_WR_FLUSH_ERR);
    for (; own->receives; own->receives--)
        arrive(link_of(qp), (struct ibv_wc){.wr_id = verbs_wr_pack(VERBS_RECEIVED, 0, 0, 0, 0, 0),
                                            .status = IBV_WC_WR_FLUSH_ERR,
                                            .qp_num = qp->qp_num});
    return 0;
}

/* By a job, while nothing else is done. */
static struct ibv_qp *new_qp(struct ibv_pd *pds, struct ibv_qp_init_attr *attr)
{
    (void)pds;
    for (int q = 0; q < QPS && !world.no_qp; q++)
        if (&cqs[q / PER_LINK] == attr->send_cq && !world.qps[q].made) {
            world.qps[q] = (struct qp){.made = 1};
            qps[q].qp_num += QPS;
            return &qps[q];
        }
    errno = ENOMEM;
    return NULL;
}

static int gone_qp(struct ibv_qp *qp)
{
    world.qps[qp - qps].made = 0;
    return 0;
}

static int no_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

static int gone_cq(struct ibv_cq *cq)
{
    (void)cq;
    return 0;
}
static int gone_mr(struct ibv_mr *region)
{
    (void)region;
    return 0;
}

static const struct mn_ibv ibv = {.create_qp = new_qp,
                                  .modify_qp = changed_qp,
                                  .query_ece = no_ece,
                                  .set_ece = no_ece,
                                  .destroy_qp = gone_qp,
                                  .destroy_cq = gone_cq,
                                  .dereg_mr = gone_mr};
static struct verbs_device devices[LINKS];

/* --- the connection --------------------------------------------------------------------------- */

static struct verbs_comm *make(int sender, int control, int failover)
{
    struct verbs_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        abort();
    context.ops.post_send = post_send;
    context.ops.post_recv = post_recv;
    context.ops.poll_cq = poll_cq;
    memory.base = (uintptr_t)buffer;
    comm->base = (struct mn_comm){.ops = &mn_transport_verbs, .is_send = sender};
    comm->config = &config;
    comm->broken_link = comm->job_link = -1;
    comm->failover = failover;
    comm->n_links = LINKS;
    comm->n_qps = QPS;
    comm->max_segment = SEGMENT;
    comm->max_message = VERBS_SEGMENTS * SEGMENT;
    comm->rq_depth = RECEIVES;
    for (int i = 0; i < LINKS; i++) {
        devices[i] = (struct verbs_device){.ibv = &ibv,
                                           .context = &context,
                                           .pd = &pd,
                                           .index = i,
                                           .name = "fuzz"};
        cqs[i].context = &context;
        comm->links[i] = (struct verbs_link){.device = &devices[i],
                                             .cq = &cqs[i],
                                             .ring_mr = &mr,
                                             .first_qp = i * PER_LINK,
                                             .n_qps = PER_LINK};
    }
    for (int q = 0; q < QPS; q++) {
        qps[q] = (struct ibv_qp){.context = &context, .qp_num = 100 + (uint32_t)q};
        world.qps[q].made = 1;
        comm->qps[q] = (struct verbs_qp){.qp = &qps[q],
                                         .number = qps[q].qp_num,
                                         .link = (uint8_t)(q / PER_LINK),
                                         .depth = 32};
        comm->ways[q].weight = comm->full_weight[q] = 100;
    }
    comm->ring = verbs_pages_new(VERBS_RING * sizeof *comm->ring);
    comm->sends = calloc(VERBS_SLOTS, sizeof *comm->sends);
    comm->parts = calloc((size_t)VERBS_SLOTS * QPS, sizeof *comm->parts);
    comm->groups = calloc(VERBS_SLOTS, sizeof *comm->groups);
    comm->slots = calloc(VERBS_RING, sizeof *comm->slots);
    if (!comm->ring || !comm->sends || !comm->parts || !comm->groups || !comm->slots)
        abort();
    memset(comm->free_sends, 0xff, sizeof comm->free_sends);
    for (int i = 0; i < VERBS_SLOTS; i++)
        comm->sends[i].parts = comm->parts + i * QPS;
    comm->seq = comm->seq_next = comm->seq_announced = comm->seq_landed = VERBS_FIRST_SEQ;
    mn_chan_init(&comm->control, control);
    comm->reopen = mn_reopen_new(&(struct mn_conn){.config = &config}, 1);
    if (!sender && verbs_recv_prepare(comm, NULL))
        abort();
    return comm;
}

/* --- what happens ----------------------------------------------------------------------------- */

/* An announcement as a device writes it; mended, so that those behind the check are reached. */
static void announce(struct verbs_comm *comm)
{
    uint32_t seq = comm->seq + (uint32_t)take(1) % 8;
    struct verbs_cts *cts = &comm->ring[seq % VERBS_RING];
    uint8_t what = (uint8_t)take(1);

    cts->address = take(2);
    cts->size = (uint32_t)take(what & 1 ? 4 : 2);
    cts->tag = (int32_t)take(1) % 4;
    cts->n = (uint8_t)(take(1) % 10);
    cts->index = what & 2 ? (uint8_t)take(1) : (uint8_t)(seq - comm->seq);
    cts->seq = what & 4 ? (uint32_t)take(4) : seq;
    cts->parts = (uint16_t)(what >> 4);
    if (what & 8)
        cts->check = (uint32_t)take(4);
    else
        verbs_cts_seal(cts);
}

static void post(struct verbs_comm *comm, struct mn_request **request)
{
    if (comm->base.is_send) {
        size_t size = (size_t)take(3) % (BUFFER + 100);
        world.bytes = 0;
        if (!verbs_isend(&comm->base, buffer, size, (int)take(1) % 4, &memory, request) &&
            *request && (world.bytes > size || size > ((struct verbs_send *)*request)->cts.size))
            abort();
    } else {
        int n = 1 + (int)take(1) % VERBS_RECVS, tags[VERBS_RECVS];
        size_t sizes[VERBS_RECVS];
        void *data[VERBS_RECVS], *memories[VERBS_RECVS];
        for (int i = 0; i < n; i++) {
            sizes[i] = (size_t)take(2);
            tags[i] = i;
            data[i] = buffer;
            memories[i] = &memory;
        }
        (void)verbs_irecv(&comm->base, n, data, sizes, tags, memories, request);
        for (int i = 0; i < n && *request; i++)
            world.room[request - world.requests][i] = (uint32_t)sizes[i];
    }
}

static enum ibv_wc_status a_status(unsigned which)
{
    static const enum ibv_wc_status statuses[] = {IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR,
                                                  IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR};

    return statuses[which & 3];
}

/* A write, of any immediate value or one of the announcements that are open. */
static void deliver(struct verbs_comm *comm)
{
    uint8_t what = (uint8_t)take(1);
    uint32_t imm = (uint32_t)take(4), length = (uint32_t)take(what & 1 ? 4 : 2);
    int q = what >> 4 & 3, link = q / PER_LINK;

    if (what & 2)
        imm = verbs_imm_pack(comm->seq_landed + (imm & 15), imm >> 4 & 7, (imm >> 7 & 7) + 1,
                             comm->links[link].recovery.turn & 31);
    if (!world.qps[q].made || world.qps[q].failed || !world.qps[q].receives)
        return;
    world.qps[q].receives--;
    arrive(link, (struct ibv_wc){.wr_id = verbs_wr_pack(VERBS_RECEIVED, 0, 0, 0, 0, 0),
                                 .opcode = what & 8 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
                                 .status = what & 4 ? a_status(what >> 6) : IBV_WC_SUCCESS,
                                 .qp_num = qps[q].qp_num,
                                 .byte_len = length,
                                 .imm_data = htonl(imm)});
}

static void look(struct verbs_comm *comm)
{
    if (!verbs_error(comm))
        (void)verbs_look(comm);
}

/* 0: there is nobody to hear it. */
static int tell(const uint8_t *bytes, size_t n)
{
    return world.peer >= 0 && send(world.peer, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* A word of recovery with a head that fits, so that what is behind it is reached. */
static void say(struct verbs_comm *comm)
{
    uint8_t frame[8 + 6 + 255] = {0x4d, 0x53, 0x46, 0x31, MN_FRAME_LINK, 0},
                          what = (uint8_t)take(1);
    size_t left = (size_t)(input.end - input.at), n = (size_t)take(1);
    int link = what >> 3 & 1;
    uint32_t turn = comm->links[link].recovery.turn + (what >> 4 & 3) - 1;

    n = n < left ? n : left;
    frame[6] = (uint8_t)(n + 6);
    frame[7] = (uint8_t)((n + 6) >> 8);
    frame[8] = what & 7;
    frame[9] = (uint8_t)link;
    memcpy(frame + 10, &turn, sizeof turn);
    for (size_t i = 0; i < n; i++)
        frame[14 + i] = (uint8_t)take(1);
    if (tell(frame, 14 + n) && !(what & 64))
        look(comm);
}

static void write_any(struct verbs_comm *comm)
{
    size_t n = (size_t)take(1), left = (size_t)(input.end - input.at);

    n = n < left ? n : left;
    if (tell(input.at, n))
        input.at += n;
    look(comm);
}

/* Nothing that is counted: the device knows the queue pair no more. */
static void stale(struct verbs_comm *comm)
{
    uint8_t what = (uint8_t)take(1);
    unsigned q = what & 1 ? VERBS_QPS - 1 : what >> 1 & 3;

    arrive(what >> 2 & 1,
           (struct ibv_wc){.wr_id = verbs_wr_pack(comm->base.is_send ? VERBS_DATA : VERBS_ANNOUNCED,
                                                  0, 0, 0, q, 0),
                           .qp_num = 99});
}

static void port(struct verbs_comm *comm)
{
    static const int fatal[] = {0, IBV_EVENT_QP_FATAL + 1, IBV_EVENT_DEVICE_FATAL + 1,
                                IBV_EVENT_CQ_ERR + 1};
    uint8_t what = (uint8_t)take(1);
    struct verbs_watch *watch = &comm->links[what & 1].watch;

    atomic_store(&watch->port_down, what & 2 ? (unsigned)clock_ms : 0);
    if (fatal[what >> 2 & 3])
        atomic_store(&watch->fatal, fatal[what >> 2 & 3]);
}

/* What it has not read yet makes it a reset. */
static void lose(struct verbs_comm *comm, int reset)
{
    if (world.peer < 0)
        return;
    if (reset && comm->control.fd >= 0)
        (void)send(comm->control.fd, "", 1, MSG_NOSIGNAL);
    close(world.peer);
    world.peer = -1;
}

static void reopen(struct verbs_comm *comm)
{
    int pair[2];

    if (!comm->reopen || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return;
    if (world.peer >= 0)
        close(world.peer);
    world.peer = pair[1];
    mn_reopen_give(comm->reopen, pair[0]);
}

/* As many as there is room for, each announced before. */
static void burst(struct verbs_comm *comm)
{
    unsigned n = (unsigned)take(2);
    struct mn_request *request = NULL;
    void *data = buffer, *mhandle = &memory;
    size_t size = 0;
    int tag = 0;

    for (; n && world.bursts < BURSTS; n--, world.bursts++) {
        struct verbs_cts *cts = &comm->ring[comm->seq % VERBS_RING];
        if (!comm->base.is_send) {
            (void)verbs_irecv(&comm->base, 1, &data, &size, &tag, &mhandle, &request);
            continue;
        }
        *cts = (struct verbs_cts){.size = SEGMENT, .n = 1, .seq = comm->seq};
        verbs_cts_seal(cts);
        (void)verbs_isend(&comm->base, buffer, 0, 0, &memory, &request);
    }
}

static void test_one(struct verbs_comm *comm, struct mn_request **request)
{
    int done = 0, sizes[VERBS_RECVS] = {0};

    if (comm->base.is_send)
        (void)verbs_send_test(comm, (struct verbs_send *)*request, &done, sizes);
    else
        (void)verbs_recv_test(comm, (struct verbs_group *)*request, &done, sizes);
    for (int i = 0; i < VERBS_RECVS && done && !comm->base.is_send; i++)
        if ((uint32_t)sizes[i] > world.room[request - world.requests][i])
            abort();
    if (done)
        *request = NULL;
}

/* A job works at what the device has: nothing else happens meanwhile. */
static void let_work(struct verbs_comm *comm)
{
    while (atomic_load(&comm->job_state) == JOB_RUNNING)
        sched_yield();
}

static void happen(struct verbs_comm *comm)
{
    uint8_t what = (uint8_t)take(1);
    struct mn_request **request = &world.requests[what >> 4];

    switch (what & 15) {
    case POST:
        if (!*request)
            post(comm, request);
        break;
    case ARRIVE:
        if (comm->base.is_send)
            announce(comm);
        else
            deliver(comm);
        break;
    case SAY:
        say(comm);
        break;
    case WRITE:
        write_any(comm);
        break;
    case LOOK:
        clock_ms += take(2);
        look(comm);
        break;
    case HOLD:
        world.holds = what >> 4 & 1;
        break;
    case RELEASE:
        release((unsigned)take(1), 0, a_status(what >> 4));
        break;
    case STALE:
        stale(comm);
        break;
    case PORT:
        port(comm);
        break;
    case DEVICE:
        world.refuses = what >> 4 & 1;
        world.no_qp = what >> 5 & 1;
        break;
    case PEER:
        lose(comm, what >> 4 & 1);
        break;
    case REOPEN:
        reopen(comm);
        break;
    case BURST:
        burst(comm);
        break;
    default:
        if (*request)
            test_one(comm, request);
    }
    let_work(comm);
}

/* The first byte: which end, and whether links fail over. */
static struct verbs_comm *drive(const uint8_t *data, size_t size)
{
    int pair[2];

    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return NULL;
    mn_settings_default(&config.settings);
    memset(&world, 0, sizeof world);
    world.peer = pair[1];
    clock_ms = START_MS;
    input.at = data + 1;
    input.end = data + size;
    struct verbs_comm *comm = make(data[0] & 1, pair[0], data[0] >> 1 & 1);
    while (input.at < input.end)
        happen(comm);
    return comm;
}

static void end(struct verbs_comm *comm)
{
    for (int i = 0; i < REQUESTS; i++)
        if (world.requests[i])
            test_one(comm, &world.requests[i]);
    let_work(comm);
    clock_ms = 0;
    mn_transport_verbs.close(&comm->base);
    mn_transport_verbs.settle(&config);
    if (world.peer >= 0)
        close(world.peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct verbs_comm *comm = drive(data, size);

    if (comm)
        end(comm);
    return 0;
}
