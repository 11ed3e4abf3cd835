#include "bench/check/turns.h"

void mn_turns_take(struct mn_turns *turns)
{
    unsigned long mine;

    pthread_mutex_lock(&turns->lock);
    mine = turns->taken++;
    while (turns->at != mine)
        pthread_cond_wait(&turns->next, &turns->lock);
    pthread_mutex_unlock(&turns->lock);
}

void mn_turns_pass(struct mn_turns *turns)
{
    pthread_mutex_lock(&turns->lock);
    turns->at++;
    pthread_cond_broadcast(&turns->next);
    pthread_mutex_unlock(&turns->lock);
}
