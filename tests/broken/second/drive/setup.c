/* init and properties. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/broken/second/drive/drive.h"

#define NAME_AT   0
#define GUID_AT   16
#define VPROPS_AT 64

static void affinity(struct net *n)
{
    cpu_set_t before, after;
    struct pair p;

    sched_getaffinity(0, sizeof before, &before);
    start(n);
    make_pair(n, n->ctx, &p);
    sched_getaffinity(0, sizeof after, &after);
    if (!CPU_EQUAL(&before, &after))
        broken("the thread runs on %d processors, before on %d", CPU_COUNT(&after),
               CPU_COUNT(&before));
}

static void signal_mask(struct net *n)
{
    sigset_t before, after;
    struct pair p;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    start(n);
    make_pair(n, n->ctx, &p);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 32; i++)
        expect_int(sigismember(&after, i), sigismember(&before, i), "a signal is blocked");
}

static void prints(struct net *n)
{
    int file = memfd_create("out", 0);
    struct pair p;

    dup2(file, STDOUT_FILENO);
    start(n);
    make_pair(n, n->ctx, &p);
    fflush(stdout);
    if (lseek(file, 0, SEEK_END) != 0)
        broken("it prints on stdout");
}

static void second_init(struct net *n)
{
    struct pair p;
    void *ctx;

    start(n);
    listen_for(n, n->ctx, &p);
    must(net_connect(n, n->ctx, 0, p.handle, &p.send), "connect");
    must(net_init(n, &ctx, 7), "init again");
    meet(n, n->ctx, &p);
    register_both(n, &p);
    transfer_bytes(n, &p, 1000);
}

static void *init_on_thread(void *n)
{
    start(n);
    return NULL;
}

static void init_thread(struct net *n)
{
    pthread_t thread;
    struct pair p;

    pthread_create(&thread, NULL, init_on_thread, n);
    pthread_join(thread, NULL);
    make_pair(n, n->ctx, &p);
    transfer_bytes(n, &p, 1000);
}

static void *field(struct net *n, int dev, size_t at, void *out, size_t size)
{
    unsigned char props[256];

    must(net_properties(n, dev, props), "getProperties");
    memcpy(out, props + at, size);
    return out;
}

static void names(struct net *n)
{
    char *one, *other;

    start(n);
    field(n, 0, NAME_AT, &one, sizeof one);
    field(n, 1, NAME_AT, &other, sizeof other);
    if (strcmp(one, other) == 0)
        broken("two devices have the name %s", one);
}

static void names_stay(struct net *n)
{
    char *name, *later, copy[256];

    start(n);
    field(n, 0, NAME_AT, &name, sizeof name);
    snprintf(copy, sizeof copy, "%s", name);
    for (int i = 0; i < 10; i++)
        field(n, i % 2, NAME_AT, &later, sizeof later);
    if (strcmp(name, copy) != 0)
        broken("the name %s is another by now", copy);
}

struct asker {
    struct net *net;
    int dev;
    uint64_t guid;
};

static void *ask(void *arg)
{
    const struct asker *a = arg;
    const double until = now_s() + 2;
    uint64_t guid;

    while (now_s() < until)
        for (int i = 0; i < 1000; i++) {
            field(a->net, a->dev, GUID_AT, &guid, sizeof guid);
            if (guid != a->guid)
                broken("device %d has the guid of another", a->dev);
        }
    return NULL;
}

static void props_threads(struct net *n)
{
    struct asker askers[4];
    pthread_t threads[4];

    start(n);
    for (int i = 0; i < 4; i++) {
        askers[i] = (struct asker){n, i % 2, 0};
        field(n, i % 2, GUID_AT, &askers[i].guid, sizeof(uint64_t));
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ask, &askers[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static int is_padding(int version, size_t at)
{
    if (version == 8)
        return at >= 60;
    if (version >= 9 && version <= 11)
        return (at >= 72 && at < 88) || at >= 108;
    return version == 12 && at >= 72 && at < 104;
}

static void props_written(struct net *n)
{
    unsigned char one[256], other[256];

    start(n);
    memset(one, 0x5a, sizeof one);
    memset(other, 0xa5, sizeof other);
    must(net_properties(n, 0, one), "getProperties");
    must(net_properties(n, 0, other), "getProperties");
    for (size_t i = 0; i < sizeof one; i++) {
        if (i < props_size(n->version) && one[i] != other[i] && !is_padding(n->version, i))
            broken("byte %zu of the properties is not written", i);
        if (i >= props_size(n->version) && (one[i] != 0x5a || other[i] != 0xa5))
            broken("byte %zu is written, behind the properties", i);
    }
}

static void props_limits(struct net *n)
{
    int vprops[2];
    size_t max;

    start(n);
    field(n, 1, VPROPS_AT, vprops, sizeof vprops);
    field(n, 1, n->version >= 12 ? 104 : 88, &max, sizeof max);
    expect_int(vprops[0], 1, "vProps.ndevs");
    expect_int(vprops[1], 1, "vProps.devs[0] of device 1");
    if (max == 0 || max > NCCL_MAX_NET_SIZE_BYTES)
        broken("maxP2pBytes is %zu", max);
}

static void props_often(struct net *n)
{
    char *name;
    int before;

    start(n);
    before = count_fds();
    for (int i = 0; i < 200; i++)
        field(n, 0, NAME_AT, &name, sizeof name);
    expect_int(count_fds(), before, "descriptors");
}

static void devices_again(struct net *n)
{
    int first, later;

    start(n);
    must(net_devices(n, &first), "devices");
    must(net_devices(n, &later), "devices");
    expect_int(later, first, "devices");
}

const struct scenario of_setup[] = {
    {"affinity", affinity},
    {"signal_mask", signal_mask},
    {"prints", prints},
    {"second_init", second_init},
    {"init_thread", init_thread},
    {"names", names},
    {"names_stay", names_stay},
    {"props_threads", props_threads},
    {"props_written", props_written},
    {"props_limits", props_limits},
    {"props_often", props_often},
    {"devices_again", devices_again},
    {NULL, NULL},
};
