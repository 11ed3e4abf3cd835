/* The reference plugin passes every rule; each faulty copy fails the rule its row names; every rule
 * is the target of a fault. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/check.h"
#include "bench/check/rule.h"

/* ThreadSanitizer makes every rule many times slower: it gets those of the families that start
 * threads, and the first of every STRIDE versions, seeds and faults. Nothing here waits for
 * LIMIT_MS; it ends what hangs, and must not end what a busy machine is slow at. AddressSanitizer
 * gets every fourth version, and all else. */
#ifdef __SANITIZE_THREAD__
#define STRIDE   9
#define VERSIONS 9
#define WORKERS  4
#define WAITERS  6
#define LIMIT_MS 240000
#define FAMILIES "collnet connect device guest scenario thread transfer visible "
#else
#ifdef __SANITIZE_ADDRESS__
#define VERSIONS 4
#else
#define VERSIONS 1
#endif
#define STRIDE   1
#define WORKERS  6
#define WAITERS  10
#define LIMIT_MS 60000
#define FAMILIES "" /* all */
#endif

struct fault {
    const char *library;
    int version; /* driven, 0 = newest */
    const char *rule, *text;
};

static const struct fault faults[] = {
#define FAULT_ROW(name, version, rule, text) {"libnccl-net-fault-" #name, version, rule, text},
#include FAULTS_DEF
#undef FAULT_ROW
#define SECOND(name, version, scenario, rule, text)                                                \
    {"second/libnccl-net-second-" #name, version, rule, text},
#include SECOND_DEF
#undef SECOND
#define TUNER_ROW(name, version, rule, text)                                                       \
    {"tuner/libnccl-tuner-fault-" #name, version, rule, text},
#include TUNER_DEF
#undef TUNER_ROW
};

#define N_FAULTS  (sizeof faults / sizeof *faults)
#define MAX_RULES 400

static const struct mn_check_rule *find_rule(const char *id)
{
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++)
            if (strcmp(mn_check_families[f]->rules[r].id, id) == 0)
                return &mn_check_families[f]->rules[r];
    return NULL;
}

static struct mn_check_target target_of(const char *plugin, int version, unsigned limit_ms)
{
    /* All-reduce, all-to-all and broadcast of two ranks; see tests/fixtures/README.md. */
    static const char *const traces[] = {SOURCE_DIR "/tests/fixtures/traces/rank0",
                                         SOURCE_DIR "/tests/fixtures/traces/rank1"};
    struct mn_check_target target = {.version = version,
                                     .limit_ms = limit_ms,
                                     .traces = traces,
                                     .n_traces = 2};

    snprintf(target.path, sizeof target.path, "%s/%s.so", PLUGIN_DIR, plugin);
    return target;
}

static int takes_two(const char *library)
{
    return strstr(library, "-fault-TWO_") != NULL;
}

static struct mn_check_result run_on(const char *library, int version, const char *rule)
{
    struct mn_check_target target = target_of(library, version, 4000);
    struct mn_check_result result;
    struct mn_diag diag;

    target.two = takes_two(library);
    assert_non_null(find_rule(rule));
    assert_int_equal(mn_check_run(find_rule(rule), &target, &result, &diag), MN_OK);
    return result;
}

static struct mn_check_result run_fault(const char *name, int version, const char *rule)
{
    char library[128];

    snprintf(library, sizeof library, "libnccl-net-fault-%s", name);
    return run_on(library, version, rule);
}

/* Those of a family that have one process and apply to v12; returns their number. */
static size_t rules_of(const char *family, struct mn_check_job *jobs)
{
    size_t n = 0;

    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_families[f]->rules[r];
            if (strcmp(mn_check_families[f]->name, family) == 0 &&
                !(rule->flags & (MN_CHECK_PEER | MN_CHECK_ALONE)) && mn_check_applies(rule, 12))
                jobs[n++] = (struct mn_check_job){.family = mn_check_families[f], .rule = rule};
        }
    return n;
}

/* What the reference cannot show: it has no grouped receives in v4, and CollNet begins with v8. */
static int may_skip(const struct mn_check_rule *rule, int version)
{
    if (version == 4)
        return strncmp(rule->id, "group.", 6) == 0 || strcmp(rule->id, "request.full") == 0 ||
               strncmp(rule->id, "collnet.", 8) == 0;
    if (version < 8)
        return strncmp(rule->id, "collnet.", 8) == 0;
    return 0;
}

/* What takes long, and is the same in every version. */
static int once_is_enough(const struct mn_check_rule *rule)
{
    return rule->flags & MN_CHECK_PATIENT || strcmp(rule->id, "deliver.maximum") == 0;
}

static int is_ours(const struct mn_check_family *family)
{
    char word[32];

    snprintf(word, sizeof word, "%s ", family->name);
    return !*FAMILIES || strstr(FAMILIES, word) != NULL;
}

/* All rules that apply; deliver.maximum says itself that a machine is too slow for it. */
static void reference_passes(int version, uint64_t seed, unsigned flags)
{
    struct mn_check_target target = target_of("libnccl-net-ref", version, LIMIT_MS);
    struct mn_check_plan plan = {.target = &target, .parallel = WORKERS};
    struct mn_check_job jobs[MAX_RULES];
    struct mn_diag diag;
    size_t n = 0;
    int bad = 0;

    target.seed = seed;
    memset(jobs, 0, sizeof jobs);
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_families[f]->rules[r];
            if (mn_check_families[f]->interface != MN_CHECK_NET ||
                !mn_check_applies(rule, version) || (rule->flags & flags) != flags ||
                (!flags && !is_ours(mn_check_families[f])) ||
                (version != 12 && once_is_enough(rule)))
                continue;
            assert_true(n + 1 < MAX_RULES);
            jobs[n].family = mn_check_families[f];
            jobs[n++].rule = rule;
            if (!(rule->flags & MN_CHECK_ENDS))
                continue;
            jobs[n] = jobs[n - 1];
            jobs[n++].two = 1;
        }
    assert_true(n > 0);
    assert_int_equal(mn_check_run_all(&plan, jobs, n, &diag), MN_OK);
    for (size_t i = 0; i < n; i++) {
        const struct mn_check_result *result = &jobs[i].result;
        if (result->status == (may_skip(jobs[i].rule, version) ? MN_CHECK_SKIP : MN_CHECK_PASS) ||
            (result->status == MN_CHECK_SKIP && strcmp(jobs[i].rule->id, "deliver.maximum") == 0))
            continue;
        print_error("v%d %s%s seed %llu: %s: %s\n", version, jobs[i].rule->id,
                    jobs[i].two ? " in two processes" : "", (unsigned long long)seed,
                    mn_check_status_name(result->status), result->seen);
        bad++;
    }
    assert_int_equal(bad, 0);
}

static void test_reference_passes_in_every_version(void **state)
{
    (void)state;
    for (int version = 12; version >= 4; version -= VERSIONS)
        reference_passes(version, 1, 0);
}

static void test_reference_passes_with_any_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 2; seed < 8; seed += STRIDE)
        reference_passes(10, seed, MN_CHECK_RANDOM);
}

static void test_reference_tuner_passes_in_every_version(void **state)
{
    int bad = 0;

    (void)state;
    for (int version = MN_TUNER_NEWEST; version >= MN_TUNER_OLDEST; version -= VERSIONS) {
        struct mn_check_target target = target_of("tuner/libnccl-tuner-ref", version, LIMIT_MS);
        for (size_t r = 0; r < mn_check_tuner_family.n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_tuner_family.rules[r];
            struct mn_check_result result;
            struct mn_diag diag;
            assert_int_equal(mn_check_run(rule, &target, &result, &diag), MN_OK);
            if (result.status == (mn_check_applies(rule, version) ? MN_CHECK_PASS : MN_CHECK_SKIP))
                continue;
            print_error("tuner v%d %s: %s: %s\n", version, rule->id,
                        mn_check_status_name(result.status), result.seen);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static int is_found(const struct fault *fault)
{
    static const enum mn_check_status expected[] = {MN_CHECK_FAIL, MN_CHECK_WARN, MN_CHECK_NOTE};
    struct mn_check_result result = run_on(fault->library, fault->version, fault->rule);

    if (result.status == expected[find_rule(fault->rule)->grade] && result.seen[0])
        return 1;
    print_error("%s (%s): rule %s gave %s: %s\n", fault->library, fault->text, fault->rule,
                mn_check_status_name(result.status), result.seen);
    return 0;
}

/* WORKERS beside each other of every so many; some of the others ThreadSanitizer itself ends. */
static size_t stride(size_t n)
{
    return n / WORKERS * WORKERS * STRIDE + n % WORKERS;
}

/* Most of them wait: for a limit, or for something that never comes. */
static void test_faults_are_found(void **state)
{
    pid_t workers[WAITERS];
    atomic_size_t *next =
        mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, missed = 0;

    (void)state;
    assert_ptr_not_equal(next, MAP_FAILED);
    for (size_t w = 0; w < WAITERS; w++) {
        workers[w] = fork();
        assert_true(workers[w] >= 0);
        if (workers[w] > 0)
            continue;
        for (size_t i; (i = stride(atomic_fetch_add(next, 1))) < N_FAULTS;)
            missed += !is_found(&faults[i]);
        _exit(missed < 100 ? missed : 100);
    }
    for (size_t w = 0; w < WAITERS; w++) {
        assert_int_equal(waitpid(workers[w], &status, 0), workers[w]);
        assert_true(WIFEXITED(status));
        missed += WEXITSTATUS(status);
    }
    assert_int_equal(missed, 0);
}

/* Their rules, and all others of one process about connections, hold while both ends are here. */
static void test_one_process_hides_faults(void **state)
{
    static const char *const families[] = {"connect", "handshake", "transfer", "group", "close"};
    int bad = 0;

    (void)state;
    for (size_t i = 0; i < N_FAULTS; i += STRIDE) {
        struct mn_check_job jobs[MAX_RULES] = {{.version = 0}};
        struct mn_check_target target;
        struct mn_check_plan plan = {.target = &target, .parallel = WORKERS};
        struct mn_diag diag;
        size_t n = 0;
        if (!takes_two(faults[i].library))
            continue;
        for (size_t f = 0; f < sizeof families / sizeof *families; f++)
            n += rules_of(families[f], &jobs[n]);
        target = target_of(faults[i].library, 12, LIMIT_MS);
        assert_int_equal(mn_check_run_all(&plan, jobs, n, &diag), MN_OK);
        for (size_t j = 0; j < n; j++) {
            const struct mn_check_result *result = &jobs[j].result;
            if (result->status == MN_CHECK_PASS)
                continue;
            print_error("%s in one process: %s: %s: %s\n", faults[i].library, jobs[j].rule->id,
                        mn_check_status_name(result->status), result->seen);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static void test_every_rule_is_a_target(void **state)
{
    (void)state;
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const char *id = mn_check_families[f]->rules[r].id;
            size_t length = strlen(mn_check_families[f]->name), i = 0;
            assert_true(strncmp(id, mn_check_families[f]->name, length) == 0 && id[length] == '.');
            assert_ptr_equal(find_rule(id), &mn_check_families[f]->rules[r]);
            while (i < N_FAULTS && strcmp(faults[i].rule, id) != 0)
                i++;
            if (i == N_FAULTS)
                print_error("%s is the target of no fault\n", id);
            assert_true(i < N_FAULTS);
        }
}

/* As NCCL's own Socket does: beyond what NCCL ever has in flight an error, which no must is about.
 */
static void test_an_error_when_full_is_no_failure(void **state)
{
    struct mn_check_result result = run_fault("FULL_IS_ERROR", 0, "request.written");

    (void)state;
    assert_int_equal(result.status, MN_CHECK_PASS);
    result = run_fault("FULL_IS_ERROR", 0, "request.outstanding");
    assert_int_equal(result.status, MN_CHECK_PASS);
    result = run_fault("FULL_IS_ERROR", 0, "request.backpressure");
    assert_int_equal(result.status, MN_CHECK_WARN);
}

static void test_a_hang_names_limit_and_step(void **state)
{
    struct mn_check_result result = run_fault("TEST_HANGS", 0, "transfer.test_returns");

    (void)state;
    assert_true(result.timed_out);
    assert_non_null(strstr(result.seen, "4 s"));
    assert_non_null(strstr(result.seen, "test of a receive"));
}

static void test_a_crash_names_signal_and_step(void **state)
{
    struct mn_check_result result = run_fault("CLOSE_CRASHES", 0, "close.idle");

    (void)state;
    assert_int_equal(result.signal, SIGABRT);
    assert_non_null(strstr(result.seen, "SIGABRT"));
    assert_non_null(strstr(result.seen, "closeSend"));
}

static void test_plugin_warnings_travel(void **state)
{
    struct mn_check_result result = run_fault("SELF_REFUSED", 0, "connect.self");

    (void)state;
    assert_int_equal(result.n_log, 1);
    assert_string_equal(result.log[0], "ref: cannot connect to this very process");
}

static void test_probe(void **state)
{
    struct mn_check_target target = target_of("libnccl-net-ref", 0, 1000);
    struct mn_check_info info;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_check_probe(&target, &info, &diag), MN_OK);
    assert_string_equal(info.versions, "v12 v11 v10 v9 v8 v7 v6 v5 v4");
    assert_string_equal(info.name, "ref");
    assert_int_equal(info.version, 12);
    target = target_of("libnccl-net-fault-CRASH_AT_LOAD", 0, 1000);
    assert_int_equal(mn_check_probe(&target, &info, &diag), MN_OK);
    assert_string_equal(info.path, "");
    target = target_of("no-such-library", 0, 1000);
    assert_int_equal(mn_check_probe(&target, &info, &diag), MN_ERR_NOTFOUND);
    snprintf(target.path, sizeof target.path, "%s", __FILE__);
    assert_int_not_equal(mn_check_probe(&target, &info, &diag), MN_OK);
}

/* For the rule that compares devices with it. */
static int write_mesh_file(char *path, size_t size)
{
    static const char text[] = "version: 1\n"
                               "nodes:\n"
                               "  - name: here\n"
                               "    nics:\n"
                               "      - {netdev: none0, addresses: [10.9.0.1/30], speed: 100000}\n"
                               "      - {netdev: none1, addresses: [10.9.1.1/30], speed: 100000}\n";
    int fd, written;

    snprintf(path, size, "/tmp/check_test-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0)
        return 0;
    written = write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1;
    close(fd);
    return written && !setenv("MESHNET_CONFIG", path, 1) && !setenv("MESHNET_NODE", "here", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule_is_a_target),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_reference_passes_in_every_version),
        cmocka_unit_test(test_reference_passes_with_any_seed),
        cmocka_unit_test(test_reference_tuner_passes_in_every_version),
        cmocka_unit_test(test_faults_are_found),
        cmocka_unit_test(test_an_error_when_full_is_no_failure),
        cmocka_unit_test(test_one_process_hides_faults),
        cmocka_unit_test(test_a_hang_names_limit_and_step),
        cmocka_unit_test(test_a_crash_names_signal_and_step),
        cmocka_unit_test(test_plugin_warnings_travel),
    };

    char path[64];
    int failed = 1;

    if (write_mesh_file(path, sizeof path))
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
