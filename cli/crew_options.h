/* The rows of commands that ask many nodes, and the crew that they name. */
#ifndef MN_CREW_OPTIONS_H
#define MN_CREW_OPTIONS_H

#include "fleet/crew.h"
#include "topo/base/opt.h"

struct mn_crew_options {
    struct mn_opt_list hosts;
    int agents;
    const char *token_file;
    long port;
};

/* field: of owner, a struct mn_crew_options. */
#define MN_CREW_OPTIONS(owner, field)                                                              \
    {.name = "hosts",                                                                              \
     .type = MN_OPT_LIST,                                                                          \
     .arg = "LIST",                                                                                \
     .offset = offsetof(owner, field.hosts),                                                       \
     .help = "The hosts to ask, over ssh; what lacks this meshnet gets a copy for as long."},      \
        {.name = "agents",                                                                         \
         .type = MN_OPT_FLAG,                                                                      \
         .offset = offsetof(owner, field.agents),                                                  \
         .help = "Ask the meshnet serve of the hosts instead of ssh."},                            \
        {.name = "token-file",                                                                     \
         .type = MN_OPT_STRING,                                                                    \
         .arg = "FILE",                                                                            \
         .offset = offsetof(owner, field.token_file),                                              \
         .help = "The token of meshnet serve; default: $MESHNET_TOKEN."},                          \
    {                                                                                              \
        .name = "port", .type = MN_OPT_INT, .arg = "PORT", .def = "18515",                         \
        .offset = offsetof(owner, field.port), .min = 1, .max = 65535,                             \
        .help = "Port of meshnet serve."                                                           \
    }

/* MN_ERR_USAGE for what says nothing without --agents. Opening a crew looks, too. */
enum mn_err mn_crew_options_check(const struct mn_crew_options *o, struct mn_diag *diag);
/* Opens a crew of o->hosts. SIGINT and SIGTERM end its waits from now on (mn_launch_stop tells),
 * and what nodes have to say comes out on standard error. command: "push", for messages; stays the
 * caller's. */
enum mn_err mn_crew_options_open(const struct mn_crew_options *o, const char *command,
                                 struct mn_crew **crew, struct mn_diag *diag);
/* The same with other hosts than o's, which stay the caller's: the nodes of a mesh, say. */
enum mn_err mn_crew_options_open_hosts(const struct mn_crew_options *o,
                                       const struct mn_opt_list *hosts, const char *command,
                                       struct mn_crew **crew, struct mn_diag *diag);
/* A line on standard error for each answer that is an error, but not for hosts that were left out.
 * Returns how many there were. */
size_t mn_crew_print_failures(const char *command, const struct mn_crew_answer *answers, size_t n);

#endif
