/* Inside of bench/p2p: messages moved by verbs alone, on queue pairs of its own over the cable of
 * the control connection, from and into the buffers that the plugin uses. raw_open.c makes and
 * connects them, raw_post.c posts and polls, raw_stream.c and raw_pingpong.c move, raw_run.c plans.
 */
#ifndef MN_P2P_RAW_H
#define MN_P2P_RAW_H

#include "bench/p2p/message.h"
#include "bench/p2p/session.h"
#include "plugin/transport/verbs/device.h"

#define RAW_DEPTH_MAX 256
#define RAW_RECEIVES  4   /* posted, for each request under way */
#define RAW_WORDS     64  /* bytes a word of the control page has for itself */
#define RAW_RESEND    0.1 /* seconds until what was sent unreliably counts as lost */

enum { RAW_CTL, RAW_RC, RAW_UC, RAW_UD, RAW_QPS };         /* queue pairs */
enum { RAW_OUT, RAW_IN, RAW_CONTROL, RAW_MRS };            /* areas of the pump, control page */
enum { RAW_CREDIT, RAW_FINISH, RAW_ALIVE, RAW_CELLS = 3 }; /* words the other side writes */

/* How a kind of operation works; rows of enum mn_raw_kind. */
struct raw_way {
    int qp;
    enum ibv_wr_opcode opcode;
    int notifies; /* uses up a receive at the other side, which counts what arrives */
    int reliable;
};
extern const struct raw_way raw_ways[MN_RAW_KINDS];

/* What the other side must know. */
struct raw_end {
    union ibv_gid gid;
    uint16_t lid;
    uint8_t infiniband, mtu, reads;
    uint32_t qpn[RAW_QPS], rkey[RAW_MRS];
    uint64_t addr[RAW_MRS], area;
    char device[MN_RAW_DEVICE];
};

struct raw {
    struct mn_p2p_pump *pump;
    struct verbs_place place;
    const struct mn_ibv *ibv;
    struct mn_local local;
    struct ibv_cq *send_cq, *recv_cq, *ctl_cq;
    struct ibv_qp *qp[RAW_QPS];
    struct ibv_ah *ah;
    struct ibv_mr *mr[RAW_MRS];
    uint8_t *control; /* a page: words, then what is written into the other side's */
    struct raw_end self, peer;
    int depth, mtu; /* requests under way; bytes */
    uint32_t inline_max;
    int receives[RAW_QPS]; /* posted */
    unsigned staged, ctl_under_way;
    uint16_t run; /* number of the measurement: what is late from one before does not count */
};

/* What the side that began saw. */
struct raw_seen {
    double seconds;
    uint64_t lost;
};

/* MN_ERR_UNSUPPORTED when the control connection's NIC has no RDMA device. raw->pump is set, with
 * its buffers. Close in every case. */
enum mn_err raw_open(struct raw *raw, int depth, struct mn_diag *diag);
void raw_put_end(cJSON *message, const struct raw *raw);
enum mn_err raw_get_end(const cJSON *message, struct raw_end *end, struct mn_diag *diag);
/* raw->peer is set. */
enum mn_err raw_connect(struct raw *raw, struct mn_diag *diag);
void raw_close(struct raw *raw);

/* Before either side begins: receives posted, words and buffers of the run before gone. */
enum mn_err raw_prepare(struct raw *raw, enum mn_raw_kind kind, size_t size, unsigned run,
                        struct mn_diag *diag);
/* One request; wr_id is number. imm < 0: none. The caller keeps fewer than depth under way. */
enum mn_err raw_post(struct raw *raw, enum mn_raw_kind kind, uint64_t number, size_t size,
                     int64_t imm, int signaled, struct mn_diag *diag);
/* Completions, all good ones: their count, or -1 with *diag. */
int raw_poll(struct raw *raw, struct ibv_cq *cq, struct ibv_wc *wc, int n, struct mn_diag *diag);
/* Gives back receives that were used. */
enum mn_err raw_top_up(struct raw *raw, int qp, int used, struct mn_diag *diag);
/* Writes a word of the other side's control page, stamped with the run. */
enum mn_err raw_tell(struct raw *raw, int word, uint64_t value, struct mn_diag *diag);
/* Until all such writes have arrived. */
enum mn_err raw_told(struct raw *raw, struct mn_diag *diag);
/* What the other side wrote in this run, 0 before. */
uint64_t raw_word(const struct raw *raw, int word);
uint8_t *raw_slot(const struct raw *raw, int area, uint64_t number, size_t size);

/* count messages to the other side; *seen is the beginning side's. follow: until that has ended. */
enum mn_err raw_stream(struct raw *raw, enum mn_raw_kind kind, size_t size, uint64_t count,
                       struct raw_seen *seen, struct mn_diag *diag);
enum mn_err raw_stream_follow(struct raw *raw, enum mn_raw_kind kind, uint64_t count,
                              struct mn_diag *diag);
/* rtts: microseconds there and back, count entries. */
enum mn_err raw_pingpong(struct raw *raw, enum mn_raw_kind kind, size_t size, uint64_t count,
                         float *rtts, struct raw_seen *seen, struct mn_diag *diag);
enum mn_err raw_pingpong_follow(struct raw *raw, enum mn_raw_kind kind, size_t size,
                                struct mn_diag *diag);

#endif
