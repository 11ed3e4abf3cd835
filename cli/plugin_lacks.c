#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/plugin_path.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

/* The loader of this program, which is that of every other of its kind on this host. */
static int find_loader(struct dl_phdr_info *info, size_t size, void *ctx)
{
    const char **loader = ctx;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP)
            *loader = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return 1; /* the first is the program */
}

/* What ldd does: the loader lists on its output what it finds, and does not. NULL where that cannot
 * be had. A process of its own, since this one has libraries open that satisfy any that is opened
 * after them. */
static FILE *list(const char *path, pid_t *child)
{
    const char *loader = NULL;
    int ends[2];

    dl_iterate_phdr(find_loader, &loader);
    if (!loader || pipe2(ends, O_CLOEXEC))
        return NULL;
    *child = fork();
    if (*child == 0) {
        alarm(10); /* on a file system that does not answer */
        if (dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0 &&
            !setenv("LD_TRACE_LOADED_OBJECTS", "1", 1))
            execl(loader, loader, path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *out = *child > 0 ? fdopen(ends[0], "r") : NULL;
    if (!out)
        close(ends[0]);
    return out;
}

/* What a line says is missing: "  libX.so.1 => not found", or, with what asks for it after,
 * "FILE: version `GLIBC_2.38' not found". */
static char *missing(char *line)
{
    char *end = strstr(line, " => not found"), *version = strstr(line, "version `");

    line += strspn(line, " \t");
    if (!end && version && strstr(version, "' not found")) {
        line = version + strlen("version `");
        end = strchr(line, '\'');
    }
    if (!end)
        return NULL;
    *end = 0;
    return mn_clean(line);
}

static int is_in(const char *text, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = text; at && (at = strstr(at, name)); at += length)
        if ((at == text || at[-1] == ' ') && (!at[length] || at[length] == ','))
            return 1;
    return 0;
}

char *mn_plugin_lacks(const char *path)
{
    char *lacks = NULL, *line = NULL;
    size_t size = 0;
    pid_t child;
    FILE *out = list(path, &child);

    while (out && getline(&line, &size, out) >= 0) {
        const char *name = missing(line);
        if (!name || is_in(lacks, name))
            continue;
        char *longer = mn_asprintf("%s%s%s", lacks ? lacks : "", lacks ? ", " : "", name);
        free(lacks);
        lacks = longer;
    }
    free(line);
    if (!out)
        return NULL;
    fclose(out);
    waitpid(child, NULL, 0);
    return lacks;
}
