#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/pages.h"

static void reads(const char *roff, const char *want)
{
    char *text;
    size_t len;
    FILE *file = open_memstream(&text, &len);

    mn_roff_write(roff, 40, file);
    fclose(file);
    assert_string_equal(text, want);
    free(text);
}

static void test_requests(void **state)
{
    (void)state;
    reads(".TH X 1 \"\" a b\n.SH NAME\nx \\- what it is\n",
          "X(1)\n\nNAME\n       x - what it is\n");
    reads(".SH \"TWO WORDS\"\nIt\\(aqs \\fIhere\\fR\\&, a \\e b.\\\" not this\n",
          "\nTWO WORDS\n       It's here, a \\ b.\n");
    reads(".BR bold \" and \" plain ,\n.B all bold\n", "       bold and plain, all bold\n");
    reads(".SS Sub\n.PP\nText.\n.br\nMore.\n.PP\nAnd.\n",
          "\n   Sub\n       Text.\n       More.\n\n       And.\n");
}

static void test_tags(void **state)
{
    (void)state;
    reads(".SH OPTIONS\n.TP\n.BI \\-x \" N\"\nShort.\n.TP\n.B \\-\\-longer\nIts text.\n",
          "\nOPTIONS\n       -x N   Short.\n\n       --longer\n              Its text.\n");
}

static void test_lines(void **state)
{
    (void)state;
    /* 33 columns of text fit beside the indentation, by characters and not by bytes. */
    reads("one two three four five six seve\xc3\xbc eight nine\n",
          "       one two three four five six seve\xc3\xbc\n       eight nine\n");
    reads(".nf\n$ as   it is, however long the line may be, and longer\n\nend\n.fi\n",
          "       $ as   it is, however long the line may be, and longer\n\n       end\n");
    reads(".TS\ntab(|);\nlB l\nl l.\nId|Meaning\na\\-b|what it is\n.TE\nAfter.\n",
          "\n       Id   Meaning\n       a-b  what it is\n\n       After.\n");
}

/* Whatever it is given, it ends and writes lines. */
static void test_odd(void **state)
{
    static const char *const odd[] = {"",     ".",   "\\",      "\\f",     "\\(",
                                      ".B",   ".TS", ".TS\nl.", ".TP",     ".BR \"",
                                      "\\(a", ".SH", "\n\n",    ".TS\n.TE"};

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char *text;
        size_t len;
        FILE *file = open_memstream(&text, &len);
        mn_roff_write(odd[i], 0, file);
        fclose(file);
        assert_true(!len || text[len - 1] == '\n');
        free(text);
    }
}

static void test_pages(void **state)
{
    (void)state;
    assert_ptr_equal(mn_page_find("bench"), mn_page_find("meshnet-bench"));
    assert_string_equal(mn_page_find("yaml")->name, "meshnet.yaml");
    assert_int_equal(mn_page_find("yaml")->section, 5);
    assert_string_equal(mn_page_short(mn_page_find("meshnet")), "meshnet");
    assert_null(mn_page_find("nothing"));
    assert_null(mn_page_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_tags),  cmocka_unit_test(test_lines),
        cmocka_unit_test(test_odd),      cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
