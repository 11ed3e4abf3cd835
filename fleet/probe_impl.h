/* The parts of mn_probe_run. For fleet/probe*.c only. */
#ifndef MN_PROBE_IMPL_H
#define MN_PROBE_IMPL_H

#include "fleet/lldp.h"
#include "fleet/probe.h"
#include "fleet/probe_frame.h"

#define MN_PROBE_WAYS        3 /* MN_SURVEY_IPV6, MN_SURVEY_RAW, MN_SURVEY_LLDP */
#define MN_PROBE_PORTS_MAX   64
#define MN_PROBE_PEERS_MAX   1024
#define MN_PROBE_STRANGE_MAX 16 /* of one port */
#define MN_PROBE_SIZES_MAX   8

struct mn_probe_port {
    struct mn_probe_nic *nic; /* of the result */
    char netdev[IF_NAMESIZE];
    int ifindex, mtu;
    long speed_mbps;
    uint8_t mac[6];
    enum mn_nic_kind kind;
    int fds[MN_PROBE_WAYS]; /* -1 = none */
    int opened, carrier;
    int brought_up;
    int refused; /* errno of the last probe over IPv6 that could not be sent */
    size_t n_strangers;
};

struct mn_probe_peer {
    size_t port;
    struct mn_probe_frame last;
    uint32_t sequence[2]; /* of the last of each way */
    int mtu[2], back_mtu;
};

struct mn_probe_state {
    const struct mn_probe_plan *plan;
    struct mn_probe_result *result;
    uint8_t key[MN_KEY_SIZE];
    uint64_t session, begun, content;
    uint32_t sequence;
    struct mn_probe_port *ports;
    size_t n_ports;
    struct mn_probe_peer *peers;
    size_t n_peers;
    struct mn_survey_stranger *strangers; /* at.nic is the port */
    size_t n_strangers;
    uint8_t *buffer; /* of MN_PROBE_FRAME_MAX */
};

/* A question of the verb, and this node's name; the texts of its lists stay the question's. */
enum mn_err mn_probe_ask_parse(const cJSON *ask, struct mn_probe_plan *plan, struct mn_diag *diag);

/* Chooses the ports, in result->nics and state->ports; brings up what is to be brought up. */
enum mn_err mn_probe_choose(struct mn_probe_state *state, struct mn_diag *diag);
/* Looks which ports have a carrier now. */
enum mn_err mn_probe_look(struct mn_probe_state *state, struct mn_diag *diag);
/* Switches off what was brought up. */
void mn_probe_put_back(struct mn_probe_state *state);
/* Reads this host again into result->survey, with the strangers. */
enum mn_err mn_probe_survey(struct mn_probe_state *state, struct mn_diag *diag);
/* What the firmware calls this host, "" = unknown. */
void mn_probe_model(char *model, size_t size);

/* The bit of a node of the run, those of all; 0 for what has none. */
uint64_t mn_probe_bit(int index);
uint64_t mn_probe_all(const struct mn_probe_plan *plan);
/* Sends to every port that has a carrier, which is opened if need be. */
void mn_probe_round(struct mn_probe_state *state, int round);
void mn_probe_send_lldp(struct mn_probe_state *state, struct mn_probe_port *port, int ttl);
/* Takes what came to a socket of a port. */
void mn_probe_hear(struct mn_probe_state *state, size_t port, enum mn_survey_way way);
/* A stranger at a port; lldp: what it said, or NULL. */
void mn_probe_met(struct mn_probe_state *state, size_t port, enum mn_survey_way way,
                  const uint8_t mac[6], const struct mn_lldp *lldp);

/* Sockets of a port that has a carrier; nic->why says which there cannot be. */
void mn_probe_open(struct mn_probe_port *port);
void mn_probe_close(struct mn_probe_port *port);
/* One probe, or an LLDP message; 1 when it went out. */
int mn_probe_send(struct mn_probe_port *port, enum mn_survey_way way, const uint8_t *data,
                  size_t len);
/* What came; 0: nothing more. *mtu is its size as the NIC's MTU counts, mac its sender's where it
 * is known, else zero. Own frames and those that came through a router are passed over. */
size_t mn_probe_receive(struct mn_probe_port *port, enum mn_survey_way way, uint8_t *buf, int *mtu,
                        uint8_t mac[6]);

#endif
