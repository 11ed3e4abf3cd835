#include "tests/fakenccl/fakenccl.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fakenccl_config config = {.version = 22809, .rank = -1};
static FILE *file;

static void begin(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } keys[] = {
#define KEY(name) {#name, offsetof(struct fakenccl_config, name)}
        KEY(version), KEY(rank),  KEY(init), KEY(call),   KEY(async),
        KEY(hang),    KEY(wrong), KEY(shy),  KEY(plugin), KEY(errors),
    };
    const char *text = getenv("FAKENCCL");

    for (size_t k = 0; text && k < sizeof keys / sizeof *keys; k++) {
        const char *at = strstr(text, keys[k].name);
        if (at && at[strlen(keys[k].name)] == '=')
            *(long *)((char *)&config + keys[k].offset) =
                strtol(at + strlen(keys[k].name) + 1, NULL, 0);
    }
}

static void open_log(void)
{
    const char *path = getenv("NCCL_DEBUG_FILE"), *level = getenv("NCCL_DEBUG");

    if (level && (!strcmp(level, "INFO") || !strcmp(level, "WARN")))
        file = path ? fopen(path, "we") : stdout;
    if (file)
        setvbuf(file, NULL, _IOLBF, 0);
}

const struct fakenccl_config *fakenccl(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, begin);
    return &config;
}

void fakenccl_log(const char *format, ...)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    va_list args;

    pthread_once(&once, open_log);
    if (!file)
        return;
    fprintf(file, "double:%d:%d [0] NCCL ", (int)getpid(), (int)gettid());
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fputc('\n', file);
}

void fakenccl_logger(ncclDebugLogLevel level, unsigned long flags, const char *source, int line,
                     const char *format, ...)
{
    static const char *const names[2][7] = {
        {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE", "6"},
        {"NONE", "ERROR", "VERSION", "WARN", "INFO", "ABORT", "TRACE"},
    };
    char text[1024];
    va_list args;

    (void)flags, (void)source, (void)line;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fakenccl_log("%s %s", names[config.errors != 0][(unsigned)level < 7 ? level : 0], text);
}
