/* The mesh file: every wrong file in tests/fixtures/mesh/bad says what its first line promises;
 * every good one reads back as it was written, as YAML and as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/mesh_yaml.h"

#define FIXTURES SOURCE_DIR "/tests/fixtures/mesh"

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && !strcmp(dot, ".yaml");
}

/* Calls check for each file of dir; how many there were. */
static int each_file(const char *dir, void (*check)(const char *path))
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_yaml, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = mn_asprintf("%s/%s", dir, entries[i]->d_name);
        check(path);
        free(path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return count;
}

static void check_bad(const char *path)
{
    struct mn_mesh mesh;
    struct mn_diag diag = {0};
    char *text, place[24], fragment[256];
    assert_int_equal(mn_file_read(path, MN_YAML_MAX, &text, NULL, &diag), MN_OK);
    if (sscanf(text, "# expect: %23s %255[^\n]", place, fragment) != 2)
        fail_msg("%s: the first line is not \"# expect: LINE:COLUMN fragment\"", path);
    free(text);
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_read(path, &mesh, &diag), MN_ERR_CONFIG);
    assert_int_equal(mesh.n_nodes + mesh.n_links, 0);
    char *expected = mn_asprintf("%s:%s: ", path, place);
    if (strncmp(diag.text, expected, strlen(expected)) != 0 || !strstr(diag.text, fragment))
        fail_msg("%s\n  is not at %s with: %s", diag.text, place, fragment);
    free(expected);
    mn_mesh_free(&mesh);
}

static void wrong_files_are_explained(void **state)
{
    (void)state;
    assert_true(each_file(FIXTURES "/bad", check_bad) >= 45);
}

static void assert_same_addrs(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b)
{
    assert_int_equal(a->n_addrs, b->n_addrs);
    for (size_t i = 0; i < a->n_addrs; i++) {
        assert_true(mn_addr_equal(&a->addrs[i], &b->addrs[i]));
        assert_int_equal(a->addrs[i].prefix, b->addrs[i].prefix);
    }
    assert_int_equal(a->gid_addr.family, b->gid_addr.family);
    if (a->gid_addr.family)
        assert_true(mn_addr_equal(&a->gid_addr, &b->gid_addr));
}

static void assert_same_nic(const struct mn_mesh_nic *a, const struct mn_mesh_nic *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->netdev, b->netdev);
    assert_string_equal(a->device, b->device);
    assert_string_equal(a->group, b->group);
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->has_mac, b->has_mac);
    assert_memory_equal(a->mac, b->mac, sizeof a->mac);
    assert_int_equal(a->gid_index, b->gid_index);
    assert_int_equal(a->speed_mbps, b->speed_mbps);
    assert_int_equal(a->mtu, b->mtu);
    assert_int_equal(a->role, b->role);
    assert_same_addrs(a, b);
}

static void assert_same_gpu(const struct mn_mesh_gpu *a, const struct mn_mesh_gpu *b)
{
    assert_string_equal(a->pci, b->pci);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->path, b->path);
    assert_int_equal(a->n_nics, b->n_nics);
    assert_memory_equal(a->nics, b->nics, a->n_nics * sizeof *a->nics);
}

static void assert_same_mesh(const struct mn_mesh *a, const struct mn_mesh *b)
{
    assert_int_equal(a->version, b->version);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_links, b->n_links);
    for (size_t i = 0; i < a->n_nodes; i++) {
        assert_string_equal(a->nodes[i].name, b->nodes[i].name);
        assert_string_equal(a->nodes[i].hostname, b->nodes[i].hostname);
        assert_int_equal(a->nodes[i].n_nics, b->nodes[i].n_nics);
        for (size_t j = 0; j < a->nodes[i].n_nics; j++)
            assert_same_nic(&a->nodes[i].nics[j], &b->nodes[i].nics[j]);
        assert_int_equal(a->nodes[i].n_gpus, b->nodes[i].n_gpus);
        for (size_t j = 0; j < a->nodes[i].n_gpus; j++)
            assert_same_gpu(&a->nodes[i].gpus[j], &b->nodes[i].gpus[j]);
    }
    assert_int_equal(a->n_routes, b->n_routes);
    for (size_t i = 0; i < a->n_routes; i++) {
        assert_memory_equal(a->routes[i].ends, b->routes[i].ends, sizeof a->routes[i].ends);
        assert_string_equal(a->routes[i].via, b->routes[i].via);
    }
    for (size_t i = 0; i < a->n_links; i++) {
        assert_string_equal(a->links[i].name, b->links[i].name);
        assert_memory_equal(a->links[i].ends, b->links[i].ends, sizeof a->links[i].ends);
        assert_true(mn_addr_equal(&a->links[i].subnet, &b->links[i].subnet));
        assert_int_equal(a->links[i].subnet.prefix, b->links[i].subnet.prefix);
    }
    assert_memory_equal(&a->settings, &b->settings, sizeof a->settings);
}

static void check_good(const char *path)
{
    struct mn_mesh mesh, again;
    struct mn_diag diag = {0};
    char *yaml, *twice, *json;
    mn_mesh_init(&mesh);
    mn_mesh_init(&again);
    if (mn_mesh_read(path, &mesh, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, &diag), MN_OK);
    if (mn_mesh_parse("written", yaml, strlen(yaml), &again, &diag))
        fail_msg("%s: %s\n%s", path, diag.text, yaml);
    assert_same_mesh(&mesh, &again);
    assert_int_equal(mn_mesh_format_yaml(&again, &twice, &diag), MN_OK);
    assert_string_equal(yaml, twice);
    free(twice);

    assert_int_equal(mn_mesh_format_json(&mesh, &json, &diag), MN_OK);
    if (mn_mesh_parse("json", json, strlen(json), &again, &diag))
        fail_msg("%s: %s\n%s", path, diag.text, json);
    assert_same_mesh(&mesh, &again);
    free(yaml);
    free(json);
    mn_mesh_free(&mesh);
    mn_mesh_free(&again);
}

static void good_files_read_back_as_written(void **state)
{
    (void)state;
    assert_true(each_file(FIXTURES "/good", check_good) >= 5);
    assert_int_equal(each_file(SOURCE_DIR "/configs", check_good), 5);
}

static void every_key_is_read(void **state)
{
    (void)state;
    struct mn_mesh mesh;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_read(FIXTURES "/good/everything.yaml", &mesh, NULL), MN_OK);
    static const uint8_t mac[6] = {0x4c, 0xbb, 0x47, 0, 0, 1};
    const struct mn_mesh_nic *nic = &mesh.nodes[0].nics[0];
    assert_string_equal(mesh.name, "1.0");
    assert_string_equal(mesh.nodes[0].name, "no");
    assert_string_equal(mesh.nodes[0].hostname, "a.example.com");
    assert_string_equal(mesh.nodes[1].hostname, "b");
    assert_string_equal(nic->name, "p0");
    assert_string_equal(nic->netdev, "enp1s0f0np0");
    assert_string_equal(nic->device, "mlx5_0");
    assert_string_equal(nic->group, "port0");
    assert_memory_equal(nic->mac, mac, 6);
    assert_int_equal(nic->port, 2);
    assert_int_equal(nic->gid_index, 3);
    assert_int_equal(nic->speed_mbps, 200000);
    assert_int_equal(nic->mtu, 9000);
    assert_int_equal(nic->n_addrs, 3);
    assert_int_equal(mesh.nodes[1].nics[0].gid_index, -1);
    assert_int_equal(mesh.n_links, 1); /* given links are the links: eth1 has none */
    assert_string_equal(mesh.links[0].name, "cable");
    assert_int_equal(mesh.links[0].subnet.prefix, 24);
    const struct mn_settings *s = &mesh.settings;
    assert_int_equal(s->transport, MN_TRANSPORT_TCP);
    assert_int_equal(s->allow_tcp, 0);
    assert_int_equal(s->sockets_per_link, 4);
    assert_int_equal(s->chunk_bytes, 1 << 20);
    assert_int_equal(s->silence_ms, 3600000);
    assert_int_equal(s->handshake_ms, 1500);
    assert_int_equal(s->connect_ms, 90000);
    assert_int_equal(s->traffic_class, 106);
    assert_int_equal(s->service_level, 3);
    assert_int_equal(s->gpu_direct, 0);
    assert_int_equal(s->device_mode, MN_DEVICE_PER_LINK);
    assert_int_equal(s->tuner, 0);
    assert_int_equal(s->port_range.first, 20000);
    assert_int_equal(s->port_range.last, 20009);
    assert_string_equal(s->key_file, "/etc/meshnet/key");
    assert_int_equal(s->reach, MN_REACH_RELAY);
    assert_int_equal(s->relay_port, 20010);
    assert_int_equal(s->relay_silence_ms, 9000);
    assert_int_equal(s->relay_buffers, 64 << 20);
    assert_string_equal(s->relay_socket, "/run/r.sock");
    assert_int_equal(s->relay_ways, 3);
    mn_mesh_free(&mesh);
}

static void gpus_are_read_and_written(void **state)
{
    (void)state;
    struct mn_mesh mesh;
    char *yaml;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_read(FIXTURES "/good/everything.yaml", &mesh, NULL), MN_OK);
    const struct mn_mesh_gpu *gpu = mesh.nodes[0].gpus;
    assert_int_equal(mesh.nodes[0].n_gpus, 2);
    assert_int_equal(mesh.nodes[1].n_gpus, 0);
    assert_string_equal(gpu->pci, "0000:1a:1f.7");
    assert_string_equal(gpu->name, "NVIDIA \"H100\" 80GB/HBM3");
    assert_int_equal(gpu->path, MN_PCI_SWITCH);
    assert_int_equal(gpu->n_nics, 1);
    assert_int_equal(gpu->nics[0], 0);
    assert_int_equal(gpu[1].nics[0], 1);
    assert_int_equal(gpu[1].nics[1], 0);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, NULL), MN_OK);
    assert_non_null(strstr(yaml, "    gpus:\n"
                                 "      - {pci: 0000:1a:1f.7, name: \"NVIDIA \\\"H100\\\" "
                                 "80GB/HBM3\", nics: [p0], path: switch}\n"
                                 "      - {pci: \"0000:18:00.0\", nics: [eth1, p0], "
                                 "path: across}\n"
                                 "  - name: b\n"));
    free(yaml);
    mn_mesh_free(&mesh);
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    struct mn_mesh mesh;
    struct mn_diag diag;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_read("/nonexistent/mesh.yaml", &mesh, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "/nonexistent/mesh.yaml"));

    char *large = mn_zalloc(MN_YAML_MAX + 2);
    memset(large, '\n', MN_YAML_MAX + 1);
    assert_int_equal(mn_mesh_parse("large", large, MN_YAML_MAX + 1, &mesh, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "large:1:1: 33554433 bytes; expected at most 33554432"));
    free(large);
    assert_int_equal(mn_mesh_parse("none", "", 0, &mesh, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "none:1:1: the file is empty"));
    mn_mesh_free(&mesh);
}

static void place_of_the_file(void **state)
{
    (void)state;
    char dir[] = "/tmp/meshnet-test-XXXXXX", path[512], small[8];
    assert_non_null(mkdtemp(dir));
    char *folder = mn_asprintf("%s/meshnet", dir), *file = mn_asprintf("%s/mesh.yaml", folder);
    setenv("MESHNET_CONFIG", "/nonexistent/mesh.yaml", 1);
    assert_int_equal(mn_mesh_find_file(path, sizeof path), 1);
    assert_string_equal(path, "/nonexistent/mesh.yaml");
    unsetenv("MESHNET_CONFIG");
    setenv("XDG_CONFIG_HOME", dir, 1);
    int system_wide = access("/etc/meshnet/mesh.yaml", F_OK) == 0;
    assert_int_equal(mn_mesh_find_file(path, sizeof path), system_wide);
    char *command = mn_asprintf("mkdir %s && : >%s", folder, file);
    assert_int_equal(system(command), 0);
    assert_int_equal(mn_mesh_find_file(path, sizeof path), 1);
    assert_string_equal(path, file);
    assert_int_equal(mn_mesh_find_file(small, sizeof small), 0);
    unlink(file);
    rmdir(folder);
    rmdir(dir);
    free(command);
    free(folder);
    free(file);
    unsetenv("XDG_CONFIG_HOME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_explained),
        cmocka_unit_test(good_files_read_back_as_written),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(gpus_are_read_and_written),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(place_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
