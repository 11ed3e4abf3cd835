/* Lets the n-th allocation of the tuner's init fail, n after n, each in a child of its own:
 *
 *   nomem_tuner LIBRARY RANKS
 *
 * Each n twice: that allocation alone, or it and all later ones. What may come out is success, or
 * an error that the log explains and no context; the same once more, with memory, must work. What
 * was allocated when there was no more is lost: it is not counted. Ends where none fails any more.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/abi/tuner_abi.h"
#include "tests/nomem/nomem.h"

enum { WORKED, REFUSED, UNSAID, LASTING, BEYOND };

static char said[1024]; /* the last warning */

static void on_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...)
{
    va_list args;

    (void)flags, (void)file, (void)line;
    if (level != NCCL_LOG_WARN)
        return;
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
}

static int attempt(const ncclTuner_v5_t *tuner, size_t ranks, long n, int on)
{
    void *ctx = said;

    nomem_arm(n, on);
    ncclResult_t result = tuner->init(&ctx, 1, ranks, ranks, on_log, NULL, NULL);
    long allocations = nomem_disarm();
    if (result && (!said[0] || ctx))
        return UNSAID;
    if (!result)
        (void)tuner->finalize(ctx);
    if (tuner->init(&ctx, 1, ranks, ranks, on_log, NULL, NULL))
        return LASTING;
    (void)tuner->finalize(ctx);
    return allocations < n ? BEYOND : result ? REFUSED : WORKED;
}

int main(int argc, char **argv)
{
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const ncclTuner_v5_t *tuner = library ? dlsym(library, "ncclTunerPlugin_v5") : NULL;
    int bad = 0, refused = 0, seen = WORKED;
    long n = 0;

    if (!tuner) {
        fprintf(stderr, "usage: nomem_tuner LIBRARY RANKS\n");
        return 2;
    }
    while (seen != BEYOND) {
        n++;
        for (int on = 0; on < 2; on++) {
            int status = 0;
            pid_t child = fork();
            if (!child)
                _exit(attempt(tuner, (size_t)atoi(argv[2]), n, on));
            if (child < 0 || waitpid(child, &status, 0) != child)
                return 2;
            seen = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            refused += seen == REFUSED;
            if (seen == WORKED || seen == REFUSED || seen == BEYOND)
                continue;
            bad++;
            printf("allocation %ld%s: %s, status %#x\n", n, on ? " and later" : "",
                   seen == UNSAID    ? "an error without a word, or with a context"
                   : seen == LASTING ? "no success with memory afterwards"
                                     : "the process ended",
                   (unsigned)status);
        }
    }
    printf("%ld places tried, %d refused, %d bad\n", n - 1, refused, bad);
    return bad || !refused;
}
