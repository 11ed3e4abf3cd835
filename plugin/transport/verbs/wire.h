/* What travels by RDMA besides the data: the receiver's announcements and the immediate values of
 * the sender's writes. Host order: every platform of NCCL and RCCL is little-endian. */
#ifndef MN_VERBS_WIRE_H
#define MN_VERBS_WIRE_H

#include <stdint.h>
#include <string.h>

#define VERBS_LINKS       8   /* MN_MAX_LOCALS */
#define VERBS_RING        512 /* announcements; twice what may be outstanding, a power of two */
#define VERBS_OUTSTANDING 256 /* of them */
#define VERBS_SEGMENTS    128 /* of a message: 1 GiB in the 8 MiB writes of the smallest devices */
#define VERBS_FIRST_SEQ   VERBS_RING /* so that zeroed memory is no announcement */

/* One posted receive, written into the sender's ring at seq % VERBS_RING. A grouped receive is n of
 * them in a row, index 0 .. n-1. The sender accepts it when both seqs and the check are right for
 * all n: so no order in which the bytes arrive is relied upon. */
struct verbs_cts {
    uint64_t address;
    uint32_t rkeys[VERBS_LINKS]; /* by link of the plan */
    uint32_t size;
    int32_t tag;
    uint32_t seq;
    uint8_t n, index;
    uint16_t parts; /* at most so many parts has the message */
    uint32_t check, seq_again;
};
_Static_assert(sizeof(struct verbs_cts) == 64, "the layout is the protocol");
_Static_assert(VERBS_RING == 1 << 9, "nine bits of the immediate name the announcement");
_Static_assert(VERBS_SEGMENTS == 1 << 7, "seven bits of the immediate name the segment");

static inline uint32_t verbs_cts_check(const struct verbs_cts *cts)
{
    uint64_t words[7], hash = 0x6d6573686e657431u;

    memcpy(words, cts, sizeof words);
    for (int i = 0; i < 7; i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32);
}

static inline void verbs_cts_seal(struct verbs_cts *cts)
{
    cts->check = verbs_cts_check(cts);
    cts->seq_again = cts->seq;
}

/* 1 when cts is announcement seq, whole. */
static inline int verbs_cts_valid(const struct verbs_cts *cts, uint32_t seq)
{
    return cts->seq == seq && cts->seq_again == seq && cts->check == verbs_cts_check(cts);
}

/* Immediate: announcement 9 | segment 7 | segments-1 7 | next bits of seq 4 | epoch 5. The epoch is
 * that of the link's queue pairs: its turn (recover.h). */
struct verbs_imm {
    uint32_t entry, segment, segments, seq_high, epoch;
};

static inline uint32_t verbs_imm_pack(uint32_t seq, uint32_t segment, uint32_t segments,
                                      uint32_t epoch)
{
    return (seq & (VERBS_RING - 1)) | segment << 9 | (segments - 1) << 16 | (seq >> 9 & 15) << 23 |
           epoch << 27;
}

static inline struct verbs_imm verbs_imm_unpack(uint32_t imm)
{
    return (struct verbs_imm){imm & (VERBS_RING - 1), imm >> 9 & 127, (imm >> 16 & 127) + 1,
                              imm >> 23 & 15, imm >> 27};
}

#endif
