/* Which CPUs this process measures on, by hwloc. Nothing the plugin needs refers to it. */
#ifndef MN_CPU_H
#define MN_CPU_H

#include <hwloc.h>

#include "topo/base/err.h"

#define MN_CPU_TEXT 256

/* Whether the text is "auto", "none" or a list such as "0,2,4-7": else MN_ERR_USAGE, quoting it;
 * and whether this process may use what the list names: else MN_ERR_CONFIG. */
enum mn_err mn_cpu_check(const char *pin, struct mn_diag *diag);

/* Binds this process, with every thread it has, and so the memory it touches first from now on.
 * auto: to the CPUs near the PCI device whose sysfs path is given (NULL or unknown: to all), unless
 * it was bound when it started. A list: to those. none, or NULL: as it is. With parts above 1, that
 * many processes share the CPUs out, in whole cores where there are enough, and this one is number
 * part, from 0 on; with fewer cores than processes auto leaves all of them to all. MN_ERR_CONFIG
 * for CPUs that this process may not use. */
enum mn_err mn_cpu_pin(const char *pin, const char *pci_path, int part, int parts,
                       struct mn_diag *diag);
/* The CPUs this process is bound to, "" = all that are online. */
void mn_cpu_pinned(char text[MN_CPU_TEXT]);

/* What part of parts gets of within; 0 when it has too few cores: then all of within. */
int mn_cpu_share(hwloc_topology_t topology, hwloc_const_cpuset_t within, int part, int parts,
                 hwloc_cpuset_t share);
/* What of the host is near the PCI device; all when that is not known. */
void mn_cpu_near(hwloc_topology_t topology, const char *pci_path, hwloc_cpuset_t near);

/* This host with its PCI devices; to be destroyed by hwloc_topology_destroy. */
enum mn_err mn_hwloc_load(hwloc_topology_t *topology, struct mn_diag *diag);
hwloc_obj_t mn_hwloc_pci(hwloc_topology_t topology, const char *address); /* "0000:01:00.0" */

#endif
