#include "cli/job_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/host_name.h"
#include "topo/base/alloc.h"

#define WORDS_MAX 512     /* of a command that are looked at */
#define FILE_MAX  1048576 /* bytes of a list of hosts */

enum kind {
    HOSTS,    /* a,b:2,c */
    HOSTFILE, /* a line a host; # begins a comment */
    RANKFILE, /* rank 0=a slot=… */
    SLURM     /* a[1-3],b, in an order of its own */
};

/* The options by which launchers are told their hosts, by the launcher's name. */
static const struct option {
    const char *launcher, *name;
    enum kind kind;
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
    enum kind kind;
} variables[] = {{"SLURM_STEP_NODELIST", SLURM},
                 {"SLURM_JOB_NODELIST", SLURM},
                 {"PBS_NODEFILE", HOSTFILE}};

void mn_job_order_free(struct mn_job_order *order)
{
    free(order->nodes);
    order->nodes = NULL;
}

/* --- lists of hosts ------------------------------------------------------------------------- */

/* "spark-a:8" without the slots, in place. */
static void cut_slots(char *name)
{
    char *colon = strchr(name, ':');

    if (colon && strspn(colon + 1, "0123456789") == strlen(colon + 1))
        *colon = 0;
}

static int node_called(const struct mn_mesh *mesh, int self, const char *word)
{
    char name[256];

    if (!mn_strlcpy(name, word, sizeof name))
        return -1;
    cut_slots(name);
    return mn_names_find(mesh, self, name);
}

/* 0: it is no node, and so all of it is no order that can be judged. */
static int add(const struct mn_mesh *mesh, int self, const char *name, struct mn_job_order *order)
{
    int node = node_called(mesh, self, name);

    if (node < 0)
        return 0;
    for (int i = 0; i < order->n; i++)
        if (order->nodes[i] == node)
            return 1;
    if (!order->nodes)
        order->nodes = mn_zalloc((mesh->n_nodes + 1) * sizeof *order->nodes);
    order->nodes[order->n++] = node;
    return 1;
}

static int add_list(const struct mn_mesh *mesh, int self, const char *list,
                    struct mn_job_order *order)
{
    char *copy = mn_strdup(list), *rest = copy, *item;
    int known = 1;

    while (known && (item = strsep(&rest, ",")) != NULL)
        known = !*item || add(mesh, self, item, order);
    free(copy);
    return known;
}

static int by_name(const void *x, const void *y)
{
    return strverscmp(*(char *const *)x, *(char *const *)y);
}

static int add_slurm(const struct mn_mesh *mesh, int self, const char *list, int sort,
                     struct mn_job_order *order)
{
    char **names = NULL;
    size_t n = 0;
    int known = 1;

    mn_slurm_hosts(list, &names, &n);
    if (n && sort)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        known = known && add(mesh, self, names[i], order);
        free(names[i]);
    }
    free(names);
    return known;
}

/* "rank 3=spark-b slot=0": its host at its rank. */
static void note_rank(char *line, char **hosts, size_t max)
{
    char *at = line + strspn(line, " \t"), *end;

    if (strncmp(at, "rank", 4) != 0)
        return;
    unsigned long rank = strtoul(at + 4, &end, 10);
    end += strspn(end, " \t");
    if (*end != '=' || rank >= max || hosts[rank])
        return;
    end += 1 + strspn(end + 1, " \t");
    end[strcspn(end, " \t")] = 0;
    hosts[rank] = end;
}

static int add_file(const struct mn_mesh *mesh, int self, const char *path, enum kind kind,
                    struct mn_job_order *order)
{
    char *ranks[8192] = {NULL}, *text, *rest, *line;
    struct stat st;
    size_t len;
    int known = 1;

    /* What comes through a pipe is the launcher's to read. */
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    if (mn_file_read(path, FILE_MAX, &text, &len, NULL))
        return 0;
    for (rest = text; (line = strsep(&rest, "\n")) != NULL;) {
        line[strcspn(line, "#\r")] = 0;
        if (kind == RANKFILE) {
            note_rank(line, ranks, sizeof ranks / sizeof *ranks);
            continue;
        }
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = 0;
        known = known && (!*line || add(mesh, self, line, order));
    }
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        known = known && (!ranks[i] || add(mesh, self, ranks[i], order));
    free(text);
    mn_strlcpy(order->file, path, sizeof order->file);
    return known;
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

static void forget(struct mn_job_order *order)
{
    free(order->nodes);
    *order = (struct mn_job_order){.word = -1, .node_rank = -1, .first = -1};
}

static int take(const struct mn_mesh *mesh, int self, enum kind kind, const char *value, int keeps,
                struct mn_job_order *order)
{
    int known = kind == HOSTS   ? add_list(mesh, self, value, order)
                : kind == SLURM ? add_slurm(mesh, self, value, !keeps, order)
                                : add_file(mesh, self, value, kind, order);

    order->sorts = kind == SLURM && !keeps;
    if (!known || !order->n)
        forget(order);
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

static int find_option(const struct mn_mesh *mesh, int self, int argc, char **argv, int begin,
                       struct mn_job_order *order)
{
    const char *launcher = launcher_of(argv[begin]);
    int sure, end = program_at(launcher, argc, argv, begin + 1, &sure);

    for (int i = begin + 1; is_launcher(launcher) && i < end; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            int word = i;
            size_t prefix;
            const char *value = strcmp(launcher, options[k].launcher) != 0
                                    ? NULL
                                    : value_of(options[k].name, argc, argv, &word, &prefix);
            if (!value || !take(mesh, self, options[k].kind, value,
                                is_arbitrary(argc, argv, begin + 1), order))
                continue;
            if (options[k].kind == HOSTS || (options[k].kind == SLURM && !strchr(value, '['))) {
                order->word = word;
                order->prefix = prefix;
                order->unsure = i >= sure;
            }
            snprintf(order->where, sizeof order->where, "%s %s", launcher, options[k].name);
            return 1;
        }
    return 0;
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
            take(mesh, self, HOSTFILE, file, 1, order)) {
            snprintf(order->where, sizeof order->where, "SLURM_HOSTFILE");
            return;
        }
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i].name), *how = getenv("SLURM_DISTRIBUTION");
        if (!value || !*value ||
            !take(mesh, self, variables[i].kind, value, how && !strncmp(how, "arbitrary", 9),
                  order))
            continue;
        snprintf(order->where, sizeof order->where, "%s", variables[i].name);
        return;
    }
}

int mn_job_order_same(const struct mn_mesh *mesh, int self, const char *list, const int *nodes,
                      int n)
{
    char *copy = mn_strdup(list), *rest = copy, *item, *seen = mn_zalloc((size_t)n + 1);
    int count = 0, same = 1;

    while (same && (item = strsep(&rest, ",")) != NULL) {
        int node, at = 0;
        if (!*item)
            continue;
        node = node_called(mesh, self, item);
        while (at < n && nodes[at] != node)
            at++;
        same = at < n && !seen[at];
        seen[at] = 1;
        count++;
    }
    free(copy);
    free(seen);
    return same && count == n;
}

char *mn_job_order_word(const struct mn_mesh *mesh, int self, const char *word, size_t prefix,
                        const int *nodes, int n)
{
    char *text = mn_zalloc(strlen(word) + 2), *copy, *rest, *item;

    memcpy(text, word, prefix);
    for (int i = 0; i < n; i++) {
        copy = rest = mn_strdup(word + prefix);
        while ((item = strsep(&rest, ",")) != NULL) {
            if (!*item || node_called(mesh, self, item) != nodes[i])
                continue;
            if (strlen(text) > prefix)
                strcat(text, ",");
            strcat(text, item);
        }
        free(copy);
    }
    return text;
}
