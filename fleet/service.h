/* What a service manager is told and what it hands over: systemd's sd_notify(3), sd_listen_fds(3)
 * and sd_watchdog_enabled(3), without its library. Without a manager all of it does nothing. Before
 * other threads: it changes the environment, so that what this process starts does not take it for
 * its own. */
#ifndef MN_SERVICE_H
#define MN_SERVICE_H

#include "topo/base/err.h"

struct mn_service {
    int fd;               /* where it is told, -1: nowhere */
    unsigned watchdog_ms; /* it wants to hear within, 0: it does not */
    int first, n;         /* listening sockets, descriptors first to first + n - 1 */
};

/* A manager that cannot be told is an error: it would wait. Descriptors are closed by exec. */
enum mn_err mn_service_read(struct mn_service *service, struct mn_diag *diag);
/* Lines such as "READY=1\nSTATUS=listens"; who does not listen hears nothing. */
void mn_service_tell(const struct mn_service *service, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mn_service_close(struct mn_service *service); /* the sockets handed over stay */

#endif
