/* What tests of the fuzzers' corpora share: an input that is made by the code, and kept as a file
 * for the fuzzer to begin with, is of this version. */
#ifndef MN_CORPUS_KIT_H
#define MN_CORPUS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

/* corpus: the fuzzer's name without fuzz_. With MESHNET_RENEW in the environment it is written. */
static inline void corpus_is_current(const char *corpus, const char *name, const uint8_t *bytes,
                                     size_t len)
{
    char *path = mn_asprintf(SOURCE_DIR "/tests/fuzz/corpus/%s/%s", corpus, name), *text = NULL;
    struct mn_diag diag = {.text = ""};
    size_t n = 0;

    if (getenv("MESHNET_RENEW"))
        assert_int_equal(mn_file_write(path, (const char *)bytes, len, 1, &diag), MN_OK);
    if (mn_file_read(path, 65536, &text, &n, &diag))
        fail_msg("%s", diag.text);
    if (n != len || memcmp(text, bytes, len) != 0)
        fail_msg("%s is of another version; renew it: MESHNET_RENEW=1 fuzz_%s_test", path, corpus);
    free(text);
    free(path);
}

#endif
