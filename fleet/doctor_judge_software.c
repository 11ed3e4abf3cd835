/* Rules about what nodes run: the same everywhere, and one of it. */
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"

static const char *version(const cJSON *facts)
{
    return mn_fact_text(mn_fact(facts, "versions"), "meshnet");
}

void mn_doctor_version(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    mn_doctor_unlike(v, rule, version, "meshnet", "install the same meshnet on every node");
}

static const char *kernel(const cJSON *facts)
{
    return mn_fact_text(mn_fact(facts, "versions"), "kernel");
}

void mn_doctor_kernel(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    mn_doctor_unlike(v, rule, kernel, "kernel", "");
}

/* The loaded module, not what is installed: after an update they differ until the next boot. */
static const char *nvidia(const cJSON *facts)
{
    return mn_fact_text(mn_fact(facts, "versions"), "nvidia");
}

static const char *amdgpu(const cJSON *facts)
{
    return mn_fact_text(mn_fact(facts, "versions"), "amdgpu");
}

void mn_doctor_driver(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    mn_doctor_unlike(v, rule, nvidia, "NVIDIA driver", "install the same driver, and boot");
    mn_doctor_unlike(v, rule, amdgpu, "amdgpu", "install the same driver, and boot");
}

/* --- the plugin --------------------------------------------------------------------------------
 */

void mn_doctor_plugin_missing(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        const cJSON *facts = v->what->nodes[i].facts;
        if (!mn_fact(facts, "nccl") || mn_fact(facts, "plugin"))
            continue;
        struct mn_trouble *t =
            mn_trouble_add(v->troubles, rule, "%s", v->what->mesh->nodes[i].name);
        snprintf(t->seen, sizeof t->seen, "no libnccl-net-mesh.so where the loader looks");
        snprintf(t->expected, sizeof t->expected, "meshnet's plugin");
        snprintf(t->fix, sizeof t->fix,
                 "cmake --install build/release, or the bundle of ci/bundle; then meshnet env");
    }
}

/* Builds for another kind of machine are other bytes. */
static const char *plugin_of(const cJSON *facts, const char *machine)
{
    const char *own = strrchr(kernel(facts), ' ');

    return own && !strcmp(own + 1, machine) ? mn_fact_text(mn_fact(facts, "plugin"), "sha256") : "";
}

static const char *plugin_x86(const cJSON *facts)
{
    return plugin_of(facts, "x86_64");
}

static const char *plugin_arm(const cJSON *facts)
{
    return plugin_of(facts, "aarch64");
}

void mn_doctor_plugin(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    mn_doctor_unlike(v, rule, plugin_x86, "sha256", "install the same plugin on every node");
    mn_doctor_unlike(v, rule, plugin_arm, "sha256", "install the same plugin on every node");
}

/* --- NCCL and RCCL -----------------------------------------------------------------------------
 */

static void check_two(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule, size_t node,
                      const char *key)
{
    const cJSON *list = mn_fact(v->what->nodes[node].facts, key), *item;
    size_t used = 0;

    if (cJSON_GetArraySize(list) < 2)
        return;
    struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", v->what->mesh->nodes[node].name);
    cJSON_ArrayForEach(item, list) if (used < sizeof t->seen) used +=
        (size_t)snprintf(t->seen + used, sizeof t->seen - used, "%s%.100s (%.30s)",
                         used ? ", " : "", mn_fact_text(item, "path"),
                         *mn_fact_text(item, "version") ? mn_fact_text(item, "version")
                                                        : "version unknown");
    snprintf(t->expected, sizeof t->expected, "one");
    snprintf(t->fix, sizeof t->fix,
             "remove all but the one that jobs use, or name it: LD_PRELOAD=%.120s, for vLLM "
             "VLLM_NCCL_SO_PATH",
             mn_fact_text(cJSON_GetArrayItem(list, 0), "path"));
}

void mn_doctor_two_nccl(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        check_two(v, rule, i, "nccl");
        check_two(v, rule, i, "rccl");
    }
}

static const char *nccl(const cJSON *facts)
{
    return mn_fact_text(cJSON_GetArrayItem(mn_fact(facts, "nccl"), 0), "version");
}

static const char *rccl(const cJSON *facts)
{
    return mn_fact_text(cJSON_GetArrayItem(mn_fact(facts, "rccl"), 0), "version");
}

void mn_doctor_nccl_version(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    mn_doctor_unlike(v, rule, nccl, "NCCL", "install the same NCCL on every node");
    mn_doctor_unlike(v, rule, rccl, "RCCL", "install the same RCCL on every node");
}

/* --- settings ----------------------------------------------------------------------------------
 */

static int ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

/* One of the node's cables, where ranks of more than two nodes meet over it. */
static int is_cable(const struct mn_doctor_verdict *v, size_t node, const char *value)
{
    const cJSON *nic;

    cJSON_ArrayForEach(nic, mn_fact(mn_doctor_facts(v->what, node),
                                    "nics")) if (v->what->mesh->n_nodes > 2 &&
                                                 !strcmp(mn_fact_text(nic, "netdev"),
                                                         value + strspn(value, "="))) return 1;
    return 0;
}

/* What meshnet env sets instead; NULL: it does not mind. */
static const char *against(const struct mn_doctor_verdict *v, size_t node, const char *name,
                           const char *value)
{
    const char *mesh = mn_fact_text(v->what->nodes[node].facts, "mesh_path");

    if (!strcmp(name, "NCCL_NET"))
        return strcmp(value, "meshnet") != 0 ? "meshnet" : NULL;
    if (!strcmp(name, "NCCL_NET_PLUGIN"))
        return strcmp(value, "mesh") != 0 && !strstr(value, "nccl-net-mesh")
                   ? "the path of libnccl-net-mesh.so"
                   : NULL;
    if (!strcmp(name, "MESHNET_CONFIG"))
        return *mesh && strcmp(value, mesh) != 0 ? mesh : NULL;
    if (!strcmp(name, "NCCL_SOCKET_IFNAME"))
        return is_cable(v, node, value) ? "an interface that reaches all nodes" : NULL;
    if (ends_in(name, "_IB_DISABLE"))
        return strcmp(value, "0") != 0 ? "nothing, or 0" : NULL;
    return NULL;
}

void mn_doctor_settings(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        const cJSON *line;
        cJSON_ArrayForEach(line, mn_fact(v->what->nodes[i].facts, "settings"))
        {
            const char *name = mn_fact_text(line, "name"), *value = mn_fact_text(line, "value");
            const char *instead = against(v, i, name, value);
            if (!instead)
                continue;
            struct mn_trouble *t =
                mn_trouble_add(v->troubles, rule, "%s", v->what->mesh->nodes[i].name);
            snprintf(t->seen, sizeof t->seen, "%.100s:%.0f: %.40s=%.80s",
                     mn_fact_text(line, "file"), mn_fact_number(line, "line", 0), name, value);
            snprintf(t->expected, sizeof t->expected, "%.40s: %.120s", name, instead);
            snprintf(t->fix, sizeof t->fix, "on %s take the line %.60s=… out of %.150s",
                     v->what->mesh->nodes[i].name, name, mn_fact_text(line, "file"));
        }
    }
}

/* The last line wins, as for a shell. NULL: it is not set. */
static const char *setting(const cJSON *facts, const char *name)
{
    const char *value = NULL;
    const cJSON *line;

    cJSON_ArrayForEach(line,
                       mn_fact(facts, "settings")) if (!strcmp(mn_fact_text(line, "name"), name))
        value = mn_fact_text(line, "value");
    return value;
}

/* Interfaces have other names on other nodes, and files other places. */
static int may_differ(const char *name)
{
    return ends_in(name, "_IFNAME") || ends_in(name, "_IB_HCA") || ends_in(name, "_PLUGIN") ||
           !strcmp(name, "MESHNET_NODE") || !strcmp(name, "MESHNET_CONFIG") ||
           ends_in(name, "_FILE") || ends_in(name, "_DEBUG");
}

void mn_doctor_settings_differ(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    const struct mn_doctor_case *what = v->what;
    const cJSON *line;

    for (size_t i = 0; i < what->mesh->n_nodes; i++)
        cJSON_ArrayForEach(line, mn_fact(what->nodes[i].facts, "settings"))
        {
            const char *name = mn_fact_text(line, "name");
            const char *own = setting(what->nodes[i].facts, name);
            if (may_differ(name) || against(v, i, name, own) || mn_fact_text(line, "value") != own)
                continue;
            for (size_t k = 0; k < what->mesh->n_nodes; k++) {
                const char *other = setting(what->nodes[k].facts, name);
                /* Both nodes have it: said once. */
                if (!what->nodes[k].facts || (other && (!strcmp(other, own) || k < i)))
                    continue;
                struct mn_trouble *t =
                    mn_trouble_add(v->troubles, rule, "%s", what->mesh->nodes[i].name);
                snprintf(t->seen, sizeof t->seen, "%.30s=%.50s by %.50s:%.0f; on %.30s %s%.40s",
                         name, own, mn_fact_text(line, "file"), mn_fact_number(line, "line", 0),
                         what->mesh->nodes[k].name, other ? "it is " : "it is not set",
                         other ? other : "");
                snprintf(t->expected, sizeof t->expected, "the same on all nodes");
                snprintf(t->fix, sizeof t->fix, "remove the line, or have it everywhere");
                break;
            }
        }
}
