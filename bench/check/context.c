/* Contexts, one a communicator, from v11 on: made by init, used by listen and connect, ended by
 * finalize, and the library unloaded after the last. */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/kit.h"
#include "bench/host.h"

#define CYCLES 24
#define PAGE   4096
#define LOADS  3

static void converse(struct mn_check *check, unsigned seed)
{
    struct mn_pair pair;

    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 20000, 20000, seed);
    mn_kit_close(check, &pair);
}

/* Two at once, each with traffic of its own; one ends while the other has requests in flight. */
static void check_separate(struct mn_check *check)
{
    struct mn_check second;
    struct mn_pair stays, ends;
    struct mn_buf out, in;
    struct mn_req send, recv;

    mn_check_init(check);
    second = mn_kit_communicator(check, 2);
    mn_kit_connect(check, &stays);
    mn_kit_connect(&second, &ends);
    mn_kit_pass(&second, &ends, 1000, 1000, 1);
    mn_kit_buf(check, stays.send, 100000, 0, &out);
    mn_kit_buf(check, stays.recv, 100000, 0, &in);
    mn_kit_fill(&out, 100000, 2);
    mn_kit_irecv(check, stays.recv, &in, 100000, 0, &recv);
    mn_kit_test(check, &recv);
    mn_kit_close(&second, &ends);
    mn_check_step(check, "finalize of one communicator while another has a receive posted");
    mn_check_ok(check, "finalize", mn_raw_finalize(&second.raw));
    mn_kit_isend(check, stays.send, &out, 100000, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    mn_kit_expect(check, &in, 100000, 2, "another communicator was finalized meanwhile");
    mn_kit_close(check, &stays);
    second = mn_kit_communicator(check, 3);
    converse(&second, 3);
    converse(check, 4);
    mn_check_ok(check, "finalize", mn_raw_finalize(&second.raw));
    mn_kit_finalize(check);
}

/* Another communicator starts while requests of the first are in flight. */
static void check_init_live(struct mn_check *check)
{
    struct mn_check second;
    struct mn_buf out, in;
    struct mn_req send, recv;
    struct mn_pair pair;
    int early;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 100000, 0, &out);
    mn_kit_buf(check, pair.recv, 100000, 0, &in);
    mn_kit_fill(&out, 100000, 1);
    early = mn_kit_isend_early(check, &pair, &out, 100000, &in, &send, &recv);
    second = mn_kit_communicator(check, 2);
    if (!early)
        mn_kit_irecv(check, pair.recv, &in, 100000, 0, &recv);
    mn_kit_wait2(check, &recv, &send);
    mn_kit_expect(check, &in, 100000, 1, "another communicator was initialised meanwhile");
    converse(&second, 2);
    mn_kit_close(check, &pair);
    mn_kit_finalize(&second);
    mn_kit_finalize(check);
}

/* At the end of a page that goes away, so that a kept pointer is a fault of its own. */
static void *lend(struct mn_check *check, const void *data, size_t size, unsigned char **page)
{
    *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*page == MAP_FAILED)
        mn_check_skip(check, "no memory");
    return memcpy(*page + PAGE - (size + 7) / 8 * 8, data, size);
}

static void check_config_copied(struct mn_check *check)
{
    ncclNetCommConfig_v11_t config = {.trafficClass = -1};
    unsigned char *page;
    struct mn_check second;

    mn_check_init(check);
    second = *check;
    mn_check_step(check, "init with a configuration that lives for the call only");
    mn_check_ok(check, "init",
                (int)check->raw.slots.init_v11(&second.raw.ctx, 2,
                                               lend(check, &config, sizeof config, &page),
                                               (ncclDebugLogger_t)(void (*)(void))mn_kit_quiet,
                                               NULL));
    munmap(page, PAGE);
    mn_check_step(check, "listen and connect after the configuration is gone");
    converse(&second, 1);
    mn_kit_finalize(&second);
    mn_kit_finalize(check);
}

static void check_net_attr(struct mn_check *check)
{
    ncclNetAttr_v11_t attr = {.sendCommAttr = {1, 1, 1, 1}, .recvCommAttr = {1, 1, 1, 1}, .op = 2};
    unsigned char *page;
    struct mn_pair pair;
    int called;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (unsigned i = 0; i < 4; i++) {
        attr.op = 1u << i;
        mn_check_step(check, "setNetAttr with attributes that live for the call only");
        mn_raw_set_attr(&check->raw, lend(check, &attr, sizeof attr, &page), &called);
        munmap(page, PAGE);
        if (!called) {
            mn_check_note(check, "there is no setNetAttr");
            return;
        }
        mn_kit_pass(check, &pair, 5000, 5000, i);
    }
    mn_kit_close(check, &pair);
    mn_kit_finalize(check);
}

/* Some releases call finalize after an init that failed, with what init left in *ctx: NULL. */
static void check_finalize_null(struct mn_check *check)
{
    struct mn_raw none;

    mn_check_init(check);
    none = check->raw;
    none.ctx = NULL;
    mn_check_step(check, "finalize of NULL beside a communicator");
    mn_raw_finalize(&none);
    converse(check, 1);
    mn_kit_finalize(check);
    mn_check_step(check, "finalize of NULL after the last communicator");
    mn_raw_finalize(&none);
}

/* What an abort leaves: listen comms, and connections nobody finished. */
static void leave_open(struct mn_check *check)
{
    struct mn_pair listens, half, whole;

    mn_kit_listen(check, 0, &listens);
    mn_kit_listen(check, 0, &half);
    mn_kit_try_connect(check, &half);
    mn_kit_connect(check, &whole);
}

static void check_finalize_open(struct mn_check *check)
{
    mn_check_init(check);
    for (unsigned i = 0; i < 3; i++) {
        struct mn_check aborted = mn_kit_communicator(check, 2 + i);
        leave_open(&aborted);
        mn_check_step(check, "finalize with comms open, some of them half");
        mn_check_ok(check, "finalize", mn_raw_finalize(&aborted.raw));
        converse(check, i);
    }
    mn_kit_finalize(check);
}

static void abort_often(struct mn_check *check)
{
    for (unsigned i = 0; i < CYCLES; i++) {
        struct mn_check aborted = mn_kit_communicator(check, 2 + i);
        leave_open(&aborted);
        mn_check_step(check, "finalize with comms open, time %u", i + 1);
        mn_check_ok(check, "finalize", mn_raw_finalize(&aborted.raw));
    }
}

/* What is freed on a thread of the plugin may take a moment. */
static int settled(struct mn_check *check, int (*count)(void), int wanted)
{
    int now;

    while ((now = count()) > wanted && !mn_check_expired(check))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return now;
}

static void check_finalize_descriptors(struct mn_check *check)
{
    int before, after;

    mn_check_init(check);
    abort_often(check);
    before = mn_check_count_fds();
    abort_often(check);
    after = settled(check, mn_check_count_fds, before + CYCLES / 2);
    if (after > before + CYCLES / 2)
        mn_check_fail(check,
                      "%d descriptors before %d communicators were aborted and finalized, %d after",
                      before, CYCLES, after);
    mn_check_note(check, "%d before, %d after %d communicators", before, after, CYCLES);
}

static void check_finalize_threads(struct mn_check *check)
{
    const int before = mn_check_count_threads();
    int after;

    mn_check_init(check);
    converse(check, 1);
    mn_kit_finalize(check);
    after = settled(check, mn_check_count_threads, before);
    if (after > before)
        mn_check_fail(check, "%d threads before the library was loaded, %d after the last finalize",
                      before, after);
}

/* As 2.28 and newer do: unloaded after the last communicator, loaded again for the next. */
static void check_unload(struct mn_check *check)
{
    for (unsigned i = 0; i < LOADS; i++) {
        mn_check_init(check);
        converse(check, i);
        mn_kit_finalize(check);
        mn_check_step(check, "dlclose, time %u", i + 1);
        dlclose(check->raw.lib);
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* for threads left behind */
    }
}

/* As 2.22 to 2.25 do, and 2.28 with these versions: there is no finalize to prepare for it. */
static void check_unload_old(struct mn_check *check)
{
    for (unsigned i = 0; i < LOADS; i++) {
        struct mn_pair pair;
        mn_check_init(check);
        mn_kit_connect(check, &pair);
        mn_kit_pass(check, &pair, 10000, 10000, i);
        mn_kit_close(check, &pair);
        mn_check_step(check, "dlclose without finalize, time %u", i + 1);
        dlclose(check->raw.lib);
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* for threads left behind */
    }
}

static const struct mn_check_rule rules[] = {
    {"context.separate", "communicators of one process are independent",
     "init makes a context for each communicator; finalize ends that one and no other",
     check_separate, .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetPluginFinalize: finalize of one communicator "
                 "while others run",
     .breaks = "Destroying one communicator breaks another.", .since = 11},
    {"context.init_live", "init leaves the traffic of other communicators alone",
     "init is called for each communicator, while others of the process transfer", check_init_live,
     .profile = "nccl-2.28",
     .evidence =
         "NCCL 2.28 plugin/net.cc, ncclNetPluginInit: init of one communicator while others run",
     .breaks = "Creating a communicator breaks those that run.", .since = 11},
    {"context.config_copied", "the configuration is copied in init",
     "config points to a variable on the caller's stack", check_config_copied,
     .profile = "nccl-2.28",
     .evidence =
         "NCCL 2.28 plugin/net.cc, ncclNetPluginInit: the configuration is a variable on its stack",
     .breaks = "Connections fail or crash at random.", .since = 11},
    {"context.net_attr", "the attributes are read during setNetAttr only",
     "netAttr is valid during the call", check_net_attr, .profile = "nccl-2.28",
     .evidence =
         "NCCL 2.28 transport/net.cc, setXferNetAttrs: the attributes are a variable on its stack",
     .breaks = "Transfers crash at random.", .since = 11},
    {"context.finalize_null", "finalize of NULL is harmless",
     "after an init that failed finalize is called all the same, with what is in *ctx",
     check_finalize_null, .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetPluginInit: calls finalize after an init that "
                 "failed (fixed in 2.29.7)",
     .breaks = "A node where the plugin cannot start crashes instead of saying why.", .since = 11,
     .dialect = MN_DIALECT_FINALIZE_FAILED},
    {"context.finalize_open", "finalize takes what was left open",
     "after an abort listen comms and half-open connections were never closed", check_finalize_open,
     .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetPluginFinalize: after an abort listen comms and "
                 "half-open connections were never closed",
     .breaks = "Aborting a job reports further errors, or hangs.", .since = 11},
    {"context.finalize_descriptors", "finalize closes what was left open",
     "after an abort listen comms and half-open connections were never closed",
     check_finalize_descriptors, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (finalize): NCCL does not count, and its own Socket leaves the "
                 "descriptors of aborted communicators",
     .breaks = "A service that survives aborts runs out of descriptors.", .since = 11},
    {"context.finalize_threads", "no thread outlives the last communicator",
     "the library may be unloaded right after the last finalize", check_finalize_threads,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.28 plugin/plugin_open.cc, ncclClosePluginLib unmaps the library after the "
                 "last finalize, unless it is linked with nodelete",
     .breaks = "Unloading the library crashes the process.", .since = 11},
    {"context.unload", "the library can be unloaded and loaded again",
     "dlclose follows the last finalize, dlopen the next init, in one process", check_unload,
     .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetPluginUnload: dlclose after the last "
                 "communicator, dlopen for the next",
     .breaks = "The second job of a process crashes.", .since = 11, .dialect = MN_DIALECT_UNLOADS},
    {"context.unload_old", "the library can be unloaded after its last connection was closed",
     "dlclose follows the last communicator, and these versions have no finalize to announce it",
     check_unload_old, .profile = "nccl-2.22",
     .evidence = "NCCL 2.22 net.cc, ncclNetPluginUnload: dlclose after the last communicator of a "
                 "plugin that has no finalize",
     .breaks = "Destroying the last communicator crashes the process.", .since = 5, .until = 10,
     .dialect = MN_DIALECT_UNLOADS},
};

MN_CHECK_FAMILY(mn_check_context_family, "context", "contexts and unloading", rules);
