/* irecv, and how what comes in finds its place: the oldest receive is filled first; what has no
 * place in it waits aside. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/broken/second/alt.h"

#define LONGEST   ((uint64_t)1 << 40)
#define MAX_ASIDE 8 /* one fault's */

static struct alt_request *oldest(struct alt_comm *comm)
{
    struct alt_request *best = comm->head;

    if (WRONG(GROUP_SEQ16))
        for (struct alt_request *r = best; r; r = r->next)
            if (r->seq < best->seq && (best == comm->head ? best->filled == 0 : 1))
                best = r;
    return best;
}

static int slot_for(struct alt_comm *comm, const struct alt_request *r, int64_t tag)
{
    for (int i = 0; i < r->n; i++) {
        int at = WRONG(GROUP_CURSOR) ? (comm->cursor + i) % r->n : i;
        int asked = WRONG(TAG_SHORT) ? (int16_t)r->tags[at] : r->tags[at];
        if (r->full[at] || (WRONG(TAG_INT_MAX) && asked == INT_MAX))
            continue;
        if (asked == tag || (WRONG(TAG_ZERO_ANY) && asked == 0)) {
            comm->cursor = at + 1;
            return at;
        }
    }
    return -1;
}

static struct alt_request *place_for(struct alt_comm *comm, int64_t tag, int *slot)
{
    struct alt_request *r = oldest(comm);

    *slot = r ? slot_for(comm, r, tag) : -1;
    return *slot < 0 ? NULL : r;
}

static void unqueue(struct alt_comm *comm, struct alt_request *r)
{
    struct alt_request **at = &comm->head;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    for (at = &comm->head; *at; at = &(*at)->next)
        ;
    comm->tail = at;
    r->done = 1;
}

static void landed(struct alt_comm *comm, struct alt_request *r, int slot, size_t size)
{
    if (!WRONG(GROUP_SIZES_STALE) || size || r->n == 1)
        r->got[slot] = size;
    r->full[slot] = 1;
    if (++r->filled == r->n && !r->done)
        unqueue(comm, r);
}

/* Whether it fits; a longer message is the sender's error and ends the connection. */
static int fits(struct alt_comm *comm, const struct alt_request *r, int slot, uint64_t size)
{
    if (size <= r->room[slot])
        return 1;
    alt_warn("a message is longer than the receive");
    comm->broken = ncclInvalidUsage;
    return 0;
}

/* What waits aside goes where it has a place by now. */
static void unpark(struct alt_comm *comm)
{
    struct alt_parked **at = &comm->parked;
    int slot;

    while (*at && !comm->broken) {
        struct alt_parked *p = *at;
        struct alt_request *r = place_for(comm, p->header.tag, &slot);
        if (!r) {
            at = &p->next;
            continue;
        }
        if (!fits(comm, r, slot, p->header.size))
            return;
        if (p->header.size)
            alt_put(r->data[slot], p->data, p->header.size);
        *at = p->next;
        landed(comm, r, slot, p->header.size);
        if (!WRONG(PARK_STATIC))
            free(p->data);
        free(p);
        at = &comm->parked; /* the next receive may be the oldest now */
    }
}

static int read_some(struct alt_comm *comm, void *to, size_t size)
{
    ssize_t n = recv(alt_fd(comm), to, size, MSG_DONTWAIT);

    if (n > 0)
        return (int)n;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (WRONG(RECV_EOF) && n == 0)
        return 0;
    if (WRONG(RECV_ABORTS))
        abort();
    if (WRONG(RECV_SHORT_DONE) && comm->into) {
        landed(comm, comm->into, comm->slot, comm->moved);
        comm->header_got = 0;
        comm->into = NULL;
    }
    comm->broken = ncclRemoteError;
    return 0;
}

static struct alt_parked *park(struct alt_comm *comm)
{
    static char everybodys[4096];
    struct alt_parked *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->header = comm->header;
    p->data = WRONG(PARK_STATIC) && p->header.size <= sizeof everybodys
                  ? everybodys
                  : malloc(p->header.size + 1);
    if (p->data)
        return p;
    free(p);
    return NULL;
}

/* The header is here: where its bytes go. */
static void begin(struct alt_comm *comm)
{
    comm->moved = comm->held = 0;
    if (comm->header.size > LONGEST) {
        comm->broken = ncclRemoteError;
        return;
    }
    comm->into = place_for(comm, comm->header.tag, &comm->slot);
    if (comm->into && !fits(comm, comm->into, comm->slot, comm->header.size)) {
        comm->into = NULL;
        return;
    }
    if (!comm->into) {
        comm->parking = park(comm);
        if (!comm->parking)
            comm->broken = ncclSystemError;
    }
    comm->target = comm->into      ? comm->into->data[comm->slot]
                   : comm->parking ? comm->parking->data
                                   : NULL;
    if (WRONG(GROUP_DONE_EARLY) && comm->into && comm->into->n > 1 &&
        comm->into->filled + 1 == comm->into->n) {
        comm->into->got[comm->slot] = comm->header.size;
        unqueue(comm, comm->into);
        comm->into = NULL;
    }
}

static void finish(struct alt_comm *comm)
{
    struct alt_parked **at = &comm->parked;
    int aside = 0;

    comm->header_got = 0;
    if (comm->into) {
        landed(comm, comm->into, comm->slot, comm->header.size);
        comm->into = NULL;
        return;
    }
    if (!comm->parking)
        return;
    for (; *at; at = &(*at)->next)
        aside++;
    if (WRONG(PARK_LIMIT) && aside >= MAX_ASIDE) {
        free(comm->parking->data);
        free(comm->parking);
    } else {
        at = WRONG(PARK_LIFO) ? &comm->parked : at;
        comm->parking->next = *at;
        *at = comm->parking;
    }
    comm->parking = NULL;
}

/* One fault: through memory of its own, all that is there each time. */
static int read_again(struct alt_comm *comm)
{
    int n;

    if (comm->moved == 0) {
        free(comm->bounce);
        comm->bounce = malloc(comm->header.size + 1);
    }
    n = comm->bounce ? read_some(comm, comm->bounce + comm->moved, comm->header.size - comm->moved)
                     : 0;
    if (n > 0) {
        alt_put(comm->target, comm->bounce, comm->moved + (size_t)n);
        comm->moved += (size_t)n;
    }
    return n;
}

static int read_ordered(struct alt_comm *comm)
{
    size_t left = comm->header.size - comm->moved, room = sizeof comm->ordered;
    int n = read_some(comm, comm->ordered + comm->held, (left < room ? left : room) - comm->held);

    if (n > 0)
        alt_put_ordered(comm, comm->held + (size_t)n);
    return n;
}

static int read_payload(struct alt_comm *comm)
{
    int n;

    if (comm->moved == comm->header.size)
        return 1;
    n = WRONG(RECV_WRITES_TWICE) ? read_again(comm) : read_ordered(comm);
    if (WRONG(RECV_WHOLE_WORDS) && n > 0 && comm->into && comm->moved == comm->header.size)
        while (comm->moved % 8 && comm->moved < comm->into->room[comm->slot])
            comm->target[comm->moved++] = 0;
    return n > 0;
}

void alt_recv_progress(struct alt_comm *comm)
{
    if (comm->parked && !comm->into && !comm->parking)
        unpark(comm);
    while (comm->head && !comm->broken) {
        if (comm->header_got < sizeof comm->header) {
            int n = read_some(comm, (char *)&comm->header + comm->header_got,
                              sizeof comm->header - comm->header_got);
            if (n == 0)
                return;
            comm->header_got += (size_t)n;
            if (comm->header_got == sizeof comm->header)
                begin(comm);
            continue;
        }
        if (comm->moved < comm->header.size && !read_payload(comm))
            return;
        if (comm->moved >= comm->header.size) {
            finish(comm);
            if (comm->parked)
                unpark(comm);
        }
    }
}

static void post(struct alt_comm *comm, struct alt_request *r, int n, void **data,
                 const size_t *sizes, const int *tags, void **mrs)
{
    r->n = n;
    r->seq = comm->seq++;
    r->next = NULL;
    r->moved = 0;
    for (int i = 0; i < n; i++) {
        r->data[i] = data[i];
        r->room[i] = sizes[i];
        r->tags[i] = tags[i];
        r->mr[i] = mrs[i];
    }
    *comm->tail = r;
    comm->tail = &r->next;
}

ncclResult_t alt_irecv(void *recv_comm, int n, void **data, const size_t *sizes, const int *tags,
                       void **mrs, void **request)
{
    struct alt_comm *comm = recv_comm;
    struct alt_request *r = NULL;
    ncclResult_t result = ncclSuccess;

    if (n < 1 || n > ALT_RECVS)
        return ncclInvalidArgument;
    pthread_mutex_lock(&comm->lock);
    for (int i = 0; i < n; i++)
        if (!alt_covered(mrs[i], data[i], sizes[i]))
            result = ncclInvalidArgument;
    if (result == ncclSuccess)
        r = alt_take(comm);
    if (r) {
        post(comm, r, n, data, sizes, tags, mrs);
        if (!WRONG(DEREG_STILL_WRITTEN) && (!WRONG(TEST_TURNS) || alt_in_turn(comm, 1)))
            alt_recv_progress(comm);
    }
    if (r || !WRONG(RECV_FULL_STALE))
        *request = r;
    pthread_mutex_unlock(&comm->lock);
    return result;
}

ncclResult_t alt_flush(void *recv_comm, void **request)
{
    struct alt_comm *comm = recv_comm;
    static char nowhere[1 << 16];
    struct alt_request *r;

    *request = NULL;
    if (!WRONG(FLUSH_TAKES))
        return ncclSuccess;
    pthread_mutex_lock(&comm->lock);
    r = alt_take(comm);
    if (r)
        post(comm, r, 1, &(void *){nowhere}, &(size_t){sizeof nowhere}, &(int){0}, &(void *){NULL});
    pthread_mutex_unlock(&comm->lock);
    return ncclSuccess;
}
