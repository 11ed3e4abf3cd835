#include "cli/verify_baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define MAX_BYTES (1u << 20)

static const struct mn_check_rule *find_rule(const char *id)
{
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++)
            if (strcmp(mn_check_families[f]->rules[r].id, id) == 0)
                return &mn_check_families[f]->rules[r];
    return NULL;
}

/* "RULE vN" or "RULE vN two"; what follows a # is for people. */
static enum mn_err read_line(struct mn_verify_baseline *baseline, const char *line, unsigned number,
                             struct mn_diag *diag)
{
    char id[64] = "", version[16] = "", two[8] = "", more[2] = "", text[128];
    int n, fields;

    snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "#\r"), line);
    fields = sscanf(text, " %63s %15s %7s %1s", id, version, two, more);
    if (fields <= 0)
        return MN_OK;
    n = version[0] == 'v' ? atoi(version + 1) : 0;
    if (fields < 2 || fields > 3 || n < 2 || n > 99 || (two[0] && strcmp(two, "two") != 0))
        return mn_fail(diag, MN_ERR_USAGE,
                       "%s:%u: \"%.80s\": expected a rule and a version, as in "
                       "\"transfer.sizes v12\"; --write-baseline writes them",
                       baseline->path, number, text);
    if (!find_rule(id))
        return mn_fail(diag, MN_ERR_USAGE, "%s:%u: there is no rule \"%s\"; --list shows them",
                       baseline->path, number, id);
    struct mn_verify_known *known = mn_grow((void **)&baseline->known, &baseline->n, sizeof *known);
    *known = (struct mn_verify_known){find_rule(id), n, two[0] != '\0', number};
    return MN_OK;
}

enum mn_err mn_verify_baseline_read(const char *path, struct mn_verify_baseline *baseline,
                                    struct mn_diag *diag)
{
    char *text, *rest, *line;
    unsigned number = 0;
    enum mn_err err;

    *baseline = (struct mn_verify_baseline){.path = path};
    err = mn_file_read(path, MAX_BYTES, &text, NULL, diag);
    if (err)
        return err;
    for (rest = text; !err && (line = strsep(&rest, "\n"));)
        err = read_line(baseline, line, ++number, diag);
    free(text);
    if (err)
        mn_verify_baseline_free(baseline);
    return err;
}

void mn_verify_baseline_free(struct mn_verify_baseline *baseline)
{
    free(baseline->known);
    baseline->known = NULL;
    baseline->n = 0;
}

const struct mn_verify_known *mn_verify_known(const struct mn_verify_baseline *baseline,
                                              const struct mn_check_job *job)
{
    for (size_t i = 0; baseline && i < baseline->n; i++) {
        const struct mn_verify_known *known = &baseline->known[i];
        if (known->rule == job->rule && known->version == job->version && known->two == job->two)
            return known;
    }
    return NULL;
}

enum mn_err mn_verify_baseline_write(const char *path, const struct mn_check_job *jobs, size_t n,
                                     int (*fails)(void *ctx, const struct mn_check_job *job),
                                     void *ctx, struct mn_diag *diag)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    enum mn_err err;

    if (!file)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for %s", path);
    fprintf(file, "# Known failures, for meshnet verify-plugin --baseline.\n");
    for (size_t i = 0; i < n; i++)
        if (jobs[i].version && fails(ctx, &jobs[i]))
            fprintf(file, "%s v%d%s # %.160s\n", jobs[i].rule->id, jobs[i].version,
                    jobs[i].two ? " two" : "", jobs[i].result.seen);
    if (fclose(file))
        err = mn_fail_errno(diag, "%s", path);
    else
        err = mn_file_write(path, text, size, 1, diag);
    free(text);
    return err;
}
