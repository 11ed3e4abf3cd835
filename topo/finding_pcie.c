/* Rules that set PCIe links against the ports behind them.
 *
 * A slot (domain:bus:device) may serve several ports, and a port may be served by several slots: a
 * ConnectX-7 in a DGX Spark has two 200G ports, each reached through one function of each of two
 * Gen5 x4 slots (126 Gbit/s a slot), and every function reports the whole 200G. So lanes and ports
 * are summed over what hangs together before anything is called slow. */
#include "topo/finding_rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

double mn_pci_gbps(double gts, int lanes)
{
    if (gts <= 0 || lanes <= 0)
        return 0;
    if (gts < 7)
        return gts * lanes * 8 / 10; /* generations 1 and 2: 8b/10b */
    if (gts < 60)
        return gts * lanes * 128 / 130; /* 3 to 5 */
    return gts * lanes * 242 / 256;     /* 6 on: flits */
}

char *mn_pci_format(double gts, int lanes, char *buf, size_t size)
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64, 128};
    int generation = 0;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (gts > speeds[i] * 0.99)
            generation = (int)i + 1;
    buf[0] = '\0';
    if (generation && lanes > 0)
        snprintf(buf, size, "%d.0 x%d", generation, lanes);
    return buf;
}

static int is_judged(const struct mn_nic *nic)
{
    return nic->pci.address[0] && !nic->is_vf && nic->admin_up && nic->carrier &&
           nic->speed_mbps > 0 && mn_pci_gbps(nic->pci.speed, nic->pci.width) > 0;
}

static int same_slot(const struct mn_nic *a, const struct mn_nic *b)
{
    size_t n = strcspn(a->pci.address, ".");
    return n == strcspn(b->pci.address, ".") && !strncmp(a->pci.address, b->pci.address, n);
}

static int same_port(const struct mn_nic *a, const struct mn_nic *b)
{
    return a == b || (a->phys_port[0] && !strcmp(a->phys_port, b->phys_port));
}

/* Sums the ports and the slots of the NICs with member set, each counted once. */
static void sum_up(const struct mn_host *host, const char *member, double *ports, double *slots,
                   int *n_ports)
{
    *ports = *slots = 0;
    *n_ports = 0;
    for (size_t i = 0; i < host->n_nics; i++) {
        int new_port = 1, new_slot = 1;
        for (size_t j = 0; member[i] && j < i; j++) {
            new_port &= !(member[j] && same_port(&host->nics[i], &host->nics[j]));
            new_slot &= !(member[j] && same_slot(&host->nics[i], &host->nics[j]));
        }
        if (!member[i])
            continue;
        *ports += new_port ? (double)host->nics[i].speed_mbps / 1000 : 0;
        *slots += new_slot ? mn_pci_gbps(host->nics[i].pci.speed, host->nics[i].pci.width) : 0;
        *n_ports += new_port;
    }
}

/* What one port needs and what its functions' slots give when no other port uses them. */
static void port_budget(const struct mn_host *host, const struct mn_nic *nic, double *need,
                        double *have, int *functions)
{
    char *member = mn_zalloc(host->n_nics);
    int n_ports;
    *functions = 0;
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *other = &host->nics[i];
        /* A twin counts though it is switched off: its lanes are there. */
        member[i] = same_port(nic, other) && !other->is_vf && other->pci.address[0];
        *functions += member[i];
    }
    sum_up(host, member, need, have, &n_ports);
    *need = (double)nic->speed_mbps / 1000;
    free(member);
}

static const struct mn_nic *first_of_port(const struct mn_host *host, const struct mn_nic *nic)
{
    for (size_t i = 0; i < host->n_nics; i++)
        if (is_judged(&host->nics[i]) && same_port(nic, &host->nics[i]))
            return &host->nics[i];
    return nic;
}

static int is_degraded(const struct mn_pci *pci)
{
    return mn_pci_gbps(pci->max_speed, pci->max_width) > mn_pci_gbps(pci->speed, pci->width) * 1.01;
}

/* The function to name for a slow port: the one that runs below its own ability. */
static const struct mn_nic *culprit(const struct mn_host *host, const struct mn_nic *nic)
{
    for (size_t i = 0; i < host->n_nics; i++)
        if (same_port(nic, &host->nics[i]) && is_judged(&host->nics[i]) &&
            is_degraded(&host->nics[i].pci))
            return &host->nics[i];
    return nic;
}

void mn_check_pcie_slow(const struct mn_finding_rule *rule, const struct mn_host *host,
                        struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        double need, have;
        int functions;
        char link[32], able[32];
        if (!is_judged(nic) || first_of_port(host, nic) != nic)
            continue;
        port_budget(host, nic, &need, &have, &functions);
        if (have >= need)
            continue;
        const struct mn_nic *slow = culprit(host, nic);
        struct mn_finding *f = mn_finding_add(found, rule, slow->netdev);
        mn_pci_format(slow->pci.speed, slow->pci.width, link, sizeof link);
        mn_pci_format(slow->pci.max_speed, slow->pci.max_width, able, sizeof able);
        snprintf(f->seen, sizeof f->seen,
                 "PCIe %s%s carries %.0f Gb/s of the port's %.0f: %.0f %% lost", link,
                 functions > 1 ? " with its twin" : "", have, need, 100 * (1 - have / need));
        if (is_degraded(&slow->pci))
            snprintf(f->expected, sizeof f->expected, "PCIe %s, which the card is able to do",
                     able);
        else
            snprintf(f->expected, sizeof f->expected, "%.0f Gb/s; the card itself does no more",
                     need);
        snprintf(f->fix, sizeof f->fix, "lspci -vv -s %s | grep -E 'LnkCap|LnkSta'",
                 slow->pci.address);
    }
}

/* Marks all judged NICs that hang together with nic through ports and slots. */
static void mark_component(const struct mn_host *host, size_t start, char *member)
{
    int grew = 1;
    member[start] = 1;
    while (grew) {
        grew = 0;
        for (size_t i = 0; i < host->n_nics; i++) {
            for (size_t j = 0; j < host->n_nics && !member[i] && is_judged(&host->nics[i]); j++) {
                member[i] = member[j] && (same_port(&host->nics[i], &host->nics[j]) ||
                                          same_slot(&host->nics[i], &host->nics[j]));
                grew |= member[i];
            }
        }
    }
}

static void list_names(const struct mn_host *host, const char *member, char *buf, size_t size)
{
    size_t len = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < host->n_nics && len < size; i++)
        if (member[i])
            len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
                                    host->nics[i].netdev);
}

void mn_check_pcie_shared(const struct mn_finding_rule *rule, const struct mn_host *host,
                          struct mn_findings *found)
{
    char *seen = mn_zalloc(host->n_nics + 1), *member = mn_zalloc(host->n_nics + 1);
    for (size_t i = 0; i < host->n_nics; i++) {
        double need, have;
        int n_ports;
        char names[160];
        if (seen[i] || !is_judged(&host->nics[i]))
            continue;
        memset(member, 0, host->n_nics);
        mark_component(host, i, member);
        for (size_t j = 0; j < host->n_nics; j++)
            seen[j] |= member[j];
        sum_up(host, member, &need, &have, &n_ports);
        if (n_ports < 2 || have >= need)
            continue;
        struct mn_finding *f = mn_finding_add(found, rule, host->nics[i].netdev);
        list_names(host, member, names, sizeof names);
        snprintf(f->seen, sizeof f->seen, "%s share %.0f Gb/s of PCIe", names, have);
        snprintf(f->expected, sizeof f->expected, "about %.0f Gb/s a port when all %d are busy",
                 have / n_ports, n_ports);
        snprintf(f->fix, sizeof f->fix, "lspci -vv -s %s | grep -E 'LnkCap|LnkSta'",
                 host->nics[i].pci.address);
    }
    free(seen);
    free(member);
}

void mn_check_half_port(const struct mn_finding_rule *rule, const struct mn_host *host,
                        struct mn_findings *found)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        const struct mn_nic *twin = mn_nic_twin(host, nic);
        const struct mn_addr *addr = twin ? mn_nic_main_addr(twin) : NULL;
        char text[MN_ADDR_TEXT];
        if (!addr || mn_nic_main_addr(nic) || !twin->carrier || nic->master[0])
            continue;
        double alone = mn_pci_gbps(twin->pci.speed, twin->pci.width);
        double port = (double)twin->speed_mbps / 1000;
        struct mn_finding *f = mn_finding_add(found, rule, nic->netdev);
        mn_addr_format(addr, text, sizeof text);
        if (alone > 0 && alone < port)
            snprintf(f->seen, sizeof f->seen,
                     "no address; its twin %s (%s) alone carries %.0f of the port's %.0f Gb/s",
                     twin->netdev, text, alone, port);
        else
            snprintf(f->seen, sizeof f->seen, "no address; only its twin %s (%s) uses the port",
                     twin->netdev, text);
        snprintf(f->expected, sizeof f->expected,
                 "an address in another subnet, so that both halves carry traffic");
        mn_finding_suggest_address(found, host, nic, f);
    }
}
