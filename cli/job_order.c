#include "cli/job_order_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/host_name.h"
#include "topo/base/alloc.h"

#define WORDS_MAX 512 /* of a command that are looked at */

/* The options by which launchers are told their hosts, by the launcher's name. */
static const struct option {
    const char *launcher, *name;
    enum mn_job_list kind;
} options[] = {
    {"mpirun", "-H", HOSTS},
    {"mpirun", "--host", HOSTS},
    {"mpirun", "-host", HOSTS},
    {"mpirun", "-hosts", HOSTS},
    {"mpirun", "--hosts", HOSTS},
    {"mpirun", "--rankfile", RANKFILE},
    {"mpirun", "-rankfile", RANKFILE},
    {"mpirun", "-rf", RANKFILE},
    {"mpirun", "--hostfile", HOSTFILE},
    {"mpirun", "-hostfile", HOSTFILE},
    {"mpirun", "--machinefile", HOSTFILE},
    {"mpirun", "-machinefile", HOSTFILE},
    {"mpirun", "-f", HOSTFILE},
    {"srun", "-w", SLURM},
    {"srun", "--nodelist", SLURM},
    {"horovodrun", "-H", HOSTS},
    {"horovodrun", "--hosts", HOSTS},
    {"horovodrun", "-hostfile", HOSTFILE},
    {"horovodrun", "--hostfile", HOSTFILE},
    {"deepspeed", "-H", HOSTFILE},
    {"deepspeed", "--hostfile", HOSTFILE},
};

/* Other names of launchers with the same options. */
static const struct {
    const char *name, *as;
} aliases[] = {{"mpiexec", "mpirun"}, {"orterun", "mpirun"},       {"prterun", "mpirun"},
               {"salloc", "srun"},    {"mpiexec.hydra", "mpirun"}, {"mpirun.openmpi", "mpirun"}};

static const struct {
    const char *name;
    enum mn_job_list kind;
} variables[] = {{"SLURM_STEP_NODELIST", SLURM},
                 {"SLURM_JOB_NODELIST", SLURM},
                 {"PBS_NODEFILE", HOSTFILE}};

void mn_job_order_free(struct mn_job_order *order)
{
    free(order->nodes);
    order->nodes = NULL;
}

/* --- words of a command --------------------------------------------------------------------- */

static const char *launcher_of(const char *word)
{
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;

    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(name, aliases[i].name))
            return aliases[i].as;
    return name;
}

/* What follows the option: in words[i] from *prefix on, or in the next word. NULL: it is another
 * one. */
static const char *value_of(const char *option, int argc, char **argv, int *i, size_t *prefix)
{
    const char *word = argv[*i];
    size_t length = strlen(option);

    *prefix = 0;
    if (!strcmp(word, option))
        return *i + 1 < argc ? argv[++*i] : NULL;
    if (strncmp(word, option, length) != 0)
        return NULL;
    if (word[length] == '=')
        length++;
    else if (length > 2) /* -wHOST is -w HOST */
        return NULL;
    *prefix = length;
    return word + length;
}

/* The first of these options; NULL: none is there. */
static const char *value_at(const char *const *names, int argc, char **argv, int begin, int *word,
                            size_t *prefix)
{
    for (int i = begin; i < argc; i++)
        for (const char *const *name = names; *name; name++) {
            int at = i;
            const char *value = value_of(*name, argc, argv, &at, prefix);
            if (value) {
                *word = at;
                return value;
            }
        }
    return NULL;
}

static int is_arbitrary(int argc, char **argv, int begin)
{
    static const char *const names[] = {"--distribution", "-m", NULL};
    size_t prefix;
    int word;
    const char *value = value_at(names, argc, argv, begin, &word, &prefix);

    return value && !strncmp(value, "arbitrary", 9);
}

/* All but the host that is no node, and who named it. */
static void forget(struct mn_job_order *order)
{
    struct mn_job_order none = {.word = -1, .node_rank = -1, .first = -1};

    free(order->nodes);
    memcpy(none.stranger, order->stranger, sizeof none.stranger);
    memcpy(none.stranger_of, order->stranger_of, sizeof none.stranger_of);
    *order = none;
}

/* who: says so. */
static int take(const struct mn_mesh *mesh, int self, enum mn_job_list kind, const char *value,
                int keeps, const char *who, struct mn_job_order *order)
{
    int known = mn_job_list_add(mesh, self, kind, value, keeps, order);

    if (*order->stranger && !*order->stranger_of)
        snprintf(order->stranger_of, sizeof order->stranger_of, "%s", who);
    order->sorts = kind == SLURM && !keeps;
    if (!known || !order->n)
        forget(order);
    else
        snprintf(order->where, sizeof order->where, "%s", who);
    return order->n > 0;
}

static int is_launcher(const char *name)
{
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        if (!strcmp(name, options[k].launcher))
            return 1;
    return 0;
}

/* Words that follow an option as its values; -1: not known. */
static int values_of(const char *launcher, const char *word)
{
    static const char *const one[] = {"-np",      "-n",        "--np",
                                      "-N",       "-c",        "-x",
                                      "-m",       "-p",        "-t",
                                      "-ppn",     "-wdir",     "--wdir",
                                      "-w",       "-A",        "-J",
                                      "--map-by", "-map-by",   "--bind-to",
                                      "-bind-to", "--rank-by", "-rank-by",
                                      "--prefix", "-npernode", "--npernode",
                                      "--ntasks", "--nodes",   "--distribution",
                                      "-host",    NULL};
    static const char *const two[] = {"-mca", "--mca", "-gmca", "--gmca", "-genv", "-env", NULL};

    if (strchr(word, '='))
        return 0;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        if (!strcmp(launcher, options[k].launcher) && !strcmp(word, options[k].name))
            return 1;
    for (const char *const *name = one; *name; name++)
        if (!strcmp(word, *name))
            return 1;
    for (const char *const *name = two; *name; name++)
        if (!strcmp(word, *name))
            return 2;
    return -1;
}

/* Where the launcher's options end and its program begins, argc where none does. *sure: the first
 * word that might be the program, behind an option of which it is not known whether it has a
 * value. */
static int program_at(const char *launcher, int argc, char **argv, int begin, int *sure)
{
    int i = begin;

    *sure = argc;
    while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
        int values = values_of(launcher, argv[i]);
        i += 1 + (values > 0 ? values : 0);
        if (values < 0 && i < argc && argv[i][0] != '-') {
            if (*sure == argc)
                *sure = i;
            i++;
        }
    }
    if (i > argc)
        i = argc;
    if (*sure > i)
        *sure = i;
    return i;
}

/* Of the launcher's words from begin on, up to end, where its program begins at the latest. */
static int find_words(const struct mn_mesh *mesh, int self, int end, char **argv, int begin,
                      const char *launcher, struct mn_job_order *order)
{
    int sure, program = program_at(launcher, end, argv, begin, &sure);
    char who[96];

    for (int i = begin; i < program; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            int word = i;
            size_t prefix;
            const char *value = strcmp(launcher, options[k].launcher) != 0
                                    ? NULL
                                    : value_of(options[k].name, end, argv, &word, &prefix);
            snprintf(who, sizeof who, "%s %s", launcher, options[k].name);
            if (!value || !take(mesh, self, options[k].kind, value, is_arbitrary(end, argv, begin),
                                who, order))
                continue;
            if (options[k].kind == HOSTS || (options[k].kind == SLURM && !strchr(value, '['))) {
                order->word = word;
                order->prefix = prefix;
                order->unsure = i >= sure;
            }
            return 1;
        }
    return 0;
}

/* mpirun takes several programs, between colons, each with options of its own; ranks are numbered
 * through all of them. */
static int find_option(const struct mn_mesh *mesh, int self, int argc, char **argv, int begin,
                       struct mn_job_order *order)
{
    const char *launcher = launcher_of(argv[begin]);
    int several = !strcmp(launcher, "mpirun");

    for (int at = begin + 1, end; is_launcher(launcher) && at < argc; at = end + 1) {
        for (end = at; end < argc && (!several || strcmp(argv[end], ":") != 0);)
            end++;
        if (find_words(mesh, self, end, argv, at, launcher, order))
            order->programs++;
        else if (*order->stranger)
            break;
    }
    return order->n > 0;
}

/* --- torchrun ------------------------------------------------------------------------------- */

static int number(const char *text)
{
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : -1;

    return text && *text && !*end && value >= 0 && value < 100000 ? (int)value : -1;
}

/* It runs on each host; only its own number is told, and where number 0 is. */
static int find_node_rank(const struct mn_mesh *mesh, int self, int argc, char **argv, int begin,
                          struct mn_job_order *order)
{
    static const char *const rank[] = {"--node-rank", "--node_rank", NULL};
    static const char *const hosts[] = {"--nnodes", NULL};
    static const char *const first[] = {"--master-addr", "--master_addr", NULL};
    size_t prefix;
    int word, unused;

    if (strcmp(launcher_of(argv[begin]), "torchrun") != 0 &&
        strcmp(argv[begin], "torch.distributed.run") != 0)
        return 0;
    order->n_hosts = number(value_at(hosts, argc, argv, begin, &unused, &prefix));
    const char *master = value_at(first, argc, argv, begin, &unused, &prefix);
    order->first = master ? mn_names_find(mesh, self, master) : -1;
    const char *value = value_at(rank, argc, argv, begin, &word, &prefix);
    order->node_rank = number(value);
    if (!value || order->n_hosts < 1) {
        forget(order);
        return 0;
    }
    order->word = word;
    order->prefix = prefix;
    snprintf(order->where, sizeof order->where, "torchrun --node-rank");
    return 1;
}

/* --- all of it ------------------------------------------------------------------------------ */

void mn_job_order_find(const struct mn_mesh *mesh, int self, int argc, char **argv,
                       struct mn_job_order *order)
{
    const char *file = getenv("SLURM_HOSTFILE");

    *order = (struct mn_job_order){.word = -1, .node_rank = -1, .first = -1};
    for (int i = 0; i < argc && i < WORDS_MAX; i++) {
        if (find_option(mesh, self, argc, argv, i, order) ||
            find_node_rank(mesh, self, argc, argv, i, order))
            return;
        if (!strcmp(launcher_of(argv[i]), "srun") && file && is_arbitrary(argc, argv, i) &&
            take(mesh, self, HOSTFILE, file, 1, "SLURM_HOSTFILE", order))
            return;
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i].name), *how = getenv("SLURM_DISTRIBUTION");
        if (value && *value &&
            take(mesh, self, variables[i].kind, value, how && !strncmp(how, "arbitrary", 9),
                 variables[i].name, order))
            return;
    }
}
