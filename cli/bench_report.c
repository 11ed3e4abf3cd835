#include <math.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_report.h"
#include "cli/results_head.h"
#include "topo/base/alloc.h"

#define N(columns) ((int)(sizeof(columns) / sizeof *(columns)))

static void print_end(struct mn_out *out, const char *key, const char *title,
                      const struct mn_p2p_end *end)
{
    mn_out_begin(out, key, title);
    mn_out_str(out, "node", "node", end->node);
    mn_out_str(out, "plugin", "plugin", end->plugin.path);
    mn_out_strf(out, "symbol", "symbol", "ncclNetPlugin_v%d", end->plugin.version);
    mn_out_str(out, "sha256", "sha256", end->plugin.hash);
    mn_out_str(out, "device", "device", end->device);
    if (end->warning[0])
        mn_out_str(out, "warning", "the plugin warned", end->warning);
    else
        mn_out_str(out, "warning", NULL, NULL);
    mn_out_end(out);
}

/* What is known of many times in microseconds: columns, and the cells of a row with such fields. */
#define TIME_COLUMNS                                                                               \
    {"p50_us", "p50 us", 1}, {"p90_us", "p90", 1 | MN_DROP(6)}, {"p99_us", "p99", 1},              \
        {"p999_us", "p99.9", 1 | MN_DROP(7)}, {"max_us", "max", 1},                                \
        {"min_us", "min", 1 | MN_DROP(4)},                                                         \
    {                                                                                              \
        "mean_us", "mean", 1 | MN_DROP(5)                                                          \
    }
#define PRINT_TIMES(out, row)                                                                      \
    do {                                                                                           \
        const double times[] = {(row)->p50, (row)->p90, (row)->p99, (row)->p999,                   \
                                (row)->max, (row)->min, (row)->mean};                              \
        for (size_t t = 0; t < N(times); t++)                                                      \
            mn_out_cell_num(out, times[t], 2);                                                     \
    } while (0)

static void print_latency(struct mn_out *out, const struct mn_p2p_report *report)
{
    static const struct mn_col cols[] = {
        {"size", "size", 1},
        {"rounds", "rounds", 1 | MN_DROP(3)},
        TIME_COLUMNS,
        MN_SPREAD_COLUMNS(""),
    };

    mn_out_table(out, "latency", "latency, half round trip", cols, N(cols));
    for (size_t i = 0; i < report->n_latency; i++) {
        const struct mn_p2p_latency *row = &report->latency[i];
        mn_out_row(out);
        mn_out_cell_int(out, (int64_t)row->size);
        mn_out_cell_int(out, (int64_t)row->rounds);
        PRINT_TIMES(out, row);
        mn_results_print_spread(out, &row->spread);
    }
    mn_out_table_end(out);
}

static void print_bursts(struct mn_out *out, const struct mn_p2p_plan *plan,
                         const struct mn_p2p_report *report)
{
    static const struct mn_col cols[] = {
        {"size", "size", 1},
        {"direction", "way", 0},
        {"bursts", "bursts", 1 | MN_DROP(3)},
        TIME_COLUMNS,
    };

    mn_out_int(out, "burst_messages", "messages of a burst, on each flow", plan->burst_messages);
    mn_out_int(out, "burst_pause_ms", "rest before each burst, ms", plan->pause_ms);
    mn_out_table(out, "bursts", "bursts, until all of it was there and an answer back", cols,
                 N(cols));
    for (size_t i = 0; i < report->n_bursts; i++) {
        const struct mn_p2p_burst *row = &report->bursts[i];
        mn_out_row(out);
        mn_out_cell_int(out, (int64_t)row->size);
        mn_out_cell(out, mn_p2p_direction_names[row->direction]);
        mn_out_cell_int(out, (int64_t)row->bursts);
        PRINT_TIMES(out, row);
    }
    mn_out_table_end(out);
}

static void print_rates(struct mn_out *out, const struct mn_p2p_plan *plan,
                        const struct mn_p2p_report *report)
{
    static const struct mn_col cols[] = {
        {"size", "size", 1},
        {"direction", "way", 0},
        {"messages", "messages", 1 | MN_DROP(3)},
        {"seconds", "seconds", 1 | MN_DROP(4)},
        {"messages_per_s", "msg/s", 1},
        {"gbps", "Gb/s", 1 | MN_DROP(6)},
        {"cpu_us_per_message_here", "CPU us/msg here", 1 | MN_DROP(5)},
        {"cpu_us_per_message_peer", "peer", 1 | MN_DROP(5)},
        MN_SPREAD_COLUMNS(""),
    };

    mn_out_int(out, "rate_outstanding", "outstanding for the message rate", plan->rate_outstanding);
    mn_out_table(out, "rates", "message rate", cols, N(cols));
    for (size_t i = 0; i < report->n_rates; i++) {
        const struct mn_p2p_bandwidth *row = &report->rates[i];
        double messages = (double)row->messages;
        mn_out_row(out);
        mn_out_cell_int(out, (int64_t)row->size);
        mn_out_cell(out, mn_p2p_direction_names[row->direction]);
        mn_out_cell_int(out, (int64_t)row->messages);
        mn_out_cell_num(out, row->seconds, 3);
        mn_out_cell_num(out, row->seconds > 0 ? messages / row->seconds : 0, 0);
        mn_out_cell_num(out, mn_p2p_gbytes(row) * 8, 3);
        mn_out_cell_num(out, row->cpu_seconds[0] * 1e6 / messages, 3);
        mn_out_cell_num(out, row->cpu_seconds[1] * 1e6 / messages, 3);
        mn_results_print_spread(out, &row->spread);
    }
    mn_out_table_end(out);
}

/* Small messages move little: their differences stand in the later digits. */
static void print_speed(struct mn_out *out, double speed)
{
    mn_out_cell_num(out, speed, speed >= 1 ? 3 : speed >= 0.01 ? 5 : 7);
}

static void print_bandwidth(struct mn_out *out, const struct mn_p2p_report *report)
{
    static const struct mn_col cols[] = {
        {"size", "size", 1},
        {"direction", "way", 0},
        {"messages", "messages", 1 | MN_DROP(3)},
        {"seconds", "seconds", 1 | MN_DROP(4)},
        {"gbytes_per_s", "GB/s", 1 | MN_DROP(6)},
        {"gbps", "Gb/s", 1},
        {"messages_per_s", "msg/s", 1 | MN_DROP(7)},
        {"cpu_s_per_gb", "CPU s/GB", 1 | MN_DROP(8)},
        {"cpu_s_per_gb_here", "here", 1 | MN_DROP(5)},
        {"cpu_s_per_gb_peer", "peer", 1 | MN_DROP(5)},
        {"median_gbps", NULL, 1},
        MN_SPREAD_COLUMNS(""),
    };

    mn_out_table(out, "results", "bandwidth (bytes received, over the slower side's time)", cols,
                 N(cols));
    for (size_t i = 0; i < report->n_bandwidth; i++) {
        const struct mn_p2p_bandwidth *row = &report->bandwidth[i];
        double gb = (double)row->bytes / 1e9, speed = mn_p2p_gbytes(row);
        mn_out_row(out);
        mn_out_cell_int(out, (int64_t)row->size);
        mn_out_cell(out, mn_p2p_direction_names[row->direction]);
        mn_out_cell_int(out, (int64_t)row->messages);
        mn_out_cell_num(out, row->seconds, 3);
        print_speed(out, speed);
        print_speed(out, speed * 8);
        mn_out_cell_num(out, row->seconds > 0 ? (double)row->messages / row->seconds : 0, 0);
        mn_out_cell_num(out, (row->cpu_seconds[0] + row->cpu_seconds[1]) / gb, 3);
        mn_out_cell_num(out, row->cpu_seconds[0] / gb, 3);
        mn_out_cell_num(out, row->cpu_seconds[1] / gb, 3);
        print_speed(out, gb * 8 / (double)row->spread.repetitions / row->spread.median);
        mn_results_print_spread(out, &row->spread);
    }
    mn_out_table_end(out);
}

static void say_unsteady(struct mn_out *out, const struct mn_p2p_report *report)
{
    size_t unsteady = 0;

    for (size_t i = 0; i < report->n_latency; i++)
        unsteady += report->latency[i].spread.steady == 0;
    for (size_t i = 0; i < report->n_bandwidth; i++)
        unsteady += report->bandwidth[i].spread.steady == 0;
    mn_results_say_unsteady(out, unsteady, report->n_latency + report->n_bandwidth);
}

static double ratio(double of, double to)
{
    return to > 0 ? of / to : NAN;
}

static void print_raw(struct mn_out *out, const struct mn_p2p_report *report)
{
    static const struct mn_col cols[] = {
        {"size", "size", 1},
        {"direction", "way", 0},
        {"path", "path", 0},
        {"gbps", "Gb/s", 1},
        {"plugin_gbps_ratio", "plugin/it", 1},
        {"messages_per_s", "msg/s", 1 | MN_DROP(1)},
        {"p50_us", "p50 us", 1},
        {"plugin_p50_ratio", "plugin/it", 1 | MN_DROP(3)},
        {"p99_us", "p99", 1 | MN_DROP(2)},
        {"lost_messages", "lost", 1},
    };
    const struct mn_p2p_raw *plugin = NULL;

    mn_out_str(out, "raw_device_here", "verbs alone, here", report->raw_devices[0]);
    mn_out_str(out, "raw_device_peer", "verbs alone, peer", report->raw_devices[1]);
    mn_out_int(out, "raw_outstanding", "verbs alone, outstanding", report->raw_depth);
    mn_out_table(out, "raw_verbs",
                 "verbs alone beside the plugin, medians of rounds in turn (p50 and p99 of half "
                 "round trips, of a read the whole)",
                 cols, N(cols));
    for (size_t i = 0; i < report->n_raw; i++) {
        const struct mn_p2p_raw *row = &report->raw[i];
        int verbs = row->kind != MN_RAW_PLUGIN;
        if (!verbs)
            plugin = row; /* the first of its size and way */
        mn_out_row(out);
        mn_out_cell_int(out, (int64_t)row->size);
        mn_out_cell(out, mn_p2p_direction_names[row->direction]);
        mn_out_cell(out, mn_raw_names[row->kind]);
        mn_out_cell_num(out, row->gbps, 3);
        mn_out_cell_num(out, verbs && plugin ? ratio(plugin->gbps, row->gbps) : NAN, 2);
        mn_out_cell_num(out, row->messages_per_s, 0);
        mn_out_cell_num(out, row->p50, 2);
        mn_out_cell_num(out, verbs && plugin ? ratio(plugin->p50, row->p50) : NAN, 2);
        mn_out_cell_num(out, row->p99, 2);
        if (verbs)
            mn_out_cell_int(out, (int64_t)row->lost);
        else
            mn_out_cell(out, NULL);
    }
    mn_out_table_end(out);
}

/* A NIC that moved a twentieth of the whole carried the run; the rest is noise. */
static void say_who_carried(struct mn_out *out, const struct mn_p2p_report *report,
                            const struct mn_p2p_end *end)
{
    static const char *const names[] = {[MN_P2P_UNSEEN] = "not seen by any counter",
                                        [MN_P2P_TCP] = "TCP",
                                        [MN_P2P_RDMA] = "RDMA",
                                        [MN_P2P_MIXED] = "RDMA in part"};
    double shares[MN_P2P_NICS];
    enum mn_p2p_carrier carrier = mn_p2p_carrier(report, end, shares);
    char text[512] = "";
    size_t used = 0;

    for (int i = 0; i < end->n_nics && used < sizeof text; i++)
        if (carrier != MN_P2P_UNSEEN && shares[i] >= 0.05)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     end->nics[i].netdev);
    mn_out_str(out, "transport", "transport", names[carrier]);
    mn_out_str(out, "carried_by", "carried by", text[0] ? text : NULL);
}

static void print_counters(struct mn_out *out, const char *key, const char *title,
                           const struct mn_p2p_report *report, const struct mn_p2p_end *end)
{
    static const char *const units[] = {[MN_RDMA_BYTES] = "bytes", [MN_RDMA_PACKETS] = "packets"};
    static const struct mn_col cols[] = {
        {"netdev", "netdev", 0},
        {"tx_bytes", "sent", 1},
        {"rx_bytes", "received", 1},
        {"tcp_packets", "TCP packets", 1 | MN_DROP(4)},
        {"tcp_lost", "lost", 1},
        {"device", "RDMA device", MN_DROP(2)},
        {"rdma_tx", "RDMA sent", 1 | MN_DROP(3)},
        {"rdma_rx", "RDMA received", 1 | MN_DROP(3)},
        {"rdma_unit", "RDMA counts in", MN_DROP(1)},
    };

    mn_out_begin(out, key, NULL);
    mn_out_table(out, "nics", title, cols, N(cols));
    for (int i = 0; i < end->n_nics; i++) {
        const struct mn_p2p_nic *nic = &end->nics[i];
        mn_out_row(out);
        mn_out_cell(out, nic->netdev);
        mn_out_cell_int(out, (int64_t)nic->n.tx_bytes);
        mn_out_cell_int(out, (int64_t)nic->n.rx_bytes);
        mn_out_cell_int(out, (int64_t)nic->tcp_packets);
        mn_out_cell_int(out, (int64_t)nic->tcp_lost);
        mn_out_cell(out, nic->device[0] ? nic->device : NULL);
        if (nic->n.rdma_unit) {
            mn_out_cell_int(out, (int64_t)nic->n.rdma_tx);
            mn_out_cell_int(out, (int64_t)nic->n.rdma_rx);
        } else {
            mn_out_cell(out, NULL);
            mn_out_cell(out, NULL);
        }
        mn_out_cell(out, units[nic->n.rdma_unit]);
    }
    mn_out_table_end(out);
    say_who_carried(out, report, end);
    mn_out_end(out);
}

void mn_bench_print_tables(struct mn_out *out, const struct mn_p2p_plan *plan,
                           const struct mn_p2p_report *report)
{
    if (plan->latency)
        print_latency(out, report);
    if (plan->bursts)
        print_bursts(out, plan, report);
    if (plan->rate)
        print_rates(out, plan, report);
    if (plan->directions)
        print_bandwidth(out, report);
    if (plan->raw)
        print_raw(out, report);
}

void mn_bench_print(struct mn_out *out, const struct mn_p2p_plan *plan, const char *mesh_path,
                    const struct mn_mesh *mesh, int self, const struct mn_p2p_report *report)
{
    char quote[512];
    const struct mn_p2p_end *ends = report->ends;

    mn_results_print_head(out, MN_RESULTS_LINK, report->started, report->environments, 2);
    print_end(out, "here", "here", &ends[0]);
    print_end(out, "peer", "peer", &ends[1]);
    if (strcmp(ends[0].plugin.hash, ends[1].plugin.hash) != 0)
        mn_out_note(out, MN_YELLOW, "warning: the two ends drive different plugin files");
    mn_out_str(out, "mesh_file", "mesh file", mesh_path[0] ? mesh_path : NULL);
    mn_out_int(out, "connections", "flows", plan->connections);
    mn_out_int(out, "threads", "threads", plan->threads);
    mn_out_int(out, "outstanding", "outstanding", plan->outstanding);
    mn_out_int(out, "messages_per_request", "messages of a request", plan->group);
    mn_out_str(out, "memory", plan->memory ? "memory" : NULL, mn_memory_names[plan->memory]);
    mn_out_bool(out, "flush", plan->flush ? "flushed" : NULL, plan->flush);
    mn_out_bool(out, "complete", NULL, report->error == NULL);
    mn_out_str(out, "error", NULL, report->error);
    mn_out_str(out, "clock", "clock", "CLOCK_MONOTONIC");
    mn_out_int(out, "checked_messages", plan->check ? "messages checked" : NULL,
               (int64_t)report->checked);
    mn_out_int(out, "wrong_messages", plan->check ? "messages wrong" : NULL,
               (int64_t)report->wrong);
    mn_out_num(out, "precision_percent", NULL, plan->iters ? NAN : plan->repeat.precision, 2);
    mn_bench_print_tables(out, plan, report);
    say_unsteady(out, report);
    print_counters(out, "counters_here", "bytes of each NIC here, during the run", report,
                   &ends[0]);
    print_counters(out, "counters_peer", "bytes of each NIC of the peer", report, &ends[1]);
    mn_out_str(out, "left_out", NULL, report->left_out[0] ? report->left_out : NULL);
    if (report->left_out[0])
        mn_out_note(out, MN_YELLOW, "left out, to end in time: %s; --thorough measures all",
                    report->left_out);
    mn_bench_quote(report, mesh, self, quote, sizeof quote);
    mn_out_str(out, "summary", NULL, quote[0] ? quote : NULL);
    if (quote[0])
        mn_out_note(out, MN_BOLD, "%s", quote);
}
