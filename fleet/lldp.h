/* LLDP (IEEE 802.1AB): what switches and hosts say of themselves to the other end of a cable. */
#ifndef MN_LLDP_H
#define MN_LLDP_H

#include <stddef.h>
#include <stdint.h>

#include "topo/base/err.h"
#include "topo/survey.h"

#define MN_LLDP_MAX 512 /* of what mn_lldp_write writes */

/* Texts fit to be shown; "" = not said. */
struct mn_lldp {
    char chassis[64], port[64];     /* as the identifiers' kinds have them: MAC, address, name */
    char system[64], described[64]; /* the system's name, the port's description */
    int ttl;                        /* seconds; 0: the sender takes back what it said */
    enum mn_survey_bridges bridges;
};

/* A stranger's bytes, from behind the Ethernet header on. MN_ERR_PROTO says what is wrong. */
enum mn_err mn_lldp_parse(const uint8_t *data, size_t len, struct mn_lldp *lldp,
                          struct mn_diag *diag);
/* The message of a NIC: its MAC as chassis, its name as port. buf has MN_LLDP_MAX bytes. */
size_t mn_lldp_write(const uint8_t mac[6], const char *netdev, const char *system, int ttl,
                     uint8_t *buf);

#endif
