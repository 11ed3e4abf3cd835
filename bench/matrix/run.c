/* One cell after the other: two ranks measure, the others wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/matrix/matrix_impl.h"
#include "topo/base/alloc.h"

#define LATENCY_BYTES 8

const char *const mn_matrix_status_names[] = {
    [MN_CELL_UNMEASURED] = "not measured",
    [MN_CELL_OK] = "ok",
    [MN_CELL_DEAD] = "dead",
    [MN_CELL_WRONG] = "wrong",
};

struct run {
    struct mn_group *group;
    const struct mn_matrix_plan *plan;
    const struct mn_mesh *mesh;
    struct mn_matrix_report *report;
    int node;     /* this rank's */
    int *rank_of; /* by node, -1 = takes no part */
    int devices[MN_MATRIX_NICS];
    struct mn_plugin *plugin;
    unsigned line;
};

/* What a rank says of a cell; only those of the two who measured count. */
struct said {
    struct mn_matrix_cell cell;
    uint64_t lost; /* by the RDMA devices */
};

char *mn_matrix_title(const struct mn_mesh *mesh, const struct mn_matrix_cell *cell, char *buf,
                      size_t size)
{
    if (cell->link >= 0)
        snprintf(buf, size, "link %s", mesh->links[cell->link].name);
    else
        snprintf(buf, size, "pair %s, %s", mesh->nodes[cell->from].name,
                 mesh->nodes[cell->to].name);
    return buf;
}

/* --- who is who ------------------------------------------------------------------------------- */

static enum mn_err find_self(struct run *r, struct mn_diag *diag)
{
    struct mn_host host;
    char why[256];
    enum mn_err err = mn_host_read(NULL, &host, diag);

    if (!err)
        err = mn_mesh_find_self(r->mesh, &host, &r->node, why, sizeof why, diag);
    mn_host_free(&host);
    return err;
}

/* Every rank learns which node each rank is, and what each node says of its NICs. */
static enum mn_err introduce(struct run *r, struct mn_diag *diag)
{
    int n = mn_group_size(r->group);
    struct introduction {
        int32_t node;
        struct mn_matrix_end ends[MN_MATRIX_NICS];
    } own = {.node = r->node}, *all = NULL;
    size_t most = MN_GROUP_BLOCK / sizeof own;

    if ((size_t)n > most)
        return mn_fail(diag, MN_ERR_USAGE, "%d ranks: a matrix has at most %zu", n, most);
    mn_matrix_own_ends(r->mesh, r->node, own.ends);
    all = mn_zalloc((size_t)n * sizeof *all);
    enum mn_err err = mn_group_allgather(r->group, &own, sizeof own, all, diag);
    for (int i = 0; i < n && !err; i++) {
        int node = all[i].node;
        if (node < 0 || (size_t)node >= r->mesh->n_nodes)
            err = mn_fail(diag, MN_ERR_PROTO,
                          "%s says it is node %d of the mesh file, which has %zu: has every node "
                          "the same file?",
                          mn_group_name(r->group, i), node, r->mesh->n_nodes);
        else if (r->rank_of[node] >= 0)
            err = mn_fail(diag, MN_ERR_CONFIG, "%s and %s are both node %s of the mesh file",
                          mn_group_name(r->group, r->rank_of[node]), mn_group_name(r->group, i),
                          r->mesh->nodes[node].name);
        else
            memcpy(r->report->ends + (size_t)node * MN_MATRIX_NICS, all[i].ends, sizeof own.ends);
        if (!err)
            r->rank_of[node] = i;
    }
    free(all);
    return err;
}

/* --- one cell --------------------------------------------------------------------------------- */

static void keep_results(const struct mn_p2p_report *got, struct mn_matrix_cell *cell)
{
    double shares[MN_P2P_NICS];

    cell->carrier = (int32_t)mn_p2p_carrier(got, &got->ends[0], shares);
    for (size_t i = 0; i < got->n_bandwidth; i++)
        cell->gbps[got->bandwidth[i].direction] = (float)(mn_p2p_gbytes(&got->bandwidth[i]) * 8);
    if (got->n_latency) {
        cell->p50_us = (float)got->latency[0].p50;
        cell->p99_us = (float)got->latency[0].p99;
    }
    cell->status = got->wrong ? MN_CELL_WRONG : MN_CELL_OK;
    if (got->wrong)
        snprintf(cell->error, sizeof cell->error, "%llu messages arrived with wrong data or size",
                 (unsigned long long)got->wrong);
}

static int is_of_cell(const struct mn_mesh *mesh, const struct mn_matrix_cell *cell, int node,
                      const char *netdev)
{
    for (size_t l = 0; l < mesh->n_links; l++) {
        const struct mn_mesh_link *link = &mesh->links[l];
        if ((cell->link >= 0 && (size_t)cell->link != l) ||
            !mn_matrix_joins(link, cell->from, cell->to))
            continue;
        int nic = mn_matrix_end_at(link, node)->nic;
        if (!strcmp(mesh->nodes[node].nics[nic].netdev, netdev))
            return 1;
    }
    return 0;
}

/* TCP's, on the cell's cables, of the end that lost more. What RDMA lost, the devices know: see
 * combine(). */
static void keep_packets(const struct run *r, const struct mn_p2p_report *got,
                         struct mn_matrix_cell *cell)
{
    const int nodes[2] = {cell->from, cell->to};

    if (cell->carrier == MN_P2P_RDMA) {
        cell->packets = got->moved_packets;
        return;
    }
    for (int end = 0; end < 2; end++) {
        struct mn_matrix_cell own = {.packets = 0};
        for (int i = 0; i < got->ends[end].n_nics; i++) {
            const struct mn_p2p_nic *nic = &got->ends[end].nics[i];
            if (!is_of_cell(r->mesh, cell, nodes[end], nic->netdev))
                continue;
            own.packets += nic->tcp_packets;
            own.lost += nic->tcp_lost;
        }
        if (end && mn_matrix_lost(&own) <= mn_matrix_lost(cell))
            continue;
        cell->packets = own.packets;
        cell->lost = own.lost;
    }
}

/* Which of the pair's cables moved the bytes, by this node's counters. */
static void keep_lanes(const struct run *r, const struct mn_p2p_report *got,
                       struct mn_matrix_cell *cell)
{
    double shares[MN_P2P_NICS];

    (void)mn_p2p_carrier(got, &got->ends[0], shares);
    for (size_t l = 0; l < r->mesh->n_links && cell->n_lanes < MN_MATRIX_LANES; l++) {
        const struct mn_mesh_link *link = &r->mesh->links[l];
        if (!mn_matrix_joins(link, cell->from, cell->to))
            continue;
        const struct mn_mesh_end *end = mn_matrix_end_at(link, cell->from);
        const char *netdev = r->mesh->nodes[cell->from].nics[end->nic].netdev;
        struct mn_matrix_lane *lane = &cell->lanes[cell->n_lanes++];
        *lane = (struct mn_matrix_lane){.link = (int32_t)l};
        for (int i = 0; i < got->ends[0].n_nics; i++)
            if (!strcmp(got->ends[0].nics[i].netdev, netdev))
                lane->share = (float)shares[i];
    }
}

static int device_for(const struct run *r, const struct mn_matrix_cell *cell)
{
    if (cell->link < 0)
        return 0;
    return r->devices[mn_matrix_end_at(&r->mesh->links[cell->link], r->node)->nic];
}

static enum mn_err ask(struct run *r, struct mn_ctl *ctl, struct mn_matrix_cell *cell,
                       struct mn_diag *diag)
{
    const struct mn_matrix_plan *plan = r->plan;
    unsigned long long sizes[] = {LATENCY_BYTES, plan->bytes};
    struct mn_p2p_plan p2p = {
        .sizes = sizes,
        .n_sizes = 2,
        .directions = (1u << MN_P2P_DIRECTIONS) - 1,
        .latency = 1,
        .latency_max = LATENCY_BYTES,
        .bandwidth_min = LATENCY_BYTES + 1,
        .check = plan->check,
        .connections = plan->connections,
        .outstanding = plan->outstanding,
        .repeat = plan->repeat,
        .iters = plan->iters,
        .warmup = plan->warmup,
        .timeout_ms = plan->timeout_ms,
        .stop = plan->stop,
        .buffers = plan->buffers,
        .memory = plan->memory,
        .gpu = plan->gpu,
        .device = device_for(r, cell),
    };
    struct mn_p2p_report got = {.bandwidth = NULL};
    enum mn_err err = mn_p2p_run(r->plugin, ctl, &p2p, NULL, NULL, &got, diag);

    if (!err) {
        keep_results(&got, cell);
        keep_packets(r, &got, cell);
        if (cell->link < 0)
            keep_lanes(r, &got, cell);
    }
    mn_p2p_free(&got);
    return err;
}

static enum mn_err answer(struct run *r, struct mn_ctl *ctl, const struct mn_matrix_cell *cell,
                          struct mn_diag *diag)
{
    cJSON *first;
    enum mn_err err = mn_ctl_receive(ctl, r->plan->timeout_ms, &first, diag);

    return err ? err
               : mn_p2p_serve(r->plugin, ctl, first, device_for(r, cell), NULL, r->plan->timeout_ms,
                              diag);
}

static uint64_t lost_since(const struct run *r, const struct mn_matrix_cell *cell,
                           const struct mn_matrix_losses *before)
{
    struct mn_matrix_losses now;
    uint64_t rdma = 0;
    int only = cell->link < 0 ? -1 : mn_matrix_end_at(&r->mesh->links[cell->link], r->node)->nic;

    mn_matrix_read_losses(&r->mesh->nodes[r->node], &now);
    for (int i = 0; i < MN_MATRIX_NICS; i++)
        if (only < 0 || i == only)
            rdma += now.rdma[i] - before->rdma[i];
    return rdma;
}

/* This rank's part of the cell. What goes wrong is its result. */
static void take_part(struct run *r, struct said *said)
{
    struct mn_matrix_cell *cell = &said->cell;
    int asks = r->node == cell->from;
    struct mn_matrix_losses before;
    struct mn_ctl ctl = {.fd = -1};
    struct mn_diag diag = {.text = ""};
    enum mn_err err = MN_OK;

    mn_matrix_read_losses(&r->mesh->nodes[r->node], &before);
    if (device_for(r, cell) < 0) {
        int nic = mn_matrix_end_at(&r->mesh->links[cell->link], r->node)->nic;
        err = mn_fail(&diag, MN_ERR_CONFIG, "the plugin has no device for %s of %s",
                      r->mesh->nodes[r->node].nics[nic].netdev, r->mesh->nodes[r->node].name);
    }
    /* The line is taken in any case: it ends the other's waiting. */
    struct mn_diag why;
    enum mn_err no_line = mn_group_line(r->group, r->line, r->rank_of[asks ? cell->to : cell->from],
                                        &ctl, err ? &why : &diag);
    if (!err)
        err = no_line;
    if (!err)
        err = asks ? ask(r, &ctl, cell, &diag) : answer(r, &ctl, cell, &diag);
    mn_ctl_close(&ctl);
    mn_plugin_finalize(r->plugin);
    if (err) {
        cell->status = MN_CELL_DEAD;
        mn_strlcpy_words(cell->error, diag.text, sizeof cell->error);
    }
    said->lost = lost_since(r, cell, &before);
}

#define BARE "no addresses yet: see meshnet topo address"

/* All cables of the cell are, and there is one. */
static int is_bare(const struct mn_mesh *mesh, const struct mn_matrix_cell *cell)
{
    size_t n = 0, bare = 0;

    for (size_t l = 0; l < mesh->n_links; l++) {
        if (cell->link >= 0 ? (size_t)cell->link != l
                            : !mn_matrix_joins(&mesh->links[l], cell->from, cell->to))
            continue;
        n++;
        bare += (size_t)mn_link_is_bare(&mesh->links[l]);
    }
    return n && n == bare;
}

/* What the two who measured said becomes one. */
static void combine(const struct mn_mesh *mesh, const struct said *from, const struct said *to,
                    struct mn_matrix_cell *cell)
{
    *cell = from->cell;
    cell->error[sizeof cell->error - 1] = '\0';
    mn_matrix_check_lanes(mesh, cell);
    if (cell->status < MN_CELL_UNMEASURED || cell->status > MN_CELL_WRONG)
        cell->status = MN_CELL_DEAD;
    if (cell->status == MN_CELL_DEAD && is_bare(mesh, cell))
        mn_strlcpy(cell->error, BARE, sizeof cell->error);
    if (cell->status == MN_CELL_DEAD && !mn_mesh_has_cable(mesh, cell->from, cell->to)) {
        cell->status = MN_CELL_UNMEASURED;
        mn_strlcpy(cell->error, "no cable between them", sizeof cell->error);
    }
    cell->lost += from->lost + to->lost;
}

static void say_absent(const struct run *r, int node, struct mn_matrix_cell *cell)
{
    const char *left = r->report->left[node];
    const char *why = left ? left : r->plan->absent ? r->plan->absent[node] : NULL;
    char *text = mn_asprintf("%s takes no part%s%s%s", r->mesh->nodes[node].name,
                             left ? " any more" : "", why ? ": " : "", why ? why : "");

    cell->status = MN_CELL_UNMEASURED;
    cell->absent = why != NULL;
    mn_strlcpy_words(cell->error, text, sizeof cell->error);
    free(text);
}

/* Who has ended since. Its cells are left out from here on by all, since all learn it alike. */
static void count(struct run *r)
{
    for (size_t node = 0; node < r->mesh->n_nodes; node++) {
        const char *why = r->rank_of[node] < 0 ? NULL : mn_group_gone(r->group, r->rank_of[node]);
        if (!why)
            continue;
        r->report->left[node] = mn_strdup(why);
        r->rank_of[node] = -1;
    }
}

/* Out of what all said of a cell, and of who is no longer there to say it. */
static enum mn_err gather_cell(struct run *r, const struct said *all, int from, int to,
                               struct mn_matrix_cell *cell, struct mn_diag *diag)
{
    const struct mn_matrix_cell asked = *cell, *said = &all[from].cell;
    int asker_left = mn_group_gone(r->group, from) != NULL;

    count(r);
    if (!asker_left &&
        (said->link != asked.link || said->from != asked.from || said->to != asked.to))
        return mn_fail(diag, MN_ERR_PROTO, "%s measures something else than this rank",
                       mn_group_name(r->group, from));
    if (!asker_left)
        combine(r->mesh, &all[from], &all[to], cell);
    /* Unless the cell was done before. */
    if (asker_left || (mn_group_gone(r->group, to) && cell->status == MN_CELL_DEAD)) {
        *cell = asked;
        say_absent(r, asker_left ? cell->from : cell->to, cell);
    }
    return MN_OK;
}

static enum mn_err do_cell(struct run *r, struct mn_matrix_cell cell, struct mn_diag *diag)
{
    size_t n = (size_t)mn_group_size(r->group);
    int from = r->rank_of[cell.from], to = r->rank_of[cell.to];
    struct said own = {.cell = cell}, *all = mn_zalloc(n * sizeof *all);
    enum mn_err err = MN_OK;

    if (from < 0 || to < 0)
        say_absent(r, from < 0 ? cell.from : cell.to, &cell);
    else if (cell.link >= 0 && is_bare(r->mesh, &cell))
        own.cell.status = MN_CELL_DEAD; /* combine() says why */
    else if (r->node == cell.from || r->node == cell.to)
        take_part(r, &own);
    r->line++;
    if (r->plan->stop && *r->plan->stop)
        err = mn_fail(diag, MN_ERR_FAILED, "%s", mn_group_stop_reason(r->group));
    if (from >= 0 && to >= 0 && !err) {
        err = mn_group_allgather(r->group, &own, sizeof own, all, diag);
        if (!err)
            err = gather_cell(r, all, from, to, &cell, diag);
    }
    if (!err)
        *(struct mn_matrix_cell *)mn_grow((void **)&r->report->cells, &r->report->n_cells,
                                          sizeof cell) = cell;
    free(all);
    return err;
}

/* --- all cells -------------------------------------------------------------------------------- */

/* The user's choice of device mode holds in neither part: a link needs a device of its own, a pair
 * one with all. */
static enum mn_err open_plugin(struct run *r, const char *device_mode, struct mn_diag *diag)
{
    setenv("MESHNET_DEVICE_MODE", device_mode, 1);
    enum mn_err err = mn_plugin_open(r->plan->plugin_path, r->plan->abi, &r->plugin, diag);
    return err ? err : mn_matrix_devices(r->plugin, &r->mesh->nodes[r->node], r->devices, diag);
}

static void close_plugin(struct run *r)
{
    if (r->plugin)
        mn_plugin_close(r->plugin);
    r->plugin = NULL;
}

/* The ends in the order of nodes, so that the same node asks on every cable of a pair. */
static struct mn_matrix_cell cell_of_link(const struct mn_mesh *mesh, size_t l)
{
    int a = mesh->links[l].ends[0].node, b = mesh->links[l].ends[1].node;
    return (struct mn_matrix_cell){.link = (int32_t)l, .from = a < b ? a : b, .to = a < b ? b : a};
}

static enum mn_err all_cells(struct run *r, mn_matrix_progress progress, void *ctx,
                             struct mn_diag *diag)
{
    const struct mn_mesh *mesh = r->mesh;
    size_t n_links = r->plan->links ? mesh->n_links : 0;
    size_t n_pairs = r->plan->pairs ? mesh->n_nodes * (mesh->n_nodes - 1) / 2 : 0, done = 0;
    char what[160];
    enum mn_err err = n_links ? open_plugin(r, "per-link", diag) : MN_OK;

    for (size_t l = 0; l < n_links && !err; l++) {
        struct mn_matrix_cell cell = cell_of_link(mesh, l);
        if (progress)
            progress(ctx, ++done, n_links + n_pairs,
                     mn_matrix_title(mesh, &cell, what, sizeof what));
        err = do_cell(r, cell, diag);
    }
    close_plugin(r);
    if (!err && n_pairs)
        err = open_plugin(r, "mesh", diag);
    for (size_t from = 0; n_pairs && from < mesh->n_nodes; from++)
        for (size_t to = from + 1; to < mesh->n_nodes && !err; to++) {
            struct mn_matrix_cell cell = {.link = -1, .from = (int32_t)from, .to = (int32_t)to};
            if (progress)
                progress(ctx, ++done, n_links + n_pairs,
                         mn_matrix_title(mesh, &cell, what, sizeof what));
            err = do_cell(r, cell, diag);
        }
    close_plugin(r);
    return err;
}

enum mn_err mn_matrix_run(struct mn_group *group, const struct mn_matrix_plan *plan,
                          mn_matrix_progress progress, void *ctx, struct mn_matrix_report *report,
                          struct mn_diag *diag)
{
    struct run r = {.group = group, .plan = plan, .mesh = plan->mesh, .report = report};
    size_t n_nodes = plan->mesh->n_nodes;

    *report = (struct mn_matrix_report){.mesh = plan->mesh};
    report->ends = mn_zalloc(n_nodes * MN_MATRIX_NICS * sizeof *report->ends);
    report->left = mn_zalloc(n_nodes * sizeof *report->left);
    r.rank_of = mn_zalloc(n_nodes * sizeof *r.rank_of);
    for (size_t i = 0; i < n_nodes; i++)
        r.rank_of[i] = -1;
    enum mn_err err = find_self(&r, diag);
    if (!err)
        err = introduce(&r, diag);
    if (!err)
        err = mn_group_open_lines(group, diag);
    if (!err)
        err = mn_group_barrier(group, diag);
    if (!err)
        mn_group_spare(group);
    if (!err)
        err = all_cells(&r, progress, ctx, diag);
    free(r.rank_of);
    mn_matrix_judge(report);
    return err;
}

void mn_matrix_free(struct mn_matrix_report *report)
{
    for (size_t i = 0; report->left && i < report->mesh->n_nodes; i++)
        free(report->left[i]);
    free(report->left);
    free(report->ends);
    free(report->cells);
    free(report->limits);
    free(report->findings);
    *report = (struct mn_matrix_report){.mesh = NULL};
}
