/* Numbering a mesh: which cables need it, and out of which pool. */
#include "topo/address_impl.h"

#include <stdlib.h>
#include <string.h>

#include "topo/address_pool.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

struct mn_mesh_nic *mn_address_nic(const struct mn_address_work *w, size_t link, int side)
{
    const struct mn_mesh_end *end = &w->mesh->links[link].ends[side];

    return &w->mesh->nodes[end->node].nics[end->nic];
}

char *mn_address_strip(const struct mn_address_work *w, size_t link, int side)
{
    const struct mn_mesh_end *end = &w->mesh->links[link].ends[side];

    return &w->strip[w->first[end->node] + (size_t)end->nic];
}

int mn_address_is_of_cable(const struct mn_addr *addr, int family)
{
    return addr->family == family && !mn_addr_is_link_local(addr) &&
           addr->prefix < (family == AF_INET ? 32 : 128);
}

/* The subnet that both ends are in. */
static int common_net(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b, int family,
                      struct mn_addr *net)
{
    for (size_t i = 0; i < a->n_addrs; i++)
        for (size_t j = 0; j < b->n_addrs; j++) {
            const struct mn_addr *x = &a->addrs[i], *y = &b->addrs[j];
            if (!mn_address_is_of_cable(x, family) || !mn_addr_share_subnet(x, y))
                continue;
            *net = mn_addr_network(x->prefix <= y->prefix ? x : y);
            return 1;
        }
    return 0;
}

/* --- which cables --------------------------------------------------------------------------- */

static int by_names(const void *x, const void *y)
{
    const struct mn_cable *a = x, *b = y;
    int d = strverscmp(a->nodes[0], b->nodes[0]);

    return d ? d : strverscmp(a->nodes[1], b->nodes[1]);
}

static int by_all(const void *x, const void *y)
{
    const struct mn_cable *a = x, *b = y;
    int d = by_names(a, b);

    return d ? d : strverscmp(a->name, b->name);
}

static void list_cables(struct mn_address_work *w)
{
    const struct mn_mesh *mesh = w->mesh;

    w->cables = mn_zalloc((mesh->n_links + 1) * sizeof *w->cables);
    for (size_t l = 0; l < mesh->n_links; l++) {
        struct mn_cable *c = &w->cables[l];
        const char *a = mesh->nodes[mesh->links[l].ends[0].node].name;
        const char *b = mesh->nodes[mesh->links[l].ends[1].node].name;
        c->link = l;
        c->name = mesh->links[l].name;
        c->low = strverscmp(a, b) > 0;
        c->nodes[0] = c->low ? b : a;
        c->nodes[1] = c->low ? a : b;
        if (!w->plan->renumber)
            common_net(mn_address_nic(w, l, 0), mn_address_nic(w, l, 1), w->plan->family, &c->net);
    }
    if (mesh->n_links)
        qsort(w->cables, mesh->n_links, sizeof *w->cables, by_all);
    for (size_t i = 1; i < mesh->n_links; i++)
        w->cables[i].group =
            w->cables[i - 1].group + (by_names(&w->cables[i - 1], &w->cables[i]) != 0);
}

/* The ends of cables that get a number lose what they had, but for those that have another cable
 * which keeps its own. */
static void mark_strips(struct mn_address_work *w)
{
    size_t total = 0;

    w->first = mn_zalloc((w->mesh->n_nodes + 1) * sizeof *w->first);
    for (size_t n = 0; n < w->mesh->n_nodes; n++, w->first[n] = total)
        total += w->mesh->nodes[n].n_nics;
    w->strip = mn_zalloc(total + 1);
    for (int kept = 0; kept < 2; kept++)
        for (size_t i = 0; i < 2 * w->mesh->n_links; i++)
            if (!!w->cables[i / 2].net.family == kept)
                *mn_address_strip(w, w->cables[i / 2].link, i % 2) = (char)!kept;
}

void mn_address_use(struct mn_address_work *w, const struct mn_addr *addr)
{
    if (addr->family == w->plan->family)
        mn_ranges_add(&w->used, mn_subnet_range(addr));
}

static void find_used(struct mn_address_work *w)
{
    for (size_t n = 0; n < w->mesh->n_nodes; n++)
        for (size_t i = 0; i < w->mesh->nodes[n].n_nics; i++) {
            const struct mn_mesh_nic *nic = &w->mesh->nodes[n].nics[i];
            for (size_t a = 0; a < nic->n_addrs; a++)
                if (!w->strip[w->first[n] + i] ||
                    !mn_address_is_of_cable(&nic->addrs[a], w->plan->family))
                    mn_address_use(w, &nic->addrs[a]);
        }
    for (size_t i = 0; i < w->taken->count; i++)
        if (w->taken->items[i].how == MN_TAKEN_USED)
            mn_address_use(w, &w->taken->items[i].net);
    mn_ranges_sort(&w->used);
}

/* --- places --------------------------------------------------------------------------------- */

static enum mn_err choose_pool(struct mn_address_work *w, struct mn_diag *diag)
{
    const struct mn_mesh *mesh = w->mesh;
    struct mn_addr *nets = mn_zalloc((mesh->n_links + 1) * sizeof *nets);
    size_t count = 0;

    for (size_t i = 0; i < mesh->n_links; i++)
        if (w->cables[i].net.family)
            nets[count++] = w->cables[i].net;
    int prefix = mn_pool_prefix(w->plan->family, w->prefix, mesh->n_links);
    enum mn_err err =
        mn_pool_choose(w->plan->family, prefix, nets, count, w->taken, &w->done->pool, diag);
    free(nets);
    return err;
}

static int needs_place(const struct mn_cable *c)
{
    return !c->net.family && !c->beside.family;
}

/* Where the first of a group's subnets in the pool lies. */
static void find_home(const struct mn_address_work *w, const struct mn_place_rules *r, size_t at,
                      struct mn_place *place)
{
    const struct mn_cable *c = &w->cables[at];

    for (size_t i = at; i-- > 0 && w->cables[i].group == c->group;)
        at = i;
    for (; at < w->mesh->n_links && w->cables[at].group == c->group; at++) {
        const struct mn_addr *net = &w->cables[at].net;
        mn_wide first = net->family ? mn_subnet_range(net).first : 0;
        if (!net->family || first < r->pool.first || first > r->pool.last)
            continue;
        if (!place->has_home || first < place->home)
            place->home = first;
        place->has_home = 1;
    }
    place->home -= place->home % r->block;
}

static enum mn_err too_small(const struct mn_address_work *w, size_t found, struct mn_diag *diag)
{
    const struct mn_addr *pool = &w->done->pool;
    char text[MN_ADDR_TEXT];
    int prefix = pool->prefix;

    while (prefix > 0 &&
           mn_subnet_size(pool->family, prefix) / mn_subnet_size(pool->family, w->prefix) <
               w->n_places +
                   mn_subnet_size(pool->family, pool->prefix) /
                       mn_subnet_size(pool->family, w->prefix) -
                   found)
        prefix--;
    return mn_fail(diag, MN_ERR_CONFIG,
                   "the pool %s is too small: %zu cable%s need%s a /%d each, and beside what is in "
                   "use it has room for %zu; expected a /%d or wider",
                   mn_addr_format(pool, text, sizeof text), w->n_places,
                   w->n_places == 1 ? "" : "s", w->n_places == 1 ? "s" : "", w->prefix, found,
                   prefix);
}

static enum mn_err find_places(struct mn_address_work *w, struct mn_diag *diag)
{
    const struct mn_addr *pool = &w->done->pool;
    int shared = pool->family == AF_INET ? 24 : 64;
    struct mn_place_rules rules = {.used = &w->used, .pool = mn_subnet_range(pool)};

    shared = shared < pool->prefix ? pool->prefix : shared > w->prefix ? w->prefix : shared;
    rules.size = mn_subnet_size(pool->family, w->prefix);
    rules.block = mn_subnet_size(pool->family, shared);
    w->places = mn_zalloc((w->mesh->n_links + 1) * sizeof *w->places);
    for (size_t i = 0; i < w->mesh->n_links; i++)
        if (needs_place(&w->cables[i])) {
            struct mn_place *place = &w->places[w->n_places++];
            place->group = w->cables[i].group;
            find_home(w, &rules, i, place);
        }
    size_t found = mn_place_all(w->places, w->n_places, &rules);
    return found < w->n_places ? too_small(w, found, diag) : MN_OK;
}

static enum mn_err check_plan(const struct mn_address_work *w, struct mn_diag *diag)
{
    const struct mn_addr *pool = &w->plan->pool;
    int ipv4 = w->plan->family == AF_INET;
    char text[MN_ADDR_TEXT];

    if (ipv4 ? w->prefix != 31 && w->prefix != 30
             : w->prefix != 127 && w->prefix != 126 && w->prefix != 64)
        return mn_fail(diag, MN_ERR_CONFIG, "a cable's subnet of /%d: expected %s", w->prefix,
                       ipv4 ? "/31 or /30" : "/127, /126 or /64 for IPv6");
    if (!pool->family)
        return MN_OK;
    mn_addr_format(pool, text, sizeof text);
    if (pool->family != w->plan->family)
        return mn_fail(diag, MN_ERR_CONFIG, "the pool %s: expected one of IPv%c", text,
                       ipv4 ? '4' : '6');
    const char *reserved = mn_pool_reserved(pool);
    if (pool->prefix >= 0 && reserved)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the pool %s holds addresses that are %s; expected a private range, such as "
                       "%s",
                       text, reserved,
                       w->plan->family == AF_INET ? "10.66.0.0/16" : "fd00:66::/48");
    if (pool->prefix < 1 || pool->prefix > w->prefix)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the pool %s: expected a prefix length, of /%d or wider, such as %s", text,
                       w->prefix, ipv4 ? "10.66.0.0/16" : "fd12:3456:789a::/48");
    return MN_OK;
}

enum mn_err mn_address_mesh(struct mn_mesh *mesh, const struct mn_address_plan *plan,
                            const struct mn_takens *taken, struct mn_addressed *done,
                            struct mn_diag *diag)
{
    struct mn_address_work w = {.mesh = mesh, .plan = plan, .taken = taken, .done = done};
    enum mn_err err = MN_OK;
    int needed = 0;

    *done = (struct mn_addressed){.states = NULL};
    done->states = mn_zalloc((mesh->n_links + 1) * sizeof *done->states);
    w.prefix = plan->prefix ? plan->prefix : plan->family == AF_INET ? 31 : 127;
    err = check_plan(&w, diag);
    if (err)
        return err;
    list_cables(&w);
    mark_strips(&w);
    find_used(&w);
    mn_address_find_halves(&w);
    for (size_t i = 0; i < mesh->n_links; i++)
        needed |= needs_place(&w.cables[i]);
    done->pool = plan->pool.family ? mn_addr_network(&plan->pool) : done->pool;
    if (needed && !plan->pool.family)
        err = choose_pool(&w, diag);
    if (needed && !err)
        err = find_places(&w, diag);
    if (!err)
        err = mn_address_check_room(&w, diag);
    if (!err) {
        mn_address_write(&w);
        mn_address_set_mtu(&w);
    }
    free(w.cables);
    free(w.first);
    free(w.strip);
    free(w.places);
    mn_ranges_free(&w.used);
    return err;
}

void mn_addressed_free(struct mn_addressed *done)
{
    free(done->states);
    *done = (struct mn_addressed){.states = NULL};
}
