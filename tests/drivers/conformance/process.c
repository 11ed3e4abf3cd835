/* What the plugin does to its process: second init, many connections, children, what is left. */
#include "tests/drivers/conformance/kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void second_init(struct kit *kit)
{
    struct mn_plugin *other;
    struct pair pair;
    int before = 0, after = 0;

    pair_open(kit, &pair);
    kit_ok(kit, "devices", mn_plugin_devices(kit->plugin, &before));
    other = mn_plugin_context(kit->plugin);
    /* Up to v10 a library is initialised again only when no communicator is left. */
    if (mn_plugin_info(kit->plugin)->version < 11)
        kit_ok(kit, "finalize", mn_plugin_finalize(kit->plugin));
    kit_ok(kit, "second init", mn_plugin_init(other));
    kit_ok(kit, "devices", mn_plugin_devices(kit->plugin, &after));
    if (before != after)
        kit_fail(kit, "%d devices before the second init, %d after", before, after);
    pair_pass(kit, &pair, 1000);
    pair_close(kit, &pair);
    if (mn_plugin_info(kit->plugin)->version < 11)
        kit_ok(kit, "init", mn_plugin_init(kit->plugin));
    mn_plugin_close(other);
}

static void thousand(struct kit *kit)
{
    enum { MANY = 1000 };
    static struct pair pairs[MANY];

    for (int i = 0; i < MANY; i++)
        pair_open(kit, &pairs[i]);
    for (int i = 0; i < MANY; i++)
        pair_pass(kit, &pairs[i], (size_t)i);
    for (int i = 0; i < MANY; i++)
        pair_close(kit, &pairs[i]);
}

/* Sockets open in a child that executes this program again. */
static int sockets_of_child(struct kit *kit)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        execl(kit->self, "conformance", "--sockets", (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) == 127)
        kit_fail(kit, "the child did not run");
    return WEXITSTATUS(status);
}

static void child(struct kit *kit)
{
    struct pair open, half, listening;
    int before = sockets_of_child(kit);

    pair_open(kit, &open);
    pair_listen(kit, &half);
    pair_poll(kit, &half);
    pair_listen(kit, &listening);
    int sockets = sockets_of_child(kit);
    if (sockets != before)
        kit_fail(kit, "an executed child has %d more sockets open", sockets - before);
    pair_pass(kit, &open, 1000);
    pair_finish(kit, &half);
    pair_pass(kit, &half, 1000);
    pair_close(kit, &listening);
    pair_close(kit, &half);
    pair_close(kit, &open);
}

static void nothing_left(struct kit *kit)
{
    enum { ROUNDS = 20 };
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;
    struct pair first;

    pair_open(kit, &first); /* devices stay open from the first use on */
    pair_close(kit, &first);
    int fds = kit_count("/proc/self/fd"), threads = kit_count("/proc/self/task");

    for (int i = 0; i < ROUNDS; i++) {
        struct pair pair;
        pair_open(kit, &pair);
        pair_pass(kit, &pair, 100000);
        pair_close(kit, &pair);
    }
    /* A closed sender may linger until its last bytes are acknowledged; later calls sweep it. */
    for (;;) {
        struct pair pair;
        int now = kit_count("/proc/self/fd"), tasks = kit_count("/proc/self/task");
        if (now <= fds && tasks <= threads)
            return;
        if (kit_now_ms() > end)
            kit_fail(kit, "%d descriptors and %d threads more than before", now - fds,
                     tasks - threads);
        pair_open(kit, &pair);
        pair_close(kit, &pair);
    }
}

struct apart {
    void *at[64];
    size_t bytes;
    int n;
};

/* Memory that a forked child does not get ("dc" in smaps). */
static void find_apart(struct apart *apart)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    unsigned long from = 0, to = 0, a, b;

    *apart = (struct apart){.n = 0};
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
            from = a, to = b;
        else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " dc") && apart->n < 64) {
            apart->at[apart->n++] = (void *)from;
            apart->bytes += to - from;
        }
    }
    if (file)
        fclose(file);
}

/* In the child: how many of them it can see. It stays until the parent closes the pipe. */
static int look(const struct apart *apart, int until)
{
    unsigned char in_memory;
    int seen = 0;
    char c;

    for (int i = 0; i < apart->n; i++)
        seen += mincore(apart->at[i], 1, &in_memory) == 0;
    while (read(until, &c, 1) > 0)
        continue;
    return seen;
}

/* A data loader's worker lives while the communicators of its parent work. */
static void forked(struct kit *kit)
{
    enum { MESSAGES = 600, RING = 512 * 64 };
    struct apart none, apart;
    struct pair pair;
    int pipes[2], status = 0;

    find_apart(&none);
    pair_open(kit, &pair);
    pair_pass(kit, &pair, 1000);
    find_apart(&apart);
    if (kit_fakeverbs("qps") && apart.bytes < none.bytes + 2 * RING)
        kit_fail(kit, "%zu bytes are kept from children, before the connection %zu", apart.bytes,
                 none.bytes);
    if (pipe2(pipes, O_CLOEXEC))
        kit_fail(kit, "no pipe");
    pid_t child = fork();
    if (child == 0) {
        close(pipes[1]);
        _exit(look(&apart, pipes[0]));
    }
    close(pipes[0]);
    for (int i = 0; child > 0 && i < MESSAGES; i++)
        pair_pass(kit, &pair, (size_t)i * 10);
    close(pipes[1]);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        kit_fail(kit, "the child did not run");
    if (WEXITSTATUS(status))
        kit_fail(kit, "the child sees %d places that devices write to", WEXITSTATUS(status));
    pair_close(kit, &pair);
}

const struct kit_case kit_process_cases[] = {
    {"second-init", second_init}, {"thousand", thousand},         {"child", child},
    {"forked", forked},           {"nothing-left", nothing_left}, {NULL, NULL},
};
