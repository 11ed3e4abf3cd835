/* What the library says of itself. The lines are those of NCCL_DEBUG=INFO: src/init.cc,
 * src/plugin/net.cc (before 2.27 src/net.cc) and src/transport/ of NCCL 2.18 to 2.28. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/engine/engine_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define MOST ((size_t)8 << 20) /* bytes of a log that are looked at */
#define LINE 1024              /* and of a line */

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
    mn_engine_log_tidy(text, (size_t)size);
    return text;
}

void mn_engine_log_tidy(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!text[i])
            text[i] = ' ';
    mn_clean_lines(text);
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

static int is_net(const char *way)
{
    return !strncmp(way, "NET/", 4) || !strncmp(way, "COLLNET/", 8);
}

/* "NET/meshnet/0/GDRDMA" is a way through "NET/meshnet"; the others count by their first word. */
static void add_via(struct mn_engine_evidence *e, const char *way)
{
    struct mn_engine_via *via = e->via;
    size_t length = strcspn(way, "/ ");
    char name[sizeof via->name];

    if (is_net(way))
        length += 1 + strcspn(way + length + 1, "/( ");
    snprintf(name, sizeof name, "%.*s", (int)length, way);
    e->gdr += is_net(way) && strstr(way, "/GDR") != NULL;
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

int mn_engine_went_over(const struct mn_engine_evidence *e, const char *network)
{
    int found = 0;

    for (int i = 0; i < e->n_vias; i++) {
        const char *name = e->via[i].name;
        found |= is_net(name) && !strcmp(strchr(name, '/') + 1, network);
    }
    return found;
}

/* A channel by its sender alone: both ends of a network's say something, of others one does. */
static void read_line(const char *line, char network[64], char plugin[128],
                      struct mn_engine_evidence *e)
{
    const char *word = strstr(line, USING);

    if (word)
        snprintf(network, 64, "%s", word + sizeof USING - 1);
    word = strstr(line, LOADED);
    if (word)
        snprintf(plugin, 128, "%s", word + sizeof LOADED - 1);
    word = strstr(line, VIA);
    if (!word)
        return;
    const char *way = word + sizeof VIA - 1;
    if (is_net(way) ? strstr(line, "[send]") && strstr(line, "[send]") < word
                    : memchr(line, '>', (size_t)(word - line)) != NULL)
        add_via(e, way);
}

void mn_engine_log_parse(const char *text, int first, struct mn_engine_evidence *e)
{
    char network[sizeof e->network] = "", plugin[sizeof e->plugin] = "", line[LINE];

    for (const char *end; *text; text = end + (*end == '\n')) {
        end = text + strcspn(text, "\n");
        take(line, sizeof line, text, "\n");
        read_line(line, network, plugin, e);
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
        {"initialize any NET plugin",
         "NCCL_NET names another network, perhaps in ~/.nccl.conf or /etc/nccl.conf"},
        {"Error: network", "NCCL_NET names another network, perhaps in a file nccl.conf"},
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
