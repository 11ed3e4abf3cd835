#include "topo/trouble.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "topo/base/alloc.h"

struct mn_trouble *mn_trouble_add(struct mn_troubles *list, const struct mn_trouble_rule *rule,
                                  const char *where, ...)
{
    struct mn_trouble *trouble = mn_grow((void **)&list->items, &list->count, sizeof *list->items);
    va_list args;

    *trouble = (struct mn_trouble){.rule = rule};
    va_start(args, where);
    vsnprintf(trouble->where, sizeof trouble->where, where, args);
    va_end(args);
    return trouble;
}

void mn_troubles_sort(struct mn_troubles *list)
{
    struct mn_trouble *sorted = mn_zalloc((list->count + 1) * sizeof *sorted);
    size_t n = 0;

    for (int severity = MN_SEVERITY_ERROR; severity >= MN_SEVERITY_NOTE; severity--)
        for (size_t i = 0; i < list->count; i++)
            if ((int)list->items[i].rule->severity == severity)
                sorted[n++] = list->items[i];
    free(list->items);
    list->items = sorted;
}

size_t mn_troubles_count(const struct mn_troubles *list, enum mn_severity severity)
{
    size_t n = 0;

    for (size_t i = 0; i < list->count; i++)
        n += list->items[i].rule->severity == severity;
    return n;
}

void mn_troubles_free(struct mn_troubles *list)
{
    free(list->items);
    *list = (struct mn_troubles){0};
}
