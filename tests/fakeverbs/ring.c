/* Packets of any size from one producer to one consumer, in whole pieces. */
#include "tests/fakeverbs/fv.h"

struct fv_packet *fv_ring_room(struct fv_ring *ring, uint8_t *data, uint32_t size, uint32_t bytes)
{
    uint32_t need = (uint32_t)(sizeof(struct fv_packet) + bytes + 7) & ~7u;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint32_t at = (uint32_t)(head & (size - 1)), to_end = size - at;
    uint32_t skip = to_end < need ? to_end : 0;
    if (head - tail + skip + need > size)
        return NULL;
    if (skip) {
        /* At least 8 bytes: all sizes are multiples of 8. */
        struct fv_packet *pad = (struct fv_packet *)(void *)(data + at);
        pad->size = skip;
        pad->type = FV_SKIP;
        atomic_store_explicit(&ring->head, head + skip, memory_order_release);
        at = 0;
    }
    struct fv_packet *packet = (struct fv_packet *)(void *)(data + at);
    packet->size = need;
    packet->length = bytes;
    return packet;
}

void fv_ring_put(struct fv_ring *ring, const struct fv_packet *packet)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + packet->size, memory_order_release);
}

struct fv_packet *fv_ring_peek(struct fv_ring *ring, uint8_t *data, uint32_t size)
{
    for (;;) {
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
            return NULL;
        struct fv_packet *packet = (struct fv_packet *)(void *)(data + (tail & (size - 1)));
        if (packet->type != FV_SKIP)
            return packet;
        fv_ring_take(ring, packet);
    }
}

void fv_ring_take(struct fv_ring *ring, const struct fv_packet *packet)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + packet->size, memory_order_release);
}

void fv_ring_clear(struct fv_ring *ring)
{
    atomic_store(&ring->tail, 0);
    atomic_store(&ring->head, 0);
}
