/* The parts of meshnet doctor: what is asked, what came back, how it is shown and kept. */
#ifndef MN_CLI_DOCTOR_H
#define MN_CLI_DOCTOR_H

#include "cli/crew_options.h"
#include "cli/live.h"
#include "fleet/doctor.h"
#include "topo/base/out.h"

struct mn_doctor_options {
    struct mn_crew_options crew;
    const char *mesh, *save, *answers;
    unsigned interval_ms;
    int json, wide, strict, no_write, watch;
};

/* One round. */
struct mn_doctor_session {
    const struct mn_doctor_options *options;
    struct mn_mesh mesh;
    char path[512]; /* of the mesh file */
    int file_given; /* it was named, by --mesh or MESHNET_CONFIG */
    int self;       /* this host's node, -1 = none */
    struct mn_doctor_node *nodes;
    struct mn_doctor_write *writes; /* NULL = none */
    char *write_error;
    struct mn_troubles troubles;
    struct mn_live live; /* on a terminal alone */
};

/* doctor_collect.c: the mesh file, which is from then on the one in force, and who this host is. */
enum mn_err mn_doctor_open(const struct mn_doctor_options *options,
                           struct mn_doctor_session *session, struct mn_diag *diag);
/* Asks the nodes, writes over the cables, asks for the counters again. A node that does not answer
 * is no error. */
enum mn_err mn_doctor_collect(struct mn_doctor_session *session, struct mn_diag *diag);
void mn_doctor_progress(struct mn_doctor_session *session, size_t step, const char *what);
/* What a round has brought; the mesh stays. */
void mn_doctor_forget(struct mn_doctor_session *session);
void mn_doctor_close(struct mn_doctor_session *session);

/* doctor_write.c: writes over each cable between nodes that answered, by meshnet bench --links. */
enum mn_err mn_doctor_write_all(struct mn_doctor_session *session, struct mn_diag *diag);

/* doctor_record.c: a round in a folder, mesh.yaml, write.json and a file a node; what is read was
 * written by others. */
enum mn_err mn_doctor_save(const struct mn_doctor_session *session, struct mn_diag *diag);
enum mn_err mn_doctor_load(struct mn_doctor_session *session, struct mn_diag *diag);

/* doctor_print.c */
void mn_doctor_print(struct mn_out *out, const struct mn_doctor_session *session);
/* What is new and what is gone; returns how many. */
size_t mn_doctor_print_changes(struct mn_out *out, const struct mn_troubles *before,
                               const struct mn_troubles *now);

#endif
