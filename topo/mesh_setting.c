#include "topo/mesh_setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define AT(field) offsetof(struct mn_settings, field)
#define KIB       1024L

const struct mn_setting mn_setting_rows[] = {
    {"transport", "kind", MN_SETTING_CHOICE, "auto", 0, 0, "auto|verbs|tcp", AT(transport),
     "MESHNET_TRANSPORT", "What carries the bytes: RDMA verbs, TCP, or the best that is there."},
    {"transport", "allow_tcp", MN_SETTING_CHOICE, "auto", 0, 0, "false|true|auto", AT(allow_tcp),
     "MESHNET_ALLOW_TCP",
     "Whether TCP may be used where RDMA cannot be; auto: only between NICs without RDMA, and by "
     "reach."},
    {"transport", "reach", MN_SETTING_CHOICE, "auto", 0, 0, "auto|direct|cables|management|relay",
     AT(reach), "MESHNET_REACH",
     "Nodes without a common cable: auto reaches them by meshnet relayd, else by TCP through "
     "neighbours that forward, else over the management network; relay, cables or management: by "
     "that alone; direct: not at all."},
    {"transport", "sockets_per_link", MN_SETTING_INT, "0", 0, 8, NULL, AT(sockets_per_link),
     "MESHNET_SOCKETS_PER_LINK",
     "TCP sockets of one connection on each link; 0 lets meshnet choose."},
    {"transport", "qps_per_link", MN_SETTING_INT, "0", 0, 4, NULL, AT(qps_per_link),
     "MESHNET_QPS_PER_LINK",
     "RDMA queue pairs of one connection on each link; 0 lets meshnet choose."},
    {"transport", "chunk_bytes", MN_SETTING_SIZE, "256K", 64 * KIB, 4096 * KIB, NULL,
     AT(chunk_bytes), "MESHNET_CHUNK_BYTES",
     "Pieces in which a large message is spread over links and sockets."},
    {"transport", "silence", MN_SETTING_DURATION, "60s", 2000, 3600000, NULL, AT(silence_ms),
     "MESHNET_SILENCE", "How long a link may be silent under TCP before it counts as dead."},
    {"transport", "rdma_silence", MN_SETTING_DURATION, "40s", 2000, 3600000, NULL,
     AT(rdma_silence_ms), "MESHNET_RDMA_SILENCE",
     "How long a peer or a link may be silent under RDMA before it counts as dead."},
    {"transport", "failover", MN_SETTING_BOOL, "true", 0, 0, NULL, AT(failover), "MESHNET_FAILOVER",
     "Whether a connection goes on over its other cables at once when one of them is out."},
    {"transport", "detour", MN_SETTING_CHOICE, "off", 0, 0, "off|spare|on", AT(detour),
     "MESHNET_DETOUR",
     "Whether neighbours go through meshnet relayd on other nodes besides their own cable: spare: "
     "while it is out; on: also what it has no room for."},
    {"transport", "handshake", MN_SETTING_DURATION, "5s", 1000, 300000, NULL, AT(handshake_ms),
     "MESHNET_HANDSHAKE", "How long one handshake attempt may take."},
    {"transport", "connect", MN_SETTING_DURATION, "60s", 1000, 3600000, NULL, AT(connect_ms),
     "MESHNET_CONNECT", "How long connecting to a peer is tried again."},
    {"transport", "traffic_class", MN_SETTING_INT, "-1", -1, 255, NULL, AT(traffic_class),
     "MESHNET_TRAFFIC_CLASS", "IP traffic class byte of the data; -1 leaves the default."},
    {"transport", "announce_class", MN_SETTING_INT, "-1", -1, 255, NULL, AT(announce_class),
     "MESHNET_ANNOUNCE_CLASS",
     "IP traffic class byte of what an RDMA receiver sends back; -1: that of the data."},
    {"transport", "service_level", MN_SETTING_INT, "0", 0, 15, NULL, AT(service_level),
     "MESHNET_SERVICE_LEVEL", "RDMA service level of the data."},
    {"transport", "ack_timeout", MN_SETTING_INT, "0", 0, 22, NULL, AT(ack_timeout),
     "MESHNET_ACK_TIMEOUT",
     "How long an RDMA device waits for an acknowledgement: n for 4.096 us * 2^n; 0: by "
     "rdma_silence."},
    {"transport", "ack_retries", MN_SETTING_INT, "-1", -1, 7, NULL, AT(ack_retries),
     "MESHNET_ACK_RETRIES",
     "How often an RDMA device sends again what is not acknowledged; -1 lets meshnet choose."},
    {"transport", "partition", MN_SETTING_INT, "0", 0, 65535, NULL, AT(partition),
     "MESHNET_PARTITION", "Index of the partition key in the table of the RDMA port."},
    {"transport", "relaxed_ordering", MN_SETTING_CHOICE, "auto", 0, 0, "false|true|auto",
     AT(relaxed_ordering), "MESHNET_RELAXED_ORDERING",
     "Whether NICs may write over PCIe in any order where they can; never to AMD's GPUs."},
    {"transport", "gpu_direct", MN_SETTING_BOOL, "true", 0, 0, NULL, AT(gpu_direct),
     "MESHNET_GPU_DIRECT",
     "Whether NICs may reach GPU memory themselves where the host can; false: NCCL copies."},
    {"plugin", "device_mode", MN_SETTING_CHOICE, "mesh", 0, 0, "mesh|per-link", AT(device_mode),
     "MESHNET_DEVICE_MODE", "One device that owns every link, or one device for each link."},
    {"plugin", "tuner", MN_SETTING_BOOL, "true", 0, 0, NULL, AT(tuner), "MESHNET_TUNER",
     "Whether NCCL is told which algorithms follow the cables; false: it decides as without a "
     "mesh."},
    {"plugin", "port_range", MN_SETTING_PORTS, "any", 1, 65535, NULL, AT(port_range),
     "MESHNET_PORT_RANGE", "TCP ports to listen on for data and ranks; any: the kernel chooses."},
    {"plugin", "key_file", MN_SETTING_STRING, "", 0, sizeof(((struct mn_settings *)0)->key_file),
     NULL, AT(key_file), "MESHNET_KEY_FILE",
     "File with the cluster key, 32 hexadecimal digits, the same on every node."},
    {"relay", "port", MN_SETTING_INT, "18525", 1, 65535, NULL, AT(relay_port), "MESHNET_RELAY_PORT",
     "TCP port of meshnet relayd, at its addresses on the cables."},
    {"relay", "silence", MN_SETTING_DURATION, "5s", 1000, 600000, NULL, AT(relay_silence_ms),
     "MESHNET_RELAY_SILENCE", "How long a relay may be silent before other ways are taken."},
    {"relay", "buffers", MN_SETTING_SIZE, "256M", 8192 * KIB, 2048 * 1024 * KIB, NULL,
     AT(relay_buffers), "MESHNET_RELAY_BUFFERS",
     "Memory that meshnet relayd has for what it passes on; never more."},
    {"relay", "socket", MN_SETTING_STRING, "/run/meshnet/relay.sock", 0,
     sizeof(((struct mn_settings *)0)->relay_socket), NULL, AT(relay_socket),
     "MESHNET_RELAY_SOCKET",
     "Local socket of meshnet relayd, where processes without the cluster key ask it to sign."},
    {"relay", "ways", MN_SETTING_INT, "0", 0, 4, NULL, AT(relay_ways), "MESHNET_RELAY_WAYS",
     "Ways through relays that one connection uses together; 0 lets meshnet choose: two."},
    {.section = NULL},
};

int mn_parse_long(const char *text, long min, long max, long *value)
{
    const char *digits = text + (*text == '-');
    size_t len = strspn(digits, "0123456789");
    if (len == 0 || len > 15 || digits[len] != '\0' || (len > 1 && *digits == '0'))
        return 0;
    long number = strtol(text, NULL, 10);
    if (number < min || number > max)
        return 0;
    *value = number;
    return 1;
}

static int parse_bool(const char *text, int *value)
{
    static const char *const words[][2] = {{"false", "true"},
                                           {"no", "yes"},
                                           {"off", "on"},
                                           {"0", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int v = 0; v < 2; v++)
            if (!strcmp(text, words[i][v])) {
                *value = v;
                return 1;
            }
    return 0;
}

/* Index of text in "a|b|c", or -1. Where the choices begin with "false|true" the other words for
 * them are known too. */
static int choice_index(const char *choices, const char *text)
{
    size_t want = strlen(text);
    int index = 0;
    if (!strncmp(choices, "false|true", 10) && parse_bool(text, &index))
        return index;
    index = 0;
    for (const char *at = choices;; index++) {
        size_t len = strcspn(at, "|");
        if (len == want && !memcmp(at, text, len))
            return index;
        if (at[len] == '\0')
            return -1;
        at += len + 1;
    }
}

static int in_range(const struct mn_setting *row, unsigned long long value)
{
    return value >= (unsigned long long)row->min && value <= (unsigned long long)row->max;
}

/* "any", or "first-last". */
static int parse_ports(const struct mn_setting *row, const char *text, struct mn_ports *ports)
{
    char first[8];
    const char *dash = strchr(text, '-');
    long low, high;

    if (!strcmp(text, "any")) {
        *ports = (struct mn_ports){0, 0};
        return 1;
    }
    if (!dash || (size_t)(dash - text) >= sizeof first)
        return 0;
    mn_strlcpy(first, text, (size_t)(dash - text) + 1);
    if (!mn_parse_long(first, row->min, row->max, &low) ||
        !mn_parse_long(dash + 1, low, row->max, &high))
        return 0;
    *ports = (struct mn_ports){(int)low, (int)high};
    return 1;
}

/* A string that the mesh file can carry: no control characters, and room for it. */
static int string_fits(const struct mn_setting *row, const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return 0;
    return strlen(text) < (size_t)row->max;
}

int mn_setting_set(const struct mn_setting *row, const char *text, struct mn_settings *settings)
{
    void *field = (char *)settings + row->offset;
    unsigned long long bytes;
    unsigned ms;
    long number;
    int index;
    switch (row->type) {
    case MN_SETTING_BOOL:
        return parse_bool(text, field);
    case MN_SETTING_INT:
        if (!mn_parse_long(text, row->min, row->max, &number))
            return 0;
        *(int *)field = (int)number;
        return 1;
    case MN_SETTING_SIZE:
        if (mn_parse_size(text, &bytes, NULL) || !in_range(row, bytes))
            return 0;
        *(unsigned *)field = (unsigned)bytes;
        return 1;
    case MN_SETTING_DURATION:
        if (mn_parse_duration(text, &ms, NULL) || !in_range(row, ms))
            return 0;
        *(unsigned *)field = ms;
        return 1;
    case MN_SETTING_CHOICE:
        index = choice_index(row->choices, text);
        if (index < 0)
            return 0;
        *(int *)field = index;
        return 1;
    case MN_SETTING_PORTS:
        return parse_ports(row, text, field);
    case MN_SETTING_STRING:
        return string_fits(row, text) && mn_strlcpy(field, text, (size_t)row->max);
    }
    return 0;
}

static char *format_duration(unsigned ms, char *buf, size_t size)
{
    if (ms % 60000 == 0 && ms)
        snprintf(buf, size, "%um", ms / 60000);
    else if (ms % 1000 == 0)
        snprintf(buf, size, "%us", ms / 1000);
    else
        snprintf(buf, size, "%ums", ms);
    return buf;
}

char *mn_setting_expected(const struct mn_setting *row, char *buf, size_t size)
{
    char low[32], high[32];
    switch (row->type) {
    case MN_SETTING_BOOL:
        snprintf(buf, size, "true or false");
        break;
    case MN_SETTING_INT:
        snprintf(buf, size, "a whole number from %ld to %ld", row->min, row->max);
        break;
    case MN_SETTING_SIZE:
        snprintf(buf, size, "a size from %s to %s",
                 mn_format_size((unsigned long long)row->min, low, sizeof low),
                 mn_format_size((unsigned long long)row->max, high, sizeof high));
        break;
    case MN_SETTING_DURATION:
        snprintf(buf, size, "a duration from %s to %s",
                 format_duration((unsigned)row->min, low, sizeof low),
                 format_duration((unsigned)row->max, high, sizeof high));
        break;
    case MN_SETTING_CHOICE:
        snprintf(buf, size, "one of %s", row->choices);
        break;
    case MN_SETTING_PORTS:
        snprintf(buf, size, "any, or first-last from %ld to %ld, like 46500-47499", row->min,
                 row->max);
        break;
    case MN_SETTING_STRING:
        snprintf(buf, size, "text of at most %ld bytes without control characters", row->max - 1);
        break;
    }
    return buf;
}

char *mn_setting_format(const struct mn_setting *row, const struct mn_settings *settings, char *buf,
                        size_t size)
{
    const void *field = (const char *)settings + row->offset;
    const struct mn_ports *ports = field;
    const char *choice = row->choices;
    switch (row->type) {
    case MN_SETTING_BOOL:
        snprintf(buf, size, "%s", *(const int *)field ? "true" : "false");
        break;
    case MN_SETTING_INT:
        snprintf(buf, size, "%d", *(const int *)field);
        break;
    case MN_SETTING_SIZE:
        mn_format_size(*(const unsigned *)field, buf, size);
        break;
    case MN_SETTING_DURATION:
        format_duration(*(const unsigned *)field, buf, size);
        break;
    case MN_SETTING_CHOICE:
        for (int i = *(const int *)field; i > 0; i--)
            choice += strcspn(choice, "|") + 1;
        snprintf(buf, size, "%.*s", (int)strcspn(choice, "|"), choice);
        break;
    case MN_SETTING_PORTS:
        if (ports->first)
            snprintf(buf, size, "%d-%d", ports->first, ports->last);
        else
            snprintf(buf, size, "any");
        break;
    case MN_SETTING_STRING:
        snprintf(buf, size, "%s", (const char *)field);
        break;
    }
    return buf;
}

int mn_setting_changed(const struct mn_setting *row, const struct mn_settings *settings)
{
    char def[320], now[320];
    struct mn_settings defaults;
    mn_settings_default(&defaults);
    return strcmp(mn_setting_format(row, &defaults, def, sizeof def),
                  mn_setting_format(row, settings, now, sizeof now)) != 0;
}

void mn_settings_default(struct mn_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++)
        mn_setting_set(row, row->def, settings);
}

enum mn_err mn_settings_from_env(struct mn_settings *settings, struct mn_diag *diag)
{
    char expected[128];
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++) {
        const char *text = getenv(row->env);
        if (text && *text && !mn_setting_set(row, text, settings))
            return mn_fail(diag, MN_ERR_CONFIG, "environment variable %s=\"%.100s\": expected %s",
                           row->env, text, mn_setting_expected(row, expected, sizeof expected));
    }
    return MN_OK;
}
