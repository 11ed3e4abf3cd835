/* Every mesh of tests/fixtures/survey: its shape, its links and what is wrong with it, as the file
 * beside it says. MESHNET_RENEW=1 writes these files anew: read what changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/whole.h"

#define FIXTURES SOURCE_DIR "/tests/fixtures/survey/"
#define PAGE     SOURCE_DIR "/docs/man/meshnet-discover.1"

static size_t fired[64]; /* by rule */

static char *text_of_file(const char *path)
{
    struct mn_diag diag = {.text = ""};
    char *text;

    if (mn_file_read(path, 1 << 22, &text, NULL, &diag))
        fail_msg("%s", diag.text);
    return text;
}

static void survey_read(const char *path, struct mn_survey *survey)
{
    char *text = text_of_file(path);
    cJSON *json = cJSON_Parse(text);
    struct mn_diag diag = {.text = ""};

    if (mn_survey_parse(json, survey, &diag))
        fail_msg("%s: %s", path, diag.text);
    cJSON_Delete(json);
    free(text);
}

/* The mesh file's, when the fixture has one; else it stays empty and 0 is returned. */
static int file_read(const char *path, struct mn_mesh *file)
{
    char name[512], other[1024];
    struct mn_survey survey;
    struct mn_diag diag = {.text = ""};

    snprintf(name, sizeof name, "%.*s.file", (int)(strlen(path) - strlen(".json")), path);
    FILE *in = fopen(name, "r");
    if (!in)
        return 0;
    assert_int_equal(fscanf(in, "%500s", name), 1);
    fclose(in);
    snprintf(other, sizeof other, FIXTURES "%s.json", name);
    survey_read(other, &survey);
    if (mn_survey_mesh(&survey, NULL, file, &diag))
        fail_msg("%s: %s", other, diag.text);
    mn_survey_free(&survey);
    return 1;
}

/* What was made can be written, read, and makes the same links by its addresses, if in another
 * order: bare ones come last. */
static void comes_back(const char *path, const struct mn_mesh *mesh)
{
    struct mn_mesh again;
    struct mn_diag diag = {.text = ""};
    char *text;

    mn_mesh_init(&again);
    if (mn_mesh_format_yaml(mesh, &text, &diag) ||
        mn_mesh_parse(path, text, strlen(text), &again, &diag) || mn_mesh_link_up(&again, &diag))
        fail_msg("%s: %s", path, diag.text);
    assert_int_equal(again.n_links, mesh->n_links);
    for (size_t i = 0; i < mesh->n_links; i++) {
        size_t k = 0;

        while (k < again.n_links && strcmp(again.links[k].name, mesh->links[i].name) != 0)
            k++;
        assert_true(k < again.n_links);
        assert_memory_equal(again.links[k].ends, mesh->links[i].ends, sizeof mesh->links[i].ends);
        assert_int_equal(again.links[k].subnet.family, mesh->links[i].subnet.family);
        assert_memory_equal(again.links[k].subnet.bytes, mesh->links[i].subnet.bytes, 16);
    }
    free(text);
    mn_mesh_free(&again);
}

__attribute__((format(printf, 2, 3))) static void say(char **text, const char *fmt, ...)
{
    char line[2048];
    va_list args;
    char *more;

    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    more = mn_asprintf("%s%s\n", *text ? *text : "", line);
    free(*text);
    *text = more;
}

static char *verdict(const char *path)
{
    struct mn_survey survey;
    struct mn_mesh mesh, file;
    struct mn_troubles found = {.count = 0};
    struct mn_diag diag = {.text = ""};
    size_t bare = 0;
    char *text = NULL;
    int has_file = file_read(path, &file);

    survey_read(path, &survey);
    if (mn_survey_mesh(&survey, has_file ? &file : NULL, &mesh, &diag))
        fail_msg("%s: %s", path, diag.text);
    comes_back(path, &mesh);
    mn_whole_check(&survey, &mesh, has_file ? &file : NULL, &found);
    for (size_t i = 0; i < mesh.n_links; i++)
        bare += (size_t)mn_link_is_bare(&mesh.links[i]);
    say(&text, "%s", mn_survey_shape(&survey));
    say(&text, "%zu links, %zu bare", mesh.n_links, bare);
    for (size_t i = 0; i < found.count; i++) {
        const struct mn_trouble *t = &found.items[i];

        assert_true(t->where[0] && t->seen[0] && t->expected[0] && t->fix[0]);
        assert_true(i == 0 || t->rule->severity <= t[-1].rule->severity);
        say(&text, "%s: %s: %s\n  seen      %s\n  expected  %s\n  fix       %s",
            mn_severity_name(t->rule->severity), t->rule->id, t->where, t->seen, t->expected,
            t->fix);
        for (size_t r = 0; r < mn_whole_rule_count; r++)
            fired[r] += t->rule == &mn_whole_rules[r].rule;
    }
    mn_troubles_free(&found);
    mn_mesh_free(&mesh);
    if (has_file)
        mn_mesh_free(&file);
    mn_survey_free(&survey);
    return text;
}

static void every_mesh_has_its_verdict(void **state)
{
    glob_t found;
    size_t wrong = 0;

    (void)state;
    assert_int_equal(glob(FIXTURES "*.json", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 60);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        char expect[512], *said = verdict(path);
        struct mn_diag diag = {.text = ""};

        snprintf(expect, sizeof expect, "%.*s.expect", (int)(strlen(path) - strlen(".json")), path);
        if (getenv("MESHNET_RENEW") && mn_file_write(expect, said, strlen(said), 1, &diag) != MN_OK)
            fail_msg("%s", diag.text);
        char *expected = text_of_file(expect);
        if (strcmp(expected, said) != 0) {
            print_error("%s\n--- says\n%s--- expected\n%s", path, said, expected);
            wrong++;
        }
        free(expected);
        free(said);
    }
    globfree(&found);
    assert_int_equal(wrong, 0);
}

static void every_rule_was_seen_to_fire(void **state)
{
    (void)state;
    assert_true(mn_whole_rule_count <= sizeof fired / sizeof *fired);
    for (size_t i = 0; i < mn_whole_rule_count; i++)
        if (!fired[i])
            fail_msg("no fixture for %s", mn_whole_rules[i].rule.id);
}

/* The table of the manual has every id with its severity, in the same order. */
static void the_manual_has_every_rule(void **state)
{
    char *page = text_of_file(PAGE);
    const char *at = strstr(page, ".SH FINDINGS ABOUT THE WHOLE");

    (void)state;
    assert_non_null(at);
    for (size_t i = 0; i < mn_whole_rule_count; i++) {
        const struct mn_trouble_rule *rule = &mn_whole_rules[i].rule;
        char row[128];
        size_t len = 0;

        row[len++] = '\n';
        for (const char *c = rule->id; *c; c++) {
            if (*c == '-')
                row[len++] = '\\';
            row[len++] = *c;
        }
        snprintf(row + len, sizeof row - len, "|%s|", mn_severity_name(rule->severity));
        const char *found = strstr(at, row);
        if (!found)
            fail_msg("no row \"%s\" in its place", row + 1);
        at = found;
        assert_true(rule->title[0] && rule->advice[0]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rule->id, mn_whole_rules[k].rule.id);
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_has_its_verdict),
        cmocka_unit_test(every_rule_was_seen_to_fire),
        cmocka_unit_test(the_manual_has_every_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
