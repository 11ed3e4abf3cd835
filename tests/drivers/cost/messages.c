/* What a message costs: the time and the instructions of the calls that make it, on both sides, in
 * two processes that are this one's children. Calls that only wait are counted apart. */
#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "tests/drivers/cost/cost.h"
#include "topo/base/alloc.h"

#define DEPTH   8 /* outstanding, as NCCL has */
#define STEPPED 32
#define WAITING 10000 /* calls that only wait, at least */
#define SAMPLES 65536
#define ROW     64

/* What a call turned out to be. */
enum kind { POST, REFUSED, DONE, WAIT, KINDS };

static const char *const kind_names[2][KINDS] = {{"isend", "isend-refused", "test", "test-waiting"},
                                                 {"irecv", "irecv-refused", "test",
                                                  "test-waiting"}};
static const char *const side_names[2] = {"send", "receive"};

struct side {
    struct cost_steps steps;
    uint64_t calls[KINDS], stepped[KINDS];
    uint32_t ns[KINDS][SAMPLES], instructions[KINDS][SAMPLES];
};

struct shared {
    atomic_int listening; /* the handle is there */
    atomic_int ready;     /* how often a side has met the other */
    char handle[MN_HANDLE_SIZE];
    struct side sides[2];
};

struct end {
    struct mn_plugin *plugin;
    struct shared *shared;
    struct side *side;
    int receiving, stepping, stage;
    void *comm, *mh, *requests[DEPTH];
    uint8_t *data;
    size_t size;
    uint64_t (*verbs_ns)(void); /* of the libibverbs double */
    int64_t started, ns;
    uint64_t verbs_before;
};

static uint64_t no_verbs(void)
{
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void begin(struct end *e)
{
    e->verbs_before = e->verbs_ns();
    if (e->stepping)
        cost_steps_begin(&e->side->steps);
    else
        e->started = now_ns();
}

static void end(struct end *e, enum kind kind)
{
    struct side *side = e->side;
    uint64_t n = e->stepping ? side->stepped[kind]++ : side->calls[kind]++;

    if (n < SAMPLES && e->stepping)
        side->instructions[kind][n] = (uint32_t)side->steps.plugin;
    else if (n < SAMPLES)
        side->ns[kind][n] = e->ns > 0 ? (uint32_t)e->ns : 0;
}

/* The call is over; what it was is not known yet. */
static void stop(struct end *e)
{
    if (e->stepping)
        cost_steps_end(&e->side->steps);
    else
        e->ns = now_ns() - e->started - (int64_t)(e->verbs_ns() - e->verbs_before);
}

static int post(struct end *e, uint64_t number)
{
    void **request = &e->requests[number % DEPTH], *data = e->data + number % DEPTH * e->size;
    size_t size = e->size;
    int tag = 0, result;

    *request = NULL;
    begin(e);
    result = e->receiving
                 ? mn_plugin_irecv(e->plugin, e->comm, 1, &data, &size, &tag, &e->mh, request)
                 : mn_plugin_isend(e->plugin, e->comm, data, size, tag, e->mh, request);
    stop(e);
    end(e, *request ? POST : REFUSED);
    return cost_call(e->receiving ? "irecv" : "isend", result);
}

/* One test of message number; *done grows when it is over. */
static int test(struct end *e, uint64_t number, uint64_t *done)
{
    int over = 0, sizes[MN_HOST_MAX_RECVS];

    begin(e);
    int result = mn_plugin_test(e->plugin, e->requests[number % DEPTH], &over, sizes);
    stop(e);
    end(e, over ? DONE : WAIT);
    *done += over != 0;
    return cost_call("test", result);
}

/* Moves messages until count are done; so many have been posted and are done already. */
static int move(struct end *e, uint64_t posted, uint64_t done, uint64_t count)
{
    int64_t since = now_ns();
    int err = 0;

    while (done < count && !err) {
        uint64_t before = posted + done;
        while (!err && posted < count && posted - done < DEPTH) {
            err = post(e, posted);
            if (err || !e->requests[posted % DEPTH])
                break;
            posted++;
        }
        if (!err && done < posted)
            err = test(e, done, &done);
        int64_t now = now_ns();
        if (posted + done != before) {
            since = now;
            continue;
        }
        sched_yield();
        if (now - since > PATIENCE_S * 1000000000LL) {
            fprintf(stderr, "cost: nothing moved for %d s\n", PATIENCE_S);
            err = 1;
        }
    }
    return err;
}

/* Both sides have come as far as this. */
static int meet(struct end *e)
{
    int64_t deadline = now_ns() + PATIENCE_S * 1000000000LL;

    atomic_fetch_add(&e->shared->ready, 1);
    for (e->stage++; atomic_load(&e->shared->ready) < 2 * e->stage; sched_yield()) {
        if (now_ns() > deadline) {
            fprintf(stderr, "cost: the other side is not there after %d s\n", PATIENCE_S);
            return 1;
        }
    }
    return 0;
}

/* Calls that only wait: sends without a receive, as far as the plugin refuses them, then tests
 * without a send. */
static int wait(struct end *e, int calls)
{
    uint64_t posted = 0, done = 0;
    int err = 0;

    for (int i = 0; !err && !posted && !e->receiving && i < calls; i++) {
        err = post(e, 0);
        posted = e->requests[0] != NULL;
    }
    if (!err)
        err = meet(e);
    if (!err && e->receiving) {
        err = post(e, 0);
        posted = e->requests[0] != NULL;
    }
    for (int i = 0; !err && posted && !done && e->receiving && i < calls; i++)
        err = test(e, 0, &done);
    if (!err)
        err = meet(e);
    return err ? err : move(e, posted, done, 1);
}

/* Messages, and calls that wait, until both sides are through. */
static int stretch(struct end *e, long messages, int waiting)
{
    int err = move(e, 0, 0, (uint64_t)messages);

    if (!err)
        err = meet(e);
    if (!err)
        err = wait(e, waiting);
    return err ? err : meet(e);
}

static int connect_end(struct end *e)
{
    struct shared *shared = e->shared;
    int64_t deadline = now_ns() + PATIENCE_S * 1000000000LL;
    void *listener = NULL;
    int err = 0;

    if (e->receiving) {
        err = cost_call("listen", mn_plugin_listen(e->plugin, 0, shared->handle, &listener));
        atomic_store(&shared->listening, !err);
    }
    while (!err && !e->comm) {
        if (e->receiving)
            err = cost_call("accept", mn_plugin_accept(e->plugin, listener, &e->comm));
        else if (atomic_load(&shared->listening))
            err = cost_call("connect", mn_plugin_connect(e->plugin, 0, shared->handle, &e->comm));
        if (!err && !e->comm && now_ns() > deadline) {
            fprintf(stderr, "cost: no connection within %d s\n", PATIENCE_S);
            err = 1;
        }
        sched_yield();
    }
    if (listener)
        mn_plugin_close_listen(e->plugin, listener);
    return err;
}

/* The plugin has loaded it, if the loader finds it first. */
static void find_double(struct end *e)
{
    void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = verbs ? dlsym(verbs, "fakeverbs_ns") : NULL;

    e->verbs_ns = no_verbs;
    if (symbol)
        memcpy(&e->verbs_ns, &symbol, sizeof symbol);
}

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == NCCL_LOG_WARN)
        fprintf(stderr, "cost: %s\n", line);
}

static int run_end(const char *library, struct shared *shared, int receiving, size_t size,
                   long count)
{
    struct end e = {.shared = shared,
                    .side = &shared->sides[receiving],
                    .receiving = receiving,
                    .size = size};
    struct mn_diag diag;

    if (mn_plugin_open(library, 0, &e.plugin, &diag)) {
        fprintf(stderr, "cost: %s\n", diag.text);
        return 1;
    }
    mn_plugin_set_log(e.plugin, on_log, NULL);
    e.data = mn_zalloc(DEPTH * size);
    memset(e.data, 0x5a, DEPTH * size);
    int err = cost_call("init", mn_plugin_init(e.plugin));
    if (!err)
        err = connect_end(&e);
    find_double(&e);
    if (!err)
        err = cost_call("regMr", mn_plugin_reg_mr(e.plugin, e.comm, e.data, DEPTH * size,
                                                  NCCL_PTR_HOST, &e.mh));
    if (!err)
        err = stretch(&e, count / 10 + 1, 1);
    memset(e.side->calls, 0, sizeof e.side->calls);
    if (!err)
        err = stretch(&e, count, WAITING);
    e.stepping = !err && cost_steps_allow();
    if (e.stepping)
        err = stretch(&e, STEPPED, STEPPED);
    if (e.mh)
        mn_plugin_dereg_mr(e.plugin, e.comm, e.mh);
    if (e.comm && receiving)
        mn_plugin_close_recv(e.plugin, e.comm);
    else if (e.comm)
        mn_plugin_close_send(e.plugin, e.comm);
    mn_plugin_close(e.plugin);
    free(e.data);
    return err != 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the means of so many calls in a row. A mean, since a part of the work is done by
 * some calls for several; the median, since now and then the machine takes the processor away. */
static double usual(const uint32_t *samples, uint64_t calls, uint64_t row)
{
    static double means[SAMPLES];
    uint64_t n = calls < SAMPLES ? calls : SAMPLES, n_means = 0;

    row = row < n ? row : n;
    for (uint64_t at = 0; at + row <= n; at += row) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < row; i++)
            sum += samples[at + i];
        means[n_means++] = (double)sum / (double)row;
    }
    qsort(means, n_means, sizeof *means, by_value);
    return means[n_means / 2];
}

static double clock_cost(void)
{
    static uint32_t ns[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        int64_t start = now_ns();
        ns[i] = (uint32_t)(now_ns() - start);
    }
    return usual(ns, SAMPLES, ROW);
}

static void print(struct side *side, const char *name, const char *const *kinds)
{
    double clock = clock_cost();

    for (int kind = 0; kind < KINDS; kind++) {
        if (!side->calls[kind])
            continue;
        double ns = usual(side->ns[kind], side->calls[kind], ROW) - clock;
        printf("%s %s %llu %.0f ", name, kinds[kind], (unsigned long long)side->calls[kind],
               ns > 0 ? ns : 0);
        /* Stepping takes long, so that many calls which wait look at the peer; the median does not.
         */
        uint64_t n = side->stepped[kind], row = kind == POST || kind == DONE ? n : 1;
        if (n)
            printf("%.0f\n", usual(side->instructions[kind], n, row));
        else
            printf("-\n");
    }
}

int cost_messages(const char *library, size_t size, long count)
{
    char resolved[PATH_MAX];
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct cost_steps *steps[2];
    pid_t children[2];

    if (shared == MAP_FAILED) {
        perror("cost: mmap");
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        steps[i] = &shared->sides[i].steps;
        children[i] = fork();
        if (children[i] < 0) {
            perror("cost: fork");
            return 1;
        }
        if (!children[i]) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(run_end(library, shared, i, size, count));
        }
    }
    if (!cost_steps_run(children, steps, 2, realpath(library, resolved) ? resolved : library))
        return 1;
    for (int i = 0; i < 2; i++)
        print(&shared->sides[i], side_names[i], kind_names[i]);
    return 0;
}
