#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bench/p2p/raw.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define PAGE     4096
#define QKEY     0x6d657368
#define CTL_WRS  64
#define RETRIES  7
#define TIMEOUT  16 /* 4.096 us * 2^16, seven times: two seconds */
#define RNR_WAIT 12

/* The address of this host's end of the control connection, and the NIC that has it. */
static enum mn_err find_local(struct raw *raw, struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t length = sizeof ss;
    struct mn_addr *addr = &raw->local.addr;
    struct mn_host host = {.n_nics = 0};

    if (getsockname(raw->pump->ctl->fd, (struct sockaddr *)&ss, &length))
        return mn_fail_errno(diag, "the control connection's address");
    (void)mn_addr_from_sockaddr((const struct sockaddr *)&ss, addr);
    raw->local.gid_index = -1;
    enum mn_err err = mn_host_read(NULL, &host, diag);
    const struct mn_nic *nic = err ? NULL : mn_host_nic_by_addr(&host, addr);
    if (nic) {
        mn_strlcpy(raw->local.netdev, nic->netdev, sizeof raw->local.netdev);
        raw->local.ifindex = (uint32_t)nic->ifindex;
    }
    char text[MN_ADDR_TEXT];
    if (!err && !nic)
        err = mn_fail(diag, MN_ERR_UNSUPPORTED, "no NIC of this host has %s",
                      mn_addr_format(addr, text, sizeof text));
    mn_host_free(&host);
    return err;
}

static enum mn_err find_place(struct raw *raw, struct mn_diag *diag)
{
    struct mn_diag why = {.text = ""};
    char text[MN_ADDR_TEXT];
    enum mn_err err = find_local(raw, &why);

    if (!err)
        err = verbs_place_find(&raw->local, &raw->place, &why);
    if (err)
        return mn_fail(diag, err,
                       "--raw-verbs needs an RDMA device at both ends of the cable that the "
                       "control connection takes, %s here: %s%s",
                       raw->local.netdev[0] ? raw->local.netdev : "unknown", why.text,
                       err == MN_ERR_UNSUPPORTED ? "; give --peer an address of such a cable" : "");
    raw->ibv = raw->place.device->ibv;
    snprintf(raw->self.device, sizeof raw->self.device, "%s port %u gid %u (%s, %s)",
             raw->place.device->name, raw->place.port, raw->place.gid_index, raw->local.netdev,
             mn_addr_format(&raw->local.addr, text, sizeof text));
    return MN_OK;
}

static enum mn_err failed(const struct raw *raw, const char *what, struct mn_diag *diag)
{
    return mn_fail_errno(diag, "--raw-verbs: %s: %s", raw->self.device, what);
}

static enum mn_err register_areas(struct raw *raw, struct mn_diag *diag)
{
    struct mn_p2p_pump *pump = raw->pump;
    struct ibv_pd *pd = raw->place.device->pd;
    void *memory[RAW_MRS] = {pump->area[0], pump->area[1], raw->control};
    size_t size[RAW_MRS] = {pump->area_size, pump->area_size, PAGE};

    for (int i = 0; i < RAW_MRS; i++) {
        raw->mr[i] = raw->ibv->reg_mr(pd, memory[i], size[i],
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                          IBV_ACCESS_REMOTE_READ);
        if (!raw->mr[i])
            return failed(raw, "registering memory (see ulimit -l)", diag);
        raw->self.addr[i] = (uintptr_t)memory[i];
        raw->self.rkey[i] = raw->mr[i]->rkey;
    }
    raw->self.area = pump->area_size;
    return MN_OK;
}

static enum mn_err make_queues(struct raw *raw, struct mn_diag *diag)
{
    static const enum ibv_qp_type types[] = {
        [RAW_CTL] = IBV_QPT_RC,
        [RAW_RC] = IBV_QPT_RC,
        [RAW_UC] = IBV_QPT_UC,
        [RAW_UD] = IBV_QPT_UD,
    };
    struct ibv_context *context = raw->place.device->context;
    int most = 3 * RAW_RECEIVES * raw->depth;

    raw->send_cq = raw->ibv->create_cq(context, 3 * raw->depth + 16, NULL, NULL, 0);
    raw->recv_cq = raw->ibv->create_cq(context, most, NULL, NULL, 0);
    raw->ctl_cq = raw->ibv->create_cq(context, 2 * CTL_WRS, NULL, NULL, 0);
    if (!raw->send_cq || !raw->recv_cq || !raw->ctl_cq)
        return failed(raw, "a completion queue", diag);
    raw->inline_max = ~0u;
    for (int i = 0; i < RAW_QPS; i++) {
        struct ibv_qp_init_attr attr = {
            .send_cq = i == RAW_CTL ? raw->ctl_cq : raw->send_cq,
            .recv_cq = i == RAW_CTL ? raw->ctl_cq : raw->recv_cq,
            .qp_type = types[i],
            .cap = {.max_send_wr = i == RAW_CTL ? CTL_WRS : (uint32_t)raw->depth + 2,
                    .max_recv_wr = i == RAW_CTL ? 1 : RAW_RECEIVES * (uint32_t)raw->depth,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 64},
        };
        raw->qp[i] = raw->ibv->create_qp(raw->place.device->pd, &attr);
        if (!raw->qp[i]) {
            attr.cap.max_inline_data = 0;
            raw->qp[i] = raw->ibv->create_qp(raw->place.device->pd, &attr);
        }
        if (!raw->qp[i])
            return failed(raw, "a queue pair (RC, UC or UD)", diag);
        if (attr.cap.max_inline_data < raw->inline_max)
            raw->inline_max = attr.cap.max_inline_data;
        raw->self.qpn[i] = raw->qp[i]->qp_num;
    }
    return MN_OK;
}

enum mn_err raw_open(struct raw *raw, int depth, struct mn_diag *diag)
{
    enum mn_err err = find_place(raw, diag);

    if (err)
        return err;
    raw->depth = depth;
    raw->control = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw->control == MAP_FAILED) {
        raw->control = NULL;
        return mn_fail_errno(diag, "a page of memory");
    }
    int reads = raw->place.device->attr.max_qp_rd_atom;
    raw->self.gid = raw->place.gid;
    raw->self.lid = raw->place.lid;
    raw->self.infiniband = raw->place.infiniband;
    raw->self.mtu = raw->place.mtu;
    raw->self.reads = (uint8_t)(reads < 1 ? 1 : reads > 16 ? 16 : reads);
    err = register_areas(raw, diag);
    return err ? err : make_queues(raw, diag);
}

/* --- what the other side must know ------------------------------------------------------------ */

static void put_hex(cJSON *list, const void *data, size_t size)
{
    char text[2 * 16 + 1];

    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const uint8_t *)data)[i]);
    cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

void raw_put_end(cJSON *message, const struct raw *raw)
{
    const struct raw_end *end = &raw->self;
    cJSON *list = cJSON_AddArrayToObject(message, "keys");

    cJSON_AddStringToObject(message, "device", end->device);
    cJSON_AddNumberToObject(message, "lid", end->lid);
    cJSON_AddNumberToObject(message, "infiniband", end->infiniband);
    cJSON_AddNumberToObject(message, "mtu", end->mtu);
    cJSON_AddNumberToObject(message, "reads", end->reads);
    cJSON_AddNumberToObject(message, "area", (double)end->area);
    put_hex(list, end->gid.raw, sizeof end->gid.raw);
    for (int i = 0; i < RAW_QPS; i++)
        put_hex(list, &end->qpn[i], sizeof end->qpn[i]);
    for (int i = 0; i < RAW_MRS; i++)
        put_hex(list, &end->rkey[i], sizeof end->rkey[i]);
    for (int i = 0; i < RAW_MRS; i++)
        put_hex(list, &end->addr[i], sizeof end->addr[i]);
}

static enum mn_err get_hex(const cJSON *list, int *at, void *data, size_t size,
                           struct mn_diag *diag)
{
    const cJSON *item = cJSON_GetArrayItem(list, (*at)++);
    const char *text = cJSON_IsString(item) ? item->valuestring : "";

    if (strlen(text) != 2 * size || strspn(text, "0123456789abcdef") != 2 * size)
        return mn_fail(diag, MN_ERR_PROTO, "control message: key %d is not %zu bytes in hex",
                       *at - 1, size);
    for (size_t i = 0; i < size; i++) {
        char byte[3] = {text[2 * i], text[2 * i + 1], 0};
        ((uint8_t *)data)[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return MN_OK;
}

enum mn_err raw_get_end(const cJSON *message, struct raw_end *end, struct mn_diag *diag)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(message, "keys");
    const cJSON *device = cJSON_GetObjectItemCaseSensitive(message, "device");
    double lid, infiniband, mtu, reads, area;
    int at = 0;
    enum mn_err err = mn_ctl_number(message, "lid", 0, 65535, &lid, diag);

    if (!err)
        err = mn_ctl_number(message, "infiniband", 0, 1, &infiniband, diag);
    if (!err)
        err = mn_ctl_number(message, "mtu", IBV_MTU_256, IBV_MTU_4096, &mtu, diag);
    if (!err)
        err = mn_ctl_number(message, "reads", 1, 16, &reads, diag);
    if (!err)
        err = mn_ctl_number(message, "area", 2 * PAGE, 1e12, &area, diag);
    if (!err)
        err = get_hex(list, &at, end->gid.raw, sizeof end->gid.raw, diag);
    for (int i = 0; i < RAW_QPS && !err; i++)
        err = get_hex(list, &at, &end->qpn[i], sizeof end->qpn[i], diag);
    for (int i = 0; i < RAW_MRS && !err; i++)
        err = get_hex(list, &at, &end->rkey[i], sizeof end->rkey[i], diag);
    for (int i = 0; i < RAW_MRS && !err; i++)
        err = get_hex(list, &at, &end->addr[i], sizeof end->addr[i], diag);
    if (err)
        return err;
    end->lid = (uint16_t)lid;
    end->infiniband = infiniband != 0;
    end->mtu = (uint8_t)mtu;
    end->reads = (uint8_t)reads;
    end->area = (uint64_t)area;
    mn_strlcpy(end->device, cJSON_IsString(device) ? device->valuestring : "?", sizeof end->device);
    mn_clean(end->device);
    return MN_OK;
}

/* --- connecting ------------------------------------------------------------------------------- */

static int ready_to_receive(struct raw *raw, int i, const struct ibv_ah_attr *to)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = raw->place.port,
        .qkey = QKEY,
        .qp_access_flags =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    };
    int ud = i == RAW_UD, rc = i == RAW_RC || i == RAW_CTL;

    if (i == RAW_UC) /* reads are not of its kind */
        attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    int error = raw->ibv->modify_qp(raw->qp[i], &attr,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    if (error)
        return error;
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .ah_attr = *to,
        .path_mtu = raw->self.mtu < raw->peer.mtu ? raw->self.mtu : raw->peer.mtu,
        .dest_qp_num = raw->peer.qpn[i] & 0xffffff,
        .rq_psn = raw->peer.qpn[i] & 0xffffff,
        .max_dest_rd_atomic = raw->self.reads,
        .min_rnr_timer = RNR_WAIT,
    };
    return raw->ibv->modify_qp(raw->qp[i], &attr,
                               IBV_QP_STATE |
                                   (ud ? 0
                                       : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                             IBV_QP_RQ_PSN) |
                                   (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
}

static int ready_to_send(struct raw *raw, int i)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = raw->self.qpn[i] & 0xffffff,
        .timeout = TIMEOUT,
        .retry_cnt = RETRIES,
        .rnr_retry = RETRIES,
        .max_rd_atomic = raw->self.reads < raw->peer.reads ? raw->self.reads : raw->peer.reads,
    };
    int rc = i == RAW_RC || i == RAW_CTL;

    return raw->ibv->modify_qp(raw->qp[i], &attr,
                               IBV_QP_STATE | IBV_QP_SQ_PSN |
                                   (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                             IBV_QP_MAX_QP_RD_ATOMIC
                                       : 0));
}

enum mn_err raw_connect(struct raw *raw, struct mn_diag *diag)
{
    struct ibv_ah_attr to = {.port_num = raw->place.port};
    struct mn_rdma_end from = {.infiniband = raw->self.infiniband, .grh = raw->place.grh},
                       end = {.lid = raw->peer.lid};
    int mtu = raw->self.mtu < raw->peer.mtu ? raw->self.mtu : raw->peer.mtu;

    if (raw->self.infiniband != raw->peer.infiniband)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "--raw-verbs: %s and the peer's %s are not on one "
                       "network: one is InfiniBand, one Ethernet",
                       raw->self.device, raw->peer.device);
    raw->mtu = 128 << mtu;
    memcpy(from.gid, raw->self.gid.raw, sizeof from.gid);
    memcpy(end.gid, raw->peer.gid.raw, sizeof end.gid);
    verbs_path(&from, &end, &to);
    to.grh.sgid_index = (uint8_t)raw->place.gid_index;
    to.grh.hop_limit = 64;
    for (int i = 0; i < RAW_QPS; i++) {
        int error = ready_to_receive(raw, i, &to);
        if (!error)
            error = ready_to_send(raw, i);
        if (error) {
            errno = error;
            return mn_fail_errno(diag, "--raw-verbs: %s cannot reach the peer's %s",
                                 raw->self.device, raw->peer.device);
        }
    }
    raw->ah = raw->ibv->create_ah(raw->place.device->pd, &to);
    return raw->ah ? MN_OK : failed(raw, "an address handle", diag);
}

void raw_close(struct raw *raw)
{
    for (int i = 0; i < RAW_QPS; i++)
        if (raw->qp[i])
            raw->ibv->destroy_qp(raw->qp[i]);
    if (raw->ah)
        raw->ibv->destroy_ah(raw->ah);
    struct ibv_cq *cqs[] = {raw->send_cq, raw->recv_cq, raw->ctl_cq};
    for (int i = 0; i < 3; i++)
        if (cqs[i])
            raw->ibv->destroy_cq(cqs[i]);
    for (int i = 0; i < RAW_MRS; i++)
        if (raw->mr[i])
            raw->ibv->dereg_mr(raw->mr[i]);
    if (raw->control)
        munmap(raw->control, PAGE);
    verbs_devices_quit();
}
