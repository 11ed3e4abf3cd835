/* The way back from the last apply that was kept, with the same care as the way there. */
#include <netlink/route/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fleet/apply_place.h"
#include "fleet/apply_plan_impl.h"
#include "fleet/apply_state.h"
#include "topo/base/alloc.h"

/* It is so now and is to stay so: the change after it would alter it by the way. */
static int stays(const struct mn_change *c)
{
    return c->from && c->to && !strcmp(c->from, c->to);
}

/* With its NIC. */
static int is_gone(const struct mn_change *c)
{
    return c->kind == MN_CHANGE_SYSCTL && !mn_sysctl_read(c->what, (char[128]){""}, 128);
}

static void copy(const struct mn_change *c, struct mn_changes *to)
{
    struct mn_change *add = mn_change_add(to, c->kind, NULL, c->what, c->from, c->to);

    memcpy(add->nic, c->nic, sizeof add->nic);
    memcpy(add->mac, c->mac, sizeof add->mac);
    add->has_mac = c->has_mac;
    add->from_mode = c->from_mode;
    add->to_mode = c->to_mode;
}

/* Backwards, without what is so already. */
static void add_back(const struct mn_kernel *kernel, const struct mn_changes *list,
                     struct mn_changes *to)
{
    struct mn_changes back;

    mn_changes_reverse(list, &back);
    for (size_t i = 0; i < back.count; i++) {
        const struct mn_change *c = &back.items[i];
        /* Of the list's order: what is to stay comes after what alters it. */
        if (stays(c) ? !to->count : mn_change_holds(kernel, c) || is_gone(c))
            continue;
        copy(c, to);
    }
    mn_changes_free(&back);
}

static const struct mn_nic *nic_of(const struct mn_kernel *kernel, const struct mn_host *host,
                                   const struct mn_change *c)
{
    struct rtnl_link *link = c->kind <= MN_CHANGE_ADDRESS ? mn_kernel_link(kernel, c, NULL) : NULL;

    return link ? mn_host_nic(host, rtnl_link_get_name(link)) : NULL;
}

static void push_addr(struct mn_mesh_nic *nic, const char *text)
{
    char plain[MN_ADDR_TEXT];
    struct mn_addr addr;

    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, " "), text);
    if (!mn_addr_parse(plain, &addr, NULL))
        *(struct mn_addr *)mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof addr) = addr;
}

/* The addresses that the NIC has afterwards. */
static void find_after(const struct mn_apply_pair *p, const struct mn_changes *list,
                       struct mn_mesh_nic *after)
{
    for (size_t i = 0; i < p->n_addrs; i++) {
        int stays_there = 1;
        for (size_t k = 0; k < list->count; k++) {
            const struct mn_change *c = &list->items[k];
            size_t len = c->from ? strcspn(c->from, " ") : 0;
            stays_there &=
                c->kind != MN_CHANGE_ADDRESS || !c->from || strcmp(c->nic, p->have->netdev) != 0 ||
                strcspn(p->addrs[i], " ") != len || strncmp(p->addrs[i], c->from, len) != 0;
        }
        if (stays_there)
            push_addr(after, p->addrs[i]);
    }
    for (size_t k = 0; k < list->count; k++)
        if (list->items[k].kind == MN_CHANGE_ADDRESS && list->items[k].to &&
            !strcmp(list->items[k].nic, p->have->netdev))
            push_addr(after, list->items[k].to);
}

static void add_pair(const struct mn_apply_want *want, const struct mn_kernel *kernel,
                     const struct mn_nic *have, const struct mn_changes *list,
                     struct mn_apply_pair **pairs, size_t *n)
{
    struct mn_mesh_nic *after = mn_zalloc(sizeof *after);
    struct mn_apply_pair *p = mn_grow((void **)pairs, n, sizeof *p);

    *p = (struct mn_apply_pair){.want = after,
                                .have = have,
                                .taken = mn_apply_taken(want, have->netdev, have->netdev),
                                .kernel = kernel};
    p->n_addrs = mn_kernel_addresses(kernel, have->ifindex, &p->addrs);
    find_after(p, list, after);
}

static void free_pairs(struct mn_apply_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(pairs[i].want->addrs);
        free(pairs[i].want);
        mn_texts_free(pairs[i].addrs, pairs[i].n_addrs);
    }
    free(pairs);
}

/* Routes that the way back takes along come to lost. */
static enum mn_err guard(const struct mn_apply_pair *p, struct mn_changes *lost,
                         struct mn_diag *diag)
{
    mn_pair_drop_routes(lost, p);
    const char *why = mn_pair_guarded(p, lost);
    return why ? mn_fail(diag, MN_ERR_CONFIG,
                         "%s: undoing changes it, and %s: nothing was changed; --take %s if that "
                         "is meant",
                         p->have->netdev, why, p->have->netdev)
               : mn_pair_keep_routes(p, diag);
}

static int has_drop(const struct mn_changes *list, const struct mn_change *route)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind == MN_CHANGE_ROUTE && list->items[i].from &&
            !strcmp(list->items[i].nic, route->nic) &&
            !strncmp(list->items[i].from, route->from, strlen(list->items[i].from)))
            return 1;
    return 0;
}

static enum mn_err take_care(const struct mn_apply_want *want, const struct mn_kernel *kernel,
                             const struct mn_changes *list, struct mn_changes *all,
                             struct mn_diag *diag)
{
    struct mn_changes lost = {.items = NULL};
    struct mn_apply_pair *pairs = NULL;
    size_t n_pairs = 0;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < list->count; i++) {
        const struct mn_nic *nic = nic_of(kernel, want->host, &list->items[i]);
        int seen = 0;
        for (size_t k = 0; nic && k < n_pairs; k++)
            seen |= pairs[k].have == nic;
        if (nic && !seen)
            add_pair(want, kernel, nic, list, &pairs, &n_pairs);
    }
    for (size_t i = 0; i < n_pairs && !err; i++) {
        pairs[i].all = pairs;
        pairs[i].n_all = n_pairs;
    }
    for (size_t i = 0; i < n_pairs && !err; i++)
        err = guard(&pairs[i], &lost, diag);
    free_pairs(pairs, n_pairs);
    /* First, so that they come back last, when the addresses are there. */
    for (size_t i = 0; i < lost.count && !err; i++)
        if (!has_drop(list, &lost.items[i]))
            copy(&lost.items[i], all);
    for (size_t i = 0; i < list->count && !err; i++)
        copy(&list->items[i], all);
    mn_changes_free(&lost);
    return err;
}

/* Of one apply alone what was there before is known. */
static void note_whose(const struct mn_apply_state *kept, struct mn_apply_plan *plan)
{
    time_t since = (time_t)kept->since;
    char at[32] = "";
    struct tm tm;

    if (localtime_r(&since, &tm))
        strftime(at, sizeof at, "%Y-%m-%d %H:%M", &tm);
    char *text =
        mn_asprintf("this goes back to before the apply of %s, by %s; what those before it "
                    "replaced is not kept: to go there apply the mesh file of then",
                    at, kept->who);
    mn_text_push(&plan->notes, &plan->n_notes, text);
    free(text);
}

enum mn_err mn_apply_plan_back(const struct mn_apply_want *want, const struct mn_kernel *kernel,
                               struct mn_apply_plan *plan, struct mn_diag *diag)
{
    struct mn_apply_state kept;
    struct mn_changes list = {.items = NULL};
    enum mn_err err = mn_apply_state_read(MN_APPLY_KEPT, &kept, diag);

    *plan = (struct mn_apply_plan){.manager = NULL};
    if (err == MN_ERR_NOTFOUND)
        mn_fail(diag, err, "nothing is known that apply changed here and that was kept");
    if (!err) {
        plan->manager = kept.manager;
        add_back(kernel, &kept.kernel, &list);
        err = take_care(want, kernel, &list, &plan->kernel, diag);
    }
    if (!err) {
        add_back(kernel, &kept.files, &plan->files);
        note_whose(&kept, plan);
    }
    mn_changes_free(&list);
    mn_apply_state_free(&kept);
    return err;
}
