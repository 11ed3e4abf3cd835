/* Links are followed, those of others in folders like /tmp are not. */
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

#include "topo/base/alloc.h"
#include "topo/base/follow.h"

static char folder[] = "/tmp/mn_follow_XXXXXX";

static char *in(const char *name)
{
    return mn_asprintf("%s/%s", folder, name);
}

static void check(const char *path, const char *want)
{
    char *text;

    assert_int_equal(mn_file_read(path, 100, &text, NULL, NULL), MN_OK);
    assert_string_equal(text, want);
    free(text);
}

static int is_link(const char *path)
{
    struct stat st;

    return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

static void a_link_stays_one(void **state)
{
    char *file = in("file"), *link = in("link"), *second = in("second"), *none = in("none");
    char *made = in("made"), *loop = in("loop");
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_file_write(file, "one", 3, 0, &diag), MN_OK);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(symlink(link, second), 0);
    assert_int_equal(mn_file_write(second, "two", 3, 0, &diag), MN_ERR_EXISTS);
    assert_int_equal(mn_file_write(second, "two", 3, 1, &diag), MN_OK);
    check(file, "two");
    assert_true(is_link(link) && is_link(second));
    /* What is not there yet comes to be where the link leads. */
    assert_int_equal(symlink("made", none), 0);
    assert_int_equal(mn_file_write(none, "three", 5, 0, &diag), MN_OK);
    check(made, "three");
    assert_true(is_link(none));
    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(mn_file_write(loop, "four", 4, 1, &diag), MN_ERR_SYS);
    assert_non_null(strstr(diag.text, loop));
    char *all[] = {second, link, file, none, made, loop};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unlink(all[i]);
        free(all[i]);
    }
}

static void what_others_left_is_not_written_to(void **state)
{
    char *mine = in("mine"), *link = in("link"), *file = in("file");
    struct mn_diag diag;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mn_file_write(mine, "one", 3, 0, &diag), MN_OK);
    assert_int_equal(symlink(mine, link), 0);
    assert_int_equal(lchown(link, 65534, 65534), 0);
    assert_int_equal(mn_file_write(file, "one", 3, 0, &diag), MN_OK);
    assert_int_equal(chown(file, 65534, 65534), 0);
    /* Of a folder of its own root writes them all. */
    assert_int_equal(mn_file_write(link, "two", 3, 1, &diag), MN_OK);
    check(mine, "two");
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(mn_file_write(link, "three", 5, 1, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "another user (65534)"));
    assert_int_equal(mn_file_write(file, "three", 5, 1, &diag), MN_ERR_CONFIG);
    check(mine, "two");
    check(file, "one");
    assert_int_equal(mn_file_write(mine, "three", 5, 1, &diag), MN_OK);
    /* Nor by a folder that another's link is, whose own folder is no such one. */
    char *place = in("place"), *way = in("way"), *below = in("way/below"),
         *real = in("place/below");
    assert_int_equal(mkdir(place, 0755), 0);
    assert_int_equal(symlink(place, way), 0);
    assert_int_equal(mn_file_write(below, "one", 3, 0, &diag), MN_OK);
    assert_int_equal(lchown(way, 65534, 65534), 0);
    assert_int_equal(mn_file_write(below, "two", 3, 1, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "by a link of another user (65534)"));
    check(real, "one");
    unlink(real);
    assert_int_equal(mn_file_write(below, "two", 3, 0, &diag), MN_ERR_CONFIG);
    assert_int_not_equal(access(real, F_OK), 0);
    unlink(way);
    rmdir(place);
    free(place);
    free(way);
    free(below);
    free(real);
    unlink(mine);
    unlink(link);
    unlink(file);
    free(mine);
    free(link);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_stays_one),
        cmocka_unit_test(what_others_left_is_not_written_to),
    };

    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
