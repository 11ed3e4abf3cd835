/* Digests of mesh files: equal for what means the same, and what differs is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_digest.h"
#include "topo/mesh_file.h"

#define GOOD SOURCE_DIR "/tests/fixtures/mesh/good"

static const char base[] = "version: 1\n"
                           "nodes:\n"
                           "  - {name: a, nics: [{netdev: e0, addresses: [10.0.1.1/24]}]}\n"
                           "  - {name: b, nics: [{netdev: e0, addresses: [10.0.1.2/24]}]}\n"
                           "transport: {silence: 30s}\n";

static struct mn_mesh_own own_of(const char *text)
{
    struct mn_mesh_own own;
    struct mn_mesh mesh;
    struct mn_diag diag = {.text = ""};

    mn_mesh_init(&mesh);
    if (mn_mesh_parse("m.yaml", text, strlen(text), &mesh, &diag))
        fail_msg("%s", diag.text);
    mn_mesh_digest(&mesh, "m.yaml", &own);
    mn_mesh_free(&mesh);
    return own;
}

/* What a node with base says of a peer with that text; NULL: no file. */
static char *said_of(const char *theirs)
{
    static char text[1024];
    struct mn_mesh_own mine = own_of(base), other = {.digest.hash = 0};

    if (theirs)
        other = own_of(theirs);
    (void)mn_mesh_differs(&mine, &other.digest, "b", text, sizeof text);
    return text;
}

static void what_means_the_same_is_the_same(void **state)
{
    (void)state;
    assert_string_equal(said_of(base), "");
    assert_string_equal(
        said_of("# of another day\n"
                "transport:\n  silence: 30s   # seconds\n"
                "  allow_tcp: auto\n"
                "nodes:\n"
                "  - {nics: [{addresses: [10.0.1.2/24], role: cable, netdev: e0}], name: b}\n"
                "  - {name: a, nics: [{netdev: e0, addresses: [10.0.1.1/24]}]}\n"
                "links: [{ends: [b/e0, a/e0], name: a-b}]\n"
                "version: 1\n"),
        "");
}

static void what_differs_is_named(void **state)
{
    static const struct {
        const char *from, *to, *said;
    } rows[] = {
        {"30s", "31s", "; different: transport.silence; put"},
        {"10.0.1.2/24", "10.0.1.3/24", "; different: node b; put"},
        {"[10.0.1.2/24]", "[10.0.1.2/24], role: management", "different: node b"},
        {"name: b", "name: c",
         "; only here: node b, link a-b; only there: 2 of nodes, links and settings; put"},
        {"transport: {silence: 30s}", "plugin: {port_range: 1000-2000}",
         "; different: transport.silence, plugin.port_range; put"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *at = strstr(base, rows[i].from);
        char *text =
            mn_asprintf("%.*s%s%s", (int)(at - base), base, rows[i].to, at + strlen(rows[i].from));
        const char *said = said_of(text);
        if (!strstr(said, rows[i].said) || !strstr(said, "b goes by another mesh file (hash "))
            fail_msg("%s: %s", rows[i].to, said);
        free(text);
    }
}

static void no_file_is_another_one(void **state)
{
    struct mn_mesh_own none = {.digest.hash = 0}, own = own_of(base);
    char text[1024], hash[32];

    (void)state;
    snprintf(hash, sizeof hash, "(hash %016llx)", (unsigned long long)own.digest.hash);
    assert_non_null(strstr(said_of(NULL), "b goes by no mesh file and this host by m.yaml (hash "));
    assert_non_null(strstr(said_of(NULL), hash));
    assert_true(mn_mesh_differs(&none, &own.digest, "b", text, sizeof text));
    assert_non_null(strstr(text, "b goes by a mesh file (hash "));
    assert_non_null(strstr(text, hash));
    assert_false(mn_mesh_differs(&none, &none.digest, "b", text, sizeof text));
}

static void a_mesh_with_many_nodes_has_one_item_for_them(void **state)
{
    char *text = NULL, said[1024];
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    fprintf(out, "version: 1\nnodes:\n");
    for (int i = 0; i < 4096; i++)
        fprintf(out, "  - {name: n%04d, nics: [{netdev: e0, addresses: [10.0.%d.%d/31]}]}\n", i,
                i / 256, i % 256);
    fclose(out);
    struct mn_mesh_own own = own_of(text);
    assert_in_range(own.digest.n_items, 3, MN_DIGEST_ITEMS);
    assert_string_equal(own.names[own.digest.n_items - 2], "nodes");
    assert_string_equal(own.names[own.digest.n_items - 1], "links");
    memcpy(strstr(text, "netdev: e0, addresses: [10.0.7.9/31]"), "netdev: e1", 10);
    struct mn_mesh_own other = own_of(text);
    free(text);
    assert_true(mn_mesh_differs(&own, &other.digest, "b", said, sizeof said));
    assert_non_null(strstr(said, "; different: nodes, links; put"));
}

static void a_mesh_with_many_links_has_one_item_for_them(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    fprintf(out, "version: 1\nnodes:\n");
    for (int i = 0; i < 20; i++) {
        fprintf(out, "  - name: n%d\n    nics:\n", i);
        for (int j = 0; j < 20; j++)
            if (i != j)
                fprintf(out, "      - {netdev: e%d, addresses: [10.%d.%d.%d/31]}\n", j,
                        i < j ? i : j, i < j ? j : i, i > j);
    }
    fclose(out);
    struct mn_mesh_own own = own_of(text);
    char *at = strstr(text, "10.3.7.1/31"); /* the other end of the /31 stays */
    assert_non_null(at);
    assert_in_range(own.digest.n_items, 21, MN_DIGEST_ITEMS);
    assert_string_equal(own.names[own.digest.n_items - 1], "links");
    free(text);
}

/* Walks a tree and changes one leaf after the other: what then is another mesh has another hash.
 * The number of meshes it saw. */
static int change_leaves(cJSON *root, cJSON *item, uint64_t hash, const char *canonical)
{
    int seen = 0;

    if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
        for (cJSON *child = item->child; child; child = child->next)
            seen += change_leaves(root, child, hash, canonical);
        return seen;
    }
    static const char *const texts[] =
        {"zz",     "10.0.1.9/24", "10.0.1.9",          "verbs",        "2s",  "512K", "mesh", "8-9",
         "bridge", "auto",        "4c:bb:47:00:00:09", "0000:1b:00.0", "eth1"};
    char *was_text = item->valuestring;
    double was = item->valuedouble;
    int was_type = item->type;
    for (size_t i = 0; i < sizeof texts / sizeof *texts + 1; i++) {
        struct mn_mesh mesh;
        struct mn_mesh_own own;
        char *yaml;
        if (cJSON_IsString(item))
            item->valuestring = (char *)(uintptr_t)texts[i % (sizeof texts / sizeof *texts)];
        else if (cJSON_IsBool(item))
            item->type ^= cJSON_True | cJSON_False;
        else
            item->valuedouble = (double)(item->valueint = (int)was + 1 + (int)i);
        char *text = cJSON_Print(root);
        mn_mesh_init(&mesh);
        if (!mn_mesh_parse("changed", text, strlen(text), &mesh, NULL)) {
            assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, NULL), MN_OK);
            mn_mesh_digest(&mesh, "changed", &own);
            if ((strcmp(yaml, canonical) == 0) != (own.digest.hash == hash))
                fail_msg("the hash does not know of %s:\n%s", item->string ? item->string : "this",
                         yaml);
            seen += strcmp(yaml, canonical) != 0;
            free(yaml);
        }
        mn_mesh_free(&mesh);
        cJSON_free(text);
        item->valuestring = was_text;
        item->valuedouble = was;
        item->valueint = (int)was;
        item->type = was_type;
    }
    return seen;
}

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && !strcmp(dot, ".yaml");
}

static void every_value_of_a_file_counts(void **state)
{
    struct dirent **entries;
    int seen = 0, n = scandir(GOOD, &entries, is_yaml, alphasort);

    (void)state;
    assert_true(n > 3);
    for (int i = 0; i < n; i++) {
        char *path = mn_asprintf("%s/%s", GOOD, entries[i]->d_name), *json, *yaml;
        struct mn_mesh mesh;
        struct mn_mesh_own own;
        mn_mesh_init(&mesh);
        assert_int_equal(mn_mesh_read(path, &mesh, NULL), MN_OK);
        assert_int_equal(mn_mesh_format_json(&mesh, &json, NULL), MN_OK);
        assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, NULL), MN_OK);
        mn_mesh_digest(&mesh, path, &own);
        cJSON *root = cJSON_Parse(json);
        assert_non_null(root);
        seen += change_leaves(root, root, own.digest.hash, yaml);
        cJSON_Delete(root);
        free(json);
        free(yaml);
        mn_mesh_free(&mesh);
        free(path);
        free(entries[i]);
    }
    free(entries);
    assert_true(seen > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_means_the_same_is_the_same),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(no_file_is_another_one),
        cmocka_unit_test(a_mesh_with_many_nodes_has_one_item_for_them),
        cmocka_unit_test(a_mesh_with_many_links_has_one_item_for_them),
        cmocka_unit_test(every_value_of_a_file_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
