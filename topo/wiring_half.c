/* The narrowest place of a wiring: halves are improved by exchanging nodes, as Kernighan and Lin do
 * (An efficient heuristic procedure for partitioning graphs, Bell System Technical Journal 49,
 * 1970).
 */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/wiring.h"

#define STARTS 12

struct halves {
    int n;
    char *half;
    int *cables;         /* between two nodes, n to a row */
    int *gain;           /* cables to the other half, less those within the own */
    char *moved;         /* in this pass */
    int (*exchanged)[2]; /* pairs of this pass, in order */
};

static void find_gains(struct halves *h)
{
    memset(h->gain, 0, (size_t)h->n * sizeof *h->gain);
    memset(h->moved, 0, (size_t)h->n);
    for (int a = 0; a < h->n; a++)
        for (int b = 0; b < h->n; b++)
            h->gain[a] +=
                h->half[a] == h->half[b] ? -h->cables[a * h->n + b] : h->cables[a * h->n + b];
}

/* What the best exchange of two nodes that have not moved saves. */
static int best_pair(const struct halves *h, int pair[2])
{
    int best = 0, found = 0;

    for (int a = 0; a < h->n; a++)
        for (int b = 0; b < h->n && !h->moved[a] && !h->half[a]; b++) {
            int gain = h->gain[a] + h->gain[b] - 2 * h->cables[a * h->n + b];
            if (h->moved[b] || !h->half[b] || (found && gain <= best))
                continue;
            best = gain;
            found = 1;
            pair[0] = a;
            pair[1] = b;
        }
    return best;
}

static void exchange(struct halves *h, const int pair[2])
{
    for (int i = 0; i < 2; i++) {
        h->half[pair[i]] = !h->half[pair[i]];
        h->moved[pair[i]] = 1;
    }
    for (int v = 0; v < h->n; v++)
        for (int i = 0; i < 2; i++) {
            int cables = h->cables[v * h->n + pair[i]];
            h->gain[v] += h->half[v] == h->half[pair[i]] ? -2 * cables : 2 * cables;
        }
}

/* All nodes are exchanged, the best pair first; then back to where most was saved. */
static int pass(struct halves *h)
{
    int pairs = 0, sum = 0, best = 0, best_at = 0;

    for (int v = 0; v < h->n; v++)
        pairs += h->half[v] != 0;
    pairs = pairs < h->n - pairs ? pairs : h->n - pairs;
    find_gains(h);
    for (int i = 0; i < pairs; i++) {
        sum += best_pair(h, h->exchanged[i]);
        exchange(h, h->exchanged[i]);
        if (sum > best) {
            best = sum;
            best_at = i + 1;
        }
    }
    for (int i = best_at; i < pairs; i++)
        for (int k = 0; k < 2; k++)
            h->half[h->exchanged[i][k]] = !h->half[h->exchanged[i][k]];
    return best;
}

static int cut(const struct halves *h)
{
    int sum = 0;

    for (int a = 0; a < h->n; a++)
        for (int b = 0; b < a; b++)
            sum += h->half[a] != h->half[b] ? h->cables[a * h->n + b] : 0;
    return sum;
}

static void shuffle(struct halves *h, unsigned *seed)
{
    for (int i = h->n - 1; i > 0; i--) {
        *seed = *seed * 1103515245u + 12345u;
        int k = (int)((*seed >> 16) % (unsigned)(i + 1));
        char other = h->half[k];
        h->half[k] = h->half[i];
        h->half[i] = other;
    }
}

/* From the halves that the shape gives, and from some by lot, always the same. */
static void try_all(struct halves *h)
{
    char *best = mn_zalloc((size_t)h->n);
    unsigned seed = 1;
    int least = -1;

    for (int start = 0; start < STARTS; start++) {
        while (pass(h) > 0)
            continue;
        int now = cut(h);
        if (least < 0 || now < least) {
            least = now;
            memcpy(best, h->half, (size_t)h->n);
        }
        shuffle(h, &seed);
    }
    memcpy(h->half, best, (size_t)h->n);
    free(best);
}

void mn_wiring_narrow(struct mn_wiring *wiring)
{
    size_t n = (size_t)wiring->n;
    struct halves h = {.n = wiring->n, .half = wiring->half};

    if (n > MN_WIRING_NARROWED)
        return;
    h.cables = mn_zalloc(n * n * sizeof *h.cables);
    h.gain = mn_zalloc(n * sizeof *h.gain);
    h.moved = mn_zalloc(n);
    h.exchanged = mn_zalloc(n * sizeof *h.exchanged);
    for (size_t i = 0; i < 2 * wiring->n_cables; i++) {
        const int *nodes = wiring->cables[i / 2].nodes;
        h.cables[nodes[i % 2] * h.n + nodes[!(i % 2)]]++;
    }
    try_all(&h);
    free(h.cables);
    free(h.gain);
    free(h.moved);
    free(h.exchanged);
}
