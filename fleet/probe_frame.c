#include "fleet/probe_frame.h"

#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define VERSION   1
#define AT_MAC    12
#define AT_TEXTS  84
#define ECHO_SIZE 12

static const uint8_t magic[4] = {'M', 'N', 'P', 'B'};

static uint8_t *put(uint8_t *p, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *p++ = (uint8_t)(value >> (8 * i));
    return p;
}

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | *p++;
    return value;
}

void mn_probe_key(const uint8_t secret[MN_KEY_SIZE], uint64_t run, uint8_t key[MN_KEY_SIZE])
{
    uint8_t bytes[8], derived[32];

    put(bytes, run, 8);
    mn_derive(secret, "meshnet probe", bytes, sizeof bytes, derived);
    memcpy(key, derived, MN_KEY_SIZE);
    mn_wipe(derived, sizeof derived);
}

size_t mn_probe_frame_write(const struct mn_probe_frame *frame, const uint8_t key[MN_KEY_SIZE],
                            uint8_t *buf, size_t size)
{
    size_t node = strlen(frame->node), netdev = strlen(frame->netdev);
    size_t used = AT_TEXTS + node + netdev + (size_t)ECHO_SIZE * frame->n_heard;
    uint8_t mac[MN_MAC_SIZE], *p = buf;

    if (used > size || size >= MN_PROBE_FRAME_MAX || frame->n_heard > MN_PROBE_HEARD_MAX)
        return 0;
    memset(buf, 0, size);
    memcpy(p, magic, sizeof magic);
    p = put(p + 4, VERSION, 1);
    p = put(p, frame->way, 1);
    p = put(p, size, 2);
    p = put(p, used, 2);
    p = put(buf + AT_MAC + MN_MAC_SIZE, frame->run, 8);
    p = put(p, frame->session, 8);
    p = put(p, frame->sequence, 4);
    p = put(p, frame->begun, 8);
    p = put(p, frame->content, 8);
    p = put(p, frame->index, 1);
    p = put(p, frame->nic, 1);
    p = put(p, frame->kind, 1);
    p = put(p, node, 1);
    p = put(p, netdev, 1);
    p = put(p, frame->n_heard, 1);
    memcpy(p, frame->mac, sizeof frame->mac);
    p = put(p + 6, frame->mtu, 2);
    p = put(p + 2, frame->speed_mbps, 4);
    memcpy(p, frame->node, node);
    memcpy(p + node, frame->netdev, netdev);
    p += node + netdev;
    for (int i = 0; i < frame->n_heard; i++) {
        p = put(p, frame->heard[i].session, 8);
        p = put(p, frame->heard[i].nic, 1);
        p = put(p + 1, frame->heard[i].mtu, 2);
    }
    mn_mac128(key, buf, used, mac);
    memcpy(buf + AT_MAC, mac, sizeof mac);
    return size;
}

/* A name as it may stand in "node/netdev". */
static int take_name(char *to, size_t room, const uint8_t *from, size_t len)
{
    if (!len || len >= room || memchr(from, 0, len) || memchr(from, '/', len))
        return 0;
    memcpy(to, from, len);
    to[len] = 0;
    len = strlen(mn_clean(to));
    memset(to + len, 0, room - len); /* it may have become shorter */
    return 1;
}

static int is_genuine(const uint8_t *data, size_t used, const uint8_t key[MN_KEY_SIZE])
{
    uint8_t copy[AT_TEXTS + MN_NAME_MAX + IF_NAMESIZE + MN_PROBE_HEARD_MAX * ECHO_SIZE];
    uint8_t mac[MN_MAC_SIZE];

    if (used > sizeof copy)
        return 0;
    memcpy(copy, data, used);
    memset(copy + AT_MAC, 0, MN_MAC_SIZE);
    mn_mac128(key, copy, used, mac);
    return mn_mac_equal(mac, data + AT_MAC, MN_MAC_SIZE);
}

static void take_numbers(const uint8_t *data, struct mn_probe_frame *frame)
{
    frame->run = get(data + 28, 8);
    frame->session = get(data + 36, 8);
    frame->sequence = (uint32_t)get(data + 44, 4);
    frame->begun = get(data + 48, 8);
    frame->content = get(data + 56, 8);
    frame->index = data[64];
    frame->nic = data[65];
    frame->kind = (enum mn_nic_kind)data[66];
    memcpy(frame->mac, data + 70, sizeof frame->mac);
    frame->mtu = (uint16_t)get(data + 76, 2);
    frame->speed_mbps = (uint32_t)get(data + 80, 4);
}

enum mn_probe_verdict mn_probe_frame_read(const uint8_t *data, size_t len, enum mn_survey_way way,
                                          uint64_t run, const uint8_t key[MN_KEY_SIZE],
                                          struct mn_probe_frame *frame)
{
    if (len < AT_TEXTS || len >= MN_PROBE_FRAME_MAX || memcmp(data, magic, sizeof magic) != 0 ||
        data[4] != VERSION)
        return MN_PROBE_NOISE;
    const size_t used = get(data + 8, 2), node = data[67], netdev = data[68], heard = data[69];
    /* The length that came is the one that was sent, or its size proves nothing. */
    if (data[5] != way || get(data + 6, 2) != len || used > len || get(data + 28, 8) != run ||
        heard > MN_PROBE_HEARD_MAX || used != AT_TEXTS + node + netdev + ECHO_SIZE * heard ||
        !is_genuine(data, used, key))
        return MN_PROBE_STRANGER;
    memset(frame, 0, sizeof *frame);
    if (data[66] > MN_NIC_OTHER ||
        !take_name(frame->node, sizeof frame->node, data + AT_TEXTS, node) ||
        !take_name(frame->netdev, sizeof frame->netdev, data + AT_TEXTS + node, netdev))
        return MN_PROBE_STRANGER;
    frame->way = way;
    take_numbers(data, frame);
    frame->n_heard = (uint8_t)heard;
    const uint8_t *p = data + AT_TEXTS + node + netdev;
    for (size_t i = 0; i < heard; i++, p += ECHO_SIZE)
        frame->heard[i] = (struct mn_probe_echo){get(p, 8), p[8], (uint16_t)get(p + 10, 2)};
    return MN_PROBE_GOOD;
}
