/* Between the files of the findings about the whole: what the rules look at and share. */
#ifndef MN_WHOLE_RULE_H
#define MN_WHOLE_RULE_H

#include "topo/cabling.h"
#include "topo/whole.h"

#define MN_WHERE_SIZE sizeof((struct mn_trouble *)0)->where

/* The least that would make a shape of what is nearly one. */
enum mn_wish_kind { MN_WISH_NONE, MN_WISH_ADD, MN_WISH_MOVE, MN_WISH_SWAP, MN_WISH_MOVE_ADD };

struct mn_wish {
    enum mn_wish_kind kind;
    enum mn_shape shape, now; /* that it would be, and is */
    int sizes[3];
    int add[2];   /* free ports to join */
    int from, to; /* the plug to move, or the two to exchange: ports */
    int far[2];   /* the ports at the other ends of the cables of from and, exchanging, of to */
    int doubled;  /* the cable of from joins two nodes that another joins too */
};

struct mn_whole {
    const struct mn_survey *survey;
    const struct mn_mesh *made, *file; /* may be NULL */
    struct mn_cabling cabling;
    struct mn_graph cables, all; /* all: with what is no cable */
    struct mn_wish wish;
    int *wants; /* of each port: where its cable should lead, -1 = nobody says */
    int misled; /* a cable leads elsewhere than it should */
    struct mn_troubles *found;
};

typedef void mn_whole_rule_check(const struct mn_trouble_rule *rule, const struct mn_whole *w);

/* whole_shape.c */
mn_whole_rule_check mn_whole_crossed, mn_whole_misplaced, mn_whole_doubled, mn_whole_missing,
    mn_whole_open, mn_whole_apart, mn_whole_alone;
/* whole_wants.c */
mn_whole_rule_check mn_whole_file_cable, mn_whole_file_missing, mn_whole_file_node,
    mn_whole_file_bare, mn_whole_file_new, mn_whole_file_extra, mn_whole_neighbour;
/* whole_cable.c */
mn_whole_rule_check mn_whole_loop, mn_whole_shared, mn_whole_beside, mn_whole_foreign,
    mn_whole_enslaved, mn_whole_one_way, mn_whole_half_dark, mn_whole_carrier, mn_whole_nobody;
/* whole_match.c */
mn_whole_rule_check mn_whole_speed, mn_whole_lanes, mn_whole_mtu_passes, mn_whole_mtu_directions,
    mn_whole_mtu_unlike, mn_whole_gid, mn_whole_rdma;
/* whole_addr.c */
mn_whole_rule_check mn_whole_address_twice, mn_whole_one_subnet, mn_whole_no_subnet;

/* whole_wants.c: fills w->wants and w->misled. */
void mn_whole_wants(struct mn_whole *w);
/* There is a mesh file and this node of the survey is not in it. */
int mn_whole_is_new(const struct mn_whole *w, int node);
/* Neither port has a cable or anything else. */
int mn_whole_lacks(const struct mn_whole *w, int a, int b);
/* whole_addr.c: the addresses by which two NICs are in one subnet, into *one and *two, which may be
 * NULL; 0: there are none. */
int mn_nics_share(const struct mn_survey_nic *a, const struct mn_survey_nic *b,
                  const struct mn_addr **one, const struct mn_addr **two);

/* whole_wish.c: fills w->wish. */
void mn_whole_wish(struct mn_whole *w);

/* 1 for a port that is neither taken nor of another kind than those with cables. */
int mn_port_is_free(const struct mn_whole *w, int port);
const struct mn_survey_nic *mn_port_nic(const struct mn_whole *w, int port, int i);
/* One of the port's NICs has a carrier. */
int mn_port_carrier(const struct mn_whole *w, int port);
/* How many free ports of the node have a carrier. */
int mn_node_lit(const struct mn_whole *w, int node);
/* Its free ports and their state. */
void mn_node_ports_text(const struct mn_whole *w, int node, char *text, size_t size);
/* The wish is about this port. */
int mn_wish_has(const struct mn_wish *wish, int port);
const char *mn_whole_node(const struct mn_whole *w, int node);

/* Into text of MN_WHERE_SIZE, and returned: "spark-a left (enp1s0f0np0)", and with " - " between
 * two such. */
char *mn_where_nic(const struct mn_whole *w, const struct mn_mesh_end *end, char *text);
char *mn_where_port(const struct mn_whole *w, int port, char *text);
char *mn_where_ports(const struct mn_whole *w, int a, int b, char *text);
char *mn_where_half(const struct mn_whole *w, const struct mn_cable *cable,
                    const struct mn_cable_half *half, char *text);
/* The NICs at both ends of a half. */
void mn_half_nics(const struct mn_whole *w, const struct mn_cable *cable,
                  const struct mn_cable_half *half, const struct mn_survey_nic *nics[2]);

#endif
