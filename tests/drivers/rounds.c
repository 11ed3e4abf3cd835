/* One rank of a loop of all-reduces around a ring through a plugin, in which every element of every
 * result is checked: for tests that break what is between the ranks.
 *
 *   rounds LIBRARY RANK RANKS DIR END
 *
 * The rank's handle is the file DIR/RANK; it connects to that of the next one, which may come there
 * later. Sums of 64 bits, in sizes that change from round to round. When rank 0 sees the file END,
 * all end after the same round. Prints "connected", each second (when any was done) "rounds N", and
 * at the end "done N rounds". Exit 0: all was right; 1: "failed after N rounds: the plugin's last
 * warning"; 3: "wrong: ...". Warnings on stderr. DRIVER_NAP is in idle.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"
#include "tests/drivers/idle.h"
#include "topo/base/alloc.h"

#define RANKS_MAX 16
#define CHUNK     (32u << 10) /* elements of a rank's part at most */
#define SMALL     128         /* ... in every other round or so: what transports hold done early */
#define CONNECT_S 180

static char warning[1024] = "no warning";

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level != NCCL_LOG_WARN)
        return;
    mn_strlcpy(warning, line, sizeof warning);
    fprintf(stderr, "%s\n", line);
}

struct ring {
    struct mn_plugin *plugin;
    int rank, ranks;
    const char *dir, *end;
    void *send, *recv, *send_mh, *recv_mh, *temp_mh;
    uint64_t *data, *temp; /* data: a part of each rank */
    uint64_t rounds;
};

static uint64_t now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int read_handle(const struct ring *r, uint8_t handle[MN_HANDLE_SIZE])
{
    uint64_t end = now_s() + CONNECT_S;
    char path[300], *text;
    size_t len = 0;

    snprintf(path, sizeof path, "%s/%d", r->dir, (r->rank + 1) % r->ranks);
    while (mn_file_read(path, 4096, &text, &len, NULL)) {
        if (now_s() >= end)
            return ncclSystemError;
        usleep(10000);
    }
    if (len == MN_HANDLE_SIZE)
        memcpy(handle, text, len);
    free(text);
    return len == MN_HANDLE_SIZE ? ncclSuccess : ncclSystemError;
}

static int open_ring(struct ring *r)
{
    size_t part = CHUNK * sizeof *r->data, all = part * (size_t)r->ranks;
    uint64_t end = now_s() + CONNECT_S;
    uint8_t handle[MN_HANDLE_SIZE] = {0};
    char path[300];
    void *listener = NULL;

    r->data = malloc(all);
    r->temp = malloc(part);
    snprintf(path, sizeof path, "%s/%d", r->dir, r->rank);
    int result =
        r->data && r->temp ? mn_plugin_listen(r->plugin, 0, handle, &listener) : ncclSystemError;
    if (!result && mn_file_write(path, handle, sizeof handle, 1, NULL))
        result = ncclSystemError;
    if (!result)
        result = read_handle(r, handle);
    while (!result && (!r->send || !r->recv)) {
        if (!r->recv)
            result = mn_plugin_accept(r->plugin, listener, &r->recv);
        if (!result && !r->send)
            result = mn_plugin_connect(r->plugin, 0, handle, &r->send);
        if (!result && now_s() >= end)
            result = ncclSystemError;
        driver_turn(0);
    }
    if (listener)
        mn_plugin_close_listen(r->plugin, listener);
    if (!result)
        result = mn_plugin_reg_mr(r->plugin, r->send, r->data, all, NCCL_PTR_HOST, &r->send_mh);
    if (!result)
        result = mn_plugin_reg_mr(r->plugin, r->recv, r->data, all, NCCL_PTR_HOST, &r->recv_mh);
    if (!result)
        result = mn_plugin_reg_mr(r->plugin, r->recv, r->temp, part, NCCL_PTR_HOST, &r->temp_mh);
    return result;
}

/* Sends one part to the next rank while another comes from the one before. */
static int exchange(struct ring *r, uint64_t *from, uint64_t *to, void *to_mh, size_t size)
{
    void *sending = NULL, *receiving = NULL, *at = to;
    int sent = 0, received = 0, sizes[MN_HOST_MAX_RECVS] = {0}, tag = 0, result = 0;
    size_t room = size;

    while (!result && !(sent && received)) {
        if (!receiving)
            result = mn_plugin_irecv(r->plugin, r->recv, 1, &at, &room, &tag, &to_mh, &receiving);
        if (!result && !sending)
            result = mn_plugin_isend(r->plugin, r->send, from, size, 0, r->send_mh, &sending);
        if (!result && receiving && !received)
            result = mn_plugin_test(r->plugin, receiving, &received, sizes);
        if (!result && sending && !sent)
            result = mn_plugin_test(r->plugin, sending, &sent, NULL);
        driver_turn(sent && received);
    }
    return result ? result : (size_t)sizes[0] == size ? ncclSuccess : ncclInternalError;
}

static int all_reduce(struct ring *r, size_t count)
{
    int n = r->ranks, result = 0;
    size_t size = count * sizeof *r->data;

    for (int step = 0; step < n - 1 && !result; step++) {
        uint64_t *mine = r->data + (size_t)((r->rank + 2 * n - step - 1) % n) * count;
        result = exchange(r, r->data + (size_t)((r->rank + 2 * n - step) % n) * count, r->temp,
                          r->temp_mh, size);
        for (size_t i = 0; i < count && !result; i++)
            mine[i] += r->temp[i];
    }
    for (int step = 0; step < n - 1 && !result; step++)
        result =
            exchange(r, r->data + (size_t)((r->rank + 2 * n - step + 1) % n) * count,
                     r->data + (size_t)((r->rank + 2 * n - step) % n) * count, r->recv_mh, size);
    return result;
}

/* Element 0 is the word of rank 0 that this is the last round. 0; or the exit code, and said so. */
static int one_round(struct ring *r, int *last)
{
    uint64_t draw = mix(r->rounds);
    size_t count = 1 + (size_t)(draw % (draw >> 40 & 1 ? CHUNK : SMALL));
    size_t all = count * (size_t)r->ranks;
    uint64_t factor = (uint64_t)r->rank + 1, sum = (uint64_t)(r->ranks * (r->ranks + 1) / 2);

    for (size_t i = 1; i < all; i++)
        r->data[i] = mix(r->rounds << 20 ^ i) * factor;
    r->data[0] = !r->rank && !access(r->end, F_OK);
    int result = all_reduce(r, count);
    if (result) {
        printf("failed after %llu rounds: %s: %s\n", (unsigned long long)r->rounds,
               mn_nccl_result_name(result), warning);
        return 1;
    }
    for (size_t i = 1; i < all; i++)
        if (r->data[i] != mix(r->rounds << 20 ^ i) * sum) {
            printf("wrong: round %llu, element %zu of %zu\n", (unsigned long long)r->rounds, i,
                   all);
            return 3;
        }
    if (r->data[0] > 1) {
        printf("wrong: round %llu, element 0 of %zu\n", (unsigned long long)r->rounds, all);
        return 3;
    }
    *last = r->data[0] != 0;
    r->rounds++;
    return 0;
}

static int run(struct ring *r)
{
    uint64_t said = now_s();
    int last = 0, code = 0;

    while (!last && !code) {
        code = one_round(r, &last);
        if (code || said == now_s())
            continue;
        said = now_s();
        printf("rounds %llu\n", (unsigned long long)r->rounds);
    }
    if (!code)
        printf("done %llu rounds\n", (unsigned long long)r->rounds);
    return code;
}

static void close_ring(struct ring *r)
{
    if (r->send_mh)
        mn_plugin_dereg_mr(r->plugin, r->send, r->send_mh);
    if (r->recv_mh)
        mn_plugin_dereg_mr(r->plugin, r->recv, r->recv_mh);
    if (r->temp_mh)
        mn_plugin_dereg_mr(r->plugin, r->recv, r->temp_mh);
    if (r->send)
        mn_plugin_close_send(r->plugin, r->send);
    if (r->recv)
        mn_plugin_close_recv(r->plugin, r->recv);
    mn_plugin_close(r->plugin);
    free(r->data);
    free(r->temp);
}

int main(int argc, char **argv)
{
    static struct ring r;
    struct mn_diag diag;

    setvbuf(stdout, NULL, _IOLBF, 0);
    r.rank = argc == 6 ? atoi(argv[2]) : -1;
    r.ranks = argc == 6 ? atoi(argv[3]) : 0;
    if (r.rank < 0 || r.ranks < 2 || r.ranks > RANKS_MAX || r.rank >= r.ranks) {
        fputs("usage: rounds LIBRARY RANK RANKS DIR END\n", stderr);
        return 2;
    }
    r.dir = argv[4];
    r.end = argv[5];
    if (mn_plugin_open(argv[1], 0, &r.plugin, &diag)) {
        puts(diag.text);
        return 2;
    }
    mn_plugin_set_log(r.plugin, on_log, NULL);
    int result = mn_plugin_init(r.plugin);
    if (!result)
        result = open_ring(&r);
    if (result)
        printf("failed after 0 rounds: %s: %s\n", mn_nccl_result_name(result), warning);
    else
        puts("connected");
    int code = result ? 1 : run(&r);
    close_ring(&r);
    return code;
}
