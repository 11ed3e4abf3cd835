/* Rules about cables: both ends beside each other, and what passes between them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"

int mn_doctor_cable_next(const struct mn_doctor_verdict *v, size_t *i,
                         struct mn_doctor_cable_ends *c)
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

struct mn_trouble *mn_doctor_cable_add(struct mn_doctor_verdict *v,
                                       const struct mn_trouble_rule *rule,
                                       const struct mn_doctor_cable_ends *c)
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
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        int off = -1;
        for (int e = 0; e < 2; e++)
            if (c.end[e] && !mn_fact_true(c.end[e], "up", 1))
                off = e;
        if (off < 0 && (!c.end[0] || mn_fact_true(c.end[0], "carrier", 1)) &&
            (!c.end[1] || mn_fact_true(c.end[1], "carrier", 1)))
            continue;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %s; %s: %s", c.node[0], state(c.end[0]), c.node[1],
                 state(c.end[1]));
        snprintf(t->expected, sizeof t->expected, "both ends up");
        if (off >= 0)
            mn_doctor_fix(t, "ip link set dev %q up   # on %s", c.netdev[off], c.node[off]);
        else
            mn_doctor_fix(t,
                          "push in both plugs, try another cable; ethtool %q on %s says what the "
                          "port sees",
                          c.netdev[0], c.node[0]);
    }
}

void mn_doctor_cable_mtu(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        double a = mn_fact_number(c.end[0], "mtu", 0), b = mn_fact_number(c.end[1], "mtu", 0);
        if (a <= 0 || b <= 0 || a == b)
            continue;
        int small = a < b ? 0 : 1;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s %.0f, %s %.0f", c.node[0], a, c.node[1], b);
        snprintf(t->expected, sizeof t->expected, "the same at both ends");
        char mtu[32];
        snprintf(mtu, sizeof mtu, "%.0f", fmax(a, b));
        mn_doctor_fix(t, "ip link set dev %q mtu %s   # on %s", c.netdev[small], mtu,
                      c.node[small]);
    }
}

/* The end's address on this cable. */
static const struct mn_addr *addr_of(const struct mn_doctor_verdict *v,
                                     const struct mn_doctor_cable_ends *c, int e)
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

/* What fills the table anew takes more with it than that. */
static void down_and_up(const struct mn_doctor_verdict *v, const struct mn_doctor_cable_ends *c,
                        int e, struct mn_trouble *t)
{
    mn_doctor_fix(t,
                  "ip link set dev %q down && ip link set dev %q up   # on %s; then meshnet topo "
                  "apply%s%q --hosts %q sets again the IPv6 addresses and routes that go with it",
                  c->netdev[e], c->netdev[e], c->node[e], MN_DOCTOR_MESH(v),
                  v->what->mesh->nodes[c->link->ends[e].node].hostname);
}

void mn_doctor_cable_gid(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            const struct mn_addr *addr = addr_of(v, &c, e);
            const char *device = mn_fact_text(c.end[e], "device");
            char text[MN_ADDR_TEXT];
            if (!addr || !*device || !has_addr(c.end[e], addr) || has_gid(c.end[e], addr) ||
                !mn_fact_true(c.end[e], "carrier", 1) || v->blamed[i])
                continue;
            struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
            struct mn_addr bare = *addr;
            bare.prefix = -1;
            snprintf(t->seen, sizeof t->seen, "%s: %.60s has no RoCE v2 GID for %s", c.node[e],
                     device, mn_addr_format(&bare, text, sizeof text));
            snprintf(t->expected, sizeof t->expected, "a GID for the address at both ends");
            down_and_up(v, &c, e, t);
        }
}

void mn_doctor_cable_rdma(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        int a = *mn_fact_text(c.end[0], "device") != 0, b = *mn_fact_text(c.end[1], "device") != 0;
        if (!c.end[0] || !c.end[1] || a == b)
            continue;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %.60s; %s: no RDMA device", c.node[!a],
                 mn_fact_text(c.end[!a], "device"), c.node[a]);
        snprintf(t->expected, sizeof t->expected, "an RDMA device at both ends");
        snprintf(t->fix, sizeof t->fix,
                 "rdma link; lsmod | grep -E 'mlx5_ib|irdma|bnxt_re'   # on %s", c.node[a]);
    }
}

void mn_doctor_cable_speed(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        double a = mn_fact_number(c.end[0], "speed", 0), b = mn_fact_number(c.end[1], "speed", 0);
        if (a <= 0 || b <= 0 || a == b)
            continue;
        int slow = a < b ? 0 : 1;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s %g Gb/s, %s %g Gb/s", c.node[0], a / 1000, c.node[1],
                 b / 1000);
        snprintf(t->expected, sizeof t->expected, "%g Gb/s at both ends", fmax(a, b) / 1000);
        /* Which has no ethtool -r. */
        if (!strcmp(mn_fact_text(c.end[slow], "driver"), "mlx5_core"))
            down_and_up(v, &c, slow, t);
        else
            mn_doctor_fix(t,
                          "ethtool -r %q   # on %s: it negotiates again, addresses and routes "
                          "stay; then another cable",
                          c.netdev[slow], c.node[slow]);
    }
}

static double pcie_gbps(const cJSON *end)
{
    const cJSON *pcie = mn_fact(end, "pcie");
    double lanes = mn_fact_number(pcie, "width", 0);

    return lanes > 0 && lanes <= 64 ? mn_pci_gbps(mn_fact_number(pcie, "speed", 0), (int)lanes) : 0;
}

/* What the slower end's port carries, Gb/s; 0 = not known. */
static double cable_gbps(const struct mn_doctor_cable_ends *c)
{
    double a = mn_fact_number(c->end[0], "speed", 0), b = mn_fact_number(c->end[1], "speed", 0);

    return (a <= 0 ? b : b <= 0 ? a : fmin(a, b)) / 1000;
}

static int runs_at_its_best(const cJSON *pcie)
{
    double lanes = mn_fact_number(pcie, "max_width", 0), width = mn_fact_number(pcie, "width", 0);
    double most = mn_fact_number(pcie, "max_speed", 0), speed = mn_fact_number(pcie, "speed", 0);

    return lanes > 0 && most > 0 && width >= lanes && speed >= most;
}

void mn_doctor_cable_pcie(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        double a = pcie_gbps(c.end[0]), b = pcie_gbps(c.end[1]), rate = cable_gbps(&c);
        int slow = a < b ? 0 : 1;
        const cJSON *pcie = mn_fact(c.end[slow], "pcie"), *other = mn_fact(c.end[!slow], "pcie");
        /* Lanes that carry the whole cable are enough, and what the card cannot do is no fault. */
        if (a <= 0 || b <= 0 || fabs(a - b) < 1 || (rate > 0 && fmin(a, b) >= rate) ||
            runs_at_its_best(pcie))
            continue;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
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

/* Of one model, as far as is known: PCI's numbers, and the board's that mlx5 puts behind the
 * version. */
static int same_card(const cJSON *const end[2])
{
    const char *board[2];

    for (int e = 0; e < 2; e++) {
        board[e] = strchr(mn_fact_text(end[e], "firmware"), '(');
        board[e] = board[e] ? board[e] : "";
    }
    return !strcmp(mn_fact_text(end[0], "driver"), mn_fact_text(end[1], "driver")) &&
           !strcmp(mn_fact_text(end[0], "card"), mn_fact_text(end[1], "card")) &&
           !strcmp(board[0], board[1]);
}

void mn_doctor_firmware(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        const char *a = mn_fact_text(c.end[0], "firmware"), *b = mn_fact_text(c.end[1], "firmware");
        if (!*a || !*b || !strcmp(a, b) || !same_card(c.end))
            continue;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s: %.60s, %s: %.60s", c.node[0], a, c.node[1], b);
        snprintf(t->expected, sizeof t->expected, "the same at both ends");
        snprintf(t->fix, sizeof t->fix,
                 "write the newer one to the other card: fwupdmgr update, or the maker's tool "
                 "(mlxfwmanager, niccli)");
    }
}

/* --- what passes -------------------------------------------------------------------------------
 */

void mn_doctor_cable_silent(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++) {
        int out = mn_doctor_probe(v->what, c.link, 0), in = mn_doctor_probe(v->what, c.link, 1);
        /* A firewall may let connections pass and drop echo requests. */
        if (v->blamed[i] || (out != 0 && in != 0) ||
            (v->what->writes && v->what->writes[i].state == MN_WRITE_OK))
            continue;
        int from = out == 0 ? 0 : 1, both = out == 0 && in == 0;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        snprintf(t->seen, sizeof t->seen, "%s%s asked %s and nothing came back", c.node[from],
                 both ? " and the other way round" : "", c.node[!from]);
        snprintf(t->expected, sizeof t->expected, "an answer to echo requests in both directions");
        const char *file = v->what->file_given ? v->what->file : NULL;
        mn_doctor_fix(t,
                      "%s%q%smeshnet discover --neighbors --hosts %q,%q   # which port of which "
                      "node is at the other end",
                      file ? "MESHNET_CONFIG=" : "", file, file ? " " : "",
                      v->what->mesh->nodes[c.link->ends[0].node].hostname,
                      v->what->mesh->nodes[c.link->ends[1].node].hostname);
    }
}

void mn_doctor_cable_large(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            if (v->blamed[i] || mn_doctor_probe(v->what, c.link, e) != 1)
                continue;
            struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
            snprintf(t->seen, sizeof t->seen,
                     "from %s small packets are answered, those of %.0f bytes are not", c.node[e],
                     mn_fact_number(c.end[e], "mtu", 0));
            snprintf(t->expected, sizeof t->expected, "packets of the whole MTU pass");
            mn_doctor_fix(t,
                          "ip link set dev %q mtu 1500   # at both ends, until what is in between "
                          "is found",
                          c.netdev[e]);
        }
}

static void check_writes(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                         enum mn_doctor_write_state state, const char *expected)
{
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; v->what->writes && mn_doctor_cable_next(v, &i, &c); i++) {
        const struct mn_doctor_write *w = &v->what->writes[i];
        if (w->state != state || (state == MN_WRITE_DEAD && v->blamed[i]))
            continue;
        struct mn_trouble *t = mn_doctor_cable_add(v, rule, &c);
        mn_strlcpy_words(t->seen, w->error[0] ? w->error : "it came out otherwise", sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "%s", expected);
        mn_doctor_fix(t, "MESHNET_LOG=debug meshnet bench --links%s%q   # says more of this cable",
                      MN_DOCTOR_MESH(v));
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
