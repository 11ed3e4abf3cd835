/* What the library says of itself. The lines are those of NCCL_DEBUG=INFO: src/init.cc,
 * src/plugin/net.cc (before 2.27 src/net.cc) and src/transport/ of NCCL 2.18 to 2.28. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/engine/engine_impl.h"
#include "topo/base/alloc.h"

#define MOST ((size_t)8 << 20) /* bytes of a log that are looked at */

static const char USING[] = "Using network ", LOADED[] = "oaded net plugin ", VIA[] = " via ";

enum mn_err mn_engine_log_begin(struct mn_engine *engine, struct mn_diag *diag)
{
    char path[64];

    engine->log = memfd_create("nccl.log", MFD_CLOEXEC);
    if (engine->log < 0)
        return mn_fail_errno(diag, "memory for the library's log");
    snprintf(path, sizeof path, "/proc/self/fd/%d", engine->log);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM", 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    return MN_OK;
}

char *mn_engine_log_read(const struct mn_engine *engine)
{
    char *text = mn_zalloc(MOST + 1);
    ssize_t n, size = 0;

    while (engine->log >= 0 && (size_t)size < MOST &&
           (n = pread(engine->log, text + size, MOST - (size_t)size, size)) > 0)
        size += n;
    /* Lines are told apart by their ends alone. */
    for (ssize_t i = 0; i < size; i++)
        if (iscntrl((unsigned char)text[i]) && text[i] != '\n')
            text[i] = ' ';
    return text;
}

static char *line_end(char *line)
{
    char *end = strchr(line, '\n');

    return end ? end : line + strlen(line);
}

void mn_engine_log_excerpt(char *text)
{
    char *to = text, *line = text, *end;

    for (; *line; line = end) {
        end = line_end(line);
        char kept = *end;
        *end = 0;
        int known = strstr(line, USING) || strstr(line, LOADED) || strstr(line, VIA);
        *end = kept;
        end += kept == '\n';
        if (!known)
            continue;
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    *to = 0;
}

/* Up to a character of stop, or the line's end. */
static void take(char *to, size_t size, const char *from, const char *stop)
{
    snprintf(to, size, "%.*s", (int)strcspn(from, stop), from);
}

/* "NET/meshnet/0/GDRDMA" is a way through "NET/meshnet"; the others count by their first word. */
static void add_via(struct mn_engine_evidence *e, const char *from)
{
    struct mn_engine_via *via = e->via;
    char way[96], name[sizeof via->name];
    int net = !strncmp(from, "NET/", 4) || !strncmp(from, "COLLNET/", 8);
    size_t first = strcspn(from, "/ \n");

    take(way, sizeof way, from, " \n");
    snprintf(name, sizeof name, "%.*s",
             (int)(net ? first + 1 + strcspn(from + first + 1, "/( \n") : first), from);
    e->gdr += net && strstr(way, "GDR") != NULL;
    while (via < e->via + e->n_vias && strcmp(via->name, name) != 0)
        via++;
    if (via == e->via + MN_ENGINE_VIAS)
        return;
    if (via == e->via + e->n_vias) {
        e->n_vias++;
        mn_strlcpy(via->name, name, sizeof via->name);
    }
    via->channels++;
}

void mn_engine_log_parse(const char *text, int first, struct mn_engine_evidence *e)
{
    char network[sizeof e->network] = "", plugin[sizeof e->plugin] = "";

    for (const char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        const char *word = strstr(line, USING);
        if (word && word < end)
            take(network, sizeof network, word + sizeof USING - 1, "\n");
        word = strstr(line, LOADED);
        if (word && word < end)
            take(plugin, sizeof plugin, word + sizeof LOADED - 1, "\n");
        word = strstr(line, VIA);
        if (word && word < end && memchr(line, '>', (size_t)(word - line)))
            add_via(e, word + sizeof VIA - 1);
        end += *end == '\n';
    }
    if (first) {
        mn_strlcpy(e->network, network, sizeof e->network);
        mn_strlcpy(e->plugin, plugin, sizeof e->plugin);
    } else {
        e->differ += strcmp(e->network, network) != 0 || strcmp(e->plugin, plugin) != 0;
    }
}

void mn_engine_log_warning(const char *text, char *warning, size_t size, const char **advice)
{
    static const char WARN[] = "NCCL WARN ";
    static const struct {
        const char *words, *advice;
    } known[] = {
        {"driver version is insufficient",
         "the GPU's driver is older than the CUDA this library was built for: update the driver, "
         "or give --library one built for an older CUDA"},
        {"busy or unavailable", "another process has the GPU for itself: nvidia-smi -c DEFAULT "
                                "shares it"},
        {"Duplicate GPU detected", "two ranks share a GPU: give each one of its own, or --apart"},
        {"unsupported toolchain", "this GPU's driver is too old for the library: update it"},
        {"no kernel image", "the library was not built for this GPU: take another release"},
        {"/dev/shm", "shared memory is short: in a container give --shm-size=1g"},
        {"o socket interface found",
         "set NCCL_SOCKET_IFNAME to the interface where ranks reach each other"},
    };

    *warning = 0;
    *advice = "";
    for (const char *at = strstr(text, WARN); at; at = strstr(at, WARN)) {
        at += sizeof WARN - 1;
        take(warning, size, at, "\n");
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strstr(warning, known[i].words))
                *advice = known[i].advice;
    }
}
