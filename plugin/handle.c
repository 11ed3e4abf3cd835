#include <math.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/bytes.h"
#include "plugin/handle.h"

#define HANDLE_MAGIC   0x3148534du /* "MSH1" */
#define HANDLE_VERSION 3
#define FLAG_TRUNCATED 1u
#define CELLS          8
#define CELLS_AT       40
#define SCRATCH_AT     104
#define CHECK_AT       112
#define CELL_V6        1u
#define CELL_GID_SHIFT 1 /* of the GID index plus one */
#define CELL_GID_MAX   126
#define CELL_FAR       255u /* in place of the NIC */

#define SHORT_MAGIC    0x344du /* "M4" */
#define SHORT_AT       29
#define SHORT_CHECK_AT 60
#define SHORT_MORE     128u
#define SHORT_V6       100u /* added to the prefix */
#define SHORT_FAR      240u /* in place of the prefix */

static const uint8_t public_key[MN_KEY_SIZE] = "meshnet handle";

static const uint8_t *check_key(const uint8_t *key)
{
    return key ? key : public_key;
}

uint8_t mn_speed_encode(long mbps)
{
    if (mbps <= 0)
        return 0;
    double code = 1 + 12 * log10((double)mbps);
    return code > 255 ? 255 : (uint8_t)lround(code);
}

long mn_speed_decode(uint8_t code)
{
    return code ? lround(pow(10, (code - 1) / 12.0)) : 0;
}

static int put_cell(struct mn_bytes *b, const struct mn_local *local, int left)
{
    int v6 = local->addr.family == AF_INET6;
    static const uint8_t zero[4];

    if (left < (v6 ? 3 : 1))
        return 0;
    mn_put_raw(b, v6 ? zero : local->addr.bytes, 4);
    mn_put(b, (uint64_t)local->addr.prefix, 1);
    mn_put(b, mn_speed_encode(local->speed_mbps), 1);
    mn_put(b, local->nic, 1);
    unsigned gid = local->gid_index > CELL_GID_MAX ? 0 : (unsigned)(local->gid_index + 1);
    mn_put(b, (v6 ? CELL_V6 : 0) | gid << CELL_GID_SHIFT, 1);
    if (v6)
        mn_put_raw(b, local->addr.bytes, 16);
    return v6 ? 3 : 1;
}

#define RANKS 4 /* far addresses stand behind the first */
/* 0: the address to take for its NIC; 1: that of a further NIC towards the same node; 2: the other
 * family's first; 3: any further one. */
static int rank_of(const struct mn_handle *handle, int i)
{
    const struct mn_local *l = handle->locals;
    int first = 1, has_v4 = 0;

    for (int j = 0; j < handle->n_locals; j++) {
        if (l[j].nic != l[i].nic)
            continue;
        has_v4 |= l[j].addr.family == AF_INET;
        first &= j >= i || l[j].addr.family != l[i].addr.family;
    }
    if (!first)
        return 3;
    return l[i].addr.family == AF_INET6 && has_v4 ? 2 : l[i].spare;
}

void mn_handle_write(const struct mn_handle *handle, const uint8_t *key, void *bytes)
{
    uint8_t out[MN_HANDLE_SIZE] = {0};
    struct mn_bytes b = {out + CELLS_AT, out + SCRATCH_AT, 0};
    int used = 0, truncated = handle->truncated;

    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < handle->n_locals; i++) {
            int cells =
                rank_of(handle, i) == rank ? put_cell(&b, &handle->locals[i], CELLS - used) : -1;
            truncated |= !cells;
            used += cells > 0 ? cells : 0;
        }
        for (int i = 0; i < handle->n_far && !rank; i++) {
            struct mn_local far = {.addr = handle->far[i].addr, .nic = CELL_FAR, .gid_index = -1};
            int cells = put_cell(&b, &far, CELLS - used);
            truncated |= !cells;
            used += cells;
        }
    }
    b = (struct mn_bytes){out, out + CELLS_AT, 0};
    mn_put(&b, HANDLE_MAGIC, 4);
    mn_put(&b, HANDLE_VERSION, 2);
    mn_put(&b, truncated ? FLAG_TRUNCATED : 0, 2);
    mn_put_raw(&b, handle->nonce, MN_NONCE_SIZE);
    mn_put(&b, handle->node_id, 8);
    mn_put(&b, handle->instance, 4);
    mn_put(&b, handle->port, 2);
    mn_put(&b, (uint64_t)used, 1);
    mn_put(&b, 0, 1);
    b = (struct mn_bytes){out + SCRATCH_AT, out + MN_HANDLE_SIZE, 0};
    mn_put(&b, handle->scratch, 8);
    mn_put(&b, mn_mac64(check_key(key), out, SCRATCH_AT), 8);
    memcpy(bytes, out, sizeof out);
}

static int get_cell(struct mn_bytes *b, struct mn_local *local)
{
    uint8_t ip4[4];

    memset(local, 0, sizeof *local);
    mn_get_raw(b, ip4, 4);
    local->addr.prefix = (int)mn_get(b, 1);
    local->speed_mbps = mn_speed_decode((uint8_t)mn_get(b, 1));
    local->nic = (uint8_t)mn_get(b, 1);
    uint64_t flags = mn_get(b, 1);
    local->gid_index = (int)(flags >> CELL_GID_SHIFT) - 1;
    local->addr.family = flags & CELL_V6 ? AF_INET6 : AF_INET;
    if (flags & CELL_V6)
        mn_get_raw(b, local->addr.bytes, 16);
    else
        memcpy(local->addr.bytes, ip4, 4);
    return !b->bad && local->addr.prefix <= (flags & CELL_V6 ? 128 : 32);
}

enum mn_err mn_handle_read(const void *bytes, const uint8_t *key, struct mn_handle *handle,
                           struct mn_diag *diag)
{
    uint8_t in[MN_HANDLE_SIZE];

    memcpy(in, bytes, sizeof in);
    memset(handle, 0, sizeof *handle);
    struct mn_bytes b = {in, in + CELLS_AT, 0};
    if (mn_get(&b, 4) != HANDLE_MAGIC)
        return mn_fail(diag, MN_ERR_PROTO,
                       "handle was not written by meshnet: do all ranks load "
                       "the same network plugin?");
    if (mn_get(&b, 2) != HANDLE_VERSION)
        return mn_fail(diag, MN_ERR_PROTO,
                       "handle is of another meshnet version (%u, here %d): "
                       "install the same version on every node",
                       in[4], HANDLE_VERSION);
    struct mn_bytes check = {in + CHECK_AT, in + MN_HANDLE_SIZE, 0};
    uint8_t want[8], *got = in + CHECK_AT;
    struct mn_bytes w = {want, want + 8, 0};
    mn_put(&w, mn_mac64(check_key(key), in, SCRATCH_AT), 8);
    if (!mn_mac_equal(want, got, 8))
        return mn_fail(diag, MN_ERR_PROTO,
                       "handle is damaged, or the peer has another cluster key "
                       "(plugin.key_file)");
    mn_get(&check, 8);
    if (mn_get(&check, 8) != 0)
        return mn_fail(diag, MN_ERR_PROTO, "handle is damaged (reserved bytes are not zero)");
    handle->truncated = (mn_get(&b, 2) & FLAG_TRUNCATED) != 0;
    mn_get_raw(&b, handle->nonce, MN_NONCE_SIZE);
    handle->node_id = mn_get(&b, 8);
    handle->instance = (uint32_t)mn_get(&b, 4);
    handle->port = (uint16_t)mn_get(&b, 2);
    uint64_t used = mn_get(&b, 1);
    if (!handle->port || !used || used > CELLS)
        return mn_fail(diag, MN_ERR_PROTO, "handle is damaged (port %u, %u address cells)",
                       handle->port, (unsigned)used);
    struct mn_bytes cells = {in + CELLS_AT, in + CELLS_AT + 8 * used, 0};
    while (cells.at < cells.end) {
        struct mn_local local;
        int good = get_cell(&cells, &local), is_far = local.nic == CELL_FAR;
        if (!good || (is_far ? handle->n_far == MN_MAX_FAR : handle->n_locals == MN_MAX_LOCALS))
            return mn_fail(diag, MN_ERR_PROTO, "handle is damaged (address %d)",
                           handle->n_locals + handle->n_far + 1);
        if (is_far)
            handle->far[handle->n_far++] = local;
        else
            handle->locals[handle->n_locals++] = local;
    }
    if (!handle->n_locals)
        return mn_fail(diag, MN_ERR_PROTO, "handle is damaged (no address of a cable)");
    struct mn_bytes s = {in + SCRATCH_AT, in + CHECK_AT, 0};
    handle->scratch = mn_get(&s, 8);
    return MN_OK;
}

void mn_handle_set_scratch(void *bytes, uint64_t scratch)
{
    struct mn_bytes b = {(uint8_t *)bytes + SCRATCH_AT, (uint8_t *)bytes + CHECK_AT, 0};
    mn_put(&b, scratch, 8);
}

static int put_short(struct mn_bytes *b, const struct mn_addr *addr)
{
    int v6 = addr->family == AF_INET6;
    ptrdiff_t size = v6 ? 16 : 4;

    if (b->end - b->at < 1 + size)
        return 0;
    mn_put(b, (unsigned)addr->prefix + (v6 ? SHORT_V6 : 0), 1);
    mn_put_raw(b, addr->bytes, (size_t)size);
    return 1;
}

static unsigned put_short_far(struct mn_bytes *b, const struct mn_handle *handle, unsigned *more)
{
    unsigned count = 0;

    for (int i = 0; i < handle->n_far; i++)
        if (handle->far[i].addr.family == AF_INET && b->end - b->at >= 5) {
            mn_put(b, SHORT_FAR, 1);
            mn_put_raw(b, handle->far[i].addr.bytes, 4);
            count++;
        } else {
            *more = SHORT_MORE;
        }
    return count;
}

void mn_handle_write_short(const struct mn_handle *handle, const uint8_t *key, void *bytes)
{
    uint8_t out[MN_SHORT_HANDLE_SIZE] = {0};
    struct mn_bytes b = {out + SHORT_AT, out + SHORT_CHECK_AT, 0};
    unsigned count = 0, more = handle->truncated ? SHORT_MORE : 0;

    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < handle->n_locals; i++) {
            if (rank_of(handle, i) != rank)
                continue;
            if (put_short(&b, &handle->locals[i].addr))
                count++;
            else
                more = SHORT_MORE;
        }
        count += rank ? 0 : put_short_far(&b, handle, &more);
    }
    b = (struct mn_bytes){out, out + SHORT_AT, 0};
    mn_put(&b, SHORT_MAGIC, 2);
    mn_put(&b, count | more, 1);
    mn_put(&b, handle->port, 2);
    mn_put(&b, handle->node_id, 8);
    mn_put_raw(&b, handle->nonce, MN_NONCE_SIZE);
    b = (struct mn_bytes){out + SHORT_CHECK_AT, out + sizeof out, 0};
    mn_put(&b, mn_mac64(check_key(key), out, SHORT_CHECK_AT), 4);
    memcpy(bytes, out, sizeof out);
}

/* *far: it is one. */
static int get_short(struct mn_bytes *b, struct mn_local *local, int *far)
{
    unsigned prefix = (unsigned)mn_get(b, 1);
    *far = prefix == SHORT_FAR;
    if (*far)
        prefix = 32;
    int v6 = prefix >= SHORT_V6;

    local->gid_index = -1;
    local->addr.family = v6 ? AF_INET6 : AF_INET;
    local->addr.prefix = (int)(prefix - (v6 ? SHORT_V6 : 0));
    mn_get_raw(b, local->addr.bytes, v6 ? 16 : 4);
    return !b->bad && local->addr.prefix <= (v6 ? 128 : 32);
}

enum mn_err mn_handle_read_short(const void *bytes, const uint8_t *key, struct mn_handle *handle,
                                 struct mn_diag *diag)
{
    uint8_t in[MN_SHORT_HANDLE_SIZE];

    memcpy(in, bytes, sizeof in);
    memset(handle, 0, sizeof *handle);
    struct mn_bytes b = {in, in + SHORT_AT, 0};
    if (mn_get(&b, 2) != SHORT_MAGIC)
        return mn_fail(diag, MN_ERR_PROTO,
                       "handle was not written by meshnet through the v4 interface: do all ranks "
                       "run the same NCCL and load the same network plugin?");
    struct mn_bytes check = {in + SHORT_CHECK_AT, in + sizeof in, 0};
    if (mn_get(&check, 4) != (uint32_t)mn_mac64(check_key(key), in, SHORT_CHECK_AT))
        return mn_fail(diag, MN_ERR_PROTO,
                       "handle is damaged, or the peer has another cluster key (plugin.key_file)");
    unsigned count = (unsigned)mn_get(&b, 1);
    handle->truncated = (count & SHORT_MORE) != 0;
    count &= ~SHORT_MORE;
    handle->port = (uint16_t)mn_get(&b, 2);
    handle->node_id = mn_get(&b, 8);
    mn_get_raw(&b, handle->nonce, MN_NONCE_SIZE);
    if (!handle->port || !count || count > MN_MAX_LOCALS + MN_MAX_FAR)
        return mn_fail(diag, MN_ERR_PROTO, "handle is damaged (port %u, %u addresses)",
                       handle->port, count);
    b = (struct mn_bytes){in + SHORT_AT, in + SHORT_CHECK_AT, 0};
    for (unsigned i = 0; i < count; i++) {
        struct mn_local local = {.nic = (uint8_t)handle->n_locals};
        int is_far, good = get_short(&b, &local, &is_far);
        if (!good || (is_far ? handle->n_far == MN_MAX_FAR : handle->n_locals == MN_MAX_LOCALS))
            return mn_fail(diag, MN_ERR_PROTO, "handle is damaged (address %u)", i + 1);
        if (is_far)
            handle->far[handle->n_far++] = local;
        else
            handle->locals[handle->n_locals++] = local;
    }
    return handle->n_locals
               ? MN_OK
               : mn_fail(diag, MN_ERR_PROTO, "handle is damaged (no address of a cable)");
}
