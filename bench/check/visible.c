/* What a reader of the receive buffer sees while bytes arrive: with LL and LL128 the GPU polls the
 * buffer itself, long before test says done. Every 4 or 8 bytes of flag differ from round to round
 * in every byte, so that a flag half written is none. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "bench/check/kit.h"

#define AREA       (256 * 1024)
#define LINE       128
#define PARTS      ((size_t)16 << 20) /* more than sockets hold */
#define ROUNDS     16
#define IDLE_TESTS 400

struct reader {
    struct mn_check *check;
    const unsigned char *data;
    unsigned round;
    atomic_int ready;
};

static uint32_t flag_of(unsigned round)
{
    return 0x01010101u * (round + 1);
}

static uint32_t datum_of(unsigned round, size_t i)
{
    return (uint32_t)(i * 2654435761u) ^ flag_of(round) ^ 0x5a5a5a5au;
}

static uint64_t load64(const unsigned char *at)
{
    return atomic_load_explicit((const _Atomic uint64_t *)(const void *)at, memory_order_acquire);
}

/* Little-endian or not: the datum is at the lower address. */
static void halves(uint64_t word, uint32_t *datum, uint32_t *flag)
{
    uint32_t both[2];

    memcpy(both, &word, sizeof both);
    *datum = both[0];
    *flag = both[1];
}

static void wait_or_give_up(struct reader *reader, size_t at)
{
    if (mn_check_expired(reader->check))
        mn_check_fail(reader->check, "the flag at byte %zu never became visible", at);
    sched_yield();
}

static void *read_ll(void *arg)
{
    struct reader *reader = arg;

    atomic_store(&reader->ready, 1);
    for (size_t i = 0; i < AREA / 8; i++) {
        uint32_t datum, flag;
        for (unsigned spins = 1;; spins++) {
            halves(load64(reader->data + 8 * i), &datum, &flag);
            if (flag == flag_of(reader->round))
                break;
            if (spins % 1024 == 0)
                wait_or_give_up(reader, 8 * i + 4);
        }
        if (datum != datum_of(reader->round, i))
            mn_check_fail(reader->check,
                          "the flag at byte %zu was visible before the 4 bytes in front of it",
                          8 * i + 4);
    }
    return NULL;
}

static void *read_ll128(void *arg)
{
    struct reader *reader = arg;
    const uint64_t wanted = (uint64_t)flag_of(reader->round) << 32 | flag_of(reader->round);

    atomic_store(&reader->ready, 1);
    for (size_t line = 0; line < AREA / LINE; line++) {
        const unsigned char *at = reader->data + line * LINE;
        for (unsigned spins = 1; load64(at + LINE - 8) != wanted; spins++)
            if (spins % 1024 == 0)
                wait_or_give_up(reader, line * LINE + LINE - 8);
        for (size_t i = 0; i < LINE / 8 - 1; i++) {
            uint32_t data[2];
            halves(load64(at + 8 * i), &data[0], &data[1]);
            for (size_t k = 0; k < 2; k++)
                if (data[k] != datum_of(reader->round, line * LINE / 4 + 2 * i + k))
                    mn_check_fail(reader->check,
                                  "the flag of line %zu was visible before byte %zu of the line",
                                  line, 8 * i + 4 * k);
        }
    }
    return NULL;
}

static void fill_ll(unsigned char *data, unsigned round)
{
    for (size_t i = 0; i < AREA / 8; i++) {
        uint32_t word[2] = {datum_of(round, i), flag_of(round)};
        memcpy(data + 8 * i, word, sizeof word);
    }
}

static void fill_ll128(unsigned char *data, unsigned round)
{
    for (size_t i = 0; i < AREA / 4; i++) {
        uint32_t word = i % (LINE / 4) >= LINE / 4 - 2 ? flag_of(round) : datum_of(round, i);
        memcpy(data + 4 * i, &word, sizeof word);
    }
}

static void run_reader(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out,
                       struct mn_buf *in, unsigned round, void *(*run)(void *))
{
    struct reader reader = {.check = check, .data = in->data, .round = round};
    struct mn_req send, recv;
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, &reader) != 0)
        mn_check_skip(check, "no second thread can be started");
    while (!atomic_load(&reader.ready))
        sched_yield();
    mn_kit_irecv(check, pair->recv, in, AREA, 0, &recv);
    mn_kit_isend(check, pair->send, out, AREA, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    pthread_join(thread, NULL);
    if (memcmp(in->data, out->data, AREA) != 0)
        mn_check_fail(check, "done, and the buffer does not hold what was sent");
}

static void check_visible(struct mn_check *check, void (*fill)(unsigned char *, unsigned),
                          void *(*run)(void *))
{
    struct mn_pair pair;
    struct mn_buf out, in;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, AREA, 0, &out);
    mn_kit_buf(check, pair.recv, AREA, 0, &in);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fill(out.data, round);
        run_reader(check, &pair, &out, &in, round, run);
    }
}

static void check_ll(struct mn_check *check)
{
    check_visible(check, fill_ll, read_ll);
}

static void check_ll128(struct mn_check *check)
{
    check_visible(check, fill_ll128, read_ll128);
}

/* A flag of the last use stands in the buffer until the new one comes: no byte changes before. */
static void check_pretouch(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf in, out;
    struct mn_req recv, send;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, AREA, 0, &out);
    mn_kit_buf(check, pair.recv, AREA, 0, &in);
    for (int round = 0; round < 2; round++) {
        mn_kit_irecv(check, pair.recv, &in, AREA, 0, &recv);
        for (int i = 0; i < IDLE_TESTS; i++)
            if (mn_kit_test(check, &recv))
                mn_check_fail(check, "a receive completed although nothing was sent");
        mn_kit_untouched(check, &in, 0, "a posted receive before anything was sent");
        mn_kit_isend(check, pair.send, &out, 0, 0, &send);
        mn_kit_wait2(check, &recv, &send);
        mn_kit_untouched(check, &in, 0, "a posted receive of an empty message");
    }
}

static void *read_and_mark(void *arg)
{
    struct reader *reader = arg;
    unsigned char *data = (unsigned char *)(uintptr_t)reader->data;

    atomic_store(&reader->ready, 1);
    for (size_t i = 0; i < AREA / 8; i++) {
        uint32_t datum, flag;
        for (unsigned spins = 1;; spins++) {
            halves(load64(data + 8 * i), &datum, &flag);
            if (flag == flag_of(reader->round))
                break;
            if (spins % 1024 == 0)
                wait_or_give_up(reader, 8 * i + 4);
        }
        atomic_store((_Atomic uint64_t *)(void *)(data + 8 * i), ~(uint64_t)0);
    }
    return NULL;
}

/* The reader takes each word as soon as its flag is there and leaves a mark: it stays. */
/* A message that comes in many parts: what the first brought is marked while the others come. */
static void once_in_parts(struct mn_check *check, struct mn_pair *pair)
{
    struct mn_buf out, in;
    struct mn_req send, recv;
    int marked = 0;

    mn_kit_buf(check, pair->send, PARTS, 0, &out);
    mn_kit_buf(check, pair->recv, PARTS, 0, &in);
    memset(out.data, 0x11, PARTS);
    mn_kit_irecv(check, pair->recv, &in, PARTS, 0, &recv);
    mn_kit_isend(check, pair->send, &out, PARTS, 0, &send);
    mn_check_step(check, "test of a large message, its first bytes in use");
    while (!mn_kit_test(check, &recv)) {
        mn_kit_test(check, &send);
        if (!marked && load64(in.data) == 0x1111111111111111u) {
            atomic_store((_Atomic uint64_t *)(void *)in.data, ~(uint64_t)0);
            marked = 1;
        }
        if (mn_check_expired(check))
            mn_check_fail(check, "a large message is never done");
        mn_check_pause(check);
    }
    if (marked && load64(in.data) != ~(uint64_t)0)
        mn_check_fail(check, "the first bytes of a message of %zu were written again", PARTS);
    mn_kit_wait2(check, &recv, &send);
}

static void check_once(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct reader reader;
    struct mn_req send, recv;
    pthread_t thread;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, AREA, 0, &out);
    mn_kit_buf(check, pair.recv, AREA, 0, &in);
    for (unsigned round = 0; round < ROUNDS / 2; round++) {
        fill_ll(out.data, round);
        reader = (struct reader){.check = check, .data = in.data, .round = round};
        if (pthread_create(&thread, NULL, read_and_mark, &reader) != 0)
            mn_check_skip(check, "no second thread can be started");
        mn_kit_irecv(check, pair.recv, &in, AREA, 0, &recv);
        mn_kit_isend(check, pair.send, &out, AREA, 0, &send);
        mn_kit_wait2(check, &recv, &send);
        pthread_join(thread, NULL);
        for (size_t i = 0; i < AREA / 8; i++)
            if (load64(in.data + 8 * i) != ~(uint64_t)0)
                mn_check_fail(check, "byte %zu was written again after its flag was visible",
                              8 * i);
    }
    once_in_parts(check, &pair);
}

static const struct mn_check_rule rules[] = {
    {"visible.ll", "LL: no flag is visible before its data",
     "lines of 4 bytes data and 4 bytes flag are polled in the receive buffer while it is written: "
     "stores of at least 8 bytes, or ascending addresses",
     check_ll, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 device/prims_ll.h, readLL: polls flags in the receive buffer while it "
                 "is written",
     .breaks = "Small reductions give wrong sums now and then."},
    {"visible.ll128", "LL128: the last 8 bytes of a line are visible last",
     "lines of 128 bytes carry their flag in the last 8 bytes and are polled while they arrive",
     check_ll128, .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 device/prims_ll128.h polls the last 8 bytes of lines; over a network "
                 "only with a GPU close to the NIC, or NCCL_PROTO=LL128",
     .breaks = "Where LL128 runs over the network, reductions give wrong sums now and then."},
    {"visible.pretouch", "a posted receive leaves the buffer as it is",
     "flags of the last use stand in the buffer until the new ones arrive: it is not cleared",
     check_pretouch, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 device/prims_ll.h, readLL: compares flags with a counter; a buffer "
                 "that is cleared or filled shows it others",
     .breaks = "A reader of LL lines takes cleared bytes for data."},
    {"visible.once", "no byte is written twice",
     "the buffer belongs to the reader of its flags once they are visible", check_once,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 device/prims_ll.h: a reader frees a slot once it saw the flags; what "
                 "is sent again may then land in the next round",
     .breaks = "A line of the next round is overwritten by one of the last."},
};

MN_CHECK_FAMILY(mn_check_visible_family, "visible", "visibility while bytes arrive", rules);
