#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "topo/base/clean.h"
#include "topo/base/log.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static int default_level(void)
{
    static const char *const words[] = {"error", "warn", "info", "debug"};
    const char *text = getenv("MESHNET_LOG");

    for (int i = 0; text && i < 4; i++)
        if (!strcasecmp(text, words[i]))
            return i;
    return MN_LOG_WARN;
}

static void to_stderr(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file;
    (void)line;
    if ((int)level <= default_level())
        fprintf(stderr, "meshnet: %s: %s\n", level_names[level], msg);
}

static _Atomic(mn_log_sink) current = to_stderr;

void mn_log_set_sink(mn_log_sink sink)
{
    atomic_store(&current, sink ? sink : to_stderr);
}

void mn_log(enum mn_log_level level, const char *file, int line, const char *fmt, ...)
{
    char msg[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    mn_clean_lines(msg);
    atomic_load (&current)(level, file, line, msg);
}
