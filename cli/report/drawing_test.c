#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/report/drawing.h"
#include "cli/report/labels.h"

#define MOST 200

/* Every two of the nodes have as many cables; some are one-sided, some dead: labels of all lengths.
 */
static void write_mesh(const char *path, int nodes, int cables, int ring)
{
    FILE *file = fopen(path, "w");
    const char *comma = "";

    assert_non_null(file);
    fputs("{\"schema\": \"meshnet-results\", \"schema_version\": 1, \"kind\": \"matrix\", "
          "\"environment\": [], \"cells\": [",
          file);
    for (int a = 0; a < nodes; a++)
        for (int b = a + 1; b < nodes; b++)
            for (int c = 0; c < cables; c++) {
                int odd = a * 7 + b * 3 + c;
                if (ring && b != a + 1 && !(a == 0 && b == nodes - 1))
                    continue;
                fprintf(file,
                        "%s{\"mode\": \"link\", \"link\": \"l%d-%d-%d\", \"from\": \"spark-%d\", "
                        "\"to\": \"spark-%d\", \"status\": \"%s\", \"out_gbps\": 91.5, "
                        "\"in_gbps\": %s, \"ratio\": 0.9}",
                        comma, a, b, c, a, b, odd % 5 == 4 ? "dead" : "ok",
                        odd % 3 ? "91.2" : "44.7");
                comma = ", ";
            }
    fputs("]}\n", file);
    fclose(file);
}

/* The boxes that begin with a text; returns how many. */
static size_t boxes_of(const char *svg, const char *start, struct mn_box *boxes)
{
    size_t n = 0;

    for (const char *at = svg; (at = strstr(at, start)); at++) {
        struct mn_box *box = &boxes[n];
        assert_int_equal(sscanf(strstr(at, " x="),
                                " x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &box->x,
                                &box->y, &box->wide, &box->high),
                         4);
        box->x += box->wide / 2;
        box->y += box->high / 2;
        assert_true(++n < MOST);
    }
    return n;
}

static void look_at(int nodes, int cables, int ring)
{
    char path[] = "/tmp/meshnet-drawing-XXXXXX", *svg;
    struct mn_report report = {.docs = NULL};
    struct mn_box boxes[2 * MOST], view;
    size_t len;
    FILE *file = open_memstream(&svg, &len);
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_mesh(path, nodes, cables, ring);
    assert_int_equal(mn_report_read(&report, path, NULL), MN_OK);
    unlink(path);
    mn_drawing_write(&report.docs[0], file, NULL);
    fclose(file);
    size_t n = boxes_of(svg, "<rect class=\"under\"", boxes);
    size_t links = (size_t)(ring ? nodes : nodes * (nodes - 1) / 2) * (size_t)cables;
    print_message("%d nodes, %d cables%s: %zu labels\n", nodes, cables, ring ? ", ring" : "", n);
    assert_int_equal(n, links);
    n += boxes_of(svg, "</title><rect x", boxes + n);
    assert_int_equal(n, links + (size_t)nodes);
    assert_int_equal(sscanf(strstr(svg, "viewBox="), "viewBox=\"%lf %lf %lf %lf", &view.x, &view.y,
                            &view.wide, &view.high),
                     4);
    for (size_t i = 0; i < n; i++) {
        assert_true(boxes[i].x - boxes[i].wide / 2 > view.x);
        assert_true(boxes[i].x + boxes[i].wide / 2 < view.x + view.wide);
        assert_true(boxes[i].y - boxes[i].high / 2 > view.y);
        assert_true(boxes[i].y + boxes[i].high / 2 < view.y + view.high);
        for (size_t k = 0; k < i; k++)
            assert_false(mn_boxes_touch(&boxes[i], &boxes[k], 0));
    }
    free(svg);
    mn_report_free(&report);
}

static void look_at_all(void)
{
    for (int nodes = 3; nodes <= 6; nodes++)
        for (int cables = 1; cables <= 2; cables++)
            for (int ring = 0; ring < 2; ring++)
                look_at(nodes, cables, ring && nodes > 3);
    look_at(2, 1, 0);
    look_at(2, 4, 0);
}

static void test_no_label_on_another(void **state)
{
    (void)state;
    look_at_all();
}

static void test_without_graphviz(void **state)
{
    char *path = strdup(getenv("PATH"));

    (void)state;
    setenv("PATH", "/nonexistent", 1);
    look_at_all();
    setenv("PATH", path, 1);
    free(path);
}

/* The middle where it is free, else beside what is there; none where all is taken. */
static void test_places(void **state)
{
    struct mn_curve pair[2] = {{.ax = 0,
                                .ay = -100,
                                .cx = 0,
                                .cy = 0,
                                .bx = 0,
                                .by = 100,
                                .label = {.wide = 60, .high = 16}},
                               {.ax = -100,
                                .ay = 0,
                                .cx = 0,
                                .cy = 0,
                                .bx = 100,
                                .by = 0,
                                .label = {.wide = 60, .high = 16}}};
    struct mn_box wall = {.wide = 300, .high = 300};

    (void)state;
    assert_int_equal(mn_labels_place(NULL, 0, pair, 1), 0);
    assert_float_equal(pair[0].label.x, 0, 0.001);
    assert_float_equal(pair[0].label.y, 0, 0.001);
    /* Where two cross, neither label stands on the other's line. */
    assert_int_equal(mn_labels_place(NULL, 0, pair, 2), 0);
    assert_true(fabs(pair[0].label.y) > 8);
    assert_true(fabs(pair[1].label.x) > 30);
    assert_false(mn_boxes_touch(&pair[0].label, &pair[1].label, 0));
    assert_int_equal(mn_labels_place(&wall, 1, pair, 2), 2);
    assert_false(pair[0].placed);
}

static void test_too_many(void **state)
{
    static struct mn_curve many[301];

    (void)state;
    for (int i = 0; i < 301; i++)
        many[i] = (struct mn_curve){.ax = 100.0 * i,
                                    .ay = -100,
                                    .cx = 100.0 * i,
                                    .bx = 100.0 * i,
                                    .by = 100,
                                    .label = {.wide = 60, .high = 16}};
    assert_int_equal(mn_labels_place(NULL, 0, many, 300), 0);
    for (int i = 0; i < 300; i++)
        assert_true(many[i].placed);
    assert_int_equal(mn_labels_place(NULL, 0, many, 301), 0);
    for (int i = 0; i < 301; i++)
        assert_false(many[i].placed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_no_label_on_another),
        cmocka_unit_test(test_without_graphviz),
    };

    /* As the program: who draws may not be there. */
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
