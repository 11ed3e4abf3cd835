/* A subcommand: one file, one row in the table of main.c, one man page, one bats file. */
#ifndef MN_CMD_H
#define MN_CMD_H

#include "topo/base/opt.h"

/* A row of the exit codes in help and man page, the same words in both. */
struct mn_exit {
    int code;
    const char *text; /* NULL ends the list */
};
#define MN_GOOD    "good"
#define MN_FAILED  "failed: "
#define MN_REFUSED "wrong usage or configuration: "

struct mn_command {
    const char *name;
    const char *summary;          /* one line for meshnet --help */
    const char *usage;            /* "[OPTION]… --peer HOST", shown after "meshnet NAME " */
    const struct mn_opt *options; /* rows, MN_OPT_END last; main parses, prints --help */
    size_t options_size;          /* sizeof the struct the rows fill */
    const char *notes;            /* examples, shown under the options */
    struct mn_exit exits[5];      /* shown under the notes; in its man page, too */
    /* values is the filled struct; argv[0..argc) are the operands left. Returns the exit code. */
    int (*run)(const void *values, int argc, char **argv);
    /* Commands by their second word, NULL-terminated, each with "NAME WORD" as its name and a page
     * and a shell test of its own; run is not looked at. NULL: a command without parts. */
    const struct mn_command *const *parts;
};

/* The word by which a part is called. */
const char *mn_cmd_word(const struct mn_command *part);

/* The table, NULL-terminated: main.c. Every row is declared below it. */
extern const struct mn_command *const mn_commands[];
extern const struct mn_command mn_cmd_discover, mn_cmd_serve, mn_cmd_bench, mn_cmd_compare,
    mn_cmd_report, mn_cmd_verify_plugin, mn_cmd_env, mn_cmd_run, mn_cmd_trace, mn_cmd_replay,
    mn_cmd_topo, mn_cmd_topo_address, mn_cmd_topo_emit, mn_cmd_node, mn_cmd_completion;
extern const struct mn_command mn_cmd_topo_plan;
extern const struct mn_command mn_cmd_topo_ranks;
extern const struct mn_command mn_cmd_topo_routes;
extern const struct mn_command mn_cmd_topo_show;
extern const struct mn_command mn_cmd_topo_apply;
extern const struct mn_command mn_cmd_push;
extern const struct mn_command mn_cmd_doctor;
extern const struct mn_command mn_cmd_relayd;
extern const struct mn_command mn_cmd_tune;

/* A row of every command that prints tables, whose struct has an int wide: mn_out_width(out, 0). */
#define MN_WIDE_OPTION(owner)                                                                      \
    {                                                                                              \
        .name = "wide", .type = MN_OPT_FLAG, .offset = offsetof(owner, wide),                      \
        .help = "All columns of the tables, however narrow the terminal."                          \
    }

/* Prints "meshnet NAME: text" on stderr and returns mn_err_exit_code(diag->code). */
int mn_cmd_fail(const char *name, const struct mn_diag *diag);
/* What was printed went nowhere. written: a file that is there all the same; NULL: none. */
enum mn_err mn_cmd_lost(const char *written, struct mn_diag *diag);

#endif
