/* Doctor's rules as rows: of one severity, causes before what follows from them. */
#include "fleet/doctor_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

static mn_doctor_check check_findings;

static const struct {
    struct mn_trouble_rule rule;
    mn_doctor_check *check;
} rows[] = {
    {{"unreachable", MN_SEVERITY_ERROR, "node cannot be asked",
      "Nothing is known of it, nor of its ends of its cables."},
     mn_doctor_unreachable},
    {{"wrong-node", MN_SEVERITY_ERROR, "another node answers",
      "The name leads to another host than the mesh file means, or that host's NICs are not those "
      "of the file."},
     mn_doctor_wrong_node},
    {{"no-mesh-file", MN_SEVERITY_ERROR, "node without mesh file",
      "The plugin there takes every interface that looks like a cable, and the others do not know "
      "which."},
     mn_doctor_no_mesh_file},
    {{"mesh-broken", MN_SEVERITY_ERROR, "mesh file that cannot be read",
      "The plugin refuses it, and the job ends there."},
     mn_doctor_mesh_broken},
    {{"mesh-file", MN_SEVERITY_ERROR, "another mesh file",
      "Nodes that go by different files choose different cables for one connection."},
     mn_doctor_mesh_file},
    {{"cable-down", MN_SEVERITY_ERROR, "cable down",
      "Nothing passes. A port that is up and without carrier wants a cable, or the other end's "
      "port switched on."},
     mn_doctor_cable_down},
    {{"cable-mtu", MN_SEVERITY_ERROR, "MTU unlike at both ends",
      "What the larger end sends in full does not arrive at the other: connections come up and "
      "then hang."},
     mn_doctor_cable_mtu},
    {{"cable-gid", MN_SEVERITY_ERROR, "no GID for the cable's address",
      "RDMA sends from the GID that belongs to the address; without it this cable carries TCP or "
      "nothing."},
     mn_doctor_cable_gid},
    {{"firewall", MN_SEVERITY_ERROR, "firewall drops the mesh's packets",
      "Connections over this cable cannot begin."},
     mn_doctor_firewall},
    {{"forwarding", MN_SEVERITY_ERROR, "node in between passes nothing on",
      "Other nodes have routes over it: to them this looks like a dead cable."},
     mn_doctor_forwarding},
    {{"forward-drop", MN_SEVERITY_ERROR, "firewall of a node in between drops what passes",
      "Other nodes have routes over it. Docker sets the policy of FORWARD to drop whenever it "
      "starts: to the others that looks like a dead cable."},
     mn_doctor_forward_drop},
    {{"rp-filter", MN_SEVERITY_WARNING, "kernel setting in the way of routes over nodes",
      "Packets that come in over another cable than answers would go out by are dropped in "
      "silence."},
     mn_doctor_rp_filter},
    {{"apply", MN_SEVERITY_WARNING, "changes that nobody has confirmed",
      "What meshnet topo apply has changed is undone when its time is over; what it left behind "
      "after a crash stays until it is undone."},
     mn_doctor_apply},
    {{"relay-key", MN_SEVERITY_ERROR, "relayd with another cluster key",
      "Relays that do not have the same key refuse each other, and who has none of them."},
     mn_doctor_relay_key},
    {{"relay-down", MN_SEVERITY_WARNING, "no relayd",
      "Nodes without a common cable reach each other through it; without it by TCP along the "
      "cables, or over the management network."},
     mn_doctor_relay_down},
    {{"relay-mesh", MN_SEVERITY_WARNING, "relayd that goes by another mesh file",
      "It has read the file when it was started, and refuses who goes by the one of now."},
     mn_doctor_relay_mesh},
    {{"relay-version", MN_SEVERITY_WARNING, "relayd of another meshnet",
      "It runs since before the program was replaced."},
     mn_doctor_relay_version},
    {{"relay-memlock", MN_SEVERITY_WARNING, "relayd may not lock its buffers",
      "RDMA pins them: its cables carry TCP, or its edges get no buffers."},
     mn_doctor_relay_memlock},
    {{"relay-stuck", MN_SEVERITY_WARNING, "data that waits in a relay",
      "Its receiver takes nothing, or a relay behind it does not: a process that is stopped, a "
      "cable that is silent."},
     mn_doctor_relay_stuck},
    {{"version", MN_SEVERITY_WARNING, "another meshnet", "Versions are meant to be the same."},
     mn_doctor_version},
    {{"plugin-missing", MN_SEVERITY_WARNING, "no plugin",
      "libnccl-net-mesh.so is neither beside meshnet nor where the loader looks: jobs need its "
      "path, or go by sockets."},
     mn_doctor_plugin_missing},
    {{"plugin", MN_SEVERITY_WARNING, "another build of the plugin",
      "Builds that speak another version of the handshake refuse each other."},
     mn_doctor_plugin},
    {{"two-nccl", MN_SEVERITY_WARNING, "several NCCL or RCCL libraries",
      "A job loads the first that it finds; nodes that differ hang or fail late."},
     mn_doctor_two_nccl},
    {{"nccl-version", MN_SEVERITY_WARNING, "another NCCL or RCCL",
      "Ranks with different versions refuse each other, or hang."},
     mn_doctor_nccl_version},
    {{"driver", MN_SEVERITY_WARNING, "another GPU driver", "Jobs are tried with one."},
     mn_doctor_driver},
    {{"settings", MN_SEVERITY_WARNING, "stale settings of NCCL",
      "Lines of a file that nobody thinks of any more go against what meshnet env says; the "
      "environment of a job goes first where it reaches it."},
     mn_doctor_settings},
    {{"settings-differ", MN_SEVERITY_WARNING, "settings of NCCL that differ between nodes",
      "Ranks that choose differently hang or fail late."},
     mn_doctor_settings_differ},
    {{"cable-speed", MN_SEVERITY_WARNING, "speed unlike at both ends",
      "One end is reported slower than the other: a cable or port that trained down."},
     mn_doctor_cable_speed},
    {{"cable-pcie", MN_SEVERITY_WARNING, "PCIe narrower at one end",
      "The slower slot sets the speed of the cable."},
     mn_doctor_cable_pcie},
    {{"cable-rdma", MN_SEVERITY_WARNING, "RDMA at one end only",
      "The cable carries TCP: a driver is missing at the other end, or RoCE is switched off."},
     mn_doctor_cable_rdma},
    {{"firmware", MN_SEVERITY_WARNING, "firmware unlike at both ends",
      "Cards of one kind want one firmware: speeds, FEC and RoCE are negotiated by it."},
     mn_doctor_firmware},
    {{"cable-errors", MN_SEVERITY_WARNING, "errors on the cable",
      "They grow while it is looked at: clean or change the cable or the module, then the port."},
     mn_doctor_cable_errors},
    {{"cable-drops", MN_SEVERITY_WARNING, "packets dropped",
      "More than one in a thousand. RoCE sends again from there on, slowly; TCP halves its "
      "speed."},
     mn_doctor_cable_drops},
    {{"memlock-files", MN_SEVERITY_WARNING, "locked-memory limit for new sessions too low",
      "RDMA pins its buffers; jobs of a new session fail though this one has enough."},
     mn_doctor_memlock_files},
    {{"clock", MN_SEVERITY_WARNING, "clock off",
      "Logs of nodes cannot be laid side by side, and certificates and leases end at the wrong "
      "time."},
     mn_doctor_clock},
    {{"names", MN_SEVERITY_WARNING, "name leads to another node",
      "Whoever starts a job by names starts it elsewhere."},
     mn_doctor_names},
    {{"forward-may", MN_SEVERITY_WARNING, "firewall of a node in between may drop what passes",
      "Other nodes have routes over it; its policy is to drop, and whether a rule before lets them "
      "pass could not be told."},
     mn_doctor_forward_may},
    {{"firewall-may", MN_SEVERITY_WARNING, "firewall may drop the mesh's packets",
      "Its policy is to drop, and whether a rule before lets them pass could not be told."},
     mn_doctor_firewall_may},
    {{"node's own", MN_SEVERITY_NOTE, NULL, NULL}, check_findings},
    {{"cable-silent", MN_SEVERITY_ERROR, "no answer over the cable",
      "Both ends are up and no packet came back: crossed cables, a switch in between, an address "
      "of something else, or a firewall."},
     mn_doctor_cable_silent},
    {{"cable-large", MN_SEVERITY_ERROR, "large packets do not pass",
      "Small ones do: something between the ends has a smaller MTU, so that connections come up "
      "and then hang."},
     mn_doctor_cable_large},
    {{"write-wrong", MN_SEVERITY_ERROR, "data damaged on the way",
      "What was written is not what arrived. Use the cable for nothing until that is explained."},
     mn_doctor_write_wrong},
    {{"write-failed", MN_SEVERITY_ERROR, "write over the cable failed",
      "The plugin could not use the cable, though nothing else is wrong with it."},
     mn_doctor_write_failed},
    {{"write-unmeasured", MN_SEVERITY_NOTE, "cables not written over",
      "All else was looked at; meshnet bench --links measures."},
     mn_doctor_write_unmeasured},
    {{"kernel", MN_SEVERITY_NOTE, "another kernel", "Fine as long as the drivers are the same."},
     mn_doctor_kernel},
    {{"names-differ", MN_SEVERITY_NOTE, "name leads to different addresses",
      "Fine when all are that node's."},
     mn_doctor_names_differ},
    {{"cable-pause", MN_SEVERITY_NOTE, "pause frames",
      "An end cannot take what it is sent. Fine in bursts; always, its PCIe or memory is too "
      "slow."},
     mn_doctor_cable_pause},
};
#define ROWS (sizeof rows / sizeof *rows)

/* --- what nodes find themselves ----------------------------------------------------------------
 */

/* Rules here say the same of both ends at once, or it is no fault of a mesh. */
static const char *const left_out[] = {"link-down", "no-address", "gid-missing", "mtu"};

static const struct mn_trouble_rule *of_finding(size_t i)
{
    static struct mn_trouble_rule copies[64];

    if (i >= mn_finding_rule_count || i >= sizeof copies / sizeof *copies)
        return NULL;
    copies[i] = (struct mn_trouble_rule){mn_finding_rules[i].id, mn_finding_rules[i].severity,
                                         mn_finding_rules[i].title, mn_finding_rules[i].advice};
    return &copies[i];
}

static const struct mn_trouble_rule *finding_rule(const char *id)
{
    const struct mn_trouble_rule *rule;

    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (!strcmp(id, left_out[i]))
            return NULL;
    for (size_t i = 0; (rule = of_finding(i)) != NULL; i++)
        if (!strcmp(rule->id, id))
            return rule->severity == MN_SEVERITY_NOTE ? NULL : rule;
    return NULL;
}

/* The NIC of the node that the finding is about; -1: the host, -2: none that carries data. */
static int nic_of(const struct mn_doctor_verdict *v, size_t node, const char *netdev)
{
    const struct mn_mesh_node *of = &v->what->mesh->nodes[node];
    const cJSON *nic;

    if (!strcmp(netdev, "host"))
        return -1;
    for (size_t i = 0; i < of->n_nics; i++) {
        const char *name = of->nics[i].netdev;
        cJSON_ArrayForEach(nic,
                           mn_fact(mn_doctor_facts(v->what, node),
                                   "nics")) if (!strcmp(mn_fact_text(nic, "nic"), of->nics[i].name))
            name = mn_fact_text(nic, "netdev");
        if (!strcmp(name, netdev) && of->nics[i].role != MN_ROLE_MANAGEMENT)
            return (int)i;
    }
    return -2;
}

static void add_finding(struct mn_doctor_verdict *v, size_t node, const cJSON *finding)
{
    const struct mn_trouble_rule *rule = finding_rule(mn_fact_text(finding, "id"));
    const struct mn_mesh *mesh = v->what->mesh;
    char name[96];
    int nic = rule ? nic_of(v, node, mn_fact_text(finding, "nic")) : -2;

    if (nic == -2)
        return;
    struct mn_trouble *t =
        mn_trouble_add(v->troubles, rule, "%s%s%s", mesh->nodes[node].name, nic < 0 ? "" : " ",
                       nic < 0
                           ? ""
                           : mn_doctor_nic_name(&mesh->nodes[node].nics[nic], name, sizeof name));
    mn_strlcpy(t->seen, mn_fact_text(finding, "seen"), sizeof t->seen);
    mn_strlcpy(t->expected, mn_fact_text(finding, "expected"), sizeof t->expected);
    mn_strlcpy(t->fix, mn_fact_text(finding, "fix"), sizeof t->fix);
    for (size_t i = 0; rule->severity == MN_SEVERITY_ERROR && i < mesh->n_links; i++)
        for (int e = 0; e < 2; e++)
            if (mesh->links[i].ends[e].node == (int)node && mesh->links[i].ends[e].nic == nic)
                v->blamed[i] = 1;
}

static void check_findings(struct mn_doctor_verdict *v, const struct mn_trouble_rule *row)
{
    const cJSON *finding;

    (void)row;
    for (size_t n = 0; n < v->what->mesh->n_nodes; n++)
        cJSON_ArrayForEach(finding, mn_fact(mn_doctor_facts(v->what, n), "findings"))
            add_finding(v, n, finding);
}

/* --- all of them -------------------------------------------------------------------------------
 */

void mn_doctor_judge(const struct mn_doctor_case *what, struct mn_troubles *troubles)
{
    struct mn_doctor_verdict v = {.what = what,
                                  .troubles = troubles,
                                  .blamed = mn_zalloc(what->mesh->n_links + 1)};

    for (size_t i = 0; i < ROWS; i++)
        rows[i].check(&v, &rows[i].rule);
    mn_troubles_sort(troubles);
    free(v.blamed);
}

const struct mn_trouble_rule *mn_doctor_rule(size_t i)
{
    for (size_t r = 0; r < ROWS; r++)
        if (rows[r].rule.title && !i--)
            return &rows[r].rule;
    for (size_t f = 0; f < mn_finding_rule_count; f++)
        if (finding_rule(mn_finding_rules[f].id) && !i--)
            return finding_rule(mn_finding_rules[f].id);
    return NULL;
}
