/* Shapes to be cabled: what each must be, whatever its size, and figures of which one knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/address.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/model.h"
#include "topo/ring.h"
#include "topo/route.h"
#include "topo/wiring_mesh.h"

#define RATE 1e9
#define NEAR 1e-3

static const struct mn_wiring_speed speed = {.rate = RATE, .latency = 0, .bytes = 1 << 30};

static void graph_of(const struct mn_wiring *w, struct mn_graph *graph)
{
    int(*pairs)[2] = mn_zalloc((w->n_cables + 1) * sizeof *pairs);

    for (size_t i = 0; i < w->n_cables; i++)
        memcpy(pairs[i], w->cables[i].nodes, sizeof pairs[i]);
    mn_graph_make((size_t)w->n, (const int(*)[2])pairs, w->n_cables, graph);
    free(pairs);
}

static void check_ports(const struct mn_wiring *w, int ports)
{
    char *used = mn_zalloc((size_t)w->n * (size_t)ports);

    assert_in_range(w->ports, 1, ports);
    for (size_t i = 0; i < 2 * w->n_cables; i++) {
        const struct mn_wiring_cable *c = &w->cables[i / 2];
        assert_in_range(c->nodes[i % 2], 0, w->n - 1);
        assert_in_range(c->ports[i % 2], 0, ports - 1);
        assert_int_not_equal(c->nodes[0], c->nodes[1]);
        assert_false(used[c->nodes[i % 2] * ports + c->ports[i % 2]]++);
    }
    free(used);
}

static void check_kind(const struct mn_wiring *w, const struct mn_graph *graph)
{
    static const struct {
        const char *name;
        enum mn_shape shape;
    } rows[] = {{"full-mesh", MN_SHAPE_FULL}, {"torus-2d", MN_SHAPE_TORUS},
                {"torus-3d", MN_SHAPE_TORUS}, {"ring", MN_SHAPE_RING},
                {"star", MN_SHAPE_STAR},      {"line", MN_SHAPE_LINE}};
    int sizes[3];
    enum mn_shape is = mn_graph_shape(graph, sizes);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(w->shape->name, rows[i].name) && w->n > 2)
            assert_int_equal(is, rows[i].shape);
    if (!strcmp(w->shape->name, "hypercube"))
        for (int i = 0; i < w->n; i++)
            assert_int_equal(1 << mn_graph_degree(graph, (size_t)i), w->n);
}

/* By numbers each node is the next one's neighbour, but in a star and at the ends of a line. */
static void check_ring(const struct mn_wiring *w, const struct mn_graph *graph)
{
    int *order = mn_zalloc((size_t)w->n * sizeof *order);

    for (int i = 0; i < w->n; i++)
        order[i] = i;
    int gaps = mn_graph_gaps(graph, order, w->n);
    if (!strcmp(w->shape->name, "star"))
        assert_int_equal(gaps, w->n - 2);
    else
        assert_int_equal(gaps, !strcmp(w->shape->name, "line"));
    free(order);
}

/* Of all halves the one that fewest cables leave. */
static double narrowest(const struct mn_fabric *fabric)
{
    double least = 1e99;

    for (unsigned set = 0; set < 1u << fabric->n; set++) {
        char half[16];
        int count = 0;
        for (int i = 0; i < fabric->n; i++)
            count += half[i] = set >> i & 1;
        double cut = count == fabric->n / 2 ? mn_fabric_bisection(fabric, half) : least;
        least = cut < least ? cut : least;
    }
    return least;
}

static void check_figures(const struct mn_wiring *w)
{
    const struct mn_wiring_figures *f = &w->figures;
    struct mn_fabric fabric;
    struct mn_routes routes;
    double sum = 0;
    int half = 0;

    mn_wiring_fabric(w, &speed, &fabric);
    mn_routes_find(&fabric, &routes);
    assert_int_equal(f->diameter, mn_routes_diameter(&routes));
    for (int a = 0; a < w->n; a++)
        for (int b = 0; b < w->n; b++)
            sum += mn_routes_path(&routes, a, b, NULL);
    assert_float_equal(f->distance, sum / w->n / (w->n - 1), NEAR);
    for (int i = 0; i < w->n; i++)
        half += w->half[i];
    assert_int_equal(half, w->n / 2);
    if (w->n <= 10)
        assert_float_equal(f->bisection / RATE, narrowest(&fabric) / RATE, NEAR);
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

static void every_size_of_every_shape(void **state)
{
    int made = 0;

    (void)state;
    for (const struct mn_wiring_shape *shape = mn_wiring_shapes; shape->name; shape++)
        for (int n = 2; n <= 40; n++)
            for (int ports = 1; ports <= 8; ports++)
                for (int parallel = 1; parallel <= 2; parallel++) {
                    struct mn_wiring w;
                    struct mn_graph graph;
                    if (mn_wiring_make(shape, n, ports, parallel, &w)) {
                        made++;
                        check_ports(&w, ports);
                        graph_of(&w, &graph);
                        assert_int_equal(mn_graph_pieces(&graph, NULL), 1);
                        check_kind(&w, &graph);
                        check_ring(&w, &graph);
                        mn_graph_free(&graph);
                        if (n <= 10 || n % 9 == 0) {
                            mn_wiring_judge(&w, &speed);
                            check_figures(&w);
                        }
                    }
                    mn_wiring_free(&w);
                }
    assert_true(made > 500);
}

static void known_figures(void **state)
{
    static const struct {
        const char *shape;
        int n, ports, parallel;
        size_t cables;
        int diameter;
        double all_reduce, bisection; /* in cables */
    } rows[] = {
        {"full-mesh", 5, 4, 1, 10, 1, 1, 6},
        {"full-mesh", 2, 2, 2, 2, 1, 2, 2},
        {"ring", 8, 2, 1, 8, 4, 1, 2},
        {"ring", 8, 4, 2, 16, 4, 2, 4},
        {"torus-2d", 36, 4, 1, 72, 6, 1, 12},
        {"torus-2d", 12, 4, 1, 24, 3, 1, 6},
        {"torus-3d", 64, 6, 1, 192, 6, 1, 32},
        {"hypercube", 16, 4, 1, 32, 4, 1, 8},
        {"star", 6, 5, 1, 5, 2, 1, 3},
        {"line", 7, 2, 1, 6, 6, 1, 1},
        {"chordal-ring", 8, 3, 1, 12, 2, 1, 4},
        {"chordal-ring", 144, 3, 1, 216, 36, 1, 4},
        {"chordal-ring", 258, 3, 1, 387, 65, 1, 5},
        {"chordal-ring", 144, 4, 1, 288, 9, 1, 30}, /* all orders tried by hand */
        {"chordal-ring", 200, 4, 1, 400, 10, 1, 40},
        {"chordal-ring", 257, 4, 1, 514, 11, 1, 44},
        {"chordal-ring", 500, 4, 1, 1000, 17, 1, 62},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_wiring w;
        if (!mn_wiring_make(mn_wiring_shape(rows[i].shape), rows[i].n, rows[i].ports,
                            rows[i].parallel, &w))
            fail_msg("%s of %d", rows[i].shape, rows[i].n);
        mn_wiring_judge(&w, &speed);
        assert_int_equal(w.n_cables, rows[i].cables);
        assert_int_equal(w.figures.diameter, rows[i].diameter);
        assert_float_equal(w.figures.all_reduce / RATE, rows[i].all_reduce, 0.01);
        assert_float_equal(w.figures.bisection / RATE, rows[i].bisection, NEAR);
        mn_wiring_free(&w);
    }
}

/* One cable of each kind stands for all of them. */
static void the_cable_that_is_missed_most(void **state)
{
    static const struct {
        const char *shape;
        int n, ports;
    } rows[] = {{"ring", 70, 2},
                {"torus-2d", 36, 4},
                {"hypercube", 32, 5},
                {"chordal-ring", 34, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_wiring w;
        double least = 1e99;
        assert_true(
            mn_wiring_make(mn_wiring_shape(rows[i].shape), rows[i].n, rows[i].ports, 1, &w));
        mn_wiring_judge(&w, &speed);
        assert_true(w.n_cables > 64);
        for (size_t gone = 0; gone < w.n_cables; gone++) {
            struct mn_wiring less = w;
            struct mn_model_result result;
            struct mn_fabric fabric;
            struct mn_routes routes;
            less.cables = mn_zalloc(w.n_cables * sizeof *less.cables);
            for (size_t k = 0; k < w.n_cables; k++)
                less.cables[k - (k > gone)] = w.cables[k];
            less.n_cables--;
            mn_wiring_fabric(&less, &speed, &fabric);
            mn_routes_find(&fabric, &routes);
            struct mn_model model = {.fabric = &fabric, .routes = &routes, .n_ranks = w.n};
            assert_int_equal(mn_model_predict(&model, MN_MODEL_ALL_REDUCE, MN_MODEL_RING,
                                              speed.bytes, 1, &result),
                             MN_OK);
            least = result.busbw < least ? result.busbw : least;
            mn_routes_free(&routes);
            mn_fabric_free(&fabric);
            free(less.cables);
        }
        assert_float_equal(w.figures.all_reduce_failed / least, 1, NEAR);
        assert_false(w.figures.cut);
        mn_wiring_free(&w);
    }
}

static const char *best(int n, int ports, enum mn_wiring_goal goal)
{
    static char title[80];
    struct mn_wiring *all;
    size_t count = mn_wiring_all(n, ports, NULL, &speed, goal, &all);

    strcpy(title, "");
    if (count)
        mn_wiring_title(&all[0], title, sizeof title);
    for (size_t i = 0; i < count; i++)
        mn_wiring_free(&all[i]);
    free(all);
    return title;
}

static void the_best_comes_first(void **state)
{
    (void)state;
    assert_string_equal(best(2, 1, MN_WIRING_BOTH), "full-mesh");
    assert_string_equal(best(2, 2, MN_WIRING_BOTH), "full-mesh, 2 each");
    assert_string_equal(best(3, 2, MN_WIRING_BOTH), "full-mesh");
    assert_string_equal(best(3, 1, MN_WIRING_BOTH), "");
    assert_string_equal(best(4, 2, MN_WIRING_BOTH), "ring");
    assert_string_equal(best(4, 3, MN_WIRING_BOTH), "full-mesh");
    assert_string_equal(best(8, 4, MN_WIRING_ALL_REDUCE), "ring, 2 each");
    assert_string_equal(best(16, 4, MN_WIRING_ALL_TO_ALL), "chordal-ring +6");
    assert_string_equal(best(16, 4, MN_WIRING_FEW_CABLES), "ring");
    assert_string_equal(best(1000, 6, MN_WIRING_BOTH), "torus-3d 10x10x10");
}

/* What is planned is what a mesh file says after it was numbered. */
static void a_mesh_of_it(void **state)
{
    const struct mn_wiring_hosts hosts = {.machine = mn_wiring_machine("dgx-spark"),
                                          .speed_mbps = 200000};
    struct mn_address_plan plan = {.family = AF_INET};
    struct mn_takens taken = {.items = NULL};
    struct mn_addressed done;
    struct mn_mesh mesh, again;
    struct mn_wiring w;
    struct mn_diag diag;
    char *text;

    (void)state;
    assert_true(mn_wiring_make(mn_wiring_shape("ring"), 12, 2, 1, &w));
    mn_mesh_init(&mesh);
    mn_mesh_init(&again);
    assert_int_equal(mn_wiring_mesh(&w, &hosts, &mesh, &diag), MN_OK);
    assert_int_equal(mesh.n_links, 24);
    assert_string_equal(mesh.nodes[0].name, "node-01");
    assert_string_equal(mesh.links[0].name, "node-01-node-02");
    assert_string_equal(mesh.links[1].name, "node-01-node-02-2");
    assert_string_equal(mn_mesh_end_nic(&mesh, &mesh.links[0].ends[0])->group, "right");
    assert_string_equal(mn_mesh_end_nic(&mesh, &mesh.links[0].ends[1])->group, "left");
    assert_int_equal(mn_mesh_bare(&mesh, -1, (char[MN_BARE_NAMES]){0}), 24);
    assert_int_equal(mn_address_mesh(&mesh, &plan, &taken, &done, &diag), MN_OK);
    mn_addressed_free(&done);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &text, &diag), MN_OK);
    assert_int_equal(mn_mesh_parse("m", text, strlen(text), &again, &diag), MN_OK);
    assert_int_equal(again.n_links, 24);
    assert_string_equal(mn_mesh_shape(&again), "ring");
    free(text);
    mn_mesh_free(&mesh);
    mn_mesh_free(&again);
    mn_wiring_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_of_every_shape),
        cmocka_unit_test(known_figures),
        cmocka_unit_test(the_cable_that_is_missed_most),
        cmocka_unit_test(the_best_comes_first),
        cmocka_unit_test(a_mesh_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
