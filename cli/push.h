/* meshnet push in steps: who has what, writing, telling. */
#ifndef MN_CLI_PUSH_H
#define MN_CLI_PUSH_H

#include "fleet/crew.h"
#include "fleet/files.h"
#include "topo/base/out.h"

struct mn_push_host {
    char name[256];
    struct mn_file_state had, now; /* now.changed: it was written */
    enum mn_err err;
    struct mn_diag diag; /* begins with the host's name */
    int by_root;         /* sudo has to write it */
};

struct mn_push {
    char file[512], *text; /* text is its own */
    size_t len;
    struct mn_mesh_own own; /* of the file */
    const char *to;         /* a path, NULL = the file's place */
    struct mn_push_host *hosts;
    size_t n;
    int wrote; /* it was tried */
};

/* Asks every host for what it has, and whether it could be replaced. */
void mn_push_look(struct mn_push *push, struct mn_crew *crew);
/* Writes it to those that have other bytes, but for hosts that failed. */
void mn_push_write(struct mn_push *push, struct mn_crew *crew);
size_t mn_push_failed(const struct mn_push *push);
void mn_push_show(const struct mn_push *push, struct mn_out *out);
/* What failed, a line each on standard error. */
void mn_push_say(const struct mn_push *push, const char *command);
void mn_push_free(struct mn_push *push);

#endif
