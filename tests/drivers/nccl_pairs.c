/* A rank that connects as NCCL does: the ring, both trees, PAT, then every pair, each on two
 * channels, from one thread that goes round; and sends over each what the other checks.
 *
 *   nccl_pairs LIBRARY RANK RANKS HOST PORT    (HOST and PORT: where rank 0 listens; token as text
 *                                               in $MESHNET_TOKEN)
 *
 * Where $HOLD names a file, the trees are begun when it is there. DRIVER_NAP is in idle.h.
 *
 * The pairs of PAT: NCCL's connect.cc, one GPU a node. */
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/plane.h"
#include "tests/drivers/idle.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/nccl_tree.h"

#define CHANNELS   2
#define MESSAGE    (48u << 10)
#define TIMEOUT_MS 40000

enum phase { RING, TREE_1, TREE_2, PAT, PAIRS, PHASES };
static const char *const names[] = {"ring", "tree 1", "tree 2", "PAT", "all pairs"};

/* Whether from sends to the other in that phase. */
static int sends(enum phase phase, int from, int to, int n)
{
    if (phase == RING)
        return to == (from + 1) % n;
    if (phase == PAIRS)
        return from != to;
    if (phase == PAT) {
        for (int distance = 1; distance < n; distance *= 2)
            if (to == (from + distance) % n || from == (to + distance) % n)
                return from != to;
        return 0;
    }
    int tree = phase == TREE_2;
    return mn_nccl_tree_parent(n, tree, from) == to || mn_nccl_tree_parent(n, tree, to) == from;
}

static uint8_t byte_of(int phase, int from, int to, size_t i)
{
    return (uint8_t)(i * 7 + (i >> 9) + (size_t)(phase * 31 + from * 17 + to * 5));
}

static void lay_out(enum phase phase, int rank, int n, struct mn_schedule *s)
{
    for (int k = 1; k < n; k++) {
        int to = (rank + k) % n, from = (rank - k + n) % n;
        if (sends(phase, from, rank, n))
            mn_schedule_recv(s, from, (struct mn_at){MN_OUT, (size_t)from * MESSAGE}, MESSAGE,
                             MN_NO_STEP);
        if (sends(phase, rank, to, n))
            mn_schedule_send(s, to, (struct mn_at){MN_IN, (size_t)to * MESSAGE}, MESSAGE,
                             MN_NO_STEP);
    }
}

static enum mn_err carry_out(struct mn_group *g, const struct mn_schedule *s, uint8_t *memory,
                             struct mn_diag *diag)
{
    int n = mn_group_size(g);
    void *const bufs[MN_BUFFERS] = {memory, memory + (size_t)n * MESSAGE, NULL};
    struct mn_run *run = mn_run_new(s, mn_group_wire(g), n, NULL, 1);
    uint64_t moved = 0, before = 0, idle = 0;
    enum mn_err err = run ? MN_ERR_AGAIN : mn_fail(diag, MN_ERR_NOMEM, "no memory for a run");

    if (run)
        mn_run_start(run, bufs);
    while (err == MN_ERR_AGAIN) {
        err = mn_run_poll(run, &moved);
        if (err == MN_ERR_FAILED)
            mn_group_wire_error(g, diag);
        enum mn_err standstill = MN_OK;
        if (err == MN_ERR_AGAIN && moved == before)
            standstill = mn_group_idle(g, &idle, diag);
        else
            idle = 0;
        driver_turn(idle == 0);
        before = moved;
        if (standstill)
            err = standstill;
    }
    mn_run_free(run);
    return err;
}

static enum mn_err phase_of(struct mn_group *g, enum phase phase, struct mn_diag *diag)
{
    int n = mn_group_size(g), rank = mn_group_rank(g), wrong = 0;
    struct mn_schedule s = {.steps = NULL};
    uint8_t *memory = NULL;

    lay_out(phase, rank, n, &s);
    enum mn_err err = mn_group_connect(g, &s, diag);
    if (!err)
        err = mn_group_memory(g, 2 * (size_t)n * MESSAGE, &memory, diag);
    for (int to = 0; to < n && !err; to++)
        for (size_t i = 0; i < MESSAGE; i++)
            memory[(size_t)to * MESSAGE + i] = byte_of((int)phase, rank, to, i);
    if (!err)
        err = carry_out(g, &s, memory, diag);
    for (int from = 0; from < n && !err; from++)
        for (size_t i = 0; sends(phase, from, rank, n) && i < MESSAGE; i++)
            wrong += memory[((size_t)n + (size_t)from) * MESSAGE + i] !=
                     byte_of((int)phase, from, rank, i);
    if (!err && wrong)
        err = mn_fail(diag, MN_ERR_FAILED, "%s: %d bytes are wrong", names[phase], wrong);
    mn_schedule_free(&s);
    return err ? err : mn_group_barrier(g, diag);
}

static enum mn_err channel(struct mn_group_plan *plan, struct mn_plugin *plugin,
                           struct mn_group **group, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    plan->n_doors = 0;
    if (!plan->rank) {
        struct mn_addr at;
        err = mn_addr_parse(plan->host, &at, diag);
        if (!err)
            err = mn_ctl_listen(&at, plan->port, &plan->doors[0], diag);
        plan->n_doors = !err;
    }
    if (!err)
        err = mn_group_join(plan, group, diag);
    if (!err)
        err = mn_group_use(*group, plugin, 0, diag);
    return err;
}

static void hold(void)
{
    const char *file = getenv("HOLD");

    for (int i = 0; file && i < TIMEOUT_MS / 100 && access(file, F_OK); i++)
        (void)poll(NULL, 0, 100);
}

static enum mn_err run(char **argv, struct mn_diag *diag)
{
    struct mn_group_plan plan = {.rank = atoi(argv[2]),
                                 .nranks = atoi(argv[3]),
                                 .host = argv[4],
                                 .timeout_ms = TIMEOUT_MS};
    struct mn_group *groups[CHANNELS] = {NULL};
    struct mn_plugin *plugins[CHANNELS] = {NULL};
    const char *token = getenv("MESHNET_TOKEN");
    enum mn_err err =
        !token || sodium_hex2bin(plan.token, sizeof plan.token, token, strlen(token), NULL, NULL,
                                 NULL)
            ? mn_fail(diag, MN_ERR_USAGE, "MESHNET_TOKEN: expected 32 hexadecimal digits")
            : MN_OK;
    int c = 0;

    for (; c < CHANNELS && !err; c++) {
        plan.port = (uint16_t)(atoi(argv[5]) + c);
        if (!c)
            err = mn_plugin_open(argv[1], 0, &plugins[0], diag);
        else
            plugins[c] = mn_plugin_context(plugins[0]);
        if (!err)
            err = channel(&plan, plugins[c], &groups[c], diag);
    }
    for (int phase = RING; phase < PHASES && !err; phase++) {
        if (phase == TREE_1)
            hold();
        for (c = 0; c < CHANNELS && !err; c++) {
            err = phase_of(groups[c], (enum phase)phase, diag);
            if (err)
                mn_group_fail(groups[c], err, diag);
            else
                printf("rank %d channel %d: %s\n", plan.rank, c, names[phase]);
        }
        fflush(stdout);
    }
    for (c = CHANNELS - 1; c >= 0; c--) {
        mn_group_leave(groups[c]);
        if (plugins[c])
            mn_plugin_close(plugins[c]);
    }
    return err;
}

int main(int argc, char **argv)
{
    struct mn_diag diag = {.text = ""};

    if (argc != 6 || atoi(argv[3]) < 3 || atoi(argv[3]) > 8) {
        fputs("usage: nccl_pairs LIBRARY RANK RANKS HOST PORT   (3 to 8 ranks)\n", stderr);
        return 2;
    }
    if (run(argv, &diag)) {
        fprintf(stderr, "rank %s: %s\n", argv[2], diag.text);
        return 1;
    }
    return 0;
}
