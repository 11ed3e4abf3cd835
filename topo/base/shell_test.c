/* Words that a shell takes as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "topo/base/shell.h"

static void test_words(void **state)
{
    static const char *const rows[][2] = {
        {"a", "a"},
        {"/opt/x-1.2_b:c,d@e%f+g=h", "/opt/x-1.2_b:c,d@e%f+g=h"},
        {"", "''"},
        {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
        {"$(x)`y`\"z\"", "'$(x)`y`\"z\"'"},
        {"=eth0", "'=eth0'"}, /* zsh: where the command eth0 is */
        {"~", "'~'"},
        {"a\nb", "'a\nb'"},
    };
    char word[64];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mn_shell_word(rows[i][0], word, sizeof word), 1);
        assert_string_equal(word, rows[i][1]);
    }
}

/* sh itself gives back what went in. */
static void test_shell(void **state)
{
    static const char *const words[] = {"it's", "a  b", "$HOME", "'\\''", "*", "#x", "a;b&c|d<e>f"};
    char word[64], command[128], back[64];

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(mn_shell_word(words[i], word, sizeof word), 1);
        snprintf(command, sizeof command, "printf %%s %s", word);
        FILE *sh = popen(command, "r");
        assert_non_null(sh);
        back[fread(back, 1, sizeof back - 1, sh)] = '\0';
        assert_int_equal(pclose(sh), 0);
        assert_string_equal(back, words[i]);
    }
}

static void test_room(void **state)
{
    char word[16];

    (void)state;
    for (size_t size = 1; size <= sizeof word; size++)
        for (int plain = 0; plain < 2; plain++) {
            int fits = mn_shell_word(plain ? "abcdef" : "a bc'e", word, size);
            assert_true(strlen(word) < size);
            assert_int_equal(fits, word[0] != '\0');
        }
    assert_int_equal(mn_shell_word("abcdef", word, 7), 1);
    assert_int_equal(mn_shell_word("abcdef", word, 6), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_shell),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
