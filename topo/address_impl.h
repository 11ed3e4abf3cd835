/* Inside the numbering of a mesh: topo/address*.c only. */
#ifndef MN_ADDRESS_IMPL_H
#define MN_ADDRESS_IMPL_H

#include "topo/address.h"
#include "topo/address_place.h"

/* A link, by the names by which all are put in order. */
struct mn_cable {
    size_t link;
    const char *name, *nodes[2]; /* the first in order first */
    int low;                     /* the side of the link that it is */
    size_t group;
    struct mn_addr net; /* family 0: it has none, or loses it */
    /* One end has an address and the other none: what that gets. Family 0: not so. */
    struct mn_addr beside;
    int beside_side;
};

struct mn_address_work {
    struct mn_mesh *mesh;
    const struct mn_address_plan *plan;
    const struct mn_takens *taken;
    struct mn_addressed *done;
    int prefix;
    struct mn_cable *cables; /* in order */
    size_t *first;           /* number of each node's first NIC, all counted through */
    char *strip;             /* of each NIC: its addresses of the family go */
    struct mn_ranges used;
    struct mn_place *places; /* for the cables that need one, in order */
    size_t n_places;
};

struct mn_mesh_nic *mn_address_nic(const struct mn_address_work *w, size_t link, int side);
/* Its place in w->strip. */
char *mn_address_strip(const struct mn_address_work *w, size_t link, int side);
/* Of a subnet, as cables have them. */
int mn_address_is_of_cable(const struct mn_addr *addr, int family);
/* Nobody else may have its subnet; before the next look mn_ranges_sort. */
void mn_address_use(struct mn_address_work *w, const struct mn_addr *addr);

/* address_half.c: finds the cables of which one end has an address that can stay, and what is
 * beside it. */
void mn_address_find_halves(struct mn_address_work *w);

/* address_write.c */
enum mn_err mn_address_check_room(const struct mn_address_work *w, struct mn_diag *diag);
void mn_address_write(struct mn_address_work *w);
void mn_address_set_mtu(struct mn_address_work *w);

#endif
