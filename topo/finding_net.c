/* Rules about links, addresses and subnets. */
#include "topo/finding_rule.h"

#include <stdio.h>
#include <string.h>

/* A NIC that should have a link and an address of its own. */
static int stands_alone(const struct mn_host *host, const struct mn_nic *nic)
{
    return mn_nic_is_relevant(host, nic) && !nic->master[0];
}

/* Such as a bond's bridge or a NIC that only carries VLANs: the address is on another interface. */
static int address_is_elsewhere(const struct mn_host *host, const struct mn_nic *nic)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *other = &host->nics[i];
        if (other != nic && other->kind == MN_NIC_VLAN && nic->has_mac && other->has_mac &&
            !memcmp(other->mac, nic->mac, sizeof nic->mac))
            return 1;
    }
    return 0;
}

/* Calls pair() for every two addresses of different NICs a mesh could use. */
static void each_address_pair(const struct mn_host *host,
                              void (*pair)(void *arg, const struct mn_nic *a,
                                           const struct mn_addr *aa, const struct mn_nic *b,
                                           const struct mn_addr *ba),
                              void *arg)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        for (size_t j = i + 1; j < host->n_nics; j++) {
            const struct mn_nic *a = &host->nics[i], *b = &host->nics[j];
            if (!stands_alone(host, a) || !stands_alone(host, b))
                continue;
            for (size_t k = 0; k < a->n_addrs; k++)
                for (size_t l = 0; l < b->n_addrs; l++)
                    if (!mn_addr_is_link_local(&a->addrs[k]) &&
                        !mn_addr_is_link_local(&b->addrs[l]))
                        pair(arg, a, &a->addrs[k], b, &b->addrs[l]);
        }
    }
}

struct pair_arg {
    const struct mn_finding_rule *rule;
    const struct mn_host *host;
    struct mn_findings *found;
};

static void pair_duplicate(void *arg, const struct mn_nic *a, const struct mn_addr *aa,
                           const struct mn_nic *b, const struct mn_addr *ba)
{
    struct pair_arg *p = arg;
    char text[MN_ADDR_TEXT];
    if (!mn_addr_equal(aa, ba))
        return;
    struct mn_finding *f = mn_finding_add(p->found, p->rule, b->netdev);
    snprintf(f->seen, sizeof f->seen, "%s is also the address of %s",
             mn_addr_format(ba, text, sizeof text), a->netdev);
    snprintf(f->expected, sizeof f->expected, "an address of its own");
    snprintf(f->fix, sizeof f->fix, "ip address del %s dev %s", text, b->netdev);
}

void mn_check_duplicate_address(const struct mn_finding_rule *rule, const struct mn_host *host,
                                struct mn_findings *found)
{
    struct pair_arg arg = {rule, host, found};
    each_address_pair(host, pair_duplicate, &arg);
}

/* The file names this NIC and finds its addresses there: the one too many need only go. */
static int has_wanted_address(const struct pair_arg *p, const struct mn_nic *nic)
{
    const struct mn_mesh_nic *file = mn_finding_file_nic(p->found, p->host, nic);
    return file && file->n_addrs && file->n_addrs < nic->n_addrs &&
           !mn_finding_file_addr(p->found, p->host, nic);
}

/* Whether narrow's subnet is a part of wide's. */
static int lies_around(const struct mn_addr *wide, const struct mn_addr *narrow)
{
    struct mn_addr as_there = *narrow;
    as_there.prefix = wide->prefix;
    return wide->prefix > 0 && wide->prefix < narrow->prefix &&
           mn_addr_share_subnet(wide, &as_there);
}

/* An office may lie around a cable: the cable's route is the narrower one. */
static void pair_overlap(const struct pair_arg *p, const struct mn_nic *narrow,
                         const struct mn_addr *own, const struct mn_nic *wide,
                         const struct mn_addr *addr)
{
    char one[MN_ADDR_TEXT], two[MN_ADDR_TEXT];
    if (!lies_around(addr, own) || mn_addr_share_subnet(addr, own) ||
        own->prefix == (own->family == AF_INET ? 32 : 128) || narrow->role == MN_ROLE_MANAGEMENT ||
        wide->role == MN_ROLE_MANAGEMENT)
        return;
    struct mn_finding *f = mn_finding_add(p->found, p->rule, wide->netdev);
    snprintf(f->seen, sizeof f->seen, "the subnet of %s overlaps that of %s (%s)",
             mn_addr_format(addr, one, sizeof one), narrow->netdev,
             mn_addr_format(own, two, sizeof two));
    snprintf(f->expected, sizeof f->expected, "a subnet for each cable");
    snprintf(f->fix, sizeof f->fix, "ip address del %s dev %s", one, wide->netdev);
    for (size_t i = 0; i < wide->n_addrs; i++)
        if (!mn_addr_is_link_local(&wide->addrs[i]) && !mn_addr_equal(&wide->addrs[i], addr))
            return;
    strcat(f->fix, " && ");
    mn_finding_suggest_address(p->found, p->host, wide, f);
}

static void pair_same_subnet(void *arg, const struct mn_nic *a, const struct mn_addr *aa,
                             const struct mn_nic *b, const struct mn_addr *ba)
{
    struct pair_arg *p = arg;
    char a_text[MN_ADDR_TEXT], b_text[MN_ADDR_TEXT];
    pair_overlap(p, a, aa, b, ba);
    pair_overlap(p, b, ba, a, aa);
    if (mn_addr_equal(aa, ba) || !mn_addr_share_subnet(aa, ba))
        return;
    /* Wired and wireless in one office. Of an office and a cable it is the cable's that is wrong.
     */
    if (b->role == MN_ROLE_MANAGEMENT) {
        if (a->role != MN_ROLE_MANAGEMENT)
            pair_same_subnet(arg, b, ba, a, aa);
        return;
    }
    struct mn_finding *f = mn_finding_add(p->found, p->rule, b->netdev);
    snprintf(f->seen, sizeof f->seen, "%s shares a subnet with %s (%s)%s",
             mn_addr_format(ba, b_text, sizeof b_text), a->netdev,
             mn_addr_format(aa, a_text, sizeof a_text),
             mn_nic_twin(p->host, b) == a ? ", its twin on the same port" : "");
    snprintf(f->expected, sizeof f->expected, "a subnet for each cable%s",
             mn_nic_twin(p->host, b) == a ? " and for each PCIe function of a port" : "");
    snprintf(f->fix, sizeof f->fix, "ip address del %s dev %s", b_text, b->netdev);
    if (has_wanted_address(p, b))
        return;
    strcat(f->fix, " && ");
    mn_finding_suggest_address(p->found, p->host, b, f);
}

void mn_check_same_subnet(const struct mn_finding_rule *rule, const struct mn_host *host,
                          struct mn_findings *found)
{
    struct pair_arg arg = {rule, host, found};
    each_address_pair(host, pair_same_subnet, &arg);
}

/* A subnet with room for the two ends of a cable alone. */
static int is_of_two(const struct mn_addr *addr)
{
    return addr->family == AF_INET ? addr->prefix == 30 || addr->prefix == 31 : addr->prefix == 127;
}

/* An address of nic inside the cable's subnet, which its own mask does not say. */
static void inside_subnet(const struct pair_arg *p, const struct mn_nic *nic,
                          const struct mn_nic *cable, const struct mn_addr *own)
{
    char one[MN_ADDR_TEXT], two[MN_ADDR_TEXT];
    for (size_t i = 0; i < nic->n_addrs; i++) {
        const struct mn_addr *addr = &nic->addrs[i];
        struct mn_addr as_there = *addr;
        as_there.prefix = own->prefix;
        if (mn_addr_equal(addr, own) || !mn_addr_share_subnet(&as_there, own) ||
            (nic != cable && mn_addr_share_subnet(addr, own) && stands_alone(p->host, nic)))
            continue; /* same-subnet says the last */
        if (nic == cable && addr < own && mn_addr_share_subnet(addr, own))
            continue; /* once for the two */
        struct mn_finding *f = mn_finding_add(p->found, p->rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "%s is the peer's in the subnet of %s (%s)",
                 mn_addr_format(addr, one, sizeof one), cable->netdev,
                 mn_addr_format(own, two, sizeof two));
        snprintf(f->expected, sizeof f->expected, "%s alone has an address there", cable->netdev);
        snprintf(f->fix, sizeof f->fix, "ip address del %s dev %s", one, nic->netdev);
    }
}

void mn_check_peer_address(const struct mn_finding_rule *rule, const struct mn_host *host,
                           struct mn_findings *found)
{
    const struct pair_arg arg = {rule, host, found};
    for (size_t i = 0; i < host->n_nics; i++)
        for (size_t k = 0; k < host->nics[i].n_addrs; k++)
            for (size_t n = 0; n < host->n_nics; n++)
                if (stands_alone(host, &host->nics[i]) && is_of_two(&host->nics[i].addrs[k]))
                    inside_subnet(&arg, &host->nics[n], &host->nics[i], &host->nics[i].addrs[k]);
}

void mn_check_link_down(const struct mn_finding_rule *rule, const struct mn_host *host,
                        struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        const struct mn_addr *addr = mn_nic_main_addr(nic);
        char text[MN_ADDR_TEXT];
        if (!addr || !stands_alone(host, nic) || (nic->admin_up && nic->carrier))
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "has the address %s but %s",
                 mn_addr_format(addr, text, sizeof text),
                 nic->admin_up ? "no link: no cable, or the other end is down"
                               : "is switched off (administratively down)");
        snprintf(f->expected, sizeof f->expected, "a link");
        if (nic->admin_up)
            snprintf(f->fix, sizeof f->fix, "ethtool %s   # then the same at the other end",
                     nic->netdev);
        else
            snprintf(f->fix, sizeof f->fix, "ip link set dev %s up", nic->netdev);
    }
}

void mn_check_port_idle(const struct mn_finding_rule *rule, const struct mn_host *host,
                        struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (mn_nic_main_addr(nic) || !stands_alone(host, nic) || nic->is_vf ||
            (nic->admin_up && nic->carrier))
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "no address and %s",
                 nic->admin_up ? "no link" : "switched off");
        snprintf(f->expected, sizeof f->expected, "a cable, if the port is to be used");
        snprintf(f->fix, sizeof f->fix, nic->admin_up ? "ethtool %s" : "ip link set dev %s up",
                 nic->netdev);
    }
}

void mn_check_no_address(const struct mn_finding_rule *rule, const struct mn_host *host,
                         struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        const struct mn_nic *twin = mn_nic_twin(host, nic);
        if (mn_nic_main_addr(nic) || !stands_alone(host, nic) || !nic->admin_up || !nic->carrier ||
            address_is_elsewhere(host, nic))
            continue;
        if ((twin && mn_nic_main_addr(twin)) || mn_finding_file_addr(found, host, nic))
            continue; /* half-port and file-address say it better */
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        snprintf(f->seen, sizeof f->seen, "the link is up, %s%s",
                 nic->n_addrs ? "the only address is IPv6 link-local" : "there is no address",
                 nic->rdma >= 0 ? ", so the RDMA port has no GID to send from yet" : "");
        snprintf(f->expected, sizeof f->expected, "an address in a subnet of this cable alone");
        mn_finding_suggest_address(found, host, nic, f);
    }
}
