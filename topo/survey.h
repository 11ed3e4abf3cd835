/* What probing found: nodes with their NICs, and who was heard at which NIC. Nothing of it needs an
 * address. The mesh as it is cabled is made from it, and what is wrong with the whole.
 *
 * As JSON (of files, of tests/fixtures/survey, between nodes):
 *   {"version": 1,
 *    "nodes": [{"name", "hostname", "model", "nics": [{"netdev", "mac", "kind", "driver", "mtu",
 *      "admin_up", "carrier", "speed", "role", "role_why", "addresses": [], "device", "port",
 *      "pci", "pcie": {"width", "speed", "max_width", "max_speed"}, "phys_port", "master",
 *      "gids": ["RoCE v2", …]}],
 *      "taken": [{"net": "172.17.0.0/16", "netdev": "docker0", "route": true}]}],
 *    "seen": [{"at": "node/netdev", "from": "node/netdev", "way": "ipv6|raw", "mtu": 9000}],
 *    "strangers": [{"at": "node/netdev", "mac", "way": "lldp|ipv6|raw", "system", "port",
 *      "bridges": true}]}
 * What is not known is left out. */
#ifndef MN_SURVEY_H
#define MN_SURVEY_H

#include <cjson/cJSON.h>

#include "topo/mesh.h"

struct mn_survey_nic {
    char netdev[IF_NAMESIZE];
    uint8_t mac[6];
    int has_mac;
    enum mn_nic_kind kind;
    char driver[32];
    int mtu, admin_up, carrier;
    long speed_mbps; /* 0 = unknown */
    enum mn_nic_role role;
    char role_why[224];
    struct mn_addr *addrs;
    size_t n_addrs;
    char device[64]; /* RDMA, "" = none */
    int port;
    struct mn_pci pci;  /* path stays "" */
    char phys_port[64]; /* as in struct mn_nic: equal for the functions of one port */
    char master[IF_NAMESIZE];
    int gid_types; /* bit 1 << enum mn_gid_type for each type in its table */
};

/* A network that the node uses otherwise than for a cable, or has a route to. */
struct mn_survey_taken {
    struct mn_addr net;       /* host bits masked */
    char netdev[IF_NAMESIZE]; /* "" = none, as of a blackhole */
    int route;                /* 0: an address of the NIC lies in it */
};

struct mn_survey_node {
    char name[MN_NAME_MAX], hostname[65];
    char model[64]; /* DMI's product name: "NVIDIA DGX Spark"; "" = unknown */
    struct mn_survey_nic *nics;
    size_t n_nics;
    struct mn_survey_taken *taken; /* of all its NICs, those of cables too */
    size_t n_taken;
};

enum mn_survey_way { MN_SURVEY_IPV6, MN_SURVEY_RAW, MN_SURVEY_LLDP };

/* A NIC of this run was heard at another. One direction; the other has a sighting of its own. */
struct mn_sighting {
    struct mn_mesh_end at, from; /* indices into the survey's nodes and their NICs */
    enum mn_survey_way way;
    int mtu; /* of the largest probe that came through, as the NIC's MTU counts; 0 = not measured */
};

/* Whether somebody passes on what he hears, by the capabilities that his LLDP says are in use. */
enum mn_survey_bridges { MN_BRIDGES_UNKNOWN, MN_BRIDGES_NO, MN_BRIDGES_YES };

/* Somebody who is not of this run was heard: a switch by LLDP, say. */
struct mn_survey_stranger {
    struct mn_mesh_end at;
    uint8_t mac[6];
    enum mn_survey_way way;
    char system[64], port[64]; /* as it calls itself, fit to be shown; "" = unknown */
    enum mn_survey_bridges bridges;
};

struct mn_survey {
    struct mn_survey_node *nodes;
    size_t n_nodes;
    struct mn_sighting *seen;
    size_t n_seen;
    struct mn_survey_stranger *strangers;
    size_t n_strangers;
};

/* What a survey that is read may hold. */
#define MN_SURVEY_ADDRS_MAX     32  /* of one NIC */
#define MN_SURVEY_TAKEN_MAX     512 /* of one node; the widest are kept */
#define MN_SURVEY_SEEN_MAX      16384
#define MN_SURVEY_STRANGERS_MAX 4096

void mn_survey_free(struct mn_survey *survey); /* zeroed afterwards */
/* A new node at the end, with the NICs that can be a cable's end or lead to management (roles by
 * mn_mesh_roles): every Ethernet, Thunderbolt and InfiniBand port, with and without address. */
struct mn_survey_node *mn_survey_add_host(struct mn_survey *survey, const struct mn_host *host,
                                          const char *name, const char *model);
/* Adds what this host's NICs and routes take; host is this one. */
enum mn_err mn_survey_add_taken(struct mn_survey_node *node, const struct mn_host *host,
                                struct mn_diag *diag);
/* The caller's to cJSON_Delete. */
cJSON *mn_survey_json(const struct mn_survey *survey);
/* A stranger's text: every length and index checked, MN_ERR_CONFIG says where. *survey is zeroed
 * first and after an error. */
enum mn_err mn_survey_parse(const cJSON *json, struct mn_survey *survey, struct mn_diag *diag);
/* The same of a file. */
enum mn_err mn_survey_read(const char *path, struct mn_survey *survey, struct mn_diag *diag);
/* Takes the nodes of other that are new (by name) and all that was seen. */
enum mn_err mn_survey_merge(struct mn_survey *survey, const struct mn_survey *other,
                            struct mn_diag *diag);

/* Adds a sighting, or what it tells beyond one that is there. */
void mn_survey_saw(struct mn_survey *survey, const struct mn_sighting *seen);
/* The same of a stranger; what was last heard of one holds. */
void mn_survey_met(struct mn_survey *survey, const struct mn_survey_stranger *stranger);
int mn_survey_node_index(const struct mn_survey *survey, const char *name);     /* or -1 */
int mn_survey_nic_index(const struct mn_survey_node *node, const char *netdev); /* or -1 */
/* The NIC, an index of the node's, has this MAC, and no NIC of another node: a MAC that machines
 * have in common, as those that were cloned, tells nothing. */
int mn_survey_mac_is(const struct mn_survey *survey, const struct mn_survey_node *node, size_t nic,
                     const uint8_t mac[6]);
const struct mn_survey_nic *mn_survey_end_nic(const struct mn_survey *survey,
                                              const struct mn_mesh_end *end);

/* The mesh as it is cabled: a node a node, a NIC for each cable's end and for management, a link
 * for each cable, bare where there are no addresses that fit; both halves of a port are links of
 * their own in one capacity group. old: a mesh whose names, settings and addresses are kept for
 * nodes and NICs that are still there (NULL: none). What is no cable (a switch or bridge in
 * between, doubled sightings) makes none, see topo/whole.h. */
enum mn_err mn_survey_mesh(const struct mn_survey *survey, const struct mn_mesh *old,
                           struct mn_mesh *mesh, struct mn_diag *diag);
/* As mn_mesh_shape() of that mesh; "switch" when it takes one, or a bridge, to join all nodes. */
const char *mn_survey_shape(const struct mn_survey *survey);

#endif
