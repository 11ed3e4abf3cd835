/* Rules of the firewall: a script of topo/transit.h makes them, and takes them away. */
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_kernel.h"
#include "fleet/apply_program.h"
#include "topo/base/alloc.h"

#define RULE_MS 30000

static enum mn_err run_script(const char *text, const char *word, struct mn_diag *diag)
{
    const char *const args[] = {"sh", "-s", "--", word, NULL};

    return mn_program_run("/bin/sh", args, text, RULE_MS, NULL, diag);
}

enum mn_err mn_rule_make(const struct mn_change *change, struct mn_diag *diag)
{
    if (change->to)
        return run_script(change->to, NULL, diag);
    return change->from ? run_script(change->from, "remove", diag) : MN_OK;
}

/* All that is there of ours, as the programs print it; "" = nothing. */
static char *list_rules(void)
{
    static const char *const asks[][6] = {{"nft", "list", "table", "inet", "meshnet", NULL},
                                          {"iptables", "-w", "-S", "MESHNET", NULL},
                                          {"ip6tables", "-w", "-S", "MESHNET", NULL}};
    char *all = mn_strdup("");

    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        char *path = mn_program_find("", asks[i][0]), *out = NULL;
        if (path && !mn_program_run(path, asks[i], NULL, RULE_MS, &out, NULL)) {
            char *more = mn_asprintf("%s%s", all, out);
            free(all);
            all = more;
        }
        free(out);
        free(path);
    }
    return all;
}

/* A program alone does not do it: kernels may lack their part. */
int mn_rules_possible(void)
{
    static const char *const asks[][5] = {{"nft", "list", "tables", NULL},
                                          {"iptables", "-w", "-S", "FORWARD", NULL}};
    int possible = 0;

    for (size_t i = 0; i < sizeof asks / sizeof *asks && !possible; i++) {
        char *path = mn_program_find("", asks[i][0]);
        possible = path && !mn_program_run(path, asks[i], NULL, RULE_MS, NULL, NULL);
        free(path);
    }
    return possible;
}

/* The NICs that a script's text or a listing names, once each, in order. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t quoted_nics(const char *text, char ***nics)
{
    const char *at = strstr(text, "iifname");
    size_t n = 0;

    *nics = NULL;
    /* iifname { "a", "b" } oifname …; of one NIC without the braces. */
    const char *end = at ? strstr(at, "oifname") : NULL;
    while (at && end && (at = strchr(at, '"')) && at < end) {
        size_t len = strcspn(at + 1, "\"");
        char *name = mn_asprintf("%.*s", (int)len, at + 1);
        mn_text_push(nics, &n, name);
        free(name);
        at += len + 2;
    }
    if (n)
        qsort(*nics, n, sizeof **nics, by_text);
    return n;
}

/* The same NICs in both. Without nft, whether there are any rules of ours. */
static int same_nics(const char *script, const char *listing)
{
    char **a, **b;
    size_t n = quoted_nics(script, &a), m = quoted_nics(listing, &b);
    int same = n == m || (!m && strstr(listing, "MESHNET") != NULL);

    for (size_t i = 0; i < n && i < m; i++)
        same &= !strcmp(a[i], b[i]);
    mn_texts_free(a, n);
    mn_texts_free(b, m);
    return same;
}

int mn_rule_holds(const struct mn_change *change)
{
    if (!mn_rules_possible())
        return 1;
    char *now = list_rules();
    int holds = change->to ? *now && same_nics(change->to, now) : !*now;
    free(now);
    return holds;
}
