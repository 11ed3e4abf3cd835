#include <stdlib.h>
#include <string.h>

#include "plugin/config.h"

static int entry_match(const char *entry, size_t len, const char *name, int port, int exact)
{
    const char *colon = memchr(entry, ':', len);
    if (port >= 0 && colon) {
        if (strtol(colon + 1, NULL, 10) != port)
            return 0;
        len = (size_t)(colon - entry);
    }
    return exact ? strlen(name) == len && !memcmp(entry, name, len) : !strncmp(entry, name, len);
}

int mn_selector_match(const char *list, const char *name, int port)
{
    int invert = 0, exact = 0, found = 0;

    for (; *list == '^' || *list == '='; list++) {
        if (*list == '^')
            invert = 1;
        else
            exact = 1;
    }
    while (*list) {
        size_t len = strcspn(list, ",");
        if (len && entry_match(list, len, name, port, exact))
            found = 1;
        list += len + (list[len] == ',');
    }
    return found != invert;
}
