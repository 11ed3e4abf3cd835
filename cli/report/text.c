#include "cli/report/text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define LONGEST 500

char *mn_text_clean(const char *text)
{
    const char *end = text + strlen(text);
    char *clean = mn_zalloc((size_t)(end - text) * 3 + 4), *to = clean;

    for (int n = 0; *text; n++) {
        uint32_t code;
        size_t len = mn_utf8(text, (size_t)(end - text), &code);
        if (n == LONGEST) {
            /* In a whole word, if there is one nearby. */
            for (char *end_of = to; end_of > clean && to - end_of < LONGEST / 5; end_of--)
                if (end_of[-1] == ' ') {
                    to = end_of;
                    break;
                }
            memcpy(to, "…", sizeof "…");
            break;
        }
        if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            *to++ = ' ';
        } else if (!len || mn_is_control(code)) {
            memcpy(to, "\xef\xbf\xbd", 3);
            to += 3;
        } else {
            memcpy(to, text, len);
            to += len;
        }
        text += len ? len : 1;
    }
    return clean;
}

int mn_text_width(const char *text)
{
    int width = 0;

    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

char *mn_text_short(const char *text, int max, char *buf, size_t size)
{
    int keep = mn_text_width(text) > max ? max - 1 : max;
    size_t len = 0;

    for (int n = 0; text[len]; len++) {
        n += (text[len] & 0xc0) != 0x80;
        if (n > keep)
            break;
    }
    snprintf(buf, size, "%.*s%s", (int)len, text, text[len] ? "…" : "");
    return buf;
}

void mn_text_html(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else if (*text == '\'')
            fputs("&#39;", file);
        else
            fputc(*text, file);
    }
}

void mn_text_md(FILE *file, const char *text)
{
    static const char *const special = "\\`*_[]<>#|!~&$:.";
    const char *start = text;

    for (; *text; text++) {
        /* ":" and "." mean something in addresses only. */
        if (strchr(special, *text) && (*text != ':' || text[1] == '/') &&
            (*text != '.' || (text != start && (text[-1] == 'w' || text[-1] == 'W'))))
            fputc('\\', file);
        fputc(*text, file);
        /* A space without width: what follows is no user's name, no number of an issue. */
        if (*text == '@' || *text == '#')
            fputs("\xe2\x80\x8b", file);
    }
}

char *mn_text_num(double value, int decimals, char *buf, size_t size)
{
    if (isfinite(value))
        snprintf(buf, size, "%.*f", decimals, value);
    else
        snprintf(buf, size, "–");
    return buf;
}

char *mn_text_figures(double value, char *buf, size_t size)
{
    double v = fabs(value);

    return mn_text_num(value,
                       v >= 99.95    ? 0
                       : v >= 9.995  ? 1
                       : v >= 0.9995 ? 2
                       : v > 0       ? 3
                                     : 0,
                       buf, size);
}

char *mn_text_size(double bytes, char *buf, size_t size)
{
    if (!(bytes >= 0 && bytes < 1e18)) {
        snprintf(buf, size, "–");
        return buf;
    }
    return mn_format_size((unsigned long long)bytes, buf, size);
}
