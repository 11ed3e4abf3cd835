/* Rules about cables: both ends beside each other, and what passes between them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"

struct cable {
    const struct mn_mesh_link *link;
    const char *node[2], *netdev[2];
    const cJSON *end[2]; /* what the nodes say; NULL = nothing */
    char where[192];
};

/* The i-th link that carries anything; 0 after the last. */
static int cable(const struct mn_doctor_verdict *v, size_t *i, struct cable *c)
{
    const struct mn_mesh *mesh = v->what->mesh;

    while (*i < mesh->n_links && mn_link_is_bare(&mesh->links[*i]))
        ++*i;
    if (*i >= mesh->n_links)
        return 0;
    c->link = &mesh->links[*i];
    for (int e = 0; e < 2; e++) {
        const struct mn_mesh_end end = c->link->ends[e];
        c->node[e] = mesh->nodes[end.node].name;
        c->end[e] = mn_doctor_end(v->what, end);
        c->netdev[e] = c->end[e] ? mn_fact_text(c->end[e], "netdev")
                                 : mesh->nodes[end.node].nics[end.nic].netdev;
    }
    mn_doctor_cable(mesh, c->link, c->where, sizeof c->where);
    return 1;
}

static struct mn_trouble *add(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                              const struct cable *c)
{
    if (rule->severity == MN_SEVERITY_ERROR)
        v->blamed[c->link - v->what->mesh->links] = 1;
    return mn_trouble_add(v->troubles, rule, "%s", c->where);
}

/* --- the ends ----------------------------------------------------------------------------------
 */

static const char *state(const cJSON *end)
{
    return !end                               ? "not known"
           : !mn_fact_true(end, "up", 1)      ? "switched off"
           : !mn_fact_true(end, "carrier", 1) ? "no carrier"
                                              : "up";
}

void mn_doctor_cable_down(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        int off = -1;
        for (int e = 0; e < 2; e++)
            if (c.end[e] && !mn_fact_true(c.end[e], "up", 1))
                off = e;
        if (off < 0 && (!c.end[0] || mn_fact_true(c.end[0], "carrier", 1)) &&
            (!c.end[1] || mn_fact_true(c.end[1], "carrier", 1)))
            continue;
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %s; %s: %s", c.node[0], state(c.end[0]), c.node[1],
                 state(c.end[1]));
        snprintf(t->expected, sizeof t->expected, "both ends up");
        if (off >= 0)
            snprintf(t->fix, sizeof t->fix, "ip link set dev %s up   # on %s", c.netdev[off],
                     c.node[off]);
        else
            snprintf(t->fix, sizeof t->fix,
                     "push in both plugs, try another cable; ethtool %s on %s says what the port "
                     "sees",
                     c.netdev[0], c.node[0]);
    }
}

void mn_doctor_cable_mtu(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        double a = mn_fact_number(c.end[0], "mtu", 0), b = mn_fact_number(c.end[1], "mtu", 0);
        if (a <= 0 || b <= 0 || a == b)
            continue;
        int small = a < b ? 0 : 1;
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s %.0f, %s %.0f", c.node[0], a, c.node[1], b);
        snprintf(t->expected, sizeof t->expected, "the same at both ends");
        snprintf(t->fix, sizeof t->fix, "ip link set dev %s mtu %.0f   # on %s", c.netdev[small],
                 fmax(a, b), c.node[small]);
    }
}

/* The end's address on this cable. */
static const struct mn_addr *addr_of(const struct mn_doctor_verdict *v, const struct cable *c,
                                     int e)
{
    const struct mn_mesh_end end = c->link->ends[e];
    const struct mn_mesh_nic *nic = &v->what->mesh->nodes[end.node].nics[end.nic];

    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_addr_share_subnet(&nic->addrs[i], &c->link->subnet))
            return &nic->addrs[i];
    return NULL;
}

/* 1: the end has a GID for its address there, or needs none. */
static int has_gid(const cJSON *end, const struct mn_addr *addr)
{
    const cJSON *gid;
    struct mn_addr found;

    cJSON_ArrayForEach(gid, mn_fact(end, "gids")) if (!strcmp(mn_fact_text(gid, "type"),
                                                              mn_gid_type_name(MN_GID_IB)) ||
                                                      (!strcmp(mn_fact_text(gid, "type"),
                                                               mn_gid_type_name(MN_GID_ROCE_V2)) &&
                                                       !mn_addr_parse(mn_fact_text(gid, "address"),
                                                                      &found, NULL) &&
                                                       mn_addr_equal(&found, addr))) return 1;
    return 0;
}

/* An address that is not there has no GID, and is told of by the node itself. */
static int has_addr(const cJSON *end, const struct mn_addr *addr)
{
    struct mn_addr found;
    const cJSON *item;

    cJSON_ArrayForEach(item, mn_fact(end, "addresses")) if (cJSON_IsString(item) &&
                                                            !mn_addr_parse(item->valuestring,
                                                                           &found, NULL) &&
                                                            mn_addr_equal(&found, addr)) return 1;
    return 0;
}

void mn_doctor_cable_gid(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            const struct mn_addr *addr = addr_of(v, &c, e);
            const char *device = mn_fact_text(c.end[e], "device");
            char text[MN_ADDR_TEXT];
            if (!addr || !*device || !has_addr(c.end[e], addr) || has_gid(c.end[e], addr) ||
                !mn_fact_true(c.end[e], "carrier", 1) || v->blamed[i])
                continue;
            struct mn_trouble *t = add(v, rule, &c);
            struct mn_addr bare = *addr;
            bare.prefix = -1;
            snprintf(t->seen, sizeof t->seen, "%s: %.60s has no RoCE v2 GID for %s", c.node[e],
                     device, mn_addr_format(&bare, text, sizeof text));
            snprintf(t->expected, sizeof t->expected, "a GID for the address at both ends");
            snprintf(t->fix, sizeof t->fix,
                     "ip link set dev %s down && ip link set dev %s up   # on %s; the kernel fills "
                     "the table anew",
                     c.netdev[e], c.netdev[e], c.node[e]);
        }
}

void mn_doctor_cable_rdma(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        int a = *mn_fact_text(c.end[0], "device") != 0, b = *mn_fact_text(c.end[1], "device") != 0;
        if (!c.end[0] || !c.end[1] || a == b)
            continue;
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %.60s; %s: no RDMA device", c.node[!a],
                 mn_fact_text(c.end[!a], "device"), c.node[a]);
        snprintf(t->expected, sizeof t->expected, "an RDMA device at both ends");
        snprintf(t->fix, sizeof t->fix,
                 "rdma link; lsmod | grep -E 'mlx5_ib|irdma|bnxt_re'   # on %s", c.node[a]);
    }
}

void mn_doctor_cable_speed(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        double a = mn_fact_number(c.end[0], "speed", 0), b = mn_fact_number(c.end[1], "speed", 0);
        if (a <= 0 || b <= 0 || a == b)
            continue;
        int slow = a < b ? 0 : 1;
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s %g Gb/s, %s %g Gb/s", c.node[0], a / 1000, c.node[1],
                 b / 1000);
        snprintf(t->expected, sizeof t->expected, "%g Gb/s at both ends", fmax(a, b) / 1000);
        snprintf(t->fix, sizeof t->fix,
                 "ip link set dev %s down && ip link set dev %s up   # on %s; then another cable",
                 c.netdev[slow], c.netdev[slow], c.node[slow]);
    }
}

static double pcie_gbps(const cJSON *end)
{
    const cJSON *pcie = mn_fact(end, "pcie");
    double lanes = mn_fact_number(pcie, "width", 0);

    return lanes > 0 && lanes <= 64 ? mn_pci_gbps(mn_fact_number(pcie, "speed", 0), (int)lanes) : 0;
}

void mn_doctor_cable_pcie(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        double a = pcie_gbps(c.end[0]), b = pcie_gbps(c.end[1]);
        if (a <= 0 || b <= 0 || fabs(a - b) < 1)
            continue;
        int slow = a < b ? 0 : 1;
        const cJSON *pcie = mn_fact(c.end[slow], "pcie"), *other = mn_fact(c.end[!slow], "pcie");
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %g GT/s x%.0f, %.0f Gb/s", c.node[slow],
                 mn_fact_number(pcie, "speed", 0), mn_fact_number(pcie, "width", 0), fmin(a, b));
        snprintf(t->expected, sizeof t->expected, "%g GT/s x%.0f, %.0f Gb/s as on %s",
                 mn_fact_number(other, "speed", 0), mn_fact_number(other, "width", 0), fmax(a, b),
                 c.node[!slow]);
        snprintf(t->fix, sizeof t->fix,
                 "seat the card of %s anew, try another slot, look at the BIOS's link settings",
                 c.node[slow]);
    }
}

void mn_doctor_firmware(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        const char *a = mn_fact_text(c.end[0], "firmware"), *b = mn_fact_text(c.end[1], "firmware");
        if (!*a || !*b || !strcmp(a, b) ||
            strcmp(mn_fact_text(c.end[0], "driver"), mn_fact_text(c.end[1], "driver")) != 0)
            continue;
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %.60s, %s: %.60s", c.node[0], a, c.node[1], b);
        snprintf(t->expected, sizeof t->expected, "the same at both ends");
        snprintf(t->fix, sizeof t->fix,
                 "write the newer one to the other card: fwupdmgr update, or the maker's tool "
                 "(mlxfwmanager, niccli)");
    }
}

/* --- counters ----------------------------------------------------------------------------------
 */

static const cJSON *values(const cJSON *answer, const char *netdev)
{
    const cJSON *nic;

    cJSON_ArrayForEach(nic, mn_fact(answer,
                                    "counters")) if (!strcmp(mn_fact_text(nic, "netdev"),
                                                             netdev)) return mn_fact(nic, "values");
    return NULL;
}

struct growth {
    double most, sum; /* of one counter, of all */
    const char *name; /* of the one */
};

/* What the counters of a list have grown by between both answers of that end's node. A counter that
 * fell was set back: it tells nothing. */
static struct growth grown(const struct mn_doctor_verdict *v, const struct cable *c, int e,
                           const char *const *names)
{
    const struct mn_doctor_node *node = &v->what->nodes[c->link->ends[e].node];
    const cJSON *before = values(node->facts, c->netdev[e]);
    const cJSON *after = values(node->counters, c->netdev[e]);
    struct growth g = {0};

    for (; *names; names++) {
        double by = mn_fact_number(after, *names, 0) - mn_fact_number(before, *names, 0);
        if (!mn_fact(after, *names) || !mn_fact(before, *names) || by <= 0)
            continue;
        g.sum += by;
        if (by > g.most) {
            g.most = by;
            g.name = *names;
        }
    }
    return g;
}

static void tell(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                 const struct cable *c, int e, const struct growth *g, const char *fix)
{
    struct mn_trouble *t = add(v, rule, c);

    snprintf(t->seen, sizeof t->seen, "%s %s: %s grew by %.0f", c->node[e], c->netdev[e], g->name,
             g->most);
    snprintf(t->expected, sizeof t->expected, "as before");
    mn_strlcpy(t->fix, fix, sizeof t->fix);
}

void mn_doctor_cable_errors(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    static const char *const names[] = {"fec_uncorrectable",
                                        "phy_symbol_errors",
                                        "symbol_error",
                                        "mac_fcs_errors",
                                        "mac_alignment_errors",
                                        "mac_carrier_errors",
                                        "rmon_fragments",
                                        "rmon_jabbers",
                                        "rx_crc",
                                        "rx_frame",
                                        "rx_errors",
                                        "tx_errors",
                                        "tx_carrier",
                                        "port_rcv_errors",
                                        "link_error_recovery",
                                        "link_downed",
                                        "local_link_integrity_errors",
                                        "rx_icrc_encapsulated",
                                        NULL};
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            struct growth g = grown(v, &c, e, names);
            if (g.sum > 0)
                tell(v, rule, &c, e, &g,
                     "push in both plugs, clean a fibre's ends; then another cable or module");
        }
}

void mn_doctor_cable_drops(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    static const char *const packets[] = {"rx_packets", "tx_packets", NULL};
    static const char *const names[] = {"rx_dropped",
                                        "tx_dropped",
                                        "rx_missed",
                                        "port_xmit_discards",
                                        "packet_seq_err",
                                        "out_of_sequence",
                                        "mac_too_long",
                                        "local_ack_timeout_err",
                                        NULL};
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            struct growth g = grown(v, &c, e, names), all = grown(v, &c, e, packets);
            if (g.sum >= 10 && g.sum * 1000 > all.sum)
                tell(v, rule, &c, e, &g,
                     "larger rings (ethtool -G), pause or PFC at both ends; look for a loss on the "
                     "cable");
        }
}

void mn_doctor_cable_pause(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    static const char *const names[] = {"rx_pause", "tx_pause", NULL};
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            struct growth g = grown(v, &c, e, names);
            if (g.sum > 0)
                tell(v, rule, &c, e, &g, "");
        }
}

/* --- what passes -------------------------------------------------------------------------------
 */

void mn_doctor_cable_silent(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++) {
        int out = mn_doctor_probe(v->what, c.link, 0), in = mn_doctor_probe(v->what, c.link, 1);
        if (v->blamed[i] || (out != 0 && in != 0))
            continue;
        int from = out == 0 ? 0 : 1, both = out == 0 && in == 0;
        struct mn_trouble *t = add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s%s asked %s and nothing came back", c.node[from],
                 both ? " and the other way round" : "", c.node[!from]);
        snprintf(t->expected, sizeof t->expected, "an answer to echo requests in both directions");
        snprintf(t->fix, sizeof t->fix,
                 "meshnet discover --neighbors   # which port of which node is at the other end");
    }
}

void mn_doctor_cable_large(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct cable c;

    for (size_t i = 0; cable(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            if (v->blamed[i] || mn_doctor_probe(v->what, c.link, e) != 1)
                continue;
            struct mn_trouble *t = add(v, rule, &c);
            snprintf(t->seen, sizeof t->seen,
                     "from %s small packets are answered, those of %.0f bytes are not", c.node[e],
                     mn_fact_number(c.end[e], "mtu", 0));
            snprintf(t->expected, sizeof t->expected, "packets of the whole MTU pass");
            snprintf(t->fix, sizeof t->fix,
                     "ip link set dev %s mtu 1500   # at both ends, until what is in between is "
                     "found",
                     c.netdev[e]);
        }
}

static void check_writes(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                         enum mn_doctor_write_state state, const char *expected)
{
    struct cable c;

    for (size_t i = 0; v->what->writes && cable(v, &i, &c); i++) {
        const struct mn_doctor_write *w = &v->what->writes[i];
        if (w->state != state || (state == MN_WRITE_DEAD && v->blamed[i]))
            continue;
        struct mn_trouble *t = add(v, rule, &c);
        mn_strlcpy_words(t->seen, w->error[0] ? w->error : "it came out otherwise", sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "%s", expected);
        snprintf(t->fix, sizeof t->fix,
                 "MESHNET_LOG=debug meshnet bench --links   # says more of this cable");
    }
}

void mn_doctor_write_failed(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    check_writes(v, rule, MN_WRITE_DEAD, "a write over the cable in both directions");
}

void mn_doctor_write_wrong(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    check_writes(v, rule, MN_WRITE_WRONG, "the bytes that were sent");
}

void mn_doctor_write_unmeasured(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    if (!v->what->write_error)
        return;
    struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "the mesh");
    mn_strlcpy_words(t->seen, v->what->write_error, sizeof t->seen);
    snprintf(t->expected, sizeof t->expected, "a write over each cable");
}
