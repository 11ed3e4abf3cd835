#include <string.h>

#include "bench/p2p/message.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"

#define MAX_SIZE ((double)(1u << 30))

static enum mn_err on_open(struct mn_p2p_pump *pump, const cJSON *m, struct mn_diag *diag)
{
    double connections, outstanding, threads, group, flush, memory, gpu;
    enum mn_err err = mn_ctl_number(m, "connections", 1, MN_P2P_CONNECTIONS, &connections, diag);

    if (!err)
        err = mn_ctl_number(m, "outstanding", 1, MN_P2P_OUTSTANDING, &outstanding, diag);
    if (!err)
        err = mn_ctl_number(m, "threads", 1, MN_P2P_THREADS, &threads, diag);
    if (!err)
        err = mn_ctl_number(m, "group", 1, MN_HOST_MAX_RECVS, &group, diag);
    if (!err)
        err = mn_ctl_number(m, "flush", 0, 1, &flush, diag);
    if (!err)
        err = mn_ctl_number(m, "memory", 0, MN_MEMORY_KINDS - 1, &memory, diag);
    if (!err)
        err = mn_ctl_number(m, "gpu", -1, 1023, &gpu, diag);
    if (!err && pump->listens)
        err = mn_fail(diag, MN_ERR_PROTO, "control message: 'open' twice");
    if (err)
        return err;
    pump->connections = (int)connections;
    pump->outstanding = pump->window = (int)outstanding;
    pump->threads = (int)threads;
    pump->group = (int)group;
    pump->flush = flush != 0;
    err = mn_p2p_open(pump, (enum mn_memory_kind)memory, (int)gpu, diag);
    if (!err)
        err = mn_p2p_get_handles(m, pump, diag);
    if (err)
        return err;
    mn_same_mesh_warn(m, pump->ctl->peer);
    cJSON *reply = mn_p2p_message("opened");
    mn_same_mesh_put(reply);
    mn_p2p_put_handles(reply, pump);
    mn_p2p_put_end(reply, pump);
    return mn_ctl_send(pump->ctl, reply, diag);
}

static enum mn_err on_connect(struct mn_p2p_pump *pump, const cJSON *m, struct mn_diag *diag)
{
    double largest, buffers, patience;
    const unsigned own_ms = pump->timeout_ms;
    enum mn_err err = mn_ctl_number(m, "largest", 0, MAX_SIZE, &largest, diag);

    /* Before the client gives up, so that it hears why. */
    if (!mn_ctl_number(m, "timeout_ms", 1000, 3600000, &patience, NULL) &&
        patience * 3 / 4 < own_ms)
        pump->timeout_ms = (unsigned)(patience * 3 / 4);

    if (!err)
        err = mn_ctl_number(m, "buffers", 4096, 64e9, &buffers, diag);
    if (!err && (!pump->listens || pump->area[0]))
        err = mn_fail(diag, MN_ERR_PROTO, "control message: 'connect' out of order");
    if (!err)
        err = mn_p2p_connect(pump, diag);
    pump->timeout_ms = own_ms;
    if (!err)
        err = mn_p2p_buffers(pump, (size_t)largest, (size_t)buffers, diag);
    return err ? err : mn_ctl_send(pump->ctl, mn_p2p_message("connected"), diag);
}

/* A measurement with messages of size begins. */
static enum mn_err start(struct mn_p2p_pump *pump, double size, struct mn_diag *diag)
{
    if (!pump->area[0] || size + MN_P2P_PAGE > (double)pump->area_size)
        return mn_fail(diag, MN_ERR_PROTO, "control message: a transfer larger than announced");
    return mn_ctl_send(pump->ctl, mn_p2p_message("ready"), diag);
}

static enum mn_err on_bursts(struct mn_p2p_pump *pump, const cJSON *m, struct mn_diag *diag)
{
    double size, messages, count, way, window;
    enum mn_err err = mn_ctl_number(m, "size", 0, MAX_SIZE, &size, diag);

    if (!err)
        err = mn_ctl_number(m, "messages", 1, MN_P2P_BURST, &messages, diag);
    if (!err)
        err = mn_ctl_number(m, "count", 1, 1e15, &count, diag);
    if (!err)
        err = mn_ctl_number(m, "way", 1, 2, &way, diag);
    if (!err)
        err = mn_ctl_number(m, "window", 1, pump->outstanding, &window, diag);
    if (!err)
        err = start(pump, size, diag);
    if (err)
        return err;
    pump->window = (int)window;
    err =
        mn_p2p_bursts(pump, (size_t)size, (int)messages, (uint64_t)count, 0, (int)way, NULL, diag);
    return err ? err : mn_ctl_send(pump->ctl, mn_p2p_message("moved"), diag);
}

static enum mn_err on_move(struct mn_p2p_pump *pump, const cJSON *m, int pingpong,
                           struct mn_diag *diag)
{
    struct mn_p2p_seen seen = {0};
    double size, count, ways = 0, check = 0, window = 0;
    enum mn_err err = mn_ctl_number(m, "size", 0, MAX_SIZE, &size, diag);

    if (!err)
        err = mn_ctl_number(m, "count", 1, 1e15, &count, diag);
    if (!err && !pingpong)
        err = mn_ctl_number(m, "ways", 1, 3, &ways, diag);
    if (!err && !pingpong)
        err = mn_ctl_number(m, "check", 0, 1, &check, diag);
    if (!err && !pingpong)
        err = mn_ctl_number(m, "window", 1, pump->outstanding, &window, diag);
    if (!err)
        err = start(pump, size, diag);
    if (!err && pingpong)
        err = mn_p2p_pingpong(pump, (size_t)size, (uint64_t)count, 0, NULL, diag);
    else if (!err)
        pump->window = (int)window;
    if (!err && !pingpong)
        err = mn_p2p_transfer(pump, (size_t)size, (uint64_t)count, (int)ways, check != 0, &seen,
                              diag);
    if (err)
        return err;
    cJSON *reply = mn_p2p_message("moved");
    cJSON_AddNumberToObject(reply, "messages", (double)seen.messages);
    cJSON_AddNumberToObject(reply, "bytes", (double)seen.bytes);
    cJSON_AddNumberToObject(reply, "wrong", (double)seen.wrong);
    cJSON_AddNumberToObject(reply, "seconds", seen.seconds);
    cJSON_AddNumberToObject(reply, "cpu", seen.cpu_seconds);
    return mn_ctl_send(pump->ctl, reply, diag);
}

static enum mn_err on_counters(struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    struct mn_p2p_nic nics[MN_P2P_NICS];
    cJSON *reply = mn_p2p_message("counters");

    mn_p2p_put_nics(reply, nics, mn_p2p_counters(nics));
    cJSON_AddStringToObject(reply, "warning", pump->log);
    return mn_ctl_send(pump->ctl, reply, diag);
}

/* A client that only asks after it. */
static enum mn_err on_mesh(struct mn_p2p_pump *pump, const cJSON *m, struct mn_diag *diag)
{
    cJSON *reply = mn_p2p_message("mesh");

    mn_same_mesh_warn(m, pump->ctl->peer);
    mn_same_mesh_put(reply);
    return mn_ctl_send(pump->ctl, reply, diag);
}

enum mn_err mn_p2p_serve(struct mn_plugin *plugin, struct mn_ctl *ctl, cJSON *first, int device,
                         const char *pin, unsigned timeout_ms, struct mn_diag *diag)
{
    struct mn_p2p_pump pump = {.plugin = plugin,
                               .ctl = ctl,
                               .timeout_ms = timeout_ms,
                               .device = device,
                               .pin = pin};
    enum mn_err err = MN_OK;
    int bye = 0;

    while (!err && !bye) {
        cJSON *m = first;
        first = NULL;
        if (!m)
            err = mn_ctl_receive(ctl, timeout_ms, &m, diag);
        if (err)
            break;
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(m, "op");
        const char *op = cJSON_IsString(item) ? item->valuestring : "";
        if (!strcmp(op, "open"))
            err = on_open(&pump, m, diag);
        else if (!strcmp(op, "connect"))
            err = on_connect(&pump, m, diag);
        else if (!strcmp(op, "transfer"))
            err = on_move(&pump, m, 0, diag);
        else if (!strcmp(op, "pingpong"))
            err = on_move(&pump, m, 1, diag);
        else if (!strcmp(op, "bursts"))
            err = on_bursts(&pump, m, diag);
        else if (!strcmp(op, "raw-open"))
            err = mn_raw_on_open(&pump, m, diag);
        else if (!strcmp(op, "raw"))
            err = mn_raw_on_move(&pump, m, diag);
        else if (!strcmp(op, "counters"))
            err = on_counters(&pump, diag);
        else if (!strcmp(op, "mesh"))
            err = on_mesh(&pump, m, diag);
        else if (!strcmp(op, "bye"))
            bye = 1;
        else
            err = mn_fail(diag, MN_ERR_PROTO, "control message: unknown op '%.40s'", op);
        cJSON_Delete(m);
    }
    if (err && !mn_ctl_gone(ctl)) {
        cJSON *reply = cJSON_CreateObject();
        cJSON_AddStringToObject(reply, "error", diag->text);
        mn_ctl_send(ctl, reply, NULL);
    }
    mn_p2p_close(&pump);
    return err;
}
