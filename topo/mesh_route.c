/* Routes: pairs of NICs without a common subnet, between which routers pass packets on. */
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_read.h"
#include "topo/mesh_route.h"

/* --- reading -------------------------------------------------------------------------------- */

static struct mn_mesh_route *reader_route(struct mn_reader *r)
{
    return &r->mesh->routes[r->mesh->n_routes - 1];
}

static enum mn_err route_via(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_name(r, key, value, reader_route(r)->via);
}

static int same_ends(const struct mn_mesh_route *a, const struct mn_mesh_route *b)
{
    return !memcmp(a->ends, b->ends, sizeof a->ends) ||
           (!memcmp(&a->ends[0], &b->ends[1], sizeof *a->ends) &&
            !memcmp(&a->ends[1], &b->ends[0], sizeof *a->ends));
}

static enum mn_err route_ends(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_route *route = reader_route(r);
    struct mn_addr subnet;
    enum mn_err err = mn_read_ends(r, key, value, route->ends);
    if (err)
        return err;
    if (mn_link_subnet(mn_mesh_end_nic(r->mesh, &route->ends[0]),
                       mn_mesh_end_nic(r->mesh, &route->ends[1]), &subnet))
        return mn_read_fail(r, value,
                            "ends: %.130s and %.130s share a subnet: a link, for which no route is "
                            "needed",
                            value->items[0]->text, value->items[1]->text);
    for (const struct mn_mesh_route *other = r->mesh->routes; other < route; other++)
        if (same_ends(other, route))
            return mn_read_fail(r, value,
                                "ends: the route of %.130s and %.130s is there already, on line %d",
                                value->items[0]->text, value->items[1]->text, other->line);
    return MN_OK;
}

static enum mn_err read_route(struct mn_reader *r, const struct mn_yaml *value)
{
    static const struct mn_read_key keys[] = {{"ends", route_ends, 1},
                                              {"via", route_via, 1},
                                              {NULL, NULL, 0}};
    struct mn_mesh *mesh = r->mesh;
    struct mn_mesh_route *route = mn_push(&mesh->routes, &mesh->n_routes, sizeof *route, r->diag);
    if (!route)
        return MN_ERR_NOMEM;
    route->line = value->line;
    route->column = value->column;
    return mn_read_map(r, "a route", value, keys);
}

enum mn_err mn_read_routes(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_list(r, key, value, MN_MESH_LINKS_MAX,
                        "a list of routes (- {ends: […], via: …})", read_route);
}

/* --- changing ------------------------------------------------------------------------------- */

void mn_mesh_routes_follow(struct mn_mesh *mesh, int node, const struct mn_mesh_node *now)
{
    size_t kept = 0;
    for (size_t i = 0; i < mesh->n_routes; i++)
        if (mn_mesh_ends_follow(mesh, mesh->routes[i].ends, node, now))
            mesh->routes[kept++] = mesh->routes[i];
    mesh->n_routes = kept;
}

static int has_route(const struct mn_mesh *mesh, const struct mn_mesh_route *route)
{
    for (size_t i = 0; i < mesh->n_routes; i++)
        if (same_ends(&mesh->routes[i], route))
            return 1;
    return 0;
}

void mn_mesh_routes_merge(struct mn_mesh *mesh, const struct mn_mesh *other)
{
    for (size_t i = 0; i < other->n_routes; i++) {
        struct mn_mesh_route route = other->routes[i];
        int known = 1;
        for (int side = 0; side < 2; side++) {
            const struct mn_mesh_end *end = &other->routes[i].ends[side];
            int node = mn_mesh_node_index(mesh, other->nodes[end->node].name);
            int nic =
                node < 0 ? -1
                         : mn_mesh_nic_index(&mesh->nodes[node], mn_mesh_end_nic(other, end)->name);
            route.ends[side] = (struct mn_mesh_end){node, nic};
            known &= nic >= 0;
        }
        if (known && !has_route(mesh, &route))
            *(struct mn_mesh_route *)mn_grow((void **)&mesh->routes, &mesh->n_routes,
                                             sizeof route) = route;
    }
}
