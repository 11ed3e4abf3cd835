/* Between the files that make a mesh of a survey. */
#ifndef MN_SURVEY_MAKE_H
#define MN_SURVEY_MAKE_H

#include "topo/cabling.h"

struct mn_survey_maker {
    const struct mn_survey *survey;
    const struct mn_mesh *old; /* an empty one where there is none */
    const struct mn_cabling *cabling;
    struct mn_mesh *mesh;
    int *old_node; /* of each node of the survey, -1 = new */
    int **place;   /* [node][nic of the survey]: index in the mesh, -1 = left out */
};

/* The NIC of the old mesh that this one is, by MAC, then by netdev where a MAC says nothing else;
 * or NULL. */
const struct mn_mesh_nic *mn_survey_nic_before(const struct mn_survey_maker *m, int node,
                                               const struct mn_survey_nic *nic);

/* survey_addr.c: every management NIC gets the addresses that its host has. */
void mn_survey_address_office(const struct mn_survey_maker *m);
/* Gives both ends the addresses of the old mesh, or those the hosts have, if these make a link of
 * the cable and no other; else none. from: the ends in the survey. */
void mn_survey_address_link(const struct mn_survey_maker *m, struct mn_mesh_link *link,
                            const struct mn_mesh_end from[2]);
/* A GID's index belongs to an address; without that address it says nothing. */
void mn_survey_address_gids(struct mn_mesh *mesh);

#endif
