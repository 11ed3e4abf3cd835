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
    {.name = NULL},
};

const struct mn_node_verb *mn_node_verb(const char *name)
{
    for (const struct mn_node_verb *verb = mn_node_verbs; verb->name; verb++)
        if (!strcmp(verb->name, name))
            return verb;
    return NULL;
}
