/* Rules about nodes, one by one and beside each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"

#define NODES(v) ((v)->what->mesh->n_nodes)

static const char *name_of(const struct mn_doctor_verdict *v, size_t node)
{
    return v->what->mesh->nodes[node].name;
}

/* --- who answers -------------------------------------------------------------------------------
 */

void mn_doctor_unreachable(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        if (!v->what->nodes[i].error)
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        mn_strlcpy_words(t->seen, v->what->nodes[i].error, sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "an answer");
        mn_doctor_fix(t, "ssh %q true   # that has to work without a question",
                      v->what->mesh->nodes[i].hostname);
        mn_doctor_blame_node(v, i);
    }
}

void mn_doctor_wrong_node(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        const cJSON *facts = v->what->nodes[i].facts;
        const char *other = mn_fact_text(facts, "node");
        if (!facts || mn_doctor_facts(v->what, i))
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        if (*other)
            snprintf(t->seen, sizeof t->seen, "%.60s answers, and is node %.60s by its NICs",
                     mn_fact_text(facts, "hostname"), other);
        else
            mn_strlcpy_words(t->seen, mn_fact_text(facts, "node_error"), sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "a host with the NICs of node %s", name_of(v, i));
        snprintf(t->fix, sizeof t->fix,
                 "correct what the name %s leads to (/etc/hosts, ~/.ssh/config), or hostname and "
                 "NICs of the node in %.100s",
                 v->what->mesh->nodes[i].hostname, v->what->file);
        mn_doctor_blame_node(v, i);
    }
}

/* --- mesh files --------------------------------------------------------------------------------
 */

static void push(const struct mn_doctor_verdict *v, size_t node, struct mn_trouble *t)
{
    mn_doctor_fix(t, "meshnet push --hosts %q %q", v->what->mesh->nodes[node].hostname,
                  v->what->file);
}

void mn_doctor_no_mesh_file(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        const cJSON *facts = v->what->nodes[i].facts;
        if (!facts || mn_fact(facts, "mesh_path"))
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        snprintf(t->seen, sizeof t->seen,
                 "none in /etc/meshnet, ~/.config/meshnet or by MESHNET_CONFIG");
        snprintf(t->expected, sizeof t->expected, "the same file as on every node");
        push(v, i, t);
    }
}

void mn_doctor_mesh_broken(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        const char *error = mn_fact_text(v->what->nodes[i].facts, "mesh_error");
        if (!*error)
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        mn_strlcpy_words(t->seen, error, sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "the same file as on every node");
        push(v, i, t);
    }
}

void mn_doctor_mesh_file(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        if (!v->what->nodes[i].mesh_differs[0])
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        mn_strlcpy_words(t->seen, v->what->nodes[i].mesh_differs, sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "what %.160s says", v->what->file);
        push(v, i, t);
    }
}

/* --- names -------------------------------------------------------------------------------------
 */

/* The node of the mesh that has the address; -1: none has, or it is no address. */
static int owner(const struct mn_mesh *mesh, const char *text)
{
    struct mn_addr addr;

    if (mn_addr_parse(text, &addr, NULL))
        return -1;
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++)
            for (size_t k = 0; k < mesh->nodes[n].nics[i].n_addrs; k++)
                if (mn_addr_equal(&mesh->nodes[n].nics[i].addrs[k], &addr))
                    return (int)n;
    return -1;
}

static void check_name(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule, size_t at,
                       size_t meant)
{
    const char *hostname = v->what->mesh->nodes[meant].hostname;
    const cJSON *addr;

    cJSON_ArrayForEach(addr, mn_fact(mn_fact(mn_doctor_facts(v->what, at), "names"), hostname))
    {
        const char *text = cJSON_GetStringValue(addr);
        int node = text ? owner(v->what->mesh, text) : -1;
        if (node < 0 || node == (int)meant)
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, at));
        snprintf(t->seen, sizeof t->seen, "%s is %.60s here, which is %s's", hostname, text,
                 name_of(v, (size_t)node));
        snprintf(t->expected, sizeof t->expected, "an address of %s", name_of(v, meant));
        mn_doctor_fix(t, "getent hosts %q   # on %s; then /etc/hosts, or DNS", hostname,
                      name_of(v, at));
        return;
    }
}

void mn_doctor_names(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++)
        for (size_t k = 0; k < NODES(v); k++)
            check_name(v, rule, i, k);
}

/* The first address of a family that tells anything: none of loopback, none that the mesh file
 * knows. */
static const char *told(const struct mn_doctor_verdict *v, size_t at, const char *hostname,
                        int family)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, mn_fact(mn_fact(mn_doctor_facts(v->what, at), "names"), hostname))
    {
        const char *text = cJSON_GetStringValue(item);
        struct mn_addr addr;
        if (text && !mn_addr_parse(text, &addr, NULL) && addr.family == family &&
            !mn_addr_is_loopback(&addr) && owner(v->what->mesh, text) < 0)
            return text;
    }
    return NULL;
}

void mn_doctor_names_differ(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t k = 0; k < NODES(v); k++) {
        const char *hostname = v->what->mesh->nodes[k].hostname, *first = NULL;
        size_t at = 0;
        for (size_t i = 0; i < NODES(v); i++) {
            const char *here = told(v, i, hostname, AF_INET);
            if (here && !first) {
                first = here;
                at = i;
            } else if (here && strcmp(here, first) != 0) {
                struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", hostname);
                snprintf(t->seen, sizeof t->seen, "%.60s on %.60s, %.60s on %.60s", first,
                         name_of(v, at), here, name_of(v, i));
                snprintf(t->expected, sizeof t->expected, "one address, or several of one node");
                mn_doctor_fix(t, "getent hosts %q   # on both", hostname);
                break;
            }
        }
    }
}

/* --- what stops packets ------------------------------------------------------------------------
 */

/* 1 when another node has a route over this one, or the mesh file says so. */
static int is_passed(const struct mn_doctor_verdict *v, size_t node)
{
    const struct mn_mesh *mesh = v->what->mesh;
    const cJSON *route;

    for (size_t i = 0; i < mesh->n_routes; i++)
        if (!strcmp(mesh->routes[i].via, mesh->nodes[node].name))
            return 1;
    for (size_t i = 0; i < NODES(v); i++)
        cJSON_ArrayForEach(route, mn_fact(mn_fact(mn_doctor_facts(v->what, i), "forwarding"),
                                          "routes")) if (i != node &&
                                                         owner(mesh, mn_fact_text(route, "via")) ==
                                                             (int)node) return 1;
    return 0;
}

static int has_routes(const struct mn_doctor_verdict *v, size_t node)
{
    return cJSON_GetArraySize(
               mn_fact(mn_fact(mn_doctor_facts(v->what, node), "forwarding"), "routes")) > 0;
}

/* Of the node's settings that are not as passing on wants them, those that stop packets, in one. */
static void check_sysctls(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                          size_t node, const char *of, int seen)
{
    struct mn_trouble *t = NULL;
    const cJSON *item;

    cJSON_ArrayForEach(item,
                       mn_fact(mn_fact(mn_doctor_facts(v->what, node), "forwarding"), "sysctls"))
    {
        const char *key = mn_fact_text(item, "key"), *slash = strrchr(key, '/');
        if (!slash || strcmp(slash + 1, of) != 0 || mn_fact_number(item, "seen", -1) != seen)
            continue;
        if (!t) {
            t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, node));
            snprintf(t->expected, sizeof t->expected, "%.0f: %.120s",
                     mn_fact_number(item, "wanted", 0), mn_fact_text(item, "why"));
            mn_doctor_fix(t, "meshnet topo apply%s%q, or on %s: sysctl -w", MN_DOCTOR_MESH(v),
                          name_of(v, node));
        }
        size_t used = strlen(t->seen);
        char before[sizeof t->fix], word[100], value[32];
        snprintf(t->seen + used, sizeof t->seen - used, "%s%.80s is %d", used ? ", " : "", key,
                 seen);
        snprintf(word, sizeof word, "%.80s", key);
        snprintf(value, sizeof value, "%.0f", mn_fact_number(item, "wanted", 0));
        mn_strlcpy(before, t->fix, sizeof before);
        if (*before)
            mn_doctor_fix(t, "%s %q=%s", before, word, value);
    }
}

void mn_doctor_forwarding(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++)
        if (is_passed(v, i))
            check_sysctls(v, rule, i, "forwarding", 0);
}

void mn_doctor_rp_filter(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++)
        if (is_passed(v, i) || has_routes(v, i))
            check_sysctls(v, rule, i, "rp_filter", 1);
}

/* The first that goes through the node and has this verdict; NULL: nothing has. */
static const cJSON *passing(const struct mn_doctor_verdict *v, size_t node, const char *verdict)
{
    const cJSON *drop;

    cJSON_ArrayForEach(drop,
                       mn_fact(mn_fact(mn_doctor_facts(v->what, node), "forwarding"), "drops"))
    {
        if (!strcmp(mn_fact_text(drop, "verdict"), verdict))
            return drop;
    }
    return NULL;
}

static void check_forward(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                          const char *verdict)
{
    for (size_t i = 0; i < NODES(v); i++) {
        const cJSON *drop = passing(v, i, verdict);
        /* Of what is dropped for sure one is enough. */
        if (!drop || !is_passed(v, i) || (*verdict == 'm' && passing(v, i, "drops")))
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        snprintf(t->seen, sizeof t->seen, "%.120s %s from %.15s to %.15s",
                 mn_fact_text(drop, "where"),
                 *verdict == 'd' ? "drops what goes" : "may drop what goes",
                 mn_fact_text(drop, "from"), mn_fact_text(drop, "to"));
        snprintf(t->expected, sizeof t->expected, "packets between the cables of %s pass",
                 name_of(v, i));
        mn_doctor_fix(t,
                      "meshnet topo apply%s%q --hosts %q   # it writes the rules, and sets them "
                      "again after Docker starts",
                      MN_DOCTOR_MESH(v), v->what->mesh->nodes[i].hostname);
    }
}

void mn_doctor_forward_drop(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    check_forward(v, rule, "drops");
}

void mn_doctor_forward_may(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    check_forward(v, rule, "may");
}

static void check_firewall(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                           size_t node, const char *verdict)
{
    const struct mn_mesh *mesh = v->what->mesh;
    const cJSON *drop;

    cJSON_ArrayForEach(drop, mn_fact(mn_fact(mn_doctor_facts(v->what, node), "firewall"), "drops"))
    {
        const char *netdev = mn_fact_text(drop, "netdev");
        if (strcmp(mn_fact_text(drop, "verdict"), verdict) != 0)
            continue;
        struct mn_trouble *t =
            mn_trouble_add(v->troubles, rule, "%s %.15s", name_of(v, node), netdev);
        snprintf(t->seen, sizeof t->seen, "%.120s: %.60s", mn_fact_text(drop, "where"),
                 mn_fact_text(drop, "packet"));
        snprintf(t->expected, sizeof t->expected, "what comes in by %.15s is accepted", netdev);
        snprintf(t->fix, sizeof t->fix,
                 "on %s: a rule that accepts iifname %.15s before it; nft -a list ruleset shows "
                 "them",
                 name_of(v, node), netdev);
        for (size_t i = 0; *verdict == 'd' && i < mesh->n_links; i++)
            for (int e = 0; e < 2; e++) {
                const struct mn_mesh_end end = mesh->links[i].ends[e];
                if (end.node == (int)node &&
                    !strcmp(mn_fact_text(mn_doctor_end(v->what, end), "netdev"), netdev))
                    v->blamed[i] = 1;
            }
    }
}

void mn_doctor_firewall(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++)
        check_firewall(v, rule, i, "drops");
}

/* What was written over its cables passed. */
static int all_written(const struct mn_doctor_verdict *v, size_t node)
{
    const struct mn_mesh *mesh = v->what->mesh;

    for (size_t i = 0; i < mesh->n_links; i++)
        if ((mesh->links[i].ends[0].node == (int)node ||
             mesh->links[i].ends[1].node == (int)node) &&
            (!v->what->writes || v->what->writes[i].state != MN_WRITE_OK))
            return 0;
    return 1;
}

void mn_doctor_firewall_may(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++)
        if (!all_written(v, i))
            check_firewall(v, rule, i, "may");
}

/* --- limits ------------------------------------------------------------------------------------
 */

#define MEMLOCK_KIB (1024.0 * 1024) /* 1 GiB, as of a host by itself */

static int has_rdma(const cJSON *facts)
{
    const cJSON *nic;

    cJSON_ArrayForEach(nic, mn_fact(facts, "nics")) if (*mn_fact_text(nic, "device")) return 1;
    return 0;
}

void mn_doctor_memlock_files(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        const cJSON *facts = mn_doctor_facts(v->what, i), *line;
        cJSON_ArrayForEach(line, mn_fact(mn_fact(facts, "limits"), "files"))
        {
            double value = mn_fact_number(line, "value", -1);
            if (value < 0 || value >= MEMLOCK_KIB || !has_rdma(facts) ||
                !mn_fact_true(line, "counts", 1))
                continue;
            struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
            snprintf(t->seen, sizeof t->seen, "%.150s:%.0f: memlock %.0f KiB for %.40s",
                     mn_fact_text(line, "file"), mn_fact_number(line, "line", 0), value,
                     mn_fact_text(line, "who"));
            snprintf(t->expected, sizeof t->expected, "unlimited, or 1G at the very least");
            snprintf(t->fix, sizeof t->fix, "on %s make it unlimited in %.150s, line %.0f",
                     name_of(v, i), mn_fact_text(line, "file"), mn_fact_number(line, "line", 0));
        }
    }
}

/* --- changes under way -------------------------------------------------------------------------
 */

void mn_doctor_apply(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < NODES(v); i++) {
        const cJSON *apply = mn_fact(mn_doctor_facts(v->what, i), "apply");
        const char *stands = mn_fact_text(apply, "stands");
        if (!*stands)
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", name_of(v, i));
        snprintf(t->seen, sizeof t->seen, "%s: %.200s",
                 !strcmp(stands, "orphan") ? "left behind" : "being tried",
                 mn_fact_text(apply, "by"));
        snprintf(t->expected, sizeof t->expected, "confirmed, or undone");
        mn_doctor_fix(t, "meshnet topo apply%s%q --hosts %q   # once more", MN_DOCTOR_MESH(v),
                      v->what->mesh->nodes[i].hostname);
    }
}
