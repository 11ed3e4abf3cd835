/* Ranks at other hosts, through OpenSSH. The control connection comes back through ssh's own, so
 * that it needs no address of this host and ends with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_collective.h"
#include "topo/base/alloc.h"

/* Of the environment these go along, less what belongs to one host or one process. */
static const char *const prefixes[] = {"NCCL_", "MESHNET_"};
static const char *const stay[] = {"MESHNET_NODE=", "MESHNET_TOKEN=", "MESHNET_RANK=",
                                   "MESHNET_WORLD=", "MESHNET_SSH="};

static int begins(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strncmp(text, list[i], strlen(list[i])))
            return 1;
    return 0;
}

/* A word of the command line that the shell there reads as it is. */
static void add_word(FILE *file, const char *word)
{
    fputs(" '", file);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", file);
        else
            fputc(*word, file);
    fputc('\'', file);
}

static void add_list(FILE *file, const char *option, const struct mn_opt_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        add_word(file, option);
        add_word(file, list->items[i]);
    }
}

static void add_number(FILE *file, const char *option, long number)
{
    if (number)
        fprintf(file, " %s %ld", option, number);
}

static void add_environment(FILE *file)
{
    for (char **e = environ; *e; e++)
        if (begins(*e, prefixes, sizeof prefixes / sizeof *prefixes) &&
            !begins(*e, stay, sizeof stay / sizeof *stay))
            add_word(file, *e);
}

static void add_command(FILE *file, const struct mn_collective_session *s, int rank)
{
    const struct mn_bench_options *o = s->options;
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = 0;
    fputs("exec env", file);
    add_environment(file);
    fprintf(file, " MESHNET_RANK=%d MESHNET_WORLD=%d", rank, s->plan.nranks);
    add_word(file, n > 0 ? exe : "meshnet");
    fprintf(file, " bench --coordinator 127.0.0.1 --port %u --token-file /dev/stdin", s->plan.port);
    if (o->links)
        fputs(" --links", file);
    if (o->pairs)
        fputs(" --pairs", file);
    add_list(file, "--collective", &o->collectives);
    add_list(file, "--sizes", &o->sizes);
    add_list(file, "--type", &o->types);
    add_list(file, "--op", &o->ops);
    add_list(file, "--algorithm", &o->algorithms);
    if (o->plugin) {
        add_word(file, "--plugin");
        add_word(file, o->plugin);
    }
    add_word(file, "--pin");
    add_word(file, o->pin);
    add_number(file, "--root", o->root);
    add_number(file, "--iters", o->iters);
    add_number(file, "--warmup", o->warmup);
    add_number(file, "--abi", o->abi);
    add_number(file, "--device", o->device);
    struct mn_repeat_plan repeat = mn_bench_repeat(o);
    fprintf(file, " --duration %ums --max-duration %ums --precision %g --timeout %ums%s",
            repeat.duration_ms, repeat.most_ms, repeat.precision, o->timeout_ms,
            o->no_check ? " --no-check" : "");
}

/* The token goes through standard input: neither command lines nor environments show it. */
static int hand_over_token(const uint8_t token[MN_KEY_SIZE])
{
    char text[2 * MN_KEY_SIZE + 1];
    int fds[2];

    for (int i = 0; i < MN_KEY_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", token[i]);
    if (pipe(fds) || write(fds[1], text, sizeof text - 1) != sizeof text - 1 ||
        dup2(fds[0], STDIN_FILENO) < 0)
        return -1;
    close(fds[0]);
    return close(fds[1]);
}

int mn_collective_is_here(const char *host)
{
    const char *node = getenv("MESHNET_NODE");
    char own[65] = "";

    gethostname(own, sizeof own - 1);
    return !strcmp(host, "localhost") || !strcmp(host, own) || (node && !strcmp(host, node));
}

static int seen_before(const struct mn_opt_list *hosts, int rank)
{
    for (int r = 0; r < rank; r++)
        if (!strcmp(hosts->items[r], hosts->items[rank]))
            return 1;
    return 0;
}

int mn_collective_ssh(const struct mn_collective_session *s, int rank)
{
    const char *host = s->hosts->items[rank], *ssh = getenv("MESHNET_SSH");
    char forward[64], *command = NULL;
    size_t size;
    FILE *file = open_memstream(&command, &size);

    if (!file)
        return 1;
    add_command(file, s, rank);
    if (fclose(file) || hand_over_token(s->plan.token))
        return 1;
    snprintf(forward, sizeof forward, "127.0.0.1:%u:127.0.0.1:%u", s->plan.port, s->plan.port);
    /* Ranks of one host share the way back of the first. */
    const char *strict =
        seen_before(s->hosts, rank) ? "ExitOnForwardFailure=no" : "ExitOnForwardFailure=yes";
    ssh = ssh && *ssh ? ssh : "ssh";
    execlp(ssh, ssh, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
           "ServerAliveInterval=3", "-o", "ServerAliveCountMax=2", "-o", strict, "-R", forward,
           "--", host, command, (char *)NULL);
    fprintf(stderr, "%s: cannot be run\n", ssh);
    return 1;
}
