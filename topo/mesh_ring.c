/* An order of nodes in which neighbours have a cable. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh.h"

#define STEPS 2000000 /* of the search; a dozen nodes need far fewer */

struct search {
    const char *cable; /* n x n */
    int *order, n;
    char *used;
    long steps;
};

static int joined(const struct search *s, int a, int b)
{
    return s->cable[a * s->n + b];
}

/* Places positions from at on, leaving out at most that many cables. */
static int place(struct search *s, int at, int missing)
{
    if (at == s->n)
        return missing - !joined(s, s->order[at - 1], s->order[0]) >= 0;
    for (int pass = 1; pass >= 0; pass--)
        for (int next = 1; next < s->n; next++) {
            int has = joined(s, s->order[at - 1], next);
            if (s->used[next] || has != pass || (!has && !missing) || --s->steps < 0)
                continue;
            s->used[next] = 1;
            s->order[at] = next;
            if (place(s, at + 1, missing - !has))
                return 1;
            s->used[next] = 0;
        }
    return 0;
}

int mn_mesh_ring(const struct mn_mesh *mesh, const int *nodes, int n, int *order)
{
    char *cable = mn_zalloc((size_t)n * (size_t)n + 1), *used = mn_zalloc((size_t)n + 1);
    int *found = mn_zalloc((size_t)(n + 1) * sizeof *found), missing = 0;
    struct search s = {.cable = cable, .order = found, .n = n, .used = used, .steps = STEPS};

    for (size_t l = 0; l < mesh->n_links; l++) {
        int a = -1, b = -1;
        for (int i = 0; i < n; i++) {
            a = nodes[i] == mesh->links[l].ends[0].node ? i : a;
            b = nodes[i] == mesh->links[l].ends[1].node ? i : b;
        }
        if (a >= 0 && b >= 0)
            cable[a * n + b] = cable[b * n + a] = 1;
    }
    if (n > 0)
        used[0] = 1;
    if (n > 1)
        while (s.steps > 0 && !place(&s, 1, missing)) {
            missing++;
            memset(used + 1, 0, (size_t)n - 1);
        }
    if (s.steps <= 0) { /* as given; counted as it is */
        for (int i = 0; i < n; i++)
            found[i] = i;
        missing = 0;
        for (int i = 0; i < n; i++)
            missing += !joined(&s, i, (i + 1) % n);
    }
    for (int i = 0; i < n; i++)
        order[i] = nodes[found[i]];
    free(cable);
    free(used);
    free(found);
    return n > 1 ? missing : 0;
}
