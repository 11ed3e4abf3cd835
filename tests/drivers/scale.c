/* What ci/bench/topo measures: a torus of so many nodes, from the plan to the ways through it.
 *
 *   scale NODES
 *
 * One line: nodes; then seconds of planning all shapes, making the mesh of the best torus,
 * numbering it, checking it (addresses, subnets, cables found anew, habits), writing it as YAML,
 * reading that, and finding the ways between all nodes; then cables, the peak of memory in KiB
 * before the file was written and of all, and the file's bytes. "-": there is no such step with so
 * many nodes. Exits 1 when a step fails, or gives another mesh than the one that was planned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "topo/address.h"
#include "topo/base/alloc.h"
#include "topo/fabric.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/route.h"
#include "topo/wiring_mesh.h"

#define PORTS  6
#define ROUTES 4096 /* nodes, at most: ways are as many as nodes squared */

static double began;

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void start(void)
{
    began = now();
}

static void took(void)
{
    printf(" %.4f", now() - began);
}

static void must(int good, const char *what, const struct mn_diag *diag)
{
    if (good)
        return;
    fprintf(stderr, "scale: %s%s%s\n", what, diag ? ": " : "", diag ? diag->text : "");
    exit(1);
}

static void plan(int n, struct mn_wiring *torus)
{
    const struct mn_wiring_speed speed = {.rate = 25e9, .latency = 2.5e-6, .bytes = 1 << 30};
    struct mn_wiring *all;

    start();
    size_t count = mn_wiring_all(n, PORTS, NULL, &speed, MN_WIRING_BOTH, &all);
    took();
    *torus = (struct mn_wiring){.shape = NULL};
    for (size_t i = 0; i < count; i++)
        if (!strcmp(all[i].shape->name, "torus-3d") && all[i].parallel == 1)
            *torus = all[i];
        else
            mn_wiring_free(&all[i]);
    free(all);
    must(torus->shape != NULL, "no torus of three directions has so many nodes", NULL);
}

static void number(struct mn_mesh *mesh, const struct mn_takens *taken)
{
    const struct mn_address_plan how = {.family = AF_INET};
    struct mn_addressed done;
    struct mn_diag diag;

    start();
    must(!mn_address_mesh(mesh, &how, taken, &done, &diag), "numbering", &diag);
    took();
    must(done.counts[MN_ADDRESS_NEW] == mesh->n_links, "not all cables are new", NULL);
    mn_addressed_free(&done);
}

static void check(struct mn_mesh *mesh, const struct mn_takens *taken)
{
    struct mn_troubles troubles = {.items = NULL};
    size_t links = mesh->n_links;
    struct mn_diag diag;

    start();
    mn_address_check(mesh, taken, &troubles);
    must(!mn_mesh_link_up(mesh, &diag), "checking", &diag);
    took();
    must(mesh->n_links == links, "other cables are found than were planned", NULL);
    must(mn_troubles_count(&troubles, MN_SEVERITY_ERROR) == 0, "numbers that cannot be", NULL);
    mn_troubles_free(&troubles);
}

static size_t write_and_read(const struct mn_mesh *mesh)
{
    struct mn_mesh again;
    struct mn_diag diag;
    char *text;

    start();
    must(!mn_mesh_format_yaml(mesh, &text, &diag), "writing", &diag);
    took();
    size_t len = strlen(text);
    mn_mesh_init(&again);
    start();
    enum mn_err err = mn_mesh_parse("mesh.yaml", text, len, &again, &diag);
    if (mesh->n_nodes > MN_MESH_NODES_MAX) {
        must(err == MN_ERR_CONFIG, "more nodes are read than a file may have", NULL);
        printf(" -");
    } else {
        must(!err, "reading", &diag);
        took();
        must(again.n_links == mesh->n_links, "other cables are read than were written", NULL);
    }
    mn_mesh_free(&again);
    free(text);
    return len;
}

static void find_routes(const struct mn_mesh *mesh)
{
    struct mn_fabric fabric;
    struct mn_routes routes;
    long hops = 0;

    if (mesh->n_nodes > ROUTES) {
        printf(" -");
        return;
    }
    start();
    mn_fabric_from_mesh(mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    for (int from = 0; from < fabric.n; from++)
        hops += mn_routes_path(&routes, from, (from + fabric.n / 2) % fabric.n, NULL);
    took();
    must(hops > fabric.n, "there are no ways", NULL);
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

int main(int argc, char **argv)
{
    const struct mn_wiring_hosts hosts = {.speed_mbps = 200000};
    struct mn_takens taken = {.items = NULL};
    struct mn_wiring torus;
    struct rusage usage;
    struct mn_mesh mesh;
    struct mn_diag diag;
    long n = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

    must(n > 1 && n <= MN_WIRING_NODES_MAX, "expected a number of nodes", NULL);
    printf("%ld", n);
    fflush(stdout);
    mn_taken_add_usual(&taken);
    mn_mesh_init(&mesh);
    plan((int)n, &torus);
    start();
    must(!mn_wiring_mesh(&torus, &hosts, &mesh, &diag), "the mesh", &diag);
    took();
    number(&mesh, &taken);
    check(&mesh, &taken);
    getrusage(RUSAGE_SELF, &usage);
    long planned = usage.ru_maxrss;
    size_t len = write_and_read(&mesh);
    find_routes(&mesh);
    getrusage(RUSAGE_SELF, &usage);
    printf(" %zu %ld %ld %zu\n", mesh.n_links, planned, usage.ru_maxrss, len);
    mn_takens_free(&taken);
    mn_wiring_free(&torus);
    mn_mesh_free(&mesh);
    return 0;
}
