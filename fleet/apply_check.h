/* Whether what was applied carries: neighbours answer over each cable, RDMA devices have GIDs for
 * the new addresses. */
#ifndef MN_APPLY_CHECK_H
#define MN_APPLY_CHECK_H

#include "topo/mesh.h"

enum mn_cable_answer {
    MN_CABLE_SILENT,
    MN_CABLE_ANSWERS,
    MN_CABLE_CROSSED, /* its node does, by a NIC that is not the one of the mesh file */
    MN_CABLE_DARK     /* no carrier at this end: nothing could be asked */
};

/* An address of a neighbour on a cable. */
struct mn_cable_check {
    const struct mn_mesh_link *link;
    char netdev[IF_NAMESIZE]; /* of this host */
    const char *peer;         /* the node at the other end */
    struct mn_addr own, far;
    uint8_t mac[6]; /* of the far NIC, where the mesh file has it */
    int has_mac;
    enum mn_cable_answer answer;
};

/* Of the node's cables those to peers (names), one address of each family each. The caller frees
 * the array. */
size_t mn_cables_to(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                    const char *const *peers, size_t n_peers, struct mn_cable_check **checks);
/* Asks all and fills in their answers; ends when each has answered, at the latest after ms. An
 * empty packet to UDP's discard port is answered by the kernel, or the question who has the address
 * is.
 */
enum mn_err mn_cables_ask(struct mn_cable_check *checks, size_t n, unsigned ms,
                          struct mn_diag *diag);

/* Waits until each of the NICs (names) has a carrier, at most ms: a NIC may train its link anew
 * after a change. dark: those that have none then, each and the array the caller's to free. */
enum mn_err mn_carriers_wait(const char *const *nics, size_t n, unsigned ms, char ***dark,
                             size_t *n_dark, struct mn_diag *diag);

/* Waits until the RDMA device of each cable's end has a RoCE v2 GID for each address, at most ms.
 * missing: "rocep1s0f0 port 1 (enp1s0f0np0): 10.0.1.1", each and the array the caller's to free. */
enum mn_err mn_gids_wait(const struct mn_mesh *mesh, int node, unsigned ms, char ***missing,
                         size_t *n_missing, struct mn_diag *diag);

#endif
