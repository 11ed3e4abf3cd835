/* What verbs cost that ask the kernel: a count of each kind, and a time where control=… gives one.
 */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
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

int fv_fails(enum fv_failing verb)
{
    static const int errors[FV_N_FAILING] = {
        [FV_FAIL_CREATE_CQ] = ENOMEM, [FV_FAIL_CREATE_QP] = ENOMEM, [FV_FAIL_MODIFY_QP] = ENOMEM,
        [FV_FAIL_RTR] = ETIMEDOUT,    [FV_FAIL_POST_SEND] = ENOMEM, [FV_FAIL_POST_RECV] = ENOMEM,
        [FV_FAIL_EVENT] = 1,
    };
    long *left = &fv.config.fail[verb];
    return *left > 0 && --*left == 0 ? errors[verb] : 0;
}
