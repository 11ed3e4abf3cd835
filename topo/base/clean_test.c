/* What text from outside is made of before it is shown, and that everything that shows text does
 * so. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "topo/base/clean.h"
#include "topo/base/err.h"
#include "topo/base/log.h"
#include "topo/base/out.h"

static void test_what_becomes_of_it(void **state)
{
    static const struct {
        const char *text, *clean;
    } rows[] = {
        {"", ""},
        {"mlx5_0 \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
         "mlx5_0 \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\033[31mred\033[0m", "?[31mred?[0m"},
        {"\033]0;title\a", "?]0;title?"},
        {"bell\a back\b del\x7f", "bell? back? del?"},
        {"\xc2\x9b"
         "31m",
         "?31m"}, /* C1, as UTF-8 */
        {"\x9b"
         "31m",
         "?31m"}, /* and as a byte */
        {"a\xe2\x80\xae"
         "b",
         "a?b"},                              /* U+202E */
        {"\xe2\x81\xa6x\xe2\x81\xa9", "?x?"}, /* U+2066, U+2069 */
        {"\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8\xe2\x80\xa9", "????"},
        {"\xef\xbb\xbf"
         "a\xef\xbf\xbe",
         "?a?"},                      /* U+FEFF, U+FFFE */
        {"\xf3\xa0\x80\xa0", "?"},    /* U+E0020 */
        {"\xc0\xaf", "??"},           /* overlong */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* above U+10FFFF */
        {"cut \xe2\x82", "cut ??"},
        {"one\ntwo\tthree\r", "one?two?three?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        strcpy(text, rows[i].text);
        assert_string_equal(mn_clean(text), rows[i].clean);
    }
    char lines[] = "one\ntwo\tthree\r\033";
    assert_string_equal(mn_clean_lines(lines), "one\ntwo\tthree??");
}

#define BAD "x\033[2J\xc2\x9b\x9b\xe2\x80\xae\x7f\x01y"

static const char *const traces[] = {"\033", "\xc2\x9b", "\x9b", "\xe2\x80\xae", "\x7f", "\x01"};

static void assert_clean(const char *where, const char *text)
{
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (strstr(text, traces[i]))
            fail_msg("%s lets byte 0x%02x through: %s", where, (unsigned char)*traces[i], text);
    if (!strstr(text, "x?[2J") || !strchr(text, 'y'))
        fail_msg("%s does not show the rest: %s", where, text);
}

static void test_json(void **state)
{
    cJSON *json = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(json, "list");

    (void)state;
    cJSON_AddItemToArray(list, cJSON_CreateString(BAD));
    cJSON_AddStringToObject(json, BAD, BAD);
    cJSON_AddNumberToObject(json, "n", 7);
    mn_clean_json(json);
    assert_clean("a list", cJSON_GetArrayItem(list, 0)->valuestring);
    assert_clean("a value", list->next->valuestring);
    assert_clean("a key", list->next->string);
    cJSON_Delete(json);
    mn_clean_json(NULL);
}

static void test_errors(void **state)
{
    struct mn_diag diag;

    (void)state;
    mn_fail(&diag, MN_ERR_PROTO, "peer: %s", BAD);
    assert_clean("mn_fail", diag.text);
    mn_fail_errno(&diag, "%s", BAD);
    assert_clean("mn_fail_errno", diag.text);
}

static char logged[1024];

static void sink(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)level;
    (void)file;
    (void)line;
    snprintf(logged, sizeof logged, "%s", msg);
}

static void test_log(void **state)
{
    (void)state;
    mn_log_set_sink(sink);
    MN_WARN("peer: %s", BAD);
    mn_log_set_sink(NULL);
    assert_clean("mn_log", logged);
}

/* --- every call of mn_out that takes text --- */

static const struct mn_col cols[] = {{"name", "NAME", 0}};

static void as_str(struct mn_out *out)
{
    mn_out_str(out, "key", "label", BAD);
}

static void as_strf(struct mn_out *out)
{
    mn_out_strf(out, "key", "label", "%s", BAD);
}

static void as_note(struct mn_out *out)
{
    mn_out_note(out, MN_RED, "%s", BAD);
}

static void as_title(struct mn_out *out)
{
    mn_out_begin(out, "key", BAD);
    mn_out_end(out);
}

static void as_list(struct mn_out *out)
{
    mn_out_list_begin(out, "key", BAD);
    mn_out_list_end(out);
}

static void as_key(struct mn_out *out)
{
    mn_out_str(out, BAD, NULL, "value");
}

static void as_table(struct mn_out *out)
{
    mn_out_table(out, "rows", BAD, cols, 1);
    mn_out_table_end(out);
}

static void as_cell(struct mn_out *out)
{
    mn_out_table(out, "rows", NULL, cols, 1);
    mn_out_row(out);
    mn_out_cell(out, BAD);
    mn_out_table_end(out);
}

static void as_cellf(struct mn_out *out)
{
    mn_out_table(out, "rows", NULL, cols, 1);
    mn_out_row(out);
    mn_out_cellf(out, "%s", BAD);
    mn_out_table_end(out);
}

enum { TEXT = 1 << MN_OUT_TEXT, JSON = 1 << MN_OUT_JSON, CSV = 1 << MN_OUT_CSV };

static void test_out(void **state)
{
    static const struct {
        const char *name;
        void (*call)(struct mn_out *out);
        int formats; /* that show the text */
    } rows[] = {
        {"mn_out_str", as_str, TEXT | JSON},
        {"mn_out_strf", as_strf, TEXT | JSON},
        {"mn_out_note", as_note, TEXT},
        {"mn_out_begin", as_title, TEXT},
        {"mn_out_list_begin", as_list, TEXT},
        {"a key", as_key, JSON},
        {"mn_out_table", as_table, TEXT},
        {"mn_out_cell", as_cell, TEXT | JSON | CSV},
        {"mn_out_cellf", as_cellf, TEXT | JSON | CSV},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int format = MN_OUT_TEXT; format <= MN_OUT_CSV; format++) {
            char *text = NULL;
            size_t size = 0;
            FILE *file = tmpfile();
            struct mn_out *out = mn_out_new(file, (enum mn_out_format)format);
            rows[i].call(out);
            assert_int_equal(mn_out_free(out), 0);
            size = (size_t)ftell(file);
            rewind(file);
            text = calloc(1, size + 1);
            assert_int_equal(fread(text, 1, size, file), size);
            if (rows[i].formats & 1 << format)
                assert_clean(rows[i].name, text);
            free(text);
            fclose(file);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_becomes_of_it),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
