/* The way from one port to another. */
#include <string.h>

#include "plugin/transport/verbs/verbs.h"

/* The high half of a GID is the subnet's prefix; its third pair of bytes may hold a LID by which
 * routers are reached from other subnets (FLID), and says nothing of the subnet. */
static int same_subnet(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, 4) == 0 && memcmp(a + 6, b + 6, 2) == 0;
}

static uint16_t router_to(const uint8_t *gid)
{
    return (uint16_t)(gid[4] << 8 | gid[5]);
}

/* Without an FLID only the subnet's manager knows the router's LID, and is not asked: that takes
 * rdma_cm (AF_IB, resolve_addr and resolve_route) or umad, which is root's. */
int verbs_path(const struct mn_rdma_end *from, const struct mn_rdma_end *to,
               struct ibv_ah_attr *path)
{
    int routed = from->infiniband && !same_subnet(from->gid, to->gid);

    path->is_global = !from->infiniband || from->grh || to->grh || routed;
    path->dlid = routed && router_to(to->gid) ? router_to(to->gid) : to->lid;
    memcpy(path->grh.dgid.raw, to->gid, sizeof to->gid);
    return !routed || router_to(to->gid);
}
