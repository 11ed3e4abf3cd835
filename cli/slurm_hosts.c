/* Lists of hosts as Slurm writes them (scontrol show hostnames). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/job_order.h"
#include "topo/base/alloc.h"

#define HOSTS_MAX 8192
#define NAME_MAX_ 256

/* One item, from its begin on in name, where *used bytes are done. */
static void expand(const char *item, const char *end, char *name, size_t used, char ***names,
                   size_t *n);

/* "01-03,7" each with what follows the bracket. */
static void expand_ranges(const char *ranges, const char *close, const char *end, char *name,
                          size_t used, char ***names, size_t *n)
{
    while (ranges < close && *n < HOSTS_MAX) {
        char *after;
        unsigned long low = strtoul(ranges, &after, 10), high = low;
        int width = (int)(after - ranges);
        if (!width || width > 9)
            return;
        if (*after == '-')
            high = strtoul(after + 1, &after, 10);
        for (unsigned long i = low; low <= high && *n < HOSTS_MAX; i++) {
            size_t before = *n;
            int length = snprintf(name + used, NAME_MAX_ - used, "%0*lu", width, i);
            if (length < 0 || used + (size_t)length >= NAME_MAX_)
                return;
            expand(close + 1, end, name, used + (size_t)length, names, n);
            if (*n == before) /* what follows is nothing, whatever the number */
                return;
            if (i == high)
                break;
        }
        ranges = after < close ? after + 1 : close;
    }
}

static void expand(const char *item, const char *end, char *name, size_t used, char ***names,
                   size_t *n)
{
    for (; item < end && *item != '['; item++) {
        if (used + 1 >= NAME_MAX_)
            return;
        name[used++] = *item;
    }
    if (item < end) {
        const char *close = memchr(item, ']', (size_t)(end - item));
        if (close)
            expand_ranges(item + 1, close, end, name, used, names, n);
        return;
    }
    name[used] = 0;
    if (used && *n < HOSTS_MAX)
        *(char **)mn_grow((void **)names, n, sizeof **names) = mn_strdup(name);
}

void mn_slurm_hosts(const char *list, char ***names, size_t *n)
{
    char name[NAME_MAX_];

    for (const char *begin = list, *at = list;; at++) {
        if (*at == '[')
            at += strcspn(at, "]") - (strchr(at, ']') == NULL);
        if (*at && *at != ',')
            continue;
        expand(begin, at, name, 0, names, n);
        if (!*at)
            return;
        begin = at + 1;
    }
}
