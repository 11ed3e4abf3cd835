/* A connection whose owner makes no call, since he waits elsewhere for what the peer makes of it,
 * may still owe the peer an answer. One thread of the process stands in for such owners: it does
 * what their calls would, and sleeps while nobody is owed anything.
 *
 * Owner and thread keep apart by a gate that costs the owner a store and a load: he says that he is
 * inside, then looks whether the thread is; the thread says that it looks, makes every processor
 * see it by membarrier(2), then looks whether he is inside, and gives way. tests/models: gate. */
#ifndef MN_ATTEND_H
#define MN_ATTEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Part of a comm, zero until it joins. */
struct mn_attended {
    /* The thread's call, as if it were the owner: what is due. Returns after how many ms to be
     * called again, 0: when it is woken. */
    unsigned (*look)(struct mn_attended *attended);
    int joined;           /* the owner's */
    uint32_t calls, seen; /* … so far; … when the thread called look last */
    uint64_t woken_ms;    /* the thread's: when what woke it last was seen */
    /* attend.c's */
    struct mn_attended *next;
    uint64_t due_ms; /* 0 = when it is woken */
    pthread_mutex_t busy;
    atomic_int inside, looking, woken;
};

/* From open to close, both outside of calls; look is set. 0, or an errno value, when nobody stands
 * in, of which a warning tells; who: for that. After leave the thread is not at it any more. */
int mn_attend_join(struct mn_attended *attended, const char *who);
void mn_attend_leave(struct mn_attended *attended);
/* Something that comes there wakes the thread; who reads it does not matter. 0 or an errno value.
 */
int mn_attend_watch(struct mn_attended *attended, int fd);
/* Wakes it at once; from any thread, while it has joined. */
void mn_attend_wake(struct mn_attended *attended);
/* The owner, inside of a call: it has to be looked at within some 50 ms from its end. */
void mn_attend_soon(struct mn_attended *attended);

/* Around each call of the owner's; nothing when it has not joined. */
void mn_attend_wait(struct mn_attended *attended);
extern atomic_int mn_attend_fences; /* the kernel has no membarrier */

static inline void mn_attend_enter(struct mn_attended *a)
{
    if (!a->joined)
        return;
    if (atomic_load_explicit(&mn_attend_fences, memory_order_relaxed)) {
        (void)atomic_exchange(&a->inside, 1); /* attend.c: hold says why no store */
    } else {
        atomic_store_explicit(&a->inside, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    }
    if (atomic_load(&a->looking))
        mn_attend_wait(a);
    a->calls++;
}

static inline void mn_attend_exit(struct mn_attended *a)
{
    if (a->joined)
        atomic_store_explicit(&a->inside, 0, memory_order_release);
}

#endif
