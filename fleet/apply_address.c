/* Addresses as texts: "10.0.1.1/32 peer 10.0.2.1/24 brd 10.0.2.255 scope link label p0:1 metric 5
 * noprefixroute valid_lft 86400 preferred_lft 14400", in that order, as ip(8) takes them; what is
 * not said is what it makes of an address alone. libnl knows nothing of metrics: messages are read
 * and written here. */
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply_kernel.h"
#include "topo/base/alloc.h"

#define TEXT_SIZE (3 * MN_ADDR_TEXT + 256)
#define LFT_NEVER 0xffffffffu

/* Of one address. */
struct entry {
    int ifindex;
    struct mn_addr local, peer, broadcast; /* family 0: has none */
    unsigned scope, flags, metric, valid, preferred;
    char label[IF_NAMESIZE], nic[IF_NAMESIZE];
};

/* Those that a person sets; the kernel sets the others. */
static const struct {
    const char *word;
    unsigned flag;
} flag_words[] = {{"noprefixroute", IFA_F_NOPREFIXROUTE},
                  {"mngtmpaddr", IFA_F_MANAGETEMPADDR},
                  {"nodad", IFA_F_NODAD},
                  {"home", IFA_F_HOMEADDRESS},
                  {"autojoin", IFA_F_MCAUTOJOIN}};
#define FLAG_WORDS (sizeof flag_words / sizeof *flag_words)

static const struct {
    const char *word;
    size_t offset;
    unsigned unsaid;
} number_words[] = {{"metric", offsetof(struct entry, metric), 0},
                    {"valid_lft", offsetof(struct entry, valid), LFT_NEVER},
                    {"preferred_lft", offsetof(struct entry, preferred), LFT_NEVER}};
#define NUMBER_WORDS (sizeof number_words / sizeof *number_words)

static unsigned *number_at(struct entry *e, size_t i)
{
    return (unsigned *)(void *)((char *)e + number_words[i].offset);
}

static int is_told(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = text; (at = strchr(at, ' ')) != NULL;) {
        at++;
        if (!strncmp(at, word, len) && (!at[len] || at[len] == ' '))
            return 1;
    }
    return 0;
}

int mn_address_has_own_route(const char *text)
{
    return is_told(text, "peer") || is_told(text, "noprefixroute");
}

/* --- reading ---------------------------------------------------------------------------------- */

static void take_addr(struct nlattr *attr, int family, int prefix, struct mn_addr *addr)
{
    int size = family == AF_INET ? 4 : 16;

    if (!attr || nla_len(attr) != size)
        return;
    *addr = (struct mn_addr){.family = family, .prefix = prefix};
    memcpy(addr->bytes, nla_data(attr), (size_t)size);
}

static unsigned scope_unsaid(const struct mn_addr *addr)
{
    return addr->family == AF_INET && addr->bytes[0] == 127 ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
}

static int read_entry(struct nlmsghdr *head, struct entry *e)
{
    static const struct nla_policy rules[IFA_MAX + 1] = {[IFA_FLAGS] = {.type = NLA_U32}};
    struct nlattr *a[IFA_MAX + 1];
    const struct ifaddrmsg *m = nlmsg_data(head);

    if (nlmsg_parse(head, sizeof *m, a, IFA_MAX, rules) < 0 ||
        (m->ifa_family != AF_INET && m->ifa_family != AF_INET6))
        return 0;
    *e = (struct entry){.ifindex = (int)m->ifa_index,
                        .scope = m->ifa_scope,
                        .flags = a[IFA_FLAGS] ? nla_get_u32(a[IFA_FLAGS]) : m->ifa_flags,
                        .valid = LFT_NEVER,
                        .preferred = LFT_NEVER};
    take_addr(a[IFA_LOCAL] ? a[IFA_LOCAL] : a[IFA_ADDRESS], m->ifa_family, m->ifa_prefixlen,
              &e->local);
    take_addr(a[IFA_ADDRESS], m->ifa_family, m->ifa_prefixlen, &e->peer);
    take_addr(a[IFA_BROADCAST], m->ifa_family, -1, &e->broadcast);
    if (e->peer.family && mn_addr_equal(&e->peer, &e->local))
        e->peer.family = 0;
    if (a[IFA_LABEL])
        nla_strlcpy(e->label, a[IFA_LABEL], sizeof e->label);
    if (a[IFA_RT_PRIORITY] && nla_len(a[IFA_RT_PRIORITY]) == 4)
        e->metric = nla_get_u32(a[IFA_RT_PRIORITY]);
    if (a[IFA_CACHEINFO] && (size_t)nla_len(a[IFA_CACHEINFO]) >= sizeof(struct ifa_cacheinfo)) {
        const struct ifa_cacheinfo *life = nla_data(a[IFA_CACHEINFO]);
        e->valid = life->ifa_valid;
        e->preferred = life->ifa_prefered;
    }
    return e->local.family != 0;
}

static void entry_text(struct entry *e, char *text, size_t size)
{
    char own[MN_ADDR_TEXT], far[MN_ADDR_TEXT], all[MN_ADDR_TEXT];
    struct mn_addr local = e->local;

    if (e->peer.family) /* the prefix length is the peer's */
        local.prefix = local.family == AF_INET ? 32 : 128;
    int n = snprintf(text, size, "%s%s%s%s%s", mn_addr_format(&local, own, sizeof own),
                     e->peer.family ? " peer " : "",
                     e->peer.family ? mn_addr_format(&e->peer, far, sizeof far) : "",
                     e->broadcast.family ? " brd " : "",
                     e->broadcast.family ? mn_addr_format(&e->broadcast, all, sizeof all) : "");
    if (e->scope != scope_unsaid(&e->local))
        n += snprintf(text + n, size - (size_t)n, " scope %u", e->scope);
    if (e->label[0] && strcmp(e->label, e->nic) != 0)
        n += snprintf(text + n, size - (size_t)n, " label %s", e->label);
    if (e->metric)
        n += snprintf(text + n, size - (size_t)n, " metric %u", e->metric);
    for (size_t i = 0; i < FLAG_WORDS; i++)
        if (e->flags & flag_words[i].flag)
            n += snprintf(text + n, size - (size_t)n, " %s", flag_words[i].word);
    for (size_t i = 1; i < NUMBER_WORDS; i++)
        if (*number_at(e, i) != number_words[i].unsaid)
            n += snprintf(text + n, size - (size_t)n, " %s %u", number_words[i].word,
                          *number_at(e, i));
}

/* Link-local ones, which the kernel makes, no change is about. */
static int on_message(struct nl_msg *msg, void *context)
{
    struct mn_kernel *kernel = context;
    struct nlmsghdr *head = nlmsg_hdr(msg);
    char text[TEXT_SIZE];
    struct entry e;

    if (head->nlmsg_type != RTM_NEWADDR || !read_entry(head, &e) || mn_addr_is_link_local(&e.local))
        return NL_OK;
    if_indextoname((unsigned)e.ifindex, e.nic);
    entry_text(&e, text, sizeof text);
    struct mn_kernel_address *a =
        mn_grow((void **)&kernel->addrs, &kernel->n_addrs, sizeof *kernel->addrs);
    *a = (struct mn_kernel_address){.ifindex = e.ifindex, .text = mn_strdup(text)};
    return NL_OK;
}

int mn_kernel_read_addresses(struct mn_kernel *kernel)
{
    struct ifaddrmsg all = {.ifa_family = AF_UNSPEC};

    mn_kernel_drop_addresses(kernel);
    return mn_kernel_dump(kernel, RTM_GETADDR, &all, sizeof all, on_message, kernel);
}

void mn_kernel_drop_addresses(struct mn_kernel *kernel)
{
    for (size_t i = 0; i < kernel->n_addrs; i++)
        free(kernel->addrs[i].text);
    free(kernel->addrs);
    kernel->addrs = NULL;
    kernel->n_addrs = 0;
}

void mn_text_push(char ***texts, size_t *n, const char *text)
{
    char **place = mn_grow((void **)texts, n, sizeof **texts);

    *place = mn_strdup(text);
}

void mn_texts_free(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

size_t mn_kernel_addresses(const struct mn_kernel *kernel, int ifindex, char ***texts)
{
    size_t n = 0;

    *texts = NULL;
    for (size_t i = 0; i < kernel->n_addrs; i++)
        if (kernel->addrs[i].ifindex == ifindex)
            mn_text_push(texts, &n, kernel->addrs[i].text);
    return n;
}

/* The address, and its peer where it has one: the kernel tells addresses apart by both. */
static size_t key_length(const char *text)
{
    size_t len = strcspn(text, " ");

    if (!strncmp(text + len, " peer ", 6))
        len += 6 + strcspn(text + len + 6, " ");
    return len;
}

/* As it was written, or with more about it. */
int mn_kernel_has_address(const struct mn_kernel *kernel, int ifindex, const char *text)
{
    size_t len = key_length(text);
    int found = 0;

    for (size_t i = 0; i < kernel->n_addrs; i++)
        found |= kernel->addrs[i].ifindex == ifindex && key_length(kernel->addrs[i].text) == len &&
                 !strncmp(kernel->addrs[i].text, text, len);
    return found;
}

/* --- setting ---------------------------------------------------------------------------------- */

/* Where the first of several IPv4 addresses in a subnet goes, the others go with it, unless the NIC
 * is told to keep them. Returns what it was told before, '\0' = could not be. */
static char keep_others(const char *nic, char value)
{
    char path[128], old = '\0';

    snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/promote_secondaries", nic);
    FILE *file = fopen(path, "re+");
    if (!file)
        return '\0';
    if (fread(&old, 1, 1, file) == 1 && old != value) {
        rewind(file);
        fputc(value, file);
    }
    fclose(file);
    return old;
}

static int to_number(const char *text, unsigned *value)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    *value = (unsigned)n;
    return *text >= '0' && *text <= '9' && !*end && n <= 0xffffffffu;
}

/* 1: the word takes a value, and that is right; 0: it takes none; -1: it is not right. */
static int take_pair(struct entry *e, const char *word, const char *value)
{
    struct mn_addr *addr = !strcmp(word, "peer")  ? &e->peer
                           : !strcmp(word, "brd") ? &e->broadcast
                                                  : NULL;

    if (addr)
        return value && !mn_addr_parse(value, addr, NULL) && addr->family == e->local.family ? 1
                                                                                             : -1;
    if (!strcmp(word, "label"))
        return value && mn_strlcpy(e->label, value, sizeof e->label) ? 1 : -1;
    if (!strcmp(word, "scope"))
        return value && to_number(value, &e->scope) && e->scope < 256 ? 1 : -1;
    for (size_t i = 0; i < NUMBER_WORDS; i++)
        if (!strcmp(word, number_words[i].word))
            return value && to_number(value, number_at(e, i)) ? 1 : -1;
    return 0;
}

static int parse(const char *text, struct entry *e)
{
    char buf[TEXT_SIZE], *rest = buf, *word;

    *e = (struct entry){.valid = LFT_NEVER, .preferred = LFT_NEVER};
    if (!mn_strlcpy(buf, text, sizeof buf) || mn_addr_parse(strsep(&rest, " "), &e->local, NULL))
        return 0;
    e->scope = scope_unsaid(&e->local);
    while (rest) {
        char *value = rest;
        word = strsep(&value, " ");
        char *after = value, *arg = after ? strsep(&after, " ") : NULL;
        int taken = take_pair(e, word, arg);
        if (taken < 0)
            return 0;
        rest = value;
        if (taken) {
            rest = after;
            continue;
        }
        /* The word behind it is another one. */
        if (after)
            after[-1] = ' ';
        size_t i = 0;
        while (i < FLAG_WORDS && strcmp(word, flag_words[i].word) != 0)
            i++;
        if (i == FLAG_WORDS)
            return 0;
        e->flags |= flag_words[i].flag;
    }
    return (e->peer.family ? e->peer.prefix : e->local.prefix) >= 0;
}

static int put_addr(struct nl_msg *msg, int type, const struct mn_addr *addr)
{
    return nla_put(msg, type, addr->family == AF_INET ? 4 : 16, addr->bytes);
}

/* NULL: no memory. */
static struct nl_msg *message_of(const struct entry *e, int type, int flags)
{
    struct ifaddrmsg head = {.ifa_family = (uint8_t)e->local.family,
                             .ifa_prefixlen =
                                 (uint8_t)(e->peer.family ? e->peer.prefix : e->local.prefix),
                             .ifa_flags = (uint8_t)e->flags,
                             .ifa_scope = (uint8_t)e->scope,
                             .ifa_index = (unsigned)e->ifindex};
    struct ifa_cacheinfo life = {.ifa_valid = e->valid, .ifa_prefered = e->preferred};
    struct nl_msg *msg = nlmsg_alloc_simple(type, flags);
    int bad = !msg || nlmsg_append(msg, &head, sizeof head, NLMSG_ALIGNTO) < 0 ||
              put_addr(msg, IFA_LOCAL, &e->local) < 0 ||
              put_addr(msg, IFA_ADDRESS, e->peer.family ? &e->peer : &e->local) < 0;

    if (!bad && type == RTM_NEWADDR)
        bad = nla_put_u32(msg, IFA_FLAGS, e->flags) < 0 ||
              (e->broadcast.family && put_addr(msg, IFA_BROADCAST, &e->broadcast) < 0) ||
              (e->label[0] && nla_put_string(msg, IFA_LABEL, e->label) < 0) ||
              (e->metric && nla_put_u32(msg, IFA_RT_PRIORITY, e->metric) < 0) ||
              nla_put(msg, IFA_CACHEINFO, sizeof life, &life) < 0;
    if (bad && msg) {
        nlmsg_free(msg);
        msg = NULL;
    }
    return msg;
}

enum mn_err mn_kernel_set_address(struct mn_kernel *kernel, const struct mn_change *change,
                                  int ifindex, const char *text, int on, struct mn_diag *diag)
{
    char keep = '\0';
    struct entry e;

    if (!parse(text, &e))
        return mn_fail(diag, MN_ERR_PROTO, "%s: no address can be read from \"%s\"", change->nic,
                       text);
    e.ifindex = ifindex;
    struct nl_msg *msg =
        message_of(&e, on ? RTM_NEWADDR : RTM_DELADDR, on ? NLM_F_CREATE | NLM_F_REPLACE : 0);
    if (!msg)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for an address");
    if (!on && e.local.family == AF_INET)
        keep = keep_others(change->nic, '1');
    int code = nl_send_sync(kernel->sock, msg);
    if (keep == '0')
        keep_others(change->nic, '0');
    if (code == -NLE_NOADDR || code == -NLE_EXIST)
        code = 0; /* so it is already */
    return code < 0 ? mn_kernel_failed(diag, change, text, code) : MN_OK;
}
