#include <string.h>

#include "cli/bench.h"
#include "topo/base/alloc.h"

#define MAX_SIZE (1ull << 30)
#define MOST     4096 /* sizes altogether */

static enum mn_err add(struct mn_bench_sizes *sizes, unsigned long long size, const char *text,
                       struct mn_diag *diag)
{
    if (size > MAX_SIZE)
        return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': at most 1G", text);
    if (sizes->n == MOST)
        return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': more than %d sizes", text, MOST);
    *(unsigned long long *)mn_grow((void **)&sizes->size, &sizes->n, sizeof size) = size;
    return MN_OK;
}

/* BEGIN:END or BEGIN:END:FACTOR, text being the whole of it. */
static enum mn_err add_range(struct mn_bench_sizes *sizes, const char *text, struct mn_diag *diag)
{
    unsigned long long part[3] = {0, 0, 2};
    char word[64];
    int n = 0;
    enum mn_err err = MN_OK;

    for (const char *at = text; at; n++) {
        size_t len = strcspn(at, ":");
        struct mn_diag why;
        if (n == 3 || len >= sizeof word)
            return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': expected BEGIN:END:FACTOR", text);
        memcpy(word, at, len);
        word[len] = 0;
        if (mn_parse_size(word, &part[n], &why))
            return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': %s", text, why.text);
        at = at[len] ? at + len + 1 : NULL;
    }
    if (!part[0] || part[0] > part[1])
        return mn_fail(diag, MN_ERR_USAGE,
                       "--sizes '%s': the range begins at 1 at least, and not after its end", text);
    if (part[2] < 2)
        return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': the factor is 2 or more", text);
    if (part[1] > MAX_SIZE)
        return mn_fail(diag, MN_ERR_USAGE, "--sizes '%s': at most 1G", text);
    for (unsigned long long size = part[0]; size <= part[1] && !err;) {
        err = add(sizes, size, text, diag);
        if (size > part[1] / part[2])
            break;
        size *= part[2];
    }
    return err;
}

void mn_bench_defaults(struct mn_bench_options *o)
{
    static const char *all[] = {"8",    "64", "512", "4K",  "16K", "64K",
                                "256K", "1M", "4M",  "16M", "64M"},
                      *few[] = {"8", "4K", "64K", "1M", "16M"};

    o->quick = o->peer && !o->thorough && !o->sizes.count && !o->duration_ms &&
               !o->max_duration_ms && !o->iters;
    o->predict |= o->predict_from != NULL || o->predict_only;
    if (!o->duration_ms)
        o->duration_ms = o->quick ? 150 : 500;
    if (!o->sizes.count)
        o->sizes = o->quick ? (struct mn_opt_list){few, sizeof few / sizeof *few}
                            : (struct mn_opt_list){all, sizeof all / sizeof *all};
}

enum mn_err mn_bench_sizes_parse(const struct mn_opt_list *list, struct mn_bench_sizes *sizes,
                                 struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < list->count && !err; i++) {
        unsigned long long size;
        struct mn_diag why;
        if (strchr(list->items[i], ':'))
            err = add_range(sizes, list->items[i], diag);
        else if (mn_parse_size(list->items[i], &size, &why))
            err = mn_fail(diag, MN_ERR_USAGE, "--sizes: %s", why.text);
        else
            err = add(sizes, size, list->items[i], diag);
    }
    return err;
}
