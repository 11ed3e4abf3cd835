#include <stdarg.h>
#include <stdio.h>

#include "bench/host/host_impl.h"
#include "topo/base/clean.h"

struct mn_host_log {
    void *library;
    int users;
    mn_plugin_log call;
    void *ctx;
    pthread_mutex_t lock; /* of call and ctx */
    ncclDebugLogger_t function;
};

static void say(struct mn_host_log *log, ncclDebugLogLevel level, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

static struct mn_host_log logs[];

#define LOGGER(i)                                                                                  \
    static void logger_##i(ncclDebugLogLevel level, unsigned long flags, const char *file,         \
                           int line, const char *fmt, ...) __attribute__((format(printf, 5, 6)));  \
    static void logger_##i(ncclDebugLogLevel level, unsigned long flags, const char *file,         \
                           int line, const char *fmt, ...)                                         \
    {                                                                                              \
        va_list args;                                                                              \
        (void)flags;                                                                               \
        (void)file;                                                                                \
        (void)line;                                                                                \
        va_start(args, fmt);                                                                       \
        say(&logs[i], level, fmt, args);                                                           \
        va_end(args);                                                                              \
    }
#define ROW(i)                                                                                     \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .function = logger_##i                                  \
    }

LOGGER(0)
LOGGER(1)
LOGGER(2)
LOGGER(3)
LOGGER(4)
LOGGER(5)
LOGGER(6)
LOGGER(7)

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mn_host_log logs[] = {ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7)};
#define N_LOGS ((int)(sizeof logs / sizeof *logs))

static void say(struct mn_host_log *log, ncclDebugLogLevel level, const char *fmt, va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof text, fmt, args);
    mn_clean_lines(text);
    pthread_mutex_lock(&log->lock);
    if (log->call)
        log->call(log->ctx, (int)level, text);
    pthread_mutex_unlock(&log->lock);
}

/* Its own, else a free one, else that of a library still mapped that nobody drives any more, else
 * the last, which then serves several libraries. */
struct mn_host_log *mn_host_log_take(void *library)
{
    struct mn_host_log *log = NULL;

    pthread_mutex_lock(&table_lock);
    for (int i = 0; i < N_LOGS && !log; i++)
        if (logs[i].library == library)
            log = &logs[i];
    for (int i = 0; i < N_LOGS && !log; i++)
        if (!logs[i].library)
            log = &logs[i];
    for (int i = 0; i < N_LOGS && !log; i++)
        if (!logs[i].users || i == N_LOGS - 1)
            log = &logs[i];
    log->library = library;
    log->users++;
    pthread_mutex_unlock(&table_lock);
    return log;
}

void mn_host_log_give(struct mn_host_log *log, int unmapped)
{
    pthread_mutex_lock(&table_lock);
    int users = --log->users;
    if (!users && unmapped)
        log->library = NULL;
    pthread_mutex_unlock(&table_lock);
    if (!users)
        mn_host_log_set(log, NULL, NULL);
}

void mn_host_log_set(struct mn_host_log *log, mn_plugin_log call, void *ctx)
{
    pthread_mutex_lock(&log->lock);
    log->call = call;
    log->ctx = ctx;
    pthread_mutex_unlock(&log->lock);
}

ncclDebugLogger_t mn_host_log_function(const struct mn_host_log *log)
{
    return log->function;
}
