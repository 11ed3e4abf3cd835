/* Subnets and addresses for cables. Each cable, each half of a port, has a subnet of its own. */
#ifndef MN_ADDRESS_H
#define MN_ADDRESS_H

#include "topo/mesh.h"
#include "topo/taken.h"
#include "topo/trouble.h"

struct mn_address_plan {
    int family;          /* AF_INET or AF_INET6 */
    int prefix;          /* of a cable's subnet: 30, 31; 64, 126, 127; 0: 31, 127 */
    struct mn_addr pool; /* out of which they are taken; family 0: one that nobody uses is chosen */
    int renumber;        /* cables that have a subnet get another, too */
    int mtu;             /* of all cables' ends; 0: of those without one, see mn_address_mtu */
};

enum mn_address_state {
    MN_ADDRESS_KEPT,     /* it had a subnet */
    MN_ADDRESS_NEW,      /* it had none */
    MN_ADDRESS_COMPLETED /* one end had an address, the other got one beside it */
};

struct mn_addressed {
    struct mn_addr pool;           /* family 0: none was needed */
    enum mn_address_state *states; /* of each link */
    size_t counts[MN_ADDRESS_COMPLETED + 1];
    size_t n_mtu; /* ends whose MTU was set */
};

/* Numbers the cables of mesh that need it. Subnets that there are stay, so that another node or
 * cable changes nothing else; the order of nodes and links does not count, their names do. Cables
 * between the same two nodes lie side by side: where there is room a /24 (IPv6: a /64) for each two
 * nodes. The node whose name comes first has the lower address. MN_ERR_CONFIG names what does not
 * fit; the mesh is unchanged then. done is the caller's to mn_addressed_free, also after an error.
 */
enum mn_err mn_address_mesh(struct mn_mesh *mesh, const struct mn_address_plan *plan,
                            const struct mn_takens *taken, struct mn_addressed *done,
                            struct mn_diag *diag);
void mn_addressed_free(struct mn_addressed *done);

/* What is wrong with the numbers there are: bare cables, subnets that something else uses, or takes
 * when it comes. */
void mn_address_check(const struct mn_mesh *mesh, const struct mn_takens *taken,
                      struct mn_troubles *troubles);

#endif
