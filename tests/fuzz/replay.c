/* A fuzzer's corpus as a test of the ordinary build, without libFuzzer: each input once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "topo/base/alloc.h"

#define LONGEST 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *folder;

static void each_input_of_the_corpus_is_taken(void **state)
{
    struct mn_diag diag = {.text = ""};
    struct dirent *entry;
    int inputs = 0;

    (void)state;
    DIR *dir = opendir(folder);
    if (!dir)
        fail_msg("%s cannot be read", folder);
    while ((entry = readdir(dir))) {
        char *path = mn_asprintf("%s/%s", folder, entry->d_name), *text = NULL;
        size_t len = 0;
        if (entry->d_name[0] != '.') {
            if (mn_file_read(path, LONGEST, &text, &len, &diag))
                fail_msg("%s", diag.text);
            print_message("%s\n", entry->d_name); /* the last one shown is the one that fails */
            (void)LLVMFuzzerTestOneInput((const uint8_t *)text, len);
            inputs++;
        }
        free(text);
        free(path);
    }
    closedir(dir);
    assert_true(inputs > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_input_of_the_corpus_is_taken)};

    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
