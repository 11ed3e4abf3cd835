#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench/p2p/message.h"
#include "bench/p2p/session.h"
#include "fleet/same_mesh.h"
#include "plugin/reach.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

const char *const mn_p2p_direction_names[MN_P2P_DIRECTIONS] = {"out", "in", "both"};

static size_t largest(const struct mn_p2p_plan *plan)
{
    unsigned long long max = 0;

    for (size_t i = 0; i < plan->n_sizes; i++)
        max = plan->sizes[i] > max ? plan->sizes[i] : max;
    return (size_t)max;
}

/* Of a host that is there, and silent at the plugin's port: the control connection shows that
 * another port answers. */
static void add_ports(const struct mn_ctl *ctl, struct mn_diag *diag)
{
    const char *silent = strstr(diag->text, MN_REACH_SILENT);
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    struct mn_addr addr;
    size_t used = strlen(diag->text);
    unsigned port;

    if (!silent || sscanf(silent + strlen(MN_REACH_SILENT), "%5u", &port) != 1 ||
        getpeername(ctl->fd, (struct sockaddr *)&ss, &len))
        return;
    int own = mn_addr_from_sockaddr((const struct sockaddr *)&ss, &addr);
    if (own > 0)
        snprintf(
            diag->text + used, sizeof diag->text - used,
            ". Port %d there answers, %u does not: a firewall? Let plugin.port_range through it",
            own, port);
}

static enum mn_err set_up(struct mn_p2p_session *r, struct mn_diag *diag)
{
    struct mn_p2p_pump *pump = &r->pump;
    cJSON *message, *reply;
    enum mn_err err = mn_p2p_open(pump, r->plan->memory, r->plan->gpu, diag);

    if (err)
        return err;
    message = mn_p2p_message("open");
    cJSON_AddNumberToObject(message, "connections", pump->connections);
    cJSON_AddNumberToObject(message, "outstanding", pump->outstanding);
    cJSON_AddNumberToObject(message, "threads", pump->threads);
    cJSON_AddNumberToObject(message, "group", pump->group);
    cJSON_AddNumberToObject(message, "flush", pump->flush);
    cJSON_AddNumberToObject(message, "memory", r->plan->memory);
    cJSON_AddNumberToObject(message, "gpu", r->plan->gpu);
    mn_p2p_put_handles(message, pump);
    mn_same_mesh_put(message);
    err = mn_p2p_ask(r->pump.ctl, r->plan->timeout_ms, message, "opened", &reply, diag);
    if (err)
        return err;
    err = mn_p2p_get_handles(reply, pump, diag);
    mn_p2p_get_end(reply, &r->report->ends[1], &r->report->environments[1]);
    mn_same_mesh_warn(reply, r->report->ends[1].node);
    mn_p2p_own_end(pump, &r->report->ends[0]);
    mn_environment_read(mn_plugin_info(pump->plugin), &r->report->environments[0]);
    cJSON_Delete(reply);
    message = mn_p2p_message("connect");
    cJSON_AddNumberToObject(message, "largest", (double)largest(r->plan));
    cJSON_AddNumberToObject(message, "buffers", (double)r->plan->buffers);
    cJSON_AddNumberToObject(message, "timeout_ms", r->plan->timeout_ms);
    if (!err)
        err = mn_ctl_send(pump->ctl, message, diag);
    else
        cJSON_Delete(message);
    if (!err && (err = mn_p2p_connect(pump, diag)) != MN_OK) {
        add_ports(pump->ctl, diag);
        return mn_p2p_add_peer_reason(r, err, diag);
    }
    if (!err)
        err = mn_p2p_buffers(pump, largest(r->plan), r->plan->buffers, diag);
    if (err)
        return err;
    err = mn_ctl_receive(pump->ctl, r->plan->timeout_ms, &reply, diag);
    cJSON_Delete(reply);
    return err;
}

enum mn_err mn_p2p_add_peer_reason(struct mn_p2p_session *r, enum mn_err err, struct mn_diag *diag)
{
    struct mn_diag theirs = {.text = ""};
    cJSON *reply = NULL;

    if (mn_ctl_receive(r->pump.ctl, 1000, &reply, &theirs) == MN_ERR_FAILED) {
        size_t used = strlen(diag->text);
        snprintf(diag->text + used, sizeof diag->text - used, " (%.300s)", theirs.text);
    }
    cJSON_Delete(reply);
    return err;
}

/* A packet of RDMA carries at most 4096 bytes. */
void mn_p2p_count_moved(struct mn_p2p_session *r, size_t size, uint64_t messages)
{
    r->report->moved_bytes += size * messages;
    r->report->moved_packets += (size > 4096 ? (size + 4095) / 4096 : 1) * messages;
}

enum mn_err mn_p2p_move(struct mn_p2p_session *r, size_t size, uint64_t count, int ways, int check,
                        struct mn_p2p_seen seen[2], struct mn_diag *diag)
{
    cJSON *message = mn_p2p_message("transfer"), *reply;
    double value[5];
    static const char *const keys[] = {"messages", "bytes", "wrong", "seconds", "cpu"};

    cJSON_AddNumberToObject(message, "size", (double)size);
    cJSON_AddNumberToObject(message, "count", (double)count);
    cJSON_AddNumberToObject(message, "ways", (ways & 1) << 1 | ways >> 1);
    cJSON_AddNumberToObject(message, "check", check);
    cJSON_AddNumberToObject(message, "window", r->pump.window);
    enum mn_err err = mn_p2p_start(&r->pump, message, diag);
    if (err)
        return err;
    err = mn_p2p_transfer(&r->pump, size, count, ways, check, &seen[0], diag);
    if (err)
        return mn_p2p_add_peer_reason(r, err, diag);
    err = mn_ctl_receive(r->pump.ctl, r->plan->timeout_ms, &reply, diag);
    for (int i = 0; i < 5 && !err; i++)
        err = mn_ctl_number(reply, keys[i], 0, 1.8e19, &value[i], diag);
    cJSON_Delete(reply);
    if (!err)
        seen[1] = (struct mn_p2p_seen){.messages = (uint64_t)value[0],
                                       .bytes = (uint64_t)value[1],
                                       .wrong = (uint64_t)value[2],
                                       .seconds = value[3],
                                       .cpu_seconds = value[4]};
    if (!err)
        mn_p2p_count_moved(r, size, seen[0].messages + seen[1].messages);
    return err;
}

static enum mn_err peer_counters(struct mn_p2p_session *r, struct mn_p2p_end *end,
                                 struct mn_diag *diag)
{
    cJSON *reply;
    enum mn_err err = mn_p2p_ask(r->pump.ctl, r->plan->timeout_ms, mn_p2p_message("counters"),
                                 "counters", &reply, diag);

    if (!err) {
        mn_p2p_get_counters(reply, end);
        cJSON_Delete(reply);
    }
    return err;
}

enum mn_err mn_p2p_run(struct mn_plugin *plugin, struct mn_ctl *ctl, const struct mn_p2p_plan *plan,
                       mn_p2p_progress progress, void *ctx, struct mn_p2p_report *report,
                       struct mn_diag *diag)
{
    struct mn_p2p_session r = {.plan = plan, .report = report, .progress = progress, .ctx = ctx};
    struct mn_p2p_end *ends = report->ends, before[2] = {{.n_nics = 0}};

    memset(report, 0, sizeof *report);
    report->started = time(NULL);
    r.began = mn_seconds();
    r.pump =
        (struct mn_p2p_pump){.plugin = plugin,
                             .ctl = ctl,
                             .timeout_ms = plan->timeout_ms,
                             .stop = plan->stop,
                             .device = plan->device,
                             .pin = plan->pin,
                             .connections = plan->connections,
                             .window = plan->outstanding,
                             .outstanding = plan->rate && plan->rate_outstanding > plan->outstanding
                                                ? plan->rate_outstanding
                                                : plan->outstanding,
                             .threads = plan->threads ? plan->threads : 1,
                             .group = plan->group ? plan->group : 1,
                             .flush = plan->flush};
    for (size_t i = 0; i < plan->n_sizes; i++) {
        r.steps += plan->check != 0;
        if (plan->sizes[i] >= plan->bandwidth_min)
            r.steps += __builtin_popcount(plan->directions);
        if (plan->sizes[i] <= plan->latency_max)
            r.steps +=
                plan->latency + __builtin_popcount(plan->rate) + __builtin_popcount(plan->bursts);
    }
    r.steps += plan->raw ? (int)plan->n_sizes : 0;
    enum mn_err err = set_up(&r, diag);
    if (!err && plan->raw)
        err = mn_raw_begin(&r, diag);
    if (!err)
        err = peer_counters(&r, &before[1], diag);
    before[0].n_nics = mn_p2p_counters(before[0].nics);
    if (!err)
        err = mn_p2p_measure(&r, diag);
    ends[0].n_nics = mn_p2p_counters(ends[0].nics);
    mn_strlcpy_words(ends[0].warning, r.pump.log, sizeof ends[0].warning);
    if (!err)
        err = peer_counters(&r, &ends[1], diag);
    for (int i = 0; i < 2; i++)
        mn_p2p_counters_since(ends[i].nics, ends[i].n_nics, before[i].nics, before[i].n_nics);
    if (!err)
        err = mn_ctl_send(ctl, mn_p2p_message("bye"), diag);
    mn_p2p_close(&r.pump);
    return err;
}

void mn_p2p_free(struct mn_p2p_report *report)
{
    free(report->bandwidth);
    free(report->latency);
    free(report->rates);
    free(report->raw);
    free(report->bursts);
}

double mn_p2p_gbytes(const struct mn_p2p_bandwidth *row)
{
    return row->seconds > 0 ? (double)row->bytes / row->seconds / 1e9 : 0;
}
