/* The library as a file, and what loading it does to the process. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/check/elf.h"
#include "bench/check/kit.h"
#include "bench/check/rule.h"

#define N_KEPT 4 /* standard input, output and error, and one of the program's own */

static void check_open(struct mn_check *check)
{
    mn_check_step(check, "dlopen(RTLD_NOW | RTLD_LOCAL)");
    if (!dlopen(check->target->path, RTLD_NOW | RTLD_LOCAL))
        mn_check_fail(check, "dlopen failed: %s", dlerror());
}

static void check_symbols(struct mn_check *check)
{
    char seen[512] = "";
    void *lib = dlopen(check->target->path, RTLD_NOW | RTLD_LOCAL);
    int driven = 0;

    if (!lib)
        mn_check_skip(check, "the library does not load (rule load.open)");
    for (int v = 12; v >= 2; v--) {
        char symbol[32];
        size_t used = strlen(seen);
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", v);
        if (!dlsym(lib, symbol))
            continue;
        snprintf(seen + used, sizeof seen - used, "%sv%d (NCCL %s)", used ? ", " : "", v,
                 mn_raw_serves(v));
        for (const struct mn_raw_version *known = mn_raw_versions; known->version; known++)
            driven |= known->version == v;
    }
    if (!seen[0] && mn_tuner_find(lib, 0, &check->tuner))
        mn_check_skip(check, "the library has a tuner and no net plugin");
    if (!seen[0])
        mn_check_fail(check, "no symbol ncclNetPlugin_v2 to ncclNetPlugin_v12 is exported; "
                             "NCCL refuses the library");
    if (!driven)
        mn_check_warn(check,
                      "%s; none of them is driven here (v8, v9, v10), so nothing else can "
                      "be checked",
                      seen);
    mn_check_note(check, "%s", seen);
}

static void check_object(struct mn_check *check)
{
    mn_check_load(check);
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++) {
        void *address = dlsym(check->raw.lib, v->symbol);
        const Elf64_Sym *sym = NULL;
        Dl_info info;
        if (!address)
            continue;
        if (!dladdr1(address, &info, (void **)&sym, RTLD_DL_SYMENT) || !sym)
            mn_check_fail(check, "the loader finds no symbol at the address of %s", v->symbol);
        if (ELF64_ST_TYPE(sym->st_info) != STT_OBJECT)
            mn_check_fail(check,
                          "%s has ELF symbol type %d, not a data object: NCCL takes its "
                          "address for that of the struct",
                          v->symbol, ELF64_ST_TYPE(sym->st_info));
        if (sym->st_size < v->vtable_size)
            mn_check_fail(check, "%s is %zu bytes long, the struct of this version %zu", v->symbol,
                          (size_t)sym->st_size, v->vtable_size);
    }
}

static void check_name(struct mn_check *check)
{
    const char *name, *problem;

    mn_check_load(check);
    mn_check_step(check, "reading name before init");
    name = mn_raw_name(&check->raw);
    problem = mn_check_text_problem(name, 127);
    if (problem)
        mn_check_fail(check, "name before init %s", problem);
    mn_check_note(check, "\"%s\"", name);
}

static void check_reserved(struct mn_check *check)
{
    static const char *const builtin[] = {"IB", "Socket", NULL};
    const char *file = strrchr(check->target->path, '/'), *name;
    char entry[64];
    size_t length;

    mn_check_load(check);
    name = mn_raw_name(&check->raw);
    if (!name)
        mn_check_skip(check, "the name is NULL (rule load.name)");
    if (strcasecmp(name, "RCCL-ANP") == 0)
        mn_check_fail(check,
                      "named \"%s\": RCCL hands a plugin of this name a 4-byte object "
                      "where the device handle belongs",
                      name);
    for (int i = 0; builtin[i]; i++)
        if (strcasecmp(name, builtin[i]) == 0)
            mn_check_fail(check,
                          "named \"%s\" as NCCL's built-in network: NCCL_NET cannot tell "
                          "them apart",
                          name);
    file = file ? file + 1 : check->target->path;
    if (sscanf(file, "libnccl-net-%63[^.]", entry) != 1)
        return;
    length = strlen(entry);
    if (strncasecmp("STATIC_PLUGIN", entry, length) == 0)
        mn_check_fail(check,
                      "NCCL_NET_PLUGIN=%s is a prefix of STATIC_PLUGIN: NCCL then searches "
                      "the program itself instead of this file",
                      entry);
}

static void check_slots(struct mn_check *check)
{
    char missing[256] = "";

    mn_check_load(check);
    for (size_t i = 0; i < check->raw.version->n_slots; i++) {
        const struct mn_raw_field *slot = &check->raw.version->slots[i];
        size_t used = strlen(missing);
        void *function;
        memcpy(&function, (const char *)check->raw.vtable + slot->offset, sizeof function);
        if (!function)
            snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", slot->name);
    }
    if (missing[0])
        mn_check_fail(check, "NULL in %s: %s", check->raw.version->symbol, missing);
}

static int is_plugin_symbol(const char *name)
{
    static const char *const allowed[] = {"ncclNetPlugin_v",
                                          "ncclCollNetPlugin_v",
                                          "ncclTunerPlugin_v",
                                          "ncclProfiler_v",
                                          "ncclGinPlugin_v",
                                          "ncclRmaPlugin_v",
                                          "_init",
                                          "_fini",
                                          "__bss_start",
                                          "_edata",
                                          "_end",
                                          "__asan",
                                          "__ubsan",
                                          "__tsan",
                                          "__odr_asan",
                                          NULL};

    for (int i = 0; allowed[i]; i++)
        if (strncmp(name, allowed[i], strlen(allowed[i])) == 0)
            return 1;
    return 0;
}

static void check_exports(struct mn_check *check)
{
    struct mn_check_info info;
    struct mn_diag diag;
    struct mn_elf elf;
    size_t strays = 0;
    char names[256] = "";

    mn_check_open(check);
    mn_check_resolve(check, info.path, sizeof info.path);
    if (mn_elf_open(info.path, &elf, &diag) != MN_OK)
        mn_check_skip(check, "%s", diag.text);
    for (size_t i = 0; i < elf.n_symbols; i++) {
        const char *name = mn_elf_export(&elf, i);
        size_t used = strlen(names);
        if (!name || is_plugin_symbol(name))
            continue;
        if (strays++ < 4)
            snprintf(names + used, sizeof names - used, "%s%.40s", used ? ", " : "", name);
    }
    if (strays)
        mn_check_fail(check,
                      "%zu other symbols are exported (%s%s); they may collide with those "
                      "of the program",
                      strays, names, strays > 4 ? ", …" : "");
}

static void check_threads(struct mn_check *check)
{
    int before = mn_check_count_threads(), after;

    mn_check_open(check);
    after = mn_check_count_threads();
    if (after != before)
        mn_check_fail(check, "dlopen took the process from %d to %d threads", before, after);
}

static void check_signals(struct mn_check *check)
{
    struct sigaction before[NSIG], after;
    sigset_t mask, mask_after;

    for (int s = 1; s < NSIG; s++)
        sigaction(s, NULL, &before[s]);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    mn_check_init_all(check);
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    for (int s = 1; s < NSIG; s++) {
        if (sigaction(s, NULL, &after) == 0 && after.sa_handler != before[s].sa_handler)
            mn_check_fail(check, "the handler of signal %d (%s) was changed", s,
                          sigabbrev_np(s) ? sigabbrev_np(s) : "real-time");
        if (sigismember(&mask, s) != sigismember(&mask_after, s))
            mn_check_fail(check, "signal %d (%s) was %s", s,
                          sigabbrev_np(s) ? sigabbrev_np(s) : "real-time",
                          sigismember(&mask_after, s) ? "blocked" : "unblocked");
    }
}

/* Names read in every version: NCCL compares the one it uses with NCCL_NET. */
static void check_consistent(struct mn_check *check)
{
    mn_check_load(check);
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++) {
        struct mn_raw other = {.lib = check->raw.lib};
        const char *name, *own = mn_raw_name(&check->raw);
        if (!own || !mn_raw_find(&other, v->version) || !(name = mn_raw_name(&other)))
            continue;
        if (strcmp(name, own) != 0)
            mn_check_fail(check, "the name is \"%s\" in v%d and \"%s\" in v%d", name, v->version,
                          own, check->raw.version->version);
    }
}

static void look(struct mn_check *check, const int *fds, struct stat *stats, const char *when)
{
    static const char *const names[N_KEPT] = {"descriptor 0", "descriptor 1", "descriptor 2",
                                              "a descriptor of the program"};

    for (int i = 0; i < N_KEPT; i++) {
        struct stat now;
        if (fstat(fds[i], &now) != 0)
            mn_check_fail(check, "%s was closed %s", names[i], when);
        if (stats[i].st_nlink && (now.st_ino != stats[i].st_ino || now.st_dev != stats[i].st_dev))
            mn_check_fail(check, "%s was replaced %s", names[i], when);
        stats[i] = now;
    }
}

static void check_descriptors(struct mn_check *check)
{
    int fds[N_KEPT] = {0, 1, 2, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    struct stat stats[N_KEPT];

    if (fds[3] < 0)
        mn_check_skip(check, "/proc is not there");
    memset(stats, 0, sizeof stats);
    look(check, fds, stats, "before the library was loaded");
    mn_check_open(check);
    look(check, fds, stats, "while the library was loaded");
    mn_check_init_all(check);
    look(check, fds, stats, "in init");
}

static void environment(char *text, size_t size)
{
    size_t used = 0;

    for (char **at = environ; *at; at++) {
        int n = snprintf(text + used, size - used, "%s\n", *at);
        used = n > 0 && used + (size_t)n < size ? used + (size_t)n : used;
    }
}

static void check_process(struct mn_check *check)
{
    static char before[1 << 18], after[1 << 18];
    char here[4096] = "", there[4096] = "";
    struct rlimit files, now;
    mode_t mask = umask(022);

    umask(mask);
    getrlimit(RLIMIT_NOFILE, &files);
    environment(before, sizeof before);
    if (!getcwd(here, sizeof here))
        mn_check_skip(check, "no working directory");
    mn_check_init_all(check);
    environment(after, sizeof after);
    getrlimit(RLIMIT_NOFILE, &now);
    if (!getcwd(there, sizeof there) || strcmp(here, there) != 0)
        mn_check_fail(check, "the working directory is %s, it was %s", there, here);
    if (umask(mask) != mask)
        mn_check_fail(check, "the umask was changed");
    if (strcmp(before, after) != 0)
        mn_check_fail(check, "the environment was changed");
    if (now.rlim_cur < files.rlim_cur)
        mn_check_fail(check, "the limit of open files was lowered");
    if (waitpid(-1, NULL, WNOHANG | __WALL) == 0)
        mn_check_fail(check, "a process was started that still runs");
}

static const struct mn_check_rule rules[] = {
    {"load.open", "the library loads with every symbol resolved",
     "NCCL opens it with dlopen(RTLD_NOW | RTLD_LOCAL): a symbol that stays undefined refuses the "
     "whole library",
     check_open, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/plugin_open.cc, tryOpenLib: dlopen with RTLD_NOW; what does not "
                 "load is left out for good",
     .breaks = "NCCL runs over its own sockets, as if no plugin were there.",
     .flags = MN_CHECK_FIRST | MN_CHECK_GATE | MN_CHECK_ANY},
    {"load.symbols", "a version symbol is exported",
     "NCCL looks up ncclNetPlugin_vN, newest first, and rejects a library with none", check_symbols,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net.cc, ncclNetPluginLoad: closes a library in which no version "
                 "is found",
     .breaks = "NCCL runs over its own sockets, as if no plugin were there.",
     .flags = MN_CHECK_FIRST | MN_CHECK_GATE},
    {"load.object", "each version symbol is a struct of full size",
     "dlsym gives the address of the vtable itself, a data object as long as that version's struct",
     check_object, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net/net_v10.cc, getNcclNet_v10: takes what dlsym gives for the "
                 "struct itself",
     .breaks = "NCCL calls whatever lies behind a short struct, and crashes."},
    {"load.name", "the name can be read before init",
     "name is read right after dlsym, compared with NCCL_NET and written into XML", check_name,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net.cc, ncclNetInit: strcasecmp of the name with NCCL_NET, "
                 "without a test for NULL",
     .breaks = "NCCL_NET does not find the plugin, or the job crashes while it is loaded."},
    {"load.reserved", "no name that NCCL or RCCL takes for something else",
     "RCCL-ANP, the built-in networks and every prefix of STATIC_PLUGIN have a meaning of their "
     "own",
     check_reserved, .profile = "rccl-7",
     .evidence = "RCCL of ROCm 7 transport/net.cc, sendProxyConnect: passes RCCL-ANP the address "
                 "of a 4-byte object; NCCL 2.27 plugin/plugin_open.cc, tryOpenLib: opens the "
                 "program itself for a prefix of STATIC_PLUGIN",
     .breaks = "RCCL hands the plugin arguments it does not expect, or another network is taken."},
    {"load.slots", "every function NCCL calls unchecked is there",
     "init to closeListen are called without a test for NULL", check_slots, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxySetup to recvProxyFree: call through every "
                 "slot but the optional ones unchecked",
     .breaks = "The job crashes at the first call of what is missing."},
    {"load.exports", "nothing but plugin symbols is exported",
     "the library shares a process with the framework; stray symbols can be bound by others",
     check_exports, .grade = MN_CHECK_SHOULD,
     .evidence = "ELF: a framework that opens the library with RTLD_GLOBAL, or links it, binds to "
                 "stray symbols; NCCL's RTLD_LOCAL does not",
     .breaks =
         "The framework, or another plugin, calls a function of this library instead of its own.",
     .flags = MN_CHECK_ANY},
    {"load.threads", "loading starts no thread",
     "NCCL opens libraries it may never use, and probes one again for tuner and profiler",
     check_threads, .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 plugin/plugin_open.cc opens the library again for tuner and profiler "
                 "and closes it, also in processes that never use it",
     .breaks =
         "A process that never uses the plugin still runs its threads, and crashes at dlclose.",
     .flags = MN_CHECK_ANY},
    {"load.signals", "loading and init leave signals alone",
     "handlers and mask belong to the program; NCCL's threads inherit the mask", check_signals,
     .grade = MN_CHECK_SHOULD,
     .evidence =
         "POSIX: handlers and mask belong to the program; NCCL itself does not look at them",
     .breaks = "The framework no longer gets the signals it waits for.", .flags = MN_CHECK_ANY},
    {"load.consistent", "every version has the same name",
     "NCCL_NET chooses by the name in the version that is used", check_consistent,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL_NET chooses by the name of the version that the release loads: users change "
                 "the release, not the setting",
     .breaks = "An update of NCCL no longer finds the plugin."},
    {"load.descriptors", "loading and init leave descriptors alone",
     "descriptors belong to the program; the standard ones too", check_descriptors,
     .grade = MN_CHECK_SHOULD,
     .evidence = "POSIX: descriptors belong to the program; NCCL does not look at those of others",
     .breaks = "Log lines end up in sockets, and data in logs.", .flags = MN_CHECK_ANY},
    {"load.process", "loading and init leave the process as it is",
     "directory, umask, environment, limits and children belong to the program", check_process,
     .grade = MN_CHECK_SHOULD,
     .evidence = "POSIX: they belong to the program; NCCL does not look at them",
     .breaks = "Checkpoints land elsewhere, and the program waits for children "
               "it does not know.",
     .flags = MN_CHECK_ANY},
};

MN_CHECK_FAMILY(mn_check_load_family, "load", "loading and symbols", rules);
