/* What is wrong with a host, in words: one rule a row, each a pure function over struct mn_host. */
#ifndef MN_FINDING_H
#define MN_FINDING_H

#include "topo/mesh.h"

enum mn_severity { MN_SEVERITY_NOTE, MN_SEVERITY_WARNING, MN_SEVERITY_ERROR };
const char *mn_severity_name(enum mn_severity severity); /* "note", "warning", "error" */

struct mn_finding_rule;

/* The mesh file in force here, which says what the host should be like. */
struct mn_in_force {
    const struct mn_mesh *mesh;
    int node; /* this host's */
    const char *file;
};

struct mn_finding {
    const struct mn_finding_rule *rule;
    char nic[80];       /* netdev, "device/port" without one, or "host" */
    char seen[256];     /* the value found */
    char expected[192]; /* what it should be */
    char fix[384];      /* a command to paste; what follows "#" is for the other end */
    int line;           /* of the mesh file, which wants it so; 0 = none does */
};

struct mn_findings {
    struct mn_finding *items; /* worst first, then in the order of the rules and NICs */
    size_t count;
    const struct mn_in_force *force; /* NULL = no file */
};

struct mn_finding_rule {
    const char *id; /* stable name for scripts */
    enum mn_severity severity;
    const char *title;
    const char *advice; /* why it matters and how to mend it for good */
    /* Appends with mn_finding_add(); must not look at other rules' findings. */
    void (*check)(const struct mn_finding_rule *rule, const struct mn_host *host,
                  struct mn_findings *found);
};

extern const struct mn_finding_rule mn_finding_rules[];
extern const size_t mn_finding_rule_count;

/* Runs every rule; force is NULL, or lives as long as *found. Free with mn_findings_free. */
void mn_findings_check(const struct mn_host *host, const struct mn_in_force *force,
                       struct mn_findings *found);
void mn_findings_free(struct mn_findings *found);
size_t mn_findings_count(const struct mn_findings *found, enum mn_severity severity);

/* 1 for a NIC that is a cable's end or stands for one: not loopback, not a container's or a virtual
 * machine's plumbing. */
int mn_nic_is_relevant(const struct mn_host *host, const struct mn_nic *nic);
/* The first address a mesh can use (neither loopback nor IPv6 link-local), or NULL. */
const struct mn_addr *mn_nic_main_addr(const struct mn_nic *nic);
/* Another PCIe function of the same physical port, or NULL. */
const struct mn_nic *mn_nic_twin(const struct mn_host *host, const struct mn_nic *nic);
/* Usable Gbit/s of a PCIe link after line coding; 0 when width or speed is unknown. */
double mn_pci_gbps(double gts, int lanes);
/* "5.0 x4" (generation and lanes), "" when unknown. */
char *mn_pci_format(double gts, int lanes, char *buf, size_t size);

#endif
