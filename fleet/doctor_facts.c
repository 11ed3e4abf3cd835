/* What nodes said, read as a stranger's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fleet/doctor_judge.h"
#include "topo/base/alloc.h"
#include "topo/base/shell.h"

const cJSON *mn_fact(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *mn_fact_text(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(mn_fact(object, key));

    return text ? text : "";
}

double mn_fact_number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = mn_fact(object, key);

    return cJSON_IsNumber(item) && item->valuedouble >= -1e18 && item->valuedouble <= 1e18
               ? item->valuedouble
               : otherwise;
}

int mn_fact_true(const cJSON *object, const char *key, int otherwise)
{
    const cJSON *item = mn_fact(object, key);

    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

const cJSON *mn_doctor_facts(const struct mn_doctor_case *what, size_t node)
{
    const cJSON *facts = what->nodes[node].facts;

    return facts && !strcmp(mn_fact_text(facts, "node"), what->mesh->nodes[node].name) ? facts
                                                                                       : NULL;
}

void mn_doctor_fix(struct mn_trouble *t, const char *format, ...)
{
    size_t used = 0, size = sizeof t->fix;
    char word[sizeof t->fix] = "";
    va_list args;
    int fits = 1;

    va_start(args, format);
    for (const char *at = format; *at && fits; at++) {
        if (*at != '%') {
            fits = used + 1 < size;
            if (fits)
                t->fix[used++] = *at;
            continue;
        }
        const char *text = va_arg(args, const char *);
        fits = !text || !strpbrk(text, "\r\n"); /* it would end a comment */
        if (*++at == 'q' && text) {
            fits = fits && *text != '-' && mn_shell_word(text, word, sizeof word);
            text = word;
        }
        size_t length = text ? strlen(text) : 0;
        fits = fits && used + length < size;
        if (fits && length)
            memcpy(t->fix + used, text, length);
        used += fits ? length : 0;
    }
    va_end(args);
    t->fix[fits ? used : 0] = '\0';
}

char *mn_doctor_nic_name(const struct mn_mesh_nic *nic, char *buf, size_t size)
{
    if (!strcmp(nic->name, nic->netdev))
        mn_strlcpy(buf, nic->netdev, size);
    else
        snprintf(buf, size, "%.60s (%s)", nic->name, nic->netdev);
    return buf;
}

char *mn_doctor_cable(const struct mn_mesh *mesh, const struct mn_mesh_link *link, char *buf,
                      size_t size)
{
    size_t used = 0;

    for (int e = 0; e < 2 && used < size; e++) {
        const struct mn_mesh_node *node = &mesh->nodes[link->ends[e].node];
        char name[96];
        mn_doctor_nic_name(&node->nics[link->ends[e].nic], name, sizeof name);
        used +=
            (size_t)snprintf(buf + used, size - used, "%s%s %s", e ? " - " : "", node->name, name);
    }
    return buf;
}

const cJSON *mn_doctor_end(const struct mn_doctor_case *what, struct mn_mesh_end end)
{
    const char *name = what->mesh->nodes[end.node].nics[end.nic].name;
    const cJSON *nic;

    cJSON_ArrayForEach(nic,
                       mn_fact(mn_doctor_facts(what, (size_t)end.node),
                               "nics")) if (!strcmp(mn_fact_text(nic, "nic"), name)) return nic;
    return NULL;
}

static int is_of_nic(const char *text, const struct mn_mesh_nic *nic)
{
    struct mn_addr addr;

    if (mn_addr_parse(text, &addr, NULL))
        return 0;
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], &addr))
            return 1;
    return 0;
}

int mn_doctor_probe(const struct mn_doctor_case *what, const struct mn_mesh_link *link, int end)
{
    const struct mn_mesh_end *far = &link->ends[!end];
    const struct mn_mesh_nic *to = &what->mesh->nodes[far->node].nics[far->nic];
    const cJSON *nic = mn_doctor_end(what, link->ends[end]), *probe;

    cJSON_ArrayForEach(probe,
                       mn_fact(mn_doctor_facts(what, (size_t)link->ends[end].node), "probes"))
    {
        if (strcmp(mn_fact_text(probe, "netdev"), mn_fact_text(nic, "netdev")) != 0 ||
            !is_of_nic(mn_fact_text(probe, "to"), to))
            continue;
        return mn_fact_number(probe, "answered", 0) > 0 ? 2
               : mn_fact_number(probe, "small", 0) > 0  ? 1
               : mn_fact_number(probe, "sent", 0) > 0   ? 0
                                                        : -1;
    }
    return -1;
}

void mn_doctor_blame_node(struct mn_doctor_verdict *v, size_t node)
{
    for (size_t i = 0; i < v->what->mesh->n_links; i++)
        for (int e = 0; e < 2; e++)
            if (v->what->mesh->links[i].ends[e].node == (int)node)
                v->blamed[i] = 1;
}

/* How many have that value. */
static size_t votes(const struct mn_doctor_case *what, const char *(*value)(const cJSON *facts),
                    const char *of)
{
    size_t n = 0;

    for (size_t i = 0; i < what->mesh->n_nodes; i++)
        n += what->nodes[i].facts && !strcmp(value(what->nodes[i].facts), of);
    return n;
}

void mn_doctor_unlike(struct mn_doctor_verdict *v, const struct mn_trouble_rule *rule,
                      const char *(*value)(const cJSON *facts), const char *title, const char *fix)
{
    const struct mn_doctor_case *what = v->what;
    const char *most = "", *one;
    size_t best = 0, n;

    for (size_t i = 0; i < what->mesh->n_nodes; i++) {
        one = what->nodes[i].facts ? value(what->nodes[i].facts) : "";
        n = *one ? votes(what, value, one) : 0;
        if (n > best) {
            best = n;
            most = one;
        }
    }
    for (size_t i = 0; i < what->mesh->n_nodes; i++) {
        one = what->nodes[i].facts ? value(what->nodes[i].facts) : "";
        if (!*one || !strcmp(one, most))
            continue;
        struct mn_trouble *t = mn_trouble_add(v->troubles, rule, "%s", what->mesh->nodes[i].name);
        snprintf(t->seen, sizeof t->seen, "%s %.180s", title, one);
        snprintf(t->expected, sizeof t->expected, "%s %.100s, as on %zu other%s", title, most, best,
                 best == 1 ? "" : "s");
        mn_strlcpy(t->fix, fix, sizeof t->fix);
    }
}
