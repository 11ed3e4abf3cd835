/* What is wrong with a mesh as a whole, from a survey: one function a rule, one table. */
#ifndef MN_WHOLE_H
#define MN_WHOLE_H

#include "topo/survey.h"
#include "topo/trouble.h"

struct mn_whole;

struct mn_whole_rule {
    struct mn_trouble_rule rule;
    void (*check)(const struct mn_trouble_rule *rule, const struct mn_whole *whole);
};

extern const struct mn_whole_rule mn_whole_rules[]; /* worst first */
extern const size_t mn_whole_rule_count;

/* Appends what every rule finds, worst first. made: of mn_survey_mesh() for this survey, whose
 * names are those its owner knows; NULL: the survey's names. file: the mesh file in force, which
 * says how the cables should run; NULL: the nearest shape does. */
void mn_whole_check(const struct mn_survey *survey, const struct mn_mesh *made,
                    const struct mn_mesh *file, struct mn_troubles *found);

/* How many nodes of the file are in the survey. */
size_t mn_whole_common(const struct mn_survey *survey, const struct mn_mesh *file);

#endif
