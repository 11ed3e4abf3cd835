#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "topo/base/err.h"
#include "topo/base/out.h"
#include "topo/base/width.h"

static void document(FILE *file, enum mn_out_format format)
{
    static const struct mn_col cols[] = {{"name", "NAME", 0},
                                         {"n", "N", 1},
                                         {"odd", NULL, 1},
                                         {"note", "NOTE", 0}};
    struct mn_out *out = mn_out_new(file, format);

    mn_out_begin(out, "host", "Host");
    mn_out_str(out, "name", "name", "a");
    mn_out_int(out, "big", NULL, INT64_MAX);
    mn_out_num(out, "nan", "nan", NAN, 1);
    mn_out_bool(out, "ok", "ok", 1);
    mn_out_end(out);
    mn_out_table(out, "rows", NULL, cols, 4);
    mn_out_row(out);
    mn_out_cell(out, "übel");
    mn_out_cell_int(out, 7);
    mn_out_cell_bool(out, 1);
    mn_out_cell(out, "x,\"y\"");
    mn_out_row(out);
    mn_out_cell(out, "b");
    mn_out_cell_num(out, 12.345, 2);
    mn_out_cell_bool(out, -1);
    mn_out_cell(out, NULL);
    mn_out_table_end(out);
    mn_out_note(out, MN_RED, "end");
    assert_int_equal(mn_out_free(out), 0);
}

static char *text_of(enum mn_out_format format)
{
    char *text;
    size_t len;
    FILE *file = tmpfile();

    document(file, format);
    len = (size_t)ftell(file);
    rewind(file);
    text = calloc(1, len + 1);
    assert_int_equal(fread(text, 1, len, file), len);
    fclose(file);
    return text;
}

static void test_text(void **state)
{
    char *text = text_of(MN_OUT_TEXT);

    (void)state;
    assert_string_equal(text, "Host\n"
                              "  name: a\n"
                              "  nan: -\n"
                              "  ok: yes\n"
                              "NAME      N  NOTE\n"
                              "übel      7  x,\"y\"\n"
                              "b     12.35  -\n"
                              "end\n");
    free(text);
}

/* What a table of three columns is in so many columns of a terminal. */
static void expect_table(int columns, const char *expected)
{
    static const struct mn_col cols[] = {
        {"name", "name", 0},
        {"a", "first", 1 | MN_DROP(2)},
        {"b", "second", 1 | MN_DROP(1)},
        {"c", "third", 1},
        {"why", "why", 0},
    };
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_out *out = mn_out_new(file, MN_OUT_TEXT);

    mn_out_width(out, columns);
    mn_out_table(out, "rows", NULL, cols, 5);
    mn_out_row(out);
    mn_out_cell(out, "one");
    mn_out_cell_int(out, 1);
    mn_out_cell_int(out, 2);
    mn_out_cell_int(out, 3);
    mn_out_cell(out, "the cable is out, broken, or the other end is off");
    mn_out_row(out);
    mn_out_cell(out, "two");
    for (int i = 0; i < 3; i++)
        mn_out_cell(out, NULL);
    mn_out_cell(out, NULL);
    mn_out_table_end(out);
    mn_out_free(out);
    fclose(file);
    assert_string_equal(text, expected);
    free(text);
}

static void test_narrow(void **state)
{
    static const char whole[] =
        "name  first  second  third  why\n"
        "one       1       2      3  the cable is out, broken, or the other end is off\n"
        "two       -       -      -  -\n";

    (void)state;
    expect_table(0, whole);
    expect_table(77, whole);
    expect_table(76, "name  first  third  why\n"
                     "one       1      3  the cable is out, broken, or the other end is off\n"
                     "two       -      -  -\n"
                     "(no room for: second; --wide shows all)\n");
    expect_table(62, "name  third  why\n"
                     "one       3  the cable is out, broken, or the other end is off\n"
                     "two       -  -\n"
                     "(no room for: second, first; --wide shows all)\n");
    expect_table(40, "name  third  why\n"
                     "one       3  the cable is out, broken,\n"
                     "             or the other end is off\n"
                     "two       -  -\n"
                     "(no room for: second, first; --wide shows all)\n");
}

/* What holds nothing goes first. */
static void test_empty_column(void **state)
{
    static const struct mn_col cols[] = {{"from", "from", 0},
                                         {"a", "alpha", 1 | MN_DROP(1)},
                                         {"b", "beta", 1},
                                         {"c", "gamma", 0}};
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_out *out = mn_out_new(file, MN_OUT_TEXT);

    (void)state;
    mn_out_width(out, 19);
    mn_out_table(out, "rows", NULL, cols, 4);
    for (int row = 0; row < 2; row++) {
        mn_out_row(out);
        for (int i = 0; i < 3; i++)
            mn_out_cell_int(out, i);
        mn_out_cell(out, NULL);
    }
    mn_out_table_end(out);
    mn_out_free(out);
    fclose(file);
    assert_string_equal(text, "from  alpha  beta\n"
                              "0         1     2\n"
                              "0         1     2\n"
                              "(no room for: gamma; --wide shows all)\n");
    free(text);
}

/* Nothing of it may go: it comes in parts. */
static void test_parts(void **state)
{
    static const struct mn_col cols[] = {{"from", "from", 0},
                                         {"a", "alpha", 1},
                                         {"b", "beta", 1},
                                         {"c", "gamma", 1}};
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_out *out = mn_out_new(file, MN_OUT_TEXT);

    (void)state;
    mn_out_width(out, 20);
    mn_out_table(out, "rows", NULL, cols, 4);
    mn_out_row(out);
    for (int i = 0; i < 4; i++)
        mn_out_cell_int(out, i);
    mn_out_table_end(out);
    mn_out_free(out);
    fclose(file);
    assert_string_equal(text, "from  alpha  beta\n"
                              "0         1     2\n"
                              "from  gamma\n"
                              "0         3\n");
    free(text);
}

/* Characters of two columns, of none, and none at all. */
static void test_width(void **state)
{
    int used;

    (void)state;
    assert_int_equal(mn_term_width("übel"), 4);
    assert_int_equal(mn_term_width("日本"), 4);
    assert_int_equal(mn_term_width("e\xcc\x81"), 1);
    assert_int_equal(mn_term_width("\xff\xfe"), 2);
    assert_int_equal(mn_term_fit("日本", 6, 3, &used), 3);
    assert_int_equal(used, 2);
}

static void test_wide_characters_align(void **state)
{
    static const struct mn_col cols[] = {{"name", "name", 0}, {"n", "n", 0}};
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_out *out = mn_out_new(file, MN_OUT_TEXT);

    (void)state;
    mn_out_table(out, "rows", NULL, cols, 2);
    for (int i = 0; i < 2; i++) {
        mn_out_row(out);
        mn_out_cell(out, i ? "日本語" : "abcdef");
        mn_out_cell_int(out, i);
    }
    mn_out_table_end(out);
    mn_out_free(out);
    fclose(file);
    assert_string_equal(text, "name    n\n"
                              "abcdef  0\n"
                              "日本語  1\n");
    free(text);
}

/* A column's figures have as many decimals each; JSON and CSV keep what was given, without marks.
 */
static void test_decimals(void **state)
{
    static const struct mn_col cols[] = {{"x", "x", 1}, {"y", "y", 1}};
    static const double values[] = {97.123456, 0.00512346, 0};

    (void)state;
    for (int format = MN_OUT_TEXT; format <= MN_OUT_CSV; format += MN_OUT_CSV - MN_OUT_TEXT) {
        char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        struct mn_out *out = mn_out_new(file, (enum mn_out_format)format);
        mn_out_table(out, "rows", NULL, cols, 2);
        for (int i = 0; i < 3; i++) {
            mn_out_row(out);
            mn_out_cell_num(out, values[i], i ? 7 : 3);
            if (i == 1)
                mn_out_mark(out, "≤");
            mn_out_cell_num(out, values[i], 1);
        }
        mn_out_table_end(out);
        mn_out_free(out);
        fclose(file);
        assert_string_equal(text, format == MN_OUT_TEXT ? "      x     y\n"
                                                          "97.1235  97.1\n"
                                                          " 0.0051  ≤0.0\n"
                                                          " 0.0000   0.0\n"
                                                        : "x,y\n"
                                                          "97.123,97.1\n"
                                                          "0.0051235,0.0\n"
                                                          "0.0000000,0.0\n");
        free(text);
    }
}

static void test_json(void **state)
{
    char *text = text_of(MN_OUT_JSON);
    cJSON *json = cJSON_Parse(text);
    const cJSON *host = cJSON_GetObjectItem(json, "host");
    const cJSON *rows = cJSON_GetObjectItem(json, "rows");

    (void)state;
    assert_non_null(json);
    assert_string_equal(cJSON_GetObjectItem(host, "name")->valuestring, "a");
    assert_non_null(strstr(text, "9223372036854775807"));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(host, "nan")));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(host, "ok")));
    assert_int_equal(cJSON_GetArraySize(rows), 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 1), "note")));
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 0), "n")->valueint, 7);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 0), "odd")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 1), "odd")));
    cJSON_Delete(json);
    free(text);
}

static void test_csv(void **state)
{
    char *text = text_of(MN_OUT_CSV);

    (void)state;
    assert_string_equal(text, "name,n,odd,note\n"
                              "übel,7,yes,\"x,\"\"y\"\"\"\n"
                              "b,12.35,-,-\n");
    free(text);
}

static void test_full_disk(void **state)
{
    FILE *full = fopen("/dev/full", "w");
    struct mn_out *out = mn_out_new(full, MN_OUT_JSON);

    (void)state;
    mn_out_str(out, "key", "label", "value");
    assert_int_equal(mn_out_free(out), -1);
    fclose(full);
}

/* A reader that left wants no more; a descriptor that is closed loses what was said. */
static void test_reader_gone(void **state)
{
    int ends[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    for (int closed = 0; closed < 2; closed++) {
        assert_int_equal(pipe(ends), 0);
        FILE *file = fdopen(ends[1], "w");
        struct mn_out *out = mn_out_new(file, MN_OUT_JSON);
        mn_out_str(out, "key", "label", "value");
        close(ends[closed]);
        assert_int_equal(mn_out_free(out), closed ? -1 : 0);
        fclose(file);
        close(ends[0]);
    }
}

static void test_errors(void **state)
{
    struct mn_diag diag;

    (void)state;
    for (int e = 0; e < MN_ERR_COUNT; e++) {
        assert_string_not_equal(mn_err_name((enum mn_err)e), "?");
        assert_string_not_equal(mn_err_text((enum mn_err)e), "?");
    }
    assert_string_equal(mn_err_name((enum mn_err)MN_ERR_COUNT), "?");
    assert_int_equal(mn_err_exit_code(MN_OK), 0);
    assert_int_equal(mn_err_exit_code(MN_ERR_USAGE), 2);
    assert_int_equal(mn_err_exit_code(MN_ERR_CONFIG), 2);
    assert_int_equal(mn_err_exit_code(MN_ERR_PEER_DEAD), 1);
    assert_int_equal(mn_err_exit_code(MN_ERR_SKIPPED), 77);
    /* The old text may be part of the new one. */
    mn_fail(&diag, MN_ERR_SYS, "inner");
    assert_int_equal(mn_fail(&diag, MN_ERR_PROTO, "outer: %s", diag.text), MN_ERR_PROTO);
    assert_string_equal(diag.text, "outer: inner");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),         cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_empty_column), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_width),        cmocka_unit_test(test_wide_characters_align),
        cmocka_unit_test(test_decimals),     cmocka_unit_test(test_json),
        cmocka_unit_test(test_csv),          cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_reader_gone),  cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
