#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/doc.h"
#include "cli/report/text.h"

/* One of so many measurements that did not become steady, and the rest is in doubt. */
#define MANY_UNSTEADY 10

struct sentence {
    char *text;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *s, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(s->text + s->used, s->size - s->used, fmt, args);
    va_end(args);
    s->used += n < 0 ? 0 : (size_t)n;
    if (s->used >= s->size)
        s->used = s->size - 1;
}

enum mn_grade mn_report_severity(const struct mn_report_finding *finding)
{
    const char *severity = finding->severity ? finding->severity : "";

    return !strcmp(severity, "bad")    ? MN_GRADE_BAD
           : !strcmp(severity, "warn") ? MN_GRADE_WARN
                                       : MN_GRADE_GOOD;
}

char *mn_report_where(const struct mn_report_finding *finding, char *buf, size_t size)
{
    struct sentence s = {.text = buf, .size = size};

    buf[0] = 0;
    /* The text may have said it already. */
    if (finding->link && !(finding->text && strstr(finding->text, finding->link)))
        say(&s, "link %s", finding->link);
    if (finding->text && !strncmp(finding->text, "pair ", strlen("pair ")))
        return buf;
    if (finding->from && finding->to)
        say(&s, "%s%s to %s", s.used ? ", " : "", finding->from, finding->to);
    else if (finding->from || finding->to)
        say(&s, "%s%s", s.used ? ", " : "", finding->from ? finding->from : finding->to);
    return buf;
}

/* --- a mesh ----------------------------------------------------------------------------------- */

struct count {
    int cells, good, odd, dead, wrong, unmeasured, ways, judged;
    double least, most;
    const struct mn_report_way *worst;
};

static void count_cell(const struct mn_report_doc *doc, const struct mn_report_cell *cell,
                       struct count *n)
{
    enum mn_grade grade = MN_GRADE_GOOD;

    /* Nodes without a cable between them are no pair. */
    if (!strcmp(cell->status, "not measured") && doc->complete)
        return;
    n->cells++;
    if (strcmp(cell->status, "ok") != 0) {
        n->dead += !strcmp(cell->status, "dead");
        n->wrong += !strcmp(cell->status, "wrong");
        n->unmeasured += strcmp(cell->status, "dead") != 0 && strcmp(cell->status, "wrong") != 0;
        return;
    }
    for (size_t i = 0; i < doc->n_ways; i++) {
        const struct mn_report_way *way = &doc->ways[i];
        if (way->cell != cell || !way->measured)
            continue;
        n->least = fmin(n->least, way->gbps);
        n->most = fmax(n->most, way->gbps);
        n->judged += way->ratio >= MN_REPORT_SHORT;
        n->ways++;
        grade = way->grade > grade ? way->grade : grade;
        if (way->grade != MN_GRADE_GOOD && (!n->worst || way->gbps < n->worst->gbps))
            n->worst = way;
    }
    n->odd += grade != MN_GRADE_GOOD;
    n->good += grade == MN_GRADE_GOOD;
}

/* What the worst of those that are odd delivers. */
static void say_worst(struct sentence *s, const struct count *n)
{
    char figure[32];

    say(s, " (%s%s to %s delivers %s Gb/s", n->odd > 1 ? "at worst " : "", n->worst->from,
        n->worst->to, mn_text_figures(n->worst->gbps, figure, sizeof figure));
    if (isfinite(n->worst->ratio))
        say(s, ", %.0f %% of what is expected", 100 * n->worst->ratio);
    say(s, ")");
}

static void say_bad(struct sentence *s, const struct count *n, const char *what)
{
    const char *comma = "; ";

    say(s, "%d of %d %ss %s as %s should be", n->good, n->cells, what, n->good == 1 ? "is" : "are",
        n->good == 1 ? "it" : "they");
    if (n->dead)
        say(s, "%s%d %s dead", comma, n->dead, n->dead == 1 ? "is" : "are");
    comma = n->dead ? ", " : comma;
    if (n->wrong)
        say(s, "%s%d delivered wrong data", comma, n->wrong);
    comma = n->wrong ? ", " : comma;
    if (n->odd)
        say(s, "%s%d %s attention", comma, n->odd, n->odd == 1 ? "needs" : "need");
    if (n->odd && n->worst)
        say_worst(s, n);
    comma = n->odd ? ", " : comma;
    if (n->unmeasured)
        say(s, "%s%d %s not measured", comma, n->unmeasured, n->unmeasured == 1 ? "was" : "were");
    say(s, ".");
}

static enum mn_grade judge_mesh(const struct mn_report_doc *doc, struct sentence *s)
{
    struct count n = {.least = INFINITY, .most = -INFINITY};
    enum mn_grade grade = MN_GRADE_GOOD;
    char least[32], most[32];
    int pairs = 1;

    for (size_t i = 0; i < doc->n_cells; i++)
        pairs &= doc->cells[i].pair;
    for (size_t i = 0; i < doc->n_cells; i++)
        if (doc->cells[i].pair == pairs)
            count_cell(doc, &doc->cells[i], &n);
    for (size_t i = 0; i < doc->n_ways; i++)
        grade = doc->ways[i].grade > grade ? doc->ways[i].grade : grade;
    for (size_t i = 0; i < doc->n_findings; i++) {
        enum mn_grade g = mn_report_severity(&doc->findings[i]);
        grade = g > grade ? g : grade;
    }
    const char *what = pairs ? "pair" : "link";
    mn_text_figures(n.least, least, sizeof least);
    mn_text_figures(n.most, most, sizeof most);
    if (!n.cells)
        say(s, "Nothing was measured between %zu nodes.", doc->n_nodes);
    else if (n.good < n.cells)
        say_bad(s, &n, what);
    else
        say(s, "%s of %zu nodes %s%s, %s to %s Gb/s each way.",
            n.cells == 1 ? pairs ? "The one pair" : "The one link"
            : pairs      ? "All pairs"
                         : "All links",
            doc->n_nodes, n.cells == 1 ? "delivers" : "deliver",
            n.judged == n.ways ? " at least 90 % of what the cables allow" : "", least, most);
    return n.cells ? grade : MN_GRADE_BAD;
}

/* --- a link, collectives ---------------------------------------------------------------------- */

static enum mn_grade judge_link(const struct mn_report_doc *doc, struct sentence *s)
{
    const struct mn_report_bandwidth *best = NULL;
    const struct mn_report_latency *small = NULL;
    char size[32], figure[32];

    for (size_t i = 0; i < doc->n_bandwidth; i++)
        if (doc->bandwidth[i].gbps > (best ? best->gbps : 0) &&
            strcmp(doc->bandwidth[i].direction, "both") != 0)
            best = &doc->bandwidth[i];
    for (size_t i = 0; i < doc->n_latency; i++)
        if (!small || doc->latency[i].size < small->size)
            small = &doc->latency[i];
    say(s, "%s to %s", doc->here, doc->peer);
    if (best)
        say(s, ": up to %s Gb/s one way", mn_text_figures(best->gbps, figure, sizeof figure));
    if (small)
        say(s, "%s %s µs for %s bytes at the median", best ? "," : ":",
            mn_text_figures(small->p50, figure, sizeof figure),
            mn_text_size(small->size, size, sizeof size));
    if (doc->wrong > 0)
        say(s, "; %.0f messages arrived wrong", doc->wrong);
    else if (doc->checked > 0)
        say(s, "; all %.0f messages checked were right", doc->checked);
    say(s, ".");
    return doc->wrong > 0 ? MN_GRADE_BAD : best || small ? MN_GRADE_GOOD : MN_GRADE_WARN;
}

static enum mn_grade judge_collectives(const struct mn_report_doc *doc, struct sentence *s)
{
    const struct mn_report_collective *best = NULL;
    double wrong = 0;
    size_t checked = 0;
    char figure[32], size[32];

    for (size_t i = 0; i < doc->n_collectives; i++) {
        const struct mn_report_collective *row = &doc->collectives[i];
        checked += isfinite(row->place[0].wrong);
        for (int place = 0; place < 2; place++)
            wrong += isfinite(row->place[place].wrong) ? row->place[place].wrong : 0;
        if (!strcmp(row->collective, doc->collectives[0].collective) &&
            row->place[0].busbw > (best ? best->place[0].busbw : 0))
            best = row;
    }
    say(s, "%.0f ranks: ", isfinite(doc->nranks) ? doc->nranks : (double)doc->n_nodes);
    if (wrong > 0)
        say(s, "%.0f elements of results are wrong", wrong);
    else if (checked)
        say(s, "all %zu results checked are right", checked);
    else
        say(s, "%zu measurements, none of them checked", doc->n_collectives);
    if (best)
        say(s, "; %s reaches %s GB/s bus bandwidth at %s", best->collective,
            mn_text_figures(best->place[0].busbw, figure, sizeof figure),
            mn_text_size(best->bytes, size, sizeof size));
    say(s, ".");
    return wrong > 0 ? MN_GRADE_BAD : doc->n_collectives ? MN_GRADE_GOOD : MN_GRADE_WARN;
}

enum mn_grade mn_report_verdict(const struct mn_report_doc *doc, char *text, size_t size)
{
    static enum mn_grade (*const judges[MN_RESULTS_KINDS])(const struct mn_report_doc *,
                                                           struct sentence *) = {
        [MN_RESULTS_MATRIX] = judge_mesh,
        [MN_RESULTS_LINK] = judge_link,
        [MN_RESULTS_COLLECTIVES] = judge_collectives,
    };
    struct sentence s = {.text = text, .size = size};
    enum mn_grade grade = judges[doc->results.kind](doc, &s);

    if (doc->unsteady)
        say(&s, " %zu of %zu measurements %s unsteady, still changing when measured.",
            doc->unsteady, doc->steadied, doc->unsteady == 1 ? "was" : "were");
    if (doc->unsteady * MANY_UNSTEADY >= doc->steadied && doc->unsteady && grade == MN_GRADE_GOOD)
        grade = MN_GRADE_WARN;
    if (!doc->complete)
        say(&s, " The run ended early%s%s.", doc->error ? ": " : "", doc->error ? doc->error : "");
    return doc->complete ? grade : MN_GRADE_BAD;
}
