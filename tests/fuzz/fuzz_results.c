/* Any text as a file of results: refused with a reason, or read; then nothing of it differs from
 * itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_results results;
    struct mn_comparison c = {.n_rows = 0};
    struct mn_diag diag = {.text = ""};

    enum mn_err err = mn_results_parse("fuzz", (const char *)data, size, &results, &diag);
    if (err) {
        if (err != MN_ERR_CONFIG || strncmp(diag.text, "fuzz:", 5) != 0)
            abort();
    } else if (!mn_compare(&results, &results, 5, &c, &diag)) {
        if (c.counts[MN_SAME] != c.n_rows || c.regressions)
            abort();
    }
    mn_comparison_free(&c);
    mn_results_free(&results);
    return 0;
}
