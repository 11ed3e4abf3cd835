/* Rules about one cable, or what is in place of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/whole_rule.h"

/* --- what is no cable ------------------------------------------------------------------------- */

void mn_whole_loop(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_knots; i++) {
        const struct mn_knot *knot = &w->cabling.knots[i];
        char text[MN_WHERE_SIZE];

        if (knot->kind != MN_KNOT_LOOP || w->wants[knot->ports[0]] >= 0 ||
            w->wants[knot->ports[1]] >= 0 || mn_wish_has(&w->wish, knot->ports[0]) ||
            mn_wish_has(&w->wish, knot->ports[1]))
            continue;
        struct mn_trouble *t =
            mn_trouble_add(w->found, rule, "%s",
                           mn_where_ports(w, knot->ports[0], knot->ports[1], text));
        snprintf(t->seen, sizeof t->seen, "both ends of the cable are in %s",
                 mn_whole_node(w, w->cabling.ports[knot->ports[0]].node));
        snprintf(t->expected, sizeof t->expected, "one end in another node");
        snprintf(t->fix, sizeof t->fix, "move the end at %s to a node that lacks a cable",
                 mn_where_port(w, knot->ports[1], text));
    }
}

/* The ports of a knot, as many as fit. */
static char *knot_where(const struct mn_whole *w, const struct mn_knot *knot, char *text)
{
    size_t len = 0, shown = 0;

    for (; shown < knot->n_ports && len < MN_WHERE_SIZE - 60; shown++) {
        char port[MN_WHERE_SIZE];

        len += (size_t)snprintf(text + len, MN_WHERE_SIZE - len, "%s%s", shown ? ", " : "",
                                mn_where_port(w, knot->ports[shown], port));
    }
    if (shown < knot->n_ports && len < MN_WHERE_SIZE)
        snprintf(text + len, MN_WHERE_SIZE - len, " and %zu more", knot->n_ports - shown);
    return text;
}

/* A node of the knot that bridges two of its ports; returns the bridge's name, or NULL. */
static const char *bridge_of(const struct mn_whole *w, const struct mn_knot *knot, int ports[2])
{
    for (size_t i = 0; i < knot->n_ports; i++)
        for (size_t k = 0; k < i; k++) {
            const struct mn_survey_nic *a = mn_port_nic(w, knot->ports[i], 0);
            const struct mn_survey_nic *b = mn_port_nic(w, knot->ports[k], 0);

            if (w->cabling.ports[knot->ports[i]].node != w->cabling.ports[knot->ports[k]].node ||
                !a->master[0] || strcmp(a->master, b->master) != 0)
                continue;
            ports[0] = knot->ports[k];
            ports[1] = knot->ports[i];
            return a->master;
        }
    return NULL;
}

static void stranger_text(const struct mn_whole *w, int index, char *text, size_t size)
{
    const struct mn_survey_stranger *met = &w->survey->strangers[index];
    const uint8_t *mac = met->mac;

    if (met->system[0])
        snprintf(text, size, "\"%s\"%s%s", met->system, met->port[0] ? ", port " : "", met->port);
    else
        snprintf(text, size, "%02x:%02x:%02x:%02x:%02x:%02x, which is of no node", mac[0], mac[1],
                 mac[2], mac[3], mac[4], mac[5]);
}

/* A network beside cables that join all nodes already: the office, most likely. */
static int is_beside(const struct mn_whole *w, const struct mn_knot *knot)
{
    int ports[2];

    return knot->n_ports > 2 && mn_graph_pieces(&w->cables, NULL) == 1 &&
           !bridge_of(w, knot, ports);
}

void mn_whole_beside(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_knots; i++) {
        const struct mn_knot *knot = &w->cabling.knots[i];
        char text[MN_WHERE_SIZE];

        if (knot->kind == MN_KNOT_LOOP || knot->n_ports < 2 || !is_beside(w, knot))
            continue;
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", knot_where(w, knot, text));
        snprintf(t->seen, sizeof t->seen, "%zu ports hear each other, and cables join their nodes",
                 knot->n_ports);
        snprintf(t->expected, sizeof t->expected, "so it is when this is the management network");
        snprintf(
            t->fix, sizeof t->fix,
            "nothing; --skip leaves these NICs out, and role: management in the mesh file says "
            "what they are");
    }
}

/* Which plugs to take out. */
static void apart(const struct mn_whole *w, const struct mn_knot *knot, struct mn_trouble *t)
{
    const char *name = knot->stranger < 0 ? "" : w->survey->strangers[knot->stranger].system;
    char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE];

    if (knot->n_ports == 2)
        snprintf(t->fix, sizeof t->fix, "join %.100s and %.100s by a cable of their own%s%.64s",
                 mn_where_port(w, knot->ports[0], text), mn_where_port(w, knot->ports[1], other),
                 name[0] ? ", not through " : "", name);
    else
        snprintf(t->fix, sizeof t->fix,
                 "take these out of %.64s, and cable their nodes to each other: %s",
                 name[0] ? name : "the switch", knot_where(w, knot, text));
}

void mn_whole_shared(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_knots; i++) {
        const struct mn_knot *knot = &w->cabling.knots[i];
        char text[MN_WHERE_SIZE], who[160] = "";
        const char *bridge;
        int ports[2];

        if (knot->kind == MN_KNOT_LOOP || knot->n_ports < 2 || is_beside(w, knot))
            continue;
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", knot_where(w, knot, text));
        bridge = bridge_of(w, knot, ports);
        if (knot->stranger >= 0)
            stranger_text(w, knot->stranger, who, sizeof who);
        if (bridge)
            snprintf(t->seen, sizeof t->seen, "bridge %s of %.64s joins two of its ports", bridge,
                     mn_whole_node(w, w->cabling.ports[ports[0]].node));
        else
            snprintf(t->seen, sizeof t->seen, "%zu ports hear each other%s%s", knot->n_ports,
                     who[0] ? "; in between is " : "", who);
        snprintf(t->expected, sizeof t->expected, "two ports at a cable and nothing in between");
        if (bridge)
            snprintf(t->fix, sizeof t->fix,
                     "on %s: ip link set dev %s nomaster; ip link set dev %s nomaster",
                     mn_whole_node(w, w->cabling.ports[ports[0]].node),
                     mn_port_nic(w, ports[0], 0)->netdev, mn_port_nic(w, ports[1], 0)->netdev);
        else
            apart(w, knot, t);
    }
}

void mn_whole_foreign(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_knots; i++) {
        const struct mn_knot *knot = &w->cabling.knots[i];
        char text[MN_WHERE_SIZE], who[160];

        if (knot->kind != MN_KNOT_FOREIGN || knot->n_ports != 1)
            continue;
        struct mn_trouble *t =
            mn_trouble_add(w->found, rule, "%s", mn_where_port(w, knot->ports[0], text));
        stranger_text(w, knot->stranger, who, sizeof who);
        snprintf(t->seen, sizeof t->seen, "%s was heard there", who);
        snprintf(t->expected, sizeof t->expected, "one of the nodes that were asked");
        snprintf(t->fix, sizeof t->fix,
                 "ask that machine too, if it is to be a node; else move the cable");
    }
}

void mn_whole_enslaved(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_cables; i++)
        for (int h = 0; h < w->cabling.cables[i].n_halves; h++) {
            const struct mn_cable *cable = &w->cabling.cables[i];
            const struct mn_survey_nic *nics[2];
            char text[MN_WHERE_SIZE];

            mn_half_nics(w, cable, &cable->halves[h], nics);
            for (int side = 0; side < 2; side++) {
                if (!nics[side]->master[0])
                    continue;
                const char *node = mn_whole_node(w, w->cabling.ports[cable->ports[side]].node);
                struct mn_trouble *t =
                    mn_trouble_add(w->found, rule, "%s",
                                   mn_where_half(w, cable, &cable->halves[h], text));
                snprintf(t->seen, sizeof t->seen, "%s of %s is in %s", nics[side]->netdev, node,
                         nics[side]->master);
                snprintf(t->expected, sizeof t->expected, "a port by itself, with its own address");
                snprintf(t->fix, sizeof t->fix, "on %s: ip link set dev %s nomaster", node,
                         nics[side]->netdev);
            }
        }
}

/* --- cables ----------------------------------------------------------------------------------- */

void mn_whole_one_way(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_cables; i++)
        for (int h = 0; h < w->cabling.cables[i].n_halves; h++) {
            const struct mn_cable *cable = &w->cabling.cables[i];
            const struct mn_cable_half *half = &cable->halves[h];
            int deaf = half->heard[0] ? 1 : 0;
            struct mn_mesh_end ends[2];
            char text[MN_WHERE_SIZE], one[MN_WHERE_SIZE], two[MN_WHERE_SIZE];

            if (half->heard[0] && half->heard[1])
                continue;
            for (int side = 0; side < 2; side++)
                ends[side] = mn_cable_end(&w->cabling, cable, half, side);
            struct mn_trouble *t =
                mn_trouble_add(w->found, rule, "%s", mn_where_half(w, cable, half, text));
            mn_where_nic(w, &ends[!deaf], one);
            mn_where_nic(w, &ends[deaf], two);
            snprintf(t->seen, sizeof t->seen, "%.110s hears %.110s, but is not heard there", one,
                     two);
            snprintf(t->expected, sizeof t->expected, "each end hears the other");
            snprintf(t->fix, sizeof t->fix,
                     "on %s look for a filter (nft list ruleset; tc filter show dev %s ingress); "
                     "then try another cable",
                     mn_whole_node(w, ends[deaf].node),
                     mn_survey_end_nic(w->survey, &ends[deaf])->netdev);
        }
}

static int is_lit(const struct mn_cable *cable, int side, int nic)
{
    for (int h = 0; h < cable->n_halves; h++)
        if (cable->halves[h].nics[side] == nic)
            return 1;
    return 0;
}

/* The functions of a port without a part in its cable. */
static int dark_nics(const struct mn_whole *w, const struct mn_cable *cable, int side, int *nics)
{
    const struct mn_port *port = &w->cabling.ports[cable->ports[side]];
    int n = 0;

    for (int i = 0; i < port->n_nics; i++) {
        const struct mn_survey_nic *nic = mn_port_nic(w, cable->ports[side], i);

        if (nic->role != MN_ROLE_MANAGEMENT && !is_lit(cable, side, port->nics[i]))
            nics[n++] = port->nics[i];
    }
    return n;
}

static const char *dark_state(const struct mn_survey_nic *nic)
{
    return !nic->admin_up ? "switched off" : !nic->carrier ? "no link" : "hears nobody";
}

void mn_whole_half_dark(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_cables; i++) {
        const struct mn_cable *cable = &w->cabling.cables[i];
        int dark[2][MN_PORT_NICS_MAX], n[2];

        for (int side = 0; side < 2; side++)
            n[side] = dark_nics(w, cable, side, dark[side]);
        for (int k = 0; k < n[0] && k < n[1]; k++) {
            struct mn_cable_half half = {.nics = {dark[0][k], dark[1][k]}};
            const struct mn_survey_nic *nics[2];
            char text[MN_WHERE_SIZE];
            struct mn_trouble *t =
                mn_trouble_add(w->found, rule, "%s", mn_where_half(w, cable, &half, text));
            mn_half_nics(w, cable, &half, nics);
            const char *names[2];
            for (int side = 0; side < 2; side++)
                names[side] = mn_whole_node(w, w->cabling.ports[cable->ports[side]].node);
            snprintf(t->seen, sizeof t->seen, "%s of %s: %s; %s of %s: %s", nics[0]->netdev,
                     names[0], dark_state(nics[0]), nics[1]->netdev, names[1], dark_state(nics[1]));
            snprintf(t->expected, sizeof t->expected, "up and heard, as its twin on the same port");
            int off = !nics[0]->admin_up ? 0 : 1;
            if (!nics[0]->admin_up && !nics[1]->admin_up)
                snprintf(t->fix, sizeof t->fix,
                         "on %s: ip link set dev %s up; on %s: ip link set dev %s up", names[0],
                         nics[0]->netdev, names[1], nics[1]->netdev);
            else if (!nics[off]->admin_up)
                snprintf(t->fix, sizeof t->fix, "on %s: ip link set dev %s up", names[off],
                         nics[off]->netdev);
            else
                snprintf(t->fix, sizeof t->fix,
                         "on %s: dmesg | grep %s; then unplug the cable and plug it in again, and "
                         "start the node anew",
                         names[nics[0]->carrier],
                         nics[nics[0]->carrier]->pci.address[0]
                             ? nics[nics[0]->carrier]->pci.address
                             : nics[nics[0]->carrier]->netdev);
        }
    }
}

/* --- carriers --------------------------------------------------------------------------------- */

static void one_carrier(const struct mn_trouble_rule *rule, const struct mn_whole *w, int a, int b)
{
    int dark = mn_port_carrier(w, a) ? b : a, lit = dark == a ? b : a;
    char text[MN_WHERE_SIZE], other[MN_WHERE_SIZE];
    const struct mn_survey_nic *nic = mn_port_nic(w, dark, 0);

    if (mn_port_carrier(w, a) == mn_port_carrier(w, b))
        return;
    struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", mn_where_ports(w, a, b, text));
    snprintf(t->seen, sizeof t->seen, "%s has a link, %s has none%s", mn_where_port(w, lit, text),
             mn_where_port(w, dark, other), nic->admin_up ? "" : " and is switched off");
    snprintf(t->expected, sizeof t->expected, "a link at both ends");
    if (nic->admin_up)
        snprintf(t->fix, sizeof t->fix, "plug the cable in again at %s, then try another",
                 mn_where_port(w, dark, text));
    else
        snprintf(t->fix, sizeof t->fix, "on %s: ip link set dev %s up",
                 mn_whole_node(w, w->cabling.ports[dark].node), nic->netdev);
}

void mn_whole_carrier(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    for (size_t i = 0; i < w->cabling.n_cables; i++)
        one_carrier(rule, w, w->cabling.cables[i].ports[0], w->cabling.cables[i].ports[1]);
    for (size_t i = 0; w->file && i < w->cabling.n_ports; i++)
        if (w->wants[i] > (int)i && mn_whole_lacks(w, (int)i, w->wants[i]))
            one_carrier(rule, w, (int)i, w->wants[i]);
}

/* Plugs of nodes that hear nobody at all: that finding speaks for them, and for as many at the
 * others. Fills alone[node]. */
static int explained(const struct mn_whole *w, char *alone)
{
    int theirs = 0, others = 0;

    for (size_t n = 0; n < w->survey->n_nodes; n++) {
        int lit = mn_node_lit(w, (int)n);

        alone[n] = w->survey->n_nodes > 1 && w->wish.kind == MN_WISH_NONE && !w->misled &&
                   !mn_graph_degree(&w->all, n);
        *(alone[n] ? &theirs : &others) += lit;
    }
    return theirs >= others;
}

void mn_whole_nobody(const struct mn_trouble_rule *rule, const struct mn_whole *w)
{
    long fastest = 0;
    char *alone = mn_zalloc(w->survey->n_nodes + 1);
    int all = explained(w, alone);

    for (size_t i = 0; i < w->cabling.n_cables; i++) {
        long speed = mn_port_nic(w, w->cabling.cables[i].ports[0], 0)->speed_mbps;

        fastest = speed > fastest ? speed : fastest;
    }
    for (size_t i = 0; i < w->cabling.n_ports; i++) {
        const struct mn_survey_nic *nic = mn_port_nic(w, (int)i, 0);
        char text[MN_WHERE_SIZE];

        if (!mn_port_is_free(w, (int)i) || !mn_port_carrier(w, (int)i) ||
            mn_wish_has(&w->wish, (int)i) || (w->file && w->wants[i] >= 0) ||
            nic->speed_mbps * 8 <= fastest - 1 || all || alone[w->cabling.ports[i].node])
            continue;
        struct mn_trouble *t = mn_trouble_add(w->found, rule, "%s", mn_where_port(w, (int)i, text));
        snprintf(t->seen, sizeof t->seen, "link up%s, nobody heard",
                 nic->admin_up ? "" : ", the NIC is switched off");
        snprintf(t->expected, sizeof t->expected, "another node at the other end of the cable");
        snprintf(t->fix, sizeof t->fix,
                 "see what the other end is in; a node that was not asked belongs into --hosts");
    }
    free(alone);
}
