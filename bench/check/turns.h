/* A lock that its waiters get in the order in which they came. */
#ifndef MN_CHECK_TURNS_H
#define MN_CHECK_TURNS_H

#include <pthread.h>

struct mn_turns {
    pthread_mutex_t lock;
    pthread_cond_t next;
    unsigned long taken, at; /* turns given out; the one whose holder may go on */
};

#define MN_TURNS                                                                                   \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0                                  \
    }

/* Waits for as long as those before take. */
void mn_turns_take(struct mn_turns *turns);
void mn_turns_pass(struct mn_turns *turns);

#endif
