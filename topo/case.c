#include "topo/case.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

struct row {
    const char *model; /* pattern as of the shell, letters of either case */
    int port;
    const char *label; /* seen from behind, where the ports are */
};

/* DGX Spark: with a cable in "the second port (the one further from the ethernet port)" the
 * netdevs of function 1 are up (NVIDIA, dgx-spark-playbooks, multi-sparks-through-switch), which is
 * the "outermost QSFP port (the right one if looking from the back)" (eugr/spark-vllm-docker,
 * docs/NETWORKING.md). What other GB10 machines have behind is not told anywhere as clearly. */
static const struct row rows[] = {
    {"*DGX[ _-]Spark*", 0, "left"},
    {"*DGX[ _-]Spark*", 1, "right"},
};

/* The number behind the last c in text, which ends there. */
static int number_behind(const char *text, char c)
{
    const char *last = strrchr(text, c);
    size_t digits = last ? strspn(last + 1, "0123456789") : 0;

    return digits > 0 && digits < 4 && !last[1 + digits] ? atoi(last + 1) : -1;
}

int mn_case_port(const char *netdev, const char *pci, const char *phys_port)
{
    const char *name = strrchr(phys_port, '/');
    int port = name && name[1] == 'p' ? number_behind(name, 'p') : -1;

    /* "enp1s0f1np1", "enp65s0f1", not "eth0f0", "wlp1s0". */
    if (port < 0 && !strncmp(netdev, "en", 2)) {
        const char *np = strstr(netdev, "np");

        while (np && np[2] && strstr(np + 2, "np"))
            np = strstr(np + 2, "np");
        port = np && np > netdev + 1 && isdigit((unsigned char)np[-1]) ? number_behind(netdev, 'p')
                                                                       : number_behind(netdev, 'f');
    }
    if (port < 0 && number_behind(pci, '.') > 0)
        port = number_behind(pci, '.');
    return port;
}

char *mn_case_label(const char *model, const char *netdev, const char *pci, const char *phys_port,
                    char *label, size_t size)
{
    int port = mn_case_port(netdev, pci, phys_port);

    label[0] = '\0';
    if (port < 0)
        return label;
    snprintf(label, size, "port %d", port);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].port == port && !fnmatch(rows[i].model, model, FNM_CASEFOLD))
            mn_strlcpy(label, rows[i].label, size);
    return label;
}
