#include <stdio.h>

#include "cli/cmd.h"
#include "cli/compare.h"
#include "topo/base/out.h"

struct options {
    double threshold;
    int all, json, csv, wide;
};

static const struct mn_opt options[] = {
    {.name = "threshold",
     .letter = 't',
     .type = MN_OPT_DOUBLE,
     .arg = "PERCENT",
     .def = "5",
     .offset = offsetof(struct options, threshold),
     .max = 1000,
     .help = "Slower by more than this, beyond noise, is a regression."},
    {.name = "all",
     .letter = 'a',
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, all),
     .help = "Show what stayed the same too."},
    MN_WIDE_OPTION(struct options),
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Everything as JSON."},
    {.name = "csv",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, csv),
     .help = "Everything as CSV."},
    MN_OPT_END,
};

static void print_values(struct mn_out *out, const struct mn_compare_row *row)
{
    for (int i = 0; i < 2; i++)
        if (row->texts[i])
            mn_out_cell(out, row->texts[i]);
        else
            mn_out_cell_num(out, row->values[i], 3);
    mn_out_cell_num(out, row->change, 1);
    mn_out_cell_num(out, row->noise, 1);
}

static void print_rows(struct mn_out *out, const struct mn_comparison *c, int all)
{
    static const struct mn_col cols[] = {
        {"list", "LIST", MN_DROP(2)},
        {"row", "ROW", 0},
        {"metric", "METRIC", 0},
        {"before", "BEFORE", 1},
        {"after", "AFTER", 1},
        {"change_percent", "CHANGE %", 1},
        {"noise_percent", "NOISE %", 1 | MN_DROP(1)},
        {"verdict", "", 0},
        {"regression", NULL, 0},
    };

    mn_out_table(out, "rows", NULL, cols, (int)(sizeof cols / sizeof *cols));
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct mn_compare_row *row = &c->rows[i];
        if (!all && row->verdict == MN_SAME)
            continue;
        mn_out_row(out);
        mn_out_cell(out, row->list);
        mn_out_cell(out, row->name);
        mn_out_cell(out, row->metric);
        print_values(out, row);
        if (row->regression)
            mn_out_color(out, MN_RED);
        else if (row->verdict == MN_FASTER || row->verdict == MN_MENDED)
            mn_out_color(out, MN_GREEN);
        mn_out_cellf(out, "%s%s", mn_verdict_names[row->verdict],
                     row->regression ? ", regression" : "");
        mn_out_cell_bool(out, row->regression);
    }
    mn_out_table_end(out);
}

static int print(const struct options *o, const struct mn_results files[2],
                 const struct mn_comparison *c)
{
    enum mn_out_format format = o->json ? MN_OUT_JSON : o->csv ? MN_OUT_CSV : MN_OUT_TEXT;
    struct mn_out *out = mn_out_new(stdout, format);
    static const char *const labels[] = {"before", "after"};

    if (o->wide)
        mn_out_width(out, 0);
    mn_out_str(out, "kind", NULL, mn_results_kinds[files[0].kind].name);
    for (int i = 0; i < 2; i++)
        mn_out_str(out, labels[i], labels[i], mn_results_text(files[i].json, "started", "unknown"));
    mn_out_num(out, "threshold_percent", NULL, o->threshold, 2);
    mn_out_list_begin(out, "warnings", NULL);
    for (size_t i = 0; i < c->n_warnings; i++) {
        mn_out_note(out, MN_YELLOW, "differs: %s", c->warnings[i]);
        mn_out_str(out, NULL, NULL, c->warnings[i]);
    }
    mn_out_list_end(out);
    int some = o->all || format != MN_OUT_TEXT || c->counts[MN_SAME] < c->n_rows;
    if (some)
        print_rows(out, c, o->all || format != MN_OUT_TEXT);
    mn_out_note(out, MN_BOLD,
                "%zu compared: %zu same, %zu faster, %zu slower, %zu broken, %zu mended, %zu gone, "
                "%zu new; %zu regressions over %g %%",
                c->n_rows, c->counts[MN_SAME], c->counts[MN_FASTER], c->counts[MN_SLOWER],
                c->counts[MN_BROKEN], c->counts[MN_MENDED], c->counts[MN_GONE], c->counts[MN_NEW],
                c->regressions, o->threshold);
    mn_out_begin(out, "counts", NULL);
    for (int v = 0; v < MN_VERDICTS; v++)
        mn_out_int(out, mn_verdict_names[v], NULL, (int64_t)c->counts[v]);
    mn_out_end(out);
    mn_out_int(out, "regressions", NULL, (int64_t)c->regressions);
    if (mn_out_free(out)) {
        fprintf(stderr, "meshnet compare: writing the comparison failed\n");
        return 1;
    }
    return c->regressions != 0;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_results files[2] = {{.json = NULL}, {.json = NULL}};
    struct mn_comparison c = {.n_rows = 0};
    struct mn_diag diag;
    int code = 0;
    enum mn_err err = MN_OK;

    if (argc != 2)
        err = mn_fail(&diag, MN_ERR_USAGE,
                      "expected two files of results, OLD.json and NEW.json, got %d", argc);
    for (int i = 0; i < 2 && !err; i++)
        err = mn_results_read(argv[i], &files[i], &diag);
    if (!err)
        err = mn_compare(&files[0], &files[1], o->threshold, &c, &diag);
    code = err ? mn_cmd_fail("compare", &diag) : print(o, files, &c);
    mn_comparison_free(&c);
    for (int i = 0; i < 2; i++)
        mn_results_free(&files[i]);
    return code;
}

const struct mn_command mn_cmd_compare = {
    .name = "compare",
    .summary = "say what became faster or slower between two files of results",
    .usage = "[OPTION]… OLD.json NEW.json",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example:\n"
             "  meshnet bench --peer b --json >old.json\n"
             "  meshnet bench --peer b --json >new.json\n"
             "  meshnet compare --threshold 10 old.json new.json",
    .exits = {{0, MN_GOOD ": no regression"},
              {1, MN_FAILED "a regression"},
              {2, MN_REFUSED "files that are not results of meshnet, or have nothing in common"}},
    .run = run,
};
