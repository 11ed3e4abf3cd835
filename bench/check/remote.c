/* The rule's side: names for what is over there, and the calls. */
#include "bench/check/remote.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check/far.h"
#include "bench/check/peer.h"
#include "bench/check/remote_wire.h"
#include "bench/check/turns.h"

struct registration {
    int used;
    unsigned char *data;
    size_t size;
    /* What the last isend took over there and did not send, NULL: nothing. A rule asks until there
     * is room for its message, and the way there is narrow. */
    unsigned char *kept;
    size_t kept_at, kept_size;
};

struct mn_remote {
    struct mn_check *check;
    int fd;
    /* A rule may have threads: one call at a time, and the tables. In turns, since who holds it
     * sleeps until the answer is there: with a mutex, and one processor, a thread that only calls
     * would keep the others out for good. */
    struct mn_turns turns;
    int comms[MN_REMOTE_COMMS];
    int requests[MN_REMOTE_REQUESTS]; /* 1 + the registration's number; 0: free */
    struct registration mrs[MN_REMOTE_MRS];
    uint32_t next_request;
};

static struct mn_remote the_remote = {.turns = MN_TURNS};

static const char *const names[] = {
    [MN_REMOTE_CONNECT] = "connect", [MN_REMOTE_REG] = "regMr", [MN_REMOTE_DEREG] = "deregMr",
    [MN_REMOTE_SEND] = "isend",      [MN_REMOTE_TEST] = "test", [MN_REMOTE_CLOSE] = "closeSend",
    [MN_REMOTE_COUNT] = "a count",
};

static int is_in(const void *object, const void *table, size_t size)
{
    const uintptr_t at = (uintptr_t)object, from = (uintptr_t)table;

    return at >= from && at < from + size;
}

int mn_remote_owns(const struct mn_remote *remote, const void *object)
{
    return remote && (is_in(object, remote->comms, sizeof remote->comms) ||
                      is_in(object, remote->requests, sizeof remote->requests) ||
                      is_in(object, remote->mrs, sizeof remote->mrs));
}

static uint32_t comm_number(const struct mn_remote *remote, const void *comm)
{
    return (uint32_t)((const int *)comm - remote->comms);
}

/* The number of a free name; *next is where to begin. */
static uint32_t free_name(struct mn_remote *remote, const int *table, uint32_t n, uint32_t next)
{
    for (uint32_t i = 0; i < n; i++)
        if (!table[(next + i) % n])
            return (next + i) % n;
    mn_check_skip(remote->check, "the rule has more open at the peer than its %u names", n);
}

/* In its turn. The answer's result is any number; the rest is checked. */
static struct mn_remote_answer call(struct mn_remote *remote, const struct mn_remote_call *c,
                                    const void *bytes)
{
    struct mn_remote_answer answer;
    size_t expected = c->op == MN_REMOTE_CONNECT ? MN_REMOTE_HANDLE : 0;

    mn_peer_tell(remote->check, remote->fd, c, sizeof *c);
    if (c->bytes)
        mn_peer_tell(remote->check, remote->fd, bytes, c->bytes);
    mn_peer_hear_call(remote->check, remote->fd, &answer, sizeof answer, names[c->op]);
    if (answer.state > MN_REMOTE_UNCHANGED || answer.bytes != expected)
        mn_check_skip(remote->check, "the peer's answer to %s is none", names[c->op]);
    return answer;
}

static void forget(struct registration *mr)
{
    free(mr->kept);
    mr->kept = NULL;
}

static void keep(struct registration *mr, size_t at, const void *data, size_t size)
{
    forget(mr);
    mr->kept = size ? malloc(size) : NULL;
    if (!mr->kept)
        return;
    memcpy(mr->kept, data, size);
    mr->kept_at = at;
    mr->kept_size = size;
}

static int is_kept(const struct registration *mr, size_t at, const void *data, size_t size)
{
    return mr->kept && mr->kept_at == at && mr->kept_size == size && !memcmp(mr->kept, data, size);
}

int mn_remote_connect(struct mn_remote *remote, int dev, void *handle, void **comm,
                      void **device_handle)
{
    struct mn_remote_call c = {.op = MN_REMOTE_CONNECT,
                               .number = dev,
                               .given = device_handle != NULL,
                               .bytes = MN_REMOTE_HANDLE};
    struct mn_remote_answer answer;

    if (device_handle)
        memcpy(&c.word, device_handle, sizeof c.word);
    mn_turns_take(&remote->turns);
    c.comm = free_name(remote, remote->comms, MN_REMOTE_COMMS, 0);
    answer = call(remote, &c, handle);
    mn_peer_hear(remote->check, remote->fd, handle, MN_REMOTE_HANDLE);
    if (device_handle)
        memcpy(device_handle, &answer.word, sizeof answer.word);
    if (answer.state == MN_REMOTE_GIVEN) {
        remote->comms[c.comm] = 1;
        *comm = &remote->comms[c.comm];
    }
    mn_turns_pass(&remote->turns);
    return answer.result;
}

int mn_remote_reg(struct mn_remote *remote, void *comm, void *data, size_t size, void **mhandle)
{
    struct mn_remote_call c = {.op = MN_REMOTE_REG,
                               .comm = comm_number(remote, comm),
                               .number = (int32_t)((uintptr_t)data % MN_REMOTE_PAGE),
                               .size = size};
    struct mn_remote_answer answer;
    struct registration *mr;

    mn_turns_take(&remote->turns);
    while (c.mr < MN_REMOTE_MRS && remote->mrs[c.mr].used)
        c.mr++;
    if (c.mr == MN_REMOTE_MRS)
        mn_check_skip(remote->check,
                      "the rule has more registrations at the peer than its %u names",
                      MN_REMOTE_MRS);
    answer = call(remote, &c, NULL);
    mr = &remote->mrs[c.mr];
    if (!answer.result) {
        *mr = (struct registration){.used = 1, .data = data, .size = size};
        *mhandle = mr;
    }
    mn_turns_pass(&remote->turns);
    return answer.result;
}

int mn_remote_dereg(struct mn_remote *remote, void *comm, void *mhandle)
{
    struct registration *mr = mhandle;
    struct mn_remote_call c = {.op = MN_REMOTE_DEREG, .comm = comm_number(remote, comm)};
    struct mn_remote_answer answer;

    mn_turns_take(&remote->turns);
    c.mr = (uint32_t)(mr - remote->mrs);
    answer = call(remote, &c, NULL);
    forget(mr);
    mr->used = 0;
    mn_turns_pass(&remote->turns);
    return answer.result;
}

int mn_remote_isend(struct mn_remote *remote, void *comm, void *data, size_t size, int tag,
                    void *mhandle, void **request)
{
    struct registration *mr = mhandle;
    struct mn_remote_call c = {.op = MN_REMOTE_SEND,
                               .comm = comm_number(remote, comm),
                               .number = tag,
                               .size = size,
                               .word = (uintptr_t)*request};
    struct mn_remote_answer answer;
    size_t bytes = mr->size > MN_KIT_ALIAS_ABOVE && size > MN_KIT_ALIAS ? MN_KIT_ALIAS : size;

    mn_turns_take(&remote->turns);
    c.mr = (uint32_t)(mr - remote->mrs);
    c.offset = (uint64_t)((unsigned char *)data - mr->data);
    c.request = free_name(remote, remote->requests, MN_REMOTE_REQUESTS, remote->next_request);
    c.given = is_kept(mr, (size_t)c.offset, data, bytes);
    c.bytes = c.given ? 0 : (uint32_t)bytes;
    answer = call(remote, &c, data);
    if (answer.result || answer.state != MN_REMOTE_NULL)
        forget(mr);
    else if (!c.given)
        keep(mr, (size_t)c.offset, data, bytes);
    if (answer.state == MN_REMOTE_GIVEN) {
        remote->requests[c.request] = 1 + (int)c.mr;
        remote->next_request = c.request + 1;
        *request = &remote->requests[c.request];
    } else if (answer.state == MN_REMOTE_NULL) {
        *request = NULL;
    }
    mn_turns_pass(&remote->turns);
    return answer.result;
}

int mn_remote_test(struct mn_remote *remote, void *request, int *done, int *sizes)
{
    struct mn_remote_call c = {.op = MN_REMOTE_TEST, .number = *done, .given = sizes != NULL};
    struct mn_remote_answer answer;

    mn_turns_take(&remote->turns);
    c.request = (uint32_t)((int *)request - remote->requests);
    answer = call(remote, &c, NULL);
    *done = answer.done;
    if (!answer.result && answer.done == 1 && remote->requests[c.request]) {
        forget(&remote->mrs[remote->requests[c.request] - 1]); /* overwritten there */
        remote->requests[c.request] = 0;
    }
    mn_turns_pass(&remote->turns);
    return answer.result;
}

int mn_remote_close(struct mn_remote *remote, void *comm)
{
    struct mn_remote_call c = {.op = MN_REMOTE_CLOSE, .comm = comm_number(remote, comm)};
    struct mn_remote_answer answer;

    mn_turns_take(&remote->turns);
    answer = call(remote, &c, NULL);
    remote->comms[c.comm] = 0;
    mn_turns_pass(&remote->turns);
    return answer.result;
}

int mn_remote_count(struct mn_remote *remote, enum mn_remote_count what)
{
    struct mn_remote_call c = {.op = MN_REMOTE_COUNT, .number = (int32_t)what};
    struct mn_remote_answer answer;

    mn_turns_take(&remote->turns);
    answer = call(remote, &c, NULL);
    mn_turns_pass(&remote->turns);
    return answer.done;
}

void mn_remote_start(struct mn_check *check)
{
    struct mn_remote_answer hello;
    struct mn_peer peer;

    if (check->target->far)
        mn_far_start(check, &peer);
    else
        mn_peer_start(check, mn_remote_serve, &peer);
    the_remote.check = check;
    the_remote.fd = peer.fd;
    mn_peer_hear_call(check, peer.fd, &hello, sizeof hello, "init");
    check->n_dev_there = hello.done;
    check->raw.remote = &the_remote;
}
