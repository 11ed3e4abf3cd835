/* Between the files of doctor's rules: each is a row in the table of fleet/doctor_judge.c. */
#ifndef MN_DOCTOR_JUDGE_H
#define MN_DOCTOR_JUDGE_H

#include "fleet/doctor.h"

struct mn_doctor_verdict {
    const struct mn_doctor_case *what;
    struct mn_troubles *troubles;
    char *blamed; /* by link: why it cannot carry anything has been said */
};

/* Adds what it finds. */
typedef void mn_doctor_check(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule);

/* doctor_judge_clock.c */
mn_doctor_check mn_doctor_clock;
/* doctor_judge_nodes.c */
mn_doctor_check mn_doctor_unreachable, mn_doctor_wrong_node, mn_doctor_no_mesh_file,
    mn_doctor_mesh_broken, mn_doctor_mesh_file, mn_doctor_names, mn_doctor_names_differ,
    mn_doctor_forwarding, mn_doctor_forward_drop, mn_doctor_forward_may, mn_doctor_rp_filter,
    mn_doctor_firewall, mn_doctor_firewall_may, mn_doctor_memlock_files, mn_doctor_apply;
/* doctor_judge_software.c */
mn_doctor_check mn_doctor_version, mn_doctor_plugin_missing, mn_doctor_plugin, mn_doctor_two_nccl,
    mn_doctor_nccl_version, mn_doctor_driver, mn_doctor_settings, mn_doctor_settings_differ,
    mn_doctor_kernel;
/* doctor_judge_counters.c */
mn_doctor_check mn_doctor_cable_errors, mn_doctor_cable_drops, mn_doctor_cable_pause;
/* doctor_judge_relay.c */
mn_doctor_check mn_doctor_relay_down, mn_doctor_relay_mesh, mn_doctor_relay_version,
    mn_doctor_relay_key, mn_doctor_relay_stuck, mn_doctor_relay_memlock;
/* doctor_judge_cables.c */
mn_doctor_check mn_doctor_cable_down, mn_doctor_cable_mtu, mn_doctor_cable_gid,
    mn_doctor_cable_rdma, mn_doctor_cable_speed, mn_doctor_cable_pcie, mn_doctor_firmware,
    mn_doctor_cable_silent, mn_doctor_cable_large, mn_doctor_write_failed, mn_doctor_write_wrong,
    mn_doctor_write_unmeasured;

/* A cable with what both ends say. */
struct mn_doctor_cable_ends {
    const struct mn_mesh_link *link;
    const char *node[2], *netdev[2];
    const cJSON *end[2]; /* NULL = nothing */
    char where[192];
};

/* The i-th link that carries anything, i counted on over those that do not; 0 after the last. */
int mn_doctor_cable_next(const struct mn_doctor_verdict *v, size_t *i,
                         struct mn_doctor_cable_ends *c);
/* A trouble of that cable, which an error explains. */
struct mn_trouble *mn_doctor_cable_add(struct mn_doctor_verdict *v,
                                       const struct mn_trouble_rule *rule,
                                       const struct mn_doctor_cable_ends *c);

/* --- reading what strangers said: never NULL, never out of bounds ------------------------------
 */

const cJSON *mn_fact(const cJSON *object, const char *key);
const char *mn_fact_text(const cJSON *object, const char *key); /* "" when there is none */
double mn_fact_number(const cJSON *object, const char *key, double otherwise);
int mn_fact_true(const cJSON *object, const char *key, int otherwise);

/* The node's answer, NULL: none, or another node's. */
const cJSON *mn_doctor_facts(const struct mn_doctor_case *what, size_t node);
/* "left (enp1s0f1np1)", or the one name where both are the same; returns buf. */
char *mn_doctor_nic_name(const struct mn_mesh_nic *nic, char *buf, size_t size);
/* The trouble's fix: %s is text as it is, %q one word for a shell, of NULL nothing. Nothing at all
 * where it does not fit, or a word would be taken for an option: no part of a command is one. */
void mn_doctor_fix(struct mn_trouble *t, const char *format, ...);
/* For "%s%q" in it: " --mesh FILE", or nothing where the file is found by itself. */
#define MN_DOCTOR_MESH(v)                                                                          \
    (v)->what->file_given ? " --mesh " : "", (v)->what->file_given ? (v)->what->file : NULL
/* No cable of the node is to be blamed for what is silent. */
void mn_doctor_blame_node(struct mn_doctor_verdict *v, size_t node);

/* Nodes whose value is not what most have, or the first where none leads; "" = the node has none
 * and is left out. title of the value goes before it: "meshnet 0.1.0". */
void mn_doctor_unlike(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                      const char *(*value)(const cJSON *facts), const char *title, const char *fix);

#endif
