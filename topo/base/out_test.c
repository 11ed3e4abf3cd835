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
        cmocka_unit_test(test_text),        cmocka_unit_test(test_json),
        cmocka_unit_test(test_csv),         cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_reader_gone), cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
