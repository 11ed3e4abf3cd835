/* Doctor: what every node of a mesh is asked, and what is wrong judging by all their answers.
 *
 * The verb "doctor": ask is {"mesh": the mesh file's text, "file": where nodes have it, absent: in
 * the usual places, "only": [names of questions], absent: all}. The answer has an object or list
 * for each question, see the files of the questions; what a node does not know is left out. All of
 * it is a stranger's and is checked where it is read. */
#ifndef MN_DOCTOR_H
#define MN_DOCTOR_H

#include <cjson/cJSON.h>

#include "topo/mesh.h"
#include "topo/trouble.h"

/* What one node of the mesh said. */
struct mn_doctor_node {
    int asked;              /* 0: it was left out by choice */
    double begin, end;      /* the asker's clock around the question, s since the epoch */
    const char *error;      /* why there is no answer, NULL = there is one */
    const cJSON *facts;     /* NULL after an error */
    const cJSON *counters;  /* the answer to "counters" asked again later, NULL = it was not */
    char mesh_differs[512]; /* "" = its mesh file is the asker's, or it has none that can be read */
};

enum mn_doctor_write_state { MN_WRITE_UNKNOWN, MN_WRITE_OK, MN_WRITE_DEAD, MN_WRITE_WRONG };

/* What a write over a cable came to. */
struct mn_doctor_write {
    enum mn_doctor_write_state state;
    double gbps; /* the slower direction; 0 = not measured */
    char error[200];
};

struct mn_doctor_case {
    const struct mn_mesh *mesh;
    const char *file;                     /* the mesh file, for texts */
    int file_given;                       /* it is in force only where it is named */
    const struct mn_doctor_node *nodes;   /* by node of the mesh */
    const struct mn_doctor_write *writes; /* by link; NULL = nothing was written */
    const char *write_error;              /* why not all was measured, NULL = all was */
};

/* What is wrong, worst first, the cause before what follows from it. */
void mn_doctor_judge(const struct mn_doctor_case *what, struct mn_troubles *troubles);
/* The i-th rule by which it is judged, of the nodes' own findings too; NULL after the last. */
const struct mn_trouble_rule *mn_doctor_rule(size_t i);

/* "spark-a left (enp1s0f1np1) - spark-b right (enp1s0f0np0)"; returns buf. */
char *mn_doctor_cable(const struct mn_mesh *mesh, const struct mn_mesh_link *link, char *buf,
                      size_t size);
/* What a node says of an end of a cable: the object of its NIC, NULL = nothing. */
const cJSON *mn_doctor_end(const struct mn_doctor_case *what, struct mn_mesh_end end);
/* What came back of the cable's probes from its end 0 or 1; -1 = not probed, 0 = nothing, 1 = small
 * ones only, 2 = those of the whole MTU too. */
int mn_doctor_probe(const struct mn_doctor_case *what, const struct mn_mesh_link *link, int end);

#endif
