/* Files below a folder that stands for /: no link in it leads to those of this host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fleet/apply_place.h"

static enum mn_err below(const char *path, struct mn_diag *diag)
{
    char whole[256];

    snprintf(whole, sizeof whole, "image/%s", path);
    return mn_place_below("image", whole, diag);
}

static int make_image(void **state)
{
    static char folder[32];

    strcpy(folder, "/tmp/mn_place_testXXXXXX");
    *state = folder;
    return !mkdtemp(folder) || chdir(folder) || mkdir("image", 0755) || mkdir("image/etc", 0755) ||
           mkdir("outside", 0755) || mkdir("image-2", 0755);
}

static int remove_image(void **state)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", (const char *)*state);
    return chdir("/") || system(command);
}

static void test_links(void **state)
{
    static const struct {
        const char *target;
        int inside;
    } rows[] = {
        {"etc", 1},          {"new", 1},          {"etc/../etc", 1},      {"/etc", 0},
        {"/nowhere/at", 0},  {"../outside", 0},   {"../outside/new", 0},  {"../image-2", 0},
        {"../image/etc", 1}, {"../image/new", 1}, {"etc/../../image", 1}, {"two", 0},
    };
    static const char *const paths[] = {"link", "link/file", "link/folder/file"};
    struct mn_diag diag;

    (void)state;
    assert_int_equal(symlink("/etc", "image/two"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(symlink(rows[i].target, "image/link"), 0);
        for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
            enum mn_err err = below(paths[k], &diag);
            if (err != (rows[i].inside ? MN_OK : MN_ERR_CONFIG))
                fail_msg("%s by %s: %s", paths[k], rows[i].target, mn_err_name(err));
            if (err)
                assert_non_null(strstr(diag.text, "image/link: this link leads to "));
        }
        unlink("image/link");
    }
}

/* Without a link, whatever is there yet; the folder itself may be one. */
static void test_folders(void **state)
{
    struct mn_diag diag;

    (void)state;
    assert_int_equal(below("etc/netplan/60-meshnet.yaml", &diag), MN_OK);
    assert_int_equal(below("/etc/x", &diag), MN_OK);
    assert_int_equal(mn_place_below("none", "none/etc/x", &diag), MN_OK);
    assert_int_equal(mn_place_below("", "/etc/x", &diag), MN_OK);
    assert_int_equal(symlink("image", "by"), 0);
    assert_int_equal(mn_place_below("by", "by/etc/x", &diag), MN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_links, make_image, remove_image),
        cmocka_unit_test_setup_teardown(test_folders, make_image, remove_image),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
