/* Which memory the devices take. */
#include "plugin/abi/nccl_abi.h"
#include "plugin/gpu.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

/* Bit per RDMA device behind the addresses. */
static uint32_t devices_of(const struct mn_device *device)
{
    uint32_t bits = 0;

    for (int i = 0; i < device->n_locals; i++) {
        struct verbs_place place;
        (void)verbs_place_find(&device->locals[i], &place, NULL);
        if (place.device)
            bits |= 1u << place.device->index;
    }
    return bits;
}

static int all_take_dmabuf(struct verbs_device *devices, int n, uint32_t used)
{
    for (int i = 0; i < n; i++)
        if (used >> i & 1 && !verbs_memory_takes_dmabuf(&devices[i], 1))
            return 0;
    return 1;
}

static int all_read(const struct verbs_device *devices, int n, uint32_t used)
{
    for (int i = 0; i < n; i++)
        if (used >> i & 1 &&
            (devices[i].attr.max_qp_rd_atom < 1 || devices[i].attr.max_qp_init_rd_atom < 1)) {
            MN_INFO("GPU memory is left to the host: %s cannot read, which flushes need",
                    devices[i].name);
            return 0;
        }
    return 1;
}

/* GPU memory, where all devices in use take it and one of the loaded drivers can hand it out. */
static int kinds_of(struct verbs_device *devices, int n, uint32_t used)
{
    int gpu = mn_gpu_loaded(), bits = NCCL_PTR_HOST;

    if (!gpu || !all_read(devices, n, used))
        return bits;
    if (gpu & MN_GPU_CAN_PEER && mn_gpu_peer_module(NULL))
        bits |= NCCL_PTR_CUDA;
    if (gpu & MN_GPU_CAN_DMABUF && all_take_dmabuf(devices, n, used))
        bits |= NCCL_PTR_DMABUF;
    if (bits == NCCL_PTR_HOST)
        MN_INFO("GPU memory is left to the host: neither DMA-BUF (Linux 5.12, rdma-core 34 and the "
                "NIC's driver) nor a peer memory module (nvidia_peermem, amdgpu) is there");
    return bits;
}

/* A connection of one device may run over the NICs of another, so that all have the same; but a
 * device whose NICs have no RDMA is reached by TCP. NICs that no device has are not asked. */
void verbs_pointers(struct mn_config *config)
{
    struct verbs_device *devices;
    int n = verbs_devices(&devices);
    uint32_t used_by[MN_MAX_DEVICES], used = 0;

    for (int d = 0; d < config->n_devices; d++)
        used |= used_by[d] = n ? devices_of(&config->devices[d]) : 0;
    config->pointers = used ? kinds_of(devices, n, used) : NCCL_PTR_HOST;
    for (int d = 0; d < config->n_devices; d++) {
        config->devices[d].pointers = used_by[d] ? config->pointers : NCCL_PTR_HOST;
        if (config->devices[d].pointers != config->pointers)
            MN_INFO("GPU memory is left to the host on %s: none of its NICs has an RDMA device",
                    config->devices[d].name);
    }
}
