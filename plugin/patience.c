#include "plugin/patience.h"

#define FIRST   14
#define LONGEST 22   /* that a setting may name, too */
#define MARGIN  1.25 /* of rdma_silence, for what a device takes longer */

static double give_up_ms(int timeout, int retries)
{
    return 4.096e-3 * (double)(1u << timeout) * (retries + 1);
}

struct mn_patience mn_patience(const struct mn_settings *s)
{
    struct mn_patience p = {.timeout = FIRST, .retries = mn_ack_retries(s)};

    while (p.timeout < LONGEST &&
           give_up_ms(p.timeout + 1, p.retries) * MARGIN <= s->rdma_silence_ms)
        p.timeout++;
    /* Where the longest timeout is not enough, only more retries would be. */
    p.is_short = give_up_ms(p.timeout + 1, p.retries) * MARGIN <= s->rdma_silence_ms;
    if (s->ack_timeout) {
        p.timeout = s->ack_timeout;
        p.is_short = give_up_ms(p.timeout, p.retries) < s->rdma_silence_ms;
    }
    p.ms = (unsigned)give_up_ms(p.timeout, p.retries);
    return p;
}
