#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "cli/results.h"

#define HEAD "{\"schema\": \"meshnet-results\", \"schema_version\": 1, "

static enum mn_err parse(const char *text, struct mn_results *results, struct mn_diag *diag)
{
    return mn_results_parse("x.json", text, strlen(text), results, diag);
}

static void what_is_read(void **state)
{
    static const struct {
        const char *text;
        enum mn_results_kind kind;
    } rows[] = {
        {HEAD "\"kind\": \"link\", \"environment\": [], \"latency\": []}", MN_RESULTS_LINK},
        {HEAD "\"kind\": \"link\", \"environment\": [{}], \"results\": [{\"size\": 8}]}\n",
         MN_RESULTS_LINK},
        {HEAD "\"kind\": \"link\", \"environment\": [], \"bursts\": []}", MN_RESULTS_LINK},
        {HEAD "\"kind\": \"collectives\", \"environment\": [], \"collectives\": []}",
         MN_RESULTS_COLLECTIVES},
        {HEAD "\"kind\": \"matrix\", \"environment\": [], \"cells\": [], \"findings\": []}",
         MN_RESULTS_MATRIX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_results results;
        struct mn_diag diag;
        assert_int_equal(parse(rows[i].text, &results, &diag), MN_OK);
        assert_int_equal(results.kind, rows[i].kind);
        mn_results_free(&results);
    }
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "x.json:1:1: not JSON"},
        {"{\n  \"a\": tru\n}", "x.json:2:8: not JSON"},
        {HEAD "\"kind\": \"link\", \"environment\": [], \"latency\": []}\n}", "x.json:2:1: not"},
        {"[]", "'absent'"},
        {"{\"schema\": 5}", "'absent'"},
        {"{\"schema\": \"iperf\"}", "'iperf'"},
        {"{\"schema\": \"meshnet-results\", \"schema_version\": 2, \"meshnet\": \"9.1\"}",
         "\"schema_version\" is 2, this meshnet reads 1; use the meshnet that wrote it, '9.1'"},
        {HEAD "\"kind\": \"cake\"}", "'cake'; expected link, collectives or matrix"},
        {HEAD "\"kind\": \"link\", \"results\": []}", "no \"environment\""},
        {HEAD "\"kind\": \"link\", \"environment\": {}}", "\"environment\" is not a list"},
        {HEAD "\"kind\": \"link\", \"environment\": []}", "no \"results\""},
        {HEAD "\"kind\": \"matrix\", \"environment\": [], \"cells\": [{}, 4]}",
         "entry 2 of \"cells\" is not an object"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_results results;
        struct mn_diag diag = {.text = ""};
        assert_int_equal(parse(rows[i].text, &results, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, rows[i].why));
        assert_memory_equal(diag.text, "x.json:", 7);
        mn_results_free(&results);
    }
    struct mn_results results;
    struct mn_diag diag;
    assert_int_equal(mn_results_read("/nonexistent/x", &results, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "/nonexistent/x"));
    mn_results_free(&results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
