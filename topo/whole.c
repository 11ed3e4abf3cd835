#include "topo/whole_rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/case.h"

/* Worst first: the order of the rows is the order of the report within a severity. */
const struct mn_whole_rule mn_whole_rules[] = {
    {{"file-cable", MN_SEVERITY_ERROR, "not cabled as the mesh file says",
      "Addresses and routes were made for the cables of the file: traffic for one node arrives at "
      "another. Move the plug, or make a new file of the cables as they are now."},
     mn_whole_file_cable},
    {{"wrong-neighbour", MN_SEVERITY_ERROR, "an address that points at the wrong neighbour",
      "The addresses say that the cable leads to another NIC than it does: plugs that changed "
      "places, or numbers that did. Renumber by the cables with meshnet topo address, or move the "
      "plug back."},
     mn_whole_neighbour},
    {{"cable-crossed", MN_SEVERITY_ERROR, "crossed cables",
      "With this one change all cables make a regular shape, in which every node reaches the "
      "others as it should."},
     mn_whole_crossed},
    {{"cable-loop", MN_SEVERITY_ERROR, "both ends of a cable in one node",
      "Such a cable carries nothing."},
     mn_whole_loop},
    {{"file-cable-missing", MN_SEVERITY_ERROR, "a cable of the mesh file is not there",
      "The nodes at its ends reach each other by a detour or not at all. A cable that is in may be "
      "broken, or rated for another speed."},
     mn_whole_file_missing},
    {{"node-alone", MN_SEVERITY_ERROR, "no cable leads to a node",
      "Nobody hears it and it hears nobody."},
     mn_whole_alone},
    {{"mesh-apart", MN_SEVERITY_ERROR, "the mesh is in pieces",
      "No cable leads from one piece to the other."},
     mn_whole_apart},
    {{"carrier", MN_SEVERITY_ERROR, "a carrier at one end only",
      "The cable's other end sees no light or no signal: a plug that is not in all the way, a lane "
      "that is broken, or a port that is switched off."},
     mn_whole_carrier},
    {{"one-way", MN_SEVERITY_ERROR, "a cable is heard in one direction only",
      "What one end sends does not arrive, though the link is up: a firewall that drops multicast, "
      "a filter of the driver, or a broken lane of the cable."},
     mn_whole_one_way},
    {{"address-twice", MN_SEVERITY_ERROR, "one address on two NICs of the mesh",
      "Whoever sends to it reaches the one or the other."},
     mn_whole_address_twice},
    {{"one-subnet", MN_SEVERITY_ERROR, "two cables numbered into one subnet",
      "A node sends all that is for the subnet through one of the cables, whichever it is for. "
      "Every cable, and every half of one, needs a subnet of its own: meshnet topo address."},
     mn_whole_one_subnet},
    {{"gid-unlike", MN_SEVERITY_ERROR, "RoCE v2 at one end only",
      "Both ends of an RDMA connection must use GIDs of one type; meshnet uses RoCE v2."},
     mn_whole_gid},
    {{"mtu-passes", MN_SEVERITY_ERROR, "packets as large as the MTU do not pass",
      "The NICs promise more than the way carries, so that large packets vanish: a switch or "
      "bridge in between, or a driver that lies."},
     mn_whole_mtu_passes},
    {{"mtu-directions", MN_SEVERITY_ERROR, "large packets pass in one direction only",
      "A NIC that takes less than it is set to, or a tunnel or filter on one side."},
     mn_whole_mtu_directions},
    {{"file-unseen", MN_SEVERITY_WARNING, "in the mesh file, but not seen",
      "A node that was not asked or did not answer, or a NIC that its node does not show. A file "
      "that is merged into keeps both; what is gone for good is to be taken out by hand."},
     mn_whole_file_node},
    {{"file-node-bare", MN_SEVERITY_WARNING, "a node without a cable, not in the mesh file yet",
      "Nobody hears it and it hears nobody, while the nodes of the file have their cables."},
     mn_whole_file_bare},
    {{"cable-misplaced", MN_SEVERITY_WARNING, "a plug in the wrong port",
      "With this one change all cables make a regular shape. Nothing is wrong with a partial mesh "
      "that is meant to be one; a mesh file says so."},
     mn_whole_misplaced},
    {{"cable-doubled", MN_SEVERITY_WARNING, "two cables where another pair has none",
      "The second cable between the same two nodes is missing elsewhere."},
     mn_whole_doubled},
    {{"cable-missing", MN_SEVERITY_WARNING, "a cable is missing for the shape",
      "One more cable makes a regular shape, in which every node reaches the others as it should."},
     mn_whole_missing},
    {{"half-dark", MN_SEVERITY_WARNING, "half of a port is dark",
      "The port is reached through two PCIe functions, each of which carries its share."},
     mn_whole_half_dark},
    {{"switch-between", MN_SEVERITY_WARNING, "a switch or bridge in between",
      "More than two ports hear each other, or somebody else is there: no link is made of it. "
      "Cable the nodes to each other, or give the network a subnet of its own and use NCCL alone."},
     mn_whole_shared},
    {{"network-beside", MN_SEVERITY_NOTE, "a network beside the cables",
      "More than two ports hear each other there, so no link is made of it."},
     mn_whole_beside},
    {{"enslaved", MN_SEVERITY_WARNING, "an end of a cable is in a bridge or bond",
      "The bridge or bond owns the address; a mesh wants every cable by itself."},
     mn_whole_enslaved},
    {{"speed-unlike", MN_SEVERITY_WARNING, "one end is slower than the other",
      "The slower end sets the speed of the link."},
     mn_whole_speed},
    {{"lanes-unlike", MN_SEVERITY_WARNING, "one end has less PCIe than the other",
      "The link is as fast as the slower slot: another slot, a reseated card, the firmware's "
      "settings or an update of it may give the lanes back."},
     mn_whole_lanes},
    {{"mtu-unlike", MN_SEVERITY_WARNING, "MTU unlike at both ends",
      "Packets that one end sends are too large for the other. Make it permanent where the address "
      "is."},
     mn_whole_mtu_unlike},
    {{"rdma-one-end", MN_SEVERITY_WARNING, "RDMA at one end only",
      "The link carries TCP. A driver or package is missing, or the NIC has no RDMA."},
     mn_whole_rdma},
    {{"no-subnet", MN_SEVERITY_WARNING, "addresses of both ends in different subnets",
      "No link is made of the cable."},
     mn_whole_no_subnet},
    {{"nobody", MN_SEVERITY_WARNING, "a carrier, but nobody was heard",
      "Whatever is at the other end was not asked, is switched off above the cable, or is no "
      "node."},
     mn_whole_nobody},
    {{"foreign", MN_SEVERITY_WARNING, "a cable leads to somebody else",
      "What answers there is none of the nodes that were asked."},
     mn_whole_foreign},
    {{"file-node-new", MN_SEVERITY_NOTE, "a node that is not in the mesh file yet",
      "Its cables are heard; they carry nothing before a mesh file has them, with addresses, on "
      "all "
      "nodes."},
     mn_whole_file_new},
    {{"file-cable-extra", MN_SEVERITY_NOTE, "a cable that is not in the mesh file",
      "It is not used. A new file of the cables as they are has it."},
     mn_whole_file_extra},
    {{"cable-open", MN_SEVERITY_NOTE, "a line that one cable would close",
      "A ring has two ways to every node. Nothing is wrong with a line that is meant to be one."},
     mn_whole_open},
};
const size_t mn_whole_rule_count = sizeof mn_whole_rules / sizeof *mn_whole_rules;

/* --- what the rules share -------------------------------------------------------------------- */

const struct mn_survey_nic *mn_port_nic(const struct mn_whole *w, int port, int i)
{
    const struct mn_port *p = &w->cabling.ports[port];

    return &w->survey->nodes[p->node].nics[p->nics[i]];
}

int mn_port_carrier(const struct mn_whole *w, int port)
{
    int carrier = 0;

    for (int i = 0; i < w->cabling.ports[port].n_nics; i++)
        carrier |= mn_port_nic(w, port, i)->carrier;
    return carrier;
}

/* As fast as cables are here, and served by the same driver: not the office's. */
static int is_like_cables(const struct mn_whole *w, const struct mn_survey_nic *nic)
{
    int same = !w->cabling.n_cables;

    for (size_t i = 0; i < w->cabling.n_cables && !same; i++)
        for (int side = 0; side < 2; side++)
            same |=
                !strcmp(mn_port_nic(w, w->cabling.cables[i].ports[side], 0)->driver, nic->driver);
    return same;
}

int mn_port_is_free(const struct mn_whole *w, int port)
{
    const struct mn_port *p = &w->cabling.ports[port];
    const struct mn_survey_nic *nic = mn_port_nic(w, port, 0);

    return p->cable < 0 && p->knot < 0 && nic->role != MN_ROLE_MANAGEMENT && !nic->master[0] &&
           (nic->kind == MN_NIC_ETHERNET || nic->kind == MN_NIC_THUNDERBOLT ||
            nic->kind == MN_NIC_INFINIBAND || nic->kind == MN_NIC_VETH) &&
           is_like_cables(w, nic);
}

int mn_wish_has(const struct mn_wish *wish, int port)
{
    switch (wish->kind) {
    case MN_WISH_ADD:
        return port == wish->add[0] || port == wish->add[1];
    case MN_WISH_MOVE_ADD:
        return port == wish->add[0] || port == wish->add[1] || port == wish->from ||
               port == wish->to;
    case MN_WISH_MOVE:
    case MN_WISH_SWAP:
        return port == wish->from || port == wish->to;
    default:
        return 0;
    }
}

const char *mn_whole_node(const struct mn_whole *w, int node)
{
    return w->made && (size_t)node < w->made->n_nodes ? w->made->nodes[node].name
                                                      : w->survey->nodes[node].name;
}

/* --- words ------------------------------------------------------------------------------------ */

char *mn_where_nic(const struct mn_whole *w, const struct mn_mesh_end *end, char *text)
{
    const struct mn_survey_nic *nic = mn_survey_end_nic(w->survey, end);
    char label[32];

    mn_case_label(w->survey->nodes[end->node].model, nic->netdev, nic->pci.address, nic->phys_port,
                  label, sizeof label);
    if (label[0])
        snprintf(text, MN_WHERE_SIZE, "%s %s (%s)", mn_whole_node(w, end->node), label,
                 nic->netdev);
    else
        snprintf(text, MN_WHERE_SIZE, "%s %s", mn_whole_node(w, end->node), nic->netdev);
    return text;
}

char *mn_where_port(const struct mn_whole *w, int port, char *text)
{
    const struct mn_port *p = &w->cabling.ports[port];
    struct mn_mesh_end end = {p->node, p->nics[0]};

    return mn_where_nic(w, &end, text);
}

static char *both(const char *one, const char *two, char *text)
{
    int half = (int)(MN_WHERE_SIZE - 4) / 2;

    snprintf(text, MN_WHERE_SIZE, "%.*s - %.*s", half, one, half, two);
    return text;
}

char *mn_where_ports(const struct mn_whole *w, int a, int b, char *text)
{
    char one[MN_WHERE_SIZE], two[MN_WHERE_SIZE];

    return both(mn_where_port(w, a, one), mn_where_port(w, b, two), text);
}

char *mn_where_half(const struct mn_whole *w, const struct mn_cable *cable,
                    const struct mn_cable_half *half, char *text)
{
    struct mn_mesh_end ends[2];
    char one[MN_WHERE_SIZE], two[MN_WHERE_SIZE];

    for (int side = 0; side < 2; side++)
        ends[side] = mn_cable_end(&w->cabling, cable, half, side);
    return both(mn_where_nic(w, &ends[0], one), mn_where_nic(w, &ends[1], two), text);
}

void mn_half_nics(const struct mn_whole *w, const struct mn_cable *cable,
                  const struct mn_cable_half *half, const struct mn_survey_nic *nics[2])
{
    for (int side = 0; side < 2; side++) {
        struct mn_mesh_end end = mn_cable_end(&w->cabling, cable, half, side);

        nics[side] = mn_survey_end_nic(w->survey, &end);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

void mn_whole_check(const struct mn_survey *survey, const struct mn_mesh *made,
                    const struct mn_mesh *file, struct mn_troubles *found)
{
    struct mn_whole w = {.survey = survey, .made = made, .file = file, .found = found};

    mn_cabling_read(survey, &w.cabling);
    mn_cabling_graph(&w.cabling, 0, &w.cables);
    mn_cabling_graph(&w.cabling, 1, &w.all);
    mn_whole_wants(&w);
    mn_whole_wish(&w);
    for (size_t i = 0; i < mn_whole_rule_count; i++)
        mn_whole_rules[i].check(&mn_whole_rules[i].rule, &w);
    mn_troubles_sort(found);
    free(w.wants);
    mn_graph_free(&w.cables);
    mn_graph_free(&w.all);
    mn_cabling_free(&w.cabling);
}
