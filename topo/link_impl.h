/* Inside the search for cables: topo/link*.c only. */
#ifndef MN_LINK_IMPL_H
#define MN_LINK_IMPL_H

#include "topo/mesh.h"

/* The links of old that were found for NICs which are management now have gone from mesh: the
 * numbers in the default names of the others close up. */
enum mn_err mn_link_close_gaps(struct mn_mesh *mesh, const struct mn_mesh *old,
                               struct mn_diag *diag);

/* Whether the addresses are of one family and equal in so many bits. */
int mn_link_equal_in(const struct mn_addr *a, const struct mn_addr *b, int prefix);

#endif
