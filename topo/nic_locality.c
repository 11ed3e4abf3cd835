/* GPUs and which one is nearest to each NIC. Only this file and cpu.c call hwloc: nothing the
 * plugin needs refers to them, so the linker leaves them out of the plugin. */
#include "topo/nic_read.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/apart.h"
#include "topo/base/alloc.h"
#include "topo/cpu.h"

#define PCI_CLASS_DISPLAY     0x03
#define PCI_CLASS_ACCELERATOR 0x12

/* NCCL and RCCL run on these; a board's service processor also shows a display controller. */
static const struct {
    long long id;
    const char *name;
} vendors[] = {{0x10de, "NVIDIA"}, {0x1002, "AMD"}};

struct gpu_reader {
    const char *root;
    struct mn_host *host;
};

static enum mn_err read_gpu(void *arg, const char *address, struct mn_diag *diag)
{
    struct gpu_reader *r = arg;
    long long class, vendor, device, numa = -1;
    if (!mn_sysfs_number(r->root, &class, "bus/pci/devices/%s/class", address) ||
        (class >> 16 != PCI_CLASS_DISPLAY && class >> 16 != PCI_CLASS_ACCELERATOR) ||
        !mn_sysfs_number(r->root, &vendor, "bus/pci/devices/%s/vendor", address) ||
        !mn_sysfs_number(r->root, &device, "bus/pci/devices/%s/device", address))
        return MN_OK;
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
        if (vendors[i].id != vendor)
            continue;
        struct mn_gpu *gpu = mn_push(&r->host->gpus, &r->host->n_gpus, sizeof *gpu, diag);
        if (!gpu)
            return MN_ERR_NOMEM;
        mn_strlcpy(gpu->address, address, sizeof gpu->address);
        snprintf(gpu->name, sizeof gpu->name, "%s %04llx", vendors[i].name, device);
        mn_sysfs_text(r->root, gpu->name, sizeof gpu->name, "bus/pci/devices/%s/product_name",
                      address); /* amdgpu */
        mn_sysfs_resolve(r->root, gpu->path, sizeof gpu->path, "bus/pci/devices/%s", address);
        mn_sysfs_number(r->root, &numa, "bus/pci/devices/%s/numa_node", address);
        gpu->numa = numa < 0 ? -1 : (int)numa;
    }
    return MN_OK;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct mn_gpu *)a)->address, ((const struct mn_gpu *)b)->address);
}

/* Firmware often leaves numa_node at -1 where hwloc knows better; -1 when it is near several. */
static int find_numa(hwloc_topology_t topology, hwloc_obj_t pci, int known)
{
    const struct hwloc_obj *parent = pci ? hwloc_get_non_io_ancestor_obj(topology, pci) : NULL;
    if (known >= 0 || !parent || !parent->nodeset || hwloc_bitmap_weight(parent->nodeset) != 1)
        return known;
    return hwloc_bitmap_first(parent->nodeset);
}

/* "Model:  NVIDIA GB10", a line of the NVIDIA driver's /proc file. */
static void read_nvidia_model(struct mn_gpu *gpu)
{
    static const char key[] = "Model:";
    char line[256];
    snprintf(line, sizeof line, "/proc/driver/nvidia/gpus/%s/information", gpu->address);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        const char *model = line + strlen(key);
        mn_strlcpy(gpu->name, model + strspn(model, " \t"), sizeof gpu->name);
    }
    if (file)
        fclose(file);
}

/* The NUMA nodes of the GPUs, then of the NICs. */
static enum mn_err find_numas(const void *arg, void *result, struct mn_diag *diag)
{
    const struct mn_host *host = arg;
    int *numa = result;
    hwloc_topology_t topology;
    enum mn_err err = mn_hwloc_load(&topology, diag);
    if (err != MN_OK)
        return err;
    for (size_t i = 0; i < host->n_gpus; i++)
        *numa++ =
            find_numa(topology, mn_hwloc_pci(topology, host->gpus[i].address), host->gpus[i].numa);
    for (size_t i = 0; i < host->n_nics; i++)
        *numa++ = find_numa(topology, mn_hwloc_pci(topology, host->nics[i].pci.address),
                            host->nics[i].pci.numa);
    hwloc_topology_destroy(topology);
    return MN_OK;
}

static enum mn_err ask_hwloc(struct mn_host *host, struct mn_diag *diag)
{
    size_t count = host->n_gpus + host->n_nics;
    int *numa = calloc(count + 1, sizeof *numa);
    enum mn_err err = numa ? mn_apart("hwloc", find_numas, host, numa, count * sizeof *numa, diag)
                           : mn_fail(diag, MN_ERR_NOMEM, "no memory for the host inventory");
    for (size_t i = 0; i < host->n_gpus && !err; i++) {
        read_nvidia_model(&host->gpus[i]);
        host->gpus[i].numa = numa[i];
    }
    for (size_t i = 0; i < host->n_nics && !err; i++)
        host->nics[i].pci.numa = numa[host->n_gpus + i];
    free(numa);
    return err;
}

static void find_nearest(const struct mn_host *host, struct mn_nic *nic)
{
    const struct mn_gpu *best = NULL;
    /* With several GPUs and nothing in common with any of them, none is nearest. */
    int most = host->n_gpus > 1 ? 0 : -1;
    for (size_t i = 0; i < host->n_gpus; i++) {
        int near = mn_gpu_nearness(&host->gpus[i], &nic->pci);
        if (near > most) {
            most = near;
            best = &host->gpus[i];
        }
    }
    if (best)
        mn_strlcpy(nic->gpu, best->address, sizeof nic->gpu);
}

enum mn_err mn_host_locality(const struct mn_host_source *src, struct mn_host *host,
                             struct mn_diag *diag)
{
    struct gpu_reader reader = {.root = src && src->sysfs ? src->sysfs : "/sys", .host = host};
    enum mn_err err = mn_sysfs_each(reader.root, "bus/pci/devices", read_gpu, &reader, diag);
    if (err == MN_OK && !(src && src->sysfs))
        err = ask_hwloc(host, diag);
    if (err != MN_OK)
        return err;
    if (host->n_gpus > 1)
        qsort(host->gpus, host->n_gpus, sizeof *host->gpus, by_address);
    for (size_t i = 0; i < host->n_nics; i++)
        if (host->nics[i].pci.path[0])
            find_nearest(host, &host->nics[i]);
    if (!*host->missing)
        (void)mn_sysfs_missed(host->missing, sizeof host->missing);
    return MN_OK;
}
