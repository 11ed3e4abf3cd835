#include "cli/report/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "topo/base/alloc.h"

/* --- a mesh ----------------------------------------------------------------------------------- */

char *mn_report_way_text(const struct mn_report_way *way, char *buf, size_t size)
{
    char figure[32], share[32] = "";

    if (!way->measured) {
        const char *status = way->cell->status;
        snprintf(buf, size, "%s", strcmp(status, "ok") != 0 ? status : "not measured");
        return buf;
    }
    if (isfinite(way->ratio))
        snprintf(share, sizeof share, ", %.0f %%", 100 * way->ratio);
    snprintf(buf, size, "%s Gb/s%s", mn_text_figures(way->gbps, figure, sizeof figure), share);
    return buf;
}

void mn_report_put_matrix(const struct mn_report_doc *doc, int pair, FILE *file,
                          enum mn_report_format format)
{
    struct mn_report_col *cols = mn_zalloc((doc->n_nodes + 1) * sizeof *cols);
    struct mn_report_table table = {.cols = cols, .n_cols = (int)doc->n_nodes + 1};

    cols[0].head = "from, to";
    for (size_t i = 0; i < doc->n_nodes; i++)
        cols[i + 1] = (struct mn_report_col){doc->nodes[i], MN_NUMBER};
    for (size_t from = 0; from < doc->n_nodes; from++) {
        mn_table_text(&table, doc->nodes[from]);
        for (size_t to = 0; to < doc->n_nodes; to++) {
            char text[512] = "", one[128];
            enum mn_grade grade = MN_GRADE_GOOD;
            for (size_t i = 0; i < doc->n_ways; i++) {
                const struct mn_report_way *way = &doc->ways[i];
                if (way->cell->pair != pair || strcmp(way->from, doc->nodes[from]) != 0 ||
                    strcmp(way->to, doc->nodes[to]) != 0)
                    continue;
                size_t used = strlen(text);
                snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "",
                         mn_report_way_text(way, one, sizeof one));
                grade = way->grade > grade ? way->grade : grade;
            }
            mn_table_text(&table, text);
            mn_table_grade(&table, grade);
        }
    }
    mn_table_write(&table, file, format, NULL);
    free(cols);
}

static void put_end(struct mn_report_table *table, const char *node, const char *netdev)
{
    mn_table_textf(table, "%s%s%s", node, netdev ? "/" : "", netdev ? netdev : "");
}

static void put_remark(struct mn_report_table *table, const struct mn_report_doc *doc,
                       const struct mn_report_cell *cell)
{
    char text[1024] = "", whole[sizeof text - 100];
    size_t used = 0;

    if (cell->error)
        used = (size_t)snprintf(text, sizeof text, "%s", cell->error);
    if (used < sizeof text && cell->expected_by)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sexpected by %s",
                                 used ? "; " : "", cell->expected_by);
    for (size_t i = 0; cell->pair && i < doc->n_carried && used < sizeof text; i++) {
        const struct mn_report_carried *c = &doc->carried[i];
        if (!c->from || !c->to || strcmp(c->from, cell->from) != 0 || strcmp(c->to, cell->to) != 0)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s/%s carried %.0f %%",
                                 used ? "; " : "", c->node ? c->node : "?",
                                 c->netdev ? c->netdev : "?", 100 * c->share);
    }
    mn_strlcpy_words(whole, text, sizeof whole);
    mn_table_text(table, whole);
}

static enum mn_grade grade_of(const struct mn_report_doc *doc, const struct mn_report_cell *cell,
                              double *ratio)
{
    enum mn_grade grade = MN_GRADE_GOOD;

    *ratio = NAN;
    for (size_t i = 0; i < doc->n_ways; i++)
        if (doc->ways[i].cell == cell) {
            grade = doc->ways[i].grade > grade ? doc->ways[i].grade : grade;
            *ratio = fmin(*ratio, doc->ways[i].measured ? doc->ways[i].ratio : NAN);
        }
    return grade;
}

void mn_report_put_cells(const struct mn_report_doc *doc, int pair, FILE *file,
                         enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"link", MN_TEXT},
        {"from", MN_TEXT},
        {"to", MN_TEXT},
        {"state", MN_TEXT},
        {"transport", MN_TEXT},
        {"size", MN_NUMBER},
        {"out Gb/s", MN_NUMBER},
        {"in Gb/s", MN_NUMBER},
        {"both Gb/s", MN_NUMBER},
        {"expected Gb/s", MN_NUMBER},
        {"least share %", MN_NUMBER},
        {"p50 µs", MN_NUMBER},
        {"p99 µs", MN_NUMBER},
        {"lost packets", MN_NUMBER},
        {"remarks", MN_PROSE},
    };
    struct mn_report_table table = MN_TABLE(cols);

    for (size_t i = 0; i < doc->n_cells; i++) {
        const struct mn_report_cell *cell = &doc->cells[i];
        double ratio;
        if (cell->pair != pair)
            continue;
        enum mn_grade grade = grade_of(doc, cell, &ratio);
        mn_table_text(&table, cell->link);
        put_end(&table, cell->from, cell->netdev_from);
        put_end(&table, cell->to, cell->netdev_to);
        mn_table_text(&table, cell->status);
        /* Marked is what the grade comes from, as far as it is a figure. */
        int slow = ratio < MN_REPORT_SHORT, loses = !slow && cell->lost > 0;
        mn_table_grade(&table, slow || loses ? MN_GRADE_GOOD : grade);
        mn_table_text(&table, cell->transport);
        mn_table_size(&table, cell->bytes);
        mn_table_figures(&table, cell->out_gbps);
        mn_table_figures(&table, cell->in_gbps);
        mn_table_figures(&table, cell->both_gbps);
        mn_table_figures(&table, cell->expected_gbps);
        mn_table_num(&table, 100 * ratio, 0);
        mn_table_grade(&table, slow ? grade : MN_GRADE_GOOD);
        mn_table_num(&table, cell->p50_us, 2);
        mn_table_num(&table, cell->p99_us, 2);
        mn_table_num(&table, cell->lost, 0);
        mn_table_grade(&table, loses ? grade : MN_GRADE_GOOD);
        put_remark(&table, doc, cell);
    }
    mn_table_write(&table, file, format, NULL);
}

/* --- collectives ------------------------------------------------------------------------------ */

/* What there is in place is shorter: a page has no room for all, CSV has it. */
void mn_report_put_collectives(const struct mn_report_doc *doc, FILE *file,
                               enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"collective", MN_TEXT},     {"size", MN_NUMBER},           {"type", MN_TEXT},
        {"redop", MN_TEXT},          {"algorithm", MN_TEXT},        {"time µs", MN_NUMBER},
        {"p50 µs", MN_NUMBER},       {"p99 µs", MN_NUMBER},         {"algbw GB/s", MN_NUMBER},
        {"busbw GB/s", MN_NUMBER},   {"wrong", MN_NUMBER},          {"± %", MN_NUMBER},
        {"repetitions", MN_NUMBER},  {"outliers", MN_NUMBER},       {"in place µs", MN_NUMBER},
        {"in place p99", MN_NUMBER}, {"in place busbw", MN_NUMBER}, {"in place wrong", MN_NUMBER},
    };
    struct mn_report_table table = MN_TABLE(cols);

    for (size_t i = 0; i < doc->n_collectives; i++) {
        const struct mn_report_collective *row = &doc->collectives[i];
        const struct mn_report_times *t = &row->place[0], *in = &row->place[1];
        mn_table_text(&table, row->collective);
        mn_table_size(&table, row->bytes);
        mn_table_text(&table, row->type);
        mn_table_text(&table, row->op);
        mn_table_text(&table, row->algorithm);
        mn_table_num(&table, t->time, 2);
        mn_table_num(&table, t->p50, 2);
        mn_table_num(&table, t->p99, 2);
        mn_table_num(&table, t->algbw, 3);
        mn_table_num(&table, t->busbw, 3);
        mn_table_num(&table, t->wrong, 0);
        mn_table_grade(&table, t->wrong > 0 ? MN_GRADE_BAD : MN_GRADE_GOOD);
        mn_table_spread(&table, &t->spread);
        mn_table_num(&table, in->time, 2);
        mn_table_num(&table, in->p99, 2);
        mn_table_num(&table, in->busbw, 3);
        mn_table_num(&table, in->wrong, 0);
        mn_table_grade(&table, in->wrong > 0 ? MN_GRADE_BAD : MN_GRADE_GOOD);
    }
    mn_table_write(&table, file, format, NULL);
}

/* --- environment ------------------------------------------------------------------------------ */

static const char *text_at(const cJSON *node, const char *group, const char *key)
{
    return mn_results_text(mn_report_at(node, group, NULL), key, NULL);
}

/* Enough of a hash to tell files apart. */
static void put_hash(struct mn_report_table *table, const char *hash)
{
    char text[64];
    mn_table_text(table, hash ? mn_text_short(hash, 13, text, sizeof text) : NULL);
}

static void put_nodes(const struct mn_report *report, FILE *file, enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"node", MN_TEXT},
        {"host", MN_TEXT},
        {"kernel", MN_TEXT},
        {"CPUs", MN_NUMBER},
        {"CPU", MN_PROSE},
        {"governor", MN_TEXT},
        {"pinned to CPUs", MN_TEXT},
        {"plugin", MN_TEXT},
        {"plugin sha256", MN_TEXT},
        {"mesh file", MN_TEXT},
        {"mesh file sha256", MN_TEXT},
    };
    struct mn_report_table table = MN_TABLE(cols);

    for (size_t i = 0; i < report->n_environment; i++) {
        const cJSON *node = report->environment[i];
        const char *path = text_at(node, "plugin", "path");
        const char *base = path ? strrchr(path, '/') : NULL;
        mn_table_text(&table, mn_results_text(node, "node", NULL));
        mn_table_text(&table, mn_results_text(node, "host", NULL));
        mn_table_text(&table, mn_results_text(node, "kernel", NULL));
        mn_table_num(&table, mn_results_number(node, "cpus", NAN), 0);
        mn_table_text(&table, mn_results_text(node, "cpu", NULL));
        mn_table_text(&table, mn_results_text(node, "governor", NULL));
        mn_table_text(&table, mn_results_text(node, "pinned", NULL));
        mn_table_text(&table, base ? base + 1 : path);
        put_hash(&table, text_at(node, "plugin", "sha256"));
        mn_table_text(&table, text_at(node, "mesh_file", "path"));
        put_hash(&table, text_at(node, "mesh_file", "sha256"));
    }
    mn_table_write(&table, file, format, "Nodes");
}

static void put_nics(const struct mn_report *report, FILE *file, enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"node", MN_TEXT},        {"NIC", MN_TEXT},          {"RDMA device", MN_TEXT},
        {"port", MN_NUMBER},      {"driver", MN_TEXT},       {"firmware", MN_TEXT},
        {"MTU", MN_NUMBER},       {"speed Gb/s", MN_NUMBER}, {"PCIe Gb/s", MN_NUMBER},
        {"NUMA node", MN_NUMBER},
    };
    struct mn_report_table table = MN_TABLE(cols);
    const cJSON *nic;

    for (size_t i = 0; i < report->n_environment; i++)
        cJSON_ArrayForEach(nic, mn_report_at(report->environment[i], "nics", NULL))
        {
            mn_table_text(&table, mn_results_text(report->environment[i], "node", NULL));
            mn_table_text(&table, mn_results_text(nic, "netdev", NULL));
            mn_table_text(&table, mn_results_text(nic, "device", NULL));
            mn_table_num(&table, mn_results_number(nic, "port", NAN), 0);
            mn_table_text(&table, mn_results_text(nic, "driver", NULL));
            mn_table_text(&table, mn_results_text(nic, "firmware", NULL));
            mn_table_num(&table, mn_results_number(nic, "mtu", NAN), 0);
            mn_table_figures(&table, mn_results_number(nic, "speed_mbps", NAN) / 1000);
            mn_table_figures(&table, mn_results_number(nic, "pcie_gbps", NAN));
            mn_table_num(&table, mn_results_number(nic, "numa", NAN), 0);
        }
    mn_table_write(&table, file, format, "NICs");
}

void mn_report_put_environment(const struct mn_report *report, FILE *file,
                               enum mn_report_format format)
{
    put_nodes(report, file, format);
    put_nics(report, file, format);
}
