/* test: whether a request is done, and what became of it. */
#include <string.h>
#include <time.h>

#include "tests/broken/ref.h"

int ref_somebody_died;

static int older_out(const struct request *r)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct request *o = &r->comm->requests[i];
        if (o->used && o->serial < r->serial && o->kind == r->kind)
            return 1;
    }
    return 0;
}

static void peer_gone(struct request *r)
{
    if (!r->comm->channel->closed[1 - r->kind])
        return;
    r->trouble = PEER_GONE;
    ref_somebody_died |= r->comm->channel->fd >= 0;
}

static int complete(struct request *r)
{
    struct channel *channel = r->comm->channel;

    if (IS(TEST_IN_ORDER) && older_out(r))
        return 0;
    if ((IS(TEST_IN_GLOBAL_ORDER) || (IS(RECEIVES_IN_ORDER) && r->kind == RECV)) &&
        !ref_first_of_all(r))
        return 0;
    if (IS(SEND_NEEDS_CALL) && r->kind == SEND && r->owed++)
        ref_send_unsent(channel, NULL);
    if (r->kind == SEND && r->sent)
        return 1;
    ref_progress(channel);
    if (r->kind == SEND ? r->sent : r->filled >= r->n - (IS(GROUP_EARLY) && r->n > 1))
        return 1;
    if (IS(DONE_AFTER_CLOSE) && channel->closed[SEND])
        return 1;
    if (!(IS(SENDER_GONE_SILENT) && r->kind == RECV))
        peer_gone(r);
    return 0;
}

static void report_sizes(const struct request *r, int *sizes)
{
    int n = IS(SIZES_EXTRA) ? MAX_RECVS : r->n;

    if (!sizes && !IS(SIZES_NULL_CRASH))
        return;
    for (int i = 0; i < n; i++)
        sizes[i] = (int)r->got[i];
}

/* Some faults' sends: read after they were reported done. */
static void late_senders(struct channel *channel)
{
    for (int i = 0; channel->ends[SEND] && i < SLOTS; i++) {
        struct request *r = &channel->ends[SEND]->requests[i];
        if (r->late && --r->owed == 0) {
            memcpy(r->late->data, r->source, r->late->size);
            ref_push(channel, r->late);
            r->late = NULL;
            ref_progress(channel);
        }
        if (!r->late && r->done)
            r->used = 0;
    }
}

static void dawdle(void)
{
    struct timespec start, now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 300000);
}

static ncclResult_t verdict(enum trouble trouble)
{
    switch (trouble) {
    case FINE:
        return ncclSuccess;
    case TOO_LONG:
        return ref_refuse("message longer than the receive");
    case WITHDRAWN:
        return ref_refuse("message for memory that was deregistered");
    case PEER_GONE:
        break;
    }
    return ncclRemoteError;
}

ncclResult_t ref_test(void *request, int *done, int *sizes)
{
    struct request *r = request;
    enum trouble trouble;
    int finished;

    if (IS(TEST_SLEEPS))
        ref_nap();
    if (IS(TEST_HANGS) || IS(BLOCKS_EVERYWHERE))
        ref_idle(NULL);
    if (IS(NEVER_DONE)) {
        *done = 0;
        return ncclSuccess;
    }
    if (IS(TEST_BURNS))
        dawdle();
    pthread_mutex_lock(&ref_lock);
    finished = complete(r);
    trouble = r->trouble;
    if ((IS(SEND_COPIED_LATE) || IS(DEREG_READS)) && r->kind == RECV)
        late_senders(r->comm->channel);
    if (trouble == FINE && (finished || !IS(DONE_NOT_WRITTEN)))
        *done = IS(DONE_TWO) && finished ? 2 : finished;
    if (trouble == FINE && finished) {
        if (r->kind == RECV)
            report_sizes(r, sizes);
        ref_forget(r);
        r->done = 1;
        r->used = r->late != NULL;
        r->comm->out--;
    }
    pthread_mutex_unlock(&ref_lock);
    return verdict(trouble);
}
