/* The table of GPUs and the NICs near them. */
#include "cli/discover.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

int mn_discover_has_gpu_nics(const struct mn_host *host)
{
    const struct mn_nic **near = mn_zalloc((host->n_nics + 1) * sizeof *near);
    enum mn_pci_distance distance;
    int has = host->n_gpus > 0 && mn_gpu_nics(host, &host->gpus[0], near, &distance) > 0;
    free(near);
    return has;
}

static void cell_near(struct mn_out *out, const struct mn_nic *const *near, size_t count)
{
    char *text = mn_zalloc(count * IF_NAMESIZE + 1);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            strcat(text, " ");
        strcat(text, near[i]->netdev);
    }
    mn_out_cell(out, count ? text : NULL);
    free(text);
}

void mn_discover_gpus(struct mn_out *out, const struct mn_host *host, const char *title)
{
    static const struct mn_col cols[] = {{"pci_address", "GPU", 0},
                                         {"name", "NAME", 0},
                                         {"numa", "NUMA", 1 | MN_DROP(2)},
                                         {"path", "PATH", MN_DROP(1)},
                                         {"nearest_nics", "NEAREST NICS", 0}};
    const struct mn_nic **near = mn_zalloc((host->n_nics + 1) * sizeof *near);
    mn_out_table(out, "gpus", title, cols, COUNT(cols));
    for (size_t i = 0; i < host->n_gpus; i++) {
        const struct mn_gpu *gpu = &host->gpus[i];
        enum mn_pci_distance distance;
        size_t count = mn_gpu_nics(host, gpu, near, &distance);
        mn_out_row(out);
        mn_out_cell(out, gpu->address);
        mn_out_cell(out, gpu->name[0] ? gpu->name : NULL);
        if (gpu->numa >= 0)
            mn_out_cell_int(out, gpu->numa);
        else
            mn_out_cell(out, NULL);
        mn_out_cell(out, count ? mn_pci_distance_name(distance) : NULL);
        cell_near(out, near, count);
    }
    mn_out_table_end(out);
    free(near);
}
