#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "bench/environment.h"

static const struct mn_environment known = {
    .node = "a",
    .host = "host-a",
    .kernel = "Linux 6.1 x86_64",
    .cpu = "A CPU",
    .cpus = 20,
    .governor = "performance",
    .pinned = "0-9",
    .nccl_settings = "NCCL_IB_TC=106 NCCL_IB_SL=3",
    .plugin = {"/lib/x.so", "ncclNetPlugin_v12", "ab"},
    .mesh_file = {"/etc/meshnet/mesh.yaml", "cd"},
    .nics = {{"p0", "roce0", 1, "mlx5_core", "28.1", 9000, 200000, 126.0, 0},
             {"lo", "", -1, "", "", 65536, -1, -1, -1}},
    .n_nics = 2,
};

/* Through text, as between hosts. */
static void travel(const struct mn_environment *from, struct mn_environment *to)
{
    cJSON *json = mn_environment_json(from);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    json = cJSON_Parse(text);
    assert_non_null(json);
    mn_environment_parse(json, to);
    cJSON_Delete(json);
    free(text);
}

static void arrives_as_it_was_sent(void **state)
{
    static struct mn_environment got, none, empty;

    (void)state;
    travel(&known, &got);
    assert_memory_equal(&got, &known, sizeof got);
    none.cpus = -1;
    travel(&none, &got);
    assert_memory_equal(&got, &none, sizeof got);
    empty.cpus = -1;
    mn_environment_parse(NULL, &got);
    assert_memory_equal(&got, &empty, sizeof got);
}

static void groups_and_unknown_values(void **state)
{
    struct mn_environment env = known;

    (void)state;
    memset(&env.mesh_file, 0, sizeof env.mesh_file);
    cJSON *json = mn_environment_json(&env);
    const cJSON *plugin = cJSON_GetObjectItemCaseSensitive(json, "plugin");
    const cJSON *nics = cJSON_GetObjectItemCaseSensitive(json, "nics");
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json, "mesh_file")));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(plugin, "sha256")->valuestring, "ab");
    assert_int_equal(cJSON_GetArraySize(nics), 2);
    const cJSON *lo = cJSON_GetArrayItem(nics, 1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(lo, "numa")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(lo, "device")));
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(lo, "mtu")->valueint, 65536);
    cJSON_Delete(json);
}

/* What another version or a stranger may send. */
static void a_stranger_is_bounded(void **state)
{
    static struct mn_environment got;
    char text[2000], name[900];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(text, sizeof text,
             "{\"node\": \"%s\", \"kernel\": 7, \"cpu\": \"a\\u001b[31mb\", \"cpus\": -4,"
             " \"plugin\": [], \"mesh_file\": \"x\", \"nics\": [{\"mtu\": 1e300,"
             " \"pcie_gbps\": \"fast\", \"netdev\": \"%.40s\"}, 3, {\"port\": null}]}",
             name, name);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    mn_environment_parse(json, &got);
    cJSON_Delete(json);
    assert_int_equal(strlen(got.node), sizeof got.node - 1);
    assert_string_equal(got.kernel, "");
    assert_string_equal(got.cpu, "a?[31mb");
    assert_int_equal(got.cpus, -1);
    assert_string_equal(got.plugin.path, "");
    assert_int_equal(got.n_nics, 3);
    assert_int_equal(got.nics[0].mtu, -1);
    assert_true(got.nics[0].pcie_gbps < 0);
    assert_int_equal(strlen(got.nics[0].netdev), IF_NAMESIZE - 1);
    assert_int_equal(got.nics[2].port, -1);

    json = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(json, "nics");
    for (int i = 0; i < 3 * MN_ENVIRONMENT_NICS; i++)
        cJSON_AddItemToArray(list, cJSON_CreateObject());
    mn_environment_parse(json, &got);
    cJSON_Delete(json);
    assert_int_equal(got.n_nics, MN_ENVIRONMENT_NICS);
}

static void this_host(void **state)
{
    static struct mn_environment env;
    struct mn_plugin_info plugin = {.path = "/lib/x.so", .hash = "ab", .version = 9};
    char dir[] = "/tmp/environmentXXXXXX", path[64], name[64];
    int lo = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/mesh.yaml", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("abc", file);
    fclose(file);
    setenv("MESHNET_CONFIG", path, 1);
    unsetenv("MESHNET_NODE");
    mn_environment_read(&plugin, &env);
    gethostname(name, sizeof name);
    assert_string_equal(env.node, name);
    assert_string_equal(env.host, name);
    assert_memory_equal(env.kernel, "Linux ", 6);
    assert_true(env.cpus >= 1);
    assert_string_equal(env.plugin.symbol, "ncclNetPlugin_v9");
    assert_string_equal(env.mesh_file.path, path);
    assert_string_equal(env.mesh_file.sha256,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (int i = 0; i < env.n_nics; i++)
        lo |= !strcmp(env.nics[i].netdev, "lo") && env.nics[i].mtu > 0 && env.nics[i].port < 0;
    assert_true(lo);
    setenv("MESHNET_NODE", "b", 1);
    unlink(path);
    rmdir(dir);
    mn_environment_read(&plugin, &env);
    assert_string_equal(env.node, "b");
    assert_string_equal(env.mesh_file.sha256, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrives_as_it_was_sent),
        cmocka_unit_test(groups_and_unknown_values),
        cmocka_unit_test(a_stranger_is_bounded),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
