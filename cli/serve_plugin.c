#include <dlfcn.h>
#include <stdio.h>

#include "bench/host.h"
#include "cli/serve_plugin.h"
#include "fleet/errand.h"

#define MOST_MS   10000 /* one that takes longer, or crashes, is its client's affair */
#define NO_PLUGIN 2
#define NO_DEVICE 3

struct look {
    const char *path;
    int abi, device;
};

static int look(void *ctx)
{
    const struct look *l = ctx;
    struct mn_plugin *plugin;
    struct mn_diag diag;
    int ndev = 0;

    if (mn_plugin_open(l->path, l->abi, &plugin, &diag)) {
        /* A tuner or profiler alone, which verify-plugin judges too. */
        if (!l->abi && dlopen(l->path, RTLD_NOW | RTLD_LOCAL))
            return 0;
        fprintf(stderr, "%s\n", diag.text);
        return NO_PLUGIN;
    }
    if (!l->device || mn_plugin_init(plugin) || mn_plugin_devices(plugin, &ndev) ||
        l->device < ndev)
        return 0;
    fprintf(stderr, "--device %d: the plugin offers %d devices now, from 0 on\n", l->device, ndev);
    return NO_DEVICE;
}

enum mn_err mn_serve_plugin_check(const char *path, int abi, int device, struct mn_diag *diag)
{
    struct look l = {path, abi, device};
    struct mn_errand e = {.body = look, .ctx = &l, .ms = MOST_MS};
    enum mn_err err = MN_OK;

    mn_errands_run(&e, 1, NULL);
    if (e.end == MN_ERRAND_RAN && e.status == NO_PLUGIN)
        err = mn_fail(diag, MN_ERR_USAGE, "the plugin %s; give another --plugin FILE or --abi N",
                      e.last);
    else if (e.end == MN_ERRAND_RAN && e.status == NO_DEVICE)
        fprintf(stderr, "meshnet serve: %s\n", e.last);
    mn_errand_free(&e);
    return err;
}
