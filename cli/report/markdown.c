#include "cli/report/html.h"
#include "cli/report/plain.h"
#include "cli/report/tables.h"
#include "cli/report/text.h"

static const char *const signs[] = {"✅", "⚠️", "❌"};

static void put_findings(const struct mn_report *report, FILE *file)
{
    int any = 0;
    char where[2048];

    for (int grade = MN_GRADE_BAD; grade >= MN_GRADE_GOOD; grade--)
        for (size_t i = 0; i < report->n_docs; i++)
            for (size_t k = 0; k < report->docs[i].n_findings; k++) {
                const struct mn_report_finding *f = &report->docs[i].findings[k];
                if ((int)mn_report_severity(f) != grade)
                    continue;
                fputs(any++ ? "" : "### Findings\n\n", file);
                fprintf(file, "- %s ", grade == MN_GRADE_GOOD ? "ℹ️" : signs[grade]);
                mn_text_md(file, f->text ? f->text : "");
                mn_report_where(f, where, sizeof where);
                if (where[0] || report->n_docs > 1) {
                    fputs(" (", file);
                    mn_text_md(file, where);
                    if (report->n_docs > 1) {
                        fputs(where[0] ? ", in " : "in ", file);
                        mn_text_md(file, report->docs[i].name);
                    }
                    fputc(')', file);
                }
                fputc('\n', file);
            }
    fputs(any ? "\n" : "", file);
}

static void open_details(FILE *file, const char *title)
{
    fprintf(file, "<details><summary>%s</summary>\n\n", title);
}

static void put_document(const struct mn_report_doc *doc, FILE *file)
{
    static const char *const titles[][2] = {{"Links, row to column", "Links in figures"},
                                            {"Pairs, row to column", "Pairs in figures"}};
    char carrier[8192];

    for (int pair = 0; pair < 2; pair++) {
        if (!mn_report_has_cells(doc, pair))
            continue;
        fprintf(file, "### %s\n\n", titles[pair][0]);
        mn_report_put_matrix(doc, pair, file, MN_REPORT_MD);
        open_details(file, titles[pair][1]);
        mn_report_put_cells(doc, pair, file, MN_REPORT_MD);
        fputs("</details>\n\n", file);
    }
    if (doc->results.kind == MN_RESULTS_LINK) {
        fputs("### ", file);
        mn_text_md(file, doc->here);
        fputs(" to ", file);
        mn_text_md(file, doc->peer);
        fputs("\n\n", file);
        mn_text_md(file, mn_report_carrier(doc, carrier, sizeof carrier));
        fputs(carrier[0] ? "\n\n" : "", file);
        mn_report_put_latency(doc, file, MN_REPORT_MD);
        mn_report_put_rates(doc, file, MN_REPORT_MD);
        mn_report_put_bursts(doc, file, MN_REPORT_MD);
        mn_report_put_raw(doc, file, MN_REPORT_MD);
        mn_report_put_bandwidth(doc, file, MN_REPORT_MD);
        open_details(file, "Counters of the NICs");
        mn_report_put_counters(doc, file, MN_REPORT_MD);
        fputs("</details>\n\n", file);
    }
    if (doc->n_collectives) {
        open_details(file, "Collectives");
        mn_report_put_collectives(doc, file, MN_REPORT_MD);
        fputs("</details>\n\n", file);
    }
}

void mn_report_md(const struct mn_report *report, FILE *file)
{
    char text[4096], run[1024];

    fputs("# ", file);
    mn_text_md(file, mn_report_title(report, text, sizeof text));
    fputs("\n\n", file);
    for (size_t i = 0; i < report->n_docs; i++) {
        enum mn_grade grade = mn_report_verdict(&report->docs[i], text, sizeof text);
        fprintf(file, "%s ", signs[grade]);
        if (report->n_docs > 1) {
            mn_text_md(file, mn_report_run(report, &report->docs[i], run, sizeof run));
            fputs("\n\n", file);
        }
        fputs("**", file);
        mn_text_md(file, text);
        fputs("**\n\n", file);
    }
    put_findings(report, file);
    for (size_t i = 0; i < report->n_docs; i++) {
        if (report->n_docs > 1) {
            fputs("## ", file);
            mn_text_md(file, mn_report_run(report, &report->docs[i], run, sizeof run));
            fputs("\n\n", file);
        }
        put_document(&report->docs[i], file);
    }
    if (report->n_environment) {
        open_details(file, "Environment");
        mn_report_put_environment(report, file, MN_REPORT_MD);
        fputs("</details>\n\n", file);
    }
    fputs("Written by meshnet " MESHNET_VERSION ".\n", file);
}
