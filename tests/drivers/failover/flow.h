/* One connection of a scene: what is sent over it, and what must be true of it. */
#ifndef MN_FAILOVER_FLOW_H
#define MN_FAILOVER_FLOW_H

#include "tests/drivers/failover/failover.h"
#include "tests/drivers/guard.h"

#define FO_MEMBERS 8
#define FO_LARGE                                                                                   \
    (320u << 10) /* capacity of the first buffer of a group, of the others FO_SMALL                \
                  */
#define FO_SMALL (12u << 10)

#define FO_NO_TAG 0x6e6f6e65

enum fo_state { FO_NONE, FO_POSTED, FO_DONE };

struct fo_message {
    uint32_t size, capacity;
    int tag;
    enum fo_state sent;
    void *request;
};

struct fo_group {
    int n;
    enum fo_state state;
    void *request;
    int turn[FO_MEMBERS]; /* in which order they are sent */
    struct fo_message messages[FO_MEMBERS];
};

struct fo_flow {
    struct fo_end *ends[2]; /* sender's, receiver's */
    void *listen, *comms[2], *mhs[2];
    _Alignas(16) char handle[MN_HANDLE_SIZE];
    uint8_t *areas[2]; /* FO_DEPTH groups each */
    uint64_t key;
    int n, posted, sending, member; /* groups: all; received into; the next message to be sent */
    int received, sent;             /* whole groups at the front */
    int errors[2], closed[2];
    uint64_t broken_step; /* when the first error came */
    uint64_t messages, bytes;
    struct fo_group groups[FO_GROUPS];
};

/* The memory of one end of a flow, of no use after fo_flow_end_areas(). */
#define FO_AREA (FO_DEPTH * (GUARD + FO_LARGE + GUARD + 7 * (size_t)(FO_SMALL + GUARD)))
uint8_t *fo_flow_area(int flow, int end);
void fo_flow_end_areas(void);
void fo_flow_plan(struct fo_flow *flow, struct fo_rng *rng, int groups);
/* Each does one thing if it can: 1 when something happened. A broken rule: -1, and why. */
int fo_flow_post(struct fo_flow *flow, char why[512]);
int fo_flow_send(struct fo_flow *flow, char why[512]);
/* As NCCL calls a sender whose receiver is not there yet. */
int fo_flow_ask(struct fo_flow *flow, char why[512]);
int fo_flow_test_recv(struct fo_flow *flow, int group, char why[512]);
int fo_flow_test_send(struct fo_flow *flow, int group, int member, char why[512]);
/* Guards, and that nothing was written to buffers that nobody receives into. 0 or -1. */
int fo_flow_untouched(const struct fo_flow *flow, int slot, char why[512]);
static inline int fo_flow_over(const struct fo_flow *f)
{
    return (f->received == f->n || f->errors[1]) && (f->sent == f->n || f->errors[0]);
}

#endif
