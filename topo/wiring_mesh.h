/* A wiring with names: whose ports its cables are plugged into, and the mesh file of it. */
#ifndef MN_WIRING_MESH_H
#define MN_WIRING_MESH_H

#include "topo/wiring.h"

#define MN_WIRING_NICS 4 /* of a known machine */

/* A model of which all have the same NICs behind the same ports. */
struct mn_wiring_machine {
    const char *name;    /* "dgx-spark" */
    const char *product; /* as mn_case_label takes it */
    int ports;
    int halves; /* NICs of a port */
    long speed_mbps;
    struct mn_wiring_nic {
        const char *netdev, *device;
    } nics[MN_WIRING_NICS]; /* a port's behind one another */
};
extern const struct mn_wiring_machine mn_wiring_machines[];          /* name NULL at the end */
const struct mn_wiring_machine *mn_wiring_machine(const char *name); /* NULL: there is none */

struct mn_wiring_hosts {
    const char *const *names; /* of the nodes; NULL: "node-1" and so on, as many digits for each */
    const struct mn_wiring_machine *machine; /* NULL: not known */
    const char *const *netdevs;              /* by port, without a machine; NULL: "port0", … */
    long speed_mbps;
};

/* Returns name. */
char *mn_wiring_node_name(const struct mn_wiring_hosts *hosts, int n, int node,
                          char name[MN_NAME_MAX]);
/* What stands on the case, else the netdev. Returns label. */
char *mn_wiring_port_label(const struct mn_wiring_hosts *hosts, int port, char label[MN_NAME_MAX]);

/* Its cables bare, a link for each two halves. MN_ERR_CONFIG: a node would have more NICs than a
 * mesh file gives it. The mesh may have more nodes than a file may. mesh must be initialised. */
enum mn_err mn_wiring_mesh(const struct mn_wiring *plan, const struct mn_wiring_hosts *hosts,
                           struct mn_mesh *mesh, struct mn_diag *diag);

#endif
