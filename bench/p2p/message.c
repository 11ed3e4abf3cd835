#include <ctype.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "bench/p2p/message.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/mesh.h"

cJSON *mn_p2p_message(const char *op)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "op", op);
    return message;
}

enum mn_err mn_p2p_ask(struct mn_ctl *ctl, unsigned timeout_ms, cJSON *message, const char *op,
                       cJSON **reply, struct mn_diag *diag)
{
    cJSON *got = NULL;
    enum mn_err err = mn_ctl_send(ctl, message, diag);

    if (!err)
        err = mn_ctl_receive(ctl, timeout_ms, &got, diag);
    if (err)
        return err;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(got, "op");
    if (!cJSON_IsString(item) || strcmp(item->valuestring, op) != 0)
        err = mn_fail(diag, MN_ERR_PROTO, "%s: expected the message '%s'", ctl->peer, op);
    if (err || !reply)
        cJSON_Delete(got);
    else
        *reply = got;
    return err;
}

void mn_p2p_put_handles(cJSON *message, const struct mn_p2p_pump *pump)
{
    cJSON *list = cJSON_AddArrayToObject(message, "handles");

    for (int c = 0; c < pump->connections; c++) {
        char hex[2 * MN_HANDLE_SIZE + 1];
        for (int i = 0; i < MN_HANDLE_SIZE; i++)
            snprintf(hex + 2 * i, 3, "%02x", pump->handles[c * MN_HANDLE_SIZE + i]);
        cJSON_AddItemToArray(list, cJSON_CreateString(hex));
    }
}

static int digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum mn_err mn_p2p_get_handles(const cJSON *message, struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(message, "handles");

    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != pump->connections)
        return mn_fail(diag, MN_ERR_PROTO, "control message: expected %d handles",
                       pump->connections);
    for (int c = 0; c < pump->connections; c++) {
        const cJSON *item = cJSON_GetArrayItem(list, c);
        if (!cJSON_IsString(item) || strlen(item->valuestring) != 2 * MN_HANDLE_SIZE)
            return mn_fail(diag, MN_ERR_PROTO, "control message: handle %d has a wrong length", c);
        for (int i = 0; i < MN_HANDLE_SIZE; i++) {
            int high = digit(item->valuestring[2 * i]), low = digit(item->valuestring[2 * i + 1]);
            if (high < 0 || low < 0)
                return mn_fail(diag, MN_ERR_PROTO, "control message: handle %d is not hex", c);
            pump->peer_handles[c * MN_HANDLE_SIZE + i] = (uint8_t)(high << 4 | low);
        }
    }
    return MN_OK;
}

void mn_p2p_own_end(const struct mn_p2p_pump *pump, struct mn_p2p_end *end)
{
    struct mn_plugin_props props;

    mn_node_name(end->node, sizeof end->node);
    end->plugin = *mn_plugin_info(pump->plugin);
    if (!mn_plugin_properties(pump->plugin, pump->device, &props) && props.net.name)
        mn_strlcpy(end->device, props.net.name, sizeof end->device);
}

void mn_p2p_put_end(cJSON *message, const struct mn_p2p_pump *pump)
{
    struct mn_p2p_end end = {.n_nics = 0};

    mn_p2p_own_end(pump, &end);
    cJSON_AddStringToObject(message, "node", end.node);
    cJSON_AddStringToObject(message, "device", end.device);
    cJSON_AddStringToObject(message, "plugin", end.plugin.path);
    cJSON_AddStringToObject(message, "hash", end.plugin.hash);
    cJSON_AddStringToObject(message, "name", end.plugin.name);
    cJSON_AddNumberToObject(message, "version", end.plugin.version);
    struct mn_environment *env = mn_zalloc(sizeof *env);
    mn_environment_read(&end.plugin, env);
    cJSON_AddItemToObject(message, "environment", mn_environment_json(env));
    free(env);
}

/* Text of a stranger for a terminal: printable, bounded. */
static void get_text(const cJSON *message, const char *key, char *text, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, key);

    mn_strlcpy(text, cJSON_IsString(item) ? item->valuestring : "?", size);
    mn_clean(text);
}

static double get_number(const cJSON *message, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1.8e19
               ? item->valuedouble
               : 0;
}

void mn_p2p_get_end(const cJSON *message, struct mn_p2p_end *end, struct mn_environment *env)
{
    get_text(message, "node", end->node, sizeof end->node);
    get_text(message, "device", end->device, sizeof end->device);
    get_text(message, "plugin", end->plugin.path, sizeof end->plugin.path);
    get_text(message, "hash", end->plugin.hash, sizeof end->plugin.hash);
    get_text(message, "name", end->plugin.name, sizeof end->plugin.name);
    double version = get_number(message, "version");
    end->plugin.version = version < 100 ? (int)version : 0;
    mn_environment_parse(cJSON_GetObjectItemCaseSensitive(message, "environment"), env);
}

void mn_p2p_put_nics(cJSON *message, const struct mn_p2p_nic *nics, int count)
{
    cJSON *list = cJSON_AddArrayToObject(message, "nics");

    for (int i = 0; i < count; i++) {
        cJSON *nic = cJSON_CreateObject();
        cJSON_AddStringToObject(nic, "netdev", nics[i].netdev);
        cJSON_AddStringToObject(nic, "device", nics[i].device);
        cJSON_AddNumberToObject(nic, "rx", (double)nics[i].n.rx_bytes);
        cJSON_AddNumberToObject(nic, "tx", (double)nics[i].n.tx_bytes);
        cJSON_AddNumberToObject(nic, "tcp_packets", (double)nics[i].tcp_packets);
        cJSON_AddNumberToObject(nic, "tcp_lost", (double)nics[i].tcp_lost);
        cJSON_AddNumberToObject(nic, "rdma_unit", nics[i].n.rdma_unit);
        cJSON_AddNumberToObject(nic, "rdma_rx", (double)nics[i].n.rdma_rx);
        cJSON_AddNumberToObject(nic, "rdma_tx", (double)nics[i].n.rdma_tx);
        cJSON_AddItemToArray(list, nic);
    }
}

void mn_p2p_get_counters(const cJSON *message, struct mn_p2p_end *end)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(message, "nics"), *item;
    int count = 0;

    cJSON_ArrayForEach(item, list)
    {
        if (count == MN_P2P_NICS)
            break;
        struct mn_p2p_nic *nic = &end->nics[count++];
        get_text(item, "netdev", nic->netdev, sizeof nic->netdev);
        get_text(item, "device", nic->device, sizeof nic->device);
        nic->n.rx_bytes = (uint64_t)get_number(item, "rx");
        nic->n.tx_bytes = (uint64_t)get_number(item, "tx");
        nic->n.rdma_rx = (uint64_t)get_number(item, "rdma_rx");
        nic->n.rdma_tx = (uint64_t)get_number(item, "rdma_tx");
        nic->tcp_packets = (uint64_t)get_number(item, "tcp_packets");
        nic->tcp_lost = (uint64_t)get_number(item, "tcp_lost");
        double unit = get_number(item, "rdma_unit");
        nic->n.rdma_unit = unit == MN_RDMA_BYTES     ? MN_RDMA_BYTES
                           : unit == MN_RDMA_PACKETS ? MN_RDMA_PACKETS
                                                     : MN_RDMA_UNCOUNTED;
    }
    end->n_nics = count;
    get_text(message, "warning", end->warning, sizeof end->warning);
}
