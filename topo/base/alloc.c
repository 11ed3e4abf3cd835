#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/follow.h"

#define PIPE_MS 60000 /* without a byte */
#define LARGE   64    /* elements */

/* Where the thread goes on. No _Thread_local: in a library that was loaded later its first use
 * allocates, and the loader ends the process where it cannot. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t trying;
static int has_key;

static void make_key(void)
{
    has_key = pthread_key_create(&trying, NULL) == 0;
}

enum mn_err mn_memory_try(void (*work)(void *arg), void *arg, struct mn_diag *diag)
{
    jmp_buf here;

    pthread_once(&once, make_key);
    jmp_buf *volatile outer = has_key ? pthread_getspecific(trying) : NULL;
    if (!has_key || pthread_setspecific(trying, &here))
        return mn_fail(diag, MN_ERR_NOMEM, "out of memory");
    if (setjmp(here)) {
        (void)pthread_setspecific(trying, outer);
        return mn_fail(diag, MN_ERR_NOMEM, "out of memory");
    }
    work(arg);
    (void)pthread_setspecific(trying, outer);
    return MN_OK;
}

void mn_no_memory(void)
{
    pthread_once(&once, make_key);
    jmp_buf *to = has_key ? pthread_getspecific(trying) : NULL;
    if (to)
        longjmp(*to, 1);
    fputs("meshnet: out of memory\n", stderr);
    /* Without handlers and buffers: they would allocate again. */
    _exit(mn_err_exit_code(MN_ERR_NOMEM));
}

static void *check(void *p)
{
    if (!p)
        mn_no_memory();
    return p;
}

void *mn_zalloc(size_t size)
{
    return check(calloc(1, size ? size : 1));
}

char *mn_strdup(const char *text)
{
    return text ? check(strdup(text)) : NULL;
}

char *mn_asprintf(const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    return check(text);
}

/* With room for one element more; a large array gets room for many, of which its allocator knows:
 * it is not copied for each. A small one is as long as it says, so that sanitizers see its end. */
static void *with_room(void *array, size_t count, size_t elem)
{
    if (count < LARGE)
        return reallocarray(array, count + 1, elem);
    if (malloc_usable_size(array) / elem > count)
        return array;
    return reallocarray(array, count + count / 2, elem);
}

void *mn_grow(void **array, size_t *count, size_t elem)
{
    *array = check(with_room(*array, *count, elem));
    void *at = (char *)*array + *count * elem;
    ++*count;
    return memset(at, 0, elem);
}

void *mn_push(void *array, size_t *count, size_t elem, struct mn_diag *diag)
{
    void *old;

    memcpy(&old, array, sizeof old);
    char *grown = with_room(old, *count, elem);
    if (!grown) {
        mn_fail(diag, MN_ERR_NOMEM, "out of memory");
        return NULL;
    }
    memcpy(array, &grown, sizeof grown);
    return memset(grown + elem * (*count)++, 0, elem);
}

int mn_strlcpy(char *dst, const char *src, size_t size)
{
    size_t len = strlen(src);

    if (size) {
        size_t n = len < size - 1 ? len : size - 1;
        memcpy(dst, src, n);
        dst[n] = 0;
    }
    return len < size;
}

int mn_strlcpy_words(char *dst, const char *src, size_t size)
{
    static const char more[] = " …";

    if (mn_strlcpy(dst, src, size))
        return 1;
    if (size > sizeof more) {
        size_t end = size - sizeof more;
        while (end && src[end] != ' ')
            end--;
        while (end && (src[end - 1] == ' ' || src[end - 1] == ','))
            end--;
        memcpy(dst + end, more + !end, sizeof more - !end);
    }
    return 0;
}

/* A named pipe may never have a writer. One that was opened before is what a shell's <(command) and
 * /dev/stdin are. */
static int may_be_read(const char *path, int fd)
{
    struct stat st;
    struct statfs fs;

    if (fstat(fd, &st))
        return 0;
    if (!S_ISFIFO(st.st_mode))
        return S_ISREG(st.st_mode) || S_ISCHR(st.st_mode) || S_ISDIR(st.st_mode);
    return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) ||
           (!fstatfs(fd, &fs) && fs.f_type == PIPEFS_MAGIC);
}

/* A descriptor that never waits for a writer. */
static enum mn_err open_to_read(const char *path, int *fd, struct mn_diag *diag)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0) {
        enum mn_err err = errno == ENOENT ? MN_ERR_NOTFOUND : MN_ERR_SYS;
        mn_fail_errno(diag, "%s", path);
        if (diag)
            diag->code = err;
        return err;
    }
    if (may_be_read(path, *fd))
        return MN_OK;
    close(*fd);
    return mn_fail(diag, MN_ERR_CONFIG,
                   "%s is a named pipe or a device; expected a file, or /dev/stdin", path);
}

/* What comes from a pipe or a terminal, in parts. */
static ssize_t read_some(int fd, void *data, size_t size)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n = read(fd, data, size);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n;
        if (errno == EAGAIN && poll(&p, 1, PIPE_MS) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

enum mn_err mn_file_read(const char *path, size_t max, char **text, size_t *len,
                         struct mn_diag *diag)
{
    size_t used = 0, room = 4096;
    char *buf = NULL;
    int fd;
    enum mn_err err = open_to_read(path, &fd, diag);

    if (err)
        return err;
    for (;;) {
        char *more = realloc(buf, room + 1);
        if (!more) {
            err = mn_fail(diag, MN_ERR_NOMEM, "%s: out of memory", path);
            break;
        }
        buf = more;
        ssize_t n = read_some(fd, buf + used, room - used);
        if (n < 0)
            err = mn_fail_errno(diag, "%s", path);
        if (n <= 0)
            break;
        used += (size_t)n;
        if (used > max) {
            err = mn_fail(diag, MN_ERR_CONFIG, "%s: larger than %zu bytes", path, max);
            break;
        }
        if (used == room)
            room *= 2;
    }
    close(fd);
    if (err) {
        free(buf);
        return err;
    }
    buf[used] = 0;
    *text = buf;
    if (len)
        *len = used;
    return MN_OK;
}

enum mn_err mn_file_read_named(const char *path, size_t max, char **text, size_t *len,
                               struct mn_diag *diag)
{
    struct mn_diag why;
    enum mn_err err = mn_file_read(path, max, text, len, &why);

    if (!err)
        return MN_OK;
    return mn_fail(diag, err == MN_ERR_NOMEM ? err : MN_ERR_CONFIG, "%s", why.text);
}

static enum mn_err write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return MN_ERR_SYS;
        data += n;
        len -= (size_t)n;
    }
    return MN_OK;
}

/* link() instead of rename() keeps a file that came into being meanwhile; not every filesystem has
 * links. */
static int put_new(const char *temp, const char *place)
{
    if (!link(temp, place)) {
        unlink(temp);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    return renameat2(AT_FDCWD, temp, AT_FDCWD, place, RENAME_NOREPLACE);
}

void mn_file_sync_folder(const char *path)
{
    char *copy = mn_strdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

/* place: path, or where its links lead. */
static enum mn_err write_place(const char *path, const char *place, const void *data, size_t len,
                               int force, struct mn_diag *diag)
{
    if (!force && access(place, F_OK) == 0)
        return mn_fail(diag, MN_ERR_EXISTS, "%s exists already; give --force to overwrite it",
                       path);
    struct stat old;
    int exists = !stat(place, &old);
    if (exists && !S_ISREG(old.st_mode))
        return mn_fail(diag, MN_ERR_CONFIG, "%s is no file, and nothing can be put in its place",
                       path);
    char *temp = mn_asprintf("%s.XXXXXX", place);
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        enum mn_err err = mn_fail_errno(diag, "%s", path);
        free(temp);
        return err;
    }
    mode_t mask = umask(0);
    umask(mask);
    enum mn_err err = write_all(fd, data, len);
    /* Where root writes the file stays its owner's; nobody else may give files away. */
    int same_owner = exists && !fchown(fd, old.st_uid, old.st_gid);
    (void)same_owner;
    if (!err && (fchmod(fd, exists ? old.st_mode & 0777 : 0666 & ~mask) || fsync(fd)))
        err = MN_ERR_SYS;
    if (err)
        mn_fail_errno(diag, "%s", path);
    close(fd);
    if (!err && (force ? rename(temp, place) : put_new(temp, place)))
        err = errno == EEXIST ? mn_fail(diag, MN_ERR_EXISTS, "%s exists already", path)
                              : mn_fail_errno(diag, "%s", path);
    if (err)
        unlink(temp);
    free(temp);
    if (!err)
        mn_file_sync_folder(place);
    return err;
}

enum mn_err mn_file_write(const char *path, const void *data, size_t len, int force,
                          struct mn_diag *diag)
{
    char *place;
    enum mn_err err = mn_file_follow(path, &place, diag);

    if (!err)
        err = write_place(path, place, data, len, force, diag);
    free(place);
    return err;
}

enum mn_err mn_parse_size(const char *text, unsigned long long *bytes, struct mn_diag *diag)
{
    static const char units[] = "KMGTP";
    char *end;
    double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;

    if (value < 0)
        return mn_fail(diag, MN_ERR_USAGE, "'%s' is not a size: expected e.g. 4096, 64K or 1M",
                       text);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        value *= pow(1024, (double)(unit - units + 1));
        end++;
        if (*end == 'i')
            end++;
    }
    if (toupper((unsigned char)*end) == 'B')
        end++;
    if (*end || value >= 9.2e18 || value != floor(value))
        return mn_fail(diag, MN_ERR_USAGE, "'%s' is not a size: expected e.g. 4096, 64K or 1M",
                       text);
    *bytes = (unsigned long long)value;
    return MN_OK;
}

enum mn_err mn_parse_duration(const char *text, unsigned *ms, struct mn_diag *diag)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}};
    char *end;
    double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;

    for (size_t i = 0; value >= 0 && i < sizeof units / sizeof *units; i++) {
        double total = value * units[i].ms;
        if (!strcmp(end, units[i].name) && total < 4e9) {
            *ms = (unsigned)total;
            return MN_OK;
        }
    }
    return mn_fail(diag, MN_ERR_USAGE, "'%s' is not a time: expected e.g. 20s, 500ms or 2m", text);
}

char *mn_format_size(unsigned long long bytes, char *buf, size_t size)
{
    static const char units[] = " KMGTP";
    int unit = 0;

    while (bytes && bytes % 1024 == 0 && units[unit + 1]) {
        bytes /= 1024;
        unit++;
    }
    if (unit)
        snprintf(buf, size, "%llu%c", bytes, units[unit]);
    else
        snprintf(buf, size, "%llu", bytes);
    return buf;
}
