/* The reference plugin passes every rule; each faulty copy fails the rule its row names; every rule
 * is the target of a fault. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/check.h"

struct fault {
    const char *name;
    int version; /* driven, 0 = newest */
    const char *rule, *text;
};

static const struct fault faults[] = {
#define FAULT_ROW(name, version, rule, text) {#name, version, rule, text},
#include FAULTS_DEF
#undef FAULT_ROW
};

#define N_FAULTS (sizeof faults / sizeof *faults)

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
    struct mn_check_target target = {.version = version, .limit_ms = limit_ms};

    snprintf(target.path, sizeof target.path, "%s/%s.so", PLUGIN_DIR, plugin);
    return target;
}

static struct mn_check_result run_fault(const char *name, int version, const char *rule)
{
    char plugin[128];
    struct mn_check_target target;
    struct mn_check_result result;
    struct mn_diag diag;

    snprintf(plugin, sizeof plugin, "libnccl-net-fault-%s", name);
    target = target_of(plugin, version, 4000);
    assert_non_null(find_rule(rule));
    assert_int_equal(mn_check_run(find_rule(rule), &target, &result, &diag), MN_OK);
    return result;
}

static void reference_passes(int version)
{
    struct mn_check_target target = target_of("libnccl-net-ref", version, 60000);
    int bad = 0;

    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_families[f]->rules[r];
            struct mn_check_result result;
            struct mn_diag diag;
            int v8_skip = version == 8 && (strcmp(rule->id, "device.p2p_bytes") == 0 ||
                                           strcmp(rule->id, "device.vprops") == 0 ||
                                           strcmp(rule->id, "request.optional") == 0);
            assert_int_equal(mn_check_run(rule, &target, &result, &diag), MN_OK);
            if (result.status == (v8_skip ? MN_CHECK_SKIP : MN_CHECK_PASS))
                continue;
            print_error("v%d %s: %s: %s\n", version, rule->id, mn_check_status_name(result.status),
                        result.seen);
            bad++;
        }
    assert_int_equal(bad, 0);
}

static void test_reference_v10(void **state)
{
    (void)state;
    reference_passes(10);
}

static void test_reference_v9(void **state)
{
    (void)state;
    reference_passes(9);
}

static void test_reference_v8(void **state)
{
    (void)state;
    reference_passes(8);
}

static void test_faults_are_found(void **state)
{
    int missed = 0;

    (void)state;
    for (size_t i = 0; i < N_FAULTS; i++) {
        struct mn_check_result result =
            run_fault(faults[i].name, faults[i].version, faults[i].rule);
        /* A stray symbol is a warning by design. */
        enum mn_check_status wanted =
            strcmp(faults[i].rule, "load.exports") == 0 ? MN_CHECK_WARN : MN_CHECK_FAIL;
        if (result.status != wanted || !result.seen[0]) {
            print_error("%s (%s): rule %s gave %s: %s\n", faults[i].name, faults[i].text,
                        faults[i].rule, mn_check_status_name(result.status), result.seen);
            missed++;
        }
    }
    assert_int_equal(missed, 0);
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
    assert_string_equal(info.versions, "v10 v9 v8");
    assert_string_equal(info.name, "ref");
    assert_int_equal(info.version, 10);
    target = target_of("libnccl-net-fault-CRASH_AT_LOAD", 0, 1000);
    assert_int_equal(mn_check_probe(&target, &info, &diag), MN_OK);
    assert_string_equal(info.path, "");
    target = target_of("no-such-library", 0, 1000);
    assert_int_equal(mn_check_probe(&target, &info, &diag), MN_ERR_NOTFOUND);
    snprintf(target.path, sizeof target.path, "%s", __FILE__);
    assert_int_not_equal(mn_check_probe(&target, &info, &diag), MN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule_is_a_target),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_reference_v10),
        cmocka_unit_test(test_reference_v9),
        cmocka_unit_test(test_reference_v8),
        cmocka_unit_test(test_faults_are_found),
        cmocka_unit_test(test_a_hang_names_limit_and_step),
        cmocka_unit_test(test_a_crash_names_signal_and_step),
        cmocka_unit_test(test_plugin_warnings_travel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
