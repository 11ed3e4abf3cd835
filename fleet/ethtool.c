/* Generic netlink over libnl's core: the family's number first, then one question a message. */
#include "fleet/ethtool.h"

#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "topo/base/alloc.h"

#define PATIENCE 2 /* s for an answer of the kernel */

struct mn_ethtool {
    struct nl_sock *sock;
    int family;
    void (*count)(void *ctx, const char *name, uint64_t value);
    void *ctx;
};

static struct nl_msg *message(int family, int command)
{
    struct genlmsghdr head = {.cmd = (uint8_t)command, .version = 1};
    struct nl_msg *msg = nlmsg_alloc_simple(family, NLM_F_REQUEST);

    if (!msg || nlmsg_append(msg, &head, sizeof head, NLMSG_ALIGNTO))
        mn_no_memory();
    return msg;
}

/* Sends and frees; each answer goes to the callback. Below 0: the kernel's error. */
static int ask(struct mn_ethtool *e, struct nl_msg *msg, nl_recvmsg_msg_cb_t answer)
{
    int code = nl_send_auto(e->sock, msg);

    nlmsg_free(msg);
    if (code < 0)
        return code;
    nl_socket_modify_cb(e->sock, NL_CB_VALID, NL_CB_CUSTOM, answer, e);
    return nl_recvmsgs_default(e->sock);
}

static struct nlattr *attributes(struct nl_msg *msg, int *len)
{
    struct nlmsghdr *head = nlmsg_hdr(msg);

    *len = nlmsg_attrlen(head, sizeof(struct genlmsghdr));
    return nlmsg_attrdata(head, sizeof(struct genlmsghdr));
}

static int on_family(struct nl_msg *msg, void *ctx)
{
    struct mn_ethtool *e = ctx;
    int len;
    const struct nlattr *attrs = attributes(msg, &len);
    const struct nlattr *id = nla_find(attrs, len, CTRL_ATTR_FAMILY_ID);

    if (id && nla_len(id) >= 2)
        e->family = nla_get_u16(id);
    return NL_OK;
}

enum mn_err mn_ethtool_open(struct mn_ethtool **ethtool, struct mn_diag *diag)
{
    struct timeval patience = {.tv_sec = PATIENCE};
    struct mn_ethtool *e = mn_zalloc(sizeof *e);
    enum mn_err err = MN_OK;
    int code;

    *ethtool = NULL;
    e->sock = nl_socket_alloc();
    if (!e->sock)
        mn_no_memory();
    nl_socket_disable_auto_ack(e->sock);
    code = nl_connect(e->sock, NETLINK_GENERIC);
    if (!code &&
        setsockopt(nl_socket_get_fd(e->sock), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
        err = mn_fail_errno(diag, "a netlink socket's patience");
    if (!code && !err) {
        struct nl_msg *msg = message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
        nla_put_string(msg, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME);
        code = ask(e, msg, on_family);
    }
    if (!err && (code < 0 || !e->family))
        err = mn_fail(diag, MN_ERR_UNSUPPORTED, "the kernel does not speak ethtool's netlink: %s",
                      code < 0 ? nl_geterror(code) : "no such family");
    if (err)
        mn_ethtool_close(e);
    else
        *ethtool = e;
    return err;
}

void mn_ethtool_close(struct mn_ethtool *ethtool)
{
    if (ethtool)
        nl_socket_free(ethtool->sock);
    free(ethtool);
}

/* --- counters --------------------------------------------------------------------------------- */

/* Several lanes' values may follow the sum. */
static void count(const struct mn_ethtool *e, const struct nlattr *attr, const char *name)
{
    uint64_t value;

    if (!attr || nla_len(attr) < (int)sizeof value)
        return;
    memcpy(&value, nla_data(attr), sizeof value);
    if (value != UINT64_MAX) /* ETHTOOL_STAT_NOT_SET */
        e->count(e->ctx, name, value);
}

static int on_fec(struct nl_msg *msg, void *ctx)
{
    const struct mn_ethtool *e = ctx;
    int len;
    struct nlattr *attrs = attributes(msg, &len),
                  *stats = nla_find(attrs, len, ETHTOOL_A_FEC_STATS);

    if (!stats)
        return NL_OK;
    count(e, nla_find(nla_data(stats), nla_len(stats), ETHTOOL_A_FEC_STAT_CORRECTED),
          "fec_corrected");
    count(e, nla_find(nla_data(stats), nla_len(stats), ETHTOOL_A_FEC_STAT_UNCORR),
          "fec_uncorrectable");
    return NL_OK;
}

static int on_pause(struct nl_msg *msg, void *ctx)
{
    const struct mn_ethtool *e = ctx;
    int len;
    struct nlattr *attrs = attributes(msg, &len);
    struct nlattr *stats = nla_find(attrs, len, ETHTOOL_A_PAUSE_STATS);

    if (!stats)
        return NL_OK;
    count(e, nla_find(nla_data(stats), nla_len(stats), ETHTOOL_A_PAUSE_STAT_TX_FRAMES), "tx_pause");
    count(e, nla_find(nla_data(stats), nla_len(stats), ETHTOOL_A_PAUSE_STAT_RX_FRAMES), "rx_pause");
    return NL_OK;
}

static const struct {
    uint32_t group;
    int id;
    const char *name;
} standard[] = {
    {ETHTOOL_STATS_ETH_PHY, ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR, "phy_symbol_errors"},
    {ETHTOOL_STATS_ETH_MAC, ETHTOOL_A_STATS_ETH_MAC_6_FCS_ERR, "mac_fcs_errors"},
    {ETHTOOL_STATS_ETH_MAC, ETHTOOL_A_STATS_ETH_MAC_7_ALIGN_ERR, "mac_alignment_errors"},
    {ETHTOOL_STATS_ETH_MAC, ETHTOOL_A_STATS_ETH_MAC_13_CS_ERR, "mac_carrier_errors"},
    {ETHTOOL_STATS_ETH_MAC, ETHTOOL_A_STATS_ETH_MAC_25_TOO_LONG_ERR, "mac_too_long"},
    {ETHTOOL_STATS_RMON, ETHTOOL_A_STATS_RMON_FRAG, "rmon_fragments"},
    {ETHTOOL_STATS_RMON, ETHTOOL_A_STATS_RMON_JABBER, "rmon_jabbers"},
};

/* Each statistic is an ETHTOOL_A_STATS_GRP_STAT of its own, with one number in it. */
static void on_group(const struct mn_ethtool *e, struct nlattr *group)
{
    const struct nlattr *id = nla_find(nla_data(group), nla_len(group), ETHTOOL_A_STATS_GRP_ID);
    struct nlattr *stat;
    int left;

    if (!id || nla_len(id) < 4)
        return;
    nla_for_each_nested(stat, group, left)
    {
        if (nla_type(stat) != ETHTOOL_A_STATS_GRP_STAT)
            continue;
        for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
            if (standard[i].group == nla_get_u32(id))
                count(e, nla_find(nla_data(stat), nla_len(stat), standard[i].id), standard[i].name);
    }
}

static int on_stats(struct nl_msg *msg, void *ctx)
{
    int len, left;
    struct nlattr *attr, *attrs = attributes(msg, &len);

    nla_for_each_attr(attr, attrs, len, left) if (nla_type(attr) == ETHTOOL_A_STATS_GRP)
        on_group(ctx, attr);
    return NL_OK;
}

static void put_head(struct nl_msg *msg, int type, const char *netdev, uint32_t flags)
{
    struct nlattr *head = nla_nest_start(msg, type | NLA_F_NESTED);

    if (!head)
        mn_no_memory();
    nla_put_string(msg, ETHTOOL_A_HEADER_DEV_NAME, netdev);
    if (flags)
        nla_put_u32(msg, ETHTOOL_A_HEADER_FLAGS, flags);
    nla_nest_end(msg, head);
}

void mn_ethtool_counters(struct mn_ethtool *e, const char *netdev,
                         void (*each)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    uint32_t groups =
        1u << ETHTOOL_STATS_ETH_PHY | 1u << ETHTOOL_STATS_ETH_MAC | 1u << ETHTOOL_STATS_RMON;
    struct nl_msg *msg;

    e->count = each;
    e->ctx = ctx;
    msg = message(e->family, ETHTOOL_MSG_FEC_GET);
    put_head(msg, ETHTOOL_A_FEC_HEADER, netdev, ETHTOOL_FLAG_STATS);
    (void)ask(e, msg, on_fec);
    msg = message(e->family, ETHTOOL_MSG_PAUSE_GET);
    put_head(msg, ETHTOOL_A_PAUSE_HEADER, netdev, ETHTOOL_FLAG_STATS);
    (void)ask(e, msg, on_pause);
    msg = message(e->family, ETHTOOL_MSG_STATS_GET);
    put_head(msg, ETHTOOL_A_STATS_HEADER, netdev, 0);
    struct nlattr *bits = nla_nest_start(msg, ETHTOOL_A_STATS_GROUPS | NLA_F_NESTED);
    nla_put_flag(msg, ETHTOOL_A_BITSET_NOMASK);
    nla_put_u32(msg, ETHTOOL_A_BITSET_SIZE, ETHTOOL_STATS_RMON + 1);
    nla_put(msg, ETHTOOL_A_BITSET_VALUE, sizeof groups, &groups);
    nla_nest_end(msg, bits);
    (void)ask(e, msg, on_stats);
}
