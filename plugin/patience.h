/* For how long an RDMA device tries a write that nobody acknowledges. */
#ifndef MN_PATIENCE_H
#define MN_PATIENCE_H

#include "plugin/config.h"

struct mn_patience {
    int timeout; /* exponent n of the acknowledgement timeout, 4.096 us * 2^n */
    int retries;
    unsigned ms;  /* until the device gives up, as it is specified: the last try waits, too */
    int is_short; /* of rdma_silence, where other settings would be nearer to it */
};

/* What the settings give, and where they leave the timeout open, the one with which a silent peer
 * is found within rdma_silence and not much sooner: until then the cable may be plugged in again.
 * InfiniBand specification 9.7.6.1.3 lets a device take up to four times as long. */
struct mn_patience mn_patience(const struct mn_settings *settings);

#endif
