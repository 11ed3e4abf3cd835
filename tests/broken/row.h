/* Of vtables.c, which is compiled once for the correct library (FAULT is 0 then), and again for
 * each row of faults.def that it names. All other faults the correct library has itself: a copy of
 * it is of the row that its file is called after. */
#ifndef BROKEN_ROW_H
#define BROKEN_ROW_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The number of the row, counted from 1, whose name is behind the prefix in this library's file
 * name; 0: that is the correct one. */
static inline int broken_row(const char *prefix, const char *const *rows, int n)
{
    static const char here;
    Dl_info own;

    if (!dladdr(&here, &own) || !own.dli_fname)
        abort();
    const char *slash = strrchr(own.dli_fname, '/'), *name = slash ? slash + 1 : own.dli_fname;
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return 0;
    name += strlen(prefix);
    for (int i = 0; i < n; i++)
        if (strlen(rows[i]) == strcspn(name, ".") && !strncmp(rows[i], name, strlen(rows[i])))
            return i + 1;
    abort(); /* left by another build */
}

/* What tells the parts, before their own constructors run. It follows the names of the rows. */
#define BROKEN_FIND_ROW(variable, prefix)                                                          \
    __attribute__((constructor(101))) static void find_row(void)                                   \
    {                                                                                              \
        variable = broken_row(prefix, rows, (int)(sizeof rows / sizeof *rows));                    \
    }

#endif
