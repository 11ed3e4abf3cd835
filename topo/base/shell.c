#include "topo/base/shell.h"

#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"

int mn_shell_word(const char *word, char *buf, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./+,:@%=";
    size_t used;

    buf[0] = '\0';
    /* zsh takes =word for where that command is. */
    if (word[0] && word[0] != '=' && strspn(word, plain) == strlen(word)) {
        if (mn_strlcpy(buf, word, size))
            return 1;
        buf[0] = '\0';
        return 0;
    }
    for (used = (size_t)snprintf(buf, size, "'"); *word && used + 6 < size; word++)
        used += (size_t)snprintf(buf + used, size - used, "%s",
                                 *word == '\'' ? "'\\''" : (char[]){*word, '\0'});
    if (*word || used + 2 > size) {
        buf[0] = '\0';
        return 0;
    }
    snprintf(buf + used, size - used, "'");
    return 1;
}
