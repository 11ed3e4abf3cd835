/* Requests, and test. */
#include <string.h>

#include "tests/broken/second/alt.h"

static struct alt_comm *whose_turn; /* one fault's */

struct alt_request *alt_take(struct alt_comm *comm)
{
    struct alt_request *r = NULL;

    for (int i = 0; i < ALT_POOL && !r; i++) {
        struct alt_request *next = &comm->pool[(comm->serial + (uint64_t)i) % ALT_POOL];
        if (!next->used)
            r = next;
    }
    if (WRONG(TEST_RECYCLES)) /* the most recently used is warm */
        for (int i = ALT_POOL - 1; i >= 0; i--)
            r = comm->pool[i].used ? r : &comm->pool[i];
    if (!r)
        return NULL;
    if (!WRONG(REG_CYCLES))
        comm->serial++;
    r->comm = comm;
    r->used = 1;
    r->filled = 0;
    r->done = 0;
    r->moved = 0;
    memset(r->full, 0, sizeof r->full);
    return r;
}

/* One fault: who posted first must be tested before others progress. */
int alt_in_turn(struct alt_comm *comm, int posts)
{
    struct alt_comm *now = __atomic_load_n(&whose_turn, __ATOMIC_RELAXED);

    if (now == NULL && posts)
        __atomic_store_n(&whose_turn, comm, __ATOMIC_RELAXED);
    if (now == comm && !posts)
        __atomic_store_n(&whose_turn, NULL, __ATOMIC_RELAXED);
    return now == NULL || now == comm;
}

static void report(struct alt_request *r, int *done, int *sizes)
{
    int n = WRONG(GROUP_TEST_ALL) && r->comm->owned.kind == ALT_RECV ? ALT_RECVS : r->n;

    *done = 1;
    if (r->comm->owned.kind == ALT_SEND) {
        if (sizes)
            *sizes = (int)r->header.size;
    } else if (sizes || WRONG(TEST_SIZES_NULL)) {
        for (int i = 0; i < n; i++)
            if (WRONG(TEST_SIZES_WIDE))
                memcpy((char *)sizes + 8 * i, &r->got[i], 8);
            else
                sizes[i] = (int)r->got[i];
    }
    if (r->comm->owned.kind == ALT_SEND && r->moved != 0 &&
        r->moved != sizeof r->header + r->header.size)
        r->filled = 1; /* done early: used until its bytes are out */
    else
        r->used = 0;
}

ncclResult_t alt_test(void *request, int *done, int *sizes)
{
    struct alt_request *r = request;
    struct alt_comm *comm = r->comm;
    ncclResult_t result = ncclSuccess;
    int first;

    pthread_mutex_lock(&comm->lock);
    first = comm->head == r;
    if (comm->owned.kind == ALT_RECV && !(WRONG(DEREG_STILL_WRITTEN)) &&
        (!WRONG(TEST_TURNS) || alt_in_turn(comm, 0)))
        alt_recv_progress(comm);
    else if (comm->owned.kind == ALT_SEND && !WRONG(LOST_WAKEUP))
        alt_send_progress(comm);
    if (r->done) {
        report(r, done, sizes);
    } else {
        if (!WRONG(TEST_DONE_UNSET) || first || comm->owned.kind == ALT_SEND)
            *done = 0;
        result = comm->broken;
    }
    pthread_mutex_unlock(&comm->lock);
    return result;
}
