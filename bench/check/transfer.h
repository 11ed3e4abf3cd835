/* Rules of the transfer family about test: transfer_poll.c. */
#ifndef MN_CHECK_TRANSFER_H
#define MN_CHECK_TRANSFER_H

#include "bench/check/rule.h"

void mn_transfer_done(struct mn_check *check);
void mn_transfer_sizes_null(struct mn_check *check);
void mn_transfer_reuse(struct mn_check *check);
void mn_transfer_test_returns(struct mn_check *check);

#endif
