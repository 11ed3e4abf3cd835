/* What each cell could carry, and what is wrong with it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/matrix/matrix_impl.h"
#include "topo/base/alloc.h"
#include "topo/fabric.h"

#define SLOW       0.5  /* of what the others of its kind carry */
#define ASYMMETRIC 0.6  /* of its other direction */
#define SHORT      0.7  /* of what speed, MTU and PCIe allow */
#define IDLE       0.2  /* of the part a cable of a pair should carry */
#define LOST_MANY  10   /* packets, */
#define LOST_RDMA  5e-4 /* and such a part of all, */
#define LOST_TCP   0.01 /* which is more where a full queue of the host loses some too */

const char *const mn_matrix_severity_names[] = {
    [MN_MATRIX_BAD] = "bad",
    [MN_MATRIX_WARN] = "warn",
    [MN_MATRIX_INFO] = "info",
};

__attribute__((format(printf, 4, 5))) static void find(struct mn_matrix_report *r,
                                                       enum mn_matrix_severity severity,
                                                       size_t cell, const char *fmt, ...)
{
    struct mn_matrix_finding *f = mn_grow((void **)&r->findings, &r->n_findings, sizeof *f);
    va_list ap;

    *f = (struct mn_matrix_finding){.severity = severity, .cell = (int)cell};
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

/* An end of a cable: its name, the mesh file's NIC, and what its node said. */
struct side {
    char name[2 * MN_NAME_MAX + 2];
    const struct mn_mesh_nic *nic;
    const struct mn_matrix_end *end;
};

static struct side side_of(const struct mn_matrix_report *r, const struct mn_mesh_link *link,
                           int node)
{
    static const struct mn_matrix_end unknown;
    const struct mn_mesh_end *end = mn_matrix_end_at(link, node);
    const struct mn_mesh_node *n = &r->mesh->nodes[end->node];
    struct side s = {.nic = &n->nics[end->nic], .end = &unknown};

    if (end->nic < MN_MATRIX_NICS)
        s.end = &r->ends[(size_t)end->node * MN_MATRIX_NICS + (size_t)end->nic];
    snprintf(s.name, sizeof s.name, "%s/%s", n->name, s.nic->name);
    return s;
}

/* --- limits ----------------------------------------------------------------------------------- */

static double less(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* A cable alone. */
static struct mn_matrix_limit limit_of_link(const struct mn_matrix_report *r,
                                            const struct mn_matrix_cell *cell, int l)
{
    const struct mn_mesh_link *link = &r->mesh->links[l];
    struct side s[2] = {side_of(r, link, cell->from), side_of(r, link, cell->to)};
    struct mn_matrix_limit limit = {.gbps = 0};
    double speed = less(s[0].end->speed_gbps, s[1].end->speed_gbps);
    int mtu = (int)less(s[0].end->mtu, s[1].end->mtu), slot = -1;

    for (int i = 0; i < 2; i++)
        if (s[i].end->pcie_gbps > 0 && speed > 0 && s[i].end->pcie_gbps < speed &&
            (slot < 0 || s[i].end->pcie_gbps < s[slot].end->pcie_gbps))
            slot = i;
    if (speed <= 0)
        return limit;
    double part = mn_fabric_payload(mtu, cell->carrier == MN_P2P_RDMA);
    if (slot >= 0) {
        limit.gbps = s[slot].end->pcie_gbps * part;
        snprintf(limit.by, sizeof limit.by, "PCIe of %.60s, %.4g Gb/s", s[slot].name,
                 (double)s[slot].end->pcie_gbps);
    } else {
        limit.gbps = speed * part;
        snprintf(limit.by, sizeof limit.by, "link speed %.4g Gb/s, MTU %d", speed, mtu);
    }
    return limit;
}

/* Whether an earlier cable of the pair has the same port at either end. */
static int shares_port(const struct mn_matrix_report *r, const struct mn_matrix_cell *cell, int k)
{
    const int nodes[2] = {cell->from, cell->to};

    for (int j = 0; j < k; j++)
        for (int i = 0; i < 2; i++) {
            const struct mn_mesh_link *links = r->mesh->links;
            struct side a = side_of(r, &links[cell->lanes[j].link], nodes[i]);
            struct side b = side_of(r, &links[cell->lanes[k].link], nodes[i]);
            if (a.nic->group[0] && !strcmp(a.nic->group, b.nic->group))
                return 1;
        }
    return 0;
}

static struct mn_matrix_limit limit_of_pair(const struct mn_matrix_report *r,
                                            const struct mn_matrix_cell *cell)
{
    struct mn_matrix_limit sum = {.gbps = 0};
    int counted = 0;

    for (int k = 0; k < cell->n_lanes; k++) {
        struct mn_matrix_limit one = limit_of_link(r, cell, cell->lanes[k].link);
        if (one.gbps <= 0)
            return (struct mn_matrix_limit){.gbps = 0};
        if (shares_port(r, cell, k))
            continue;
        sum.gbps += one.gbps;
        if (++counted == 1)
            mn_strlcpy(sum.by, one.by, sizeof sum.by);
    }
    if (counted > 1)
        snprintf(sum.by, sizeof sum.by, "the sum of %d cables", counted);
    return sum;
}

static double slower(const struct mn_matrix_cell *cell)
{
    float out = cell->gbps[MN_P2P_OUT], in = cell->gbps[MN_P2P_IN];
    return out < in ? out : in;
}

double mn_matrix_ratio(const struct mn_matrix_report *r, size_t cell)
{
    return r->cells[cell].status == MN_CELL_OK && r->limits[cell].gbps > 0
               ? slower(&r->cells[cell]) / r->limits[cell].gbps
               : -1;
}

/* --- findings --------------------------------------------------------------------------------- */

/* Whether one explains why nothing came through. */
static int judge_ends(struct mn_matrix_report *r, size_t c)
{
    int causes = 0;
    const struct mn_matrix_cell *cell = &r->cells[c];
    const struct mn_mesh_link *link = &r->mesh->links[cell->link];
    struct side s[2] = {side_of(r, link, cell->from), side_of(r, link, cell->to)};

    for (int i = 0; i < 2; i++) {
        if (!s[i].end->known)
            continue;
        if (!s[i].end->up)
            find(r, MN_MATRIX_BAD, c, "link %s: dead: %s is switched off: ip link set dev %s up",
                 link->name, s[i].name, s[i].nic->netdev);
        else if (!s[i].end->carrier)
            find(r, MN_MATRIX_BAD, c,
                 "link %s: dead: %s has no carrier: the cable is out, broken, or the other end is "
                 "off",
                 link->name, s[i].name);
        causes += !s[i].end->up || !s[i].end->carrier;
        if (s[i].nic->mtu && s[i].end->mtu != s[i].nic->mtu)
            find(r, MN_MATRIX_WARN, c, "link %s: wrong MTU: %s has %d, the mesh file says %d",
                 link->name, s[i].name, s[i].end->mtu, s[i].nic->mtu);
    }
    if (s[0].end->known && s[1].end->known && s[0].end->mtu != s[1].end->mtu)
        find(r, MN_MATRIX_BAD, c,
             "link %s: wrong MTU: %s has %d, %s has %d; larger packets are lost on the way",
             link->name, s[0].name, s[0].end->mtu, s[1].name, s[1].end->mtu);
    if (s[0].end->speed_gbps > 0 && s[1].end->speed_gbps > 0 &&
        (s[0].end->speed_gbps < 0.9 * s[1].end->speed_gbps ||
         s[1].end->speed_gbps < 0.9 * s[0].end->speed_gbps))
        find(r, MN_MATRIX_WARN, c, "link %s: %s runs at %.4g Gb/s, %s at %.4g", link->name,
             s[0].name, (double)s[0].end->speed_gbps, s[1].name, (double)s[1].end->speed_gbps);
    return causes;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mn_matrix_lost(const struct mn_matrix_cell *cell)
{
    return cell->packets ? (double)cell->lost / (double)cell->packets : 0;
}

/* What the other cells of the same kind have, in the middle; of two, the larger. */
static double usual(const struct mn_matrix_report *r, size_t c,
                    double (*value)(const struct mn_matrix_cell *cell))
{
    double *values = mn_zalloc((r->n_cells + 1) * sizeof *values);
    size_t n = 0;

    for (size_t i = 0; i < r->n_cells; i++)
        if (i != c && (r->cells[i].link < 0) == (r->cells[c].link < 0) &&
            r->cells[i].status == MN_CELL_OK)
            values[n++] = value(&r->cells[i]);
    qsort(values, n, sizeof *values, by_value);
    double middle = n ? values[n / 2] : 0;
    free(values);
    return middle;
}

static int loses_packets(const struct mn_matrix_cell *cell)
{
    return cell->lost >= LOST_MANY &&
           mn_matrix_lost(cell) > (cell->carrier == MN_P2P_RDMA ? LOST_RDMA : LOST_TCP);
}

static void judge_speed(struct mn_matrix_report *r, size_t c, const char *title)
{
    const struct mn_matrix_cell *cell = &r->cells[c];
    double out = cell->gbps[MN_P2P_OUT], in = cell->gbps[MN_P2P_IN], others = usual(r, c, slower);
    double ratio = mn_matrix_ratio(r, c);
    const char *from = r->mesh->nodes[cell->from].name, *to = r->mesh->nodes[cell->to].name;

    if (loses_packets(cell))
        find(r, MN_MATRIX_BAD, c,
             "%s: loses packets: %.2g %%, %llu of %llu: cable, connector or transceiver, or a "
             "buffer too small",
             title, 100 * mn_matrix_lost(cell), (unsigned long long)cell->lost,
             (unsigned long long)cell->packets);
    if (others > 0 && slower(cell) < SLOW * others)
        find(r, MN_MATRIX_BAD, c,
             "%s: slow: %.3g Gb/s from %s to %s, %.3g back, where the others carry %.3g", title,
             out, from, to, in, others);
    else if (ratio >= 0 && ratio < SHORT && cell->carrier == MN_P2P_RDMA)
        find(r, MN_MATRIX_WARN, c, "%s: %.3g Gb/s is %.0f %% of what it could carry (%s)", title,
             slower(cell), 100 * ratio, r->limits[c].by);
    if (out < ASYMMETRIC * in || in < ASYMMETRIC * out)
        find(r, MN_MATRIX_WARN, c, "%s: one-sided: %.3g Gb/s from %s to %s, %.3g back", title, out,
             from, to, in);
}

static void judge_lanes(struct mn_matrix_report *r, size_t c, const char *title)
{
    const struct mn_matrix_cell *cell = &r->cells[c];
    double sum = 0;

    for (int k = 0; k < cell->n_lanes; k++)
        sum += limit_of_link(r, cell, cell->lanes[k].link).gbps;
    for (int k = 0; cell->n_lanes > 1 && k < cell->n_lanes; k++) {
        const struct mn_mesh_link *link = &r->mesh->links[cell->lanes[k].link];
        struct side s = side_of(r, link, cell->from);
        double own = limit_of_link(r, cell, cell->lanes[k].link).gbps;
        double fair = sum > 0 && own > 0 ? own / sum : 1.0 / cell->n_lanes;
        if (cell->lanes[k].share < IDLE * fair)
            find(r, MN_MATRIX_BAD, c,
                 "%s: half idle: link %s (%s) carried %.0f %% of the bytes, its part is %.0f%s%s",
                 title, link->name, s.name, 100 * (double)cell->lanes[k].share, 100 * fair,
                 s.nic->group[0] ? "; a half of port group " : "", s.nic->group);
    }
}

void mn_matrix_judge(struct mn_matrix_report *r)
{
    char title[160];

    free(r->limits);
    free(r->findings);
    r->findings = NULL;
    r->n_findings = 0;
    r->limits = mn_zalloc((r->n_cells + 1) * sizeof *r->limits);
    for (size_t c = 0; c < r->n_cells; c++)
        r->limits[c] = r->cells[c].link < 0 ? limit_of_pair(r, &r->cells[c])
                                            : limit_of_link(r, &r->cells[c], r->cells[c].link);
    for (size_t c = 0; c < r->n_cells; c++) {
        const struct mn_matrix_cell *cell = &r->cells[c];
        mn_matrix_title(r->mesh, cell, title, sizeof title);
        int explained = cell->link >= 0 && judge_ends(r, c);
        if (explained && cell->status == MN_CELL_DEAD)
            continue;
        if (cell->status == MN_CELL_DEAD || cell->status == MN_CELL_WRONG)
            find(r, MN_MATRIX_BAD, c, "%s: %s: %s", title, mn_matrix_status_names[cell->status],
                 cell->error);
        else if (cell->status == MN_CELL_UNMEASURED)
            find(r, cell->absent ? MN_MATRIX_BAD : MN_MATRIX_INFO, c, "%s: not measured: %s", title,
                 cell->error);
        else
            judge_speed(r, c, title);
        if (cell->status == MN_CELL_OK && cell->link < 0)
            judge_lanes(r, c, title);
    }
}
