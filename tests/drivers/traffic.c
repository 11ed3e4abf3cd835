/* One end of some flows through a plugin, whose messages have every size and are checked byte by
 * byte: for tests that break what is between the ends.
 *
 *   traffic LIBRARY receive|send DIR [flows=N] [seed=N] [seconds=N] [messages=N] [size=BYTES]
 *           [leaks=1]
 *
 * Flow I's handle is the file DIR/I. Both ends get the same seed and size; size=0: of every size up
 * to 2 MiB, received into buffers that fit or are larger. The sender stops after so many seconds,
 * or messages of each flow; 0 of both: never. Prints "connected", five times a second (when
 * anything came) "bytes B", and at the end a line "flow I: M messages, B bytes" for each. Exit 0:
 * all was right; 1: "failed flow I after M messages: the plugin's last warning"; 3: "wrong: ...".
 * Warnings on stderr, and with MESHNET_LOG=info what each end says when it is closed. Before those
 * lines "pause MS": the longest time in which nothing was done, but for the first second and the
 * end.
 *
 * Nothing may be written around receives, nor, with size=0, anything to them once they are done.
 * With leaks=1 a connection is made and ended before; what there is then is all that may be left at
 * the end, and "has ..." says first and at the end what there is. At the end "longest CALL
 * MS" of each call, of one that is long at once. DRIVER_NAP is in idle.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"
#include "tests/drivers/guard.h"
#include "tests/drivers/idle.h"
#include "tests/drivers/traffic/watch.h"
#include "topo/base/alloc.h"

#define FLOWS_MAX 8
#define DEPTH     4
#define LARGEST   (2u << 20)
#define MORE      (300u << 10) /* a receive may be larger by so much */
#define SLOT      (GUARD + LARGEST + MORE + GUARD)
#define CONNECT_S 120
#define LEFT_S    20                  /* within which what was closed is gone */
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
    uint64_t seed, seconds, messages, size, leaks;
    struct flow flows[FLOWS_MAX + 1]; /* the one after the last: what goes before, of leaks=1 */
};

/* The time of a call is taken around it. */
#define TIMED(call, expression)                                                                    \
    do {                                                                                           \
        double since_ = wt_now();                                                                  \
        expression;                                                                                \
        wt_took(call, since_);                                                                     \
    } while (0)

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

#define NEXT 0x9e3779b97f4a7c15u /* from a word of a message to the one after it */

static void fill(const struct traffic *t, int flow, uint64_t message, uint8_t *data, size_t size)
{
    uint64_t word = dice_of(t, flow, message) | 1;
    size_t i = 0;

    for (; size - i >= sizeof word; i += sizeof word, word += NEXT)
        memcpy(data + i, &word, sizeof word);
    memcpy(data + i, &word, size - i);
}

/* The first word that is not as it was sent; size: none. */
static size_t compare(const struct traffic *t, int flow, uint64_t message, const uint8_t *data,
                      size_t size)
{
    uint64_t word = dice_of(t, flow, message) | 1, there;
    size_t i = 0;

    for (; size - i >= sizeof word; i += sizeof word, word += NEXT) {
        memcpy(&there, data + i, sizeof there);
        if (there != word)
            return i;
    }
    return memcmp(data + i, &word, size - i) ? i : size;
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

/* The handle of the last flow is the last one that is written. */
static int listen_flows(struct traffic *t)
{
    int result = 0, before = t->leaks != 0;
    char path[300];

    for (int k = 0; k < t->n + before && t->receiving; k++) {
        int i = before && k == 0 ? t->n : k - before;
        struct flow *f = &t->flows[i];
        path_of(t, i, path);
        TIMED(WT_LISTEN, result = mn_plugin_listen(t->plugin, 0, f->handle, &f->listener));
        if (!result && mn_file_write(path, f->handle, sizeof f->handle, 1, NULL))
            result = ncclSystemError;
        if (result)
            return failed(t, i, result);
    }
    return 0;
}

static int read_handle(struct traffic *t, int flow, double end)
{
    char path[300], *text;
    size_t len;

    path_of(t, flow, path);
    while (mn_file_read(path, 4096, &text, &len, NULL)) {
        if (wt_now() >= end)
            return -1;
        usleep(10000);
    }
    int is_handle = len == sizeof t->flows[flow].handle;
    if (is_handle)
        memcpy(t->flows[flow].handle, text, len);
    free(text);
    return is_handle ? 0 : -1;
}

static int call_for(struct traffic *t, struct flow *f)
{
    int result;

    if (t->receiving)
        TIMED(WT_ACCEPT, result = mn_plugin_accept(t->plugin, f->listener, &f->comm));
    else
        TIMED(WT_CONNECT, result = mn_plugin_connect(t->plugin, 0, f->handle, &f->comm));
    return result;
}

/* Those from the first on: all at once, as NCCL does, going round until each has its comm. */
static int open_flows(struct traffic *t, int first, int n)
{
    double end = wt_now() + CONNECT_S;
    int open = first, result = 0;

    for (int i = first; i < n && !t->receiving; i++)
        if (read_handle(t, i, end))
            return failed(t, i, ncclSystemError);
    while (open < n && wt_now() < end) {
        driver_turn(0);
        for (int i = open = first; i < n; i++) {
            struct flow *f = &t->flows[i];
            if (!f->comm)
                result = call_for(t, f);
            open += f->comm != NULL;
            if (result)
                return failed(t, i, result);
        }
    }
    if (open < n)
        return failed(t, open, ncclSystemError);
    for (int i = first; i < n; i++) {
        struct flow *f = &t->flows[i];
        f->area = malloc((size_t)DEPTH * SLOT);
        if (!f->area)
            return failed(t, i, ncclSystemError);
        memset(f->area, POISON, (size_t)DEPTH * SLOT);
        TIMED(WT_REGISTER, result = mn_plugin_reg_mr(t->plugin, f->comm, f->area,
                                                     (size_t)DEPTH * SLOT, NCCL_PTR_HOST, &f->mh));
        if (result)
            return failed(t, i, result);
    }
    return 0;
}

static int wrong(int flow, uint64_t message, const char *what, size_t at)
{
    printf("wrong: flow %d message %llu: %s, at %zu\n", flow, (unsigned long long)message, what,
           at);
    return 3;
}

/* Buffers of one size are for those who measure, whom it would cost too much. */
static int is_poisoned(const struct traffic *t)
{
    return t->receiving && !t->size;
}

/* The next slot is as it was left when its last receive was done. */
static int untouched(const struct traffic *t, int flow)
{
    const struct flow *f = &t->flows[flow];
    size_t slot = f->posted % DEPTH, all = GUARD + f->sizes[slot] + GUARD;
    size_t at = is_poisoned(t) ? not_all(f->area + slot * SLOT, all, POISON) : all;

    return at == all
               ? 0
               : wrong(flow, f->posted, "its buffer was written after a receive was done", at);
}

/* Of the receive that is done: nothing but the message was written. */
static int guarded(const struct traffic *t, int flow, size_t size)
{
    const struct flow *f = &t->flows[flow];
    size_t slot = f->done % DEPTH, room = f->sizes[slot];
    const uint8_t *before = f->area + slot * SLOT, *data = before + GUARD;
    size_t from = is_poisoned(t) ? size : room, after = room - from + GUARD;

    if (not_all(before, GUARD, POISON) != GUARD)
        return wrong(flow, f->done, "bytes before it were written", 0);
    size_t at = not_all(data + from, after, POISON);
    return at == after ? 0 : wrong(flow, f->done, "bytes after it were written", from + at);
}

static void close_flows(struct traffic *t, int first, int n)
{
    for (int i = first; i < n; i++) {
        struct flow *f = &t->flows[i];
        if (f->mh)
            mn_plugin_dereg_mr(t->plugin, f->comm, f->mh);
        if (f->comm && t->receiving)
            TIMED(WT_CLOSE, mn_plugin_close_recv(t->plugin, f->comm));
        else if (f->comm)
            TIMED(WT_CLOSE, mn_plugin_close_send(t->plugin, f->comm));
        f->mh = f->comm = NULL;
    }
}

static void close_listeners(struct traffic *t, int first, int n)
{
    for (int i = first; i < n; i++)
        if (t->flows[i].listener)
            mn_plugin_close_listen(t->plugin, t->flows[i].listener);
}

/* Nothing came for receives that were under way when it ended, and nothing comes any more. */
static int all_untouched(const struct traffic *t)
{
    for (int i = 0; i < t->n && is_poisoned(t); i++) {
        size_t all = (size_t)DEPTH * SLOT, at = not_all(t->flows[i].area, all, POISON);
        if (at != all)
            return wrong(i, t->flows[i].done, "a buffer was written after the last one", at);
    }
    return 0;
}

static int post(struct traffic *t, int flow, int closing)
{
    struct flow *f = &t->flows[flow];
    size_t slot = f->posted % DEPTH, size = size_of(t, flow, f->posted);
    void *data = f->area + slot * SLOT + GUARD;
    uint64_t dice = dice_of(t, flow, f->posted) >> 40, last = LAST;
    int tag = 0, result;

    if (t->receiving) {
        size += dice % 4 && !t->size ? 0 : (size_t)(dice % MORE);
        if (size < sizeof last)
            size = sizeof last; /* it may be the last */
        TIMED(WT_IRECV, result = mn_plugin_irecv(t->plugin, f->comm, 1, &data, &size, &tag, &f->mh,
                                                 &f->requests[slot]));
    } else {
        if (closing) {
            size = sizeof last;
            memcpy(data, &last, size);
        } else {
            fill(t, flow, f->posted, data, size);
        }
        TIMED(WT_ISEND, result = mn_plugin_isend(t->plugin, f->comm, data, size, tag, f->mh,
                                                 &f->requests[slot]));
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
    uint8_t *data = f->area + f->done % DEPTH * SLOT + GUARD;
    size_t wanted = size_of(t, flow, f->done);
    uint64_t last = LAST;

    f->ended = size == sizeof last && !memcmp(data, &last, sizeof last);
    size_t at = size == wanted && !f->ended ? compare(t, flow, f->done, data, size) : size;
    if (f->ended || (size == wanted && at == size)) {
        int code = guarded(t, flow, size);
        if (is_poisoned(t))
            memset(data, POISON, size);
        return code;
    }
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
        int code = untouched(t, flow);
        if (code)
            return code;
        result = post(t, flow, closing && !t->receiving);
        *moved += f->posted - before;
    }
    if (!result && f->posted > f->done)
        TIMED(WT_TEST,
              result = mn_plugin_test(t->plugin, f->requests[f->done % DEPTH], &finished, sizes));
    if (result && finished)
        return wrong(flow, f->done, "it is done and has an error", 0);
    if (result)
        return failed(t, flow, result);
    if (!finished)
        return 0;
    ++*moved;
    int code = t->receiving ? arrived(t, flow, (size_t)sizes[0]) : 0;
    if (!t->receiving && !t->size)
        memset(f->area + f->done % DEPTH * SLOT + GUARD, STALE, f->sizes[f->done % DEPTH]);
    if (f->ended || (!t->receiving && f->closing && f->done + 1 == f->posted)) {
        f->ended = 1;
        return code;
    }
    f->bytes += t->receiving ? (size_t)sizes[0] : f->sizes[f->done % DEPTH];
    f->done++;
    return code;
}

static void say_what_there_is(void)
{
    uint64_t has[WT_N_THINGS];

    wt_count(has);
    printf("has %llu KiB", (unsigned long long)wt_rss_kib());
    for (int i = 0; i < WT_N_THINGS; i++)
        printf(", %llu %s", (unsigned long long)has[i], wt_things[i]);
    printf("\n");
}

static int run(struct traffic *t)
{
    double begin = wt_now(), said = begin, last = begin, pause = 0;
    int code = 0, ended = 0, closing = 0;
    uint64_t told = 0, total = 0;

    if (t->leaks)
        say_what_there_is();
    while (!code && ended < t->n) {
        uint64_t moved = 0;
        double at = wt_now();
        closing = t->seconds && at - begin > (double)t->seconds;
        for (int i = ended = 0; i < t->n && !code; i++) {
            if (!t->flows[i].ended)
                code = step(t, i, closing, &moved);
            ended += t->flows[i].ended;
        }
        driver_turn(moved != 0);
        if (moved && at - last > pause && last - begin > 1)
            pause = at - last;
        if (moved)
            last = at;
        if (at - said < 0.2)
            continue;
        said = at;
        wt_look();
        for (int i = (int)(total = 0); i < t->n; i++)
            total += t->flows[i].bytes;
        if (total > told)
            printf("bytes %llu\n", (unsigned long long)total);
        told = total;
    }
    if (t->leaks)
        say_what_there_is();
    if (!code)
        printf("pause %.0f\n", pause * 1e3);
    for (int i = 0; i < t->n && !code; i++)
        printf("flow %d: %llu messages, %llu bytes\n", i, (unsigned long long)t->flows[i].done,
               (unsigned long long)t->flows[i].bytes);
    return code;
}

/* A connection with one message: threads that stay begin with the first, and more than there is
 * after it may not be left. */
static int warm_up(struct traffic *t, uint64_t left[WT_N_THINGS])
{
    uint64_t moved = 0;
    struct flow *f = &t->flows[t->n];
    int code = open_flows(t, t->n, t->n + 1);

    while (!code && !f->ended) {
        uint64_t before = moved;
        code = step(t, t->n, 1, &moved);
        driver_turn(moved != before);
    }
    close_flows(t, t->n, t->n + 1);
    close_listeners(t, t->n, t->n + 1);
    f->listener = NULL;
    wt_count(left);
    return code;
}

/* What was closed and waits for its peer is looked at when a communicator ends. */
static void look_at_closed(const struct traffic *t)
{
    struct mn_plugin *other = mn_plugin_context(t->plugin);

    mn_plugin_init(other);
    mn_plugin_close(other);
}

/* What begins with the first link that goes stays, too. */
static const uint64_t stays[WT_N_THINGS] = {[WT_DESCRIPTORS] = 2, [WT_THREADS] = 1};

static int nothing_left(const struct traffic *t, const uint64_t before[WT_N_THINGS])
{
    double end = wt_now() + LEFT_S;
    uint64_t left[WT_N_THINGS];
    int i = 0;

    for (;;) {
        look_at_closed(t);
        wt_count(left);
        for (i = 0; i < WT_N_THINGS && left[i] <= before[i] + stays[i];)
            i++;
        if (i == WT_N_THINGS)
            return 0;
        if (wt_now() > end)
            break;
        usleep(100000);
    }
    printf("wrong: left behind: %llu %s, were %llu\n", (unsigned long long)left[i], wt_things[i],
           (unsigned long long)before[i]);
    wt_list();
    return 3;
}

static int no_rnr(void)
{
    if (!wt_rnr())
        return 0;
    printf("wrong: %llu writes found no receive request (RNR)\n", (unsigned long long)wt_rnr());
    return 3;
}

static int read_options(struct traffic *t, int argc, char **argv)
{
    struct {
        const char *name;
        uint64_t value;
    } options[] = {{"flows=", 1},    {"seed=", 1}, {"seconds=", 0},
                   {"messages=", 0}, {"size=", 0}, {"leaks=", 0}};
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
    t->leaks = options[5].value;
    return t->n >= 1 && t->n <= FLOWS_MAX && t->size <= LARGEST;
}

static int all_of_it(struct traffic *t)
{
    uint64_t left[WT_N_THINGS];
    int code = listen_flows(t);

    if (!code && t->leaks)
        code = warm_up(t, left);
    if (!code)
        code = open_flows(t, 0, t->n);
    if (!code) {
        puts("connected");
        code = run(t);
    }
    close_flows(t, 0, t->n + (t->leaks != 0));
    if (!code)
        code = all_untouched(t);
    if (!code && t->leaks)
        code = nothing_left(t, left);
    if (code != 3 && no_rnr())
        code = 3;
    close_listeners(t, 0, t->n + (t->leaks != 0));
    wt_say();
    return code;
}

int main(int argc, char **argv)
{
    static struct traffic t;
    struct mn_diag diag;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || !read_options(&t, argc, argv)) {
        fputs("usage: traffic LIBRARY receive|send DIR [flows=N] [seed=N] [seconds=N] "
              "[messages=N] [size=BYTES] [leaks=1]\n",
              stderr);
        return 2;
    }
    t.receiving = !strcmp(argv[2], "receive");
    t.dir = argv[3];
    wt_begin();
    if (mn_plugin_open(argv[1], 0, &t.plugin, &diag)) {
        puts(diag.text);
        return 2;
    }
    mn_plugin_set_log(t.plugin, on_log, NULL);
    int result = mn_plugin_init(t.plugin);
    int code = result ? failed(&t, 0, result) : all_of_it(&t);
    mn_plugin_close(t.plugin);
    for (int i = 0; i <= t.n; i++)
        free(t.flows[i].area);
    return code;
}
