#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/tuner_rules.h"

#define NEWEST    10 /* looked for, so that the report names what is there */
#define CALLS     2000
#define ABSURD_NS 100000

void mn_tune_check_symbols(struct mn_check *check)
{
    static const char only[] = "libnccl-tuner";
    char seen[512] = "", path[4096];
    const char *slash;
    int driven = 0;

    mn_check_open(check);
    for (int v = NEWEST; v >= 1; v--) {
        char symbol[32];
        size_t used = strlen(seen);
        mn_tuner_symbol(v, symbol);
        if (!dlsym(check->raw.lib, symbol))
            continue;
        snprintf(seen + used, sizeof seen - used, "%sv%d (NCCL %s)", used ? ", " : "", v,
                 mn_tuner_serves(v) ? mn_tuner_serves(v) : "unknown");
        driven |= v >= MN_TUNER_OLDEST && v <= MN_TUNER_NEWEST;
    }
    mn_check_resolve(check, path, sizeof path);
    slash = strrchr(path, '/');
    if (!seen[0] && strncmp(slash ? slash + 1 : path, only, sizeof only - 1) == 0)
        mn_check_fail(check,
                      "no symbol ncclTunerPlugin_v%d to ncclTunerPlugin_v%d is exported: "
                      "NCCL opens a file of this name, finds none, and looks no further",
                      MN_TUNER_OLDEST, MN_TUNER_NEWEST);
    if (!seen[0])
        mn_check_skip(check, "the library exports no tuner (ncclTunerPlugin_vN)");
    if (!driven)
        mn_check_fail(check, "only %s; v%d to v%d are what NCCL since 2.21 and RCCL load", seen,
                      MN_TUNER_OLDEST, MN_TUNER_NEWEST);
    mn_check_note(check, "%s", seen);
}

void mn_tune_check_object(struct mn_check *check)
{
    mn_check_load_tuner(check);
    for (int v = MN_TUNER_NEWEST; v >= MN_TUNER_OLDEST; v--) {
        const Elf64_Sym *sym = NULL;
        struct mn_tuner tuner;
        Dl_info info;
        if (!mn_tuner_find(check->raw.lib, v, &tuner))
            continue;
        if (!dladdr1(tuner.vtable, &info, (void **)&sym, RTLD_DL_SYMENT) || !sym)
            mn_check_fail(check,
                          "the loader finds no symbol at the address of "
                          "ncclTunerPlugin_v%d",
                          v);
        if (ELF64_ST_TYPE(sym->st_info) != STT_OBJECT)
            mn_check_fail(check,
                          "ncclTunerPlugin_v%d has ELF symbol type %d, not a data object: NCCL "
                          "takes its address for that of the struct",
                          v, ELF64_ST_TYPE(sym->st_info));
        if (sym->st_size < mn_tuner_vtable_size(v))
            mn_check_fail(check,
                          "ncclTunerPlugin_v%d is %zu bytes long, the struct of this "
                          "version %zu",
                          v, (size_t)sym->st_size, mn_tuner_vtable_size(v));
    }
}

void mn_tune_check_name(struct mn_check *check)
{
    const char *own, *problem;

    mn_check_load_tuner(check);
    mn_check_step(check, "reading the tuner's name before init");
    own = mn_tuner_name(&check->tuner);
    problem = mn_check_text_problem(own, 127);
    if (problem)
        mn_check_fail(check, "name before init %s", problem);
    for (int v = MN_TUNER_NEWEST; v >= MN_TUNER_OLDEST; v--) {
        struct mn_tuner other;
        if (mn_tuner_find(check->raw.lib, v, &other) && mn_tuner_name(&other) &&
            strcmp(mn_tuner_name(&other), own) != 0)
            mn_check_fail(check, "the name is \"%s\" in v%d and \"%s\" in v%d",
                          mn_tuner_name(&other), v, own, check->tuner.version);
    }
    mn_check_note(check, "\"%s\"", own);
}

/* What init fills in counts: older versions are copied after it. */
void mn_tune_check_slots(struct mn_check *check)
{
    struct mn_tune_comm comm = {.id = 1, .ranks = 2, .nodes = 2};
    const char *absent;

    mn_check_load_tuner(check);
    absent = mn_tuner_absent(&check->tuner);
    if (absent && strcmp(absent, "init") != 0) {
        mn_check_step(check, "init, which may fill in the rest");
        (void)mn_tune_init(check, &comm, NULL);
        absent = mn_tuner_absent(&check->tuner);
    }
    if (absent)
        mn_check_fail(check, "%s of ncclTunerPlugin_v%d is NULL", absent, check->tuner.version);
}

void mn_tune_check_init(struct mn_check *check)
{
    static const struct {
        size_t ranks, nodes;
    } shapes[] = {{1, 1},      {2, 1},      {2, 2},       {3, 3},         {4, 4},
                  {5, 3},      {8, 1},      {8, 2},       {9, 3},         {16, 2},
                  {16, 16},    {64, 8},     {72, 18},     {63, 8},        {128, 1},
                  {1000, 125}, {4096, 512}, {4096, 4096}, {100000, 12500}};

    mn_check_load_tuner(check);
    if (mn_tuner_absent(&check->tuner))
        mn_check_skip(check, "functions are NULL (rule tuner.slots)");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct mn_tune_comm comm = {.id = 0x1234567890abcdefu + i,
                                    .ranks = shapes[i].ranks,
                                    .nodes = shapes[i].nodes};
        const char *overrun;
        int result;
        mn_check_step(check, "init of %zu ranks on %zu nodes", comm.ranks, comm.nodes);
        result = mn_tune_init(check, &comm, &overrun);
        if (result)
            mn_check_fail(check, "init of %zu ranks on %zu nodes returned %s", comm.ranks,
                          comm.nodes, mn_nccl_result_name(result));
        if (overrun)
            mn_check_fail(check, "init of %zu ranks on %zu nodes wrote %s", comm.ranks, comm.nodes,
                          overrun);
        mn_tune_close(check, &comm);
    }
}

void mn_tune_check_constants(struct mn_check *check)
{
    static const struct {
        size_t ranks, nodes;
    } shapes[] = {{2, 2}, {8, 1}, {16, 4}, {1024, 128}};

    mn_check_load_tuner(check);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct mn_tune_comm comm;
        const double *value = (const double *)(const void *)&comm.constants;
        mn_tune_open(check, shapes[s].ranks, shapes[s].nodes, 1 + s, &comm);
        for (size_t i = 0; i < sizeof comm.constants / sizeof *value; i++)
            if (!isfinite(value[i]) || value[i] < 0)
                mn_check_fail(check,
                              "init of %zu ranks on %zu nodes made constant %zu (byte %zu) "
                              "of the model %g",
                              comm.ranks, comm.nodes, i, i * sizeof *value, value[i]);
        mn_tune_close(check, &comm);
    }
}

/* Where the rule's own standard output goes is no matter: the plugin gets a file. */
void mn_tune_check_quiet(struct mn_check *check)
{
    struct mn_tune_choice choices[MN_TUNE_SERIES];
    char text[200];
    struct mn_tune_comm comm;
    int file = memfd_create("output", MFD_CLOEXEC);
    ssize_t n;

    if (file < 0)
        mn_check_skip(check, "no memory file");
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    mn_check_load_tuner(check);
    mn_tune_open(check, 4, 4, 1, &comm);
    mn_tune_series(check, &comm, choices);
    mn_tune_close(check, &comm);
    fflush(stdout);
    n = pread(file, text, sizeof text - 1, 0);
    if (n <= 0)
        return;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    mn_check_fail(check, "wrote \"%s\" to the standard output", text);
}

void mn_tune_check_cost(struct mn_check *check)
{
    struct mn_tune_question question;
    struct mn_tune_reply reply;
    struct mn_tune_comm comm;
    struct timespec before, after;
    long sleeps;
    int64_t each;

    mn_check_load_tuner(check);
    mn_tune_open(check, 4, 4, 1, &comm);
    mn_check_step(check, "getCollInfo, %d times", CALLS);
    sleeps = mn_check_sleeps();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int i = 0; i < CALLS; i++) {
        if (!mn_tune_question(check, i % 1500, &question) || mn_check_expired(check))
            break;
        mn_tune_ask(check, &comm, &question, &reply);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    sleeps = mn_check_sleeps() - sleeps;
    each = ((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec) / CALLS;
    if (sleeps >= CALLS / 4)
        mn_check_fail(check,
                      "%d calls of getCollInfo gave up the processor %ld times: they wait "
                      "for something",
                      CALLS, sleeps);
    if (each >= ABSURD_NS)
        mn_check_fail(check, "a call of getCollInfo takes %.1f us of CPU", (double)each / 1e3);
    mn_check_note(check, "a call of getCollInfo takes %lld ns of CPU", (long long)each);
}
