/* What users have set for NCCL's own InfiniBand transport, taken where nothing of ours says else:
 * NVIDIA, NCCL documentation, environment variables. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/log.h"
#include "topo/mesh_setting.h"

/* The settings have NCCL's numbers: 2 of relaxed_ordering is auto. */
static const struct {
    const char *name, *key;
    long min, max;
} rows[] = {
    {"NCCL_IB_TC", "traffic_class", 0, 255},
    {"NCCL_IB_FIFO_TC", "announce_class", -1, 255},
    {"NCCL_IB_SL", "service_level", 0, 15},
    {"NCCL_IB_TIMEOUT", "ack_timeout", 1, 22},
    {"NCCL_IB_RETRY_CNT", "ack_retries", 0, 7},
    {"NCCL_IB_PKEY", "partition", 0, 65535},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "relaxed_ordering", 0, 2},
};

static const struct mn_setting *setting_of(const char *key)
{
    const struct mn_setting *row = mn_setting_rows;

    while (row->section && strcmp(row->key, key) != 0)
        row++;
    return row;
}

/* As NCCL reads numbers: decimal, 0x… or with a leading 0 octal. */
static int parse(const char *text, long min, long max, int *value)
{
    char *end;

    errno = 0;
    long number = strtol(text, &end, 0);
    if (errno || end == text || *end || number < min || number > max)
        return 0;
    *value = (int)number;
    return 1;
}

int mn_setting_from_nccl(int i, uint64_t given, struct mn_settings *settings, char *text,
                         size_t size)
{
    char value[32];
    int number = 0;

    text[0] = 0;
    if (i < 0 || i >= (int)(sizeof rows / sizeof *rows))
        return -1;
    const char *set = getenv(rows[i].name);
    if (!set || !*set)
        return MN_NCCL_UNSET;
    const struct mn_setting *row = setting_of(rows[i].key);
    const char *ours = getenv(row->env);
    if (!parse(set, rows[i].min, rows[i].max, &number)) {
        snprintf(text, size, "%s=\"%.60s\" is not used: expected a whole number from %ld to %ld",
                 rows[i].name, set, rows[i].min, rows[i].max);
        return MN_NCCL_WRONG;
    }
    if (ours && *ours) {
        snprintf(text, size, "%s=%.60s is not used: %s is set", rows[i].name, set, row->env);
        return MN_NCCL_OVERRULED;
    }
    if (given >> (row - mn_setting_rows) & 1) {
        snprintf(text, size, "%s=%.60s is not used: the mesh file has %s: %s", rows[i].name, set,
                 row->key, mn_setting_format(row, settings, value, sizeof value));
        return MN_NCCL_OVERRULED;
    }
    memcpy((char *)settings + row->offset, &number, sizeof number);
    snprintf(text, size, "%s=%.60s is taken as %s: %s", rows[i].name, set, row->key,
             mn_setting_format(row, settings, value, sizeof value));
    return MN_NCCL_TAKEN;
}

void mn_settings_from_nccl(struct mn_settings *settings, uint64_t given)
{
    char text[256];
    int what;

    for (int i = 0; (what = mn_setting_from_nccl(i, given, settings, text, sizeof text)) >= 0; i++)
        if (what == MN_NCCL_WRONG)
            MN_WARN("%s", text);
        else if (what != MN_NCCL_UNSET)
            MN_INFO("%s", text);
}
