#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/errand.h"
#include "fleet/nft.h"

#define PATIENCE 5000 /* ms */

static int be_nft(void *ctx)
{
    (void)ctx;
    setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1); /* a user's has no sbin */
    execlp("nft", "nft", "-j", "list", "ruleset", (char *)NULL);
    return 127;
}

enum mn_err mn_nft_read(cJSON **ruleset, struct mn_diag *diag)
{
    struct mn_errand nft = {.body = be_nft, .ms = PATIENCE};
    enum mn_err err = MN_OK;

    *ruleset = NULL;
    mn_errands_run(&nft, 1, NULL);
    if (nft.end == MN_ERRAND_RAN && !nft.status)
        *ruleset = cJSON_Parse(nft.out);
    if (nft.end == MN_ERRAND_RAN && nft.status == 127)
        err = mn_fail(diag, MN_ERR_UNSUPPORTED, "no program nft");
    else if (nft.end != MN_ERRAND_RAN || nft.status)
        err = mn_fail(diag, MN_ERR_UNSUPPORTED, "nft: %s",
                      nft.last[0] ? nft.last : "did not end well");
    else if (!*ruleset)
        err = mn_fail(diag, MN_ERR_UNSUPPORTED, "nft: its answer is not JSON");
    mn_errand_free(&nft);
    return err;
}
