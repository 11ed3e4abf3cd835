/* Between the files that make a mesh of a survey. */
#ifndef MN_SURVEY_MAKE_H
#define MN_SURVEY_MAKE_H

#include "topo/cabling.h"

struct mn_survey_maker {
    const struct mn_survey *survey;
    const struct mn_mesh *old; /* an empty one where there is none */
    const struct mn_cabling *cabling;
    struct mn_mesh *mesh;
    int *old_node;            /* of each node of the survey, -1 = new */
    int **place;              /* [node][nic of the survey]: index in the mesh, -1 = left out */
    struct mn_mesh_end **now; /* [node][nic of the old mesh]: where it is in the mesh; node -1 */
};

/* The NIC of the old mesh that this one is, by MAC, then by netdev where a MAC says nothing else;
 * or NULL. */
const struct mn_mesh_nic *mn_survey_nic_before(const struct mn_survey_maker *m, int node,
                                               const struct mn_survey_nic *nic);

/* survey_keep.c: what the old mesh has and this survey did not see stays, unless what was seen
 * speaks against it: nodes that were not asked, cables of ports that are dark or deaf now.
 * The NIC of a node of the survey is to be in the mesh though nothing is heard there. */
int mn_survey_keeps(const struct mn_survey_maker *m, int node, int nic);
/* The NICs and nodes that the survey lacks. */
void mn_survey_keep_nodes(struct mn_survey_maker *m);
void mn_survey_keep_links(const struct mn_survey_maker *m);
/* Last: addresses of what has no cable. */
void mn_survey_keep_addresses(const struct mn_survey_maker *m);

/* A MAC that a node before this one has. */
int mn_survey_mac_taken(const struct mn_mesh *mesh, int node, const uint8_t mac[6]);
/* survey_addr.c: those of was that can stand beside what the mesh has. */
void mn_survey_address_kept(const struct mn_survey_maker *m, const struct mn_mesh_nic *was,
                            int node, struct mn_mesh_nic *to);
/* survey_addr.c: every management NIC gets the addresses that its host has. */
void mn_survey_address_office(const struct mn_survey_maker *m);
/* Gives both ends the addresses of the old mesh, or those the hosts have, if these make a link of
 * the cable and no other; else none. from: the ends in the survey. */
void mn_survey_address_link(const struct mn_survey_maker *m, struct mn_mesh_link *link,
                            const struct mn_mesh_end from[2]);
/* A GID's index belongs to an address; without that address it says nothing. */
void mn_survey_address_gids(struct mn_mesh *mesh);

#endif
