/* One end of some flows through a plugin, whose messages have every size and are checked byte by
 * byte: for tests that break what is between the ends.
 *
 *   traffic LIBRARY receive|send DIR [flows=N] [seed=N] [seconds=N] [messages=N] [size=BYTES]
 *
 * Flow I's handle is the file DIR/I. Both ends get the same seed and size; size=0: of every size up
 * to 2 MiB, received into buffers that fit or are larger. The sender stops after so many seconds,
 * or messages of each flow; 0 of both: never. Prints "connected", five times a second (when
 * anything came) "bytes B", and at the end a line "flow I: M messages, B bytes" for each. Exit 0:
 * all was right; 1: "failed flow I after M messages: the plugin's last warning"; 3: "wrong: ...".
 * Warnings on stderr, and with MESHNET_LOG=info what each end says when it is closed. Before those
 * lines "pause MS": the longest time in which nothing was done, but for the first second and the
 * end. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

#define FLOWS_MAX 8
#define DEPTH     4
#define LARGEST   (2u << 20)
#define MORE      (300u << 10) /* a receive may be larger by so much */
#define SLOT      (LARGEST + MORE)
#define CONNECT_S 120
#define LAST      0x6c6173746c617374u /* the whole of the last message of a flow */

static char warning[1024] = "no warning";

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == NCCL_LOG_INFO && strstr(line, "closed after"))
        fprintf(stderr, "%s\n", line);
    if (level != NCCL_LOG_WARN)
        return;
    mn_strlcpy(warning, line, sizeof warning);
    fprintf(stderr, "%s\n", line);
}

struct flow {
    void *listener, *comm, *mh;
    uint8_t *area;
    uint8_t handle[MN_HANDLE_SIZE];
    void *requests[DEPTH];
    size_t sizes[DEPTH];
    uint64_t posted, done, bytes;
    int closing, ended; /* the last message is posted; … is done */
};

struct traffic {
    struct mn_plugin *plugin;
    const char *dir;
    int receiving, n;
    uint64_t seed, seconds, messages, size;
    struct flow flows[FLOWS_MAX];
};

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t dice_of(const struct traffic *t, int flow, uint64_t message)
{
    return mix(t->seed * 1000003 + (uint64_t)flow * 7919 + mix(message));
}

static size_t size_of(const struct traffic *t, int flow, uint64_t message)
{
    static const size_t most[] = {64,        8 << 10, 64 << 10, 64 << 10,
                                  256 << 10, 1 << 20, 1 << 20,  LARGEST};
    uint64_t dice = dice_of(t, flow, message);

    return t->size ? t->size : (size_t)((dice >> 8) % (most[dice % 8] + 1));
}

static void fill(const struct traffic *t, int flow, uint64_t message, uint8_t *data, size_t size)
{
    uint64_t word = dice_of(t, flow, message) | 1;

    for (size_t i = 0; i < size; i += sizeof word, word += 0x9e3779b97f4a7c15u)
        memcpy(data + i, &word, size - i < sizeof word ? size - i : sizeof word);
}

/* The first byte that is not as it was sent; size: none. */
static size_t compare(const struct traffic *t, int flow, uint64_t message, const uint8_t *data,
                      size_t size)
{
    uint64_t word = dice_of(t, flow, message) | 1;

    for (size_t i = 0; i < size; i += sizeof word, word += 0x9e3779b97f4a7c15u)
        if (memcmp(data + i, &word, size - i < sizeof word ? size - i : sizeof word))
            return i;
    return size;
}

static int failed(const struct traffic *t, int flow, int result)
{
    printf("failed flow %d after %llu messages: %s: %s\n", flow,
           (unsigned long long)t->flows[flow].done, mn_nccl_result_name(result), warning);
    return 1;
}

static void path_of(const struct traffic *t, int flow, char path[300])
{
    snprintf(path, 300, "%s/%d", t->dir, flow);
}

/* All at once, as NCCL does: going round until each has its comm. */
static int open_flows(struct traffic *t)
{
    double end = now() + CONNECT_S;
    int open = 0, result = 0;
    char path[300], *text;
    size_t len;

    for (int i = 0; i < t->n && t->receiving && !result; i++) {
        struct flow *f = &t->flows[i];
        path_of(t, i, path);
        result = mn_plugin_listen(t->plugin, 0, f->handle, &f->listener);
        if (!result && mn_file_write(path, f->handle, sizeof f->handle, 1, NULL))
            result = ncclSystemError;
    }
    for (int i = 0; i < t->n && !t->receiving && !result; i++) {
        path_of(t, i, path);
        while (mn_file_read(path, 4096, &text, &len, NULL) && now() < end)
            usleep(10000);
        if (now() >= end || len != sizeof t->flows[i].handle)
            return failed(t, i, ncclSystemError);
        memcpy(t->flows[i].handle, text, len);
        free(text);
    }
    while (!result && open < t->n && now() < end)
        for (int i = open = 0; i < t->n && !result; i++) {
            struct flow *f = &t->flows[i];
            if (!f->comm)
                result = t->receiving ? mn_plugin_accept(t->plugin, f->listener, &f->comm)
                                      : mn_plugin_connect(t->plugin, 0, f->handle, &f->comm);
            open += f->comm != NULL;
            if (result)
                return failed(t, i, result);
        }
    if (open < t->n)
        return failed(t, open, ncclSystemError);
    for (int i = 0; i < t->n && !result; i++) {
        struct flow *f = &t->flows[i];
        f->area = malloc((size_t)DEPTH * SLOT);
        if (!f->area)
            return failed(t, i, ncclSystemError);
        memset(f->area, 0xee, (size_t)DEPTH * SLOT);
        result = mn_plugin_reg_mr(t->plugin, f->comm, f->area, (size_t)DEPTH * SLOT, NCCL_PTR_HOST,
                                  &f->mh);
    }
    return result ? failed(t, 0, result) : 0;
}

static int post(struct traffic *t, int flow, int closing)
{
    struct flow *f = &t->flows[flow];
    size_t slot = f->posted % DEPTH, size = size_of(t, flow, f->posted);
    void *data = f->area + slot * SLOT;
    uint64_t dice = dice_of(t, flow, f->posted) >> 40, last = LAST;
    int tag = 0, result;

    if (t->receiving) {
        size += dice % 4 && !t->size ? 0 : (size_t)(dice % MORE);
        if (size < sizeof last)
            size = sizeof last; /* it may be the last */
        result =
            mn_plugin_irecv(t->plugin, f->comm, 1, &data, &size, &tag, &f->mh, &f->requests[slot]);
    } else {
        if (closing) {
            size = sizeof last;
            memcpy(data, &last, size);
        } else {
            fill(t, flow, f->posted, data, size);
        }
        result = mn_plugin_isend(t->plugin, f->comm, data, size, tag, f->mh, &f->requests[slot]);
    }
    f->sizes[slot] = size;
    if (!result && f->requests[slot]) {
        f->posted++;
        f->closing = closing;
    }
    return result;
}

/* 0: right; 3: wrong, and said so. */
static int arrived(struct traffic *t, int flow, size_t size)
{
    struct flow *f = &t->flows[flow];
    const uint8_t *data = f->area + f->done % DEPTH * SLOT;
    size_t wanted = size_of(t, flow, f->done);
    uint64_t last = LAST;

    if (size == sizeof last && !memcmp(data, &last, sizeof last)) {
        f->ended = 1;
        return 0;
    }
    size_t at = size == wanted ? compare(t, flow, f->done, data, size) : size;
    if (size == wanted && at == size)
        return 0;
    printf("wrong: flow %d message %llu: %zu bytes, expected %zu; differs at %zu\n", flow,
           (unsigned long long)f->done, size, wanted, at);
    return 3;
}

/* Whether anything happened is added to *moved. */
static int step(struct traffic *t, int flow, int closing, uint64_t *moved)
{
    struct flow *f = &t->flows[flow];
    int finished = 0, sizes[MN_HOST_MAX_RECVS] = {0}, result = 0;

    closing = closing || (t->messages && f->posted >= t->messages);
    if (f->posted - f->done < DEPTH && !f->closing) {
        uint64_t before = f->posted;
        result = post(t, flow, closing && !t->receiving);
        *moved += f->posted - before;
    }
    if (!result && f->posted > f->done)
        result = mn_plugin_test(t->plugin, f->requests[f->done % DEPTH], &finished, sizes);
    if (result)
        return failed(t, flow, result);
    if (!finished)
        return 0;
    ++*moved;
    int code = t->receiving ? arrived(t, flow, (size_t)sizes[0]) : 0;
    if (f->ended || (!t->receiving && f->closing && f->done + 1 == f->posted)) {
        f->ended = 1;
        return code;
    }
    f->bytes += t->receiving ? (size_t)sizes[0] : f->sizes[f->done % DEPTH];
    f->done++;
    return code;
}

static int run(struct traffic *t)
{
    double begin = now(), said = begin, last = begin, pause = 0;
    int code = 0, ended = 0, closing = 0;
    uint64_t told = 0, total = 0;

    while (!code && ended < t->n) {
        uint64_t moved = 0;
        double at = now();
        closing = t->seconds && at - begin > (double)t->seconds;
        for (int i = ended = 0; i < t->n && !code; i++) {
            if (!t->flows[i].ended)
                code = step(t, i, closing, &moved);
            ended += t->flows[i].ended;
        }
        if (!moved)
            sched_yield();
        if (moved && at - last > pause && last - begin > 1)
            pause = at - last;
        if (moved)
            last = at;
        if (at - said < 0.2)
            continue;
        said = at;
        for (int i = (int)(total = 0); i < t->n; i++)
            total += t->flows[i].bytes;
        if (total > told)
            printf("bytes %llu\n", (unsigned long long)total);
        told = total;
    }
    if (!code)
        printf("pause %.0f\n", pause * 1e3);
    for (int i = 0; i < t->n && !code; i++)
        printf("flow %d: %llu messages, %llu bytes\n", i, (unsigned long long)t->flows[i].done,
               (unsigned long long)t->flows[i].bytes);
    return code;
}

static int read_options(struct traffic *t, int argc, char **argv)
{
    struct {
        const char *name;
        uint64_t value;
    } options[] = {{"flows=", 1}, {"seed=", 1}, {"seconds=", 0}, {"messages=", 0}, {"size=", 0}};
    const int n = sizeof options / sizeof *options;

    for (int i = 4; i < argc; i++) {
        int k = 0;
        while (k < n && strncmp(argv[i], options[k].name, strlen(options[k].name)) != 0)
            k++;
        if (k == n)
            return 0;
        options[k].value = strtoull(argv[i] + strlen(options[k].name), NULL, 10);
    }
    t->n = (int)options[0].value;
    t->seed = options[1].value;
    t->seconds = options[2].value;
    t->messages = options[3].value;
    t->size = options[4].value;
    return t->n >= 1 && t->n <= FLOWS_MAX && t->size <= LARGEST;
}

int main(int argc, char **argv)
{
    static struct traffic t;
    struct mn_diag diag;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || !read_options(&t, argc, argv)) {
        fputs("usage: traffic LIBRARY receive|send DIR [flows=N] [seed=N] [seconds=N] "
              "[messages=N] [size=BYTES]\n",
              stderr);
        return 2;
    }
    t.receiving = !strcmp(argv[2], "receive");
    t.dir = argv[3];
    if (mn_plugin_open(argv[1], 0, &t.plugin, &diag)) {
        puts(diag.text);
        return 2;
    }
    mn_plugin_set_log(t.plugin, on_log, NULL);
    int result = mn_plugin_init(t.plugin);
    int code = result ? failed(&t, 0, result) : open_flows(&t);
    if (!code) {
        puts("connected");
        code = run(&t);
    }
    for (int i = 0; i < t.n; i++) {
        struct flow *f = &t.flows[i];
        if (f->mh)
            mn_plugin_dereg_mr(t.plugin, f->comm, f->mh);
        if (f->comm && t.receiving)
            mn_plugin_close_recv(t.plugin, f->comm);
        else if (f->comm)
            mn_plugin_close_send(t.plugin, f->comm);
        if (f->listener)
            mn_plugin_close_listen(t.plugin, f->listener);
        free(f->area);
    }
    mn_plugin_close(t.plugin);
    return code;
}
