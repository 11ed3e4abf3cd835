/* The table of NICs and the findings under it. */
#include "cli/discover.h"

#include <stdio.h>
#include <string.h>

/* A row: a NIC, an RDMA port, or both. */
struct row {
    const struct mn_host *host;
    const struct mn_nic *nic;
    const struct mn_rdma_port *port;
};

static void cell_text(struct mn_out *out, const char *text)
{
    mn_out_cell(out, text && text[0] ? text : NULL);
}

static void cell_known(struct mn_out *out, long value)
{
    if (value > 0)
        mn_out_cell_int(out, value);
    else
        mn_out_cell(out, NULL);
}

static void cell_device(struct mn_out *out, const struct row *row)
{
    cell_text(out, row->port ? row->port->device : NULL);
}

static void cell_port(struct mn_out *out, const struct row *row)
{
    cell_known(out, row->port ? row->port->port : 0);
}

static void cell_netdev(struct mn_out *out, const struct row *row)
{
    cell_text(out, row->nic ? row->nic->netdev : row->port->netdev);
}

static void cell_address(struct mn_out *out, const struct row *row)
{
    const struct mn_addr *addr = row->nic ? mn_nic_main_addr(row->nic) : NULL;
    char text[MN_ADDR_TEXT];
    if (!addr && row->nic && row->nic->n_addrs)
        addr = &row->nic->addrs[0];
    mn_out_cell(out, addr ? mn_addr_format(addr, text, sizeof text) : NULL);
}

void mn_discover_state(struct mn_out *out, const struct mn_host *host, const struct mn_nic *nic)
{
    const struct mn_rdma_port *port = nic && nic->rdma >= 0 ? &host->rdma[nic->rdma] : NULL;
    int up = nic && nic->admin_up && nic->carrier;
    int idle = up && port && port->state[0] && strcmp(port->state, "ACTIVE") != 0;
    mn_out_color(out, idle ? MN_YELLOW : up ? MN_GREEN : nic ? MN_DIM : MN_RED);
    if (idle)
        mn_out_cellf(out, "up, rdma %s", port->state);
    else
        mn_out_cell(out, up ? "up" : !nic ? "not here" : nic->admin_up ? "no link" : "off");
}

static void cell_state(struct mn_out *out, const struct row *row)
{
    if (!row->nic) {
        mn_out_cellf(out, "rdma %s", row->port->state[0] ? row->port->state : "unknown");
    } else if (row->nic->master[0]) {
        int up = row->nic->admin_up && row->nic->carrier;
        mn_out_color(out, up ? MN_GREEN : MN_DIM);
        mn_out_cellf(out, "%s, in %s", up ? "up" : "down", row->nic->master);
    } else {
        mn_discover_state(out, row->host, row->nic);
    }
}

static long row_speed(const struct row *row)
{
    return row->nic && row->nic->speed_mbps ? row->nic->speed_mbps
           : row->port                      ? row->port->rate_mbps
                                            : 0;
}

static void cell_speed(struct mn_out *out, const struct row *row)
{
    char text[24];
    cell_text(out, mn_speed_format(row_speed(row), text, sizeof text));
}

static void cell_mtu(struct mn_out *out, const struct row *row)
{
    cell_known(out, row->nic ? row->nic->mtu : 0);
}

static const struct mn_pci *row_pci(const struct row *row)
{
    return row->nic && row->nic->pci.address[0] ? &row->nic->pci
           : row->port                          ? &row->port->pci
                                                : &row->nic->pci;
}

static void cell_pcie(struct mn_out *out, const struct row *row)
{
    const struct mn_pci *pci = row_pci(row);
    char text[32];
    cell_text(out, mn_pci_format(pci->speed, pci->width, text, sizeof text));
}

static void cell_numa(struct mn_out *out, const struct row *row)
{
    const struct mn_pci *pci = row_pci(row);
    if (pci->address[0] && pci->numa >= 0)
        mn_out_cell_int(out, pci->numa);
    else
        mn_out_cell(out, NULL);
}

static void cell_gid(struct mn_out *out, const struct row *row)
{
    const struct mn_addr *addr = row->nic ? mn_nic_main_addr(row->nic) : NULL;
    const struct mn_gid *gid = row->port && addr ? mn_rdma_gid_for(row->port, addr) : NULL;
    if (gid)
        mn_out_cell_int(out, gid->index);
    else
        mn_out_cell(out, NULL);
}

static void cell_gpu(struct mn_out *out, const struct row *row)
{
    cell_text(out, row->nic ? row->nic->gpu : NULL);
}

static void cell_kind(struct mn_out *out, const struct row *row)
{
    mn_out_cell(out, row->nic ? mn_nic_kind_name(row->nic->kind) : NULL);
}

static void cell_driver(struct mn_out *out, const struct row *row)
{
    cell_text(out, row->nic ? row->nic->driver : NULL);
}

static void cell_mac(struct mn_out *out, const struct row *row)
{
    const uint8_t *m = row->nic ? row->nic->mac : NULL;
    if (m && row->nic->has_mac)
        mn_out_cellf(out, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    else
        mn_out_cell(out, NULL);
}

static void cell_pci_address(struct mn_out *out, const struct row *row)
{
    cell_text(out, row_pci(row)->address);
}

static void cell_pcie_max(struct mn_out *out, const struct row *row)
{
    const struct mn_pci *pci = row_pci(row);
    char text[32];
    cell_text(out, mn_pci_format(pci->max_speed, pci->max_width, text, sizeof text));
}

static void cell_phys_port(struct mn_out *out, const struct row *row)
{
    cell_text(out, row->nic ? row->nic->phys_port : NULL);
}

static void cell_twin(struct mn_out *out, const struct row *row)
{
    const struct mn_nic *twin = row->nic ? mn_nic_twin(row->host, row->nic) : NULL;
    mn_out_cell(out, twin ? twin->netdev : NULL);
}

static void cell_vf(struct mn_out *out, const struct row *row)
{
    mn_out_cell(out, row->nic && row->nic->is_vf ? "yes" : NULL);
}

static void cell_master(struct mn_out *out, const struct row *row)
{
    cell_text(out, row->nic ? row->nic->master : NULL);
}

static void cell_ifindex(struct mn_out *out, const struct row *row)
{
    cell_known(out, row->nic ? row->nic->ifindex : 0);
}

static void cell_mbps(struct mn_out *out, const struct row *row)
{
    cell_known(out, row_speed(row));
}

static void cell_gbps(struct mn_out *out, const struct row *row)
{
    const struct mn_pci *pci = row_pci(row);
    double gbps = mn_pci_gbps(pci->speed, pci->width);
    if (gbps > 0)
        mn_out_cell_num(out, gbps, 1);
    else
        mn_out_cell(out, NULL);
}

struct column {
    struct mn_col col;
    void (*cell)(struct mn_out *out, const struct row *row);
};

/* The first GLANCE columns are the table; the others join it in JSON and CSV. */
static const struct column columns[] = {
    {{"device", "DEVICE", 0}, cell_device},
    {{"port", "PORT", 1 | MN_DROP(1)}, cell_port},
    {{"netdev", "NETDEV", 0}, cell_netdev},
    {{"address", "ADDRESS", 0}, cell_address},
    {{"state", "STATE", 0}, cell_state},
    {{"speed", "SPEED", 1}, cell_speed},
    {{"mtu", "MTU", 1}, cell_mtu},
    {{"pcie", "PCIE", MN_DROP(3)}, cell_pcie},
    {{"numa", "NUMA", 1 | MN_DROP(2)}, cell_numa},
    {{"gid_index", "GID", 1}, cell_gid},
    {{"gpu", "GPU", MN_DROP(4)}, cell_gpu},
    {{"kind", "KIND", 0}, cell_kind},
    {{"driver", "DRIVER", 0}, cell_driver},
    {{"mac", "MAC", 0}, cell_mac},
    {{"pci_address", "PCI", 0}, cell_pci_address},
    {{"pcie_max", "PCIE MAX", 0}, cell_pcie_max},
    {{"pcie_gbps", "PCIE GB/S", 1}, cell_gbps},
    {{"phys_port", "PHYS PORT", 0}, cell_phys_port},
    {{"twin", "TWIN", 0}, cell_twin},
    {{"vf", "VF", 0}, cell_vf},
    {{"master", "MASTER", 0}, cell_master},
    {{"ifindex", "IFINDEX", 1}, cell_ifindex},
    {{"speed_mbps", "MBIT/S", 1}, cell_mbps},
};
#define GLANCE  11
#define COLUMNS ((int)(sizeof columns / sizeof *columns))

static void put_row(struct mn_out *out, const struct row *row, int n_columns)
{
    mn_out_row(out);
    for (int i = 0; i < n_columns; i++)
        columns[i].cell(out, row);
}

static int has_row(const struct mn_host *host, const struct mn_rdma_port *port, int all)
{
    for (size_t i = 0; i < host->n_nics; i++)
        if (host->nics[i].rdma == port - host->rdma &&
            (all || mn_nic_is_relevant(host, &host->nics[i])))
            return 1;
    return 0;
}

void mn_discover_nics(struct mn_out *out, const struct mn_host *host, int all, int wide)
{
    struct mn_col cols[COLUMNS];
    int n = wide ? COLUMNS : GLANCE, hidden = 0;
    for (int i = 0; i < n; i++)
        cols[i] = columns[i].col;
    mn_out_table(out, "nics", NULL, cols, n);
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        struct row row = {host, nic, nic->rdma >= 0 ? &host->rdma[nic->rdma] : NULL};
        if (all || mn_nic_is_relevant(host, nic))
            put_row(out, &row, n);
        else
            hidden++;
    }
    for (size_t i = 0; i < host->n_rdma; i++) {
        struct row row = {host, NULL, &host->rdma[i]};
        if (!has_row(host, &host->rdma[i], all))
            put_row(out, &row, n);
    }
    mn_out_table_end(out);
    if (hidden)
        mn_out_note(out, MN_DIM, "(%d loopback or virtual interface%s hidden; --all shows %s)",
                    hidden, hidden == 1 ? "" : "s", hidden == 1 ? "it" : "them");
}

static void count_findings(struct mn_out *out, const struct mn_findings *found)
{
    char text[96] = "";
    size_t len = 0;
    if (found->count == 0) {
        mn_out_note(out, MN_GREEN, "No findings.");
        return;
    }
    for (int s = MN_SEVERITY_ERROR; s >= MN_SEVERITY_NOTE; s--) {
        size_t n = mn_findings_count(found, (enum mn_severity)s);
        if (n > 0)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%zu %s%s", len ? ", " : "", n,
                                    mn_severity_name((enum mn_severity)s), n == 1 ? "" : "s");
    }
    mn_out_note(out, MN_BOLD, "Findings: %s", text);
}

void mn_discover_findings(struct mn_out *out, const struct mn_findings *found)
{
    static const enum mn_color colors[] = {MN_PLAIN, MN_YELLOW, MN_RED};
    mn_out_note(out, MN_PLAIN, "%s", "");
    count_findings(out, found);
    mn_out_list_begin(out, "findings", NULL);
    for (size_t i = 0; i < found->count; i++) {
        const struct mn_finding *f = &found->items[i];
        const char *severity = mn_severity_name(f->rule->severity);
        char place[520];
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "id", NULL, f->rule->id);
        mn_out_str(out, "severity", NULL, severity);
        mn_out_str(out, "title", NULL, f->rule->title);
        mn_out_str(out, "nic", NULL, f->nic);
        mn_out_str(out, "seen", NULL, f->seen);
        mn_out_str(out, "expected", NULL, f->expected);
        mn_out_str(out, "fix", NULL, f->fix);
        if (f->line)
            snprintf(place, sizeof place, "%.500s:%d", found->force->file, f->line);
        mn_out_str(out, "file", NULL, f->line ? place : NULL);
        mn_out_str(out, "advice", NULL, f->rule->advice);
        mn_out_note(out, colors[f->rule->severity], "%s: %s: %s", severity, f->nic, f->rule->title);
        mn_out_note(out, MN_PLAIN, "  seen      %s", f->seen);
        mn_out_note(out, MN_PLAIN, "  expected  %s", f->expected);
        if (f->line)
            mn_out_note(out, MN_PLAIN, "  file      %s", place);
        mn_out_note(out, MN_PLAIN, "  fix       %s", f->fix);
        /* The reason once for a row of like findings. */
        if (i + 1 == found->count || found->items[i + 1].rule != f->rule)
            mn_out_note(out, MN_DIM, "  %s", f->rule->advice);
        mn_out_end(out);
    }
    mn_out_list_end(out);
}
