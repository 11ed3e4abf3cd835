/* Changes made and undone: a row a kind. */
#include "fleet/apply_kernel.h"

#include <errno.h>
#include <netlink/route/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet/apply_place.h"
#include "topo/base/alloc.h"

/* --- MTU and link ----------------------------------------------------------------------------- */

static int holds_link(struct rtnl_link *link, const struct mn_change *change)
{
    if (change->kind == MN_CHANGE_MTU)
        return (long)rtnl_link_get_mtu(link) == strtol(change->to, NULL, 10);
    return ((rtnl_link_get_flags(link) & IFF_UP) != 0) == !strcmp(change->to, "up");
}

static enum mn_err make_link(struct mn_kernel *kernel, const struct mn_change *change,
                             struct rtnl_link *link, struct mn_diag *diag)
{
    struct rtnl_link *wish = rtnl_link_alloc();

    if (!wish)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a link");
    rtnl_link_set_ifindex(wish, rtnl_link_get_ifindex(link));
    if (change->kind == MN_CHANGE_MTU)
        rtnl_link_set_mtu(wish, (unsigned)strtoul(change->to, NULL, 10));
    else if (!strcmp(change->to, "up"))
        rtnl_link_set_flags(wish, IFF_UP);
    else
        rtnl_link_unset_flags(wish, IFF_UP);
    int code = rtnl_link_change(kernel->sock, link, wish, 0);
    rtnl_link_put(wish);
    return code < 0 ? mn_kernel_failed(diag, change, change->to, code) : MN_OK;
}

/* --- addresses and routes --------------------------------------------------------------------- */

/* IPv6 has an address once, with whatever prefix length: the old one goes first. */
static enum mn_err make_text(struct mn_kernel *kernel, const struct mn_change *change, int ifindex,
                             struct mn_diag *diag)
{
    enum mn_err (*set)(struct mn_kernel *, const struct mn_change *, int, const char *, int,
                       struct mn_diag *) =
        change->kind == MN_CHANGE_ADDRESS ? mn_kernel_set_address : mn_kernel_set_route;
    enum mn_err err = change->from ? set(kernel, change, ifindex, change->from, 0, diag) : MN_OK;

    return err || !change->to ? err : set(kernel, change, ifindex, change->to, 1, diag);
}

static int holds_text(const struct mn_kernel *kernel, const struct mn_change *change, int ifindex)
{
    int (*has)(const struct mn_kernel *, int, const char *) =
        change->kind == MN_CHANGE_ADDRESS ? mn_kernel_has_address : mn_kernel_has_route;

    return (!change->from || !has(kernel, ifindex, change->from)) &&
           (!change->to || has(kernel, ifindex, change->to));
}

/* --- sysctls ---------------------------------------------------------------------------------- */

static int holds_sysctl(const struct mn_change *change)
{
    char value[128];

    return change->to && mn_sysctl_read(change->what, value, sizeof value) &&
           !strcmp(value, change->to);
}

/* Of a NIC that is gone there is none: nothing is left to be set or undone. */
static enum mn_err make_sysctl(const struct mn_change *change, struct mn_diag *diag)
{
    char value[128];

    return mn_sysctl_read(change->what, value, sizeof value)
               ? mn_sysctl_write(change->what, change->to, diag)
               : MN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static int holds_file(const struct mn_change *change)
{
    char *text = NULL;
    unsigned mode;
    int there = mn_place_read(change->what, &text, &mode, NULL) == MN_OK && text;
    int holds = change->to ? there && !strcmp(text, change->to) && mode == change->to_mode : !there;

    free(text);
    return holds;
}

static enum mn_err make_file(const struct mn_change *change, struct mn_diag *diag)
{
    if (change->to)
        return mn_place_write(change->what, change->to, change->to_mode, diag);
    if (unlink(change->what) && errno != ENOENT)
        return mn_fail_errno(diag, "%s: removing it", change->what);
    return MN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

int mn_change_holds(const struct mn_kernel *kernel, const struct mn_change *change)
{
    if (change->kind == MN_CHANGE_FILE)
        return holds_file(change);
    if (change->kind == MN_CHANGE_SYSCTL)
        return holds_sysctl(change);
    if (change->kind == MN_CHANGE_RULE)
        return mn_rule_holds(change);
    struct rtnl_link *link = mn_kernel_link(kernel, change, NULL);
    if (!link)
        return 0;
    return change->kind <= MN_CHANGE_LINK ? holds_link(link, change)
                                          : holds_text(kernel, change, rtnl_link_get_ifindex(link));
}

enum mn_err mn_change_make(struct mn_kernel *kernel, const struct mn_change *change,
                           struct mn_diag *diag)
{
    if (change->kind == MN_CHANGE_FILE)
        return make_file(change, diag);
    if (change->kind == MN_CHANGE_SYSCTL)
        return change->to ? make_sysctl(change, diag) : MN_OK;
    if (change->kind == MN_CHANGE_RULE)
        return mn_rule_make(change, diag);
    struct rtnl_link *link = mn_kernel_link(kernel, change, diag);
    if (!link)
        return MN_ERR_NOTFOUND;
    return change->kind <= MN_CHANGE_LINK
               ? make_link(kernel, change, link, diag)
               : make_text(kernel, change, rtnl_link_get_ifindex(link), diag);
}

enum mn_err mn_changes_make(struct mn_kernel *kernel, const struct mn_changes *list,
                            struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < list->count && !err; i++)
        err = mn_change_make(kernel, &list->items[i], diag);
    return err;
}

enum mn_err mn_changes_undo(struct mn_kernel *kernel, const struct mn_changes *list,
                            struct mn_diag *diag)
{
    struct mn_changes back;
    struct mn_diag own;
    enum mn_err first = MN_OK;

    mn_changes_reverse(list, &back);
    for (size_t i = 0; i < back.count; i++) {
        enum mn_err err = mn_change_make(kernel, &back.items[i], &own);
        if (err && !first && diag)
            *diag = own;
        first = first ? first : err;
    }
    mn_changes_free(&back);
    return first;
}
