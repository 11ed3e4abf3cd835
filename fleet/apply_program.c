#include "fleet/apply_program.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/apply_keeper_impl.h"
#include "fleet/errand.h"
#include "topo/base/alloc.h"

struct program {
    const char *path;
    const char *const *args;
};

char *mn_program_find(const char *root, const char *name)
{
    static const char *const folders[] = {"/usr/sbin", "/usr/bin", "/sbin", "/bin"};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = mn_asprintf("%s%s/%s", root, folders[i], name);
        if (!access(path, X_OK))
            return path;
        free(path);
    }
    return NULL;
}

/* What protects the keeper from the lack of memory is not for what it starts. */
static void end_as_others(void)
{
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    char now[16] = "";

    if (fd < 0)
        return;
    if (read(fd, now, sizeof now - 1) > 0 && strtol(now, NULL, 10) == MN_KEEPER_OOM)
        (void)!write(fd, "0", 1);
    close(fd);
}

static int run(void *ctx)
{
    const struct program *p = ctx;

    end_as_others();
    /* What it calls is looked for where root's programs are. */
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    execv(p->path, (char *const *)(uintptr_t)p->args);
    return 127;
}

enum mn_err mn_program_run(const char *path, const char *const *args, const char *input,
                           unsigned ms, char **out, struct mn_diag *diag)
{
    struct program program = {.path = path, .args = args};
    struct mn_errand e = {.body = run,
                          .ctx = &program,
                          .text = input ? input : "",
                          .size = input ? strlen(input) : 0,
                          .ms = ms};
    enum mn_err err = MN_OK;

    mn_errands_run(&e, 1, NULL);
    if (e.end == MN_ERRAND_LATE)
        err = mn_fail(diag, MN_ERR_TIMEOUT, "%s: it took more than %u s", path, ms / 1000);
    else if (e.end != MN_ERRAND_RAN || e.status)
        err = mn_fail(diag, MN_ERR_FAILED, "%s: exit code %d%s%s", path, e.status,
                      *e.last ? ": " : "", e.last);
    if (!err && out)
        *out = mn_strdup(e.out ? e.out : "");
    mn_errand_free(&e);
    return err;
}
