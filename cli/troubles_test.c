#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "cli/troubles.h"

static const struct mn_trouble_rule crossed = {"crossed", MN_SEVERITY_ERROR, "cables crossed",
                                               "Each goes where the other should."};
static const struct mn_trouble_rule slow = {"slow", MN_SEVERITY_WARNING, "one side slower",
                                            "It trained down."};

static void add(struct mn_troubles *list, const struct mn_trouble_rule *rule, const char *where,
                const char *fix)
{
    struct mn_trouble *t = mn_trouble_add(list, rule, "%s", where);

    snprintf(t->seen, sizeof t->seen, "this");
    snprintf(t->fix, sizeof t->fix, "%s", fix);
}

static char *printed(const struct mn_troubles *list, enum mn_out_format format)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_out *out = mn_out_new(file, format);

    mn_troubles_print(out, list);
    mn_troubles_print_to_do(out, list);
    assert_int_equal(mn_out_free(out), 0);
    fclose(file);
    return text;
}

static void test_text(void **state)
{
    struct mn_troubles list = {0};
    char *text = printed(&list, MN_OUT_TEXT);

    (void)state;
    assert_string_equal(text, "No findings.\n");
    free(text);
    add(&list, &slow, "a - b", "reseat it");
    add(&list, &slow, "a - c", "reseat it");
    add(&list, &slow, "a - c", "reseat it");
    add(&list, &crossed, "b - c", "");
    mn_troubles_sort(&list);
    text = printed(&list, MN_OUT_TEXT);
    assert_string_equal(text, "Findings: 1 error, 3 warnings\n"
                              "error: b - c: cables crossed\n"
                              "  seen      this\n"
                              "  Each goes where the other should.\n"
                              "warning: a - b: one side slower\n"
                              "  seen      this\n"
                              "  fix       reseat it\n"
                              "warning: a - c: one side slower\n"
                              "  seen      this\n"
                              "  fix       reseat it\n"
                              "warning: a - c: one side slower\n"
                              "  seen      this\n"
                              "  fix       reseat it\n"
                              "  It trained down.\n"
                              "What to do, worst first\n"
                              "  1. a - b: reseat it\n"
                              "  2. a - c: reseat it\n");
    free(text);
    mn_troubles_free(&list);
}

static void test_json(void **state)
{
    struct mn_troubles list = {0};

    (void)state;
    add(&list, &slow, "a - b", "reseat it");
    char *text = printed(&list, MN_OUT_JSON);
    cJSON *json = cJSON_Parse(text);
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "findings"), 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "id")), "slow");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "severity")), "warning");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "expected")));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "to_do")), 1);
    cJSON_Delete(json);
    free(text);
    mn_troubles_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
