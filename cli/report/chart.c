#include "cli/report/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "cli/report/tool.h"
#include "topo/base/alloc.h"

/* gnuplot's number of each point, and the character that looks like it. */
static const struct {
    int type;
    const char *glyph;
} marks[MN_CHART_SERIES] = {
    {7, "●"}, {5, "■"}, {9, "▲"},  {13, "◆"}, {6, "○"},
    {4, "□"}, {8, "△"}, {12, "◇"}, {1, "+"},  {2, "×"},
};

void mn_chart_add(struct mn_chart *chart, const char *name, double x, double y, double error)
{
    struct mn_chart_series *series = chart->series;
    char cut[sizeof series->name];
    int i = 0;

    if (!(x > 0 && isfinite(x) && isfinite(y) && (y > 0 || (!chart->log_y && y >= 0))))
        return;
    mn_text_short(name, 24, cut, sizeof cut);
    while (i < chart->n_series && strcmp(series[i].name, cut) != 0)
        i++;
    if (i == MN_CHART_SERIES) {
        chart->left_out = 1;
        return;
    }
    if (i == chart->n_series)
        mn_strlcpy(series[chart->n_series++].name, cut, sizeof series->name);
    struct mn_chart_point *point =
        mn_grow((void **)&series[i].points, &series[i].n_points, sizeof *point);
    *point = (struct mn_chart_point){x, y, error > 0 && error < 100 ? y * error / 100 : NAN};
}

void mn_chart_free(struct mn_chart *chart)
{
    for (int i = 0; i < chart->n_series; i++)
        free(chart->series[i].points);
    chart->n_series = 0;
}

/* --- the program for gnuplot ------------------------------------------------------------------ */

static void bounds(const struct mn_chart *chart, double *least, double *most)
{
    *least = INFINITY;
    *most = 0;
    for (int s = 0; s < chart->n_series; s++)
        for (size_t i = 0; i < chart->series[s].n_points; i++) {
            *least = fmin(*least, chart->series[s].points[i].x);
            *most = fmax(*most, chart->series[s].points[i].x);
        }
}

/* At most six sizes along the axis, powers of two. */
static void put_tics(FILE *script, double least, double most)
{
    int from = (int)floor(log2(least)), to = (int)ceil(log2(most));
    int step = (to - from + 5) / 6;
    char size[32];

    fputs("set xtics (", script);
    for (int p = from; p <= to; p += step ? step : 1)
        fprintf(script, "%s\"%s\" %.9g", p > from ? ", " : "",
                mn_text_size(exp2(p), size, sizeof size), exp2(p));
    fputs(")\n", script);
}

/* Size, figure, and where the interval begins and how long it is. */
static void put_point(FILE *script, const struct mn_chart_point *point)
{
    double error = isfinite(point->error) ? point->error : 0;

    fprintf(script, "%.9g %.9g %.9g %.9g\n", point->x, point->y, point->y - error, 2 * error);
}

static char *script_of(const struct mn_chart *chart)
{
    double least, most;
    char *text;
    size_t len;
    FILE *script = open_memstream(&text, &len);

    if (!script)
        return NULL;
    bounds(chart, &least, &most);
    fprintf(script,
            "set encoding utf8\n"
            "set terminal svg size 520,320 dynamic font 'sans-serif,14' noenhanced linewidth 1\n"
            "unset key\n"
            "set border 1 lc rgb '#010101'\n"
            "set grid ytics lt 1 lw 1 lc rgb '#020202'\n"
            "set tics nomirror scale 0.4,0 textcolor rgb '#030303'\n"
            "set lmargin 8\nset rmargin 3\nset tmargin 1\nset bmargin 2\n"
            "set logscale x 2\n"
            "set xrange [%.9g:%.9g]\n%s",
            most > least ? least / 1.15 : least / 2, most > least ? most * 1.15 : most * 2,
            chart->log_y ? "set logscale y 10\nset format y '%g'\n"
                         : "set yrange [0:*]\nset format y '%g'\n");
    put_tics(script, least, most);
    for (int s = 0; s < chart->n_series; s++) {
        fprintf(script, "$d%d << END\n", s);
        for (size_t i = 0; i < chart->series[s].n_points; i++)
            put_point(script, &chart->series[s].points[i]);
        fputs("END\n", script);
    }
    fputs("plot ", script);
    for (int s = 0; s < chart->n_series; s++) {
        fprintf(script,
                "%s$d%d using 1:2 smooth unique with linespoints lw 2 lc rgb '#0a00%02x' pt %d ps "
                "0.9 notitle",
                s ? ", " : "", s, s + 1, marks[s].type);
        fprintf(script,
                ", $d%d using 1:3:(0):4 with vectors nohead lw 1 lc rgb '#0a00%02x' notitle", s,
                s + 1);
    }
    fputc('\n', script);
    if (ferror(script) | fclose(script)) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- its picture, for the page ---------------------------------------------------------------- */

static int begins(const char *at, const char *with)
{
    return !strncmp(at, with, strlen(with));
}

/* What is left out, from the one to the other. */
static const char *skip(const char *at)
{
    static const char *const parts[][2] = {{"<title>", "</title>"},
                                           {"<desc>", "</desc>"},
                                           {"<filter", "</filter>"}};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (begins(at, parts[i][0])) {
            const char *end = strstr(at, parts[i][1]);
            return end ? end + strlen(parts[i][1]) : at + strlen(at);
        }
    return at;
}

/* The page has its own colours, for light and dark. */
static const char *put_color(const char *at, FILE *file)
{
    static const char *const names[] = {"", "--axis", "--grid", "--muted"};
    int r, g, b, len = 0;

    if (sscanf(at, "rgb(%d ,%d ,%d )%n", &r, &g, &b, &len) != 3 || !len)
        return at;
    if (r == 10 && b >= 1 && b <= MN_CHART_SERIES)
        fprintf(file, "var(--s%d)", b);
    else if (r >= 1 && r <= 3 && r == g && g == b)
        fprintf(file, "var(%s)", names[r]);
    else
        fputs("currentColor", file);
    return at + len;
}

/* Names within the picture become the page's, each once. */
static const char *put_name(const char *at, int number, FILE *file)
{
    static const char *const prefixes[] = {"gpPt", "gpDot", "gnuplot_"};
    static const char letters[] = "pds";

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins(at, prefixes[i])) {
            fprintf(file, "c%d%c", number, letters[i]);
            return at + strlen(prefixes[i]);
        }
    return at;
}

static void put_label(const struct mn_chart *chart, FILE *file)
{
    fputs(" class=\"chart\" role=\"img\" aria-label=\"", file);
    mn_text_html(file, chart->title);
    fprintf(file, ", %s over message size\"", chart->unit);
}

static void put_picture(const struct mn_chart *chart, int number, const char *svg, FILE *file)
{
    fputs("<svg", file);
    put_label(chart, file);
    for (const char *at = svg + strlen("<svg"); *at;) {
        const char *next = skip(at);
        if (next == at)
            next = put_color(at, file);
        if (next == at)
            next = put_name(at, number, file);
        if (next == at)
            fputc(*next++, file);
        at = next;
    }
}

static void put_legend(const struct mn_chart *chart, FILE *file)
{
    fputs("<ul class=\"legend\">", file);
    for (int s = 0; s < chart->n_series; s++) {
        fprintf(file, "<li><span class=\"mark\" style=\"color:var(--s%d)\">%s</span> ", s + 1,
                marks[s].glyph);
        mn_text_html(file, chart->series[s].name);
        fputs("</li>", file);
    }
    if (chart->left_out)
        fputs("<li>and more, in the table</li>", file);
    fputs("</ul>", file);
}

enum mn_err mn_chart_write(const struct mn_chart *chart, int number, FILE *file,
                           struct mn_diag *diag)
{
    static const char *const gnuplot[] = {"gnuplot", "-d", NULL};
    char *svg = NULL, *script = chart->n_series ? script_of(chart) : NULL;

    if (!chart->n_series)
        return MN_OK;
    if (!script)
        return mn_fail(diag, MN_ERR_NOMEM, "out of memory for a chart");
    enum mn_err err = mn_tool_run(gnuplot, script, &svg, diag);
    free(script);
    const char *start = err ? NULL : strstr(svg, "<svg");
    if (!err && !start)
        err = mn_fail(diag, MN_ERR_FAILED, "gnuplot failed: it drew no SVG");
    if (start) {
        fputs("<figure><figcaption><b>", file);
        mn_text_html(file, chart->title);
        fprintf(file, "</b> <span>%s over message size</span></figcaption>\n", chart->unit);
        put_picture(chart, number, start, file);
        put_legend(chart, file);
        fputs("</figure>\n", file);
    }
    free(svg);
    return err;
}
