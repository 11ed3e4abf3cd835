#include <stdio.h>
#include <string.h>

#include "cli/tune.h"
#include "topo/base/alloc.h"

#define LABEL  16 /* columns before the bars */
#define LEVELS 8
#define MOST   100 /* sizes that the chart has room for */

static const char *const bars[2][LEVELS + 1] = {{" ", ".", ":", "-", "=", "+", "*", "#", "@"},
                                                {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};

static char letter_of(const struct mn_advice_row *row, int protocol)
{
    if (row->algorithm < 0 || (protocol && row->protocol < 0))
        return '-';
    return protocol ? "L1S"[row->protocol] : mn_advice_algorithm(row->algorithm)[0];
}

static double highest(const struct mn_advice *t)
{
    double most = 0;

    for (size_t i = 0; i < t->n_rows; i++)
        if (t->rows[i].busbw > most)
            most = t->rows[i].busbw;
    return most;
}

/* The eighth of the highest, upwards: something is seen of what is there. */
static int level(double value, double most)
{
    int l = most > 0 ? (int)(value / most * LEVELS + 0.999) : 0;

    return l > LEVELS ? LEVELS : l;
}

static void put_collective(const struct mn_advice_row *rows, size_t n, double most, int utf8,
                           struct mn_out *out)
{
    char line[MOST * sizeof "█"] = "", algorithms[MOST + 1] = "", protocols[MOST + 1] = "";

    for (size_t i = 0; i < n; i++) {
        strcat(line, bars[utf8][level(rows[i].busbw, most)]);
        algorithms[i] = letter_of(&rows[i], 0);
        protocols[i] = letter_of(&rows[i], 1);
    }
    if (most > 0)
        mn_out_note(out, MN_PLAIN, "%-*s%s", LABEL, mn_advice_function(rows->function), line);
    mn_out_note(out, MN_PLAIN, "%-*s%s", LABEL, most > 0 ? "" : mn_advice_function(rows->function),
                algorithms);
    if (most > 0)
        mn_out_note(out, MN_PLAIN, "%-*s%s", LABEL, "", protocols);
}

/* The sizes below the bars, each where it begins and as many as there is room for. */
static void put_axis(const struct mn_advice_row *rows, size_t n, struct mn_out *out)
{
    char line[LABEL + MOST + 40];
    size_t used = LABEL;

    memset(line, ' ', sizeof line);
    for (size_t i = 0; i < n; i++) {
        char size[24];
        size_t len = strlen(mn_format_size(rows[i].bytes, size, sizeof size));
        if (LABEL + i < used || LABEL + i + len >= sizeof line)
            continue;
        memcpy(line + LABEL + i, size, len);
        used = LABEL + i + len + 1;
    }
    line[used] = 0;
    mn_out_note(out, MN_PLAIN, "%s", line);
}

void mn_advice_chart(const struct mn_advice *t, int utf8, struct mn_out *out)
{
    double most = highest(t);
    size_t n = t->n_sizes < MOST ? t->n_sizes : MOST;

    mn_out_note(out, MN_PLAIN, "%s", "");
    if (most > 0)
        mn_out_note(out, MN_BOLD,
                    "Bus bandwidth over the size, up to %.2f GB/s; below it what is taken",
                    most / 1e9);
    else
        mn_out_note(out, MN_BOLD, "What is taken over the size");
    for (size_t i = 0; i + t->n_sizes <= t->n_rows; i += t->n_sizes)
        put_collective(&t->rows[i], n, most, utf8, out);
    put_axis(t->rows, n, out);
    if (n < t->n_sizes)
        mn_out_note(out, MN_DIM, "The chart has the first %zu of %zu sizes; the table has all.", n,
                    t->n_sizes);
    mn_out_note(out, MN_DIM, "R ring, T tree, P PAT; L LL, 1 LL128, S Simple; - NCCL decides");
}
