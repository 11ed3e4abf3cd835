/* The table of formats, and which nodes nothing is emitted for. What the formats write is compared
 * with golden files, and tried on the programs it is for, in tests/topo.bats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topo/emit/emit.h"
#include "topo/mesh_file.h"

static void read_mesh(struct mn_mesh *mesh, const char *netdev)
{
    struct mn_diag diag = {.text = ""};
    char text[512];

    mn_mesh_init(mesh);
    snprintf(text, sizeof text,
             "version: 1\nnodes:\n"
             "  - {name: a, nics: [{netdev: \"%s\", addresses: [10.0.0.1/24]}, {netdev: spare}, "
             "{netdev: office, role: management, addresses: [192.0.2.1/24]}]}\n"
             "  - {name: b, nics: [{netdev: eth0}, "
             "{netdev: office, role: management, addresses: [192.0.2.2/24]}]}\n",
             netdev);
    if (mn_mesh_parse("mesh", text, strlen(text), mesh, &diag))
        fail_msg("%s", diag.text);
}

static void every_row_writes_a_file(void **state)
{
    struct mn_mesh mesh;
    struct mn_emit out;

    (void)state;
    read_mesh(&mesh, "eth0");
    for (const struct mn_emit_format *f = mn_emit_formats; f->name; f++) {
        assert_ptr_equal(mn_emit_find(f->name), f);
        assert_int_equal(mn_emit(f, &mesh, 0, &out, NULL), MN_OK);
        assert_int_equal(out.n_files, 1);
        assert_true(out.files[0].path[0] && out.files[0].mode);
        assert_non_null(
            strstr(out.files[0].text, !strcmp(f->name, "hostfile") ? "a slots=1" : "eth0"));
        assert_null(strstr(out.files[0].text, "spare"));
        assert_null(strstr(out.files[0].text, "office"));
        mn_emit_free(&out);
    }
    assert_null(mn_emit_find("ifupdown"));
    mn_mesh_free(&mesh);
}

static void nothing_for_a_node_without_addresses(void **state)
{
    struct mn_mesh mesh;
    struct mn_emit out;
    struct mn_diag diag;

    (void)state;
    read_mesh(&mesh, "eth0");
    for (const struct mn_emit_format *f = mn_emit_formats; f->name; f++) {
        assert_int_equal(mn_emit(f, &mesh, 1, &out, &diag), MN_ERR_CONFIG);
        assert_int_equal(out.n_files, 0);
        assert_non_null(strstr(diag.text, "node b has no NIC with an address"));
    }
    mn_mesh_free(&mesh);
}

static void no_name_that_means_something_to_a_shell(void **state)
{
    static const char *const names[] = {"a;id", "a'b", "a$b", "eth*", "a`b", "é0", "#a"};
    struct mn_mesh mesh;
    struct mn_emit out;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        read_mesh(&mesh, names[i]);
        for (const struct mn_emit_format *f = mn_emit_formats; f->name; f++)
            assert_int_equal(mn_emit(f, &mesh, 0, &out, NULL), MN_ERR_CONFIG);
        mn_mesh_free(&mesh);
    }
}

static void a_mac_of_two_tells_neither(void **state)
{
    static const char text[] =
        "version: 1\nnodes:\n"
        "  - {name: a, nics: [{netdev: eth0, mac: \"02:00:00:00:00:01\", addresses: "
        "[10.0.0.1/24]}, "
        "{netdev: eth0.7, mac: \"02:00:00:00:00:01\", addresses: [10.0.1.1/24]}, "
        "{netdev: eth1, mac: \"02:00:00:00:00:02\", addresses: [10.0.2.1/24]}]}\n";
    struct mn_diag diag = {.text = ""};
    struct mn_mesh mesh;
    struct mn_emit out;

    (void)state;
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("mesh", text, strlen(text), &mesh, &diag))
        fail_msg("%s", diag.text);
    for (const struct mn_emit_format *f = mn_emit_formats; f->name; f++) {
        int macs = 0;
        assert_int_equal(mn_emit(f, &mesh, 0, &out, NULL), MN_OK);
        for (size_t i = 0; i < out.n_files; i++) {
            assert_null(strstr(out.files[i].text, "02:00:00:00:00:01"));
            macs += strstr(out.files[i].text, "02:00:00:00:00:02") != NULL;
        }
        assert_int_equal(macs, strcmp(f->name, "hostfile") && strcmp(f->name, "iproute2"));
        mn_emit_free(&out);
    }
    mn_mesh_free(&mesh);
}

/* Golden files have the texts; here: which files there are, for whom, and where they lie. */
static void transit_has_files(void **state)
{
    static const char text[] =
        "version: 1\nnodes:\n"
        "  - {name: a, nics: [{netdev: eth0, addresses: [10.0.0.0/31]}]}\n"
        "  - {name: b, nics: [{netdev: eth0, addresses: [10.0.0.1/31]}, {netdev: eth1, addresses: "
        "[10.0.0.2/31]}]}\n"
        "  - {name: c, nics: [{netdev: eth1, addresses: [10.0.0.3/31]}]}\n";
    static const char *const paths[] = {MN_TRANSIT_SYSCTL_PATH, MN_TRANSIT_SCRIPT_PATH,
                                        MN_TRANSIT_UNIT_PATH, MN_TRANSIT_BOOT_PATH,
                                        MN_TRANSIT_DOCKER_PATH};
    struct mn_diag diag = {.text = ""};
    struct mn_mesh mesh;
    struct mn_emit out;

    (void)state;
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("mesh", text, strlen(text), &mesh, &diag))
        fail_msg("%s", diag.text);
    for (int node = 0; node < 2; node++) {
        size_t files = node ? 5 : 1;
        assert_int_equal(mn_emit(mn_emit_find("netplan"), &mesh, node, &out, NULL), MN_OK);
        assert_int_equal(out.n_files, 1 + files);
        assert_int_equal(strstr(out.files[0].text, "routes:") != NULL, !node);
        for (size_t i = 0; i < files; i++)
            assert_string_equal(out.files[1 + i].path, paths[i]);
        assert_non_null(strstr(out.also, "sysctl --system"));
        assert_int_equal(strstr(out.also, MN_TRANSIT_UNIT) != NULL, node);
        mn_emit_free(&out);
        /* Scripts are one file, that can be sent through ssh. */
        assert_int_equal(mn_emit(mn_emit_find("nmcli"), &mesh, node, &out, NULL), MN_OK);
        assert_int_equal(out.n_files, 1);
        mn_emit_free(&out);
    }
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_writes_a_file),
        cmocka_unit_test(nothing_for_a_node_without_addresses),
        cmocka_unit_test(a_mac_of_two_tells_neither),
        cmocka_unit_test(no_name_that_means_something_to_a_shell),
        cmocka_unit_test(transit_has_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
