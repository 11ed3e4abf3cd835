/* Routes of a node: every pair of addresses of a family, and no more than both ends can hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plugin/routed.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

static struct mn_mesh mesh;

/* Node hub with one NIC, and n others, each behind the same router; of both families. */
static void read_hub(int n)
{
    char *text = mn_strdup("version: 1\nnodes:\n  - {name: hub, nics: [{netdev: eth0, addresses: "
                           "[10.0.0.1/24, 10.0.1.1/24, 10.0.2.1/24, 10.0.3.1/24]}]}\n");
    char *routes = mn_strdup("routes:\n"), *more;
    struct mn_diag diag = {.text = ""};

    for (int i = 0; i < n; i++) {
        more = mn_asprintf("%s  - {name: n%d, nics: [{netdev: eth0, addresses: [10.1.%d.1/29, "
                           "10.2.%d.1/29, 10.3.%d.1/29, 10.4.%d.1/29, \"fd00:%x::1/64\"]}]}\n",
                           text, i, i, i, i, i, i + 1);
        free(text);
        text = more;
        more = mn_asprintf("%s  - {ends: [n%d/eth0, hub/eth0], via: core}\n", routes, i);
        free(routes);
        routes = more;
    }
    more = mn_asprintf("%s%s", text, routes);
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("mesh", more, strlen(more), &mesh, &diag))
        fail_msg("%s", diag.text);
    free(text);
    free(routes);
    free(more);
}

static void both_ends_have_the_same_pairs(void **state)
{
    static struct mn_routed hub, leaf;
    struct mn_addr stranger;

    (void)state;
    read_hub(60);
    assert_int_equal(mn_routed_from_mesh(&mesh, 0, &hub, NULL), MN_OK);
    assert_int_equal(hub.n, 60 * 16);
    for (int n = 1; n <= 60; n++) {
        assert_int_equal(mn_routed_from_mesh(&mesh, n, &leaf, NULL), MN_OK);
        assert_int_equal(leaf.n, 16);
        for (int i = 0; i < leaf.n; i++)
            assert_true(mn_routed_join(&hub, &leaf.pairs[i].peer, &leaf.pairs[i].own));
    }
    assert_int_equal(mn_addr_parse("10.9.9.9", &stranger, NULL), MN_OK);
    assert_false(mn_routed_join(&hub, &hub.pairs[0].own, &stranger));
    assert_false(mn_routed_join(NULL, &hub.pairs[0].own, &hub.pairs[0].peer));
    mn_mesh_free(&mesh);
}

static void too_many_are_refused(void **state)
{
    static struct mn_routed hub;
    struct mn_diag diag = {.text = ""};

    (void)state;
    read_hub(63);
    for (int i = 0; i < 2; i++) {
        struct mn_mesh_route route = mesh.routes[i];
        struct mn_mesh_route *copy = mn_push(&mesh.routes, &mesh.n_routes, sizeof route, NULL);
        assert_non_null(copy);
        *copy = route;
    }
    assert_int_equal(mn_routed_from_mesh(&mesh, 0, &hub, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "via core"));
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_have_the_same_pairs),
        cmocka_unit_test(too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
