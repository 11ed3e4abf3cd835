/* Which addresses lie behind others, and the way there. */
#include "fleet/apply_far.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/transit.h"

/* Of one search: what each node has been found to need is found once. */
struct search {
    const struct mn_mesh *mesh;
    struct mn_transit **transits; /* by node; NULL: not found yet */
    char *peers;                  /* by node: may lie on the way */
};

static const struct mn_transit *transit_of(struct search *s, int node)
{
    if (!s->transits[node]) {
        s->transits[node] = mn_zalloc(sizeof **s->transits);
        mn_transit_find(s->mesh, node, s->transits[node]);
    }
    return s->transits[node];
}

static int owner_of(const struct mn_mesh *mesh, const struct mn_addr *addr)
{
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++)
            for (size_t k = 0; k < mesh->nodes[n].nics[i].n_addrs; k++)
                if (mn_addr_equal(&mesh->nodes[n].nics[i].addrs[k], addr))
                    return (int)n;
    return -1;
}

static int is_beside(const struct mn_mesh_node *node, const struct mn_addr *addr)
{
    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t k = 0; k < node->nics[i].n_addrs; k++)
            if (mn_addr_share_subnet(&node->nics[i].addrs[k], addr))
                return 1;
    return 0;
}

/* The longest one wins, as in the kernel. */
static const struct mn_transit_route *route_to(const struct mn_transit *t,
                                               const struct mn_addr *addr)
{
    const struct mn_transit_route *best = NULL;

    for (size_t i = 0; i < t->n_routes; i++) {
        struct mn_addr at = *addr;
        at.prefix = t->routes[i].to.prefix;
        at = mn_addr_network(&at);
        if (mn_addr_equal(&at, &t->routes[i].to) && (!best || at.prefix > best->to.prefix))
            best = &t->routes[i];
    }
    return best;
}

/* The nodes between self and owner; 0: none are (another of a neighbour's addresses, too), or there
 * is no way over peers. */
static size_t find_path(struct search *s, int self, int owner, const struct mn_addr *addr,
                        int **path)
{
    size_t n = 0;

    *path = NULL;
    for (int at = self; !is_beside(&s->mesh->nodes[at], addr);) {
        const struct mn_transit_route *route = route_to(transit_of(s, at), addr);
        at = route ? owner_of(s->mesh, &route->via) : -1;
        if (at == owner)
            break;
        if (at < 0 || !s->peers[at] || n == s->mesh->n_nodes) {
            free(*path);
            *path = NULL;
            return 0;
        }
        *(int *)mn_grow((void **)path, &n, sizeof **path) = at;
    }
    return n;
}

static void add_addr(struct search *s, int self, int node, const struct mn_addr *addr,
                     struct mn_far_check **checks, size_t *n, size_t *left_out)
{
    int *path = NULL;
    size_t hops = 0;

    /* In a large mesh most are: whether there is a way to them is not looked for. */
    if (*n == MN_FAR_MAX)
        *left_out += !is_beside(&s->mesh->nodes[self], addr);
    else
        hops = find_path(s, self, node, addr, &path);
    if (hops > MN_FAR_HOPS) {
        ++*left_out;
        free(path);
    } else if (hops) {
        struct mn_far_check *c = mn_grow((void **)checks, n, sizeof *c);
        *c = (struct mn_far_check){.node = node,
                                   .far = *addr,
                                   .path = path,
                                   .n_path = hops,
                                   .by = -1};
    }
}

static void add_node(struct search *s, int self, int node, struct mn_far_check **checks, size_t *n,
                     size_t *left_out)
{
    const struct mn_mesh_node *far = &s->mesh->nodes[node];

    for (size_t i = 0; i < far->n_nics; i++)
        for (size_t k = 0; k < far->nics[i].n_addrs; k++)
            if (far->nics[i].role != MN_ROLE_MANAGEMENT &&
                !mn_addr_is_link_local(&far->nics[i].addrs[k]))
                add_addr(s, self, node, &far->nics[i].addrs[k], checks, n, left_out);
}

size_t mn_far_find(const struct mn_mesh *mesh, int node, const char *const *peers, size_t n_peers,
                   struct mn_far_check **checks, size_t *left_out)
{
    struct search s = {.mesh = mesh};
    size_t n = 0, n_nodes = mesh->n_nodes;

    *checks = NULL;
    *left_out = 0;
    s.transits = mn_zalloc((n_nodes + 1) * sizeof *s.transits);
    s.peers = mn_zalloc(n_nodes + 1);
    for (size_t i = 0; i < n_peers; i++)
        if (mn_mesh_node_index(mesh, peers[i]) >= 0)
            s.peers[mn_mesh_node_index(mesh, peers[i])] = 1;
    for (size_t i = 1; i < n_nodes; i++) {
        int other = (int)(((size_t)node + i) % n_nodes);
        if (s.peers[other])
            add_node(&s, node, other, checks, &n, left_out);
    }
    for (size_t i = 0; i < n_nodes; i++)
        if (s.transits[i]) {
            mn_transit_free(s.transits[i]);
            free(s.transits[i]);
        }
    free(s.transits);
    free(s.peers);
    return n;
}

void mn_far_free(struct mn_far_check *checks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(checks[i].path);
    free(checks);
}

/* --- what others show ------------------------------------------------------------------------- */

static size_t common(const struct mn_far_check *a, const struct mn_far_check *b)
{
    size_t n = 0;

    while (n < a->n_path && n < b->n_path && a->path[n] == b->path[n])
        n++;
    return n;
}

/* So many nodes on the way to c are known to have had what was sent to d. */
static size_t known_by(const struct mn_far_check *d, const struct mn_far_check *c)
{
    size_t both = common(d, c);

    return d->answer == MN_FAR_ANSWERS || d->got > both ? both : d->got;
}

static int is_open(const struct mn_far_check *c)
{
    return c->answer == MN_FAR_SILENT && c->got < c->n_path;
}

static int is_covered(const struct mn_far_check *checks, size_t n, const size_t *picked,
                      size_t n_picked, const struct mn_far_check *c)
{
    for (size_t i = 0; i < n_picked; i++)
        if (common(&checks[picked[i]], c) == c->n_path)
            return 1;
    for (size_t i = 0; i < n; i++)
        if (known_by(&checks[i], c) == c->n_path)
            return 1;
    return 0;
}

static int is_picked(const size_t *picked, size_t n_picked, size_t i)
{
    for (size_t k = 0; k < n_picked; k++)
        if (picked[k] == i)
            return 1;
    return 0;
}

size_t mn_far_to_trace(const struct mn_far_check *checks, size_t n, size_t most, size_t *picked)
{
    size_t n_picked = 0;

    while (n_picked < most) {
        const struct mn_far_check *best = NULL;
        for (size_t i = 0; i < n; i++)
            if (is_open(&checks[i]) && (!best || checks[i].n_path > best->n_path) &&
                !is_covered(checks, n, picked, n_picked, &checks[i]))
                best = &checks[i];
        if (!best)
            break;
        picked[n_picked++] = (size_t)(best - checks);
    }
    for (size_t i = 0; i < n && n_picked < most; i++)
        if (is_open(&checks[i]) && !is_picked(picked, n_picked, i))
            picked[n_picked++] = i;
    return n_picked;
}

void mn_far_share(struct mn_far_check *checks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n && is_open(&checks[i]) && !checks[i].traced; k++) {
            size_t known = known_by(&checks[k], &checks[i]);
            checks[i].got = known > checks[i].got ? known : checks[i].got;
        }
}
