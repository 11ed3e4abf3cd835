/* The process's door for those that come back. */
#include <string.h>
#include <unistd.h>

#include "plugin/listen.h"
#include "plugin/reopen_impl.h"
#include "plugin/thread.h"
#include "topo/base/log.h"

/* Taken around arrive.c's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static int fds[MN_REOPEN_FDS], n_fds; /* 0: closed */
static uint16_t port;
static unsigned patience_ms;
static struct mn_arrivals arrivals;
static unsigned long strangers;
static int told; /* that there is no door */

/* Devices may have addresses in common. */
static int list_addresses(const struct mn_config *config, struct mn_local locals[MN_REOPEN_FDS])
{
    int n = 0;

    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++) {
            const struct mn_local *local = &config->devices[d].locals[i];
            int k = 0;
            while (k < n && !mn_addr_equal(&locals[k].addr, &local->addr))
                k++;
            if (k == n)
                locals[n++] = *local;
        }
    return n;
}

static enum mn_err open_door(const struct mn_config *config, struct mn_diag *diag)
{
    struct mn_local locals[MN_REOPEN_FDS];
    int n = list_addresses(config, locals);
    enum mn_err err =
        mn_listen_all(&config->settings.port_range, "all devices", locals, n, fds, &port, diag);

    if (err)
        return err;
    n_fds = n;
    patience_ms = config->settings.handshake_ms;
    strangers = 0;
    mn_arrivals_open(&arrivals);
    return MN_OK;
}

static void close_door(void)
{
    mn_arrivals_close(&arrivals);
    while (n_fds)
        close(fds[--n_fds]);
}

uint16_t mn_reopen_hold_door(const struct mn_config *config)
{
    struct mn_diag diag = {.text = ""};

    pthread_mutex_lock(&lock);
    enum mn_err err = n_fds ? MN_OK : open_door(config, &diag);
    int error = err ? 0 : mn_reopen_wake();
    if (error) {
        err = mn_fail(&diag, MN_ERR_SYS, "no thread: %s", mn_thread_why(error));
        if (!users)
            close_door();
    }
    users += !err;
    uint16_t at = err ? 0 : port;
    int tell = err && !told;
    told |= tell;
    pthread_mutex_unlock(&lock);
    if (tell)
        MN_WARN("control connections that are lost, and the links of TCP, cannot be opened again: "
                "%s",
                diag.text);
    return at;
}

void mn_reopen_release_door(void)
{
    pthread_mutex_lock(&lock);
    if (!--users) {
        close_door();
        (void)mn_reopen_wake(); /* it is polled no more */
    }
    pthread_mutex_unlock(&lock);
}

int mn_reopen_door_fds(int to[MN_REOPEN_FDS], int *waiting)
{
    pthread_mutex_lock(&lock);
    int n = n_fds;
    memcpy(to, fds, (size_t)n * sizeof *to);
    *waiting = n && arrivals.n;
    pthread_mutex_unlock(&lock);
    return n;
}

void mn_reopen_door_step(void)
{
    pthread_mutex_lock(&lock);
    if (n_fds)
        mn_arrivals_step(&arrivals, fds, n_fds, patience_ms, mn_reopen_judge, &strangers);
    pthread_mutex_unlock(&lock);
}
