/* What is wrong with a mesh as a whole, in words that name the cable by both ends: one list, filled
 * by whoever looks (topo/whole.h: the cabling; fleet/doctor: the running mesh). */
#ifndef MN_TROUBLE_H
#define MN_TROUBLE_H

#include "topo/finding.h"

struct mn_trouble_rule {
    const char *id; /* stable name for scripts */
    enum mn_severity severity;
    const char *title;
    const char *advice; /* why it matters and how to mend it for good */
};

struct mn_trouble {
    const struct mn_trouble_rule *rule;
    char where[192];    /* "spark-a left (enp1s0f1np1) - spark-b right (…)", or a node's name */
    char seen[256];     /* the value found */
    char expected[192]; /* what it should be */
    char fix[384];      /* what to do, a command where there is one */
};

struct mn_troubles {
    struct mn_trouble *items;
    size_t count;
};

/* A new one with its place filled in; the caller fills the rest. */
struct mn_trouble *mn_trouble_add(struct mn_troubles *list, const struct mn_trouble_rule *rule,
                                  const char *where, ...) __attribute__((format(printf, 3, 4)));
/* Worst first; those of one severity stay in their order. */
void mn_troubles_sort(struct mn_troubles *list);
size_t mn_troubles_count(const struct mn_troubles *list, enum mn_severity severity);
void mn_troubles_free(struct mn_troubles *list);

#endif
