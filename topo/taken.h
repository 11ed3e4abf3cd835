/* Which addresses are in use, or are by habit: what new ones for cables must stay away from. */
#ifndef MN_TAKEN_H
#define MN_TAKEN_H

#include "topo/survey.h"

enum mn_taken_how {
    MN_TAKEN_USED,   /* seen: an address, a route */
    MN_TAKEN_AVOIDED /* what containers, VPNs and the like take when they come */
};

struct mn_taken {
    struct mn_addr net; /* host bits masked */
    enum mn_taken_how how;
    char what[96]; /* "the route of tailscale0 on spark-a", "Docker's networks" */
};

struct mn_takens {
    struct mn_taken *items;
    size_t count;
};

void mn_taken_add(struct mn_takens *list, const struct mn_addr *net, enum mn_taken_how how,
                  const char *what, ...) __attribute__((format(printf, 4, 5)));
/* "10.9.0.0/16" of a command line or another node. */
enum mn_err mn_taken_add_text(struct mn_takens *list, const char *cidr, const char *what,
                              struct mn_diag *diag);
/* The defaults of Docker, Kubernetes, libvirt, VPNs and others: man page meshnet-topo-address. */
void mn_taken_add_usual(struct mn_takens *list);
/* The subnets of the mesh's NICs that are no cable's end. */
void mn_taken_add_mesh(struct mn_takens *list, const struct mn_mesh *mesh);
/* This host's addresses and routes, but for those of its NICs that are a cable's end in mesh.
 * Routes are read only where host is this one (src NULL) and of what the kernel lists. Default
 * routes, loopback, multicast and IPv6 link-local are nobody's. */
enum mn_err mn_taken_add_host(struct mn_takens *list, const struct mn_mesh *mesh,
                              const struct mn_host_source *src, struct mn_diag *diag);
/* The same of all nodes of a survey, with what their routes lead to; those of the mesh by MAC, else
 * by name. */
void mn_taken_add_survey(struct mn_takens *list, const struct mn_mesh *mesh,
                         const struct mn_survey *survey);
void mn_takens_free(struct mn_takens *list);

#endif
