/* The built library's tuners, called as NCCL calls each version, on meshes of several shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/abi/tuner_abi.h"

#define CELLS (NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS)
#define GUARD 7
#define UNSET (-77)

static void *library;
static char folder[] = "/tmp/meshnet-tuner-XXXXXX", mesh_file[64], said[4096];
static int warnings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void listen_to(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                      const char *fmt, ...)
{
    va_list args;

    (void)flags, (void)file, (void)line;
    pthread_mutex_lock(&lock);
    warnings += level == NCCL_LOG_WARN;
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
    pthread_mutex_unlock(&lock);
}

/* --- meshes ----------------------------------------------------------------------------------- */

/* cables: "01 12 23 30"; each NIC a node has is the end of one, in Mb/s, 0: not said; tail: more of
 * the file. */
static void put_mesh(int n, const char *cables, int speed, const char *tail)
{
    FILE *file = fopen(mesh_file, "w");

    assert_non_null(file);
    fputs("version: 1\nnodes:\n", file);
    for (int node = 0; node < n; node++) {
        fprintf(file, "  - name: n%d\n    nics:\n", node);
        int cable = 0, nics = 0;
        for (const char *c = cables; *c; c += 2 + (c[2] == ' '), cable++)
            for (int e = 0; e < 2; e++)
                if (c[e] - '0' == node) {
                    fprintf(file,
                            "      - netdev: p%d\n        device: roce%d\n"
                            "        addresses: [10.0.%d.%d/30]\n",
                            nics, nics, cable, e + 1);
                    nics++;
                    if (speed)
                        fprintf(file, "        speed: %d\n", speed);
                }
    }
    fputs(tail, file);
    fclose(file);
}

static void write_mesh(int n, const char *cables, int speed, const char *tail)
{
    static int meshes;

    /* A process keeps what it has read: each mesh is another file. */
    (void)unlink(mesh_file);
    snprintf(mesh_file, sizeof mesh_file, "%s/mesh-%d.yaml", folder, ++meshes);
    assert_int_equal(setenv("MESHNET_CONFIG", mesh_file, 1), 0);
    put_mesh(n, cables, speed, tail);
}

#define RING4 "01 12 23 30"
#define LINE4 "01 12 23"
#define STAR4 "01 02 03"
#define FULL4 "01 02 03 12 13 23"

/* --- NCCL ------------------------------------------------------------------------------------- */

/* A communicator's tuner by one version. */
struct comm {
    int version;
    const ncclTuner_v2_t *v2;
    const ncclTuner_v3_t *v3;
    const ncclTuner_v4_t *v4;
    const ncclTuner_v5_t *v5;
    const ncclTuner_v6_t *v6;
    void *ctx;
    ncclTunerConstants_v5_t constants;
    ncclNvlDomainInfo_v5_t domains;
};

static void *symbol(int version)
{
    char name[32];

    snprintf(name, sizeof name, "ncclTunerPlugin_v%d", version);
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static ncclResult_t begin(struct comm *c, int version, size_t ranks, size_t nodes, int domains)
{
    *c = (struct comm){.version = version,
                       .domains = {domains, 1, 1},
                       .constants = {.baseLatencies = {{6.8, 14, 8.4}, {6.6, 14, 8.4}}}};
    c->constants.baseLatencies[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 8;
    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            c->constants.hwLatencies[NCCL_HW_NET][a][p] = p == NCCL_PROTO_LL      ? 2.7
                                                          : p == NCCL_PROTO_LL128 ? 4
                                                                                  : 14;
    switch (version) {
    case 2:
        c->v2 = symbol(2);
        return c->v2->init(ranks, nodes, listen_to, &c->ctx);
    case 3:
        c->v3 = symbol(3);
        return c->v3->init(ranks, nodes, listen_to, &c->ctx);
    case 4:
        c->v4 = symbol(4);
        return c->v4->init(ranks, nodes, listen_to, &c->ctx);
    case 5:
        c->v5 = symbol(5);
        return c->v5->init(&c->ctx, 7, ranks, nodes, listen_to, &c->domains, &c->constants);
    default:
        c->v6 = symbol(6);
        return c->v6->init(&c->ctx, 7, ranks, nodes, listen_to, &c->domains, &c->constants);
    }
}

static void end(struct comm *c)
{
    assert_int_equal(c->v2   ? c->v2->destroy(c->ctx)
                     : c->v3 ? c->v3->destroy(c->ctx)
                     : c->v4 ? c->v4->destroy(c->ctx)
                     : c->v5 ? c->v5->finalize(c->ctx)
                             : c->v6->finalize(c->ctx),
                     ncclSuccess);
}

static void ask(const struct comm *c, ncclFunc_t f, size_t bytes, float *table, int algorithms,
                int *channels)
{
    float **costs = (float **)(void *)table;

    assert_int_equal(c->v3 ? c->v3->getCollInfo(c->ctx, f, bytes, 1, costs, algorithms, 3, channels)
                     : c->v4 ? c->v4->getCollInfo(c->ctx, f, bytes, 1, costs, algorithms, 3, 0,
                                                  channels)
                     : c->v5 ? c->v5->getCollInfo(c->ctx, f, bytes, 1, costs, algorithms, 3, 0,
                                                  channels)
                             : c->v6->getCollInfo(c->ctx, f, bytes, 1, costs, algorithms, 3, 0,
                                                  channels),
                     ncclSuccess);
}

static int is_offered(ncclFunc_t f, int a, int p)
{
    return a == NCCL_ALGO_RING || (a == NCCL_ALGO_TREE && f == ncclFuncAllReduce) ||
           (a == NCCL_ALGO_NVLS_TREE && f == ncclFuncAllReduce && p == NCCL_PROTO_SIMPLE) ||
           (a == NCCL_ALGO_PAT && p == NCCL_PROTO_SIMPLE &&
            (f == ncclFuncAllGather || f == ncclFuncReduceScatter));
}

/* What NCCL would have there: trees and PAT a little better than the ring, all far too good for
 * these cables. */
static void fill(float *table, ncclFunc_t f, int algorithms)
{
    for (int i = 0; i < CELLS + GUARD; i++)
        table[i] = UNSET;
    for (int a = 0; a < algorithms; a++)
        for (int p = 0; p < 3; p++)
            table[a * 3 + p] = is_offered(f, a, p)
                                   ? 1 + (float)(a == NCCL_ALGO_RING) + (float)p / 10
                                   : NCCL_ALGO_PROTO_IGNORE;
}

static int best(const float *table, int algorithms)
{
    int at = -1;

    for (int i = 0; i < algorithms * 3; i++)
        if (table[i] >= 0 && (at < 0 || table[i] < table[at]))
            at = i;
    assert_true(at >= 0);
    return at;
}

static const int versions[] = {3, 4, 5, 6};
#define N_VERSIONS (sizeof versions / sizeof *versions)

/* What each version answers everywhere: nothing impossible becomes possible, something is left, and
 * nothing is written beyond the table. Trees and PAT are there where barred is 0. */
static void check_all(size_t ranks, size_t nodes, int domains, int barred)
{
    for (size_t v = 0; v < N_VERSIONS; v++) {
        struct comm c;
        assert_int_equal(begin(&c, versions[v], ranks, nodes, domains), ncclSuccess);
        for (int f = 0; f < NCCL_TUNER_NUM_FUNCTIONS; f++)
            for (int algorithms = 6; algorithms <= 7; algorithms++)
                for (size_t bytes = 0; bytes <= (size_t)1 << 41; bytes = bytes ? bytes * 8 : 1) {
                    float table[CELLS + GUARD];
                    int channels = 0;
                    fill(table, (ncclFunc_t)f, algorithms);
                    ask(&c, (ncclFunc_t)f, bytes, table, algorithms, &channels);
                    for (int i = 0; i < CELLS + GUARD; i++) {
                        int a = i / 3, offered = a < algorithms && i < CELLS &&
                                                 is_offered((ncclFunc_t)f, a, i % 3);
                        if (a >= algorithms || i >= CELLS)
                            assert_true(table[i] == UNSET);
                        else
                            assert_int_equal(table[i] >= 0,
                                             offered && (!barred || a == NCCL_ALGO_RING));
                    }
                    (void)best(table, algorithms);
                    assert_true(channels >= 0 && channels <= 1);
                }
        end(&c);
    }
}

static void check_same(size_t ranks, size_t nodes, int domains)
{
    for (size_t v = 0; v < N_VERSIONS; v++) {
        struct comm c;
        float before[CELLS + GUARD], after[CELLS + GUARD];
        int channels = 0;
        assert_int_equal(begin(&c, versions[v], ranks, nodes, domains), ncclSuccess);
        for (int f = 0; f < NCCL_TUNER_NUM_FUNCTIONS; f++) {
            fill(before, (ncclFunc_t)f, 7);
            memcpy(after, before, sizeof after);
            ask(&c, (ncclFunc_t)f, 1 << 20, after, 7, &channels);
            assert_memory_equal(before, after, sizeof after);
            assert_int_equal(channels, 0);
        }
        end(&c);
    }
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_barred(void **state)
{
    static const char *const shapes[] = {RING4, LINE4, STAR4, "01 12 23 30 02"};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        write_mesh(4, shapes[i], 100000, "");
        check_all(4, 4, 4, 1);
        check_all(32, 4, 4, 1);
        /* The same without speeds, from which nothing is predicted. */
        write_mesh(4, shapes[i], 0, "");
        check_all(4, 4, 0, 1);
    }
    write_mesh(6, "01 12 23 34 45 50", 100000, "");
    check_all(4, 4, 4, 1); /* some of them */
}

static void test_left_alone(void **state)
{
    (void)state;
    write_mesh(4, FULL4, 100000, "");
    check_same(4, 4, 4);
    check_same(3, 3, 3); /* of which all pairs have cables too */
    write_mesh(4, RING4, 100000, "");
    check_same(8, 1, 1);
    check_same(2, 2, 2); /* some of the nodes, joined alike by every algorithm */
    check_same(3, 3, 3);
    check_same(5, 5, 5); /* more than there are */
    write_mesh(4, RING4, 100000, "plugin: {tuner: false}\n");
    check_same(4, 4, 4);
    write_mesh(4, RING4, 100000, "");
    setenv("MESHNET_TUNER", "no", 1);
    check_same(4, 4, 4);
    unsetenv("MESHNET_TUNER");
}

static void test_nvlink_between_nodes(void **state)
{
    struct comm c;
    float before[CELLS + GUARD], after[CELLS + GUARD];
    int channels = 0;

    (void)state;
    write_mesh(4, RING4, 100000, "");
    for (int version = 5; version <= 6; version++) {
        assert_int_equal(begin(&c, version, 16, 4, 1), ncclSuccess);
        fill(before, ncclFuncAllReduce, 7);
        memcpy(after, before, sizeof after);
        ask(&c, ncclFuncAllReduce, 1 << 20, after, 7, &channels);
        assert_memory_equal(before, after, sizeof after);
        end(&c);
    }
}

/* Its user has forbidden rings: what is left is not taken away. */
static void test_only_trees(void **state)
{
    struct comm c;
    float table[CELLS + GUARD];
    int channels = 0;

    (void)state;
    write_mesh(4, RING4, 100000, "");
    for (size_t v = 0; v < N_VERSIONS; v++) {
        assert_int_equal(begin(&c, versions[v], 4, 4, 4), ncclSuccess);
        fill(table, ncclFuncAllReduce, 7);
        for (int p = 0; p < 3; p++)
            table[NCCL_ALGO_RING * 3 + p] = NCCL_ALGO_PROTO_IGNORE;
        ask(&c, ncclFuncAllReduce, 1 << 20, table, 7, &channels);
        for (int p = 0; p < 3; p++)
            assert_true(table[NCCL_ALGO_TREE * 3 + p] >= 0 &&
                        table[NCCL_ALGO_RING * 3 + p] == NCCL_ALGO_PROTO_IGNORE);
        end(&c);
    }
}

/* Version 2 has no table: a pair or nothing. */
static void choose(int nodes, ncclFunc_t f, size_t bytes, int collnet, int *algorithm,
                   int *protocol)
{
    struct comm c;
    int channels = 0;

    *algorithm = *protocol = NCCL_ALGO_UNDEF;
    assert_int_equal(begin(&c, 2, (size_t)nodes, (size_t)nodes, 0), ncclSuccess);
    assert_int_equal(c.v2->getCollInfo(c.ctx, f, bytes, collnet, 0, 1, algorithm, protocol,
                                       &channels),
                     ncclSuccess);
    assert_true(channels >= 0 && channels <= 1);
    end(&c);
}

static void test_v2(void **state)
{
    int a, p;

    (void)state;
    for (int speed = 0; speed <= 100000; speed += 100000) {
        write_mesh(4, RING4, speed, "");
        for (int f = 0; f < NCCL_TUNER_NUM_FUNCTIONS; f++) {
            choose(4, (ncclFunc_t)f, 1024, 0, &a, &p);
            assert_true(a == NCCL_ALGO_RING && p == NCCL_PROTO_LL);
            choose(4, (ncclFunc_t)f, 1 << 28, 0, &a, &p);
            assert_true(a == NCCL_ALGO_RING && p == NCCL_PROTO_SIMPLE);
            choose(4, (ncclFunc_t)f, 1024, 1, &a, &p);
            assert_true(a == NCCL_ALGO_UNDEF && p == NCCL_PROTO_UNDEF);
            choose(2, (ncclFunc_t)f, 1024, 0, &a, &p);
            assert_true(a == NCCL_ALGO_UNDEF && p == NCCL_PROTO_UNDEF);
        }
    }
    /* That release would not hold it against what its user has said. */
    setenv("NCCL_PROTO", "Simple", 1);
    choose(4, ncclFuncAllReduce, 1024, 0, &a, &p);
    assert_true(a == NCCL_ALGO_UNDEF && p == NCCL_PROTO_UNDEF);
    unsetenv("NCCL_PROTO");
    write_mesh(4, FULL4, 100000, "");
    choose(4, ncclFuncAllReduce, 1024, 0, &a, &p);
    assert_true(a == NCCL_ALGO_UNDEF && p == NCCL_PROTO_UNDEF);
}

/* A rank that went on without the file would decide otherwise than the others. */
static void test_wrong_file(void **state)
{
    struct comm c;

    (void)state;
    write_mesh(4, RING4, 100000, "nonsense: 1\n");
    for (int version = 2; version <= 6; version++) {
        warnings = 0;
        assert_int_equal(begin(&c, version, 4, 4, 4), ncclInvalidUsage);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(said, "nonsense"));
        assert_non_null(strstr(said, mesh_file));
        assert_null(c.ctx);
    }
    write_mesh(4, RING4, 100000, "");
    setenv("MESHNET_TUNER", "perhaps", 1);
    assert_int_equal(begin(&c, 6, 4, 4, 4), ncclInvalidUsage);
    assert_non_null(strstr(said, "MESHNET_TUNER"));
    unsetenv("MESHNET_TUNER");
    warnings = 0;
    assert_int_equal(begin(&c, 6, 4, 4, 4), ncclSuccess);
    assert_int_equal(warnings, 0);
    assert_non_null(strstr(said, "4 ranks on 4 nodes"));
    end(&c);
}

/* NCCL takes the tuner of the network's library without being told, where that is: other hosts may
 * have another, or none. */
static void test_not_asked(void **state)
{
    static const char *const values[] = {NULL, "", "none", "NONE"};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        write_mesh(4, RING4, 100000, "");
        unsetenv("NCCL_TUNER_PLUGIN");
        if (values[i])
            setenv("NCCL_TUNER_PLUGIN", values[i], 1);
        check_same(4, 4, 4);
        assert_non_null(strstr(said, "not asked: NCCL decides"));
        assert_non_null(strstr(said, "set NCCL_TUNER_PLUGIN=mesh on all ranks"));
        write_mesh(4, RING4, 100000, "nonsense: 1\n");
        check_same(4, 4, 4);
        setenv("MESHNET_CONFIG", "/nonexistent/mesh.yaml", 1);
        check_same(4, 4, 4);
    }
    setenv("NCCL_TUNER_PLUGIN", "mesh", 1);
    write_mesh(4, RING4, 100000, "");
    check_all(4, 4, 4, 1);
}

static void test_no_file(void **state)
{
    struct comm c;
    char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");

    (void)state;
    if (access("/etc/meshnet/mesh.yaml", F_OK) == 0)
        skip();
    home = home ? strdup(home) : NULL;
    xdg = xdg ? strdup(xdg) : NULL;
    setenv("HOME", folder, 1);
    setenv("XDG_CONFIG_HOME", folder, 1);
    unsetenv("MESHNET_CONFIG");
    for (int version = 2; version <= 6; version++) {
        warnings = 0;
        assert_int_equal(begin(&c, version, 4, 4, 4), ncclInvalidUsage);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(said, "this host has no mesh file"));
        assert_non_null(strstr(said, "meshnet push"));
        assert_non_null(strstr(said, "MESHNET_TUNER=false"));
        assert_null(c.ctx);
    }
    check_same(8, 1, 1); /* all of them are on this host */
    setenv("MESHNET_TUNER", "false", 1);
    check_same(4, 4, 4);
    unsetenv("MESHNET_TUNER");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    xdg ? setenv("XDG_CONFIG_HOME", xdg, 1) : unsetenv("XDG_CONFIG_HOME");
    free(home);
    free(xdg);
}

/* What is in one rank's environment, and an edit while a job runs. */
static void test_same_for_all(void **state)
{
    struct comm c;
    float before[CELLS + GUARD], after[CELLS + GUARD];
    int channels = 0;

    (void)state;
    write_mesh(4, RING4, 100000, "");
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            setenv("MESHNET_TRANSPORT", "tcp", 1);
        if (i == 2)
            put_mesh(4, FULL4, 10000, "");
        assert_int_equal(begin(&c, 6, 4, 4, 4), ncclSuccess);
        fill(after, ncclFuncAllReduce, 7);
        ask(&c, ncclFuncAllReduce, 1 << 20, after, 7, &channels);
        if (i)
            assert_memory_equal(before, after, sizeof after);
        memcpy(before, after, sizeof before);
        end(&c);
        unsetenv("MESHNET_TRANSPORT");
    }
}

/* A number that no release has asked for yet, and more algorithms and protocols than there are. */
static void test_unknown(void **state)
{
    struct comm c;
    float table[9 * 4];
    int channels = 0;

    (void)state;
    write_mesh(4, RING4, 100000, "");
    assert_int_equal(begin(&c, 6, 4, 4, 4), ncclSuccess);
    for (int f = -1; f < 20; f++) {
        for (int i = 0; i < 9 * 4; i++)
            table[i] = (float)(i + 1);
        assert_int_equal(c.v6->getCollInfo(c.ctx, (ncclFunc_t)f, SIZE_MAX, 1000,
                                           (float **)(void *)table, 9, 4, 1, &channels),
                         ncclSuccess);
        assert_true(table[NCCL_ALGO_TREE * 4] < 0 && table[NCCL_ALGO_PAT * 4] < 0);
        for (int i = 7 * 4; i < 9 * 4; i++)
            assert_true(table[i] == (float)(i + 1));
        assert_true(table[NCCL_ALGO_NVLS * 4 + 1] == NCCL_ALGO_NVLS * 4 + 2);
    }
    end(&c);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *communicator(void *arg)
{
    struct comm c;
    long sum = 0;

    for (int round = 0; round < 5; round++) {
        assert_int_equal(begin(&c, versions[(size_t)arg % N_VERSIONS], 4, 4, 4), ncclSuccess);
        for (size_t bytes = 1; bytes < (size_t)1 << 30; bytes *= 2) {
            float table[CELLS + GUARD];
            int channels = 0;
            fill(table, ncclFuncAllReduce, 7);
            ask(&c, ncclFuncAllReduce, bytes, table, 7, &channels);
            sum += best(table, 7);
        }
        end(&c);
    }
    return (void *)sum;
}

static void test_threads(void **state)
{
    pthread_t threads[N_VERSIONS * 2];
    void *first = NULL, *other;

    (void)state;
    write_mesh(4, RING4, 100000, "");
    for (size_t i = 0; i < N_VERSIONS * 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, communicator, (void *)i), 0);
    for (size_t i = 0; i < N_VERSIONS * 2; i++) {
        assert_int_equal(pthread_join(threads[i], &other), 0);
        /* All versions decide alike: the constants are those that older ones lack. */
        if (i)
            assert_ptr_equal(first, other);
        first = other;
    }
}

static int load(void **state)
{
    (void)state;
    library = dlopen(LIB_DIR "/libnccl-tuner-mesh.so", RTLD_NOW | RTLD_LOCAL);
    if (!library || !mkdtemp(folder))
        return -1;
    return setenv("NCCL_TUNER_PLUGIN", "mesh", 1);
}

static int unload(void **state)
{
    (void)state;
    dlclose(library);
    (void)unlink(mesh_file);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barred),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_nvlink_between_nodes),
        cmocka_unit_test(test_only_trees),
        cmocka_unit_test(test_v2),
        cmocka_unit_test(test_wrong_file),
        cmocka_unit_test(test_not_asked),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_same_for_all),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
