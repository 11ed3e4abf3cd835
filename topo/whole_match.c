/* Rules about both ends of a link being alike. */
#include <stdio.h>
#include <string.h>

#include "topo/whole_rule.h"

struct ends {
    const struct mn_cable *cable;
    const struct mn_cable_half *half;
    const struct mn_survey_nic *nics[2];
    const char *node[2];
};

/* Calls look for each half of each cable. */
static void each(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                 void (*look)(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                              const struct ends *e))
{
    for (size_t i = 0; i < w->cabling.n_cables; i++)
        for (int h = 0; h < w->cabling.cables[i].n_halves; h++) {
            const struct mn_cable *cable = &w->cabling.cables[i];
            struct ends e = {.cable = cable, .half = &cable->halves[h]};

            mn_half_nics(w, cable, e.half, e.nics);
            for (int side = 0; side < 2; side++)
                e.node[side] = mn_whole_node(w, w->cabling.ports[cable->ports[side]].node);
            look(rule, w, &e);
        }
}

static struct mn_trouble *found(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                                const struct ends *e)
{
    char text[MN_WHERE_SIZE];

    return mn_trouble_add(w->found, rule, "%s", mn_where_half(w, e->cable, e->half, text));
}

/* --- speed ------------------------------------------------------------------------------------ */

static void look_speed(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                       const struct ends *e)
{
    long a = e->nics[0]->speed_mbps, b = e->nics[1]->speed_mbps;
    int slow = a < b ? 0 : 1;

    if (!a || !b || a == b)
        return;
    struct mn_trouble *t = found(rule, w, e);
    snprintf(t->seen, sizeof t->seen, "%g Gb/s at %s, %g Gb/s at %s",
             (double)e->nics[slow]->speed_mbps / 1000, e->node[slow],
             (double)e->nics[!slow]->speed_mbps / 1000, e->node[!slow]);
    snprintf(t->expected, sizeof t->expected, "%g Gb/s at both ends",
             (double)e->nics[!slow]->speed_mbps / 1000);
    snprintf(t->fix, sizeof t->fix,
             "on %s: ethtool -s %s autoneg on; else another cable, rated for the speed",
             e->node[slow], e->nics[slow]->netdev);
}

void mn_whole_speed(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_speed);
}

static void look_lanes(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                       const struct ends *e)
{
    double gbps[2], port = 0;
    char link[2][32], able[32];

    for (int side = 0; side < 2; side++) {
        const struct mn_survey_nic *nic = e->nics[side];

        gbps[side] = mn_pci_gbps(nic->pci.speed, nic->pci.width);
        mn_pci_format(nic->pci.speed, nic->pci.width, link[side], sizeof link[side]);
        port = (double)nic->speed_mbps / 1000 > port ? (double)nic->speed_mbps / 1000 : port;
    }
    int slow = gbps[0] < gbps[1] ? 0 : 1;
    const struct mn_pci *pci = &e->nics[slow]->pci;
    /* Lanes that carry the whole port are enough, however many the other end has; and what the
     * card itself cannot do is nothing to mend. */
    if (gbps[0] <= 0 || gbps[1] <= 0 || gbps[slow] > gbps[!slow] * 0.99 ||
        (port > 0 && gbps[slow] >= port) ||
        mn_pci_gbps(pci->max_speed, pci->max_width) < gbps[slow] * 1.01)
        return;
    struct mn_trouble *t = found(rule, w, e);
    snprintf(t->seen, sizeof t->seen, "PCIe %s (%.0f Gb/s) at %s, %s (%.0f Gb/s) at %s", link[slow],
             gbps[slow], e->node[slow], link[!slow], gbps[!slow], e->node[!slow]);
    snprintf(t->expected, sizeof t->expected, "PCIe %s at %s, which its card is able to do",
             mn_pci_format(pci->max_speed, pci->max_width, able, sizeof able), e->node[slow]);
    snprintf(t->fix, sizeof t->fix, "on %s: lspci -vv -s %s | grep -E 'LnkCap|LnkSta'",
             e->node[slow], e->nics[slow]->pci.address);
}

void mn_whole_lanes(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_lanes);
}

/* --- MTU -------------------------------------------------------------------------------------- */

static int least_mtu(const struct ends *e)
{
    return e->nics[0]->mtu < e->nics[1]->mtu ? e->nics[0]->mtu : e->nics[1]->mtu;
}

/* Less arrived at that end than both NICs are set to. */
static int loses(const struct ends *e, int side)
{
    return e->half->mtu[side] > 0 && e->half->mtu[side] < least_mtu(e);
}

static void look_passes(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                        const struct ends *e)
{
    int lost = loses(e, 0) ? 0 : 1;

    if (!loses(e, lost) || (e->half->mtu[0] && e->half->mtu[1] && loses(e, 0) != loses(e, 1)))
        return;
    struct mn_trouble *t = found(rule, w, e);
    int passes = e->half->mtu[lost];
    snprintf(t->seen, sizeof t->seen, "packets of %d pass, larger ones do not", passes);
    snprintf(t->expected, sizeof t->expected, "%d, to which both NICs are set", least_mtu(e));
    snprintf(t->fix, sizeof t->fix,
             "see what is in between; until then, on %s: ip link set dev %s mtu %d; on %s: ip link "
             "set dev %s mtu %d",
             e->node[0], e->nics[0]->netdev, passes, e->node[1], e->nics[1]->netdev, passes);
}

void mn_whole_mtu_passes(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_passes);
}

static void look_directions(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                            const struct ends *e)
{
    int lost = loses(e, 0) ? 0 : 1;

    if (!e->half->mtu[0] || !e->half->mtu[1] || loses(e, 0) == loses(e, 1))
        return;
    struct mn_trouble *t = found(rule, w, e);
    snprintf(t->seen, sizeof t->seen, "%d passes to %s, %d to %s", e->half->mtu[lost],
             e->node[lost], e->half->mtu[!lost], e->node[!lost]);
    snprintf(t->expected, sizeof t->expected, "%d in both directions", least_mtu(e));
    snprintf(t->fix, sizeof t->fix,
             "on %s: ip link set dev %s mtu %d, then up and down again; ethtool -k %s shows what "
             "the NIC takes apart",
             e->node[lost], e->nics[lost]->netdev, e->nics[lost]->mtu, e->nics[lost]->netdev);
}

void mn_whole_mtu_directions(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_directions);
}

static void look_unlike(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                        const struct ends *e)
{
    int small = e->nics[0]->mtu < e->nics[1]->mtu ? 0 : 1;

    if (!e->nics[0]->mtu || !e->nics[1]->mtu || e->nics[0]->mtu == e->nics[1]->mtu)
        return;
    struct mn_trouble *t = found(rule, w, e);
    snprintf(t->seen, sizeof t->seen, "MTU %d at %s, %d at %s", e->nics[small]->mtu, e->node[small],
             e->nics[!small]->mtu, e->node[!small]);
    snprintf(t->expected, sizeof t->expected, "%d at both ends", e->nics[!small]->mtu);
    snprintf(t->fix, sizeof t->fix, "on %s: ip link set dev %s mtu %d", e->node[small],
             e->nics[small]->netdev, e->nics[!small]->mtu);
}

void mn_whole_mtu_unlike(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_unlike);
}

/* --- RDMA ------------------------------------------------------------------------------------- */

static void look_gid(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                     const struct ends *e)
{
    const int v2 = 1 << MN_GID_ROCE_V2, v1 = 1 << MN_GID_ROCE_V1;
    int a = e->nics[0]->gid_types, b = e->nics[1]->gid_types, old = a & v2 ? 1 : 0;

    if (!a || !b || !(a & v2) == !(b & v2) || !((a | b) & v1))
        return;
    struct mn_trouble *t = found(rule, w, e);
    snprintf(t->seen, sizeof t->seen, "%s at %s has RoCE v1 GIDs only, %s at %s has RoCE v2",
             e->nics[old]->device, e->node[old], e->nics[!old]->device, e->node[!old]);
    snprintf(t->expected, sizeof t->expected, "RoCE v2 GIDs at both ends");
    snprintf(t->fix, sizeof t->fix,
             "on %s: a newer driver or firmware for %s; meshnet discover -v shows its GIDs",
             e->node[old], e->nics[old]->device);
}

void mn_whole_gid(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_gid);
}

static void look_rdma(const struct mn_trouble_rule *rule, const struct mn_whole *w,
                      const struct ends *e)
{
    int without = e->nics[0]->device[0] ? 1 : 0;

    /* Of a node that was heard and has not answered, nobody knows the devices. */
    if (!e->nics[0]->device[0] == !e->nics[1]->device[0] || !e->nics[without]->driver[0])
        return;
    struct mn_trouble *t = found(rule, w, e);
    snprintf(t->seen, sizeof t->seen, "%s of %s has no RDMA device, %s of %s has %s",
             e->nics[without]->netdev, e->node[without], e->nics[!without]->netdev,
             e->node[!without], e->nics[!without]->device);
    snprintf(t->expected, sizeof t->expected, "RDMA at both ends, or at neither");
    snprintf(t->fix, sizeof t->fix,
             "on %s: rdma link show; the driver's RDMA module may not be loaded", e->node[without]);
}

void mn_whole_rdma(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    each(rule, w, look_rdma);
}
