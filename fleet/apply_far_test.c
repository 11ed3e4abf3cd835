/* Which addresses lie behind others, over which nodes; asking them is tested on namespaces in
 * tests/topo-apply.bats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/apply_far.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

/* n0 - n1 - n2 - …, cable i from 10.0.0.2i to 10.0.0.2i+1. */
static void line_of(int n, struct mn_mesh *mesh)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    struct mn_diag diag;

    fprintf(file, "version: 1\nnodes:\n");
    for (int i = 0; i < n; i++) {
        fprintf(file, "  - name: n%d\n    nics:\n", i);
        if (i)
            fprintf(file, "      - {netdev: p0, addresses: [10.0.%d.%d/31]}\n", (2 * i - 1) / 256,
                    (2 * i - 1) % 256);
        if (i + 1 < n)
            fprintf(file, "      - {netdev: p1, addresses: [10.0.%d.%d/31]}\n", 2 * i / 256,
                    2 * i % 256);
    }
    fclose(file);
    mn_mesh_init(mesh);
    assert_int_equal(mn_mesh_parse("line", text, strlen(text), mesh, &diag), MN_OK);
    free(text);
}

static const char *const names[] = {"n0", "n1", "n2", "n3", "n4"};

static void the_way_is_told_and_neighbours_are_left_out(void **state)
{
    struct mn_far_check *checks;
    struct mn_mesh mesh;
    size_t left_out, n;
    char text[MN_ADDR_TEXT];

    (void)state;
    line_of(4, &mesh);
    n = mn_far_find(&mesh, 0, names, 4, &checks, &left_out);
    /* Both of n2 and the one of n3; the other one of n1 is a neighbour's. */
    assert_int_equal(n, 3);
    assert_int_equal(left_out, 0);
    assert_int_equal(checks[0].node, 2);
    assert_int_equal(checks[0].n_path, 1);
    assert_int_equal(checks[0].path[0], 1);
    assert_int_equal(checks[2].node, 3);
    assert_int_equal(checks[2].n_path, 2);
    assert_int_equal(checks[2].path[1], 2);
    assert_string_equal(mn_addr_format(&checks[2].far, text, sizeof text), "10.0.0.5/31");
    mn_far_free(checks, n);
    mn_mesh_free(&mesh);
}

static void over_peers_alone(void **state)
{
    static const char *const some[] = {"n0", "n2", "n3"};
    struct mn_far_check *checks;
    struct mn_mesh mesh;
    size_t left_out;

    (void)state;
    line_of(4, &mesh);
    assert_int_equal(mn_far_find(&mesh, 0, some, 3, &checks, &left_out), 0);
    assert_int_equal(mn_far_find(&mesh, 0, names, 1, &checks, &left_out), 0);
    mn_mesh_free(&mesh);
}

static void what_is_too_far_or_too_many_is_counted(void **state)
{
    static char text[200][8];
    const char *all[200];
    struct mn_far_check *checks;
    struct mn_mesh mesh;
    size_t left_out, n;

    (void)state;
    for (int i = 0; i < 200; i++) {
        snprintf(text[i], sizeof text[i], "n%d", i);
        all[i] = text[i];
    }
    line_of(80, &mesh);
    n = mn_far_find(&mesh, 0, all, 80, &checks, &left_out);
    /* n2 to n63, two each; of n64 to n79 31 more. */
    assert_int_equal(n, 62 * 2);
    assert_int_equal(left_out, 31);
    mn_far_free(checks, n);
    mn_mesh_free(&mesh);
    line_of(200, &mesh);
    n = mn_far_find(&mesh, 100, all, 200, &checks, &left_out);
    assert_true(n <= MN_FAR_MAX);
    /* Of the other 199, but for the ends two each, those of the neighbours that are theirs. */
    assert_int_equal(n + left_out, 398 - 2 - 4);
    mn_far_free(checks, n);
    mn_mesh_free(&mesh);
}

/* Of a line's many silent addresses the farthest one is followed first: it shows of all nodes
 * before. */
static void few_are_followed_and_show_the_way_of_the_others(void **state)
{
    struct mn_far_check *checks;
    struct mn_mesh mesh;
    size_t left_out, n, picked[8];
    static char text[8][4];
    const char *all[8];

    (void)state;
    for (int i = 0; i < 8; i++) {
        snprintf(text[i], sizeof text[i], "n%d", i);
        all[i] = text[i];
    }
    line_of(8, &mesh);
    n = mn_far_find(&mesh, 0, all, 8, &checks, &left_out);
    assert_int_equal(n, 11);
    assert_int_equal(mn_far_to_trace(checks, n, 8, picked), 8);
    struct mn_far_check *farthest = &checks[picked[0]];
    assert_int_equal(farthest->node, 7);
    farthest->traced = 1;
    farthest->got = 4;
    /* Not known whole: it is followed once more. */
    assert_int_equal(mn_far_to_trace(checks, n, 1, picked), 1);
    assert_ptr_equal(&checks[picked[0]], farthest);
    mn_far_share(checks, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(checks[i].got, checks[i].n_path < 4 ? checks[i].n_path : 4);
    /* What answers shows all of its way; what was followed itself has its own evidence. */
    checks[0].answer = MN_FAR_ANSWERS;
    checks[1].got = checks[2].got = 0;
    checks[2].traced = 1;
    mn_far_share(checks, n);
    assert_int_equal(checks[1].got, 1);
    assert_int_equal(checks[2].got, 0);
    mn_far_free(checks, n);
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_is_told_and_neighbours_are_left_out),
        cmocka_unit_test(over_peers_alone),
        cmocka_unit_test(what_is_too_far_or_too_many_is_counted),
        cmocka_unit_test(few_are_followed_and_show_the_way_of_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
