/* The plugin's devices beside the mesh file and what meshnet discover sees of this host. */
#include <stdio.h>
#include <string.h>

#include "bench/check/device.h"
#include "topo/mesh_file.h"

#define TOLERANCE 10 /* percent: rates are rounded in more than one way */

struct view {
    struct mn_host host;
    struct mn_mesh mesh;
    const struct mn_mesh_node *node; /* this one in the mesh file; NULL = there is no file */
    int nics, links;                 /* of it that carry data */
    long slowest, sum;               /* of its NICs, Mb/s; 0 = not all are known */
};

static int is_data(const struct mn_mesh_nic *file)
{
    return file->role != MN_ROLE_MANAGEMENT;
}

static const struct mn_mesh_nic *in_file(const struct view *view, const struct mn_nic *nic)
{
    for (size_t i = 0; view->node && i < view->node->n_nics; i++)
        if (is_data(&view->node->nics[i]) &&
            mn_mesh_nic_on_host(&view->host, &view->node->nics[i]) == nic)
            return &view->node->nics[i];
    return NULL;
}

static long speed_of(const struct mn_mesh_nic *file, const struct mn_nic *nic)
{
    return file && file->speed_mbps ? file->speed_mbps : nic ? nic->speed_mbps : 0;
}

static void sum_up(struct view *view)
{
    int known = 0;

    for (size_t i = 0; i < view->node->n_nics; i++) {
        const struct mn_mesh_nic *file = &view->node->nics[i];
        if (!is_data(file))
            continue;
        view->nics++;
        long speed = speed_of(file, mn_mesh_nic_on_host(&view->host, file));
        known += speed > 0;
        view->sum += speed;
        if (!view->slowest || speed < view->slowest)
            view->slowest = speed;
    }
    if (known < view->nics)
        view->slowest = view->sum = 0;
}

static void look(struct mn_check *check, struct view *view)
{
    char path[512], why[256];
    struct mn_diag diag;
    int self = 0;

    mn_check_step(check, "reading the host and the mesh file");
    if (mn_host_read(NULL, &view->host, &diag))
        mn_check_skip(check, "this host cannot be read: %s", diag.text);
    if (!mn_mesh_find_file(path, sizeof path))
        return;
    mn_mesh_init(&view->mesh);
    if (mn_mesh_read(path, &view->mesh, &diag) ||
        mn_mesh_find_self(&view->mesh, &view->host, &self, why, sizeof why, &diag))
        mn_check_skip(check, "the mesh file is of no use: %s", diag.text);
    view->node = &view->mesh.nodes[self];
    for (size_t i = 0; i < view->mesh.n_links; i++)
        for (int end = 0; end < 2; end++)
            view->links += view->mesh.links[i].ends[end].node == self;
    sum_up(view);
}

/* "mlx5_0", "mlx5_0:1" */
static int names_port(const char *name, const struct mn_rdma_port *port)
{
    size_t n = strlen(port->device);
    char number[16];

    snprintf(number, sizeof number, ":%d", port->port);
    return strncmp(name, port->device, n) == 0 && (!name[n] || strcmp(name + n, number) == 0);
}

/* The NIC the device's name stands for: its netdev, also behind a prefix and a dash, or its RDMA
 * device. */
static const struct mn_nic *nic_named(const struct mn_host *host, const char *name)
{
    const char *dash = name ? strchr(name, '-') : NULL;

    for (size_t i = 0; name && i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (strcmp(name, nic->netdev) == 0 || (dash && strcmp(dash + 1, nic->netdev) == 0) ||
            (nic->rdma >= 0 && names_port(name, &host->rdma[nic->rdma])))
            return nic;
    }
    return NULL;
}

/* The only NIC of that PCI function. */
static const struct mn_nic *nic_at(const struct mn_host *host, const char *pci)
{
    const struct mn_nic *found = NULL;

    for (size_t i = 0; pci && i < host->n_nics; i++) {
        if (strcmp(pci, host->nics[i].pci.path) != 0)
            continue;
        if (found)
            return NULL;
        found = &host->nics[i];
    }
    return found;
}

static void judge_nic(struct mn_check *check, const struct view *view, int dev,
                      const struct mn_raw_props *p, const struct mn_nic *nic)
{
    const struct mn_mesh_nic *file = in_file(view, nic);
    long speed = speed_of(file, nic), off = p->speed > speed ? p->speed - speed : speed - p->speed;

    if (p->pci_path && nic->pci.path[0] && strcmp(p->pci_path, nic->pci.path) != 0)
        mn_check_fail(check, "device %d (%s): pciPath is %s, %s is at %s", dev, p->name,
                      p->pci_path, nic->netdev, nic->pci.path);
    if (speed > 0 && off * 100 > speed * TOLERANCE)
        mn_check_fail(check, "device %d (%s): speed is %d Mb/s, %s has %ld by the %s", dev, p->name,
                      p->speed, nic->netdev, speed,
                      file && file->speed_mbps ? "mesh file" : "kernel");
    if (view->node && !file)
        mn_check_fail(check,
                      "device %d (%s) is %s, which the mesh file does not name for node %s's data",
                      dev, p->name, nic->netdev, view->node->name);
}

/* Only its place is known: it may stand for more than that NIC. */
static void judge_place(struct mn_check *check, int dev, const struct mn_raw_props *p,
                        const struct mn_nic *nic)
{
    if ((long)p->speed * 100 < nic->speed_mbps * (100 - TOLERANCE))
        mn_check_fail(check, "device %d (%s): speed is %d Mb/s, %s at its pciPath has %ld", dev,
                      p->name ? p->name : "?", p->speed, nic->netdev, nic->speed_mbps);
}

/* A device that stands for several NICs is as fast as one of them at least, as all at most. */
static void judge_virtual(struct mn_check *check, const struct view *view, int dev,
                          const struct mn_raw_props *p)
{
    const char *name = p->name ? p->name : "?";
    int known = 0, there = 0;

    if (view->sum && ((long)p->speed * 100 < view->slowest * (100 - TOLERANCE) ||
                      (long)p->speed * 100 > view->sum * (100 + TOLERANCE)))
        mn_check_fail(check,
                      "device %d (%s): speed is %d Mb/s, the NICs of node %s have from %ld to %ld "
                      "together",
                      dev, name, p->speed, view->node->name, view->slowest, view->sum);
    for (size_t i = 0; i < view->node->n_nics; i++) {
        const struct mn_nic *nic = mn_mesh_nic_on_host(&view->host, &view->node->nics[i]);
        if (!is_data(&view->node->nics[i]))
            continue;
        known += nic && nic->pci.path[0];
        there += nic && p->pci_path && strcmp(p->pci_path, nic->pci.path) == 0;
    }
    if (p->pci_path && known && !there)
        mn_check_fail(check, "device %d (%s): pciPath is %s, no NIC of node %s is there", dev, name,
                      p->pci_path, view->node->name);
}

/* 1: there was something to compare the device with. */
static int judge(struct mn_check *check, const struct view *view, int dev)
{
    const struct mn_nic *named, *at;
    struct mn_raw_props props;

    mn_device_read(check, dev, &props);
    named = nic_named(&view->host, props.name);
    at = nic_at(&view->host, props.pci_path);
    mn_check_step(check, "device %d beside the %s", dev, named || at ? "host" : "mesh file");
    if (named)
        judge_nic(check, view, dev, &props, named);
    else if (view->node)
        judge_virtual(check, view, dev, &props);
    else if (at)
        judge_place(check, dev, &props, at);
    return named || view->node || at;
}

void mn_device_agrees(struct mn_check *check)
{
    static struct view view;
    int compared = 0;

    mn_check_init(check);
    look(check, &view);
    for (int dev = 0; dev < check->n_dev; dev++)
        compared += judge(check, &view, dev);
    if (!compared)
        mn_check_skip(check, "no mesh file, and no device that is a NIC by name or pciPath");
    if (view.node && check->n_dev != 1 && check->n_dev != view.nics && check->n_dev != view.links)
        mn_check_fail(check,
                      "%d devices; node %s of the mesh file has %d NICs for data and %d links",
                      check->n_dev, view.node->name, view.nics, view.links);
    mn_check_note(check, "%d of %d devices compared%s%s", compared, check->n_dev,
                  view.node ? "; this is node " : "", view.node ? view.node->name : "");
}
