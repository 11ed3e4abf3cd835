#include "topo/mesh_gpu.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/mesh_check.h"

int mn_mesh_pci(const char *text, char pci[MN_PCI_TEXT])
{
    static const char shape[] = "xxxx:xx:1x.7"; /* a device has 5 bits, a function 3 */
    for (size_t i = 0; i < sizeof shape; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!(shape[i] == 'x'   ? isxdigit(c)
              : shape[i] == '1' ? c == '0' || c == '1'
              : shape[i] == '7' ? c >= '0' && c <= '7'
                                : c == shape[i]))
            return 0;
        pci[i] = (char)tolower(c);
    }
    return 1;
}

/* A board's own memory may hold anything; a mesh file holds what is text. */
static int is_text(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            return 0;
    return 1;
}

static void add_gpu(struct mn_mesh_node *node, const struct mn_host *kept,
                    const struct mn_gpu *from)
{
    const struct mn_nic *near[MN_MESH_NICS_MAX];
    enum mn_pci_distance path;
    char pci[MN_PCI_TEXT];
    size_t n_near = mn_gpu_nics(kept, from, near, &path);
    if (!n_near)
        return;
    if (!mn_mesh_pci(from->address, pci)) {
        MN_WARN("GPU %s: left out, the mesh file has no PCI addresses of this form", from->address);
        return;
    }
    if (node->n_gpus == MN_MESH_GPUS_MAX) {
        MN_WARN("GPU %s: left out, a node has at most %d GPUs", pci, MN_MESH_GPUS_MAX);
        return;
    }
    struct mn_mesh_gpu *gpu = mn_grow((void **)&node->gpus, &node->n_gpus, sizeof *node->gpus);
    mn_strlcpy(gpu->pci, pci, sizeof gpu->pci);
    if (is_text(from->name))
        mn_strlcpy(gpu->name, from->name, sizeof gpu->name);
    gpu->path = path;
    for (size_t i = 0; i < n_near; i++)
        *(int *)mn_grow((void **)&gpu->nics, &gpu->n_nics, sizeof *gpu->nics) =
            (int)(near[i] - kept->nics);
}

void mn_mesh_gpus_from_host(struct mn_mesh_node *node, const struct mn_host *host,
                            struct mn_nic *near)
{
    const struct mn_host kept = {.nics = near, .n_nics = node->n_nics};
    for (size_t i = 0; i < host->n_gpus; i++)
        add_gpu(node, &kept, &host->gpus[i]);
}

void mn_mesh_gpus_copy(struct mn_mesh_node *to, const struct mn_mesh_node *from)
{
    to->gpus = NULL;
    to->n_gpus = 0;
    for (size_t i = 0; i < from->n_gpus; i++) {
        struct mn_mesh_gpu *gpu = mn_grow((void **)&to->gpus, &to->n_gpus, sizeof *to->gpus);
        *gpu = from->gpus[i];
        gpu->line = gpu->column = 0;
        gpu->nics = mn_zalloc((gpu->n_nics + 1) * sizeof *gpu->nics);
        memcpy(gpu->nics, from->gpus[i].nics, gpu->n_nics * sizeof *gpu->nics);
    }
}

void mn_mesh_gpus_clear(struct mn_mesh_node *node)
{
    for (size_t i = 0; i < node->n_gpus; i++)
        free(node->gpus[i].nics);
    free(node->gpus);
    node->gpus = NULL;
    node->n_gpus = 0;
}
