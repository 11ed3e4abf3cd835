/* isend and irecv. */
#include <stdlib.h>
#include <string.h>

#include "tests/broken/ref.h"

#define OPTIONAL ((void *)NCCL_NET_OPTIONAL_RECV_COMPLETION)
#define COPIED   ((size_t)64 << 20) /* at most: fresh memory costs more than all else */

struct message *ref_new_message(void *data, size_t size, int tag)
{
    struct message *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->size = size;
    m->tag = tag;
    m->lent = data && size > COPIED;
    if (m->lent) {
        m->data = data;
        return m;
    }
    m->data = malloc(size + 1);
    if (!m->data) {
        free(m);
        return NULL;
    }
    if (size && data)
        memcpy(m->data, data, size);
    return m;
}

/* One fault: every other comm is heard at one attempt in 64. */
static int is_heard(struct comm *comm)
{
    return comm->number / 2 % 2 == 0 || comm->attempts++ % 64 == 0;
}

void ref_send_unsent(struct channel *channel, struct message *next)
{
    if (channel->unsent) {
        ref_push(channel, channel->unsent);
        ref_progress(channel);
    }
    channel->unsent = next;
}

static void hand_over(struct channel *channel, struct request *r, struct message *m)
{
    m->sender = r;
    r->sent = channel->fd < 0 && !m->lent;
    if (IS(SEND_NEEDS_CALL) && channel->fd < 0) {
        ref_send_unsent(channel, m);
        return;
    }
    if (IS(TWO_SEND_NEEDS_CALL) && channel->fd >= 0) {
        ref_progress(channel);
        r->sent = 1;
        ref_push(channel, m);
        return;
    }
    ref_push(channel, m);
    ref_progress(channel);
}

/* Under the lock. */
static ncclResult_t send_now(struct comm *comm, void *data, size_t size, int tag, void **request)
{
    struct channel *channel = comm->channel;
    struct request *r = NULL;
    struct message *m;

    if (channel->closed[RECV] && !IS(RECEIVER_GONE_SILENT) && !IS(DEATH_UNSEEN))
        return ncclRemoteError;
    if (IS(DEATH_SPREADS) && ref_somebody_died)
        return ncclRemoteError;
    if (ref_disturbed) {
        ref_disturbed = IS(CLOSE_DISTURBS);
        return ncclRemoteError;
    }
    if (IS(TAG_LIMIT) && tag > 4)
        return ncclInvalidArgument;
    if (IS(LONG_REFUSED) && size > 1 << 29)
        return ncclInvalidArgument;
    if (IS(EARLY_SEND_REFUSED) && channel->ends[RECV] && !ref_oldest(channel->ends[RECV]))
        return ncclRemoteError;
    m = ref_new_message(data, size, tag);
    if (!m)
        return ncclSystemError;
    if (channel->queued < QUEUED && (!IS(UNFAIR) || is_heard(comm)))
        r = ref_take(comm, SEND);
    if (!r && IS(FULL_IS_ERROR)) {
        ref_discard(m);
        return ncclInternalError;
    }
    if (r || !IS(REQUEST_NOT_WRITTEN))
        *request = r;
    if (!r || (IS(ZERO_SKIPPED) && size == 0)) {
        ref_discard(m);
        if (r)
            r->sent = 1;
    } else if (IS(SEND_COPIED_LATE) || (IS(DEREG_READS) && size > 1 << 23)) {
        r->source = data;
        r->late = m;
        r->owed = 30;
        r->sent = 1;
    } else {
        hand_over(channel, r, m);
    }
    return ncclSuccess;
}

/* One fault: through a buffer that all threads share, outside the lock. */
static void *staged(void *data, size_t size)
{
    static char staging[1 << 16];

    if (size == 0 || size > sizeof staging)
        return data;
    memcpy(staging, data, size);
    ref_nap();
    return staging;
}

ncclResult_t ref_isend(struct comm *comm, void *data, size_t size, int tag, void *mhandle,
                       void **request)
{
    ncclResult_t result;

    BLOCKS_IN(SEND);
    if (IS(OPTIONAL_KEPT) && *request == OPTIONAL)
        return ncclSuccess;
    if (IS(REQUEST_READ) && *request && *request != OPTIONAL)
        memset(*request, 0, sizeof(struct request));
    if (IS(COMM_THREAD) && !pthread_equal(comm->maker, pthread_self()))
        return ref_refuse("isend on another thread than connect");
    if (IS(V11_ATTR_KEPT))
        ref_use_attr();
    pthread_mutex_lock(&ref_lock);
    result = ref_covers(mhandle, data, size) ? ncclSuccess
                                             : ref_refuse("isend outside the registration");
    pthread_mutex_unlock(&ref_lock);
    if (result != ncclSuccess)
        return result;
    if (IS(STAGING_SHARED))
        data = staged(data, size);
    pthread_mutex_lock(&ref_lock);
    result = send_now(comm, ref_offset(data, mhandle), size, tag, request);
    pthread_mutex_unlock(&ref_lock);
    return result;
}

static void post(struct request *r, int n, void **data, const size_t *sizes, const int *tags,
                 void **mhandles)
{
    r->n = n;
    for (int i = 0; i < n; i++) {
        r->data[i] = ref_offset(data[i], mhandles[i]);
        r->room[i] = sizes[i];
        r->tags[i] = tags[i];
        r->mhandles[i] = mhandles[i];
        if (IS(ZEROES_BUFFER))
            memset(r->data[i], 0, r->room[i]);
    }
}

ncclResult_t ref_irecv(struct comm *comm, int n, void **data, const size_t *sizes, const int *tags,
                       void **mhandles, void **request)
{
    int optional = *request == OPTIONAL, outside = 0;
    struct request *r = NULL;

    BLOCKS_IN(RECV);
    if (n < 1 || n > MAX_RECVS)
        return ncclInvalidArgument;
    if (IS(OPTIONAL_KEPT) && optional)
        return ncclSuccess;
    pthread_mutex_lock(&ref_lock);
    for (int i = 0; i < n; i++)
        outside |= !ref_covers(mhandles[i], data[i], sizes[i]);
    if (!outside) {
        r = ref_take(comm, RECV);
        if (r || !IS(REQUEST_NOT_WRITTEN))
            *request = r;
    }
    if (r) {
        post(r, n, data, sizes, tags, mhandles);
        if (IS(V9_OPTIONAL_LOST) && optional)
            r->filled = r->n;
        ref_progress(comm->channel);
    }
    pthread_mutex_unlock(&ref_lock);
    if (outside)
        return ref_refuse("irecv outside the registration");
    return !r && IS(FULL_IS_ERROR) ? ncclInternalError : ncclSuccess;
}
