#include "cli/report/html.h"

#include <math.h>
#include <string.h>

#include "cli/report/tables.h"
#include "cli/report/text.h"

static const char *const grade_class[] = {"good", "warn", "bad"};
static const char *const grade_word[] = {"✓ Good.", "⚠ Look at this.", "✕ Not as it should be."};

/* "mesh of 4 nodes" */
static void subject_of(const struct mn_report_doc *doc, char *buf, size_t size)
{
    if (doc->results.kind == MN_RESULTS_MATRIX)
        snprintf(buf, size, "mesh of %zu nodes", doc->n_nodes);
    else if (doc->results.kind == MN_RESULTS_LINK)
        snprintf(buf, size, "%s to %s", doc->here, doc->peer);
    else
        snprintf(buf, size, "collectives of %zu ranks", doc->n_nodes);
}

/* Runs of one subject are said once, with their number. */
char *mn_report_title(const struct mn_report *report, char *buf, size_t size)
{
    char parts[3][700], part[600];
    int counts[3] = {0}, n = 0, more = 0;
    size_t used = 0;

    for (size_t i = 0; i < report->n_docs; i++) {
        int at = 0;
        subject_of(&report->docs[i], part, sizeof part);
        while (at < n && strcmp(parts[at], part) != 0)
            at++;
        if (at == 3) {
            more++;
            continue;
        }
        n += at == n;
        memcpy(parts[at], part, sizeof part);
        counts[at]++;
    }
    buf[0] = 0;
    if (report->title)
        snprintf(buf, size, "%s", report->title);
    for (int i = 0; i < n && !report->title && used < size; i++) {
        const char *between = !i ? "" : i + 1 < n || more ? ", " : " and ";
        used += (size_t)snprintf(buf + used, size - used, "%s%s", between, parts[i]);
        if (counts[i] > 1 && used < size)
            used += (size_t)snprintf(buf + used, size - used, " (%d runs)", counts[i]);
    }
    if (more && used < size && !report->title)
        snprintf(buf + used, size - used, " and %d more", more);
    if (!report->title && (!strncmp(buf, "mesh ", 5) || !strncmp(buf, "collectives ", 12)))
        buf[0] = (char)(buf[0] - 'a' + 'A');
    return buf;
}

static void put_verdict(struct mn_page *page, const struct mn_report_doc *doc)
{
    FILE *file = page->file;
    char text[4096], run[1024];
    enum mn_grade grade = mn_report_verdict(doc, text, sizeof text);

    if (page->report->n_docs > 1) {
        fprintf(file, "<p class=\"run\"><a href=\"#run%zu\">",
                (size_t)(doc - page->report->docs) + 1);
        mn_text_html(file, mn_report_run(page->report, doc, run, sizeof run));
        fputs("</a></p>\n", file);
    }

    fprintf(file, "<p class=\"verdict %s\"><span class=\"word\">%s</span>", grade_class[grade],
            grade_word[grade]);
    mn_text_html(file, text);
    fputs("</p>\n", file);
}

static void put_head(struct mn_page *page)
{
    const struct mn_report *report = page->report;
    FILE *file = page->file;
    char title[2048];

    mn_report_title(report, title, sizeof title);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          file);
    mn_text_html(file, title);
    fprintf(file, "</title>\n<style>%s</style>\n</head>\n<body>\n<header>\n", mn_report_style);
    fputs("<p class=\"brand\">meshnet report", file);
    if (report->n_docs == 1 && report->docs[0].started) {
        fputs(" · ", file);
        mn_text_html(file, report->docs[0].started);
    }
    fputs("</p>\n<h1>", file);
    mn_text_html(file, title);
    fputs("</h1>\n", file);
    for (size_t i = 0; i < report->n_docs; i++) {
        put_verdict(page, &report->docs[i]);
        fputs("<dl class=\"facts\">\n", file);
        mn_page_facts(page, &report->docs[i]);
        fputs("</dl>\n", file);
    }
    fputs("</header>\n<main>\n", file);
}

static void put_findings(const struct mn_report *report, FILE *file)
{
    static const char *const words[] = {"ℹ note", "⚠ warning", "✕ bad"};
    size_t n = 0;
    char where[2048];

    for (size_t i = 0; i < report->n_docs; i++)
        n += report->docs[i].n_findings;
    if (!n)
        return;
    fputs("<section><h2>Findings</h2>\n<ul class=\"findings\">\n", file);
    for (int grade = MN_GRADE_BAD; grade >= MN_GRADE_GOOD; grade--)
        for (size_t i = 0; i < report->n_docs; i++)
            for (size_t k = 0; k < report->docs[i].n_findings; k++) {
                const struct mn_report_finding *f = &report->docs[i].findings[k];
                if ((int)mn_report_severity(f) != grade)
                    continue;
                fprintf(file, "<li class=\"%s\"><span class=\"word\">%s</span>", grade_class[grade],
                        words[grade]);
                mn_text_html(file, f->text ? f->text : "");
                mn_report_where(f, where, sizeof where);
                if (where[0] || report->n_docs > 1) {
                    fputs("<span class=\"where\">", file);
                    mn_text_html(file, where);
                    if (report->n_docs > 1) {
                        fputs(where[0] ? ", in " : "in ", file);
                        mn_text_html(file, report->docs[i].name);
                    }
                    fputs("</span>", file);
                }
                fputs("</li>\n", file);
            }
    fputs("</ul></section>\n", file);
}

static void put_foot(struct mn_page *page)
{
    const struct mn_report *report = page->report;
    FILE *file = page->file;

    if (report->n_environment) {
        mn_page_fold(file, "Environment");
        mn_report_put_environment(report, file, MN_REPORT_HTML);
        fputs("</details>\n", file);
    }
    fputs("</main>\n<footer>\n<p>Written by meshnet " MESHNET_VERSION " from ", file);
    for (size_t i = 0; i < report->n_docs; i++) {
        fputs(i ? ", " : "", file);
        mn_text_html(file, report->docs[i].name);
        if (report->docs[i].version) {
            fputs(" (measured by meshnet ", file);
            mn_text_html(file, report->docs[i].version);
            fputs(")", file);
        }
    }
    fputs(". 1 Gb/s is 10<sup>9</sup> bits per second, 1 GB/s 10<sup>9</sup> bytes per second; "
          "sizes are in powers of 1024.</p>\n</footer>\n</body>\n</html>\n",
          file);
}

void mn_report_html(const struct mn_report *report, FILE *file,
                    struct mn_diag missing[MN_PAGE_TOOLS])
{
    struct mn_page page = {.file = file, .report = report, .missing = missing};

    for (int tool = 0; tool < MN_PAGE_TOOLS; tool++)
        missing[tool] = (struct mn_diag){.text = ""};
    put_head(&page);
    put_findings(report, file);
    for (size_t i = 0; i < report->n_docs; i++)
        mn_page_document(&page, &report->docs[i]);
    put_foot(&page);
}
