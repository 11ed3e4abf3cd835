/* A NIC of the mesh file. */
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_read.h"

static struct mn_mesh_nic *this_nic(struct mn_reader *r)
{
    return &mn_reader_node(r)->nics[r->nic];
}

static enum mn_err nic_netdev(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    enum mn_err err = mn_read_text(r, key, value, sizeof nic->netdev, nic->netdev);
    if (!err &&
        (strpbrk(nic->netdev, "/: ") || !strcmp(nic->netdev, ".") || !strcmp(nic->netdev, "..")))
        err = mn_read_fail(r, value,
                           "netdev: \"%s\"; expected a network interface without slash, colon "
                           "and space",
                           nic->netdev);
    if (!err)
        mn_strlcpy(nic->name, nic->netdev, sizeof nic->name);
    return err;
}

static enum mn_err nic_name(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_name(r, key, value, this_nic(r)->name);
}

static enum mn_err nic_device(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_text(r, key, value, sizeof this_nic(r)->device, this_nic(r)->device);
}

static enum mn_err nic_port(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    long port = 1;
    enum mn_err err = mn_read_long(r, key, value, 1, 254, &port);
    if (!err && !this_nic(r)->device[0])
        err =
            mn_read_fail(r, value,
                         "port: %ld without a device; expected the key \"device\" beside it", port);
    this_nic(r)->port = (int)port;
    return err;
}

static int parse_mac(const char *text, uint8_t mac[6])
{
    static const uint8_t zero[6];
    for (int i = 0; i < 6; i++, text += 3) {
        unsigned byte = 0;
        for (int j = 0; j < 2; j++) {
            char c = text[j];
            int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
            if (digit < 0)
                return 0;
            byte = byte << 4 | (unsigned)digit;
        }
        if (text[2] != (i < 5 ? ':' : '\0'))
            return 0;
        mac[i] = (uint8_t)byte;
    }
    return !(mac[0] & 1) && memcmp(mac, zero, 6) != 0;
}

static enum mn_err nic_mac(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    if (value->kind != MN_YAML_SCALAR || !parse_mac(value->text, nic->mac))
        return mn_read_fail_kind(r, key, value,
                                 "the MAC address of one NIC, like 4c:bb:47:00:00:01");
    nic->has_mac = 1;
    const struct mn_mesh_owner *owner = mn_lookup_mac(&r->lookup, r->mesh, nic->mac);
    if (owner && owner->node < (int)r->node) {
        const struct mn_mesh_node *node = &r->mesh->nodes[owner->node];
        return mn_read_fail(r, value,
                            "mac: \"%s\" is used twice, before by %s/%s; expected one owner",
                            value->text, node->name, node->nics[owner->nic].name);
    }
    return mn_lookup_put_mac(&r->lookup, r->mesh, (int)r->node, (int)r->nic, r->diag);
}

static enum mn_err read_address(struct mn_reader *r, const char *key, const struct mn_yaml *value,
                                struct mn_addr *addr)
{
    struct mn_diag why;
    if (value->kind != MN_YAML_SCALAR || mn_yaml_is_null(value))
        return mn_read_fail_kind(r, key, value, "an address");
    if (mn_addr_parse(value->text, addr, &why))
        return mn_read_fail(r, value, "%s: %s", key, why.text);
    return MN_OK;
}

static enum mn_err nic_address(struct mn_reader *r, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    struct mn_addr addr;
    char why[512];
    enum mn_err err = read_address(r, "addresses", value, &addr);
    if (err)
        return err;
    if (addr.prefix < 0)
        return mn_read_fail(
            r, value,
            "addresses: \"%s\" has no prefix length; expected it behind a slash, like %s/24",
            value->text, value->text);
    if (mn_addr_is_net_or_broadcast(&addr))
        return mn_read_fail(
            r, value,
            "addresses: \"%s\" is the network or broadcast address of its subnet; expected "
            "the address of a host",
            value->text);
    if (mn_mesh_addr_conflict(r->mesh, &r->lookup, r->node, r->nic, &addr, why))
        return mn_read_fail(r, value, "%s", why);
    struct mn_addr *place = mn_push(&nic->addrs, &nic->n_addrs, sizeof *place, r->diag);
    if (!place)
        return MN_ERR_NOMEM;
    *place = addr;
    return mn_lookup_put_addr(&r->lookup, r->mesh, (int)r->node, (int)r->nic, (int)nic->n_addrs - 1,
                              r->diag);
}

static enum mn_err nic_addresses(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_list(r, key, value, MN_MESH_ADDRS_MAX, "a list of addresses, like [10.0.1.1/24]",
                        nic_address);
}

static enum mn_err gid_index(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    long index = -1;
    enum mn_err err = mn_read_long(r, key, value, 0, 65535, &index);
    this_nic(r)->gid_index = (int)index;
    return err;
}

static enum mn_err gid_address(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    struct mn_mesh_nic *nic = this_nic(r);
    enum mn_err err = read_address(r, key, value, &nic->gid_addr);
    if (err)
        return err;
    if (nic->gid_addr.prefix >= 0)
        return mn_read_fail(r, value, "gid address: \"%s\"; expected it without a prefix length",
                            value->text);
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], &nic->gid_addr))
            return MN_OK;
    return mn_read_fail(r, value, "gid address: \"%s\" is not among the addresses of NIC %s",
                        value->text, nic->name);
}

static enum mn_err nic_gid(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    static const struct mn_read_key keys[] = {{"index", gid_index, 1},
                                              {"address", gid_address, 0},
                                              {NULL, NULL, 0}};
    return mn_read_map(r, key, value, keys);
}

static enum mn_err nic_speed(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_long(r, key, value, 1, 10000000, &this_nic(r)->speed_mbps);
}

static enum mn_err nic_mtu(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    long mtu = 0;
    enum mn_err err = mn_read_long(r, key, value, 576, 65536, &mtu);
    this_nic(r)->mtu = (int)mtu;
    return err;
}

static enum mn_err nic_group(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    return mn_read_name(r, key, value, this_nic(r)->group);
}

static enum mn_err nic_role(struct mn_reader *r, const char *key, const struct mn_yaml *value)
{
    const char *text = value->kind == MN_YAML_SCALAR ? value->text : "";
    for (int role = MN_ROLE_CABLE; role <= MN_ROLE_MANAGEMENT; role++)
        if (!strcmp(text, mn_nic_role_name((enum mn_nic_role)role))) {
            this_nic(r)->role = (enum mn_nic_role)role;
            return MN_OK;
        }
    return mn_read_fail_kind(r, key, value, "cable or management");
}

enum mn_err mn_read_nic(struct mn_reader *r, const struct mn_yaml *value)
{
    static const struct mn_read_key keys[] = {{"netdev", nic_netdev, 1},
                                              {"name", nic_name, 0},
                                              {"role", nic_role,
                                               0}, /* which addresses may be in one subnet */
                                              {"device", nic_device, 0},
                                              {"port", nic_port, 0},
                                              {"mac", nic_mac, 0},
                                              {"addresses", nic_addresses, 0},
                                              {"gid", nic_gid, 0},
                                              {"speed", nic_speed, 0},
                                              {"mtu", nic_mtu, 0},
                                              {"group", nic_group, 0},
                                              {NULL, NULL, 0}};
    struct mn_mesh_node *node = mn_reader_node(r);
    struct mn_mesh_nic *nic = mn_push(&node->nics, &node->n_nics, sizeof *nic, r->diag);
    if (!nic)
        return MN_ERR_NOMEM;
    r->nic = node->n_nics - 1;
    nic->line = value->line;
    nic->column = value->column;
    nic->port = 1;
    nic->gid_index = -1;
    enum mn_err err = mn_read_map(r, "a NIC", value, keys);
    if (err)
        return err;
    size_t first = (size_t)mn_mesh_nic_index(node, nic->name);
    if (first != r->nic)
        return mn_read_fail(r, value, "NIC name \"%s\" is used twice in node %s, first on line %d",
                            nic->name, node->name, node->nics[first].line);
    return MN_OK;
}
