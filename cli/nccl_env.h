/* What NCCL and RCCL are told in their environment so that they use this plugin and this mesh, and
 * what on this host could make them use something else. */
#ifndef MN_NCCL_ENV_H
#define MN_NCCL_ENV_H

#include "topo/mesh.h"

#define MN_NCCL_VARS 8

struct mn_nccl_subject {
    int rccl;          /* for RCCL rather than NCCL */
    long minor;        /* of the NCCL release 2.minor, for RCCL the one it is based on */
    char *plugin;      /* the library, absolute */
    char network[128]; /* its name, by which NCCL_NET asks for it */
    int tuner;         /* it is one, too */
    char *lacks;       /* what it is linked with that is not here, NULL = nothing */
    char *mesh_path;   /* NULL = no mesh file */
    struct mn_mesh mesh;
    int self; /* this node of it, -1 = not known */
    struct mn_host host;
};

struct mn_nccl_var {
    const char *name, *why;
    char *value;
    int kept; /* as the environment has it already */
};

struct mn_nccl_env {
    struct mn_nccl_var vars[MN_NCCL_VARS];
    int n_vars;
    char **warnings;
    size_t n_warnings;
};

/* Reads mesh file and host. mesh: of --mesh, NULL = where the plugin looks. */
enum mn_err mn_nccl_subject_read(const char *mesh, const char *plugin,
                                 struct mn_nccl_subject *subject, struct mn_diag *diag);
void mn_nccl_subject_free(struct mn_nccl_subject *subject);
/* The variables, and warnings of what they cannot mend. */
void mn_nccl_env_fill(const struct mn_nccl_subject *subject, struct mn_nccl_env *env);
/* nccl_shadow.c: adds warnings of what shadows the plugin: configuration files, other plugins and
 * second libraries where the loader looks. */
void mn_nccl_env_shadows(const struct mn_nccl_subject *subject, struct mn_nccl_env *env);
/* nccl_tuner.c: whether a library has a tuner; and the variable for it. */
int mn_nccl_env_has_tuner(const char *library);
void mn_nccl_env_tuner(const struct mn_nccl_subject *subject, struct mn_nccl_env *env);
/* nccl_relay.c: a warning where relays are to be used and this node's does not run. */
void mn_nccl_env_relay(const struct mn_nccl_subject *subject, struct mn_nccl_env *env);
/* A variable more; value, malloc'ed, becomes the environment's. */
struct mn_nccl_var *mn_nccl_env_add(struct mn_nccl_env *env, const char *name, char *value,
                                    const char *why);
void mn_nccl_env_warn(struct mn_nccl_env *env, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mn_nccl_env_free(struct mn_nccl_env *env);

#endif
