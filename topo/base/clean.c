#include "topo/base/clean.h"

#include <string.h>

size_t mn_utf8(const char *text, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    unsigned char first = left ? *s : 0xff;
    size_t len = first < 0x80       ? 1
                 : first >> 5 == 6  ? 2
                 : first >> 4 == 14 ? 3
                 : first >> 3 == 30 ? 4
                                    : 0;
    uint32_t c = len == 1 ? first : first & (0xffu >> (len + 1));

    *code = 0xfffd;
    if (!len || len > left)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *code = c;
    return len;
}

int mn_is_control(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } rows[] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f}, {0x2028, 0x202e},
        {0x2066, 0x2069}, {0xfdd0, 0xfdef}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (code >= rows[i].first && code <= rows[i].last)
            return 1;
    return (code & 0xfffe) == 0xfffe;
}

static char *clean(char *text, const char *kept)
{
    const char *from = text, *end = text + strlen(text);
    char *to = text;

    while (from < end) {
        uint32_t code;
        size_t len = mn_utf8(from, (size_t)(end - from), &code);
        if (!len || (mn_is_control(code) && !(code < 0x80 && strchr(kept, (int)code)))) {
            *to++ = '?';
        } else {
            memmove(to, from, len);
            to += len;
        }
        from += len ? len : 1;
    }
    *to = 0;
    return text;
}

char *mn_clean(char *text)
{
    return clean(text, "");
}

char *mn_clean_lines(char *text)
{
    return clean(text, "\n\t");
}
