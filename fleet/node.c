#include "fleet/node.h"

#include <string.h>

#include "fleet/probe.h"
#include "fleet/verbs.h"

const struct mn_node_verb mn_node_verbs[] = {
    {.name = "about",
     .what = "what this meshnet and its host are, and what may be done here",
     .seconds = 10,
     .run = mn_verb_about},
    {.name = "probe",
     .what = "who is at the other end of each cable, found together with other nodes",
     .seconds = MN_PROBE_VERB_S,
     .run = mn_verb_probe,
     .root = MN_ROOT_LIKED},
    {.name = "apply-plan",
     .what = "what a mesh file would change here",
     .seconds = 20,
     .run = mn_verb_apply_plan,
     .root = MN_ROOT_LIKED},
    {.name = "apply",
     .what = "make the changes, undone by themselves unless apply-keep follows",
     .seconds = 60,
     .changes = 1,
     .run = mn_verb_apply,
     .root = MN_ROOT_NEEDED},
    {.name = "apply-check",
     .what = "whether neighbours answer over their cables, and RDMA devices have GIDs",
     .seconds = 90,
     .run = mn_verb_apply_check,
     .root = MN_ROOT_LIKED},
    {.name = "apply-keep",
     .what = "keep what apply made: write the files",
     .seconds = 70,
     .changes = 1,
     .run = mn_verb_apply_keep,
     .root = MN_ROOT_NEEDED},
    {.name = "apply-undo",
     .what = "undo what apply made and nobody kept",
     .seconds = 70,
     .changes = 1,
     .run = mn_verb_apply_undo,
     .root = MN_ROOT_NEEDED},
    {.name = "apply-state",
     .what = "how a set of changes ended here",
     .seconds = 10,
     .run = mn_verb_apply_state,
     .root = MN_ROOT_LIKED},
    {.name = "mesh", .what = "the mesh file in force here", .seconds = 20, .run = mn_verb_mesh},
    {.name = "put-mesh",
     .what = "writes the mesh file to its place",
     .seconds = 30,
     .changes = 1,
     .run = mn_verb_put_mesh},
    {.name = "put-mesh-system",
     .what = "writes /etc/meshnet/mesh.yaml",
     .seconds = 30,
     .changes = 1,
     .run = mn_verb_put_mesh_system,
     .root = MN_ROOT_NEEDED},
    {.name = "put-mesh-at",
     .what = "writes a mesh file wherever it is told",
     .seconds = 30,
     .changes = 1,
     .not_by_agents = 1,
     .run = mn_verb_put_mesh_at},
    {.name = "survey",
     .what = "the ports of this host, as they are configured",
     .seconds = 20,
     .run = mn_verb_survey},
    {.name = "doctor",
     .what = "what doctor asks: versions, NICs, counters, limits, firewall, echoes over the cables",
     .seconds = 25,
     .run = mn_verb_doctor,
     .root = MN_ROOT_LIKED},
    {.name = NULL},
};

const struct mn_node_verb *mn_node_verb(const char *name)
{
    for (const struct mn_node_verb *verb = mn_node_verbs; verb->name; verb++)
        if (!strcmp(verb->name, name))
            return verb;
    return NULL;
}
