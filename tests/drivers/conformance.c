/* The transport conformance suite: drives a plugin library through its vtable, both ends in one
 * thread, and prints TAP.
 *
 *   conformance --lib PATH [--version N] [--rccl] [--only NAME]... [--skip NAME]... [--seed N]
 *   conformance --list
 *
 * --rccl: called as RCCL calls. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/drivers/conformance/kit.h"

static const struct kit_case *const families[] = {kit_transfer_cases, kit_group_cases,
                                                  kit_connect_cases, kit_fault_cases,
                                                  kit_process_cases};
#define N_FAMILIES (sizeof families / sizeof *families)
#define MAX_NAMES  32

static const char *only[MAX_NAMES], *skipped[MAX_NAMES];
static int n_only, n_skipped;

static int holds(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return 1;
    return 0;
}

static int run(struct kit *kit, const struct kit_case *c)
{
    kit->random = kit->seed;
    req_drop_all(kit);
    kit->tolerant = 0;
    switch (setjmp(kit->out)) {
    case KIT_PASSED:
        c->run(kit);
        return KIT_PASSED;
    case KIT_SKIPPED:
        return KIT_SKIPPED;
    default:
        return KIT_FAILED;
    }
}

static int run_all(struct kit *kit)
{
    int number = 0, failed = 0;

    printf("# seed %llu\n", (unsigned long long)kit->seed);
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (const struct kit_case *c = families[f]; c->name; c++) {
            if ((n_only && !holds(only, n_only, c->name)) || holds(skipped, n_skipped, c->name))
                continue;
            int verdict = run(kit, c);
            failed += verdict == KIT_FAILED;
            printf("%sok %d - %s", verdict == KIT_FAILED ? "not " : "", ++number, c->name);
            if (verdict != KIT_PASSED)
                printf(" # %s%s", verdict == KIT_SKIPPED ? "SKIP " : "", kit->why);
            putchar('\n');
            fflush(stdout);
        }
    printf("1..%d\n", number);
    if (!number)
        fprintf(stderr, "conformance: no case of that name; --list shows them\n");
    return number ? failed > 0 : 2;
}

static void list(void)
{
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (const struct kit_case *c = families[f]; c->name; c++)
            puts(c->name);
}

/* What a child that was executed still has open: its exit status. */
static int count_sockets(void)
{
    int n = 0;

    for (int fd = 0; fd < 4096; fd++) {
        struct stat st;
        n += !fstat(fd, &st) && S_ISSOCK(st.st_mode);
    }
    return n < 100 ? n : 100;
}

static void log_line(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level <= 2)
        printf("# %s\n", line);
}

static int load(struct kit *kit, const char *library, int version, enum mn_host_mode mode)
{
    struct mn_diag diag;
    int devices = 0;

    if (!library || mn_plugin_open(library, version, &kit->plugin, &diag)) {
        fprintf(stderr, "conformance: %s\n", library ? diag.text : "--lib PATH is missing");
        return 2;
    }
    mn_plugin_set_log(kit->plugin, log_line, NULL);
    mn_plugin_set_mode(kit->plugin, mode);
    int result = mn_plugin_init(kit->plugin);
    if (!result)
        result = mn_plugin_devices(kit->plugin, &devices);
    if (result || devices < 1) {
        fprintf(stderr, "conformance: init or devices: %s, %d devices\n",
                mn_nccl_result_name(result), devices);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"lib", 1, NULL, 'l'},     {"version", 1, NULL, 'v'}, {"only", 1, NULL, 'o'},
        {"skip", 1, NULL, 'k'},    {"seed", 1, NULL, 's'},    {"list", 0, NULL, 'L'},
        {"sockets", 0, NULL, 'S'}, {"rccl", 0, NULL, 'R'},    {NULL, 0, NULL, 0},
    };
    static struct kit kit = {.seed = 1};
    const char *library = NULL;
    enum mn_host_mode mode = MN_HOST_NCCL;
    int version = 0, c;
    struct rlimit files;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'l')
            library = optarg;
        else if (c == 'v')
            version = atoi(optarg);
        else if (c == 'o' && n_only < MAX_NAMES)
            only[n_only++] = optarg;
        else if (c == 'k' && n_skipped < MAX_NAMES)
            skipped[n_skipped++] = optarg;
        else if (c == 's')
            kit.seed = strtoull(optarg, NULL, 0);
        else if (c == 'R')
            mode = MN_HOST_RCCL;
        else if (c == 'S')
            return count_sockets();
        else if (c == 'L')
            return list(), 0;
        else
            return 2;
    }
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    kit.self = "/proc/self/exe";
    int status = load(&kit, library, version, mode);
    return status ? status : run_all(&kit);
}
