#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/cmd.h"
#include "cli/pages.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"

const struct mn_command *const mn_commands[] = {
    &mn_cmd_discover, &mn_cmd_doctor,        &mn_cmd_serve,
    &mn_cmd_relayd,   &mn_cmd_bench,         &mn_cmd_compare,
    &mn_cmd_report,   &mn_cmd_verify_plugin, &mn_cmd_env,
    &mn_cmd_run,      &mn_cmd_trace,         &mn_cmd_replay,
    &mn_cmd_topo,     &mn_cmd_tune,          &mn_cmd_node,
    &mn_cmd_push,     &mn_cmd_completion,    NULL,
};

static void help(FILE *file)
{
    fputs("meshnet: everything between a cable and NCCL, for clusters without a switch\n\n"
          "usage: meshnet COMMAND [OPTION]…\n\n",
          file);
    for (int i = 0; mn_commands[i]; i++)
        fprintf(file, "  %-15s %s\n", mn_commands[i]->name, mn_commands[i]->summary);
    fputs("\nmeshnet COMMAND --help tells its options; meshnet help TOPIC shows the manual of\n"
          "a command, of meshnet itself or of the mesh file (yaml).\n",
          file);
}

static void command_help(const struct mn_command *cmd)
{
    printf("meshnet %s: %s\n\nusage: meshnet %s %s\n\n", cmd->name, cmd->summary, cmd->name,
           cmd->usage);
    for (int i = 0; cmd->parts && cmd->parts[i]; i++)
        printf("  %-15s %s\n", mn_cmd_word(cmd->parts[i]), cmd->parts[i]->summary);
    mn_opt_help(cmd->options, stdout);
    if (cmd->notes)
        printf("\n%s%s", cmd->notes, cmd->notes[strlen(cmd->notes) - 1] == '\n' ? "" : "\n");
    fputs("\nExit codes:\n", stdout);
    for (const struct mn_exit *e = cmd->exits; e->text; e++)
        printf("  %-3d  %s\n", e->code, e->text);
}

static const struct mn_command *find(const char *name)
{
    for (int i = 0; mn_commands[i]; i++)
        if (!strcmp(mn_commands[i]->name, name))
            return mn_commands[i];
    return NULL;
}

const char *mn_cmd_word(const struct mn_command *part)
{
    const char *space = strchr(part->name, ' ');

    return space ? space + 1 : part->name;
}

static const struct mn_command *find_part(const struct mn_command *cmd, const char *word)
{
    for (int i = 0; cmd->parts[i]; i++)
        if (!strcmp(mn_cmd_word(cmd->parts[i]), word))
            return cmd->parts[i];
    return NULL;
}

static const char *part_name(const void *cmd, size_t i)
{
    const struct mn_command *part = ((const struct mn_command *)cmd)->parts[i];

    return part ? mn_cmd_word(part) : NULL;
}

static const char *command_name(const void *ctx, size_t i)
{
    (void)ctx;
    return mn_commands[i] ? mn_commands[i]->name : NULL;
}

int mn_cmd_fail(const char *name, const struct mn_diag *diag)
{
    fflush(stdout);
    fprintf(stderr, "meshnet %s: %s\n", name, diag->text);
    return mn_err_exit_code(diag->code);
}

static int wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return 1;
    return 0;
}

static int run(const struct mn_command *cmd, int argc, char **argv)
{
    struct mn_diag diag;
    int first, code;

    if (wants_help(argc, argv)) {
        command_help(cmd);
        return 0;
    }
    void *values = mn_zalloc(cmd->options_size);
    if (mn_opt_parse(cmd->options, values, argc, argv, &first, &diag))
        code = mn_cmd_fail(cmd->name, &diag);
    else
        code = cmd->run(values, argc - first, argv + first);
    mn_opt_free(cmd->options, values);
    free(values);
    return code;
}

/* The part that the first operand names. */
static int run_part(const struct mn_command *cmd, int argc, char **argv)
{
    const struct mn_command *part = argc ? find_part(cmd, argv[0]) : NULL;
    const char *near = argc ? mn_nearest(argv[0], part_name, cmd) : NULL;

    if (part)
        return run(part, argc - 1, argv + 1);
    if (wants_help(argc, argv)) {
        command_help(cmd);
        return 0;
    }
    fprintf(stderr, "meshnet %s: ", cmd->name);
    if (argc)
        fprintf(stderr, "unknown part '%s'%s%s%s; expected one of", argv[0],
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    else
        fputs("expected one of", stderr);
    for (int i = 0; cmd->parts[i]; i++)
        fprintf(stderr, "%s %s", i ? "," : "", mn_cmd_word(cmd->parts[i]));
    fputc('\n', stderr);
    return 2;
}

static const char *topic_name(const void *ctx, size_t i)
{
    (void)ctx;
    return mn_pages[i].name ? mn_page_short(&mn_pages[i]) : NULL;
}

static int show_topic(const char *topic)
{
    const struct mn_page_source *page = mn_page_find(topic);
    const char *near = mn_nearest(topic, topic_name, NULL);

    if (page) {
        mn_page_show(page);
        return 0;
    }
    fprintf(stderr, "meshnet help: no page on '%s'%s%s%s; there are:", topic,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (int i = 0; mn_pages[i].name; i++)
        fprintf(stderr, " %s", mn_page_short(&mn_pages[i]));
    fputc('\n', stderr);
    return 2;
}

static int unknown(const char *name)
{
    const char *near = mn_nearest(name, command_name, NULL);

    fprintf(stderr, "meshnet: unknown command '%s'%s%s%s; meshnet --help lists them\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}

/* Else what could not be read or written for want of memory passes for nonsense from a peer. */
static void *json_memory(size_t size)
{
    void *at = malloc(size);

    if (!at)
        mn_no_memory();
    return at;
}

/* Else a pipe or a socket takes the place of a standard stream that the starter closed. Writing to
 * it fails as before. */
static void fill_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    int code = 0;

    fill_streams();
    signal(SIGPIPE, SIG_IGN);
    /* Where it is ignored nobody hears how a process ended, and a starter hands that on. */
    signal(SIGCHLD, SIG_DFL);
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_memory, .free_fn = free});
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    const char *name = argv[1];
    int asks = !strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h");
    const struct mn_command *cmd = find(name);
    if (asks && argc == 2)
        help(stdout);
    else if (asks)
        code = show_topic(argv[2]);
    else if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        printf("meshnet %s\n", MESHNET_VERSION);
    else if (cmd)
        code = cmd->parts ? run_part(cmd, argc - 2, argv + 2) : run(cmd, argc - 2, argv + 2);
    else
        code = unknown(name);
    if (mn_out_lost(stdout) && !code) {
        fputs("meshnet: writing the output failed\n", stderr);
        code = 1;
    }
    return code;
}
