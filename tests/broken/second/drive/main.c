/* second [-j N] [--patience S] [FAULT ...]: shows that the correct plugin passes each scenario and
 * that each faulty one does not; with --run LIBRARY VERSION SCENARIO one of them, with its words.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/broken/second/drive/drive.h"

#ifndef SECOND_OUT
#define SECOND_OUT "."
#endif
#define BASE_PATIENCE 40 /* a busy machine is no fault */
#define CALL_BOUND    3  /* seconds a call may take beyond the patience of the scenario */

static const struct row {
    const char *name, *scenario;
    int version;
} rows[] = {
#define SECOND(name, version, scenario, rule, text) {#name, #scenario, version},
#include "tests/broken/second/faults.def"
#undef SECOND
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const struct scenario *find(const char *name)
{
    const struct scenario *lists[] = {of_setup,    of_connect,  of_memory,
                                      of_matching, of_transfer, of_ending};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct scenario *s = lists[i]; s->name; s++)
            if (strcmp(s->name, name) == 0)
                return s;
    fprintf(stderr, "no scenario %s\n", name);
    exit(2);
}

static int run(const char *library, int version, const char *scenario)
{
    const struct scenario *s = find(scenario);
    struct net net;

    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    net_open(&net, library, version);
    s->run(&net);
    return 0;
}

/* In a process of its own, with a bound; the wait status or -1: it did not end. */
static int watch(const char *library, const struct row *row, double bound)
{
    const double until = now_s() + bound;
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(run(library, row->version, row->scenario));
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_s() > until) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        nap_ms(5);
    }
    return status;
}

/* 0: the correct one passes, the faulty one does not. */
static int show(const struct row *row, double asked)
{
    char library[4096];
    int status, died;

    patience = BASE_PATIENCE;
    status = watch(SECOND_OUT "/libnccl-net-alt.so", row, 2 * BASE_PATIENCE);
    if (status != 0) {
        printf("not ok %s: the correct plugin fails %s in v%d (status %#x)\n", row->name,
               row->scenario, row->version, (unsigned)status);
        return 1;
    }
    snprintf(library, sizeof library, SECOND_OUT "/libnccl-net-second-%s.so", row->name);
    patience = asked;
    status = watch(library, row, asked + CALL_BOUND);
    died = status != -1 && WIFSIGNALED(status);
    if (status == 0 || (status != -1 && !died && WEXITSTATUS(status) != 1)) {
        printf("not ok %s: passes %s in v%d (status %#x)\n", row->name, row->scenario, row->version,
               (unsigned)status);
        return 1;
    }
    printf("ok %s%s\n", row->name, status == -1 ? " (hangs)" : died ? " (dies)" : "");
    return 0;
}

static int is_wanted(const char *name, char **names)
{
    if (!*names)
        return 1;
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

int main(int argc, char **argv)
{
    double asked = 2;
    int jobs = 2, running = 0, bad = 0, status, i = 1;

    if (argc == 5 && strcmp(argv[1], "--run") == 0)
        return run(argv[2], atoi(argv[3]), argv[4]);
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "-j") == 0)
            jobs = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--patience") == 0)
            asked = atof(argv[i + 1]);
        else
            return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t k = 0; k < N_ROWS; k++) {
        if (!is_wanted(rows[k].name, argv + i))
            continue;
        if (running == jobs && wait(&status) > 0) {
            running--;
            bad += status != 0;
        }
        if (fork() == 0)
            exit(show(&rows[k], asked));
        running++;
    }
    while (wait(&status) > 0)
        bad += status != 0;
    return bad != 0;
}
