/* What the plugin does to its process: second init, many connections, children, what is left. */
#include "tests/drivers/conformance/kit.h"

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

const struct kit_case kit_process_cases[] = {
    {"second-init", second_init},   {"thousand", thousand}, {"child", child},
    {"nothing-left", nothing_left}, {NULL, NULL},
};
