#include "cli/report/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "topo/base/alloc.h"

#define TABLE(columns)                                                                             \
    {                                                                                              \
        .cols = (columns), .n_cols = (int)(sizeof(columns) / sizeof *(columns))                    \
    }

/* Bytes below which a NIC had no part in a run. */
#define IDLE_NIC 1e6

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

static void put_remark(struct mn_report_table *table, const struct mn_report_cell *cell)
{
    char text[1024] = "";
    size_t used = 0;

    if (cell->error)
        used = (size_t)snprintf(text, sizeof text, "%s", cell->error);
    if (used < sizeof text && cell->expected_by)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sexpected by %s",
                                 used ? "; " : "", cell->expected_by);
    /* Where one NIC of each end carried all there is nothing to tell. */
    for (size_t i = 0; cell->n_carried > 2 && i < cell->n_carried && used < sizeof text; i++) {
        const struct mn_report_carried *c = &cell->carried[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s/%s carried %.0f %%",
                                 used ? "; " : "", c->node ? c->node : "?",
                                 c->netdev ? c->netdev : "?", 100 * c->share);
    }
    if (used >= sizeof text) { /* cut between characters */
        char *whole = mn_text_clean(text);
        mn_table_text(table, whole);
        free(whole);
    } else {
        mn_table_text(table, text);
    }
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
    struct mn_report_table table = TABLE(cols);

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
        put_remark(&table, cell);
    }
    mn_table_write(&table, file, format, NULL);
}

/* --- a link ----------------------------------------------------------------------------------- */

static void put_spread(struct mn_report_table *table, const struct mn_report_spread *spread)
{
    mn_table_num(table, spread->ci95, 1);
    mn_table_grade(table, spread->unsteady ? MN_GRADE_WARN : MN_GRADE_GOOD);
    mn_table_num(table, spread->repetitions, 0);
    mn_table_num(table, spread->outliers, 0);
}

void mn_report_put_latency(const struct mn_report_doc *doc, FILE *file,
                           enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"size", MN_NUMBER},     {"rounds", MN_NUMBER}, {"min µs", MN_NUMBER},
        {"mean µs", MN_NUMBER},  {"p50 µs", MN_NUMBER}, {"p99 µs", MN_NUMBER},
        {"p99.9 µs", MN_NUMBER}, {"± %", MN_NUMBER},    {"repetitions", MN_NUMBER},
        {"outliers", MN_NUMBER},
    };
    struct mn_report_table table = TABLE(cols);

    for (size_t i = 0; i < doc->n_latency; i++) {
        const struct mn_report_latency *row = &doc->latency[i];
        mn_table_size(&table, row->size);
        mn_table_num(&table, row->rounds, 0);
        mn_table_num(&table, row->min, 2);
        mn_table_num(&table, row->mean, 2);
        mn_table_num(&table, row->p50, 2);
        mn_table_num(&table, row->p99, 2);
        mn_table_num(&table, row->p999, 2);
        put_spread(&table, &row->spread);
    }
    mn_table_write(&table, file, format, "Latency, half round trip");
}

/* A row is a size, with the ways side by side. */
void mn_report_put_bandwidth(const struct mn_report_doc *doc, FILE *file,
                             enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"size", MN_NUMBER},          {"out Gb/s", MN_NUMBER},     {"in Gb/s", MN_NUMBER},
        {"both Gb/s", MN_NUMBER},     {"out ± %", MN_NUMBER},      {"in ± %", MN_NUMBER},
        {"both ± %", MN_NUMBER},      {"out msg/s", MN_NUMBER},    {"in msg/s", MN_NUMBER},
        {"both msg/s", MN_NUMBER},    {"out CPU s/GB", MN_NUMBER}, {"in CPU s/GB", MN_NUMBER},
        {"both CPU s/GB", MN_NUMBER},
    };
    static const char *const ways[] = {"out", "in", "both"};
    struct mn_report_table table = TABLE(cols);
    const struct mn_report_bandwidth *rows = doc->bandwidth;

    for (size_t i = 0; i < doc->n_bandwidth; i++) {
        const struct mn_report_bandwidth *found[3] = {NULL};
        size_t same = 0;
        while (same < i && rows[same].size != rows[i].size)
            same++;
        for (size_t k = i; same == i && k < doc->n_bandwidth; k++)
            for (int w = 0; w < 3 && rows[k].size == rows[i].size; w++)
                found[w] = strcmp(rows[k].direction, ways[w]) != 0 ? found[w] : &rows[k];
        if (!found[0] && !found[1] && !found[2])
            continue;
        mn_table_size(&table, rows[i].size);
        for (int w = 0; w < 3; w++)
            mn_table_num(&table, found[w] ? found[w]->gbps : NAN, 3);
        for (int w = 0; w < 3; w++)
            mn_table_num(&table, found[w] ? found[w]->spread.ci95 : NAN, 1);
        for (int w = 0; w < 3; w++)
            mn_table_num(&table, found[w] ? found[w]->messages : NAN, 0);
        for (int w = 0; w < 3; w++)
            mn_table_figures(&table, found[w] ? found[w]->cpu : NAN);
    }
    mn_table_write(&table, file, format, "Bandwidth");
}

void mn_report_put_counters(const struct mn_report_doc *doc, FILE *file,
                            enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"node", MN_TEXT},
        {"NIC", MN_TEXT},
        {"GB sent", MN_NUMBER},
        {"GB received", MN_NUMBER},
        {"RDMA device", MN_TEXT},
        {"RDMA sent", MN_NUMBER},
        {"RDMA received", MN_NUMBER},
        {"RDMA counts in", MN_TEXT},
    };
    static const char *const keys[] = {"counters_here", "counters_peer"};
    struct mn_report_table table = TABLE(cols);
    const cJSON *nic;

    for (int side = 0; side < 2; side++)
        cJSON_ArrayForEach(nic, mn_report_at(doc->results.json, keys[side], "nics", NULL))
        {
            if (mn_results_number(nic, "tx_bytes", 0) + mn_results_number(nic, "rx_bytes", 0) <
                    IDLE_NIC &&
                !(mn_results_number(nic, "rdma_tx", 0) + mn_results_number(nic, "rdma_rx", 0) > 0))
                continue;
            mn_table_text(&table, side ? doc->peer : doc->here);
            mn_table_text(&table, mn_results_text(nic, "netdev", NULL));
            mn_table_num(&table, mn_results_number(nic, "tx_bytes", NAN) / 1e9, 3);
            mn_table_num(&table, mn_results_number(nic, "rx_bytes", NAN) / 1e9, 3);
            mn_table_text(&table, mn_results_text(nic, "device", NULL));
            mn_table_num(&table, mn_results_number(nic, "rdma_tx", NAN), 0);
            mn_table_num(&table, mn_results_number(nic, "rdma_rx", NAN), 0);
            mn_table_text(&table, mn_results_text(nic, "rdma_unit", NULL));
        }
    mn_table_write(&table, file, format, "What NICs moved during the run");
}

char *mn_report_carrier(const struct mn_report_doc *doc, char *buf, size_t size)
{
    static const char *const keys[][2] = {{"counters_here", "here"}, {"counters_peer", "peer"}};
    size_t used = 0;

    buf[0] = 0;
    for (int side = 0; side < 2; side++) {
        const cJSON *counters = cJSON_GetObjectItemCaseSensitive(doc->results.json, keys[side][0]);
        const cJSON *end = cJSON_GetObjectItemCaseSensitive(doc->results.json, keys[side][1]);
        const char *by = mn_results_text(counters, "carried_by", NULL);
        const char *transport = mn_results_text(counters, "transport", NULL);
        const char *warning = mn_results_text(end, "warning", NULL);
        if (transport && used < size)
            used += (size_t)snprintf(buf + used, size - used, "%s%s: %s%s%s.", used ? " " : "",
                                     side ? doc->peer : doc->here, transport, by ? " over " : "",
                                     by ? by : "");
        if (warning && used < size)
            used += (size_t)snprintf(buf + used, size - used, "%sThe plugin warned %s: %s.",
                                     used ? " " : "", side ? "there" : "here", warning);
    }
    return buf;
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
    struct mn_report_table table = TABLE(cols);

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
        put_spread(&table, &t->spread);
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
        {"node", MN_TEXT},      {"host", MN_TEXT},
        {"kernel", MN_TEXT},    {"CPUs", MN_NUMBER},
        {"CPU", MN_PROSE},      {"governor", MN_TEXT},
        {"plugin", MN_TEXT},    {"plugin sha256", MN_TEXT},
        {"mesh file", MN_TEXT}, {"mesh file sha256", MN_TEXT},
    };
    struct mn_report_table table = TABLE(cols);

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
    struct mn_report_table table = TABLE(cols);
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
