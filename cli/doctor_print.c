#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/slow_pairs.h"
#include "cli/troubles.h"
#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"

static struct mn_doctor_case case_of(const struct mn_doctor_session *s)
{
    return (struct mn_doctor_case){.mesh = &s->mesh,
                                   .file = s->path,
                                   .file_given = s->file_given,
                                   .nodes = s->nodes,
                                   .writes = s->writes,
                                   .write_error = s->write_error};
}

/* --- cables ------------------------------------------------------------------------------------
 */

/* "200G", both where they differ. */
static void cell_both(struct mn_out *out, double a, double b, double unit, const char *suffix)
{
    if (a <= 0 && b <= 0)
        mn_out_cell(out, NULL);
    else if (a == b || b <= 0)
        mn_out_cellf(out, "%g%s", a / unit, suffix);
    else if (a <= 0)
        mn_out_cellf(out, "%g%s", b / unit, suffix);
    else
        mn_out_cellf(out, "%g%s|%g%s", a / unit, suffix, b / unit, suffix);
}

static void cell_state(struct mn_out *out, const cJSON *const end[2])
{
    int known = end[0] && end[1], up = 1;

    for (int e = 0; e < 2; e++)
        up &= mn_fact_true(end[e], "up", 1) && mn_fact_true(end[e], "carrier", 1);
    mn_out_color(out, !up ? MN_RED : known ? MN_GREEN : MN_YELLOW);
    mn_out_cell(out, !up ? "down" : known ? "up" : "?");
}

/* What passes, from the first end to the other. */
static void cell_probe(struct mn_out *out, int probe)
{
    static const char *const names[] = {"nothing", "small", "all"};

    mn_out_color(out, probe == 2 ? MN_GREEN : probe >= 0 ? MN_RED : MN_PLAIN);
    mn_out_cell(out, probe < 0 ? NULL : names[probe]);
}

static void cell_write(struct mn_out *out, const struct mn_doctor_write *w)
{
    static const char *const names[] = {NULL, "ok", "failed", "wrong"};

    if (w && w->state > MN_WRITE_OK)
        mn_out_color(out, MN_RED);
    mn_out_cell(out, w ? names[w->state] : NULL);
    if (w && w->state == MN_WRITE_OK && w->gbps > 0)
        mn_out_cell_num(out, w->gbps, w->gbps < 1 ? 3 : 1);
    else
        mn_out_cell(out, NULL);
}

static void cell_rdma(struct mn_out *out, const cJSON *const end[2])
{
    int a = *mn_fact_text(end[0], "device") != 0, b = *mn_fact_text(end[1], "device") != 0;

    mn_out_cell(out, !end[0] || !end[1] ? NULL : a && b ? "yes" : a || b ? "one end" : "no");
}

static void put_cables(struct mn_out *out, const struct mn_doctor_session *s)
{
    static const struct mn_col cols[] = {
        {"link", "CABLE", 0},
        {"a", "END", MN_DROP(3)},
        {"b", "OTHER END", MN_DROP(3)},
        {"state", "STATE", 0},
        {"speed", "SPEED", 1},
        {"mtu", "MTU", 1},
        {"rdma", "RDMA", MN_DROP(1)},
        {"passes", "PASSES", 0},
        {"back", "BACK", 0},
        {"write", "WRITE", 0},
        {"write_gbps", "Gb/s", 1 | MN_DROP(2)},
    };
    const struct mn_doctor_case what = case_of(s);

    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_table(out, "cables", NULL, cols, sizeof cols / sizeof *cols);
    for (size_t i = 0; i < s->mesh.n_links; i++) {
        const struct mn_mesh_link *link = &s->mesh.links[i];
        const cJSON *const end[2] = {mn_doctor_end(&what, link->ends[0]),
                                     mn_doctor_end(&what, link->ends[1])};
        mn_out_row(out);
        mn_out_cell(out, link->name);
        for (int e = 0; e < 2; e++) {
            const struct mn_mesh_node *node = &s->mesh.nodes[link->ends[e].node];
            char name[96];
            mn_out_cellf(out, "%s %s", node->name,
                         mn_doctor_nic_name(&node->nics[link->ends[e].nic], name, sizeof name));
        }
        cell_state(out, end);
        cell_both(out, mn_fact_number(end[0], "speed", 0), mn_fact_number(end[1], "speed", 0), 1000,
                  "G");
        cell_both(out, mn_fact_number(end[0], "mtu", 0), mn_fact_number(end[1], "mtu", 0), 1, "");
        cell_rdma(out, end);
        cell_probe(out, mn_doctor_probe(&what, link, 0));
        cell_probe(out, mn_doctor_probe(&what, link, 1));
        cell_write(out, s->writes ? &s->writes[i] : NULL);
    }
    mn_out_table_end(out);
}

/* --- nodes, for programs -----------------------------------------------------------------------
 */

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static void put_nodes(struct mn_out *out, const struct mn_doctor_session *s)
{
    mn_out_list_begin(out, "nodes", NULL);
    for (size_t i = 0; i < s->mesh.n_nodes; i++) {
        const cJSON *facts = s->nodes[i].facts, *versions = mn_fact(facts, "versions");
        const cJSON *nccl = cJSON_GetArrayItem(mn_fact(facts, "nccl"), 0);
        const cJSON *rccl = cJSON_GetArrayItem(mn_fact(facts, "rccl"), 0);
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "node", NULL, s->mesh.nodes[i].name);
        mn_out_bool(out, "asked", NULL, s->nodes[i].asked);
        mn_out_str(out, "error", NULL, s->nodes[i].error);
        mn_out_str(out, "hostname", NULL, or_null(mn_fact_text(facts, "hostname")));
        mn_out_str(out, "mesh_file", NULL, or_null(mn_fact_text(facts, "mesh_path")));
        mn_out_str(out, "mesh_hash", NULL, or_null(mn_fact_text(mn_fact(facts, "mesh"), "hash")));
        mn_out_str(out, "meshnet", NULL, or_null(mn_fact_text(versions, "meshnet")));
        mn_out_str(out, "kernel", NULL, or_null(mn_fact_text(versions, "kernel")));
        mn_out_str(out, "nvidia", NULL, or_null(mn_fact_text(versions, "nvidia")));
        mn_out_str(out, "amdgpu", NULL, or_null(mn_fact_text(versions, "amdgpu")));
        mn_out_str(out, "nccl", NULL, or_null(mn_fact_text(nccl, "version")));
        mn_out_str(out, "rccl", NULL, or_null(mn_fact_text(rccl, "version")));
        mn_out_str(out, "plugin", NULL, or_null(mn_fact_text(mn_fact(facts, "plugin"), "path")));
        mn_out_str(out, "plugin_sha256", NULL,
                   or_null(mn_fact_text(mn_fact(facts, "plugin"), "sha256")));
        mn_out_str(out, "firewall_error", NULL,
                   or_null(mn_fact_text(mn_fact(facts, "firewall"), "error")));
        mn_out_end(out);
    }
    mn_out_list_end(out);
}

/* --- what is slow and no fault -----------------------------------------------------------------
 */

/* The mesh with the speeds that nodes tell, where the file has none. */
static void put_slow_pairs(struct mn_out *out, const struct mn_doctor_session *s)
{
    const struct mn_doctor_case what = case_of(s);
    struct mn_mesh mesh = s->mesh;

    mesh.nodes = mn_zalloc((mesh.n_nodes + 1) * sizeof *mesh.nodes);
    for (size_t i = 0; i < mesh.n_nodes; i++) {
        struct mn_mesh_node *node = &mesh.nodes[i];
        *node = s->mesh.nodes[i];
        node->nics = mn_zalloc((node->n_nics + 1) * sizeof *node->nics);
        for (size_t k = 0; k < node->n_nics; k++) {
            const cJSON *told = mn_doctor_end(&what, (struct mn_mesh_end){(int)i, (int)k});
            double speed = mn_fact_number(told, "speed", 0);
            node->nics[k] = s->mesh.nodes[i].nics[k];
            if (!node->nics[k].speed_mbps && speed > 0 && speed < 1e8)
                node->nics[k].speed_mbps = (long)speed;
        }
    }
    mn_slow_pairs_print(out, &mesh);
    for (size_t i = 0; i < mesh.n_nodes; i++)
        free(mesh.nodes[i].nics);
    free(mesh.nodes);
}

void mn_doctor_print(struct mn_out *out, const struct mn_doctor_session *s)
{
    size_t answered = 0;

    for (size_t i = 0; i < s->mesh.n_nodes; i++)
        answered += s->nodes[i].facts != NULL;
    mn_out_str(out, "mesh_file", "mesh file", s->path);
    mn_out_strf(out, "answered", "nodes that answered", "%zu of %zu", answered, s->mesh.n_nodes);
    mn_out_note(out, MN_PLAIN, "%s", "");
    put_nodes(out, s);
    mn_troubles_print(out, &s->troubles);
    put_cables(out, s);
    put_slow_pairs(out, s);
    if (s->troubles.count)
        mn_out_note(out, MN_PLAIN, "%s", "");
    mn_troubles_print_to_do(out, &s->troubles);
}

/* --- what changed ------------------------------------------------------------------------------
 */

static int has(const struct mn_troubles *list, const struct mn_trouble *t)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].rule == t->rule && !strcmp(list->items[i].where, t->where))
            return 1;
    return 0;
}

static size_t put_changes(struct mn_out *out, const struct mn_troubles *of,
                          const struct mn_troubles *other, const char *key, enum mn_color color)
{
    size_t n = 0;

    mn_out_list_begin(out, key, NULL);
    for (size_t i = 0; i < of->count; i++) {
        const struct mn_trouble *t = &of->items[i];
        if (has(other, t))
            continue;
        n++;
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "id", NULL, t->rule->id);
        mn_out_str(out, "severity", NULL, mn_severity_name(t->rule->severity));
        mn_out_str(out, "where", NULL, t->where);
        mn_out_str(out, "seen", NULL, t->seen);
        mn_out_str(out, "fix", NULL, t->fix);
        mn_out_note(out, color, "%s: %s: %s: %s: %s", key, mn_severity_name(t->rule->severity),
                    t->where, t->rule->title, t->seen);
        mn_out_end(out);
    }
    mn_out_list_end(out);
    return n;
}

size_t mn_doctor_print_changes(struct mn_out *out, const struct mn_troubles *before,
                               const struct mn_troubles *now)
{
    size_t n = put_changes(out, now, before, "new", MN_RED);

    return n + put_changes(out, before, now, "gone", MN_GREEN);
}
