/* Ranks at other hosts, through OpenSSH. The control connection comes back through ssh's own, so
 * that it needs no address of this host and ends with it. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "cli/host_name.h"
#include "fleet/ssh.h"
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

static void add_environment(FILE *file)
{
    for (char **e = environ; *e; e++)
        if (begins(*e, prefixes, sizeof prefixes / sizeof *prefixes) &&
            !begins(*e, stay, sizeof stay / sizeof *stay))
            mn_ssh_word(file, *e);
}

static void add_command(FILE *file, const struct mn_collective_session *s, int rank)
{
    const struct mn_bench_options *o = s->options;
    struct mn_opt_list words;
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = 0;
    fputs("exec env", file);
    add_environment(file);
    fprintf(file, " MESHNET_RANK=%d MESHNET_WORLD=%d", rank, s->plan.nranks);
    mn_ssh_word(file, n > 0 ? exe : "meshnet");
    fprintf(file,
            " bench --coordinator " MN_SSH_COORDINATOR " --port %u --token-file " MN_SSH_TOKEN,
            s->plan.port);
    if (o->plugin) {
        mn_ssh_word(file, "--plugin");
        mn_ssh_word(file, o->plugin);
    }
    mn_collective_words(o, &words);
    for (size_t i = 0; i < words.count; i++)
        mn_ssh_word(file, words.items[i]);
    mn_collective_free_words(&words);
}

static int seen_before(const struct mn_opt_list *hosts, int rank)
{
    for (int r = 0; r < rank; r++)
        if (!strcmp(hosts->items[r], hosts->items[rank]))
            return 1;
    return 0;
}

/* Becomes ssh, to where the host's name or the way leads; returns when that cannot be. */
static int become_ssh(const struct mn_collective_session *s, int rank, const char *way,
                      const char *command)
{
    char forward[64];
    struct mn_diag diag;

    if (mn_key_to_stdin(s->plan.token, &diag))
        return mn_cmd_fail("bench", &diag);
    snprintf(forward, sizeof forward, "127.0.0.1:%u:127.0.0.1:%u", s->plan.port, s->plan.port);
    /* Ranks of one host share the way back of the first. */
    const char *strict =
        seen_before(s->hosts, rank) ? "ExitOnForwardFailure=no" : "ExitOnForwardFailure=yes";
    struct mn_ssh ssh = {.host = s->hosts->items[rank],
                         .address = way,
                         .words = (const char *const[]){"-o", strict, "-R", forward, NULL},
                         .connect_s = way ? 5 : 10,
                         .command = command};
    return mn_ssh_become(&ssh);
}

/* In a process of its own, which ends with this one. Returns its exit code. */
static int try_ssh(const struct mn_collective_session *s, int rank, const char *way, char *command)
{
    pid_t self = getpid(), pid;
    int status = 0;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != self)
            _exit(1);
        int code = become_ssh(s, rank, way, command);
        fflush(NULL);
        _exit(code);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int mn_collective_ssh(const struct mn_collective_session *s, int rank)
{
    char ways[MN_NAMES_WAYS][MN_ADDR_TEXT], *command = NULL;
    int n = mn_names_ways(&s->mesh, s->self, s->hosts->items[rank], ways);
    size_t size;
    FILE *file = open_memstream(&command, &size);

    if (!file)
        return 1;
    add_command(file, s, rank);
    if (fclose(file))
        return 1;
    int code = try_ssh(s, rank, NULL, command);
    for (int i = 0; i < n && code == MN_SSH_FAILED && !atomic_load(&s->plan.roll->ranks[rank].came);
         i++) {
        fprintf(stderr, "meshnet bench: %s: trying its address %s\n", s->hosts->items[rank],
                ways[i]);
        code = try_ssh(s, rank, ways[i], command);
    }
    free(command);
    return code;
}
