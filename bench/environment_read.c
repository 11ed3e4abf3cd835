/* What this host says of itself. */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/environment.h"
#include "topo/base/alloc.h"
#include "topo/base/sha256.h"
#include "topo/cpu.h"
#include "topo/finding.h"
#include "topo/mesh_file.h"
#include "topo/mesh_setting.h"

static void read_kernel(struct mn_environment *env)
{
    struct utsname name;

    if (uname(&name))
        return;
    mn_strlcpy(env->host, name.nodename, sizeof env->host);
    snprintf(env->kernel, sizeof env->kernel, "%.32s %.64s %.32s", name.sysname, name.release,
             name.machine);
}

/* The value of the first line "key : value"; 0 when there is none. */
static int info_value(const char *info, const char *key, char *value, size_t size)
{
    size_t len = strlen(key);

    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0 || !line[len + strspn(line + len, " \t")])
            continue;
        const char *colon = line + len + strspn(line + len, " \t");
        if (*colon != ':')
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        return *value != 0;
    }
    return 0;
}

/* x86-64 has a name; aarch64 numbers of maker and part. */
static void read_cpu(struct mn_environment *env)
{
    char *info, maker[32], part[32];

    env->cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (mn_file_read("/proc/cpuinfo", 16u << 20, &info, NULL, NULL))
        return;
    if (!info_value(info, "model name", env->cpu, sizeof env->cpu) &&
        info_value(info, "CPU implementer", maker, sizeof maker) &&
        info_value(info, "CPU part", part, sizeof part))
        snprintf(env->cpu, sizeof env->cpu, "implementer %s, part %s", maker, part);
    free(info);
}

static void read_governor(struct mn_environment *env)
{
    long n = sysconf(_SC_NPROCESSORS_CONF);

    for (long i = 0; i < n; i++) {
        char path[96], *text;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/cpufreq/scaling_governor", i);
        if (mn_file_read(path, 4096, &text, NULL, NULL))
            continue;
        text[strcspn(text, "\n")] = 0;
        if (env->governor[0] && strcmp(env->governor, text) != 0)
            mn_strlcpy(env->governor, "mixed", sizeof env->governor);
        else
            mn_strlcpy(env->governor, text, sizeof env->governor);
        free(text);
        if (!strcmp(env->governor, "mixed"))
            return;
    }
}

/* Of a NIC without an RDMA port; drivers without firmware leave it empty. */
static void ask_firmware(const char *netdev, char *firmware, size_t size)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq req = {.ifr_data = (void *)&info};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return;
    mn_strlcpy(req.ifr_name, netdev, sizeof req.ifr_name);
    if (!ioctl(fd, SIOCETHTOOL, &req)) {
        info.fw_version[sizeof info.fw_version - 1] = 0;
        if (strcmp(info.fw_version, "N/A") != 0)
            mn_strlcpy(firmware, info.fw_version, size);
    }
    close(fd);
}

static long known(long value)
{
    return value > 0 ? value : -1;
}

static void read_nic(const struct mn_host *host, const struct mn_nic *nic,
                     struct mn_environment_nic *n)
{
    const struct mn_rdma_port *port = nic->rdma >= 0 ? &host->rdma[nic->rdma] : NULL;
    double gbps = mn_pci_gbps(nic->pci.speed, nic->pci.width);

    *n = (struct mn_environment_nic){
        .port = port ? port->port : -1,
        .mtu = known(nic->mtu),
        .speed_mbps = known(nic->speed_mbps),
        .pcie_gbps = gbps > 0 ? gbps : -1,
        .numa = nic->pci.address[0] ? nic->pci.numa : -1,
    };
    mn_strlcpy(n->netdev, nic->netdev, sizeof n->netdev);
    mn_strlcpy(n->driver, nic->driver, sizeof n->driver);
    if (port) {
        mn_strlcpy(n->device, port->device, sizeof n->device);
        mn_strlcpy(n->firmware, port->fw_ver, sizeof n->firmware);
    }
    if (!n->firmware[0])
        ask_firmware(nic->netdev, n->firmware, sizeof n->firmware);
}

/* As the plugin takes them, whatever the mesh file leaves them. */
static void read_nccl_settings(struct mn_environment *env)
{
    struct mn_settings settings;
    struct mn_mesh mesh;
    char text[256];
    size_t used = 0, size = sizeof env->nccl_settings;
    int what;

    mn_mesh_init(&mesh);
    if (env->mesh_file.path[0])
        (void)mn_mesh_read(env->mesh_file.path, &mesh, NULL);
    settings = mesh.settings;
    for (int i = 0; (what = mn_setting_from_nccl(i, mesh.given, &settings, text, sizeof text)) >= 0;
         i++)
        if (what == MN_NCCL_TAKEN && used < size)
            used += (size_t)snprintf(env->nccl_settings + used, size - used, "%s%.*s",
                                     used ? " " : "", (int)strcspn(text, " "), text);
    mn_mesh_free(&mesh);
}

void mn_environment_read(const struct mn_plugin_info *plugin, struct mn_environment *env)
{
    struct mn_host host;

    memset(env, 0, sizeof *env);
    mn_node_name(env->node, sizeof env->node);
    read_kernel(env);
    read_cpu(env);
    read_governor(env);
    mn_cpu_pinned(env->pinned);
    mn_strlcpy(env->plugin.path, plugin->path, sizeof env->plugin.path);
    mn_strlcpy(env->plugin.sha256, plugin->hash, sizeof env->plugin.sha256);
    snprintf(env->plugin.symbol, sizeof env->plugin.symbol, "ncclNetPlugin_v%d", plugin->version);
    if (mn_mesh_find_file(env->mesh_file.path, sizeof env->mesh_file.path))
        (void)mn_sha256_file(env->mesh_file.path, env->mesh_file.sha256, NULL);
    else
        env->mesh_file.path[0] = 0;
    read_nccl_settings(env);
    if (!mn_host_read(NULL, &host, NULL))
        for (size_t i = 0; i < host.n_nics && i < MN_ENVIRONMENT_NICS; i++)
            read_nic(&host, &host.nics[i], &env->nics[env->n_nics++]);
    mn_host_free(&host);
}
