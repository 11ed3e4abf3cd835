/* Between the files of doctor's questions: each is a row in the table of fleet/doctor_ask.c. */
#ifndef MN_DOCTOR_ASK_H
#define MN_DOCTOR_ASK_H

#include <cjson/cJSON.h>

#include "topo/mesh.h"

/* Who is asked. */
struct mn_doctor_look {
    const cJSON *ask;
    const struct mn_mesh *mesh; /* the asker's; no nodes: it sent none */
    int self;                   /* this node of it, -1 = not known */
    const struct mn_host *host;
};

/* Adds what it found to the answer. */
typedef void mn_doctor_question(const struct mn_doctor_look *look, cJSON *answer);

mn_doctor_question mn_doctor_ask_mesh, mn_doctor_ask_versions, mn_doctor_ask_names,
    mn_doctor_ask_nics, mn_doctor_ask_counters, mn_doctor_ask_findings, mn_doctor_ask_libraries,
    mn_doctor_ask_settings, mn_doctor_ask_limits, mn_doctor_ask_forwarding, mn_doctor_ask_firewall,
    mn_doctor_ask_apply, mn_doctor_ask_relay, mn_doctor_ask_probes;

/* The NIC of the host that carries data as NIC i of its node in the mesh; NULL: it is for
 * management, has no cable or is not there. */
const struct mn_nic *mn_doctor_nic(const struct mn_doctor_look *look, size_t i);
/* Whether packets of others pass through this node: a route of the mesh leads over it. */
int mn_doctor_is_transit(const struct mn_doctor_look *look);
/* Whether the mesh has nodes without a common cable, which relays may reach. */
int mn_doctor_wants_relay(const struct mn_mesh *mesh);
/* A file of one line, without its end; 0 when it cannot be read. */
int mn_doctor_line(char *buf, size_t size, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

/* Lines of files, into a list of at most 64 objects. */
struct mn_doctor_reading {
    cJSON *list;
    const char *file;
    int line;
};
typedef void mn_doctor_on_line(struct mn_doctor_reading *r, char *line);
/* take is called for each line of each file that the pattern names, which it may change. */
void mn_doctor_each_line(struct mn_doctor_reading *r, const char *pattern, mn_doctor_on_line *take);
/* A new object of the list with "file" and "line". */
cJSON *mn_doctor_place(const struct mn_doctor_reading *r);

/* Whose limits are asked for. */
struct mn_doctor_user {
    char name[64];
    unsigned uid;
    struct mn_doctor_group {
        char name[64];
        unsigned gid;
    } groups[64];
    size_t n_groups;
};
/* Marks the lines of limits.conf that set what a session of the user has: "counts". */
void mn_doctor_limits_weigh(cJSON *lines, const struct mn_doctor_user *user);

#endif
