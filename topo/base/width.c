#include "topo/base/width.h"

#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

/* The C library knows how wide characters are, in a locale of UTF-8 only; the process's own stays
 * as it is. */
static locale_t utf8;

static void find_locale(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* A character of length bytes. */
static int columns_of(const char *text, size_t length)
{
    mbstate_t state = {0};
    wchar_t wide;
    size_t n = mbrtowc(&wide, text, length, &state);
    int columns = n == length ? wcwidth(wide) : 1;

    return columns < 0 ? 1 : columns;
}

size_t mn_term_fit(const char *text, size_t size, int columns, int *used)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t at = 0, n;
    int width = 0;

    pthread_once(&once, find_locale);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    for (; at < size && text[at]; at += n) {
        for (n = 1; at + n < size && ((unsigned char)text[at + n] & 0xc0) == 0x80;)
            n++;
        int more = utf8 ? columns_of(text + at, n) : 1;
        if (more > columns - width)
            break;
        width += more;
    }
    if (before)
        uselocale(before);
    if (used)
        *used = width;
    return at;
}

int mn_term_width(const char *text)
{
    int used;

    (void)mn_term_fit(text, strlen(text), INT_MAX, &used);
    return used;
}

int mn_term_columns(FILE *file)
{
    struct winsize size = {0};
    const char *told = getenv("COLUMNS");
    int fd = fileno(file);

    if (fd < 0 || !isatty(fd))
        return 0;
    long columns = told ? strtol(told, NULL, 10) : 0;
    if (columns > 0 && columns <= SHRT_MAX)
        return (int)columns;
    (void)ioctl(fd, TIOCGWINSZ, &size);
    return size.ws_col;
}
