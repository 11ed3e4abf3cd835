/* The tables of a link. */
#include <math.h>
#include <string.h>

#include "cli/report/tables.h"
#include "cli/report/text.h"

/* Bytes below which a NIC had no part in a run. */
#define IDLE_NIC 1e6

void mn_report_put_latency(const struct mn_report_doc *doc, FILE *file,
                           enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"size", MN_NUMBER},     {"rounds", MN_NUMBER}, {"min µs", MN_NUMBER},
        {"mean µs", MN_NUMBER},  {"p50 µs", MN_NUMBER}, {"p99 µs", MN_NUMBER},
        {"p99.9 µs", MN_NUMBER}, {"± %", MN_NUMBER},    {"repetitions", MN_NUMBER},
        {"outliers", MN_NUMBER},
    };
    struct mn_report_table table = MN_TABLE(cols);

    for (size_t i = 0; i < doc->n_latency; i++) {
        const struct mn_report_latency *row = &doc->latency[i];
        mn_table_size(&table, row->size);
        mn_table_num(&table, row->rounds, 0);
        mn_table_num(&table, row->min, 2);
        mn_table_num(&table, row->mean, 2);
        mn_table_num(&table, row->p50, 2);
        mn_table_num(&table, row->p99, 2);
        mn_table_num(&table, row->p999, 2);
        mn_table_spread(&table, &row->spread);
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
    struct mn_report_table table = MN_TABLE(cols);
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
    struct mn_report_table table = MN_TABLE(cols);
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

/* Lists that only a profile of the bench has. */

static const cJSON *list_of(const struct mn_report_doc *doc, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(doc->results.json, key);
}

void mn_report_put_rates(const struct mn_report_doc *doc, FILE *file, enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"size", MN_NUMBER},
        {"direction", MN_TEXT},
        {"messages/s", MN_NUMBER},
        {"Gb/s", MN_NUMBER},
        {"CPU µs/message here", MN_NUMBER},
        {"CPU µs/message peer", MN_NUMBER},
        {"± %", MN_NUMBER},
        {"outliers", MN_NUMBER},
    };
    struct mn_report_table table = MN_TABLE(cols);
    const cJSON *row;

    cJSON_ArrayForEach(row, list_of(doc, "rates"))
    {
        mn_table_size(&table, mn_results_number(row, "size", NAN));
        mn_table_text(&table, mn_results_text(row, "direction", NULL));
        mn_table_num(&table, mn_results_number(row, "messages_per_s", NAN), 0);
        mn_table_num(&table, mn_results_number(row, "gbps", NAN), 3);
        mn_table_num(&table, mn_results_number(row, "cpu_us_per_message_here", NAN), 3);
        mn_table_num(&table, mn_results_number(row, "cpu_us_per_message_peer", NAN), 3);
        mn_table_num(&table, mn_results_number(row, "ci95_percent", NAN), 1);
        mn_table_num(&table, mn_results_number(row, "outliers", NAN), 0);
    }
    mn_table_write(&table, file, format, "Message rate");
}

void mn_report_put_bursts(const struct mn_report_doc *doc, FILE *file, enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"size", MN_NUMBER},   {"direction", MN_TEXT}, {"bursts", MN_NUMBER},
        {"min µs", MN_NUMBER}, {"mean µs", MN_NUMBER}, {"p50 µs", MN_NUMBER},
        {"p90 µs", MN_NUMBER}, {"p99 µs", MN_NUMBER},  {"p99.9 µs", MN_NUMBER},
        {"max µs", MN_NUMBER},
    };
    static const char *const keys[] = {"min_us", "mean_us", "p50_us", "p90_us",
                                       "p99_us", "p999_us", "max_us"};
    struct mn_report_table table = MN_TABLE(cols);
    const cJSON *row;

    cJSON_ArrayForEach(row, list_of(doc, "bursts"))
    {
        mn_table_size(&table, mn_results_number(row, "size", NAN));
        mn_table_text(&table, mn_results_text(row, "direction", NULL));
        mn_table_num(&table, mn_results_number(row, "bursts", NAN), 0);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            mn_table_num(&table, mn_results_number(row, keys[i], NAN), 2);
    }
    mn_table_write(&table, file, format, "Bursts");
}

void mn_report_put_raw(const struct mn_report_doc *doc, FILE *file, enum mn_report_format format)
{
    static const struct mn_report_col cols[] = {
        {"size", MN_NUMBER},   {"direction", MN_TEXT},   {"path", MN_TEXT},
        {"Gb/s", MN_NUMBER},   {"plugin/it", MN_NUMBER}, {"messages/s", MN_NUMBER},
        {"p50 µs", MN_NUMBER}, {"plugin/it", MN_NUMBER}, {"p99 µs", MN_NUMBER},
        {"lost", MN_NUMBER},
    };
    struct mn_report_table table = MN_TABLE(cols);
    const cJSON *row;

    cJSON_ArrayForEach(row, list_of(doc, "raw_verbs"))
    {
        mn_table_size(&table, mn_results_number(row, "size", NAN));
        mn_table_text(&table, mn_results_text(row, "direction", NULL));
        mn_table_text(&table, mn_results_text(row, "path", NULL));
        mn_table_num(&table, mn_results_number(row, "gbps", NAN), 3);
        mn_table_num(&table, mn_results_number(row, "plugin_gbps_ratio", NAN), 2);
        mn_table_num(&table, mn_results_number(row, "messages_per_s", NAN), 0);
        mn_table_num(&table, mn_results_number(row, "p50_us", NAN), 2);
        mn_table_num(&table, mn_results_number(row, "plugin_p50_ratio", NAN), 2);
        mn_table_num(&table, mn_results_number(row, "p99_us", NAN), 2);
        mn_table_num(&table, mn_results_number(row, "lost_messages", NAN), 0);
    }
    mn_table_write(&table, file, format, "Verbs alone beside the plugin");
}
