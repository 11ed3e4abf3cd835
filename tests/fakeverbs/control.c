/* What verbs cost that ask the kernel: a count of each kind, and a time where control=… gives one.
 */
#include "tests/fakeverbs/fv.h"

#include <time.h>

void fv_control(enum fv_counter kind)
{
    fv_lock();
    fv.counters[kind]++;
    long us = fv.config.control;
    fv_unlock();
    if (us > 0)
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}
