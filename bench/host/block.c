/* Connect and accept of v4 block until the peer is there. Each call runs on a thread of its own, so
 * that one thread can drive both ends and many connections; the caller asks again until it is done.
 * A thread cannot be called back: a call that nobody waits for any more cleans up after itself. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host/host_impl.h"

#define MOST       1024 /* calls at a time */
#define STACK_SIZE ((size_t)512 << 10)

struct call {
    struct call *next;
    struct mn_host_block *block;
    struct mn_host_slots slots;
    const void *key;
    int accepts; /* else connects */
    int dev;
    void *listen;
    char sent[NCCL_NET_HANDLE_MAXSIZE_V4];
    _Alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE]; /* the plugin's to write */
    int done, left, close_listen;
    int result;
    void *comm;
};

struct mn_host_block {
    pthread_mutex_t lock;
    struct call *calls;
    int n, ended;
};

struct mn_host_block *mn_host_block_new(void)
{
    struct mn_host_block *block = calloc(1, sizeof *block);

    if (block)
        pthread_mutex_init(&block->lock, NULL);
    return block;
}

/* Lock held. */
static void unlink_call(struct call *call)
{
    struct call **at = &call->block->calls;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    call->block->n--;
}

/* Of a call that returned and that nobody waits for; not in the list any more. */
static void clean_up(struct call *call)
{
    if (call->comm)
        (call->accepts ? call->slots.close_recv : call->slots.close_send)(call->comm);
    if (call->close_listen)
        call->slots.close_listen(call->listen);
    free(call);
}

static void *run(void *arg)
{
    struct call *call = arg;
    struct mn_host_block *block = call->block;
    void *comm = NULL;
    int result = (int)(call->accepts ? call->slots.accept_v4(call->listen, &comm)
                                     : call->slots.connect_v4(call->dev, call->handle, &comm));

    pthread_mutex_lock(&block->lock);
    call->comm = comm;
    call->result = result;
    call->done = 1;
    int left = call->left, last = 0;
    if (left) {
        unlink_call(call);
        last = block->ended && !block->n;
    }
    pthread_mutex_unlock(&block->lock);
    if (left)
        clean_up(call);
    if (last)
        free(block);
    return NULL;
}

/* Signals are for the threads of the caller. */
static int start(struct call *call)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    int err = pthread_create(&thread, &attr, run, call);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static struct call *find(struct mn_host_block *block, int accepts, const void *key)
{
    for (struct call *call = block->calls; call; call = call->next)
        if (call->accepts == accepts && call->key == key && !call->left)
            return call;
    return NULL;
}

/* Lock held. Nobody waits for the call any more; to be cleaned up by the caller of this, without
 * the lock, when it has returned. */
static struct call *leave(struct call *call)
{
    call->left = 1;
    if (!call->done)
        return NULL;
    unlink_call(call);
    return call;
}

/* Lock held. The outcome of a call under way, or NULL comm and success: not yet. */
static int outcome(struct call *call, void **comm)
{
    if (!call->done)
        return ncclSuccess;
    int result = call->result;
    *comm = call->comm;
    unlink_call(call);
    free(call);
    return !result && !*comm ? mn_host_broken("a blocking call returned success and no comm")
                             : result;
}

/* Lock held. */
static int begin(struct mn_host_block *block, const struct call *what)
{
    if (block->n >= MOST)
        return mn_host_broken("1024 calls of connect and accept block at the same time");
    struct call *call = malloc(sizeof *call);
    if (!call)
        return ncclSystemError;
    *call = *what;
    call->block = block;
    call->next = block->calls;
    block->calls = call;
    block->n++;
    if (start(call)) {
        unlink_call(call);
        free(call);
        return ncclSystemError;
    }
    return ncclSuccess;
}

int mn_host_block_connect(struct mn_host_block *block, const struct mn_host_slots *slots, int dev,
                          void *handle, void **comm)
{
    struct call fresh = {.slots = *slots, .key = handle, .dev = dev}, *stale = NULL;
    int result;

    memcpy(fresh.handle, handle, sizeof fresh.handle);
    memcpy(fresh.sent, handle, sizeof fresh.sent);
    pthread_mutex_lock(&block->lock);
    struct call *call = find(block, 0, handle);
    if (call && memcmp(call->sent, fresh.sent, sizeof fresh.sent) != 0) {
        stale = leave(call);
        call = NULL;
    }
    result = call ? outcome(call, comm) : begin(block, &fresh);
    pthread_mutex_unlock(&block->lock);
    if (stale)
        clean_up(stale);
    return result;
}

int mn_host_block_accept(struct mn_host_block *block, const struct mn_host_slots *slots,
                         void *listen, void **comm)
{
    struct call fresh = {.slots = *slots, .key = listen, .accepts = 1, .listen = listen};

    pthread_mutex_lock(&block->lock);
    struct call *call = find(block, 1, listen);
    int result = call ? outcome(call, comm) : begin(block, &fresh);
    pthread_mutex_unlock(&block->lock);
    return result;
}

int mn_host_block_leave(struct mn_host_block *block, void *listen)
{
    struct call *returned = NULL;

    pthread_mutex_lock(&block->lock);
    struct call *call = find(block, 1, listen);
    if (call)
        returned = leave(call);
    int under_way = call && !returned;
    if (under_way)
        call->close_listen = 1;
    pthread_mutex_unlock(&block->lock);
    if (returned)
        clean_up(returned);
    return under_way;
}

void mn_host_block_end(struct mn_host_block *block)
{
    struct call *returned = NULL, *next;

    pthread_mutex_lock(&block->lock);
    block->ended = 1;
    for (struct call *call = block->calls; call; call = next) {
        next = call->next;
        if (leave(call)) {
            call->next = returned;
            returned = call;
        }
    }
    int last = !block->n;
    pthread_mutex_unlock(&block->lock);
    for (; returned; returned = next) {
        next = returned->next;
        clean_up(returned);
    }
    if (last)
        free(block);
}
