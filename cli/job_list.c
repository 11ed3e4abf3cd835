/* Lists of hosts, as launchers and schedulers have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/host_name.h"
#include "cli/job_order_impl.h"
#include "topo/base/alloc.h"

#define FILE_MAX 1048576 /* bytes of a list of hosts */

/* "spark-a:8" without the slots, in place. */
static void cut_slots(char *name)
{
    char *colon = strchr(name, ':');

    if (colon && strspn(colon + 1, "0123456789") == strlen(colon + 1))
        *colon = 0;
}

static int node_called(const struct mn_mesh *mesh, int self, const char *word)
{
    char name[256];

    if (!mn_strlcpy(name, word, sizeof name))
        return -1;
    cut_slots(name);
    return mn_names_find(mesh, self, name);
}

/* 0: it is no node, and so all of it is no order that can be judged. */
static int add(const struct mn_mesh *mesh, int self, const char *name, struct mn_job_order *order)
{
    int node = node_called(mesh, self, name);

    if (node < 0) {
        if (!*order->stranger)
            mn_strlcpy(order->stranger, name, sizeof order->stranger);
        cut_slots(order->stranger);
        return 0;
    }
    for (int i = 0; i < order->n; i++)
        if (order->nodes[i] == node)
            return 1;
    if (!order->nodes)
        order->nodes = mn_zalloc((mesh->n_nodes + 1) * sizeof *order->nodes);
    order->nodes[order->n++] = node;
    return 1;
}

static int add_list(const struct mn_mesh *mesh, int self, const char *list,
                    struct mn_job_order *order)
{
    char *copy = mn_strdup(list), *rest = copy, *item;
    int known = 1;

    while (known && (item = strsep(&rest, ",")) != NULL)
        known = !*item || add(mesh, self, item, order);
    free(copy);
    return known;
}

static int by_name(const void *x, const void *y)
{
    return strverscmp(*(char *const *)x, *(char *const *)y);
}

static int add_slurm(const struct mn_mesh *mesh, int self, const char *list, int sort,
                     struct mn_job_order *order)
{
    char **names = NULL;
    size_t n = 0;
    int known = 1;

    mn_slurm_hosts(list, &names, &n);
    if (n && sort)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        known = known && add(mesh, self, names[i], order);
        free(names[i]);
    }
    free(names);
    return known;
}

/* "rank 3=spark-b slot=0": its host at its rank. */
static void note_rank(char *line, char **hosts, size_t max)
{
    char *at = line + strspn(line, " \t"), *end;

    if (strncmp(at, "rank", 4) != 0)
        return;
    unsigned long rank = strtoul(at + 4, &end, 10);
    end += strspn(end, " \t");
    if (*end != '=' || rank >= max || hosts[rank])
        return;
    end += 1 + strspn(end + 1, " \t");
    end[strcspn(end, " \t")] = 0;
    hosts[rank] = end;
}

static int add_file(const struct mn_mesh *mesh, int self, const char *path, enum mn_job_list kind,
                    struct mn_job_order *order)
{
    char *ranks[8192] = {NULL}, *text, *rest, *line;
    struct stat st;
    size_t len;
    int known = 1;

    /* What comes through a pipe is the launcher's to read. */
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    if (mn_file_read(path, FILE_MAX, &text, &len, NULL))
        return 0;
    for (rest = text; (line = strsep(&rest, "\n")) != NULL;) {
        line[strcspn(line, "#\r")] = 0;
        if (kind == RANKFILE) {
            note_rank(line, ranks, sizeof ranks / sizeof *ranks);
            continue;
        }
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = 0;
        known = known && (!*line || add(mesh, self, line, order));
    }
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        known = known && (!ranks[i] || add(mesh, self, ranks[i], order));
    free(text);
    mn_strlcpy(order->file, path, sizeof order->file);
    return known;
}

int mn_job_list_add(const struct mn_mesh *mesh, int self, enum mn_job_list kind, const char *value,
                    int keeps, struct mn_job_order *order)
{
    return kind == HOSTS   ? add_list(mesh, self, value, order)
           : kind == SLURM ? add_slurm(mesh, self, value, !keeps, order)
                           : add_file(mesh, self, value, kind, order);
}

int mn_job_order_same(const struct mn_mesh *mesh, int self, const char *list, const int *nodes,
                      int n)
{
    char *copy = mn_strdup(list), *rest = copy, *item, *seen = mn_zalloc((size_t)n + 1);
    int count = 0, same = 1;

    while (same && (item = strsep(&rest, ",")) != NULL) {
        int node, at = 0;
        if (!*item)
            continue;
        node = node_called(mesh, self, item);
        while (at < n && nodes[at] != node)
            at++;
        same = at < n && !seen[at];
        seen[at] = 1;
        count++;
    }
    free(copy);
    free(seen);
    return same && count == n;
}

char *mn_job_order_word(const struct mn_mesh *mesh, int self, const char *word, size_t prefix,
                        const int *nodes, int n)
{
    char *text = mn_zalloc(strlen(word) + 2), *copy, *rest, *item;

    memcpy(text, word, prefix);
    for (int i = 0; i < n; i++) {
        copy = rest = mn_strdup(word + prefix);
        while ((item = strsep(&rest, ",")) != NULL) {
            if (!*item || node_called(mesh, self, item) != nodes[i])
                continue;
            if (strlen(text) > prefix)
                strcat(text, ",");
            strcat(text, item);
        }
        free(copy);
    }
    return text;
}
