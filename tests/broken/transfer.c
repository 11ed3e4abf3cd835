/* isend, irecv and test. */
#include <stdlib.h>
#include <string.h>

#include "tests/broken/ref.h"

static struct message *new_message(const void *data, size_t size, int tag)
{
    struct message *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->size = size;
    m->tag = tag;
    m->data = malloc(size + 1);
    if (!m->data) {
        free(m);
        return NULL;
    }
    if (size)
        memcpy(m->data, data, size);
    return m;
}

/* Under the lock. */
static ncclResult_t send_now(struct comm *comm, void *data, size_t size, int tag, void **request)
{
    struct channel *channel = comm->channel;
    struct request *r;
    struct message *m;

    if ((channel->closed[RECV] && !IS(RECEIVER_GONE_SILENT)) ||
        (IS(EARLY_SEND_REFUSED) && channel->ends[RECV] && !ref_oldest(channel->ends[RECV])))
        return ncclRemoteError;
    m = new_message(data, size, tag);
    if (!m)
        return ncclSystemError;
    r = ref_take(comm, SEND);
    if (r || !IS(REQUEST_NOT_WRITTEN))
        *request = r;
    if (!r || (IS(ZERO_SKIPPED) && size == 0)) {
        free(m->data);
        free(m);
    } else if (IS(SEND_COPIED_LATE)) {
        r->source = data;
        r->late = m;
        r->owed = 30;
    } else {
        ref_push(channel, m);
        ref_progress(channel);
    }
    return ncclSuccess;
}

ncclResult_t ref_isend(struct comm *comm, void *data, size_t size, int tag, void *mhandle,
                       void **request)
{
    ncclResult_t result;

    if (IS(OPTIONAL_KEPT) && *request == (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION)
        return ncclSuccess;
    pthread_mutex_lock(&ref_lock);
    result = send_now(comm, ref_offset(data, mhandle), size, tag, request);
    pthread_mutex_unlock(&ref_lock);
    return result;
}

ncclResult_t ref_irecv(struct comm *comm, int n, void **data, const size_t *sizes, const int *tags,
                       void **mhandles, void **request)
{
    struct request *r;

    if (n < 1 || n > MAX_RECVS)
        return ncclInvalidArgument;
    if (IS(OPTIONAL_KEPT) && *request == (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION)
        return ncclSuccess;
    pthread_mutex_lock(&ref_lock);
    r = ref_take(comm, RECV);
    if (r || !IS(REQUEST_NOT_WRITTEN))
        *request = r;
    if (r) {
        r->n = n;
        for (int i = 0; i < n; i++) {
            r->data[i] = ref_offset(data[i], mhandles[i]);
            r->room[i] = sizes[i];
            r->tags[i] = tags[i];
        }
        ref_progress(comm->channel);
    }
    pthread_mutex_unlock(&ref_lock);
    return ncclSuccess;
}

static int older_out(const struct request *r)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct request *o = &r->comm->requests[i];
        if (o->used && o->serial < r->serial && o->kind == r->kind)
            return 1;
    }
    return 0;
}

static int complete(struct request *r)
{
    struct channel *channel = r->comm->channel;

    if (IS(TEST_IN_ORDER) && older_out(r))
        return 0;
    if (IS(TEST_IN_GLOBAL_ORDER) && !ref_first_of_all(r))
        return 0;
    if (r->kind == SEND)
        return 1;
    ref_progress(channel);
    if (r->filled >= r->n - (IS(GROUP_EARLY) && r->n > 1))
        return 1;
    if (channel->closed[SEND] && !channel->head && !IS(SENDER_GONE_SILENT))
        r->error = 2;
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

/* One fault's sends: read after they were reported done. */
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

ncclResult_t ref_test(void *request, int *done, int *sizes)
{
    struct request *r = request;
    int finished, error;

    if (IS(TEST_SLEEPS))
        ref_nap();
    if (IS(TEST_HANGS))
        ref_hang();
    pthread_mutex_lock(&ref_lock);
    finished = complete(r);
    error = r->error;
    if (IS(SEND_COPIED_LATE) && r->kind == RECV)
        late_senders(r->comm->channel);
    if (!error && (finished || !IS(DONE_NOT_WRITTEN)))
        *done = IS(DONE_TWO) && finished ? 2 : finished;
    if (!error && finished) {
        if (r->kind == RECV)
            report_sizes(r, sizes);
        ref_forget(r);
        r->done = 1;
        r->used = r->late != NULL;
        r->comm->out--;
    }
    pthread_mutex_unlock(&ref_lock);
    return error == 0   ? ncclSuccess
           : error == 1 ? ref_refuse("message longer than the receive")
                        : ncclRemoteError;
}
