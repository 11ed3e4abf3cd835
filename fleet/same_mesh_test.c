/* The digest of a mesh file in a message: what one end puts the other reads, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"

static char path[64];

/* MESHNET_CONFIG names a file with that text. */
static void go_by(const char *silence)
{
    struct mn_diag diag = {.text = ""};
    char *text = mn_asprintf("version: 1\n"
                             "nodes: [{name: a, nics: [{netdev: e0, addresses: [10.0.1.1/24]}]}]\n"
                             "transport: {silence: %s}\n",
                             silence);

    if (mn_file_write(path, text, strlen(text), 1, &diag))
        fail_msg("%s", diag.text);
    free(text);
    setenv("MESHNET_CONFIG", path, 1);
}

static void the_other_end_reads_what_one_puts(void **state)
{
    cJSON *message = cJSON_CreateObject();
    char text[1024];

    (void)state;
    go_by("30s");
    mn_same_mesh_put(message);
    char *wire = cJSON_PrintUnformatted(message);
    cJSON_Delete(message);
    message = cJSON_Parse(wire);
    assert_false(mn_same_mesh_differs(message, "b", text, sizeof text));
    go_by("30000ms # the same");
    assert_false(mn_same_mesh_differs(message, "b", text, sizeof text));
    go_by("40s");
    assert_true(mn_same_mesh_differs(message, "b", text, sizeof text));
    assert_non_null(strstr(text, "b goes by another mesh file"));
    assert_non_null(strstr(text, "; different: transport.silence; "));
    go_by("broken");
    assert_false(mn_same_mesh_differs(message, "b", text, sizeof text));
    setenv("MESHNET_CONFIG", "", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    if (access("/etc/meshnet/mesh.yaml", F_OK) != 0) {
        assert_true(mn_same_mesh_differs(message, "b", text, sizeof text));
        assert_non_null(strstr(text, "this host by none"));
    }
    cJSON_Delete(message);
    cJSON_free(wire);
}

static void what_is_no_digest_is_not_compared(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"mesh\": 1}",
        "{\"mesh\": {\"hash\": \"0123456789abcdef\"}}",
        "{\"mesh\": {\"hash\": \"0123456789abcde\", \"items\": []}}",
        "{\"mesh\": {\"hash\": \"0123456789abcdef0\", \"items\": []}}",
        "{\"mesh\": {\"hash\": \"0123456789ABCDEF\", \"items\": []}}",
        "{\"mesh\": {\"hash\": \"0123456789abcdef\", \"items\": [1]}}",
        "{\"mesh\": {\"hash\": \"0123456789abcdef\", \"items\": [1, \"2\"]}}",
        "{\"mesh\": {\"hash\": \"0123456789abcdef\", \"items\": [1, -2]}}",
        "{\"mesh\": {\"hash\": \"0123456789abcdef\", \"items\": [4294967296, 2]}}",
    };
    char text[1024], many[8192] = "{\"mesh\": {\"hash\": \"0123456789abcdef\", \"items\": [1";

    (void)state;
    go_by("30s");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cJSON *message = cJSON_Parse(texts[i]);
        assert_non_null(message);
        if (mn_same_mesh_differs(message, "b", text, sizeof text))
            fail_msg("%s: %s", texts[i], text);
        cJSON_Delete(message);
    }
    for (int i = 1; i < 2 * MN_DIGEST_ITEMS + 2; i++)
        strcat(many, ",1");
    strcat(many, "]}}");
    cJSON *message = cJSON_Parse(many);
    assert_non_null(message);
    assert_false(mn_same_mesh_differs(message, "b", text, sizeof text));
    cJSON_Delete(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_other_end_reads_what_one_puts),
        cmocka_unit_test(what_is_no_digest_is_not_compared),
    };

    snprintf(path, sizeof path, "/tmp/meshnet-same-%ld.yaml", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
