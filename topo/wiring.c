#include "topo/wiring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

void mn_wiring_join(struct mn_wiring *plan, int a, int slot_a, int b, int slot_b, int kind)
{
    for (int k = 0; k < plan->parallel; k++) {
        struct mn_wiring_cable *cable =
            mn_grow((void **)&plan->cables, &plan->n_cables, sizeof *cable);
        *cable = (struct mn_wiring_cable){
            .nodes = {a, b},
            .ports = {slot_a * plan->parallel + k, slot_b * plan->parallel + k},
            .kind = kind,
        };
        for (int side = 0; side < 2; side++)
            if (cable->ports[side] >= plan->ports)
                plan->ports = cable->ports[side] + 1;
    }
}

static int by_first_end(const void *x, const void *y)
{
    const struct mn_wiring_cable *a = x, *b = y;
    int d = a->nodes[0] - b->nodes[0];

    return d ? d : a->ports[0] - b->ports[0];
}

int mn_wiring_make(const struct mn_wiring_shape *shape, int n, int ports, int parallel,
                   struct mn_wiring *plan)
{
    *plan = (struct mn_wiring){.shape = shape, .n = n, .parallel = parallel};
    int needs = n < 2 || parallel < 1 ? 0 : shape->needs(n, ports / parallel, plan->sizes);

    if (!needs || needs * parallel > ports)
        return 0;
    plan->half = mn_zalloc((size_t)n);
    for (int i = 0; i < n; i++)
        plan->half[i] = 2 * i >= n;
    shape->make(plan);
    mn_wiring_narrow(plan);
    qsort(plan->cables, plan->n_cables, sizeof *plan->cables, by_first_end);
    return 1;
}

void mn_wiring_free(struct mn_wiring *plan)
{
    free(plan->cables);
    free(plan->half);
    *plan = (struct mn_wiring){.shape = NULL};
}

char *mn_wiring_title(const struct mn_wiring *plan, char *text, size_t size)
{
    const int *s = plan->sizes;
    char part[48] = "", times[32] = "";

    if (s[2])
        snprintf(part, sizeof part, " %dx%dx%d", s[0], s[1], s[2]);
    else if (s[1])
        snprintf(part, sizeof part, " %dx%d", s[0], s[1]);
    else if (s[0])
        snprintf(part, sizeof part, " +%d", s[0]);
    if (plan->parallel > 1)
        snprintf(times, sizeof times, ", %d each", plan->parallel);
    snprintf(text, size, "%s%s%s", plan->shape->name, part, times);
    return text;
}

/* --- all of them ---------------------------------------------------------------------------- */

static void add(struct mn_wiring **plans, size_t *count, const struct mn_wiring_shape *shape, int n,
                int ports, int parallel)
{
    struct mn_wiring plan;

    if (mn_wiring_make(shape, n, ports, parallel, &plan))
        *(struct mn_wiring *)mn_grow((void **)plans, count, sizeof plan) = plan;
    else
        mn_wiring_free(&plan);
}

static double worth(const struct mn_wiring *plan, enum mn_wiring_goal goal)
{
    const struct mn_wiring_figures *f = &plan->figures;

    switch (goal) {
    case MN_WIRING_ALL_REDUCE:
        return f->all_reduce;
    case MN_WIRING_ALL_TO_ALL:
        return f->all_to_all;
    case MN_WIRING_FEW_CABLES:
        return 1.0 / (double)plan->n_cables;
    default:
        return f->all_reduce * f->all_to_all;
    }
}

/* Figures that differ by the last bits are the same. */
static int is_better(const struct mn_wiring *a, const struct mn_wiring *b, enum mn_wiring_goal goal)
{
    double x = worth(a, goal), y = worth(b, goal);

    if (a->figures.cut != b->figures.cut)
        return !a->figures.cut;
    if (x > y * (1 + 1e-6) || y > x * (1 + 1e-6))
        return x > y;
    if (a->figures.diameter != b->figures.diameter)
        return a->figures.diameter < b->figures.diameter;
    return a->n_cables < b->n_cables;
}

size_t mn_wiring_all(int n, int ports, const struct mn_wiring_shape *only,
                     const struct mn_wiring_speed *speed, enum mn_wiring_goal goal,
                     struct mn_wiring **plans)
{
    size_t count = 0;

    *plans = NULL;
    for (const struct mn_wiring_shape *shape = mn_wiring_shapes; shape->name; shape++) {
        int sizes[3], needs = n < 2 ? 0 : shape->needs(n, ports, sizes);
        if (!needs || needs > ports || (only && shape != only))
            continue;
        add(plans, &count, shape, n, ports, 1);
        if (ports / needs > 1 && !shape->beside)
            add(plans, &count, shape, n, ports, ports / needs);
    }
    for (size_t i = 0; i < count; i++)
        mn_wiring_judge(&(*plans)[i], speed);
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && is_better(&(*plans)[k], &(*plans)[k - 1], goal); k--) {
            struct mn_wiring swap = (*plans)[k];
            (*plans)[k] = (*plans)[k - 1];
            (*plans)[k - 1] = swap;
        }
    return count;
}
