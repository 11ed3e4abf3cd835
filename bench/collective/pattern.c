#include <stdlib.h>
#include <string.h>

#include "bench/collective/pattern.h"
#include "topo/base/alloc.h"

/* Inputs repeat after so many elements, a prime: a slice that lands in a wrong place shows, and
 * what is expected need be worked out only once. */
#define PERIOD 4093

static uint64_t mixed(int rank, size_t i)
{
    uint64_t x = ((uint64_t)(unsigned)rank << 32) + i % PERIOD + 1;

    x *= 0x9e3779b97f4a7c15;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9;
    return x ^ x >> 32;
}

/* Whole numbers up to here are exact in the type. */
static unsigned exact(int type)
{
    switch (type) {
    case MN_TYPE_INT8:
    case MN_TYPE_UINT8:
        return 127;
    case MN_TYPE_FLOAT16:
        return 2048;
    case MN_TYPE_BFLOAT16:
        return 256;
    case MN_TYPE_FLOAT8E4M3:
        return 16;
    case MN_TYPE_FLOAT8E5M2:
        return 8;
    default:
        return 1u << 24;
    }
}

static double number(const struct mn_pattern *p, int rank, size_t i)
{
    unsigned limit = exact(p->type), n = (unsigned)p->job->nranks;

    if (p->op == MN_REDOP_PROD)
        return (i + (size_t)rank) % 7 ? 1 : 2;
    if (p->op != MN_REDOP_SUM)
        return (double)(mixed(rank, i) % limit);
    /* The sum of all stays exact; more ranks than the type can count add nothing. */
    return (unsigned)rank < limit ? (double)(mixed(rank, i) % (n < limit ? limit / n + 1 : 2)) : 0;
}

static void value(void *ctx, int rank, size_t i, void *element)
{
    const struct mn_pattern *p = ctx;
    uint64_t bits = mixed(rank, i);

    if (p->job->blocks && !mn_coll_present(p->job, i / p->job->block))
        memset(element, 0, p->job->element);
    else if (mn_collective_reduces(p->collective))
        mn_type_set(p->type, element, number(p, rank, i % PERIOD));
    else
        memcpy(element, &bits, p->job->element);
}

void mn_pattern_fill(const struct mn_pattern *p, void *in)
{
    size_t count = mn_collective_in(p->collective, p->job), element = p->job->element;
    uint8_t *at = in;
    size_t first = !p->job->blocks && count > PERIOD ? PERIOD : count;

    for (size_t i = 0; i < first; i++)
        value((void *)p, p->job->rank, i, at + i * element);
    for (size_t i = first, n; i < count; i += n) {
        n = count - i < PERIOD ? count - i : PERIOD;
        memcpy(at + i * element, at, n * element);
    }
}

/* Elements from i on whose inputs lie in a row. */
static size_t stretch(const struct mn_pattern *p, size_t i, size_t total)
{
    const struct mn_coll_job *job = p->job;
    size_t end = 0;

    if (job->counts)
        for (int from = 0; end <= i; from++)
            end += mn_coll_count(job, from, job->rank);
    else
        end = job->blocks ? i - i % job->block + job->block : i - i % job->count + job->count;
    return (end < total ? end : total) - i;
}

static uint64_t differing(const uint8_t *a, const uint8_t *b, size_t n, size_t element)
{
    uint64_t wrong = 0;

    if (memcmp(a, b, n * element) == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        wrong += memcmp(a + i * element, b + i * element, element) != 0;
    return wrong;
}

uint64_t mn_pattern_wrong(const struct mn_pattern *p, const void *out)
{
    size_t total = mn_collective_out(p->collective, p->job), element = p->job->element, length;
    mn_reduce_fn *reduce = mn_reduce_kernel(p->type, p->op);
    uint8_t *table = mn_zalloc(PERIOD * element);
    const uint8_t *got = out;
    uint64_t wrong = 0;

    for (size_t at = 0; at < total; at += length) {
        length = stretch(p, at, total);
        for (size_t i = 0; i < length && i < PERIOD; i++)
            mn_collective_expect(p->collective, p->job, reduce, value, (void *)p, at + i,
                                 table + i * element);
        for (size_t i = 0; i < length; i += PERIOD)
            wrong += differing(got + (at + i) * element, table,
                               length - i < PERIOD ? length - i : PERIOD, element);
    }
    free(table);
    return wrong;
}
