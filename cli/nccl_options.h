/* What meshnet env and meshnet run have in common. */
#ifndef MN_NCCL_OPTIONS_H
#define MN_NCCL_OPTIONS_H

#include "cli/nccl_env.h"
#include "topo/base/opt.h"

struct mn_nccl_options {
    int rccl; /* index into the choices */
    const char *mesh, *plugin, *release;
    struct mn_opt_list hosts;
};

#define MN_NCCL_OPTIONS(owner, member)                                                             \
    {.name = "for",                                                                                \
     .type = MN_OPT_CHOICE,                                                                        \
     .arg = "LIBRARY",                                                                             \
     .def = "nccl",                                                                                \
     .offset = offsetof(owner, member.rccl),                                                       \
     .choices = "nccl|rccl",                                                                       \
     .help = "The library that is told."},                                                         \
        {.name = "release",                                                                        \
         .type = MN_OPT_STRING,                                                                    \
         .arg = "VERSION",                                                                         \
         .offset = offsetof(owner, member.release),                                                \
         .help = "Its NCCL version, when that is older than 2.21 (RCCL: ROCm before 6.2)."},       \
        {.name = "mesh",                                                                           \
         .type = MN_OPT_STRING,                                                                    \
         .arg = "FILE",                                                                            \
         .offset = offsetof(owner, member.mesh),                                                   \
         .help = "The mesh file; default: see meshnet.yaml(5)."},                                  \
        {.name = "hosts",                                                                          \
         .type = MN_OPT_LIST,                                                                      \
         .arg = "NODE,…",                                                                          \
         .offset = offsetof(owner, member.hosts),                                                  \
         .help = "The nodes of the job in the order of their ranks, which is looked at."},         \
    {                                                                                              \
        .name = "plugin", .type = MN_OPT_STRING, .arg = "FILE",                                    \
        .offset = offsetof(owner, member.plugin),                                                  \
        .help = "The network plugin; default: meshnet's own."                                      \
    }

/* All of it; after MN_OK both are to be freed. */
enum mn_err mn_nccl_find(const struct mn_nccl_options *options, struct mn_nccl_subject *subject,
                         struct mn_nccl_env *env, struct mn_diag *diag);
/* On standard error. */
void mn_nccl_say_warnings(const char *command, const struct mn_nccl_env *env);

#endif
