/* Whose clock is off, though answers took their time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_judge.h"

#define NODES(v) ((v)->what->mesh->n_nodes)

#define MOST_APART 1.0 /* s */

/* How much the node's clock is ahead of the asker's: between these, for the question was on its way
 * for some of the time. 0: it did not say. */
static int ahead(const struct mn_doctor_node *node, double *least, double *most)
{
    const cJSON *clock = mn_fact(node->facts, "clock");
    double begin = mn_fact_number(clock, "begin", 0), end = mn_fact_number(clock, "end", 0);

    *least = end - node->end;
    *most = begin - node->begin;
    return begin > 0 && end > 0 && *least <= *most;
}

/* How many nodes' clocks may be ahead by so much, and the narrowest bounds of it that these give.
 */
static size_t agree(const struct mn_doctor_verdict *v, double by, double bounds[2])
{
    size_t count = 0;
    double least, most;

    for (size_t i = 0; i < NODES(v); i++) {
        if (!ahead(&v->what->nodes[i], &least, &most) || least > by || most < by)
            continue;
        bounds[0] = !count || least > bounds[0] ? least : bounds[0];
        bounds[1] = !count || most < bounds[1] ? most : bounds[1];
        count++;
    }
    return count;
}

/* What most nodes have in common, whatever each answer took: one that was long on its way tells
 * little, and says nothing against the others. The clock here stands unless more are against it; it
 * may be the odd one out of three. */
static void most_have(const struct mn_doctor_verdict *v, double bounds[2])
{
    double least, most, found[2];
    size_t n = 0, best;

    best = agree(v, 0, found);
    bounds[0] = bounds[1] = 0;
    for (size_t i = 0; i < NODES(v); i++)
        n += (size_t)ahead(&v->what->nodes[i], &least, &most);
    for (size_t i = 0; i < NODES(v) && n > 2; i++) {
        if (!ahead(&v->what->nodes[i], &least, &most))
            continue;
        size_t count = agree(v, least, found);
        if (count <= best || (found[0] < MOST_APART && found[1] > -MOST_APART))
            continue;
        best = count;
        memcpy(bounds, found, sizeof found);
    }
}

void mn_doctor_clock(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    double least, most, of[2];

    most_have(v, of);
    for (size_t i = 0; i < NODES(v); i++) {
        if (!ahead(&v->what->nodes[i], &least, &most) ||
            (least - of[1] <= MOST_APART && most - of[0] >= -MOST_APART))
            continue;
        double off = (least + most) / 2 - (of[0] + of[1]) / 2;
        struct mn_trouble *t =
            mn_trouble_add(v->troubles, rule, "%s", v->what->mesh->nodes[i].name);
        snprintf(t->seen, sizeof t->seen, "%.1f s %s", fabs(off), off > 0 ? "ahead" : "behind");
        snprintf(t->expected, sizeof t->expected, "within %.0f s of most clocks", MOST_APART);
        snprintf(t->fix, sizeof t->fix, "timedatectl set-ntp true   # on %s",
                 v->what->mesh->nodes[i].name);
    }
}
