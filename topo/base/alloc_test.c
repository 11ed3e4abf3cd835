#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/base/alloc.h"

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        unsigned long long bytes;
    } good[] = {{"0", 0},        {"4096", 4096}, {"64K", 65536},     {"64KiB", 65536},
                {"1M", 1 << 20}, {"1.5k", 1536}, {"2G", 2ull << 30}, {"7B", 7}};
    static const char *const bad[] = {"", "K", "-1", "1X", "1KK", "1.3", "9e30", "99999999P", " 1"};
    unsigned long long bytes;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(mn_parse_size(good[i].text, &bytes, NULL), MN_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mn_diag diag;
        assert_int_equal(mn_parse_size(bad[i], &bytes, &diag), MN_ERR_USAGE);
        assert_non_null(strstr(diag.text, bad[i]));
    }
}

static void test_size_text(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(mn_format_size(0, text, sizeof text), "0");
    assert_string_equal(mn_format_size(1000, text, sizeof text), "1000");
    assert_string_equal(mn_format_size(65536, text, sizeof text), "64K");
    assert_string_equal(mn_format_size(3ull << 20, text, sizeof text), "3M");
}

static void test_durations(void **state)
{
    static const char *const bad[] = {"", "s", "-1s", "1x", "1 s", "9999999h"};
    unsigned ms;

    (void)state;
    assert_int_equal(mn_parse_duration("20s", &ms, NULL), MN_OK);
    assert_int_equal(ms, 20000);
    assert_int_equal(mn_parse_duration("500ms", &ms, NULL), MN_OK);
    assert_int_equal(ms, 500);
    assert_int_equal(mn_parse_duration("1.5", &ms, NULL), MN_OK);
    assert_int_equal(ms, 1500);
    assert_int_equal(mn_parse_duration("2m", &ms, NULL), MN_OK);
    assert_int_equal(ms, 120000);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mn_parse_duration(bad[i], &ms, NULL), MN_ERR_USAGE);
}

/* A folder of the test's own; how many files are in it. */
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/mn_alloc_testXXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int entries(void)
{
    DIR *dir = opendir(folder);
    int count = 0;

    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int remove_folder(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    unlink(path);
    return rmdir(folder);
}

static void check_content(const char *path, const char *want)
{
    char *text;
    size_t len;

    assert_int_equal(mn_file_read(path, 1 << 20, &text, &len, NULL), MN_OK);
    assert_int_equal(len, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

/* In the place of the C library's: what a filesystem without links says; 0: it has some. */
static int without_links;

int link(const char *from, const char *to)
{
    if (without_links) {
        errno = without_links;
        return -1;
    }
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void test_write_without_links(void **state)
{
    static const int errors[] = {EPERM, EOPNOTSUPP, ENOSYS};
    char path[128];
    struct mn_diag diag;

    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        without_links = errors[i];
        assert_int_equal(mn_file_write(path, "one", 3, 0, &diag), MN_OK);
        assert_int_equal(mn_file_write(path, "two", 3, 0, &diag), MN_ERR_EXISTS);
        check_content(path, "one");
        assert_int_equal(entries(), 1);
        unlink(path);
    }
    without_links = EIO;
    assert_int_equal(mn_file_write(path, "one", 3, 0, &diag), MN_ERR_SYS);
    assert_int_equal(entries(), 0);
    without_links = 0;
}

static void test_write(void **state)
{
    mode_t mask = umask(022);
    char path[128], *big = calloc(1, 1 << 20);
    struct rlimit old, small;
    struct mn_diag diag;

    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(mn_file_write(path, "one", 3, 0, &diag), MN_OK);
    assert_int_equal(mn_file_write(path, "two", 3, 0, &diag), MN_ERR_EXISTS);
    check_content(path, "one");
    assert_int_equal(mn_file_write(path, "three", 5, 1, &diag), MN_OK);
    check_content(path, "three");
    /* What only its owner may read stays so. */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(mn_file_write(path, "three", 5, 1, &diag), MN_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* A full disk: the old bytes stay, and no part of the new ones. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(mn_file_write(path, big, 1 << 20, 1, &diag), MN_ERR_SYS);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_non_null(strstr(diag.text, path));
    check_content(path, "three");
    assert_int_equal(entries(), 1);
    /* What is no file stays what it is. */
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mn_file_write(path, "one", 3, 1, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, path));
    assert_int_equal(entries(), 2);
    unlink(path);
    free(big);
    umask(mask);
}

static void *write_late(void *arg)
{
    int fd = *(int *)arg;

    usleep(50000);
    assert_int_equal(write(fd, "from a pipe", 11), 11);
    close(fd);
    return NULL;
}

/* A named pipe without a writer is refused at once; one that is open already is read to its end,
 * whenever that comes. */
static void test_pipes(void **state)
{
    char path[128], *text;
    struct mn_diag diag;
    pthread_t thread;
    int fds[2];

    (void)state;
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(mn_file_read(path, 100, &text, NULL, &diag), MN_ERR_CONFIG);
    alarm(0);
    assert_non_null(strstr(diag.text, path));
    assert_non_null(strstr(diag.text, "named pipe"));
    unlink(path);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_late, &fds[1]), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", fds[0]);
    check_content(path, "from a pipe");
    pthread_join(thread, NULL);
    close(fds[0]);
}

static void test_read_limits(void **state)
{
    char path[128], *text;
    struct mn_diag diag;

    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(mn_file_read(path, 100, &text, NULL, &diag), MN_ERR_NOTFOUND);
    assert_int_equal(mn_file_read_named(path, 100, &text, NULL, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, path));
    assert_int_equal(mn_file_write(path, "123456", 6, 0, &diag), MN_OK);
    assert_int_equal(mn_file_read(path, 5, &text, NULL, &diag), MN_ERR_CONFIG);
}

static void test_strlcpy(void **state)
{
    char text[4];

    (void)state;
    assert_int_equal(mn_strlcpy(text, "abc", sizeof text), 1);
    assert_int_equal(mn_strlcpy(text, "abcd", sizeof text), 0);
    assert_string_equal(text, "abc");
}

static void test_words(void **state)
{
    char text[16];

    (void)state;
    assert_int_equal(mn_strlcpy_words(text, "exactly fifteen", sizeof text), 1);
    assert_string_equal(text, "exactly fifteen");
    assert_int_equal(mn_strlcpy_words(text, "one two, threefour", sizeof text), 0);
    assert_string_equal(text, "one two …");
    assert_int_equal(mn_strlcpy_words(text, "onetwothreefourfive", sizeof text), 0);
    assert_string_equal(text, "…");
    assert_int_equal(mn_strlcpy_words(text, "elevenchars a b c", sizeof text), 0);
    assert_string_equal(text, "elevenchars …");
    assert_int_equal(mn_strlcpy_words(text, "one two", 3), 0);
    assert_string_equal(text, "on");
}

struct two_levels {
    int inner, after_inner, after_all;
};

static void run_out(void *arg)
{
    (void)arg;
    mn_no_memory();
}

static void two_levels(void *arg)
{
    struct two_levels *l = arg;
    struct mn_diag diag;

    l->inner = mn_memory_try(run_out, NULL, &diag);
    l->after_inner = 1;
    mn_no_memory();
    l->after_all = 1;
}

static void no_work(void *arg)
{
    ++*(int *)arg;
}

static void test_memory_try(void **state)
{
    struct two_levels l = {0, 0, 0};
    struct mn_diag diag;
    int done = 0;

    (void)state;
    assert_int_equal(mn_memory_try(two_levels, &l, &diag), MN_ERR_NOMEM);
    assert_non_null(strstr(diag.text, "memory"));
    assert_int_equal(l.inner, MN_ERR_NOMEM);
    assert_true(l.after_inner && !l.after_all);
    assert_int_equal(mn_memory_try(no_work, &done, &diag), MN_OK);
    assert_int_equal(done, 1);
    /* Afterwards it ends the process again. */
    pid_t child = fork();
    if (!child)
        mn_no_memory();
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_size_text),
        cmocka_unit_test(test_durations),
        cmocka_unit_test_setup_teardown(test_write, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_write_without_links, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_read_limits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_pipes, make_folder, remove_folder),
        cmocka_unit_test(test_strlcpy),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_memory_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
