/* The relays of a mesh that has nodes without a common cable. */
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_ask.h"
#include "fleet/doctor_judge.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"

#define STUCK_MS 5000

/* Without the key none can run, which is no fault: what it would be of use for is said with the
 * pairs. */
static int is_wanted(const struct mn_doctor_verdict *v)
{
    return mn_doctor_wants_relay(v->what->mesh) && mn_reach_relays(&v->what->mesh->settings);
}

/* Of a node whose relayd answers; NULL: it does not. */
static const cJSON *relay_of(const struct mn_doctor_verdict *v, size_t node)
{
    const cJSON *relay = mn_fact(mn_doctor_facts(v->what, node), "relay");

    return is_wanted(v) && relay && !mn_fact(relay, "error") ? relay : NULL;
}

static struct mn_trouble *add(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                              size_t node)
{
    return mn_trouble_add(v->troubles, rule, "%s", v->what->mesh->nodes[node].name);
}

static void restart(struct mn_doctor_verdict *v, size_t node, struct mn_trouble *t)
{
    mn_doctor_fix(t, "systemctl restart meshnet-relayd   # on %s", v->what->mesh->nodes[node].name);
}

void mn_doctor_relay_down(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; is_wanted(v) && i < v->what->mesh->n_nodes; i++) {
        const char *error = mn_fact_text(mn_fact(mn_doctor_facts(v->what, i), "relay"), "error");
        if (!*error)
            continue;
        struct mn_trouble *t = add(v, rule, i);
        mn_strlcpy_words(t->seen, error, sizeof t->seen);
        snprintf(t->expected, sizeof t->expected, "meshnet relayd answers");
        mn_doctor_fix(t, "systemctl enable --now meshnet-relayd   # on %s",
                      v->what->mesh->nodes[i].name);
    }
}

void mn_doctor_relay_mesh(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        const char *has = mn_fact_text(relay_of(v, i), "mesh");
        struct mn_mesh_digest digest;
        char own[32];

        if (!*has || !mn_same_mesh_get(mn_doctor_facts(v->what, i), &digest))
            continue;
        snprintf(own, sizeof own, "%016llx", (unsigned long long)digest.hash);
        if (!strcmp(has, own))
            continue;
        struct mn_trouble *t = add(v, rule, i);
        snprintf(t->seen, sizeof t->seen, "relayd has read %.40s", has);
        snprintf(t->expected, sizeof t->expected, "%s, as the file is now", own);
        restart(v, i, t);
    }
}

void mn_doctor_relay_version(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        const char *runs = mn_fact_text(relay_of(v, i), "version"),
                   *is = mn_fact_text(mn_fact(mn_doctor_facts(v->what, i), "versions"), "meshnet");
        if (!*runs || !*is || !strcmp(runs, is))
            continue;
        struct mn_trouble *t = add(v, rule, i);
        snprintf(t->seen, sizeof t->seen, "relayd of meshnet %.60s runs", runs);
        snprintf(t->expected, sizeof t->expected, "meshnet %.60s, as it is installed", is);
        restart(v, i, t);
    }
}

static const char *key_of(const struct mn_doctor_verdict *v, size_t node)
{
    return mn_fact_text(relay_of(v, node), "key");
}

/* What most keys make of the random number that all were asked with, the first where none leads; of
 * how many that answered. NULL: none did. */
static const char *most_keys(const struct mn_doctor_verdict *v, size_t *of)
{
    const char *most = NULL;
    size_t best = 0, n = v->what->mesh->n_nodes;

    *of = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0;
        const char *key = key_of(v, i);
        *of += *key != '\0';
        for (size_t k = 0; k < n && *key; k++)
            same += !strcmp(key_of(v, k), key);
        if (same > best) {
            best = same;
            most = key;
        }
    }
    return most;
}

void mn_doctor_relay_key(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    size_t of;
    const char *most = most_keys(v, &of);

    for (size_t i = 0; most && i < v->what->mesh->n_nodes; i++) {
        if (!*key_of(v, i) || !strcmp(key_of(v, i), most))
            continue;
        struct mn_trouble *t = add(v, rule, i);
        snprintf(t->seen, sizeof t->seen, "its key is not that of most of the %zu that answer", of);
        snprintf(t->expected, sizeof t->expected, "the same key on all nodes");
        snprintf(t->fix, sizeof t->fix,
                 "copy the key file (%.200s) of another node there, then systemctl restart "
                 "meshnet-relayd",
                 v->what->mesh->settings.key_file);
    }
}

void mn_doctor_relay_stuck(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        const cJSON *relay = relay_of(v, i);
        double ms = mn_fact_number(relay, "oldest_ms", 0);
        if (!(ms >= STUCK_MS))
            continue;
        struct mn_trouble *t = add(v, rule, i);
        snprintf(t->seen, sizeof t->seen,
                 "%.0f pieces of %.0f flows wait in it, the oldest for %.0f s",
                 mn_fact_number(relay, "waiting", 0), mn_fact_number(relay, "flows", 0), ms / 1000);
        snprintf(t->expected, sizeof t->expected, "none waits for %d s", STUCK_MS / 1000);
        mn_doctor_fix(t, "meshnet relayd --status   # on %s: whose receiver does not read",
                      v->what->mesh->nodes[i].name);
    }
}

static int has_rdma(const struct mn_doctor_verdict *v, size_t node)
{
    const cJSON *nic;

    cJSON_ArrayForEach(nic, mn_fact(mn_doctor_facts(v->what, node),
                                    "nics")) if (*mn_fact_text(nic, "device")) return 1;
    return 0;
}

void mn_doctor_relay_memlock(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule)
{
    for (size_t i = 0; i < v->what->mesh->n_nodes; i++) {
        const cJSON *relay = relay_of(v, i);
        double may = mn_fact_number(relay, "memlock", -1),
               buffers = mn_fact_number(relay, "buffers", 0);
        char has[32], wants[32];

        if (may < 0 || may >= 2 * buffers || buffers > 1e15 || !has_rdma(v, i))
            continue;
        struct mn_trouble *t = add(v, rule, i);
        snprintf(t->seen, sizeof t->seen, "relayd may lock %s",
                 mn_format_size((unsigned long long)may, has, sizeof has));
        snprintf(t->expected, sizeof t->expected, "its buffers, %s, twice",
                 mn_format_size((unsigned long long)buffers, wants, sizeof wants));
        mn_doctor_fix(t, "systemctl edit meshnet-relayd   # on %s: [Service] LimitMEMLOCK=infinity",
                      v->what->mesh->nodes[i].name);
    }
}
