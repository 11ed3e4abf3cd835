#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"

static void *check(void *p)
{
    if (!p) {
        fputs("meshnet: out of memory\n", stderr);
        abort();
    }
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

void *mn_grow(void **array, size_t *count, size_t elem)
{
    *array = check(reallocarray(*array, *count + 1, elem));
    void *at = (char *)*array + *count * elem;
    ++*count;
    return memset(at, 0, elem);
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

enum mn_err mn_file_read(const char *path, size_t max, char **text, size_t *len,
                         struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t used = 0, room = 4096;
    char *buf = NULL;

    if (fd < 0) {
        err = errno == ENOENT ? MN_ERR_NOTFOUND : MN_ERR_SYS;
        mn_fail_errno(diag, "%s", path);
        if (diag)
            diag->code = err;
        return err;
    }
    for (;;) {
        char *more = realloc(buf, room + 1);
        if (!more) {
            err = mn_fail(diag, MN_ERR_NOMEM, "%s: out of memory", path);
            break;
        }
        buf = more;
        ssize_t n = read(fd, buf + used, room - used);
        if (n < 0 && errno == EINTR)
            continue;
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

static void sync_folder(const char *path)
{
    char *copy = mn_strdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

enum mn_err mn_file_write(const char *path, const void *data, size_t len, int force,
                          struct mn_diag *diag)
{
    if (!force && access(path, F_OK) == 0)
        return mn_fail(diag, MN_ERR_EXISTS, "%s exists already; give --force to overwrite it",
                       path);
    struct stat old;
    if (!stat(path, &old) && !S_ISREG(old.st_mode))
        return mn_fail(diag, MN_ERR_CONFIG, "%s is no file, and nothing can be put in its place",
                       path);
    char *temp = mn_asprintf("%s.XXXXXX", path);
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        enum mn_err err = mn_fail_errno(diag, "%s", path);
        free(temp);
        return err;
    }
    mode_t mask = umask(0);
    umask(mask);
    enum mn_err err = write_all(fd, data, len);
    if (!err && (fchmod(fd, 0666 & ~mask) || fsync(fd)))
        err = MN_ERR_SYS;
    if (err)
        mn_fail_errno(diag, "%s", path);
    close(fd);
    /* link() instead of rename() keeps a file that came into being meanwhile. */
    if (!err && (force ? rename(temp, path) : link(temp, path)))
        err = errno == EEXIST ? mn_fail(diag, MN_ERR_EXISTS, "%s exists already", path)
                              : mn_fail_errno(diag, "%s", path);
    if (err || !force)
        unlink(temp);
    free(temp);
    if (!err)
        sync_folder(path);
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
