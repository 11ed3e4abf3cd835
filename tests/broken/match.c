/* Which message goes into which receive, and the copy itself. All of it under the lock. */
#include <stdlib.h>
#include <string.h>

#include "tests/broken/ref.h"

#define SERIALS (1u << 16)

static unsigned long next_serial = 1;
static struct comm *live[SERIALS]; /* by serial; one fault only */

struct request *ref_take(struct comm *comm, enum kind kind)
{
    int limit = IS(FEW_REQUESTS) ? 8 : SLOTS;

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
        if (other && other->channel != r->comm->channel)
            return 0;
    }
    return 1;
}

static int is_open(const struct request *r)
{
    return r->used && !r->done && r->kind == RECV && r->filled < r->n;
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
        if (!r->full[i] && (r->tags[i] == tag || IS(IGNORES_TAGS)))
            return i;
    }
    return -1;
}

static void copy(unsigned char *to, const unsigned char *from, size_t n)
{
    if (IS(DROPS_LAST_BYTE) && n > 4000)
        n--;
    if (IS(ALIGNS) && (uintptr_t)to % 8)
        to -= (uintptr_t)to % 8;
    if (n)
        memcpy(to, from, n);
    if (IS(GUARD_OVERRUN))
        to[n] = 0;
}

static void deliver(struct request *r, int slot, const struct message *m)
{
    size_t n = m->size;

    if (n > r->room[slot]) {
        if (!IS(OVERRUNS))
            n = r->room[slot];
        if (!IS(TRUNCATES))
            r->error = 1;
    }
    copy(r->data[slot], m->data, n);
    r->got[slot] = IS(SIZE_POSTED) ? r->room[slot] : n;
    r->full[slot] = 1;
    r->filled++;
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
    *channel->tail = m;
    channel->tail = &m->next;
}

static struct message *pop(struct channel *channel, struct message **at)
{
    struct message *m = *at;

    *at = m->next;
    if (!*at)
        channel->tail = at;
    return m;
}

static void discard(struct message *m)
{
    free(m->data);
    free(m);
}

void ref_progress(struct channel *channel)
{
    struct comm *recv = channel->ends[RECV];

    while (recv && channel->head) {
        struct message **at = &channel->head, *m;
        struct request *r = NULL;
        int slot = -1;
        for (; *at && !(r = match(recv, *at, &slot)); at = &(*at)->next)
            ;
        if (!r)
            return;
        m = pop(channel, at);
        deliver(r, slot, m);
        discard(m);
    }
}

void ref_drop_messages(struct channel *channel)
{
    while (channel->head)
        discard(pop(channel, &channel->head));
}
