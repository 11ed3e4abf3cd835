#include <string.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/coll_ring.h"

/* --- where things are ------------------------------------------------------------------------- */

static int slice_sent(const struct coll_op *op, uint32_t step)
{
    int n = op->coll->nranks;
    return (op->first - (int)(step % (uint32_t)n) + n) % n;
}

size_t coll_slice(const struct coll_op *op, int slice, size_t *length)
{
    size_t end = op->window + op->bytes, from = (size_t)slice * op->block, to = from + op->block;

    from = from < op->window ? op->window : from > end ? end : from;
    to = to < op->window ? op->window : to > end ? end : to;
    *length = to - from;
    return from - op->window;
}

static size_t chunk_size(const struct coll_op *op)
{
    return COLL_CHUNK / op->element * op->element;
}

/* Length of the item's chunk of a slice, 0 where the slice is shorter; *at is its start there. */
static size_t chunk_of(const struct coll_op *op, int slice, const struct coll_item *item,
                       size_t *at)
{
    size_t length, chunk = chunk_size(op);

    coll_slice(op, slice, &length);
    *at = ((size_t)item->segment * COLL_CHUNKS + item->chunk) * chunk;
    return *at >= length ? 0 : length - *at < chunk ? length - *at : chunk;
}

static uint32_t steps(const struct coll_op *op)
{
    return (uint32_t)(op->reducing + op->gathering);
}

static int at_end(const struct coll_op *op, const struct coll_item *item)
{
    return item->segment == op->segments;
}

static void step_on(const struct coll_op *op, struct coll_item *item)
{
    if (++item->chunk < COLL_CHUNKS)
        return;
    item->chunk = 0;
    if (++item->step < steps(op))
        return;
    item->step = 0;
    item->segment++;
}

/* Past the chunks that do not exist: to is 0 for those sent, 1 for those received. */
static void skip_empty(const struct coll_op *op, struct coll_item *item, uint32_t to)
{
    size_t at;

    while (!at_end(op, item) && !chunk_of(op, slice_sent(op, item->step + to), item, &at))
        step_on(op, item);
}

static int before(const struct coll_item *a, const struct coll_item *b)
{
    if (a->segment != b->segment)
        return a->segment < b->segment;
    return a->step != b->step ? a->step < b->step : a->chunk < b->chunk;
}

void coll_ring_begin(struct coll_op *op)
{
    size_t most = 0, segment = COLL_CHUNKS * chunk_size(op);

    for (int slice = 0; slice < op->coll->nranks; slice++) {
        size_t length;
        coll_slice(op, slice, &length);
        most = length > most ? length : most;
    }
    op->segments = steps(op) ? (uint32_t)((most + segment - 1) / segment) : 0;
    memset(&op->sending, 0, sizeof op->sending);
    op->receiving = op->landed = op->sending;
    skip_empty(op, &op->sending, 0);
    skip_empty(op, &op->receiving, 1);
    op->landed = op->receiving;
}

/* The result's place of a slice: a scatter has only this rank's. */
static uint8_t *result_at(const struct coll_op *op, int slice, size_t at)
{
    size_t length, start = coll_slice(op, slice, &length);

    return op->out + (op->gathering ? start : 0) + at;
}

static const uint8_t *own_data_at(const struct coll_op *op, int slice, size_t at)
{
    size_t length, start = coll_slice(op, slice, &length);

    return op->in + (op->reducing ? start : 0) + at;
}

/* --- receiving -------------------------------------------------------------------------------- */

/* 1 posted, 0 no room, else an error negated. */
static int receive_next(struct mn_coll *coll, struct coll_op *op)
{
    struct coll_flight *flight = &coll->recvs[coll->received % COLL_FLIGHT];
    int reducing = op->receiving.step < (uint32_t)op->reducing, tag = 0;
    int slice = slice_sent(op, op->receiving.step + 1);
    size_t at;

    if (coll->received - coll->recv_done == COLL_FLIGHT || (reducing && !coll->free_slots))
        return 0;
    *flight = (struct coll_flight){.item = op->receiving, .slot = -1};
    flight->size = chunk_of(op, slice, &op->receiving, &at);
    if (reducing)
        flight->slot = __builtin_ctz(coll->free_slots);
    flight->data =
        reducing ? coll->slots + (size_t)flight->slot * COLL_CHUNK : result_at(op, slice, at);
    void *data = flight->data, *mr = coll->slots_recv;
    if (!reducing)
        mr = op->out_mhandle ? ((struct coll_mr *)op->out_mhandle)->recv : NULL;
    int result =
        mn_net_irecv(coll->recv_comm, 1, &data, &flight->size, &tag, &mr, &flight->request);
    if (result || !flight->request)
        return -result;
    if (reducing)
        coll->free_slots &= ~(1u << flight->slot);
    coll->received++;
    step_on(op, &op->receiving);
    skip_empty(op, &op->receiving, 1);
    return 1;
}

static void landed(struct mn_coll *coll, struct coll_op *op, const struct coll_flight *flight)
{
    uint32_t step = flight->item.step;
    int slice = slice_sent(op, step + 1);
    size_t at, length = chunk_of(op, slice, &flight->item, &at);

    if (flight->slot >= 0) {
        op->reduce(flight->data, own_data_at(op, slice, at), length / op->element);
        if (step + 1 == (uint32_t)op->reducing) {
            memcpy(result_at(op, slice, at), flight->data, length);
            coll->free_slots |= 1u << flight->slot;
        } else {
            coll->held[coll->held_in++ % COLL_SLOTS] = (uint8_t)flight->slot;
        }
    }
    step_on(op, &op->landed);
    skip_empty(op, &op->landed, 1);
}

/* --- sending ---------------------------------------------------------------------------------- */

static int send_next(struct mn_coll *coll, struct coll_op *op)
{
    struct coll_flight *flight = &coll->sends[coll->sent % COLL_FLIGHT];
    struct coll_item came = op->sending;
    int slice = slice_sent(op, op->sending.step);
    size_t at;

    if (coll->sent - coll->send_done == COLL_FLIGHT)
        return 0;
    came.step--;
    if (op->sending.step && !before(&came, &op->landed))
        return 0;
    *flight = (struct coll_flight){.item = op->sending, .slot = -1};
    flight->size = chunk_of(op, slice, &op->sending, &at);
    struct coll_mr *mr = op->out_mhandle;
    if (!op->sending.step) {
        flight->data = (uint8_t *)(uintptr_t)own_data_at(op, slice, at);
        mr = op->in_mhandle;
    } else if (op->sending.step < (uint32_t)op->reducing) {
        flight->slot = coll->held[coll->held_out % COLL_SLOTS];
        flight->data = coll->slots + (size_t)flight->slot * COLL_CHUNK;
    } else {
        flight->data = result_at(op, slice, at);
    }
    void *mhandle = flight->slot >= 0 ? coll->slots_send : mr ? mr->send : NULL;
    int result =
        mn_net_isend(coll->send_comm, flight->data, flight->size, 0, mhandle, &flight->request);
    if (result || !flight->request)
        return -result;
    coll->held_out += flight->slot >= 0;
    coll->sent++;
    step_on(op, &op->sending);
    skip_empty(op, &op->sending, 0);
    return 1;
}

/* --- progress --------------------------------------------------------------------------------- */

/* The oldest of flights is asked; 1 when it is done. */
static int ask(struct coll_flight *flight, int receiving, int *result)
{
    int done = 0, size = 0;

    *result = mn_net_test(flight->request, &done, &size);
    if (!*result && done && receiving && (size_t)size != flight->size)
        *result = ncclRemoteError; /* another operation, or another size of it, over there */
    return !*result && done;
}

int coll_ring_advance(struct mn_coll *coll)
{
    struct coll_op *op = &coll->ops[coll->finished % MN_COLL_REQUESTS];
    int moved = 1, result = 0;

    while (moved && !result) {
        moved = 0;
        while (coll->recv_done != coll->received &&
               ask(&coll->recvs[coll->recv_done % COLL_FLIGHT], 1, &result)) {
            landed(coll, op, &coll->recvs[coll->recv_done++ % COLL_FLIGHT]);
            moved = 1;
        }
        while (!result && coll->send_done != coll->sent &&
               ask(&coll->sends[coll->send_done % COLL_FLIGHT], 0, &result)) {
            const struct coll_flight *flight = &coll->sends[coll->send_done++ % COLL_FLIGHT];
            if (flight->slot >= 0)
                coll->free_slots |= 1u << flight->slot;
            moved = 1;
        }
        int posted = 1;
        while (!result && posted > 0 && !at_end(op, &op->receiving)) {
            posted = receive_next(coll, op);
            moved |= posted > 0;
            result = posted < 0 ? -posted : 0;
        }
        posted = 1;
        while (!result && posted > 0 && !at_end(op, &op->sending)) {
            posted = send_next(coll, op);
            moved |= posted > 0;
            result = posted < 0 ? -posted : 0;
        }
    }
    if (!result && at_end(op, &op->sending) && at_end(op, &op->receiving) &&
        coll->sent == coll->send_done && coll->received == coll->recv_done)
        op->done = 1;
    return result;
}
