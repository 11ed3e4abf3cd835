/* The other machine's side: carries calls out. What the rule says is checked before it is used;
 * what makes no sense ends the rule with a skip. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/check/kit.h"
#include "bench/check/peer.h"
#include "bench/check/remote.h"
#include "bench/check/remote_wire.h"

#define ROOM      ((size_t)512 << 20) /* of all registrations that are not aliases */
#define ALIASES   4
#define SCRIBBLE  0xee
#define SLOT_WORD 0x5a5a5a5a00000003u

struct registration {
    int used, alias;
    unsigned char *base, *data;
    size_t size;
    void *mhandle;
};

struct request {
    int used;
    uint32_t mr;
    uint64_t offset, size;
    void *request;
};

static void *comms[MN_REMOTE_COMMS];
static struct registration mrs[MN_REMOTE_MRS];
static struct request requests[MN_REMOTE_REQUESTS];
static size_t room = ROOM;
static int aliases = ALIASES;
static long sleeps; /* in connect */

static const char *const names[] = {
    [MN_REMOTE_CONNECT] = "connect", [MN_REMOTE_REG] = "regMr", [MN_REMOTE_DEREG] = "deregMr",
    [MN_REMOTE_SEND] = "isend",      [MN_REMOTE_TEST] = "test", [MN_REMOTE_CLOSE] = "closeSend",
    [MN_REMOTE_COUNT] = "a count",
};

static _Noreturn void nonsense(struct mn_check *check, const char *what)
{
    mn_check_skip(check, "the rule asked for what cannot be: %s", what);
}

static void *comm_of(struct mn_check *check, uint32_t number)
{
    if (number >= MN_REMOTE_COMMS || !comms[number])
        nonsense(check, "no such comm");
    return comms[number];
}

static struct registration *mr_of(struct mn_check *check, uint32_t number)
{
    if (number >= MN_REMOTE_MRS || !mrs[number].used)
        nonsense(check, "no such registration");
    return &mrs[number];
}

static void serve_connect(struct mn_check *check, const struct mn_remote_call *c, int fd,
                          struct mn_remote_answer *answer, unsigned char *handle)
{
    uint64_t area[3] = {SLOT_WORD, c->word, SLOT_WORD};
    void *comm = NULL;

    if (c->bytes != MN_REMOTE_HANDLE || c->comm >= MN_REMOTE_COMMS || comms[c->comm])
        nonsense(check, "connect");
    mn_peer_hear(check, fd, handle, MN_REMOTE_HANDLE);
    sleeps -= mn_check_sleeps();
    answer->result = mn_raw_connect(&check->raw, c->number, handle, &comm,
                                    c->given ? (void **)(void *)&area[1] : NULL);
    sleeps += mn_check_sleeps();
    comms[c->comm] = comm;
    answer->state = comm ? MN_REMOTE_GIVEN : MN_REMOTE_NULL;
    answer->bytes = MN_REMOTE_HANDLE;
    /* A neighbour that was written shows in the word the rule looks at. */
    answer->word = area[0] == SLOT_WORD && area[2] == SLOT_WORD ? area[1] : ~c->word;
}

static void take_memory(struct mn_check *check, const struct mn_remote_call *c,
                        struct registration *mr)
{
    size_t place = (size_t)c->number, needed = (size_t)c->size + 2 * MN_REMOTE_PAGE;

    mr->alias = c->size > MN_KIT_ALIAS_ABOVE;
    mr->size = (size_t)c->size;
    if (mr->alias) {
        mr->data = aliases-- > 0 ? mn_kit_alias(mr->size) : NULL;
    } else {
        if (needed > room || posix_memalign((void **)&mr->base, MN_REMOTE_PAGE, needed) != 0)
            mn_check_skip(check, "no memory for a buffer of %zu bytes", mr->size);
        room -= needed;
        mr->data = mr->base + place;
        memset(mr->base, SCRIBBLE, needed);
    }
    if (!mr->data)
        mn_check_skip(check, "no addresses for %zu bytes", mr->size);
}

static void serve_reg(struct mn_check *check, const struct mn_remote_call *c,
                      struct mn_remote_answer *answer)
{
    void *comm = comm_of(check, c->comm);
    struct registration *mr = &mrs[c->mr < MN_REMOTE_MRS ? c->mr : 0];

    if (c->mr >= MN_REMOTE_MRS || mr->used || c->size == 0 || c->size > MN_KIT_ALIAS_MAX ||
        c->number < 0 || c->number >= (int32_t)MN_REMOTE_PAGE)
        nonsense(check, "regMr");
    take_memory(check, c, mr);
    answer->result = mn_raw_reg(&check->raw, comm, mr->data, mr->size, &mr->mhandle);
    mr->used = answer->result == 0;
}

static void serve_dereg(struct mn_check *check, const struct mn_remote_call *c,
                        struct mn_remote_answer *answer)
{
    struct registration *mr = mr_of(check, c->mr);

    answer->result = mn_raw_dereg(&check->raw, comm_of(check, c->comm), mr->mhandle);
    for (uint32_t i = 0; i < MN_REMOTE_REQUESTS; i++)
        if (requests[i].used && requests[i].mr == c->mr) /* never overwrite what follows here */
            requests[i].size = 0;
    if (!mr->alias) {
        room += mr->size + 2 * MN_REMOTE_PAGE;
        free(mr->base);
    }
    *mr = (struct registration){.used = 0};
}

static void serve_send(struct mn_check *check, const struct mn_remote_call *c, int fd,
                       struct mn_remote_answer *answer)
{
    void *comm = comm_of(check, c->comm), *const old = (void *)(uintptr_t)c->word, *request = old;
    struct registration *mr = mr_of(check, c->mr);
    size_t bytes = mr->alias && c->size > MN_KIT_ALIAS ? MN_KIT_ALIAS : (size_t)c->size;

    if (c->offset > mr->size || c->size > mr->size - c->offset || c->bytes > MN_REMOTE_LONGEST ||
        c->request >= MN_REMOTE_REQUESTS || requests[c->request].used ||
        c->bytes != (c->given ? 0 : bytes))
        nonsense(check, "isend");
    if (c->bytes)
        mn_peer_hear(check, fd, mr->data + c->offset, c->bytes);
    answer->result = mn_raw_isend(&check->raw, comm, mr->data + c->offset, (size_t)c->size,
                                  c->number, mr->mhandle, &request);
    answer->state = !request         ? MN_REMOTE_NULL
                    : request == old ? MN_REMOTE_UNCHANGED
                                     : MN_REMOTE_GIVEN;
    if (answer->state == MN_REMOTE_GIVEN)
        requests[c->request] = (struct request){1, c->mr, c->offset, c->size, request};
}

/* The caller's buffer is his again: what still reads from it sends this. */
static void overwrite(const struct request *r)
{
    const struct registration *mr = &mrs[r->mr];

    for (uint32_t i = 0; i < MN_REMOTE_REQUESTS; i++) {
        const struct request *o = &requests[i];
        if (o->used && o->mr == r->mr && o->offset < r->offset + r->size &&
            r->offset < o->offset + o->size)
            return; /* another send of the same bytes is under way */
    }
    if (r->size && !mr->alias)
        memset(mr->data + r->offset, SCRIBBLE, (size_t)r->size);
}

static void serve_test(struct mn_check *check, const struct mn_remote_call *c,
                       struct mn_remote_answer *answer)
{
    int sizes[MN_RAW_MAX_RECVS] = {0};
    struct request *r = &requests[c->request < MN_REMOTE_REQUESTS ? c->request : 0];

    if (c->request >= MN_REMOTE_REQUESTS || !r->used)
        nonsense(check, "test");
    answer->done = c->number;
    answer->result = mn_raw_test(&check->raw, r->request, &answer->done, c->given ? sizes : NULL);
    if (answer->result || answer->done != 1)
        return;
    r->used = 0;
    overwrite(r);
}

static void serve_close(struct mn_check *check, const struct mn_remote_call *c,
                        struct mn_remote_answer *answer)
{
    answer->result = mn_raw_close_send(&check->raw, comm_of(check, c->comm));
    comms[c->comm] = NULL;
}

static int count(struct mn_check *check, int32_t what)
{
    switch (what) {
    case MN_REMOTE_FDS:
        return mn_check_count_fds();
    case MN_REMOTE_THREADS:
        return mn_check_count_threads();
    case MN_REMOTE_SLEEPS:
        return (int)sleeps;
    default:
        nonsense(check, "count");
    }
}

void mn_remote_serve(struct mn_check *check, int fd)
{
    struct mn_remote_answer answer = {0};
    struct mn_remote_call c;

    mn_check_init(check);
    answer.done = check->n_dev;
    mn_peer_tell(check, fd, &answer, sizeof answer);
    for (;;) {
        unsigned char handle[MN_REMOTE_HANDLE];
        mn_peer_hear(check, fd, &c, sizeof c);
        if (c.op >= MN_REMOTE_N_OPS)
            nonsense(check, "no such call");
        mn_check_step(check, "%s", names[c.op]);
        answer = (struct mn_remote_answer){0};
        switch ((enum mn_remote_op)c.op) {
        case MN_REMOTE_CONNECT:
            serve_connect(check, &c, fd, &answer, handle);
            break;
        case MN_REMOTE_REG:
            serve_reg(check, &c, &answer);
            break;
        case MN_REMOTE_DEREG:
            serve_dereg(check, &c, &answer);
            break;
        case MN_REMOTE_SEND:
            serve_send(check, &c, fd, &answer);
            break;
        case MN_REMOTE_TEST:
            serve_test(check, &c, &answer);
            break;
        case MN_REMOTE_COUNT:
            answer.done = count(check, c.number);
            break;
        default:
            serve_close(check, &c, &answer);
        }
        mn_peer_tell(check, fd, &answer, sizeof answer);
        if (answer.bytes)
            mn_peer_tell(check, fd, handle, answer.bytes);
    }
}
