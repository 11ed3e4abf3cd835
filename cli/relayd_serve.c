/* relayd itself: from its first line to its end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cjson/cJSON.h>

#include "cli/relayd.h"
#include "fleet/service.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define LOOK_MS 2000 /* for addresses that are not here yet */
#define TELL_MS 5000 /* the service manager */

static int stop_fd = -1;
static volatile sig_atomic_t signalled;

static void wake(void)
{
    uint64_t one = 1;

    (void)!write(stop_fd, &one, sizeof one);
}

static void on_signal(int number)
{
    int was = errno;

    signalled = number;
    wake();
    errno = was;
}

/* Between this file and the loop of the engine. */
struct serving {
    struct mn_relayd_start *start;
    struct mn_service service;
    size_t here, all; /* addresses when it was begun */
    double told, looked;
    char status[256];
};

static void tell(struct serving *s, const char *what, const char *status)
{
    if (strcmp(status, s->status) != 0 || *what)
        mn_service_tell(&s->service, "%sSTATUS=%s", what, status);
    mn_strlcpy(s->status, status, sizeof s->status);
}

/* The engine listens at addresses that have come since, but does not know what the host says of a
 * NIC that was not there, as its RDMA device; it does from the next moment on in which nobody is
 * harmed. */
static void look_around(struct serving *s, const struct mn_relay *relay)
{
    char missing[256];
    size_t here;

    (void)mn_relayd_addresses(s->start, &here, missing, sizeof missing);
    if (here > s->here && !mn_relay_flows(relay))
        wake();
}

static void on_tick(void *ctx, struct mn_relay *relay)
{
    struct serving *s = ctx;
    double now = mn_seconds();
    char text[200];

    if (s->service.watchdog_ms)
        mn_service_tell(&s->service, "WATCHDOG=1");
    if (s->service.fd >= 0 && now >= s->told + TELL_MS / 1000.0) {
        s->told = now;
        mn_relay_summary(relay, text, sizeof text);
        tell(s, "", text);
    }
    if (s->here < s->all && now >= s->looked + LOOK_MS / 1000.0) {
        s->looked = now;
        look_around(s, relay);
    }
}

/* So seldom that an idle one sleeps. */
static unsigned tick_of(const struct serving *s)
{
    unsigned ms = s->service.fd >= 0 ? TELL_MS : 0;

    if (s->here < s->all && (!ms || ms > LOOK_MS))
        ms = LOOK_MS;
    if (s->service.watchdog_ms && (!ms || ms > s->service.watchdog_ms / 3))
        ms = s->service.watchdog_ms / 3 + 1;
    return ms;
}

/* --- the state of the engine, where it is known -------------------------------------------------
 */

static void say_listening(const struct mn_relay *relay)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    const cJSON *at;

    if (!file)
        mn_no_memory();
    struct mn_out *out = mn_out_new(file, MN_OUT_JSON);
    mn_relay_state(relay, out);
    mn_out_free(out);
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    free(text);
    cJSON_ArrayForEach(at, cJSON_GetObjectItemCaseSensitive(json, "listening"))
    {
        const char *address = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(at, "address"));
        printf("listening at %s port %.0f\n", address ? address : "?",
               cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(at, "port")));
    }
    cJSON_Delete(json);
}

/* --- from start to end ------------------------------------------------------------------------ */

/* Until one of the node's addresses is here: a cable that is not plugged has none. */
static enum mn_err wait_for_cable(struct serving *s)
{
    char missing[256], text[320];
    int said = 0;

    while (!signalled) {
        struct pollfd p = {.fd = stop_fd, .events = POLLIN};
        s->all = mn_relayd_addresses(s->start, &s->here, missing, sizeof missing);
        if (s->here)
            break;
        snprintf(text, sizeof text, "waits for an address of its cables: %s", missing);
        if (!said++)
            fprintf(stderr, "meshnet relayd: %s: plug a cable, or meshnet topo apply\n", text);
        tell(s, said == 1 ? "READY=1\n" : "", text);
        mn_service_tell(&s->service, "WATCHDOG=1");
        unsigned ms = s->service.watchdog_ms / 3;
        (void)poll(&p, 1, ms && ms < LOOK_MS ? (int)ms : LOOK_MS);
    }
    return MN_OK;
}

static void say_missing(const struct serving *s)
{
    char missing[512];
    size_t here;

    if (mn_relayd_addresses(s->start, &here, missing, sizeof missing) > here)
        fprintf(stderr,
                "meshnet relayd: goes on without %s: down, or not on this host yet; used when it "
                "is\n",
                missing);
}

/* One engine, until it is stopped, or addresses have come. */
static enum mn_err serve_once(const struct mn_relayd_options *o, struct serving *s,
                              struct mn_diag *diag)
{
    struct mn_relayd_start *start = s->start;
    struct mn_relay *relay = NULL;
    int fds[64];
    enum mn_err err = mn_relayd_config(start, diag);
    uint64_t count;

    if (err)
        return err;
    mn_relayd_say(o, start);
    say_missing(s);
    /* Each engine closes its own. */
    for (int i = 0; i < s->service.n; i++)
        if ((fds[i] = fcntl(s->service.first + i, F_DUPFD_CLOEXEC, 3)) < 0)
            return mn_fail_errno(diag, "taking over the sockets of the service manager");
    struct mn_relay_plan plan = {.socket = start->socket,
                                 .users = start->users,
                                 .n_users = o->users.count,
                                 .anyone = o->anyone,
                                 .fds = fds,
                                 .n_fds = s->service.n,
                                 .tick_ms = tick_of(s),
                                 .tick = on_tick,
                                 .ctx = s};
    err = mn_relay_open(&start->config, &plan, &relay, diag);
    if (err)
        return err;
    say_listening(relay);
    fflush(stdout);
    tell(s, "READY=1\n", "listens, no flows yet");
    err = mn_relay_run(relay, stop_fd, diag);
    (void)!read(stop_fd, &count, sizeof count);
    if (signalled || err)
        tell(s, "STOPPING=1\n", "ends");
    mn_relay_close(relay);
    return err;
}

enum mn_err mn_relayd_serve(const struct mn_relayd_options *o, struct mn_diag *diag)
{
    struct mn_relayd_start start = {.self = -1};
    struct serving s = {.start = &start, .service = {.fd = -1}};
    struct sigaction action = {.sa_handler = on_signal};
    enum mn_err err = mn_service_read(&s.service, diag);

    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!err && stop_fd < 0)
        err = mn_fail_errno(diag, "eventfd");
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (!err)
        err = mn_relayd_read(o, &start, diag);
    while (!err && !signalled) {
        err = wait_for_cable(&s);
        if (!err && !signalled)
            err = serve_once(o, &s, diag);
    }
    if (err)
        tell(&s, "STOPPING=1\n", diag->text);
    mn_service_close(&s.service);
    mn_relayd_free(&start);
    close(stop_fd);
    return err;
}

enum mn_err mn_relayd_check(const struct mn_relayd_options *o, struct mn_diag *diag)
{
    struct mn_relayd_start start;
    char missing[512];
    size_t here, all = 0;
    enum mn_err err = mn_relayd_read(o, &start, diag);

    if (!err) {
        all = mn_relayd_addresses(&start, &here, missing, sizeof missing);
        if (here)
            err = mn_relayd_config(&start, diag);
    }
    if (!err) {
        mn_relayd_say(o, &start);
        printf("%zu of %zu addresses along cables are here%s%s\n", here, all,
               *missing ? "; it goes on without " : "", missing);
    }
    mn_relayd_free(&start);
    return err;
}
