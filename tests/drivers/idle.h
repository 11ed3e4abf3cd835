/* For drivers that turn until something moves, on machines with others to serve: with DRIVER_NAP in
 * the environment they sleep so many microseconds in each turn after many without a move. */
#ifndef DRIVER_IDLE_H
#define DRIVER_IDLE_H

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define DRIVER_TURNS 32 /* without a move: then it naps */

/* The number in a variable of the environment, 0 without one. */
static inline unsigned driver_number(const char *variable)
{
    const char *text = getenv(variable);

    return text ? (unsigned)atoi(text) : 0;
}

/* Once in each turn. */
static inline void driver_turn(int moved)
{
    static unsigned still, nap_us, asked;

    if (!asked++)
        nap_us = driver_number("DRIVER_NAP");
    still = moved ? 0 : still + 1;
    if (nap_us && still >= DRIVER_TURNS)
        usleep(nap_us);
    else if (still)
        sched_yield();
}

#endif
