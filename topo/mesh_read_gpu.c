/* A GPU of the mesh file. */
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_gpu.h"
#include "topo/mesh_read.h"

static struct mn_mesh_gpu *this_gpu(struct mn_reader *r)
{
    return &mn_reader_node(r)->gpus[r->gpu];
}

static enum mn_err gpu_pci(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    const struct mn_mesh_node *node = mn_reader_node(r);
    struct mn_mesh_gpu *gpu = this_gpu(r);
    if (value->kind != MN_YAML_SCALAR || !mn_mesh_pci(value->text, gpu->pci))
        return mn_read_fail_kind(r, key, value, "a PCI address, like 0000:1a:00.0");
    for (size_t i = 0; i < r->gpu; i++)
        if (!strcmp(node->gpus[i].pci, gpu->pci))
            return mn_read_fail(r, value, "GPU \"%s\" is twice in node %s, first on line %d",
                                gpu->pci, node->name, node->gpus[i].line);
    return MN_OK;
}

static enum mn_err gpu_name(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_text(r, key, value, sizeof this_gpu(r)->name, this_gpu(r)->name);
}

static enum mn_err gpu_nic(struct mn_reader *r, const struct mn_yaml *value)
{
    const struct mn_mesh_node *node = mn_reader_node(r);
    struct mn_mesh_gpu *gpu = this_gpu(r);
    char name[MN_NAME_MAX];
    enum mn_err err = mn_read_name(r, "nics", value, name);
    if (err)
        return err;
    int nic = mn_mesh_nic_index(node, name);
    if (nic < 0)
        return mn_read_fail(r, value, "nics: \"%s\"; expected the name of a NIC of node %s", name,
                            node->name);
    for (size_t i = 0; i < gpu->n_nics; i++)
        if (gpu->nics[i] == nic)
            return mn_read_fail(r, value, "nics: \"%s\" is there twice; expected each NIC once",
                                name);
    int *place = mn_push(&gpu->nics, &gpu->n_nics, sizeof *place, r->diag);
    if (!place)
        return MN_ERR_NOMEM;
    *place = nic;
    return MN_OK;
}

static enum mn_err gpu_nics(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    if (value->kind == MN_YAML_LIST && value->n_items == 0)
        return mn_read_fail(r, value, "nics: an empty list; expected at least one NIC of the node");
    return mn_read_list(r, key, value, MN_MESH_NICS_MAX, "a list of NICs of the node, like [p0]",
                        gpu_nic);
}

static enum mn_err gpu_path(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    for (int i = 0; value->kind == MN_YAML_SCALAR && i < MN_PCI_DISTANCES; i++)
        if (!strcmp(value->text, mn_pci_distance_name((enum mn_pci_distance)i))) {
            this_gpu(r)->path = (enum mn_pci_distance)i;
            return MN_OK;
        }
    return mn_read_fail_kind(r, key, value, "one of switch|root|numa|across");
}

enum mn_err mn_read_gpu(struct mn_reader *r, const struct mn_yaml *value)
{
    static const struct mn_read_key keys[] = {{"pci", gpu_pci, 1},
                                              {"name", gpu_name, 0},
                                              {"nics", gpu_nics, 1},
                                              {"path", gpu_path, 1},
                                              {NULL, NULL, 0}};
    struct mn_mesh_node *node = mn_reader_node(r);
    struct mn_mesh_gpu *gpu = mn_push(&node->gpus, &node->n_gpus, sizeof *gpu, r->diag);
    if (!gpu)
        return MN_ERR_NOMEM;
    r->gpu = node->n_gpus - 1;
    gpu->line = value->line;
    gpu->column = value->column;
    return mn_read_map(r, "a GPU", value, keys);
}
