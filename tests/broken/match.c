/* Which message goes into which receive. All of it under the lock. */
#include <stdlib.h>
#include <string.h>

#include "tests/broken/ref.h"

#define SERIALS (1u << 16)
#define PART    ((size_t)16 << 20)

static unsigned long next_serial = 1;
static struct comm *live[SERIALS]; /* by serial; one fault only */

static int is_open(const struct request *r)
{
    return r->used && !r->done && r->kind == RECV && r->filled < r->n;
}

struct request *ref_take(struct comm *comm, enum kind kind)
{
    int limit = IS(FEW_REQUESTS) ? 8 : IS(GROUPS_FEW) ? 16 : SLOTS;

    for (int i = 0; i < limit; i++)
        if (!comm->requests[i].used) {
            struct request *r = &comm->requests[i];
            *r = (struct request){.used = 1, .kind = kind, .comm = comm, .serial = next_serial++};
            comm->out++;
            live[r->serial % SERIALS] = comm;
            return r;
        }
    return NULL;
}

void ref_forget(const struct request *r)
{
    live[r->serial % SERIALS] = NULL;
}

int ref_first_of_all(const struct request *r)
{
    for (unsigned long s = 1; s < r->serial; s++) {
        const struct comm *other = live[s % SERIALS];
        if (other && other->channel != r->comm->channel &&
            (other->kind == RECV || !IS(RECEIVES_IN_ORDER)))
            return 0;
    }
    return 1;
}

struct request *ref_oldest(struct comm *comm)
{
    struct request *best = NULL;

    for (int i = 0; i < SLOTS; i++) {
        struct request *r = &comm->requests[i];
        if (is_open(r) &&
            (!best || (IS(LIFO) ? r->serial > best->serial : r->serial < best->serial)))
            best = r;
    }
    return best;
}

static int pick_slot(const struct request *r, int tag)
{
    if (r->n == 1)
        return r->full[0] ? -1 : 0;
    for (int k = 0; k < r->n; k++) {
        int i = IS(EQUAL_REVERSED) ? r->n - 1 - k : k;
        int other = r->n - 1 - i;
        if (r->full[i] || (r->tags[i] != tag && !IS(IGNORES_TAGS)))
            continue;
        return IS(TAGS_SWAPPED) && !r->full[other] ? other : i;
    }
    return -1;
}

/* Some faults: what is written when the receive was reported done. */
static void leave_over(struct channel *channel, const struct request *r, unsigned char *to,
                       const struct message *m, size_t from, size_t n)
{
    struct leftover *l = &channel->leftover;

    free(l->from);
    *l = (struct leftover){.owner = r,
                           .serial = r->serial,
                           .to = to + from,
                           .from = malloc(n),
                           .n = n};
    if (l->from)
        memcpy(l->from, m->data + from, n);
}

static void write_leftover(struct channel *channel)
{
    struct leftover *l = &channel->leftover;

    if (!l->from || (l->owner->used && l->owner->serial == l->serial))
        return;
    memcpy(l->to, l->from, l->n);
    free(l->from);
    l->from = NULL;
}

static void deliver(struct channel *channel, struct request *r, int slot, const struct message *m)
{
    unsigned char *to = r->data[slot];
    size_t n = m->size, before = m->lent ? m->moved : 0;

    if (n > r->room[slot]) {
        if (!IS(OVERRUNS))
            n = r->room[slot];
        if (!IS(TRUNCATES))
            r->trouble = TOO_LONG;
    }
    if (!to && n)
        r->trouble = WITHDRAWN;
    else if (IS(EARLY_DONE) && n > 1024) {
        ref_copy(to, m->data, n - 512);
        leave_over(channel, r, to, m, n - 512, 512);
    } else {
        ref_copy(to + before, m->data + before, n - before);
        if (IS(LATE_WRITE) && n)
            leave_over(channel, r, to, m, 0, n);
    }
    r->got[slot] = IS(SIZE_POSTED) || (IS(TWO_SIZE_POSTED) && channel->fd >= 0) ? r->room[slot]
                   : IS(SIZE_STALE)                                             ? channel->last_size
                                                                                : n;
    channel->last_size = n;
    r->full[slot] = 1;
    r->filled++;
}

/* 1: a part of a message that was lent has arrived, and not the last. */
static int part(const struct request *r, int slot, struct message *m)
{
    if (!m->lent || m->size - m->moved <= PART || m->size > r->room[slot] || !r->data[slot])
        return 0;
    ref_copy((unsigned char *)r->data[slot] + m->moved, m->data + m->moved, PART);
    m->moved += PART;
    return 1;
}

static struct request *match(struct comm *recv, const struct message *m, int *slot)
{
    struct request *head = ref_oldest(recv);

    *slot = head ? pick_slot(head, m->tag) : -1;
    if (*slot >= 0 || !head || !IS(SKIPS_HEAD))
        return *slot >= 0 ? head : NULL;
    for (int i = 0; i < SLOTS; i++)
        if (&recv->requests[i] != head && is_open(&recv->requests[i])) {
            *slot = 0;
            return &recv->requests[i];
        }
    return NULL;
}

void ref_push(struct channel *channel, struct message *m)
{
    channel->queued++;
    if (IS(SENDS_SWAPPED) && channel->head) {
        m->next = channel->head;
        channel->head = m;
        return;
    }
    *channel->tail = m;
    channel->tail = &m->next;
}

struct message *ref_pop(struct channel *channel, struct message **at)
{
    struct message *m = *at;

    *at = m->next;
    if (!*at)
        channel->tail = at;
    channel->queued--;
    return m;
}

void ref_discard(struct message *m)
{
    if (!m->lent && !IS(MESSAGE_LEAK))
        free(m->data);
    free(m);
}

void ref_progress(struct channel *channel)
{
    struct comm *recv = channel->ends[RECV];

    if (channel->leftover.from)
        write_leftover(channel);
    if (channel->fd >= 0 && !recv) {
        ref_wire_send(channel);
        return;
    }
    if (channel->fd >= 0)
        ref_wire_receive(channel);
    while (recv && channel->head) {
        struct message **at = &channel->head, *m;
        struct request *r = NULL;
        int slot = -1;
        for (; *at && !(r = match(recv, *at, &slot)); at = &(*at)->next)
            ;
        if (!r || part(r, slot, *at))
            return;
        m = ref_pop(channel, at);
        deliver(channel, r, slot, m);
        if (m->lent)
            m->sender->sent = 1;
        ref_discard(m);
    }
}

void ref_drop_messages(struct channel *channel)
{
    while (channel->head)
        ref_discard(ref_pop(channel, &channel->head));
}
