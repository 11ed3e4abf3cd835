/* Each rule's grade rests on evidence: a must names a release that is known here, and the call. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/check.h"
#include "bench/check/profile.h"

#define MUST                                                                                       \
    "^(NCCL [0-9]+\\.[0-9]+|RCCL of ROCm [0-9]+) ([a-z0-9_]+/)*[a-z0-9_]+\\.(cc|h), "              \
    "[A-Za-z0-9_]{5,}.*: .{20,}$"

/* Broken by NCCL's own transports, and no call of NCCL breaks by it. */
static const char *const broken_by_nccl[] = {
    "connect.bad_handle",    "handshake.closed_listen", "request.backpressure",
    "transfer.too_long",     "device.dmabuf",           "device.agrees",
    "death.sender_vanished", "death.receiver_vanished", "context.finalize_descriptors",
};

static int matches(const char *text, const char *pattern)
{
    regex_t regex;

    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

/* NULL, or what is wrong. */
static const char *must_problem(const struct mn_check_rule *rule, enum mn_check_interface of)
{
    const struct mn_check_profile *profile;
    struct mn_diag diag;
    int applies = 0;

    if (!matches(rule->evidence, MUST))
        return "evidence is not \"RELEASE FILE, FUNCTION: what it does\"";
    if (!rule->profile || mn_check_profile_find(rule->profile, &profile, &diag) != MN_OK)
        return "profile is none";
    const int tuner = of == MN_CHECK_TUNER;
    const int newest = tuner ? profile->newest_tuner : profile->newest;
    for (int v = tuner ? profile->oldest_tuner : profile->oldest; v <= newest; v++)
        applies |= mn_check_applies(rule, v);
    if (!applies)
        return "the profile's release drives no version that the rule applies to";
    if (rule->dialect && !(profile->dialect & rule->dialect))
        return "the profile's release does not do this";
    return NULL;
}

static const char *problem(const struct mn_check_rule *rule, enum mn_check_interface of)
{
    if (!rule->breaks || strlen(rule->breaks) < 20)
        return "does not say what breaks";
    if (!rule->evidence || strlen(rule->evidence) < 20)
        return "has no evidence";
    if (rule->grade == MN_CHECK_MUST)
        return must_problem(rule, of);
    return rule->profile ? "has a profile and is no must" : NULL;
}

static void test_every_grade_has_its_evidence(void **state)
{
    int bad = 0, musts = 0;

    (void)state;
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_families[f]->rules[r];
            const char *why = problem(rule, mn_check_families[f]->interface);
            musts += rule->grade == MN_CHECK_MUST;
            if (why)
                print_error("%s: %s: %s\n", rule->id, why, rule->evidence ? rule->evidence : "");
            bad += why != NULL;
        }
    assert_int_equal(bad, 0);
    assert_true(musts > 100);
}

static const struct mn_check_rule *find(const char *id)
{
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++)
            if (strcmp(mn_check_families[f]->rules[r].id, id) == 0)
                return &mn_check_families[f]->rules[r];
    return NULL;
}

static void test_what_nccl_breaks_is_no_must(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken_by_nccl / sizeof *broken_by_nccl; i++) {
        const struct mn_check_rule *rule = find(broken_by_nccl[i]);
        assert_non_null(rule);
        assert_int_equal(rule->grade, MN_CHECK_SHOULD);
    }
    /* Its Socket reports an error where the rule once asked for more than NCCL has in flight. */
    assert_int_equal(find("request.written")->grade, MN_CHECK_MUST);
    assert_non_null(strstr(find("request.written")->evidence, "sendProxyProgress"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_grade_has_its_evidence),
        cmocka_unit_test(test_what_nccl_breaks_is_no_must),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
