/* Another mesh file than the own is told once for each peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "plugin/conn_impl.h"
#include "plugin/tuner/tuning_impl.h"
#include "topo/base/log.h"

static struct mn_config config = {
    .mesh = {.digest = {.hash = 5, .n_items = 2, .items = {{1, 1}, {2, 2}}},
             .path = "mesh.yaml",
             .names = {"node a", "transport.silence"}},
};
static char warnings[8192];

static void keep_warning(enum mn_log_level level, const char *file, int line, const char *text)
{
    size_t used = strlen(warnings);

    (void)file, (void)line;
    if (level <= MN_LOG_WARN)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", text);
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

/* LINKS of a node with another mesh file arrives. */
static struct mn_diag why;

static enum mn_err meet(uint64_t node_id, uint64_t hash)
{
    struct mn_mesh_digest theirs = config.mesh.digest;
    struct mn_conn conn = {.config = &config, .side = {{.node_id = 0}, {.node_id = node_id}}};

    theirs.hash = hash;
    theirs.items[1].value = 9;
    snprintf(conn.peer_text, sizeof conn.peer_text, "node-%d", (int)node_id);
    return mn_conn_compare_mesh(&conn, &theirs, &why);
}

static void another_mesh_file_is_said_once_for_each_peer(void **state)
{
    (void)state;
    mn_log_set_sink(keep_warning);
    warnings[0] = 0;
    (void)meet(100, config.mesh.digest.hash);
    assert_string_equal(warnings, "");
    for (int i = 0; i < 3; i++)
        (void)meet(100, 77);
    assert_int_equal(count(warnings, "\n"), 1);
    assert_non_null(strstr(warnings, "peer node-100 goes by another mesh file (hash "
                                     "000000000000004d) than this host: mesh.yaml (hash "
                                     "0000000000000005); different: transport.silence; "));
    (void)meet(101, 77);
    assert_int_equal(count(warnings, "peer node-101 goes by another mesh file"), 1);
    /* It was replaced by yet another one. */
    (void)meet(100, 78);
    assert_int_equal(count(warnings, "\n"), 3);
    for (uint64_t i = 0; i < 3000; i++)
        (void)meet(1000 + i % 1500, 77);
    assert_true(count(warnings, "peer node-1000 ") <= 1);
    mn_log_set_sink(NULL);
}

/* Its ranks would choose by it, and these by another. Last: nothing takes it back. */
static void another_mesh_file_is_refused_where_the_tuner_acts(void **state)
{
    (void)state;
    assert_int_equal(meet(7000, 77), MN_OK);
    mn_tuning_has_acted();
    assert_int_equal(meet(7000, config.mesh.digest.hash), MN_OK);
    assert_int_equal(meet(7000, 77), MN_ERR_CONFIG);
    assert_non_null(
        strstr(why.text, "node-7000 goes by another mesh file (hash 000000000000004d)"));
    assert_non_null(strstr(why.text, "(hash 0000000000000005)"));
    assert_non_null(strstr(why.text, "meshnet push"));
    assert_non_null(strstr(why.text, "MESHNET_TUNER=false"));
    assert_int_equal(meet(7000, 0), MN_ERR_CONFIG);
    assert_non_null(strstr(why.text, "no mesh file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_mesh_file_is_said_once_for_each_peer),
        cmocka_unit_test(another_mesh_file_is_refused_where_the_tuner_acts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
