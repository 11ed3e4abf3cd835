#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topo/base/opt.h"

struct values {
    int flag, count, choice;
    long number;
    unsigned long long size;
    unsigned time;
    double real;
    const char *text;
    struct mn_opt_list list;
};

#define AT(field) .offset = offsetof(struct values, field)
static const struct mn_opt rows[] = {
    {.name = "flag", .letter = 'f', .type = MN_OPT_FLAG, AT(flag), .help = "h"},
    {.name = "verbose", .letter = 'v', .type = MN_OPT_COUNT, AT(count), .help = "h"},
    {.name = "choice", .type = MN_OPT_CHOICE, .choices = "a|bc|d", .def = "bc", AT(choice)},
    {.name = "number", .letter = 'n', .type = MN_OPT_INT, .min = -5, .max = 5, AT(number)},
    {.name = "size", .type = MN_OPT_SIZE, .def = "4K", .min = 1, .max = 1 << 20, AT(size)},
    {.name = "time", .type = MN_OPT_DURATION, .min = 10, .max = 60000, AT(time)},
    {.name = "real", .type = MN_OPT_DOUBLE, AT(real)},
    {.name = "text", .letter = 't', .type = MN_OPT_STRING, .arg = "T", .def = "x", AT(text)},
    {.name = "file", .type = MN_OPT_STRING, .arg = "FILE", AT(text)},
    {.name = "list", .type = MN_OPT_LIST, .def = "1,2", AT(list)},
    MN_OPT_END,
};

static enum mn_err parse(struct values *v, int *first, struct mn_diag *diag, char **argv)
{
    int argc = 0;

    memset(v, 0, sizeof *v);
    while (argv[argc])
        argc++;
    return mn_opt_parse(rows, v, argc, argv, first, diag);
}
#define PARSE(...) parse(&v, &first, &diag, (char *[]){__VA_ARGS__, NULL})

static void test_defaults(void **state)
{
    struct values v;
    struct mn_diag diag;
    int first;

    (void)state;
    assert_int_equal(parse(&v, &first, &diag, (char *[]){NULL}), MN_OK);
    assert_int_equal(v.choice, 1);
    assert_int_equal(v.size, 4096);
    assert_string_equal(v.text, "x");
    assert_int_equal(v.list.count, 2);
    mn_opt_free(rows, &v);
    assert_int_equal(v.list.count, 0);
}

static void test_forms(void **state)
{
    struct values v;
    struct mn_diag diag;
    int first;

    (void)state;
    assert_int_equal(PARSE("-fvv", "--number=-3", "-t", "y", "--size", "1M", "--list", "a,b",
                           "--list=c"),
                     MN_OK);
    assert_int_equal(v.flag, 1);
    assert_int_equal(v.count, 2);
    assert_int_equal(v.number, -3);
    assert_string_equal(v.text, "y");
    assert_int_equal(v.size, 1 << 20);
    assert_int_equal(v.list.count, 3); /* the default is replaced, not added to */
    assert_string_equal(v.list.items[2], "c");
    assert_int_equal(first, 9);
    mn_opt_free(rows, &v);
    assert_int_equal(PARSE("-ty", "--", "--flag"), MN_OK);
    assert_string_equal(v.text, "y");
    assert_int_equal(v.flag, 0);
    assert_int_equal(first, 2);
    mn_opt_free(rows, &v);
}

static void test_operands(void **state)
{
    char *mixed[] = {"a", "--flag", "-", "-t", "y", "b", "--", "--list", "-v", NULL};
    static const char *const want[] = {"a", "-", "b", "--list", "-v"};
    struct values v;
    struct mn_diag diag;
    int first;

    (void)state;
    assert_int_equal(parse(&v, &first, &diag, mixed), MN_OK);
    assert_int_equal(v.flag, 1);
    assert_int_equal(v.count, 0);
    assert_string_equal(v.text, "y");
    assert_int_equal(first, 4);
    for (int i = 0; i < 5; i++)
        assert_string_equal(mixed[first + i], want[i]);
    mn_opt_free(rows, &v);
}

static void test_refusals(void **state)
{
    static const struct {
        char *argv[2];
        const char *says;
    } bad[] = {
        {{"--number=6"}, "-5 to 5"},
        {{"--number=x"}, "'x'"},
        {{"--number", NULL}, "value"},
        {{"--size=2M"}, "'2M'"},
        {{"--size=two"}, "'two'"},
        {{"--time=1ms"}, "'1ms' is out of range: expected 10 ms to 1 min"},
        {{"--choice=b"}, "a|bc|d"},
        {{"--flag=1"}, "no value"},
        {{"--real=1x"}, "'1x'"},
        {{"--nubmer=1"}, "--number"},
        {{"-z"}, "'-z'"},
        {{"--number=1e3"}, "whole"},
        {{"--list=a,,b"}, "--list 'a,,b': an item is empty"},
        {{"--list=a,"}, "an item is empty"},
        {{"--list="}, "an item is empty"},
        {{"--file="}, "--file '': expected a file's name"},
        {{"--number=99999999999999999999"}, "out of range"},
    };
    struct values v;
    struct mn_diag diag;
    int first;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(&v, &first, &diag, (char *[]){bad[i].argv[0], NULL}), MN_ERR_USAGE);
        assert_non_null(strstr(diag.text, bad[i].says));
        mn_opt_free(rows, &v);
    }
}

static void one_output_has_one_form(void **state)
{
    struct forms {
        int json, csv, format;
    };
    static const struct mn_opt both[] = {
        {.name = "json", .letter = 'j', .offset = offsetof(struct forms, json)},
        {.name = "csv", .offset = offsetof(struct forms, csv)},
        {.name = "format",
         .type = MN_OPT_CHOICE,
         .choices = "text|tap|json|dot",
         .def = "text",
         .offset = offsetof(struct forms, format)},
        MN_OPT_END,
    };
    static const struct {
        const char *words[3], *error;
    } cases[] = {
        {{"p", "--json", "--csv"}, "--json and --csv exclude each other"},
        {{"p", "--format=tap", "-j"}, "--json and --format tap exclude each other"},
        {{"p", "-j", "--format=dot"}, "--json and --format dot exclude each other"},
        {{"p", "-j", "--format=json"}, NULL},
        {{"p", "--csv", "--format=dot"}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *argv[3];
        struct forms forms = {0};
        struct mn_diag diag = {.text = ""};
        int first;
        for (int k = 0; k < 3; k++)
            argv[k] = (char *)(uintptr_t)cases[i].words[k];
        assert_int_equal(mn_opt_parse(both, &forms, 2, argv + 1, &first, &diag),
                         cases[i].error ? MN_ERR_USAGE : MN_OK);
        assert_string_equal(diag.text, cases[i].error ? cases[i].error : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),           cmocka_unit_test(test_forms),
        cmocka_unit_test(test_operands),           cmocka_unit_test(test_refusals),
        cmocka_unit_test(one_output_has_one_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
