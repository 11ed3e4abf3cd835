/* What the relay knows of the mesh: the same numbers for the same nodes, whatever the order in the
 * file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/config.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

static struct mn_host host;
static struct mn_nic nics[2];
static struct mn_addr addrs[2];

static void make_host(void)
{
    static const char *const texts[] = {"10.0.1.1/24", "10.0.4.2/24"};

    strcpy(host.hostname, "c");
    host.nics = nics;
    host.n_nics = 2;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mn_addr_parse(texts[i], &addrs[i], NULL), MN_OK);
        nics[i] = (struct mn_nic){.admin_up = 1, .carrier = 1, .ifindex = i + 2, .rdma = -1};
        nics[i].netdev[0] = 'p';
        nics[i].netdev[1] = (char)('0' + i);
        nics[i].addrs = &addrs[i];
        nics[i].n_addrs = 1;
    }
}

static struct mn_config load(const char *path, const char *yaml)
{
    struct mn_config config;
    struct mn_diag diag = {.text = ""};

    assert_int_equal(mn_file_write(path, yaml, strlen(yaml), 1, NULL), MN_OK);
    setenv("MESHNET_CONFIG", path, 1);
    setenv("MESHNET_NODE", "c", 1);
    if (mn_config_from_host(&config, &host, &diag))
        fail_msg("%s", diag.text);
    return config;
}

#define A "  - {name: a, nics: [{netdev: p0, addresses: [10.0.1.2/24]}]}\n"
#define B "  - {name: b, nics: [{netdev: p0, addresses: [10.0.4.1/24]}]}\n"
#define C                                                                                          \
    "  - name: c\n    nics:\n      - {netdev: p0, addresses: [10.0.1.1/24]}\n"                     \
    "      - {netdev: p1, addresses: [10.0.4.2/24]}\n"

#define LINKS "links:\n  - {name: one, ends: [a/p0, c/p0]}\n  - {name: two, ends: [b/p0, c/p1]}\n"

static void nodes_have_one_number_everywhere(void **state)
{
    struct mn_config one = load(*state, "version: 1\nnodes:\n" C A B LINKS);
    struct mn_config two = load(*state, "version: 1\nnodes:\n" B C A LINKS);

    assert_non_null(one.relay);
    assert_int_equal(one.relay->digest, two.relay->digest);
    assert_int_equal(one.relay->digest, one.mesh.digest.hash);
    for (int i = 0; i < 3; i++)
        assert_string_equal(one.relay->mesh.nodes[i].name, two.relay->mesh.nodes[i].name);
    assert_int_equal(one.relay->node, two.relay->node);
    assert_string_equal(one.relay->mesh.nodes[one.relay->node].name, "c");
    assert_int_equal(one.relay->mesh.n_links, 2);
    mn_config_free(&one);
    mn_config_free(&two);
    assert_null(one.relay);
}

static void without_a_mesh_file_there_is_none(void **state)
{
    struct mn_config config;

    (void)state;
    unsetenv("MESHNET_CONFIG");
    if (access("/etc/meshnet/mesh.yaml", F_OK) == 0)
        skip();
    assert_int_equal(mn_config_from_host(&config, &host, NULL), MN_OK);
    assert_null(config.relay);
    mn_config_free(&config);
}

static int make_place(void **state)
{
    static char path[] = "/tmp/meshnet-config-relay-test-XXXXXX";
    int fd = mkstemp(path);

    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    make_host();
    *state = path;
    return fd < 0 || close(fd);
}

static int remove_place(void **state)
{
    return unlink(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_one_number_everywhere),
        cmocka_unit_test(without_a_mesh_file_there_is_none),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
