/* The shapes that are planned. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/wiring.h"

/* --- full mesh, line, star ------------------------------------------------------------------ */

static int full_needs(int n, int ports, int sizes[3])
{
    (void)ports, (void)sizes;
    return n - 1;
}

/* The last port leads to the next node, the one before to the one after that. */
static void full_make(struct mn_wiring *plan)
{
    int n = plan->n;

    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            mn_wiring_join(plan, a, (a - b - 1 + n) % n, b, (b - a - 1) % n, 0);
}

static int line_needs(int n, int ports, int sizes[3])
{
    (void)ports, (void)sizes;
    return n < 3 ? 0 : 2;
}

static void line_make(struct mn_wiring *plan)
{
    for (int i = 0; i + 1 < plan->n; i++)
        mn_wiring_join(plan, i, 1, i + 1, 0, 0);
}

static int star_needs(int n, int ports, int sizes[3])
{
    (void)ports, (void)sizes;
    return n < 4 ? 0 : n - 1;
}

static void star_make(struct mn_wiring *plan)
{
    for (int i = 1; i < plan->n; i++)
        mn_wiring_join(plan, 0, i - 1, i, 0, 0);
}

/* --- rings ---------------------------------------------------------------------------------- */

static int ring_needs(int n, int ports, int sizes[3])
{
    (void)ports, (void)sizes;
    return n < 4 ? 0 : 2; /* three are a full mesh */
}

static void ring_make(struct mn_wiring *plan)
{
    for (int i = 0; i < plan->n; i++)
        mn_wiring_join(plan, i, 1, (i + 1) % plan->n, 0, 0);
}

#define STEPS_ALL 2048 /* nodes of whom every step is tried */

/* The sum of all distances from one node of a ring with chords. */
static long reach(int n, int step, int *hops, int *queue)
{
    const int by[4] = {1, n - 1, step, n - step};
    long sum = 0;

    memset(hops, -1, (size_t)n * sizeof *hops);
    hops[0] = 0;
    queue[0] = 0;
    for (int at = 0, end = 1; at < end; at++) {
        sum += hops[queue[at]];
        for (int k = 0; k < 4; k++) {
            int next = (queue[at] + by[k]) % n;
            if (hops[next] >= 0)
                continue;
            hops[next] = hops[queue[at]] + 1;
            queue[end++] = next;
        }
    }
    return sum;
}

static int best_step(int n)
{
    int *hops = mn_zalloc(2 * (size_t)n * sizeof *hops), best = 0;
    long least = 0;
    int root = 2;

    while (root * root < n)
        root++;
    int first = n <= STEPS_ALL ? 2 : root - 8, last = n <= STEPS_ALL ? (n - 1) / 2 : root + 8;
    for (int step = first; step <= last; step++) {
        long sum = reach(n, step, hops, hops + n);
        if (best && sum >= least)
            continue;
        best = step;
        least = sum;
    }
    free(hops);
    return best;
}

static int chordal_needs(int n, int ports, int sizes[3])
{
    int across = ports == 3; /* one chord a node: to the node opposite */

    if (n < 6 || ports < 3 || (across && n % 2))
        return 0;
    sizes[0] = across ? n / 2 : best_step(n);
    return across ? 3 : 4;
}

static int common_divisor(int a, int b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* Along the nodes as i * times counts them (modulo n) a cable leads so many places on. */
static long places(int n, long step, int times)
{
    long at = step * times % n;

    return at < n - at ? at : n - at;
}

/* Half of the cables between halves of the nodes in that order. Nodes of one place, whom the chords
 * join where they lead no place on, may have to part. */
static long between(int n, int step, int times)
{
    long chord = places(n, step, times);

    return places(n, 1, times) + (chord ? chord : n / 2 % common_divisor(n, times));
}

/* Nodes can be counted by other steps than one, too: chords that then lead few places on are cut
 * less by halves of that order. */
static void chordal_half(struct mn_wiring *plan)
{
    int n = plan->n, step = plan->sizes[0], times = 1, taken = 0;

    for (int m = 2; m <= n / 2; m++)
        if (between(n, step, m) < between(n, step, times))
            times = m;
    int equal = common_divisor(n, times), whole = n / 2 / equal;
    for (int i = 0; i < n; i++) {
        plan->half[i] = (long)i * times % n / equal < whole;
        taken += plan->half[i];
    }
    for (int i = 0; i < n && taken < n / 2; i++)
        if ((long)i * times % n / equal == whole) {
            plan->half[i] = 1;
            taken++;
        }
}

static void chordal_make(struct mn_wiring *plan)
{
    int n = plan->n, step = plan->sizes[0];

    ring_make(plan);
    chordal_half(plan);
    for (int i = 0; i < (2 * step == n ? step : n); i++)
        mn_wiring_join(plan, i, 2 * step == n ? 2 : 3, (i + step) % n, 2, 1);
}

/* --- hypercube ------------------------------------------------------------------------------ */

static int cube_needs(int n, int ports, int sizes[3])
{
    int bits = 0;

    (void)ports, (void)sizes;
    while (1 << bits < n)
        bits++;
    return n < 8 || 1 << bits != n ? 0 : bits;
}

static int gray(int i)
{
    return i ^ i >> 1;
}

static void cube_make(struct mn_wiring *plan)
{
    int *at = mn_zalloc((size_t)plan->n * sizeof *at);

    for (int i = 0; i < plan->n; i++)
        at[gray(i)] = i;
    for (int i = 0; i < plan->n; i++)
        for (int bit = 0; 1 << bit < plan->n; bit++)
            if (!(gray(i) >> bit & 1))
                mn_wiring_join(plan, i, bit, at[gray(i) | 1 << bit], bit, bit);
    free(at);
}

/* --- tori ----------------------------------------------------------------------------------- */

/* Two nodes in a direction have one cable. */
static int torus_ports(const int sizes[3])
{
    int ports = 0;

    for (int d = 0; d < 3 && sizes[d]; d++)
        ports += sizes[d] == 2 ? 1 : 2;
    return ports;
}

static int torus_hops(const int sizes[3])
{
    return sizes[0] / 2 + sizes[1] / 2 + sizes[2] / 2;
}

/* Of the tori that fit the one with the shortest ways. */
static int best_torus(int n, int ports, int flat, int sizes[3])
{
    int best[3] = {0, 0, 0};

    for (int c = flat ? 1 : 2; c * c * (flat ? 1 : c) <= n; c++)
        for (int b = flat ? 2 : c; (flat ? c == 1 : n % c == 0) && b * b <= n / c; b++) {
            int now[3] = {n / c / b, b, flat ? 0 : c};
            if (n / c % b || now[0] < 3 || torus_ports(now) > ports ||
                (best[0] && torus_hops(now) > torus_hops(best)))
                continue;
            memcpy(best, now, sizeof best);
        }
    memcpy(sizes, best, sizeof best);
    return best[0] ? torus_ports(best) : 0;
}

static int torus2_needs(int n, int ports, int sizes[3])
{
    return best_torus(n, ports, 1, sizes);
}

static int torus3_needs(int n, int ports, int sizes[3])
{
    return best_torus(n, ports, 0, sizes);
}

/* A ring through rows rings of cols nodes, of which each node is joined to those of its column in
 * the rows beside it: row by row, each from where the one before has ended, in one direction or the
 * other, so that the last ends above the first node. 0: that takes as many columns as rows. */
static int ring_of_rows(int rows, int cols, int *ring)
{
    int left = rows % 2 == 0 ? rows / 2 : (rows + cols) / 2; /* rows that go from right to left */
    int col = 0, at = 0;

    if (rows % 2 && (cols % 2 == 0 || rows < cols))
        return 0;
    for (int row = 0; row < rows; row++) {
        int step = row % 2 && left > 0 ? -1 : rows - row <= left ? -1 : 1;
        left -= step < 0;
        for (int k = 0; k < cols; k++) {
            ring[at++] = row * cols + col;
            if (k < cols - 1)
                col = (col + step + cols) % cols;
        }
    }
    return 1;
}

/* at[i]: the i-th node along a ring, as its place in row-major order. The rows are the first
 * direction where that can be, else the others. */
static void torus_ring(const int sizes[3], int *at)
{
    int cols = sizes[1] * (sizes[2] ? sizes[2] : 1), n = sizes[0] * cols;
    int *inner = mn_zalloc((size_t)(cols + 1) * sizeof *inner);
    int *ring = mn_zalloc((size_t)n * sizeof *ring);

    for (int i = 0; i < cols; i++)
        inner[i] = i;
    if (sizes[2] && !ring_of_rows(sizes[1], sizes[2], inner)) {
        ring_of_rows(sizes[2], sizes[1], inner);
        for (int i = 0; i < cols; i++)
            inner[i] = inner[i] % sizes[1] * sizes[2] + inner[i] / sizes[1];
    }
    if (ring_of_rows(sizes[0], cols, ring)) {
        for (int i = 0; i < n; i++)
            at[i] = ring[i] / cols * cols + inner[ring[i] % cols];
    } else {
        ring_of_rows(cols, sizes[0], ring);
        for (int i = 0; i < n; i++)
            at[i] = ring[i] % sizes[0] * cols + inner[ring[i] / sizes[0]];
    }
    free(inner);
    free(ring);
}

/* To the next one in a direction: the lower port of that direction leads back, the upper on. */
static void torus_join(struct mn_wiring *plan, const int *node, int place, int d, int slot)
{
    int size = plan->sizes[d], stride = 1;

    for (int k = d + 1; k < 3 && plan->sizes[k]; k++)
        stride *= plan->sizes[k];
    int x = place / stride % size, next = place + ((x + 1) % size - x) * stride;
    if (size == 2 && x == 0)
        mn_wiring_join(plan, node[place], slot, node[next], slot, d);
    else if (size > 2)
        mn_wiring_join(plan, node[place], slot + 1, node[next], slot, d);
}

static void torus_make(struct mn_wiring *plan)
{
    int n = plan->n;
    int *at = mn_zalloc((size_t)n * sizeof *at), *node = mn_zalloc((size_t)n * sizeof *node);

    torus_ring(plan->sizes, at);
    for (int i = 0; i < n; i++)
        node[at[i]] = i;
    for (int i = 0; i < n; i++) {
        int slot = 0;
        for (int d = 0; d < 3 && plan->sizes[d]; d++) {
            torus_join(plan, node, at[i], d, slot);
            slot += plan->sizes[d] == 2 ? 1 : 2;
        }
        plan->half[i] = 2 * at[i] >= n;
    }
    free(at);
    free(node);
}

const struct mn_wiring_shape mn_wiring_shapes[] = {
    {"full-mesh", "each node with each", full_needs, full_make, 0},
    {"hypercube", "2, 4, 8, … nodes, a cable for each power", cube_needs, cube_make, 0},
    {"torus-3d", "a block whose ends are joined in each direction", torus3_needs, torus_make, 0},
    {"torus-2d", "a sheet whose ends are joined in both directions", torus2_needs, torus_make, 0},
    {"chordal-ring", "two rings: one to the next, one to the node some steps on", chordal_needs,
     chordal_make, 0},
    {"ring", "each node with the next, the last with the first", ring_needs, ring_make, 0},
    {"star", "one node with all others", star_needs, star_make, 1},
    {"line", "a ring with a cable left out", line_needs, line_make, 1},
    {NULL, NULL, NULL, NULL, 0},
};

const struct mn_wiring_shape *mn_wiring_shape(const char *name)
{
    for (const struct mn_wiring_shape *shape = mn_wiring_shapes; shape->name; shape++)
        if (!strcmp(shape->name, name))
            return shape;
    return NULL;
}
