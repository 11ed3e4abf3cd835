#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/report/html.h"
#include "cli/report/plain.h"
#include "cli/report/table.h"
#include "cli/report/text.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"

struct options {
    const char *output, *title;
    int format;
};

/* The choice after the formats: by the name of the file. */
#define BY_NAME (MN_REPORT_CSV + 1)

static const struct mn_opt options[] = {
    {.name = "output",
     .letter = 'o',
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, output),
     .help = "Where the report goes; - is standard output."},
    {.name = "format",
     .type = MN_OPT_CHOICE,
     .arg = "FORMAT",
     .def = "auto",
     .offset = offsetof(struct options, format),
     .choices = "html|md|csv|auto",
     .help = "A page, Markdown or CSV; default: as the name of the file ends."},
    {.name = "title",
     .type = MN_OPT_STRING,
     .arg = "TEXT",
     .offset = offsetof(struct options, title),
     .help = "Title; default: what was measured."},
    MN_OPT_END,
};

static enum mn_err choose_format(const struct options *o, enum mn_report_format *format,
                                 struct mn_diag *diag)
{
    static const struct {
        const char *ending;
        enum mn_report_format format;
    } endings[] = {{".html", MN_REPORT_HTML},
                   {".htm", MN_REPORT_HTML},
                   {".md", MN_REPORT_MD},
                   {".markdown", MN_REPORT_MD},
                   {".csv", MN_REPORT_CSV}};
    const char *dot = strrchr(o->output, '.');

    *format = (enum mn_report_format)o->format;
    if (o->format != BY_NAME)
        return MN_OK;
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(dot, endings[i].ending)) {
            *format = endings[i].format;
            return MN_OK;
        }
    return mn_fail(diag, MN_ERR_USAGE,
                   "--output '%s': which format? give a name that ends in .html, .md or .csv, or "
                   "--format",
                   o->output);
}

static enum mn_err compose(const struct mn_report *report, enum mn_report_format format,
                           char **text, size_t *len, struct mn_diag *diag)
{
    struct mn_diag missing[MN_PAGE_TOOLS] = {{.text = ""}};
    FILE *file = open_memstream(text, len);
    enum mn_err err = MN_OK;

    if (!file)
        return mn_fail_errno(diag, "memory for the report");
    if (format == MN_REPORT_HTML)
        mn_report_html(report, file, missing);
    else if (format == MN_REPORT_MD)
        mn_report_md(report, file);
    else
        err = mn_report_csv(report, file, diag);
    if ((ferror(file) | fclose(file)) && !err)
        err = mn_fail(diag, MN_ERR_NOMEM, "out of memory for the report");
    for (int tool = 0; tool < MN_PAGE_TOOLS; tool++)
        if (missing[tool].text[0])
            fprintf(stderr, "meshnet report: %s\n", missing[tool].text);
    return err;
}

static enum mn_err deliver(const char *path, const char *text, size_t len, struct mn_diag *diag)
{
    if (strcmp(path, "-") != 0)
        return mn_file_write(path, text, len, 1, diag);
    errno = 0;
    fwrite(text, 1, len, stdout);
    return mn_out_lost(stdout) ? mn_fail_errno(diag, "writing the report") : MN_OK;
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    char *text = NULL, *title = o->title ? mn_text_clean(o->title) : NULL;
    struct mn_report report = {.title = title};
    enum mn_report_format format = MN_REPORT_HTML;
    struct mn_diag diag = {.text = ""};
    enum mn_err err = MN_OK;
    size_t len = 0;

    if (!argc)
        err = mn_fail(&diag, MN_ERR_USAGE,
                      "which results? give files that meshnet bench --json wrote");
    else if (!o->output)
        err =
            mn_fail(&diag, MN_ERR_USAGE, "where to? give --output report.html, or - with --format");
    else
        err = choose_format(o, &format, &diag);
    for (int i = 0; i < argc && !err; i++)
        err = mn_report_read(&report, argv[i], &diag);
    if (!err)
        err = compose(&report, format, &text, &len, &diag);
    if (!err)
        err = deliver(o->output, text, len, &diag);
    free(text);
    free(title);
    mn_report_free(&report);
    return err ? mn_cmd_fail("report", &diag) : 0;
}

const struct mn_command mn_cmd_report = {
    .name = "report",
    .summary = "results as a page to show, Markdown for an issue, or CSV",
    .usage = "RESULTS.json… -o FILE",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example: meshnet bench --peer b --json >b.json; meshnet report b.json -o b.html",
    .exits = {{0, MN_GOOD ": the report was written"},
              {1, MN_FAILED "the report could not be written"},
              {2, MN_REFUSED "a file that holds no results"}},
    .run = run,
};
