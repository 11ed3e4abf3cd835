#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "bench/p2p/raw.h"

#define QKEY      0x6d657368
#define STAGE     1024 /* in the control page: what goes to the other side's words */
#define STAGES    64
#define CTL_MOST  32 /* writes of words under way */
#define RUN_SHIFT 48

const char *const mn_raw_names[MN_RAW_KINDS] = {
    [MN_RAW_PLUGIN] = "plugin",   [MN_RAW_RC_WRITE] = "RC write", [MN_RAW_RC_SEND] = "RC send",
    [MN_RAW_RC_READ] = "RC read", [MN_RAW_UC_WRITE] = "UC write", [MN_RAW_UC_SEND] = "UC send",
    [MN_RAW_UD_SEND] = "UD send",
};

const struct raw_way raw_ways[MN_RAW_KINDS] = {
    [MN_RAW_RC_WRITE] = {RAW_RC, IBV_WR_RDMA_WRITE, 0, 1},
    [MN_RAW_RC_SEND] = {RAW_RC, IBV_WR_SEND, 1, 1},
    [MN_RAW_RC_READ] = {RAW_RC, IBV_WR_RDMA_READ, 0, 1},
    [MN_RAW_UC_WRITE] = {RAW_UC, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0},
    [MN_RAW_UC_SEND] = {RAW_UC, IBV_WR_SEND, 1, 0},
    [MN_RAW_UD_SEND] = {RAW_UD, IBV_WR_SEND, 1, 0},
};

/* Slots leave room for the head of a datagram. */
static size_t stride(size_t size)
{
    return (size + MN_P2P_PAGE - 1) / MN_P2P_PAGE * MN_P2P_PAGE + MN_P2P_PAGE;
}

static uint64_t offset(uint64_t area, uint64_t number, size_t size)
{
    uint64_t slots = area / stride(size);

    return number % (slots ? slots : 1) * stride(size);
}

uint8_t *raw_slot(const struct raw *raw, int area, uint64_t number, size_t size)
{
    return raw->pump->area[area] + offset(raw->pump->area_size, number, size);
}

static enum mn_err refused(const struct raw *raw, const char *what, int error, struct mn_diag *diag)
{
    errno = error;
    return mn_fail_errno(diag, "--raw-verbs: %s: %s", raw->self.device, what);
}

/* A receive fits whatever comes: the whole area is one buffer that all of them share. */
enum mn_err raw_top_up(struct raw *raw, int qp, int used, struct mn_diag *diag)
{
    raw->receives[qp] -= used;
    while (raw->receives[qp] < RAW_RECEIVES * raw->depth) {
        size_t size = raw->pump->area_size, most = (1u << 30) + MN_P2P_PAGE;
        struct ibv_sge sge = {(uintptr_t)raw->pump->area[1], (uint32_t)(size < most ? size : most),
                              raw->mr[RAW_IN]->lkey};
        struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
        int error = ibv_post_recv(raw->qp[qp], &wr, &bad);
        if (error)
            return refused(raw, "posting a receive", error, diag);
        raw->receives[qp]++;
    }
    return MN_OK;
}

enum mn_err raw_prepare(struct raw *raw, enum mn_raw_kind kind, size_t size, unsigned run,
                        struct mn_diag *diag)
{
    raw->run = (uint16_t)run;
    raw_slot(raw, RAW_IN, 0, size)[size ? size - 1 : 0] = 0;
    return raw_ways[kind].notifies ? raw_top_up(raw, raw_ways[kind].qp, 0, diag) : MN_OK;
}

enum mn_err raw_post(struct raw *raw, enum mn_raw_kind kind, uint64_t number, size_t size,
                     int64_t imm, int signaled, struct mn_diag *diag)
{
    const struct raw_way *way = &raw_ways[kind];
    int read = way->opcode == IBV_WR_RDMA_READ;
    struct ibv_sge sge = {(uintptr_t)raw_slot(raw, read, number, size), (uint32_t)size,
                          raw->mr[read ? RAW_IN : RAW_OUT]->lkey};
    struct ibv_send_wr wr = {.wr_id = number + 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = way->opcode,
                             .send_flags = signaled ? IBV_SEND_SIGNALED : 0},
                       *bad;

    if (imm >= 0 && wr.opcode == IBV_WR_SEND)
        wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl((uint32_t)imm);
    if (!read && size <= raw->inline_max)
        wr.send_flags |= IBV_SEND_INLINE;
    if (way->qp == RAW_UD) {
        wr.wr.ud.ah = raw->ah;
        wr.wr.ud.remote_qpn = raw->peer.qpn[RAW_UD];
        wr.wr.ud.remote_qkey = QKEY;
    } else {
        int area = read ? RAW_OUT : RAW_IN;
        wr.wr.rdma.remote_addr = raw->peer.addr[area] + offset(raw->peer.area, number, size);
        wr.wr.rdma.rkey = raw->peer.rkey[area];
    }
    int error = ibv_post_send(raw->qp[way->qp], &wr, &bad);
    return error ? refused(raw, mn_raw_names[kind], error, diag) : MN_OK;
}

static const char *meaning(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR       ? "no answer on the link"
           : status == IBV_WC_RNR_RETRY_EXC_ERR ? "the peer had no receive posted"
           : status == IBV_WC_WR_FLUSH_ERR      ? "the queue pair is in error"
           : status == IBV_WC_REM_ACCESS_ERR    ? "the peer's device refuses the access"
                                                : "the device reports an error";
}

int raw_poll(struct raw *raw, struct ibv_cq *cq, struct ibv_wc *wc, int n, struct mn_diag *diag)
{
    int got = ibv_poll_cq(cq, n, wc);

    for (int i = 0; i < got; i++)
        if (wc[i].status != IBV_WC_SUCCESS) {
            mn_fail(diag, MN_ERR_FAILED,
                    "--raw-verbs: %s to the peer's %s: %s (completion status %d, vendor 0x%x)",
                    raw->self.device, raw->peer.device, meaning(wc[i].status), (int)wc[i].status,
                    wc[i].vendor_err);
            return -1;
        }
    if (got < 0)
        mn_fail(diag, MN_ERR_FAILED, "--raw-verbs: %s: polling a completion queue failed",
                raw->self.device);
    return got;
}

static enum mn_err drain(struct raw *raw, unsigned most, struct mn_diag *diag)
{
    struct mn_p2p_watch w = {.pump = raw->pump, .what = "writing a word by RDMA"};
    struct ibv_wc wc[16];
    enum mn_err err = MN_OK;

    while (raw->ctl_under_way > most && !err) {
        int got = raw_poll(raw, raw->ctl_cq, wc, 16, diag);
        if (got < 0)
            return MN_ERR_FAILED;
        raw->ctl_under_way -= (unsigned)got;
        if (!got)
            err = mn_p2p_idle(&w, diag);
    }
    return err;
}

enum mn_err raw_tell(struct raw *raw, int word, uint64_t value, struct mn_diag *diag)
{
    size_t at = STAGE + raw->staged++ % STAGES * sizeof(uint64_t);
    uint64_t stamped = (uint64_t)raw->run << RUN_SHIFT | (value & ((1ull << RUN_SHIFT) - 1));
    struct ibv_sge sge = {(uintptr_t)raw->control + at, sizeof stamped, raw->mr[RAW_CONTROL]->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = raw->peer.addr[RAW_CONTROL] +
                                                        (uint64_t)word * RAW_WORDS,
                                         .rkey = raw->peer.rkey[RAW_CONTROL]}},
                       *bad;
    enum mn_err err = drain(raw, CTL_MOST - 1, diag);

    if (err)
        return err;
    memcpy(raw->control + at, &stamped, sizeof stamped);
    int error = ibv_post_send(raw->qp[RAW_CTL], &wr, &bad);
    raw->ctl_under_way += !error;
    return error ? refused(raw, "writing a word", error, diag) : MN_OK;
}

enum mn_err raw_told(struct raw *raw, struct mn_diag *diag)
{
    return drain(raw, 0, diag);
}

uint64_t raw_word(const struct raw *raw, int word)
{
    uint64_t value =
        *(const volatile uint64_t *)(const void *)(raw->control + (size_t)word * RAW_WORDS);

    return value >> RUN_SHIFT == raw->run ? value & ((1ull << RUN_SHIFT) - 1) : 0;
}
