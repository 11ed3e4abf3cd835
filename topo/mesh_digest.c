#include "topo/mesh_digest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/mac.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_setting.h"

#define NAMED  6 /* of what differs, at most so many are named */
#define OTHERS 2 /* items that routes and links need at least */

static const uint8_t key[MN_KEY_SIZE] = "meshnet mesh";

/* Another value of one item. */
static void mix(uint64_t *hash, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void mix(uint64_t *hash, const char *fmt, ...)
{
    char text[512];
    va_list args;

    memcpy(text, hash, sizeof *hash);
    va_start(args, fmt);
    vsnprintf(text + sizeof *hash, sizeof text - sizeof *hash, fmt, args);
    va_end(args);
    *hash = mn_mac64(key, text, sizeof *hash + strlen(text + sizeof *hash));
}

static uint32_t name_hash(const char *name)
{
    return (uint32_t)mn_mac64(key, name, strlen(name));
}

/* The sum of all items: their order makes no difference. */
static void add(struct mn_mesh_own *own, uint64_t value, const char *kind, const char *name)
{
    struct mn_mesh_digest *d = &own->digest;
    char *text = own->names[d->n_items];
    uint64_t whole = value;

    snprintf(text, sizeof own->names[0], "%s%.*s", kind, MN_NAME_MAX, name);
    d->items[d->n_items++] = (struct mn_mesh_item){name_hash(text), (uint32_t)value};
    mix(&whole, "%s", text);
    d->hash += whole;
}

static uint64_t value_of_nic(const struct mn_mesh_nic *nic)
{
    char addr[MN_ADDR_TEXT];
    uint64_t h = 0;

    mix(&h, "%s/%s/%s/%d/%d/%d/%ld/%d/%s", nic->name, nic->netdev, nic->device,
        nic->device[0] ? nic->port : 1, nic->has_mac, nic->gid_index, nic->speed_mbps, nic->mtu,
        nic->group);
    if (nic->role == MN_ROLE_MANAGEMENT)
        mix(&h, "management");
    for (size_t i = 0; i < sizeof nic->mac && nic->has_mac; i++)
        mix(&h, "%02x", nic->mac[i]);
    for (size_t i = 0; i < nic->n_addrs; i++)
        mix(&h, "%s", mn_addr_format(&nic->addrs[i], addr, sizeof addr));
    if (nic->gid_index >= 0 && nic->gid_addr.family)
        mix(&h, "gid %s", mn_addr_format(&nic->gid_addr, addr, sizeof addr));
    return h;
}

static uint64_t value_of_node(const struct mn_mesh_node *node)
{
    uint64_t h = 0;

    mix(&h, "%s", node->hostname);
    for (size_t i = 0; i < node->n_nics; i++)
        mix(&h, "%016llx", (unsigned long long)value_of_nic(&node->nics[i]));
    for (size_t i = 0; i < node->n_gpus; i++) {
        const struct mn_mesh_gpu *gpu = &node->gpus[i];
        mix(&h, "%s/%s/%d", gpu->pci, gpu->name, (int)gpu->path);
        for (size_t n = 0; n < gpu->n_nics; n++)
            mix(&h, "%s", node->nics[gpu->nics[n]].name);
    }
    return h;
}

/* Which end is named first makes no difference. */
static uint64_t value_of_ends(const struct mn_mesh *mesh, const char *name,
                              const struct mn_mesh_end ends[2])
{
    uint64_t h = 0, side[2] = {0, 0};

    for (int i = 0; i < 2; i++)
        mix(&side[i], "%s/%s", mesh->nodes[ends[i].node].name,
            mn_mesh_end_nic(mesh, &ends[i])->name);
    mix(&h, "%s/%016llx", name, (unsigned long long)(side[0] + side[1]));
    return h;
}

static void add_nodes(struct mn_mesh_own *own, const struct mn_mesh *mesh)
{
    int all = own->digest.n_items + (int)mesh->n_nodes > MN_DIGEST_ITEMS - OTHERS;
    uint64_t sum = 0;

    for (size_t i = 0; i < mesh->n_nodes; i++) {
        uint64_t h = value_of_node(&mesh->nodes[i]), named = h;
        mix(&named, "%s", mesh->nodes[i].name);
        sum += named;
        if (!all)
            add(own, h, "node ", mesh->nodes[i].name);
    }
    if (all)
        add(own, sum, "nodes", "");
}

static void add_links(struct mn_mesh_own *own, const struct mn_mesh *mesh)
{
    int all = own->digest.n_items + (int)mesh->n_links > MN_DIGEST_ITEMS;
    uint64_t sum = 0;

    for (size_t i = 0; i < mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        uint64_t h = value_of_ends(mesh, link->name, link->ends);
        sum += h;
        if (!all)
            add(own, h, "link ", link->name);
    }
    if (all)
        add(own, sum, "links", "");
}

static void add_routes(struct mn_mesh_own *own, const struct mn_mesh *mesh)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < mesh->n_routes; i++)
        sum += value_of_ends(mesh, mesh->routes[i].via, mesh->routes[i].ends);
    if (mesh->n_routes)
        add(own, sum, "routes", "");
}

void mn_mesh_digest(const struct mn_mesh *mesh, const char *path, struct mn_mesh_own *own)
{
    char text[320], setting[MN_NAME_MAX];
    uint64_t h = 0;

    memset(own, 0, sizeof *own);
    mn_strlcpy(own->path, path, sizeof own->path);
    mix(&h, "%d/%s", mesh->version, mesh->name);
    add(own, h, "name", "");
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++) {
        h = 0;
        mix(&h, "%s", mn_setting_format(row, &mesh->settings, text, sizeof text));
        snprintf(setting, sizeof setting, ".%s", row->key);
        add(own, h, row->section, setting);
    }
    add_nodes(own, mesh);
    add_routes(own, mesh);
    add_links(own, mesh);
    own->digest.hash += !own->digest.hash;
}

enum mn_err mn_mesh_own_read(struct mn_mesh_own *own, struct mn_diag *diag)
{
    struct mn_mesh mesh;
    char path[512];

    memset(own, 0, sizeof *own);
    if (!mn_mesh_find_file(path, sizeof path))
        return MN_OK;
    mn_mesh_init(&mesh);
    enum mn_err err = mn_mesh_read(path, &mesh, diag);
    if (!err)
        mn_mesh_digest(&mesh, path, own);
    mn_mesh_free(&mesh);
    return err;
}

/* --- what differs ----------------------------------------------------------------------------- */

static int index_of(const struct mn_mesh_digest *d, uint32_t name)
{
    for (int i = 0; i < d->n_items; i++)
        if (d->items[i].name == name)
            return i;
    return -1;
}

struct list {
    char text[700];
    int n;
};

static void name_one(struct list *list, const char *name)
{
    size_t used = strlen(list->text);

    if (list->n++ < NAMED)
        snprintf(list->text + used, sizeof list->text - used, "%s%s", used ? ", " : "", name);
}

static void say_more(struct list *list)
{
    size_t used = strlen(list->text);

    if (list->n > NAMED)
        snprintf(list->text + used, sizeof list->text - used, " and %d more", list->n - NAMED);
}

void mn_mesh_differences(const struct mn_mesh_own *own, const struct mn_mesh_digest *theirs,
                         char *text, size_t size)
{
    struct list differ = {.n = 0}, here = {.n = 0};
    int there = 0;
    size_t used = 0;

    for (int i = 0; i < own->digest.n_items; i++) {
        int at = index_of(theirs, own->digest.items[i].name);
        if (at < 0)
            name_one(&here, own->names[i]);
        else if (theirs->items[at].value != own->digest.items[i].value)
            name_one(&differ, own->names[i]);
    }
    for (int i = 0; i < theirs->n_items; i++)
        there += index_of(&own->digest, theirs->items[i].name) < 0;
    say_more(&differ);
    say_more(&here);
    text[0] = 0;
    if (differ.n)
        used += (size_t)snprintf(text + used, size - used, "different: %s", differ.text);
    if (here.n && used < size)
        used += (size_t)snprintf(text + used, size - used, "%sonly here: %s", used ? "; " : "",
                                 here.text);
    if (there && used < size)
        snprintf(text + used, size - used, "%sonly there: %d of nodes, links and settings",
                 used ? "; " : "", there);
}

int mn_mesh_differs(const struct mn_mesh_own *own, const struct mn_mesh_digest *theirs,
                    const char *peer, char *text, size_t size)
{
    unsigned long long mine = own->digest.hash, other = theirs->hash;
    char what[900];

    text[0] = 0;
    if (mine == other)
        return 0;
    if (!mine) {
        snprintf(
            text, size,
            "%s goes by a mesh file (hash %016llx) and this host by none; put the same file on "
            "every node",
            peer, other);
        return 1;
    }
    if (!other) {
        snprintf(text, size,
                 "%s goes by no mesh file and this host by %s (hash %016llx); put the same file on "
                 "every node",
                 peer, own->path, mine);
        return 1;
    }
    mn_mesh_differences(own, theirs, what, sizeof what);
    snprintf(text, size,
             "%s goes by another mesh file (hash %016llx) than this host: %s (hash %016llx)%s%s; "
             "put the same file on every node",
             peer, other, own->path, mine, *what ? "; " : "", what);
    return 1;
}
