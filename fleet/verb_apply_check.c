/* Whether what was applied carries, as this node sees it: see fleet/apply_run.h for who judges. */
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_check.h"
#include "fleet/apply_far.h"
#include "fleet/verb_apply_impl.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define WAIT_MAX_MS 30000
#define LEAST_MS    2000  /* for the rest, where neighbours have taken all the time */
#define TRACE_MS    2000  /* mn_far_checks_ask's, beyond what it is given */
#define LIMIT_MS    80000 /* less than the verb's seconds */

struct check {
    struct mn_apply_site site;
    unsigned wait_ms, carry_ms;
    double limit; /* for all of it: by then the timers would undo */
    const char **peers, **carried;
    size_t n_peers, n_carried;
    struct mn_cable_check *cables;
    size_t n_cables;
    struct mn_far_check *far;
    size_t n_far, far_left_out;
    struct mn_far_obstacle *obstacles;
    size_t n_obstacles;
    char **dark, **missing;
    size_t n_dark, n_missing;
};

static void add_addr(cJSON *map, const struct mn_addr *addr)
{
    struct mn_addr alone = *addr;
    char text[MN_ADDR_TEXT];

    alone.prefix = -1;
    cJSON_AddStringToObject(map, "address", mn_addr_format(&alone, text, sizeof text));
}

static cJSON *cables_json(const struct mn_cable_check *checks, size_t n)
{
    static const char *const words[] = {[MN_CABLE_SILENT] = "silent",
                                        [MN_CABLE_ANSWERS] = "answers",
                                        [MN_CABLE_CROSSED] = "wrong NIC",
                                        [MN_CABLE_DARK] = "no carrier"};
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; i < n; i++) {
        cJSON *map = cJSON_CreateObject();
        cJSON_AddStringToObject(map, "cable", checks[i].link->name);
        cJSON_AddStringToObject(map, "netdev", checks[i].netdev);
        cJSON_AddStringToObject(map, "peer", checks[i].peer);
        add_addr(map, &checks[i].far);
        cJSON_AddStringToObject(map, "state", words[checks[i].answer]);
        cJSON_AddItemToArray(list, map);
    }
    return list;
}

static cJSON *name_json(const struct mn_mesh *mesh, int node)
{
    return node < 0 ? cJSON_CreateNull() : cJSON_CreateString(mesh->nodes[node].name);
}

static cJSON *far_json(const struct check *k)
{
    static const char *const words[] =
        {[MN_FAR_SILENT] = "silent", [MN_FAR_ANSWERS] = "answers", [MN_FAR_REFUSED] = "refused"};
    const struct mn_mesh *mesh = &k->site.mesh;
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; i < k->n_far; i++) {
        const struct mn_far_check *c = &k->far[i];
        cJSON *map = cJSON_CreateObject();
        cJSON_AddItemToObject(map, "node", name_json(mesh, c->node));
        add_addr(map, &c->far);
        cJSON *path = cJSON_AddArrayToObject(map, "path");
        for (size_t h = 0; h < c->n_path; h++)
            cJSON_AddItemToArray(path, name_json(mesh, c->path[h]));
        cJSON_AddStringToObject(map, "state", words[c->answer]);
        cJSON_AddNumberToObject(map, "got", (double)c->got);
        cJSON_AddItemToObject(map, "by", name_json(mesh, c->by));
        cJSON_AddItemToArray(list, map);
    }
    return list;
}

static cJSON *obstacles_json(const struct check *k)
{
    cJSON *list = cJSON_CreateArray();

    for (size_t i = 0; i < k->n_obstacles; i++) {
        const struct mn_far_obstacle *o = &k->obstacles[i];
        cJSON *map = cJSON_CreateObject();
        cJSON_AddItemToObject(map, "from", name_json(&k->site.mesh, o->from));
        cJSON_AddItemToObject(map, "to", name_json(&k->site.mesh, o->to));
        cJSON_AddBoolToObject(map, "own", o->own);
        cJSON_AddBoolToObject(map, "sure", o->sure);
        cJSON_AddStringToObject(map, "why", o->why);
        cJSON_AddItemToArray(list, map);
    }
    return list;
}

/* NICs are found by their addresses: their names here need not be those of the file. */
static void take_names(struct mn_apply_site *s)
{
    struct mn_mesh_node *node = &s->mesh.nodes[s->node];

    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t k = 0; k < node->nics[i].n_addrs; k++) {
            const struct mn_nic *nic = mn_host_nic_by_addr(&s->host, &node->nics[i].addrs[k]);
            if (!nic)
                continue;
            mn_strlcpy(node->nics[i].netdev, nic->netdev, sizeof node->nics[i].netdev);
            break;
        }
}

static unsigned left_of(double deadline)
{
    double left = (deadline - mn_seconds()) * 1e3;

    return left > LEAST_MS ? (unsigned)left : LEAST_MS;
}

/* So long, or so that rest is left of all. */
static unsigned at_most(const struct check *k, unsigned ms, unsigned rest)
{
    double left = (k->limit - mn_seconds()) * 1e3 - rest;

    return left >= ms ? ms : left > 0 ? (unsigned)left : 0;
}

/* Links that are trained anew first: nothing is answered over them before. *late: some stay dark.
 */
static enum mn_err wait_for_links(struct check *k, int *late, struct mn_diag *diag)
{
    char **dark;
    size_t n;
    enum mn_err err = mn_carriers_wait(k->carried, k->n_carried, at_most(k, k->carry_ms, LEAST_MS),
                                       &dark, &n, diag);

    *late = n > 0;
    mn_texts_free(dark, n);
    return err;
}

/* Those behind neighbours only where the neighbours answer: their cables are told of else. */
static enum mn_err look(struct check *k, struct mn_diag *diag)
{
    struct mn_apply_site *s = &k->site;
    size_t bad = 0;
    int late;

    take_names(s);
    k->n_cables = mn_cables_to(&s->mesh, s->node, &s->host, k->peers, k->n_peers, &k->cables);
    enum mn_err err = wait_for_links(k, &late, diag);
    unsigned ms = late && k->wait_ms > LEAST_MS ? LEAST_MS : k->wait_ms;
    double deadline = mn_seconds() + ms / 1e3;
    if (!err)
        err = mn_cables_ask(k->cables, k->n_cables, at_most(k, ms, late ? 0 : LEAST_MS), diag);
    /* They may have gone meanwhile. */
    if (!err)
        err =
            mn_carriers_wait(k->carried, k->n_carried, late ? 0 : at_most(k, left_of(deadline), 0),
                             &k->dark, &k->n_dark, diag);
    for (size_t i = 0; i < k->n_cables; i++)
        bad += k->cables[i].answer == MN_CABLE_SILENT || k->cables[i].answer == MN_CABLE_CROSSED;
    if (err || bad || k->n_dark || !k->n_peers)
        return err;
    k->n_obstacles = mn_far_obstacles(&s->mesh, s->node, &s->host, s->kernel, &k->obstacles);
    k->n_far = mn_far_find(&s->mesh, s->node, k->peers, k->n_peers, &k->far, &k->far_left_out);
    return mn_far_checks_ask(&s->mesh, k->far, k->n_far, at_most(k, left_of(deadline), TRACE_MS),
                             diag);
}

/* Who asks may be of a version that says nothing of the last two. */
static enum mn_err take_times(const cJSON *ask, struct check *k, struct mn_diag *diag)
{
    unsigned limit_ms = LIMIT_MS;
    enum mn_err err = mn_ask_number(ask, "wait_ms", 0, WAIT_MAX_MS, &k->wait_ms, diag);

    if (!err && cJSON_HasObjectItem(ask, "limit_ms"))
        err = mn_ask_number(ask, "limit_ms", 0, LIMIT_MS, &limit_ms, diag);
    if (!err && cJSON_HasObjectItem(ask, "carry_ms"))
        err = mn_ask_number(ask, "carry_ms", 0, LIMIT_MS, &k->carry_ms, diag);
    k->limit = mn_seconds() + limit_ms / 1e3;
    return err;
}

enum mn_err mn_verb_apply_check(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct check k = {.n_peers = 0};
    enum mn_err err = take_times(ask, &k, diag);

    if (!err)
        err = mn_apply_site_open(ask, &k.site, diag);
    if (!err)
        err = mn_ask_texts(ask, "peers", &k.peers, &k.n_peers, diag);
    if (!err)
        err = mn_ask_texts(ask, "carried", &k.carried, &k.n_carried, diag);
    if (!err)
        err = look(&k, diag);
    if (!err)
        err = mn_gids_wait(&k.site.mesh, k.site.node, at_most(&k, k.wait_ms / 2, 0), &k.missing,
                           &k.n_missing, diag);
    if (!err) {
        *answer = cJSON_CreateObject();
        cJSON_AddItemToObject(*answer, "cables", cables_json(k.cables, k.n_cables));
        cJSON_AddItemToObject(*answer, "dark", mn_texts_json(k.dark, k.n_dark));
        cJSON_AddItemToObject(*answer, "far", far_json(&k));
        cJSON_AddNumberToObject(*answer, "far_left_out", (double)k.far_left_out);
        cJSON_AddItemToObject(*answer, "obstacles", obstacles_json(&k));
        cJSON_AddItemToObject(*answer, "missing_gids", mn_texts_json(k.missing, k.n_missing));
    }
    mn_texts_free(k.missing, k.n_missing);
    mn_texts_free(k.dark, k.n_dark);
    mn_far_free(k.far, k.n_far);
    free(k.obstacles);
    free(k.cables);
    free(k.carried);
    free(k.peers);
    mn_apply_site_close(&k.site);
    return err;
}
