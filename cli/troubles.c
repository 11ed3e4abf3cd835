#include "cli/troubles.h"

#include <stdio.h>
#include <string.h>

static void count(struct mn_out *out, const struct mn_troubles *list)
{
    char text[96] = "";
    size_t used = 0;

    if (!list->count) {
        mn_out_note(out, MN_GREEN, "No findings.");
        return;
    }
    for (int s = MN_SEVERITY_ERROR; s >= MN_SEVERITY_NOTE; s--) {
        size_t n = mn_troubles_count(list, (enum mn_severity)s);
        if (n)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%zu %s%s", used ? ", " : "", n,
                                 mn_severity_name((enum mn_severity)s), n == 1 ? "" : "s");
    }
    mn_out_note(out, MN_BOLD, "Findings: %s", text);
}

static void row(struct mn_out *out, const char *key, const char *label, const char *text)
{
    mn_out_str(out, key, NULL, *text ? text : NULL);
    if (*text)
        mn_out_note(out, MN_PLAIN, "  %-8s  %s", label, text);
}

void mn_troubles_print(struct mn_out *out, const struct mn_troubles *list)
{
    static const enum mn_color colors[] = {MN_PLAIN, MN_YELLOW, MN_RED};

    count(out, list);
    mn_out_list_begin(out, "findings", NULL);
    for (size_t i = 0; i < list->count; i++) {
        const struct mn_trouble *t = &list->items[i];
        const char *severity = mn_severity_name(t->rule->severity);

        mn_out_begin(out, NULL, NULL);
        mn_out_note(out, colors[t->rule->severity], "%s: %s: %s", severity, t->where,
                    t->rule->title);
        mn_out_str(out, "id", NULL, t->rule->id);
        mn_out_str(out, "severity", NULL, severity);
        mn_out_str(out, "title", NULL, t->rule->title);
        mn_out_str(out, "where", NULL, t->where);
        row(out, "seen", "seen", t->seen);
        row(out, "expected", "expected", t->expected);
        row(out, "fix", "fix", t->fix);
        mn_out_str(out, "advice", NULL, t->rule->advice);
        /* The reason once for a row of like findings. */
        if (t->rule->advice && (i + 1 == list->count || list->items[i + 1].rule != t->rule))
            mn_out_note(out, MN_DIM, "  %s", t->rule->advice);
        mn_out_end(out);
    }
    mn_out_list_end(out);
}

static int is_repeated(const struct mn_troubles *list, size_t i)
{
    const struct mn_trouble *t = &list->items[i];

    for (size_t k = 0; k < i; k++)
        if (!strcmp(list->items[k].fix, t->fix) && !strcmp(list->items[k].where, t->where))
            return 1;
    return 0;
}

void mn_troubles_print_to_do(struct mn_out *out, const struct mn_troubles *list)
{
    int n = 0;

    mn_out_list_begin(out, "to_do", NULL);
    for (size_t i = 0; i < list->count; i++) {
        const struct mn_trouble *t = &list->items[i];
        if (!t->fix[0] || is_repeated(list, i))
            continue;
        if (!n++)
            mn_out_note(out, MN_BOLD, "What to do, worst first");
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "id", NULL, t->rule->id);
        mn_out_str(out, "where", NULL, t->where);
        mn_out_str(out, "fix", NULL, t->fix);
        mn_out_note(out, MN_PLAIN, "%3d. %s: %s", n, t->where, t->fix);
        mn_out_end(out);
    }
    mn_out_list_end(out);
}
