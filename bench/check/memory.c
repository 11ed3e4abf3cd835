/* Registration: many, overlapping, large, and given back at any time. */
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/kit.h"
#include "bench/host.h"

#define MIB        ((size_t)1 << 20)
#define MANY       4096
#define PIECE      4096
#define IDLE_TESTS 400
#define SCRIBBLE   0x99
#define HUGE_SIZE  (((size_t)4 << 30) + 2 * MIB)

/* buf stands for a part of memory that the rule owns: no guards around it. */
static struct mn_buf part(void *comm, unsigned char *data, size_t size, void *mhandle)
{
    return (struct mn_buf){.data = data,
                           .size = size,
                           .room = size,
                           .base = data,
                           .mhandle = mhandle,
                           .comm = comm};
}

static void *reg(struct mn_check *check, void *comm, unsigned char *data, size_t size)
{
    void *mhandle = NULL;

    mn_check_step(check, "regMr of %zu bytes", size);
    mn_check_ok(check, "regMr", mn_raw_reg(&check->raw, comm, data, size, &mhandle));
    return mhandle;
}

static void dereg(struct mn_check *check, void *comm, void *mhandle)
{
    mn_check_step(check, "deregMr");
    mn_check_ok(check, "deregMr", mn_raw_dereg(&check->raw, comm, mhandle));
}

static void *map(struct mn_check *check, size_t size, int fd)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        mn_check_skip(check, "no memory for %zu bytes", size);
    return at;
}

static void move(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out,
                 struct mn_buf *in, unsigned seed, const char *what)
{
    struct mn_req send, recv;

    mn_kit_fill(out, out->size, seed);
    memset(in->data, SCRIBBLE, in->size);
    mn_kit_irecv(check, pair->recv, in, in->size, 0, &recv);
    mn_kit_isend(check, pair->send, out, out->size, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    mn_kit_expect(check, in, out->size, seed, what);
}

/* Eight registrations of one area that cover one another; each is used, and used again while the
 * others go one by one. */
static void check_overlap(struct mn_check *check)
{
    static const size_t ranges[8][2] = {{0, 65536},   {0, 4096},  {4096, 8192}, {6000, 30000},
                                        {65000, 536}, {1, 65535}, {20000, 100}, {20000, 20000}};
    unsigned char *area[2];
    void *mhandles[2][8], *comms[2];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    comms[0] = pair.send;
    comms[1] = pair.recv;
    for (int side = 0; side < 2; side++) {
        area[side] = map(check, 65536, -1);
        for (int i = 0; i < 8; i++)
            mhandles[side][i] = reg(check, comms[side], area[side] + ranges[i][0], ranges[i][1]);
    }
    for (int gone = 0; gone < 8; gone++) {
        for (int i = gone; i < 8; i++) {
            struct mn_buf out =
                part(comms[0], area[0] + ranges[i][0], ranges[i][1], mhandles[0][i]);
            struct mn_buf in = part(comms[1], area[1] + ranges[i][0], ranges[i][1], mhandles[1][i]);
            move(check, &pair, &out, &in, (unsigned)(gone * 8 + i), "overlapping registrations");
        }
        for (int side = 0; side < 2; side++)
            dereg(check, comms[side], mhandles[side][gone]);
    }
}

/* The same range twice on one comm, and the same memory on both: every registration is its own. */
static void check_same_twice(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    unsigned char *area;
    void *first[2], *second[2];

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    area = map(check, 65536, -1);
    for (int i = 0; i < 2; i++) {
        void *comm = i ? pair.recv : pair.send;
        first[i] = reg(check, comm, area, 65536);
        second[i] = reg(check, comm, area, 65536);
    }
    for (int i = 0; i < 2; i++)
        dereg(check, i ? pair.recv : pair.send, first[i]);
    out = part(pair.send, area, 32768, second[0]);
    in = part(pair.recv, area + 32768, 32768, second[1]);
    move(check, &pair, &out, &in, 1, "one of two registrations of the same range deregistered");
    for (int i = 0; i < 2; i++)
        dereg(check, i ? pair.recv : pair.send, second[i]);
}

static void check_many(struct mn_check *check)
{
    static void *mhandles[2][MANY];
    unsigned char *area[2];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (int side = 0; side < 2; side++) {
        area[side] = map(check, (size_t)MANY * PIECE, -1);
        mn_check_step(check, "regMr, %d times on one comm", MANY);
        for (size_t i = 0; i < MANY; i++) {
            int result = mn_raw_reg(&check->raw, side ? pair.recv : pair.send,
                                    area[side] + i * PIECE, PIECE, &mhandles[side][i]);
            if (result)
                mn_check_fail(check, "regMr of %d bytes returned %s with %zu registrations live",
                              PIECE, mn_nccl_result_name(result), i);
        }
    }
    for (size_t i = 0; i < MANY; i += 97) {
        struct mn_buf out = part(pair.send, area[0] + i * PIECE, PIECE, mhandles[0][i]);
        struct mn_buf in = part(pair.recv, area[1] + i * PIECE, PIECE, mhandles[1][i]);
        move(check, &pair, &out, &in, (unsigned)i, "one of 4096 registrations");
    }
    mn_check_step(check, "deregMr, %d times on each comm", MANY);
    for (size_t i = 0; i < MANY; i++) /* odd ones last */
        for (int side = 0; side < 2; side++)
            mn_check_ok(check, "deregMr",
                        mn_raw_dereg(&check->raw, side ? pair.recv : pair.send,
                                     mhandles[side][i * 2 % MANY + (i >= MANY / 2)]));
}

/* Host memory as NCCL has it: from malloc, mapped, and shared between processes. */
static void check_kinds(struct mn_check *check)
{
    const size_t size = 256 * 1024;
    struct mn_pair pair;
    int fd = memfd_create("verify-plugin", MFD_CLOEXEC);

    mn_check_init(check);
    if (fd < 0 || ftruncate(fd, (off_t)(2 * size)) != 0)
        mn_check_skip(check, "no shared memory");
    mn_kit_connect(check, &pair);
    for (int round = 0; round < 2; round++) {
        unsigned char *shared = map(check, 2 * size, fd), *private = map(check, 2 * size, -1);
        unsigned char *from = round ? shared : private, *to = round ? private : shared;
        struct mn_buf out = part(pair.send, from, size, reg(check, pair.send, from, 2 * size));
        struct mn_buf in = part(pair.recv, to, size, reg(check, pair.recv, to, 2 * size));
        move(check, &pair, &out, &in, (unsigned)round, "shared memory");
        dereg(check, pair.send, out.mhandle);
        dereg(check, pair.recv, in.mhandle);
    }
}

/* More than 4 GiB of addresses over few pages: the same 2 MiB file again and again. */
static unsigned char *map_huge(struct mn_check *check)
{
    int fd = memfd_create("verify-plugin", MFD_CLOEXEC);
    unsigned char *at =
        mmap(NULL, HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (fd < 0 || ftruncate(fd, 2 * MIB) != 0 || at == MAP_FAILED)
        mn_check_skip(check, "no 4 GiB of addresses");
    for (size_t i = 0; i < HUGE_SIZE; i += 2 * MIB)
        if (mmap(at + i, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED)
            mn_check_skip(check, "no 4 GiB of addresses");
    close(fd);
    return at;
}

static void check_large(struct mn_check *check)
{
    struct mn_pair pair;
    void *mhandles[2];
    unsigned char *area[2];

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (int side = 0; side < 2; side++) {
        int result;
        area[side] = map_huge(check);
        mn_check_step(check, "regMr of %zu bytes", HUGE_SIZE);
        result = mn_raw_reg(&check->raw, side ? pair.recv : pair.send, area[side], HUGE_SIZE,
                            &mhandles[side]);
        if (result) {
            mn_check_note(check, "refused with %s: NCCL stages such buffers",
                          mn_nccl_result_name(result));
            return;
        }
    }
    for (size_t at = 0; at < HUGE_SIZE; at += HUGE_SIZE / 2 - MIB) {
        struct mn_buf out = part(pair.send, area[0] + at, 100000, mhandles[0]);
        struct mn_buf in = part(pair.recv, area[1] + at, 100000, mhandles[1]);
        move(check, &pair, &out, &in, (unsigned)(at >> 20), "far into a registration");
    }
    dereg(check, pair.send, mhandles[0]);
    dereg(check, pair.recv, mhandles[1]);
}

static void pause_for_threads(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

/* On a busy machine a thread of the plugin's may be long in coming. */
static void stays_as_it_is(struct mn_check *check, const unsigned char *area, size_t size)
{
    for (int round = 0; round < 10; round++) {
        pause_for_threads();
        for (size_t i = 0; i < size; i++)
            if (area[i] != SCRIBBLE)
                mn_check_fail(check, "byte %zu of a receive buffer was written after its deregMr",
                              i);
    }
}

/* As NCCL aborts: memory goes first, the comm later, and nobody tests the request again. */
static void check_recv_withdrawn(struct mn_check *check)
{
    const size_t size = 256 * 1024;
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req recv, send;
    unsigned char *area;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, size, 0, &out);
    area = map(check, size, -1);
    in = part(pair.recv, area, size, reg(check, pair.recv, area, size));
    mn_kit_fill(&out, size, 1);
    mn_kit_irecv(check, pair.recv, &in, size, 0, &recv);
    for (int i = 0; i < IDLE_TESTS; i++)
        mn_kit_test(check, &recv);
    dereg(check, pair.recv, in.mhandle);
    memset(area, SCRIBBLE, size);
    mn_check_step(check, "the peer sends to a receive whose memory was deregistered");
    send.request = NULL;
    for (int i = 0; i < IDLE_TESTS && !send.request; i++)
        if (mn_raw_isend(&check->raw, pair.send, out.data, size, 0, out.mhandle, &send.request))
            break;
    send.done = send.result = 0;
    for (int i = 0; send.request && i < IDLE_TESTS && !send.done && !send.result; i++)
        mn_kit_poll(check, &send);
    stays_as_it_is(check, area, size);
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
}

static void check_send_withdrawn(struct mn_check *check)
{
    const size_t size = 16 * MIB; /* more than sockets hold */
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req recv, send;
    unsigned char *area;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    area = map(check, size, -1);
    out = part(pair.send, area, size, reg(check, pair.send, area, size));
    mn_kit_buf(check, pair.recv, size, 0, &in);
    mn_kit_isend_early(check, &pair, &out, size, &in, &send, &recv);
    for (int i = 0; i < IDLE_TESTS && !mn_kit_test(check, &send); i++)
        ;
    dereg(check, pair.send, out.mhandle);
    if (mprotect(area, size, PROT_NONE) != 0)
        mn_check_skip(check, "memory cannot be protected");
    mn_check_step(check, "the peer receives from a send whose memory was deregistered");
    recv = (struct mn_req){.request = NULL};
    for (int i = 0; i < IDLE_TESTS && !recv.request; i++) {
        void *data = in.data, *mhandle = in.mhandle;
        int tag = 0;
        if (mn_raw_irecv(&check->raw, pair.recv, 1, &data, &size, &tag, &mhandle, &recv.request))
            break;
    }
    for (int i = 0; recv.request && i < IDLE_TESTS && !recv.done && !recv.result; i++)
        mn_kit_poll(check, &recv);
    pause_for_threads();
    mn_check_step(check, "close");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
}

static const struct mn_check_rule rules[] = {
    {"memory.overlap", "registrations of one area may overlap",
     "the same memory may be registered several times, in any overlap, and each registration is "
     "deregistered once with its own mhandle",
     check_overlap, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyRegBuffer: user buffers are registered "
                 "beside NCCL's own, in any overlap",
     .breaks = "A job that registers its own buffers fails or sends from memory nobody holds."},
    {"memory.same_twice", "two registrations of one range are two",
     "one deregMr ends one registration; the other of the same range stays valid", check_same_twice,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyConnect: shared buffers are registered by "
                 "every connection, each with its own deregMr",
     .breaks = "Freeing one tensor breaks the transfers of another that shares its memory."},
    {"memory.many", "4096 registrations live on one comm",
     "user buffers are registered for each communicator and address, without a limit", check_many,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 register/coll_reg.cc goes back to staging when a registration fails: "
                 "jobs with many tensors become slower",
     .breaks = "A model with many tensors fails at the first that no longer fits."},
    {"memory.kinds", "private and shared host memory alike can be registered",
     "host buffers are pinned, mapped from /dev/shm into several processes, or from malloc",
     check_kinds, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sharedNetBuffersInit: buffers in /dev/shm; "
                 "bootstrap.cc, netReg: from malloc",
     .breaks = "Proxies that share buffers between processes cannot start."},
    {"memory.large", "sizes of a registration are size_t",
     "since v8 regMr takes a size_t; what it accepts works from end to end", check_large,
     .profile = "nccl-2.20",
     .evidence = "NCCL 2.20 transport/net.cc, sendProxyRegBuffer: passes the size of a user buffer "
                 "as size_t",
     .since = 8, .flags = MN_CHECK_SLOW, /* a driver pins each page */
     .breaks = "A user buffer beyond 4 GiB is registered in part and corrupts or fails later."},
    {"memory.recv_withdrawn", "a receive buffer is not written after its deregMr",
     "on abort memory is deregistered with requests in flight, and freed before the comm closes",
     check_recv_withdrawn, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyFree: after an abort deregMr, then the "
                 "memory is freed, then closeRecv",
     .breaks = "Late data lands in memory that now belongs to something else."},
    {"memory.send_withdrawn", "a send buffer is not read after its deregMr",
     "on abort memory is deregistered with requests in flight, and freed before the comm closes",
     check_send_withdrawn, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree: after an abort deregMr, then the "
                 "memory is freed, then closeSend",
     .breaks = "Aborting a job crashes it, and with it what it wanted to save."},
};

MN_CHECK_FAMILY(mn_check_memory_family, "memory", "memory registration", rules);
