/* Any bytes as what a peer can do to a connection over RDMA: announcements in the sender's ring,
 * immediate values and lengths at the receiver, frames on the control connection. The device is a
 * few lines here and honest. No write leaves the registered buffer or the announced size, no
 * receive reports more than was posted, nothing is left behind. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/transport/verbs/pages.h"
#include "plugin/transport/verbs/verbs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINKS    2
#define PER_LINK 2
#define QPS      (LINKS * PER_LINK)
#define SEGMENT  1024
#define BUFFER   (64 * SEGMENT)
#define REQUESTS 64
#define RECEIVES 128

static struct {
    const uint8_t *at, *end;
} input;

static struct world {
    struct ibv_wc arrived[LINKS][512]; /* what polling finds next */
    unsigned head[LINKS], tail[LINKS];
    uint64_t bytes; /* of the send being posted */
} world;

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
    uint64_t value = 0;

    while (bytes-- && input.at < input.end)
        value = value << 8 | *input.at++;
    return value;
}

static void arrive(int link, struct ibv_wc wc)
{
    if (world.tail[link] - world.head[link] < 512)
        world.arrived[link][world.tail[link]++ % 512] = wc;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)bad;
    if (wr->num_sge) {
        const struct ibv_sge *sge = wr->sg_list;
        uint64_t from = sge->addr - (uintptr_t)buffer;
        int data = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if (data && (from > BUFFER || sge->length > BUFFER - from || sge->length > SEGMENT))
            abort();
        world.bytes += sge->length;
    }
    if (wr->send_flags & IBV_SEND_SIGNALED)
        arrive((int)(qp - qps) / PER_LINK,
               (struct ibv_wc){.wr_id = wr->wr_id, .qp_num = qp->qp_num});
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp, (void)wr, (void)bad;
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wcs)
{
    int link = (int)(cq - cqs), n = 0;

    while (n < most && world.head[link] != world.tail[link])
        wcs[n++] = world.arrived[link][world.head[link]++ % 512];
    return n;
}

/* To the error state: as many receive requests are flushed as were posted. */
static int changed_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    (void)attr, (void)mask;
    for (int i = 0; i < RECEIVES; i++)
        arrive((int)(qp - qps) / PER_LINK,
               (struct ibv_wc){.wr_id = verbs_wr_pack(VERBS_RECEIVED, 0, 0, 0, 0, 0),
                               .status = IBV_WC_WR_FLUSH_ERR,
                               .qp_num = qp->qp_num});
    return 0;
}
/* A link does not come back. */
static struct ibv_qp *no_qp(struct ibv_pd *pds, struct ibv_qp_init_attr *attr)
{
    (void)pds, (void)attr;
    errno = ENOMEM;
    return NULL;
}
static int gone_qp(struct ibv_qp *qp)
{
    (void)qp;
    return 0;
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

static const struct mn_ibv ibv = {.create_qp = no_qp,
                                  .modify_qp = changed_qp,
                                  .destroy_qp = gone_qp,
                                  .destroy_cq = gone_cq,
                                  .dereg_mr = gone_mr};
static struct verbs_device devices[LINKS];

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
    if (!sender && verbs_recv_prepare(comm, NULL))
        abort();
    return comm;
}

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
    }
}

static void deliver(struct verbs_comm *comm)
{
    uint8_t what = (uint8_t)take(1);
    uint32_t imm = (uint32_t)take(4), length = (uint32_t)take(what & 1 ? 4 : 2);
    int q = what >> 4 & 3;

    if (what & 2)
        imm = verbs_imm_pack(comm->seq_landed + (imm & 15), imm >> 4 & 7, (imm >> 7 & 7) + 1, 0);
    arrive(q / PER_LINK,
           (struct ibv_wc){.wr_id = verbs_wr_pack(VERBS_RECEIVED, 0, 0, 0, 0, 0),
                           .opcode = what & 8 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
                           .status = (what & 0xc4) == 0xc4 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS,
                           .qp_num = 100 + (uint32_t)q,
                           .byte_len = length,
                           .imm_data = htonl(imm)});
}

static void check_sizes(const struct verbs_comm *comm, const struct verbs_group *group,
                        const int *sizes)
{
    for (int i = 0; i < group->n; i++)
        if ((uint32_t)sizes[i] > comm->slots[(group->seq + (uint32_t)i) % VERBS_RING].capacity)
            abort();
}

/* A word of recovery with a head that fits, so that what is behind it is reached. */
static void say(struct verbs_comm *comm, int peer)
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
    if (write(peer, frame, 14 + n) == (ssize_t)(14 + n))
        (void)verbs_look(comm);
}

static void test_one(struct verbs_comm *comm, struct mn_request **request)
{
    int done = 0, sizes[VERBS_RECVS] = {0};

    if (comm->base.is_send) {
        (void)verbs_send_test(comm, (struct verbs_send *)*request, &done, sizes);
    } else {
        (void)verbs_recv_test(comm, (struct verbs_group *)*request, &done, sizes);
        if (done)
            check_sizes(comm, (struct verbs_group *)*request, sizes);
    }
    if (done)
        *request = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_request *requests[REQUESTS] = {NULL};
    int pair[2];

    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        return 0;
    mn_settings_default(&config.settings);
    memset(&world, 0, sizeof world);
    input.at = data + 1;
    input.end = data + size;
    struct verbs_comm *comm = make(data[0] & 1, pair[0], data[0] >> 1 & 1);
    while (input.at < input.end) {
        uint8_t what = (uint8_t)take(1);
        struct mn_request **request = &requests[what >> 3 & 31];
        switch (what & 7) {
        case 0:
        case 1:
            if (!*request)
                post(comm, request);
            break;
        case 2:
        case 3:
            if (comm->base.is_send)
                announce(comm);
            else
                deliver(comm);
            break;
        case 5:
            say(comm, pair[1]);
            break;
        case 4: {
            size_t left = (size_t)(input.end - input.at), n = what >> 3;
            n = n < left ? n : left;
            if (write(pair[1], input.at, n) < 0)
                break;
            input.at += n;
            comm->broken_ms = 1; /* looks at the control connection at once */
            (void)verbs_idle(comm);
            comm->broken_ms = 0;
            break;
        }
        default:
            if (*request)
                test_one(comm, request);
        }
    }
    for (int i = 0; i < REQUESTS; i++)
        if (requests[i])
            test_one(comm, &requests[i]);
    mn_transport_verbs.close(&comm->base);
    mn_transport_verbs.settle(&config);
    close(pair[1]);
    return 0;
}
