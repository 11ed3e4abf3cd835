/* What a port is called on the case, so that whoever stands behind the machine finds it. */
#ifndef MN_CASE_H
#define MN_CASE_H

#include <stddef.h>

/* The number of the port on its card by what the kernel says of it: phys_port ("…/p1"), the end of
 * a netdev's name ("enp1s0f1np1", "enp65s0f1"), or the PCI function where it is not the first. -1:
 * it cannot be told. Both functions of one port have one number. Texts may be "". */
int mn_case_port(const char *netdev, const char *pci, const char *phys_port);
/* "left", "right" where the model is known (DMI's product name, "" = unknown), else "port 0",
 * "port 1", …; "" without a number. Returns label. */
char *mn_case_label(const char *model, const char *netdev, const char *pci, const char *phys_port,
                    char *label, size_t size);

#endif
