#include "plugin/outage.h"

#include <stdio.h>
#include <time.h>

#include "topo/base/log.h"

/* The wall clock's time so long ago, for people with several logs before them. */
static void clock_text(uint64_t ago_ms, char *buf, size_t size)
{
    time_t at = time(NULL) - (time_t)(ago_ms / 1000);
    struct tm tm;

    if (!localtime_r(&at, &tm) || !strftime(buf, size, "%H:%M:%S", &tm))
        snprintf(buf, size, "?");
}

void mn_outage_begin(struct mn_outage *outage, uint64_t since_ms, uint64_t now_ms,
                     unsigned bound_ms, const char *who, const char *what)
{
    uint64_t ago = now_ms > since_ms ? now_ms - since_ms : 0;
    char since[16];

    outage->since_ms = now_ms - ago;
    outage->told_ms = now_ms;
    clock_text(ago, since, sizeof since);
    MN_WARN("%s: %s since %s (%.1f s); waiting for it, %u s at most; check the cable", who, what,
            since, (double)ago / 1000, bound_ms / 1000);
}

void mn_outage_end(struct mn_outage *outage, uint64_t now_ms, const char *who)
{
    MN_WARN("%s: goes on after %.1f s of silence", who, (double)(now_ms - outage->since_ms) / 1000);
    outage->told_ms = 0;
}
