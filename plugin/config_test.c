/* Where the devices are, on recorded hosts: NCCL places rings by pciPath, so that each device must
 * have that of its own NIC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/config.h"
#include "plugin/far.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/mesh_file.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *host;
    struct {
        const char *netdev, *path;
    } nics[9];
} recorded[] = {
    {.host = "hgx-h100",
     .nics =
         {
             {"enp26s0np0",
              "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0"},
             {"enp27s0np0",
              "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:03.0/0000:1b:00.0"},
             {"enp77s0np0",
              "/sys/devices/pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:02.0/0000:4d:00.0"},
             {"enp78s0np0",
              "/sys/devices/pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:03.0/0000:4e:00.0"},
             {"enp156s0np0",
              "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0/0000:99:02.0/0000:9c:00.0"},
             {"enp157s0np0",
              "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0/0000:99:03.0/0000:9d:00.0"},
             {"enp204s0np0",
              "/sys/devices/pci0000:c7/0000:c7:01.0/0000:c8:00.0/0000:c9:02.0/0000:cc:00.0"},
             {"enp205s0np0",
              "/sys/devices/pci0000:c7/0000:c7:01.0/0000:c8:00.0/0000:c9:03.0/0000:cd:00.0"},
         }},
    {.host = "mi300x",
     .nics =
         {
             {"enp27s0np0",
              "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0"},
             {"enp61s0np0",
              "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/0000:39:01.0/0000:3d:00.0"},
             {"enp78s0np0",
              "/sys/devices/pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:01.0/0000:4e:00.0"},
             {"enp95s0np0",
              "/sys/devices/pci0000:59/0000:59:01.0/0000:5a:00.0/0000:5b:01.0/0000:5f:00.0"},
             {"enp157s0np0",
              "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0/0000:99:01.0/0000:9d:00.0"},
             {"enp189s0np0",
              "/sys/devices/pci0000:b7/0000:b7:01.0/0000:b8:00.0/0000:b9:01.0/0000:bd:00.0"},
             {"enp205s0np0",
              "/sys/devices/pci0000:c7/0000:c7:01.0/0000:c8:00.0/0000:c9:01.0/0000:cd:00.0"},
             {"enp221s0np0",
              "/sys/devices/pci0000:d7/0000:d7:01.0/0000:d8:00.0/0000:d9:01.0/0000:dd:00.0"},
         }},
    {.host = "dgx-spark",
     .nics =
         {
             {"enP7s7", "/sys/devices/pci0007:00/0007:00:00.0/0007:01:00.0"},
             {"enp1s0f0np0", "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0"},
             {"enP2p1s0f0np0", "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0"},
         }},
};

static struct mn_host load_host(const char *name)
{
    char *sysfs = mn_asprintf(SOURCE_DIR "/tests/fixtures/%s/sys", name);
    char *netlink = mn_asprintf(SOURCE_DIR "/tests/fixtures/%s/netlink.json", name);
    const struct mn_host_source src = {.sysfs = sysfs, .netlink = netlink};
    struct mn_host host;
    struct mn_diag diag = {0};
    if (mn_host_read(&src, &host, &diag))
        fail_msg("%s: %s", name, diag.text);
    free(sysfs);
    free(netlink);
    return host;
}

/* As by "meshnet discover -o", beside it nothing of the environment counts. */
static void with_mesh_file(const struct mn_host *host, const char *path)
{
    struct mn_mesh mesh;
    char *text;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_add_host(&mesh, host, NULL), MN_OK);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &text, NULL), MN_OK);
    assert_int_equal(mn_file_write(path, text, strlen(text), 1, NULL), MN_OK);
    free(text);
    mn_mesh_free(&mesh);
    setenv("MESHNET_CONFIG", path, 1);
}

/* What lies behind it stays until the next. */
static struct mn_config loaded;

static struct mn_config load_config(struct mn_host *host)
{
    struct mn_diag diag = {0};
    mn_config_free(&loaded);
    if (mn_config_from_host(&loaded, host, &diag))
        fail_msg("%s", diag.text);
    return loaded;
}

static void check_per_link(size_t row, struct mn_host *host)
{
    struct mn_config config = load_config(host);
    int n = 0;
    for (; recorded[row].nics[n].netdev; n++) {
        const struct mn_device *dev = &config.devices[n];
        char *name = mn_asprintf("mesh-%s", recorded[row].nics[n].netdev);
        assert_true(n < config.n_devices);
        assert_string_equal(dev->name, name);
        assert_string_equal(dev->pci_path, recorded[row].nics[n].path);
        for (int i = 0; i < dev->n_locals; i++)
            assert_string_equal(dev->locals[i].netdev, recorded[row].nics[n].netdev);
        assert_int_equal(dev->n_locals, 1);
        for (int i = 0; i < n; i++)
            assert_true(config.devices[i].guid != dev->guid);
        free(name);
    }
    assert_int_equal(config.n_devices, n);
}

static void each_device_has_the_place_of_its_nic(void **state)
{
    setenv("MESHNET_DEVICE_MODE", "per-link", 1);
    for (size_t row = 0; row < COUNT(recorded); row++) {
        struct mn_host host = load_host(recorded[row].host);
        with_mesh_file(&host, *state);
        check_per_link(row, &host);
        unsetenv("MESHNET_CONFIG"); /* the same without a file, the office's port among them */
        setenv("NCCL_SOCKET_IFNAME", "en", 1);
        if (access("/etc/meshnet/mesh.yaml", F_OK) != 0)
            check_per_link(row, &host);
        unsetenv("NCCL_SOCKET_IFNAME");
        mn_host_free(&host);
    }
    unsetenv("MESHNET_DEVICE_MODE");
}

static void a_nic_without_address_is_no_device(void **state)
{
    struct mn_host host = load_host("hgx-h100");
    with_mesh_file(&host, *state);
    setenv("MESHNET_DEVICE_MODE", "per-link", 1);
    for (size_t i = 0; i < host.n_nics; i++)
        if (!strcmp(host.nics[i].netdev, "enp27s0np0"))
            host.nics[i].n_addrs = 0;
    struct mn_config config = load_config(&host);
    assert_int_equal(config.n_devices, 7);
    assert_string_equal(config.devices[0].pci_path, recorded[0].nics[0].path);
    assert_string_equal(config.devices[1].name, "mesh-enp77s0np0");
    assert_string_equal(config.devices[1].pci_path, recorded[0].nics[2].path);
    unsetenv("MESHNET_DEVICE_MODE");
    mn_host_free(&host);
}

/* The port of 1 Gb/s comes first, the cables are the other two. */
static void one_device_has_the_place_of_its_fastest_nic(void **state)
{
    struct mn_host host = load_host("dgx-spark");
    with_mesh_file(&host, *state);
    struct mn_config config = load_config(&host);
    assert_int_equal(config.n_devices, 1);
    assert_string_equal(config.devices[0].name, "mesh0");
    assert_string_equal(config.devices[0].pci_path, recorded[2].nics[1].path);
    assert_int_equal(config.devices[0].speed_mbps, 200000);
    assert_int_equal(config.devices[0].n_locals, 3);
    mn_host_free(&host);
}

static void write_key(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    setenv("MESHNET_KEY_FILE", path, 1);
}

/* One who wrote a key wants to be protected: no file means "no key" silently. */
static void a_key_is_there_or_is_not(void **state)
{
    static char path[] = "/tmp/meshnet-config-test-key-XXXXXX";
    struct mn_host host = load_host("dgx-spark");
    struct mn_diag diag = {0};
    int fd = mkstemp(path);
    struct mn_config config;

    assert_true(fd >= 0 && close(fd) == 0);
    with_mesh_file(&host, *state);
    config = load_config(&host);
    assert_null(mn_config_key(&config));
    write_key(path, "00112233445566778899aabbccddeeff\n");
    config = load_config(&host);
    assert_non_null(mn_config_key(&config));
    assert_int_equal(mn_config_key(&config)[15], 0xff);
    write_key(path, "00000000000000000000000000000000\n");
    assert_int_equal(mn_config_from_host(&config, &host, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, path));
    assert_non_null(strstr(diag.text, MN_KEY_MAKE));
    unsetenv("MESHNET_KEY_FILE");
    unlink(path);
    mn_host_free(&host);
}

/* A NIC for management is in the file, and in no device. */
static void management_carries_no_data(void **state)
{
    static const char text[] = "version: 1\nnodes:\n  - name: spark-1\n    nics:\n"
                               "      - {netdev: enP7s7, %saddresses: [192.0.2.11/24]}\n"
                               "      - {netdev: enp1s0f0np0, %saddresses: [10.10.1.1/24]}\n";
    static const char management[] = "role: management, ";
    struct mn_host host = load_host("dgx-spark");

    setenv("MESHNET_CONFIG", *state, 1);
    for (int n = 0; n < 3; n++) {
        struct mn_config config;
        struct mn_diag diag = {.text = ""};
        char *yaml = mn_asprintf(text, n > 0 ? management : "", n > 1 ? management : "");
        assert_int_equal(mn_file_write(*state, yaml, strlen(yaml), 1, NULL), MN_OK);
        free(yaml);
        enum mn_err err = mn_config_from_host(&config, &host, &diag);
        assert_int_equal(err, n == 2 ? MN_ERR_CONFIG : MN_OK);
        assert_true(n < 2 || strstr(diag.text, "role: management"));
        for (int i = 0, n_locals = n < 2 ? config.devices[0].n_locals : 0; i < n_locals; i++)
            assert_true(n == 0 || strcmp(config.devices[0].locals[i].netdev, "enP7s7") != 0);
        assert_true(n == 2 || config.devices[0].n_locals == 2 - n);
        if (!err)
            mn_config_free(&config);
    }
    mn_host_free(&host);
}

/* A full mesh of ten with 65 addresses each, and a second cable to n1: nobody is
 * forgotten. */
static void every_address_of_every_neighbour_is_known(void **state)
{
    static struct mn_config config;
    struct mn_host host = {.n_nics = 0};
    struct mn_mesh mesh;
    struct mn_handle peer = {.n_locals = 1};
    struct mn_diag diag = {.text = ""};
    FILE *file = fopen(*state, "w");

    assert_non_null(file);
    fprintf(file, "version: 1\nnodes:\n  - name: n0\n    nics:\n");
    for (int i = 1; i < 10; i++)
        fprintf(file, "      - {netdev: p%d, addresses: [10.1.%d.0/31]}\n", i, i);
    fprintf(file, "      - {netdev: q1, addresses: [10.3.1.0/31]}\n");
    for (int i = 1; i < 10; i++) {
        fprintf(file, "  - name: n%d\n    nics:\n      - {netdev: p0, addresses: [10.1.%d.1/31]}\n",
                i, i);
        for (int nic = 0; nic < 8; nic++)
            for (int a = 0; a < 8; a++) {
                if (!a)
                    fprintf(file, "      - {netdev: x%d, addresses: [", nic);
                fprintf(file, "10.2.%d.%d/32%s", i, 8 * nic + a, a < 7 ? ", " : "]}\n");
            }
        fprintf(file, "%s", i == 1 ? "      - {netdev: q0, addresses: [10.3.1.1/31]}\n" : "");
    }
    assert_int_equal(fclose(file), 0);
    mn_mesh_init(&mesh);
    if (mn_mesh_read(*state, &mesh, &diag))
        fail_msg("%s", diag.text);
    config.n_devices = 1;
    config.devices[0].n_locals = 2;
    strcpy(config.devices[0].locals[0].netdev, "p1");
    strcpy(config.devices[0].locals[1].netdev, "q1");
    assert_int_equal(mn_far_choose(&config, &host, &mesh, 0, NULL), MN_OK);
    assert_int_equal(config.n_beside, 9 * 65 + 1 + 1); /* q0, and that q1 leads to n1 as well */
    assert_int_equal(config.devices[0].locals[0].spare, 0);
    assert_int_equal(config.devices[0].locals[1].spare, 1);
    for (int i = 1; i < 10; i++) {
        char text[32], name[8];
        snprintf(text, sizeof text, "10.2.%d.63/32", i);
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(mn_addr_parse(text, &peer.locals[0].addr, NULL), MN_OK);
        const struct mn_beside *beside = mn_far_neighbour(&config, &peer);
        assert_non_null(beside);
        assert_string_equal(beside->node, name);
    }
    mn_config_free(&config);
    mn_mesh_free(&mesh);
}

static char bare_said[512];

static void hear(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)level, (void)file, (void)line;
    if (strstr(msg, "without addresses"))
        mn_strlcpy(bare_said, msg, sizeof bare_said);
}

/* A cable that nobody has numbered yet is named, and is no reason not to use the others. */
static void a_bare_cable_is_named(void **state)
{
    static const char text[] =
        "version: 1\nnodes:\n  - name: spark-1\n    nics:\n"
        "      - {netdev: enp1s0f0np0%s}\n      - {netdev: enP2p1s0f0np0}\n"
        "  - {name: spark-2, nics: [{netdev: p0%s}, {netdev: p1}, {netdev: p2}]}\n"
        "  - {name: spark-3, nics: [{netdev: p0}]}\nlinks:\n"
        "  - {name: one, ends: [spark-1/enp1s0f0np0, spark-2/p0]}\n"
        "  - {name: two, ends: [spark-1/enP2p1s0f0np0, spark-2/p1]}\n"
        "  - {name: three, ends: [spark-2/p2, spark-3/p0]}\n";
    struct mn_host host = load_host("dgx-spark");

    setenv("MESHNET_CONFIG", *state, 1);
    mn_log_set_sink(hear);
    for (int bare = 0; bare < 2; bare++) {
        struct mn_config config;
        struct mn_diag diag = {.text = ""};
        char *yaml = mn_asprintf(text, bare ? "" : ", addresses: [10.10.1.1/24]",
                                 bare ? "" : ", addresses: [10.10.1.2/24]");
        assert_int_equal(mn_file_write(*state, yaml, strlen(yaml), 1, NULL), MN_OK);
        free(yaml);
        for (size_t i = 0; i < host.n_nics; i++)
            if (bare || !strcmp(host.nics[i].netdev, "enP2p1s0f0np0"))
                host.nics[i].n_addrs = 0;
        bare_said[0] = '\0';
        enum mn_err err = mn_config_from_host(&config, &host, &diag);
        assert_int_equal(err, bare ? MN_ERR_CONFIG : MN_OK);
        assert_non_null(strstr(bare_said, bare ? ": one, two;" : ": two;"));
        assert_non_null(strstr(bare_said, "meshnet topo address"));
        assert_true(!bare || strstr(diag.text, "one, two; meshnet topo address gives them"));
        assert_true(bare || config.devices[0].n_locals == 1);
        if (!err)
            mn_config_free(&config);
    }
    mn_log_set_sink(NULL);
    mn_host_free(&host);
}

static int has_netdev(const struct mn_config *config, const char *netdev)
{
    int n = 0;
    for (int i = 0; i < config->devices[0].n_locals; i++)
        n += !strcmp(config->devices[0].locals[i].netdev, netdev);
    return n;
}

/* Without a mesh file: the office's port is no cable, unless somebody says so; peers without a
 * cable may come to it all the same. */
static void the_office_is_left_out(void **state)
{
    struct mn_host host = load_host("dgx-spark");
    struct mn_nic *office = NULL, *cables[2] = {NULL};

    (void)state;
    if (access("/etc/meshnet/mesh.yaml", F_OK) == 0)
        skip();
    unsetenv("MESHNET_CONFIG");
    for (size_t i = 0; i < host.n_nics; i++) {
        if (!strcmp(host.nics[i].netdev, "enP7s7"))
            office = &host.nics[i];
        if (!strcmp(host.nics[i].netdev, "enp1s0f0np0"))
            cables[0] = &host.nics[i];
        if (!strcmp(host.nics[i].netdev, "enP2p1s0f0np0"))
            cables[1] = &host.nics[i];
    }
    assert_true(office && cables[0] && cables[1]);
    struct mn_config config = load_config(&host);
    assert_int_equal(config.n_devices, 1);
    assert_int_equal(config.devices[0].n_locals, 2);
    assert_false(has_netdev(&config, "enP7s7"));
    assert_int_equal(config.n_far, 1);
    assert_string_equal(config.far[0].netdev, "enP7s7");

    setenv("NCCL_SOCKET_IFNAME", "enP7s7", 1);
    config = load_config(&host);
    assert_int_equal(config.devices[0].n_locals, 1);
    assert_true(has_netdev(&config, "enP7s7"));
    setenv("NCCL_SOCKET_IFNAME", "en", 1);
    config = load_config(&host);
    assert_int_equal(config.devices[0].n_locals, 3);
    unsetenv("NCCL_SOCKET_IFNAME");
    setenv("NCCL_IB_HCA", "=none", 1);
    config = load_config(&host);
    assert_int_equal(config.n_devices, 0);
    unsetenv("NCCL_IB_HCA");

    /* What is left has to do. */
    cables[0]->carrier = cables[1]->carrier = 0;
    config = load_config(&host);
    assert_int_equal(config.devices[0].n_locals, 1);
    assert_true(has_netdev(&config, "enP7s7"));
    for (size_t i = 0; i < host.n_nics; i++)
        if (&host.nics[i] != office && host.nics[i].kind != MN_NIC_LOOPBACK)
            host.nics[i].n_addrs = 0;
    office->role = MN_ROLE_AUTO;
    config = load_config(&host);
    assert_true(has_netdev(&config, "enP7s7"));
    mn_host_free(&host);
}

static int make_place(void **state)
{
    static const char *const others[] = {"NCCL_SOCKET_IFNAME",  "NCCL_IB_HCA",
                                         "NCCL_SOCKET_FAMILY",  "MESHNET_NODE",
                                         "MESHNET_DEVICE_MODE", "MESHNET_KEY_FILE"};
    static char path[] = "/tmp/meshnet-config-test-XXXXXX";
    int fd = mkstemp(path);
    for (size_t i = 0; i < COUNT(others); i++)
        unsetenv(others[i]);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    *state = path;
    return fd < 0 || close(fd);
}

static int remove_place(void **state)
{
    mn_config_free(&loaded);
    return unlink(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_office_is_left_out),
        cmocka_unit_test(each_device_has_the_place_of_its_nic),
        cmocka_unit_test(a_nic_without_address_is_no_device),
        cmocka_unit_test(one_device_has_the_place_of_its_fastest_nic),
        cmocka_unit_test(a_key_is_there_or_is_not),
        cmocka_unit_test(management_carries_no_data),
        cmocka_unit_test(every_address_of_every_neighbour_is_known),
        cmocka_unit_test(a_bare_cable_is_named),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
