#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plugin/tuner/tuning_impl.h"
#include "topo/base/alloc.h"

/* --- life ------------------------------------------------------------------------------------- */

struct making {
    const struct mn_mesh *mesh;
    const struct mn_tuning_asked *asked;
    struct mn_tuning *tuner;
};

static void make(void *arg)
{
    struct making *m = arg;
    struct mn_fabric own = {.n = 0};
    const struct mn_fabric *fabric = m->asked->measured ? m->asked->measured : &own;

    if (m->mesh && fabric == &own)
        mn_fabric_from_mesh(m->mesh, &own);
    mn_tuning_decide(m->mesh, m->asked, fabric, m->tuner);
    if (m->tuner->rule == MN_TUNING_CABLES || m->tuner->rule == MN_TUNING_UNEQUAL ||
        (m->asked->everything && m->tuner->rule == MN_TUNING_COMPLETE))
        mn_tuning_predict(fabric, m->asked, m->tuner);
    mn_fabric_free(&own);
}

enum mn_err mn_tuning_make(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                           struct mn_tuning **tuner, struct mn_diag *diag)
{
    struct making m = {.mesh = mesh, .asked = asked, .tuner = calloc(1, sizeof **tuner)};

    *tuner = NULL;
    if (!m.tuner)
        return mn_fail(diag, MN_ERR_NOMEM, "out of memory for the tuner");
    m.tuner->ranks = (int)asked->ranks;
    m.tuner->nodes = (int)asked->nodes;
    enum mn_err err = mn_memory_try(make, &m, diag);
    if (err)
        mn_tuning_free(m.tuner);
    else
        *tuner = m.tuner;
    return err;
}

static int is_set(const char *name)
{
    const char *text = getenv(name);

    return text && *text;
}

static int is_asked_for(void)
{
    return is_set("NCCL_TUNER_PLUGIN") && strcasecmp(getenv("NCCL_TUNER_PLUGIN"), "none") != 0;
}

enum mn_err mn_tuning_heed(struct mn_settings *settings, struct mn_diag *diag)
{
    struct mn_settings all = *settings;
    enum mn_err err = mn_settings_from_env(&all, diag);

    settings->tuner = all.tuner;
    return err;
}

static enum mn_err lacks_mesh(struct mn_diag *diag)
{
    return mn_fail(
        diag, MN_ERR_CONFIG,
        "NCCL_TUNER_PLUGIN asks for meshnet's tuner, and this host has no mesh file: other "
        "ranks would decide otherwise, and all would hang. Put it here (meshnet push), or "
        "on all ranks unset NCCL_TUNER_PLUGIN or set MESHNET_TUNER=false");
}

/* mesh: that of the process, NULL where it has none. */
static enum mn_err open_by(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                           struct mn_tuning **tuner, struct mn_diag *diag)
{
    struct mn_mesh own; /* with settings of its own, the rest is the other's */

    mn_mesh_init(&own);
    if (mesh)
        own = *mesh;
    enum mn_err err = mn_tuning_heed(&own.settings, diag);
    if (err)
        return err;
    if (!mesh && own.settings.tuner && asked->nodes > 1)
        return lacks_mesh(diag);
    return mn_tuning_make(&own, asked, tuner, diag);
}

enum mn_err mn_tuning_open(const struct mn_tuning_asked *asked, struct mn_tuning **tuner,
                           struct mn_diag *diag)
{
    const struct mn_mesh *mesh = NULL;
    enum mn_err err;

    *tuner = NULL;
    if (!is_asked_for()) {
        err = mn_tuning_make(NULL, asked, tuner, diag);
        if (!err)
            (*tuner)->rule = MN_TUNING_UNASKED;
        return err;
    }
    err = mn_tuning_mesh(&mesh, diag);
    if (!err)
        err = open_by(mesh, asked, tuner, diag);
    if (err)
        return err;
    (*tuner)->user_chose = is_set("NCCL_ALGO") || is_set("NCCL_PROTO");
    if ((*tuner)->rule >= MN_TUNING_UNEQUAL)
        mn_tuning_has_acted();
    return MN_OK;
}

void mn_tuning_free(struct mn_tuning *tuner)
{
    if (tuner)
        free(tuner->order);
    free(tuner);
}

/* --- questions -------------------------------------------------------------------------------- */

/* Which of ours it is; MN_TUNING_WAYS: none. */
static enum mn_tuning_way way_of(int algorithm)
{
    return algorithm == NCCL_ALGO_RING   ? MN_TUNING_RING
           : algorithm == NCCL_ALGO_TREE ? MN_TUNING_TREE
           : algorithm == NCCL_ALGO_PAT  ? MN_TUNING_PAT
                                         : MN_TUNING_WAYS;
}

/* Of two powers of two the lower one. */
static int log2_of(double bytes)
{
    unsigned long long whole = bytes >= 0x1p62 ? 1ull << 62 : (unsigned long long)bytes;
    int k = whole ? 63 - __builtin_clzll(whole) : 0;

    return k < MN_TUNING_SIZES - 1 ? k : MN_TUNING_SIZES - 2;
}

/* Between two powers of two the time grows evenly, and so it does beyond the last. */
static double time_at(const float times[MN_TUNING_SIZES], double bytes)
{
    int k = log2_of(bytes);
    double low = (double)(1ull << k), part = bytes > low ? (bytes - low) / low : 0;

    return times[k] + part * (times[k + 1] - times[k]);
}

/* Bytes on the wire for one of the data's: LL carries a flag with each word, LL128 eight bytes in
 * 128. */
static const double weight[NCCL_NUM_PROTOCOLS] =
    {[NCCL_PROTO_LL] = 2, [NCCL_PROTO_LL128] = 128.0 / 120, [NCCL_PROTO_SIMPLE] = 1};

double mn_tuning_time(const struct mn_tuning *t, int function, size_t bytes, int pipelined,
                      int algorithm, int protocol)
{
    enum mn_tuning_way way = way_of(algorithm);

    if (!t->predicts || way == MN_TUNING_WAYS || function < 0 ||
        function >= NCCL_TUNER_NUM_FUNCTIONS || protocol < 0 || protocol >= NCCL_NUM_PROTOCOLS)
        return -1;
    const float *times = t->times[function][way];
    if (times[0] <= 0)
        return -1;
    /* What a ring's collectives of one group have in common is the bandwidth: NCCL's rule. */
    int turns = way == MN_TUNING_RING && pipelined > 1 ? pipelined : 1;
    double once = t->protocol[function][way][protocol] + times[0];
    return turns * once + time_at(times, (double)bytes * weight[protocol]) - times[0];
}

static int any_ring(const float *table, int algorithms, int protocols)
{
    for (int p = 0; p < protocols && algorithms > NCCL_ALGO_RING; p++)
        if (table[NCCL_ALGO_RING * protocols + p] >= 0)
            return 1;
    return 0;
}

/* NCCL takes the lowest that is not negative, of equal ones the first. */
static int lowest(const float *table, int cells)
{
    int best = -1;

    for (int i = 0; i < cells; i++)
        if (table[i] >= 0 && (best < 0 || table[i] < table[best]))
            best = i;
    return best;
}

static void set_channels(const struct mn_tuning *t, int function, size_t bytes, int algorithm,
                         int *channels)
{
    enum mn_tuning_way way = way_of(algorithm);

    if (way != MN_TUNING_WAYS && t->one_channel[function][way][log2_of((double)bytes)])
        *channels = 1;
}

void mn_tuning_costs(const struct mn_tuning *t, int function, size_t bytes, int pipelined,
                     float *table, int algorithms, int protocols, int *channels)
{
    if (t->rule < MN_TUNING_UNEQUAL)
        return;
    unsigned barred = any_ring(table, algorithms, protocols) ? t->barred : 0;

    for (int a = 0; a < algorithms; a++)
        for (int p = 0; p < protocols; p++) {
            float *cell = &table[a * protocols + p];
            if (!(*cell >= 0))
                continue;
            double ours = mn_tuning_time(t, function, bytes, pipelined, a, p);
            if (a < NCCL_NUM_ALGORITHMS && (barred & (1u << a)))
                *cell = NCCL_ALGO_PROTO_IGNORE;
            else if (ours > *cell)
                *cell = (float)ours;
        }
    int best = lowest(table, algorithms * protocols);
    if (t->predicts && best >= 0 && function >= 0 && function < NCCL_TUNER_NUM_FUNCTIONS)
        set_channels(t, function, bytes, best / protocols, channels);
}

#define LL_MOST (64u << 10) /* bytes, where nothing is predicted */

/* The ring with LL or Simple, which every GPU has: NCCL 2.21 takes what it is told unchecked, even
 * against what its user forbids. */
void mn_tuning_choose(const struct mn_tuning *t, int function, size_t bytes, int pipelined,
                      int collnet, int *algorithm, int *protocol, int *channels)
{
    if (!t->barred || t->user_chose || collnet || function < 0 ||
        function >= NCCL_TUNER_NUM_FUNCTIONS)
        return;
    double ll = mn_tuning_time(t, function, bytes, pipelined, NCCL_ALGO_RING, NCCL_PROTO_LL),
           simple =
               mn_tuning_time(t, function, bytes, pipelined, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE);
    *algorithm = NCCL_ALGO_RING;
    int is_short = t->predicts ? ll < simple : bytes <= LL_MOST;
    *protocol = is_short ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE;
    if (t->predicts)
        set_channels(t, function, bytes, NCCL_ALGO_RING, channels);
}
