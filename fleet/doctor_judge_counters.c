/* Rules about counters of cables' ends that grow while it is looked at. */
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"

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
static struct growth grown(const struct mn_doctor_verdict *v, const struct mn_doctor_cable_ends *c,
                           int e, const char *const *names)
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
                 const struct mn_doctor_cable_ends *c, int e, const struct growth *g,
                 const char *fix)
{
    struct mn_trouble *t = mn_doctor_cable_add(v, rule, c);

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
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++)
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
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++)
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
    struct mn_doctor_cable_ends c;

    for (size_t i = 0; mn_doctor_cable_next(v, &i, &c); i++)
        for (int e = 0; e < 2; e++) {
            struct growth g = grown(v, &c, e, names);
            if (g.sum > 0)
                tell(v, rule, &c, e, &g, "");
        }
}
