/* Inside of fleet/ctl*.c. */
#ifndef MN_CTL_IMPL_H
#define MN_CTL_IMPL_H

#include "fleet/ctl.h"
#include "plugin/conn.h" /* mn_now_ms */

/* Ends within 10 s. */
enum mn_err mn_ctl_write(struct mn_ctl *ctl, const void *data, size_t len, struct mn_diag *diag);
/* *got, may be NULL: bytes read, also after an error. */
enum mn_err mn_ctl_read(struct mn_ctl *ctl, void *data, size_t len, uint64_t deadline, size_t *got,
                        struct mn_diag *diag);

#endif
