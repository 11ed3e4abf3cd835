#include <stdlib.h>
#include <string.h>

#include "bench/p2p/pump.h"
#include "topo/base/alloc.h"

/* One way over one connection. */
struct flow {
    int connection, receiving;
    uint64_t posted, done;
    void *requests[MN_P2P_OUTSTANDING];
};

static uint8_t *slot(const struct mn_p2p_pump *pump, const struct flow *f, uint64_t number,
                     size_t size)
{
    size_t one = (size + MN_P2P_PAGE - 1) / MN_P2P_PAGE * MN_P2P_PAGE + (size ? 0 : MN_P2P_PAGE);
    size_t slots = pump->area_size / one;
    size_t at = ((size_t)f->connection * (size_t)pump->outstanding +
                 (size_t)(number % (uint64_t)pump->outstanding)) %
                slots;
    return pump->area[f->receiving] + at * one;
}

/* Every eight bytes tell where they belong: connection, message and offset. */
static uint64_t pattern(int connection, uint64_t number, size_t offset)
{
    uint64_t x = ((uint64_t)connection << 48) ^ (number << 24) ^ offset ^ 0x9e3779b97f4a7c15;
    return x * 0xd6e8feb86659fd93;
}

static void fill(uint8_t *data, size_t size, int connection, uint64_t number)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = pattern(connection, number, at);
        memcpy(data + at, &word, size - at < 8 ? size - at : 8);
    }
}

static int right(const uint8_t *data, size_t size, int connection, uint64_t number)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = pattern(connection, number, at);
        if (memcmp(data + at, &word, size - at < 8 ? size - at : 8) != 0)
            return 0;
    }
    return 1;
}

static int post(struct mn_p2p_pump *pump, struct flow *f, size_t size, int check)
{
    void **request = &f->requests[f->posted % (uint64_t)pump->outstanding];
    void *data = slot(pump, f, f->posted, size);
    void *mh = pump->mhs[f->receiving][f->connection];
    int tag = 0, result;

    if (f->receiving) {
        result = mn_plugin_irecv(pump->plugin, pump->recvs[f->connection], 1, &data, &size, &tag,
                                 &mh, request);
    } else {
        if (check)
            fill(data, size, f->connection, f->posted);
        result =
            mn_plugin_isend(pump->plugin, pump->sends[f->connection], data, size, tag, mh, request);
    }
    f->posted += !result && *request;
    return result;
}

/* Posts what may be posted, tests the oldest; *moved counts completions. */
static enum mn_err turn(struct mn_p2p_pump *pump, struct flow *f, size_t size, uint64_t count,
                        int window, int check, struct mn_p2p_seen *seen, int *moved,
                        struct mn_diag *diag)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};

    while (f->posted < count && f->posted - f->done < (uint64_t)window) {
        uint64_t before = f->posted;
        int result = post(pump, f, size, check);
        if (result)
            return mn_p2p_failed(pump, f->receiving ? "irecv" : "isend", result, diag);
        if (f->posted == before)
            break;
    }
    if (f->done == f->posted)
        return MN_OK;
    int result = mn_plugin_test(pump->plugin, f->requests[f->done % (uint64_t)pump->outstanding],
                                &done, sizes);
    if (result)
        return mn_p2p_failed(pump, "test", result, diag);
    if (!done)
        return MN_OK;
    if (f->receiving) {
        seen->messages++;
        seen->bytes += (uint64_t)sizes[0];
        if ((size_t)sizes[0] != size ||
            (check && !right(slot(pump, f, f->done, size), size, f->connection, f->done)))
            seen->wrong++;
    }
    f->done++;
    *moved = 1;
    return MN_OK;
}

/* When the buffers do not hold all outstanding messages apart, slots are shared, between
 * connections too: harmless for speed, not for a check, which then keeps one message under way each
 * direction. */
static int slots_shared(const struct mn_p2p_pump *pump, size_t size)
{
    size_t one = (size + MN_P2P_PAGE - 1) / MN_P2P_PAGE * MN_P2P_PAGE + (size ? 0 : MN_P2P_PAGE);

    return pump->area_size / one < (size_t)pump->connections * (size_t)pump->outstanding;
}

/* Whether a flow before this one still uses the same area. */
static int must_wait(const struct flow *flows, int i, uint64_t count)
{
    for (int j = 0; j < i; j++)
        if (flows[j].receiving == flows[i].receiving && flows[j].done < count)
            return 1;
    return 0;
}

enum mn_err mn_p2p_transfer(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                            int check, struct mn_p2p_seen *seen, struct mn_diag *diag)
{
    struct mn_p2p_watch w = {.pump = pump, .what = "moving messages"};
    struct flow *flows = mn_zalloc(2 * (size_t)pump->connections * sizeof *flows);
    int n = 0, alone = check && slots_shared(pump, size);
    int window = alone ? 1 : pump->outstanding;
    enum mn_err err = MN_OK;

    for (int c = 0; c < pump->connections; c++)
        for (int receiving = 0; receiving < 2; receiving++)
            if (ways & 1 << receiving)
                flows[n++] = (struct flow){.connection = c, .receiving = receiving};
    memset(seen, 0, sizeof *seen);
    double start = mn_p2p_now(), cpu = mn_p2p_cpu_now();
    for (int left = n; left && !err;) {
        int moved = 0;
        for (int i = 0; i < n && !err; i++) {
            if (flows[i].done == count || (alone && must_wait(flows, i, count)))
                continue;
            err = turn(pump, &flows[i], size, count, window, check, seen, &moved, diag);
            left -= flows[i].done == count;
        }
        if (moved)
            w.idle = 0;
        else if (!err)
            err = mn_p2p_idle(&w, diag);
    }
    seen->seconds = mn_p2p_now() - start;
    seen->cpu_seconds = mn_p2p_cpu_now() - cpu;
    free(flows);
    return err;
}
