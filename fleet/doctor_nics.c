/* The NICs of the mesh as they are here, and what is wrong with them by this host's own rules:
 *   "nics": [{"nic": its name in the mesh file, "netdev", "up", "carrier", "speed": Mb/s, "mtu",
 *     "addresses", "driver", "firmware", "device", "rdma_state", "gids": [{"index", "type",
 *     "address"}], "pcie": {"width", "speed", "max_width", "max_speed"},
 *     "card": PCI's numbers of chip and board}]
 *   "findings": [{"id", "nic": netdev, "seen", "expected", "fix"}]
 */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/doctor_ask.h"
#include "topo/base/alloc.h"
#include "topo/finding.h"
#include "topo/mesh_file.h"

static int ask_firmware(const char *netdev, char *firmware, size_t size)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq req = {.ifr_data = (void *)&info};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return 0;
    mn_strlcpy(req.ifr_name, netdev, sizeof req.ifr_name);
    int failed = ioctl(fd, SIOCETHTOOL, &req);
    close(fd);
    info.fw_version[sizeof info.fw_version - 1] = 0;
    if (failed || !info.fw_version[0] || !strcmp(info.fw_version, "N/A"))
        return 0;
    mn_strlcpy(firmware, info.fw_version, size);
    return 1;
}

static void add_pcie(const struct mn_pci *pci, cJSON *to)
{
    if (!pci->width)
        return;
    cJSON *pcie = cJSON_AddObjectToObject(to, "pcie");
    cJSON_AddNumberToObject(pcie, "width", pci->width);
    cJSON_AddNumberToObject(pcie, "speed", pci->speed);
    cJSON_AddNumberToObject(pcie, "max_width", pci->max_width);
    cJSON_AddNumberToObject(pcie, "max_speed", pci->max_speed);
}

/* Which model: the chip, and the board that it is on. */
static void add_card(const struct mn_nic *nic, cJSON *to)
{
    static const char *const parts[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    char part[16], card[64] = "";

    for (size_t i = 0; i < sizeof parts / sizeof *parts && nic->pci.address[0]; i++)
        if (mn_doctor_line(part, sizeof part, "/sys/bus/pci/devices/%s/%s", nic->pci.address,
                           parts[i]))
            snprintf(card + strlen(card), sizeof card - strlen(card), "%s%s", card[0] ? ":" : "",
                     part + 2 * !strncmp(part, "0x", 2));
    if (card[0])
        cJSON_AddStringToObject(to, "card", card);
}

static void add_rdma(const struct mn_rdma_port *port, cJSON *to)
{
    char text[MN_ADDR_TEXT];

    cJSON_AddStringToObject(to, "device", port->device);
    cJSON_AddStringToObject(to, "rdma_state", port->state);
    cJSON *gids = cJSON_AddArrayToObject(to, "gids");
    for (size_t i = 0; i < port->n_gids && i < 64; i++) {
        struct mn_addr addr = port->gids[i].addr;
        cJSON *gid = cJSON_CreateObject();
        cJSON_AddNumberToObject(gid, "index", port->gids[i].index);
        cJSON_AddStringToObject(gid, "type", mn_gid_type_name(port->gids[i].type));
        addr.prefix = -1;
        if (addr.family)
            cJSON_AddStringToObject(gid, "address", mn_addr_format(&addr, text, sizeof text));
        cJSON_AddItemToArray(gids, gid);
    }
}

static cJSON *nic_json(const struct mn_doctor_look *look, const struct mn_nic *nic)
{
    const struct mn_rdma_port *port = nic->rdma >= 0 ? &look->host->rdma[nic->rdma] : NULL;
    char text[MN_ADDR_TEXT], firmware[64] = "";
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "netdev", nic->netdev);
    cJSON_AddBoolToObject(json, "up", nic->admin_up);
    cJSON_AddBoolToObject(json, "carrier", nic->carrier);
    if (nic->speed_mbps > 0)
        cJSON_AddNumberToObject(json, "speed", (double)nic->speed_mbps);
    cJSON_AddNumberToObject(json, "mtu", nic->mtu);
    cJSON *addrs = cJSON_AddArrayToObject(json, "addresses");
    for (size_t i = 0; i < nic->n_addrs; i++)
        cJSON_AddItemToArray(addrs,
                             cJSON_CreateString(mn_addr_format(&nic->addrs[i], text, sizeof text)));
    cJSON_AddStringToObject(json, "driver", nic->driver);
    if (ask_firmware(nic->netdev, firmware, sizeof firmware))
        cJSON_AddStringToObject(json, "firmware", firmware);
    else if (port && port->fw_ver[0])
        cJSON_AddStringToObject(json, "firmware", port->fw_ver);
    if (port)
        add_rdma(port, json);
    add_pcie(&nic->pci, json);
    add_card(nic, json);
    return json;
}

void mn_doctor_ask_nics(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *list = cJSON_AddArrayToObject(answer, "nics");
    const struct mn_mesh_node *node = look->self >= 0 ? &look->mesh->nodes[look->self] : NULL;

    for (size_t i = 0; node && i < node->n_nics; i++) {
        const struct mn_nic *nic = mn_doctor_nic(look, i);
        if (!nic)
            continue;
        cJSON *json = nic_json(look, nic);
        cJSON_AddStringToObject(json, "nic", node->nics[i].name);
        cJSON_AddItemToArray(list, json);
    }
}

void mn_doctor_ask_findings(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *list = cJSON_AddArrayToObject(answer, "findings");
    struct mn_findings found;
    char path[512];

    if (!mn_mesh_find_file(path, sizeof path))
        mn_strlcpy(path, "mesh.yaml", sizeof path);
    struct mn_in_force force = {.mesh = look->mesh, .node = look->self, .file = path};
    mn_findings_check(look->host, look->self >= 0 ? &force : NULL, &found);
    for (size_t i = 0; i < found.count; i++) {
        const struct mn_finding *f = &found.items[i];
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "id", f->rule->id);
        cJSON_AddStringToObject(json, "nic", f->nic);
        cJSON_AddStringToObject(json, "seen", f->seen);
        cJSON_AddStringToObject(json, "expected", f->expected);
        cJSON_AddStringToObject(json, "fix", f->fix);
        cJSON_AddItemToArray(list, json);
    }
    mn_findings_free(&found);
}
