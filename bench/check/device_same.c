/* One device, described again, by others, or through another version: the same. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "bench/check/device.h"
#include "bench/check/kit.h"

#define RACE_THREADS 4
#define RACE_CALLS   2000

struct caller {
    struct mn_check *check;
    int dev;
    struct mn_raw_props first;
    char name[256], pci_path[512];
    int differed;
};

static void remember(struct caller *caller)
{
    snprintf(caller->name, sizeof caller->name, "%s", caller->first.name ? caller->first.name : "");
    snprintf(caller->pci_path, sizeof caller->pci_path, "%s",
             caller->first.pci_path ? caller->first.pci_path : "");
}

static int same(const struct caller *caller, const struct mn_raw_props *p)
{
    const struct mn_raw_props *f = &caller->first;

    return strcmp(p->name ? p->name : "", caller->name) == 0 &&
           strcmp(p->pci_path ? p->pci_path : "", caller->pci_path) == 0 && p->guid == f->guid &&
           p->ptr_support == f->ptr_support && p->port == f->port && p->speed == f->speed &&
           p->max_comms == f->max_comms && p->max_recvs == f->max_recvs &&
           p->device_type == f->device_type && p->max_p2p_bytes == f->max_p2p_bytes;
}

static void *call_properties(void *arg)
{
    struct caller *caller = arg;

    for (int i = 0; i < RACE_CALLS && !caller->differed; i++) {
        _Alignas(16) unsigned char raw[MN_RAW_PROPS_MAX];
        struct mn_raw_props props;
        if (mn_raw_properties(&caller->check->raw, caller->dev, raw) != 0) {
            caller->differed = 1;
            break;
        }
        mn_raw_read_props(&caller->check->raw, raw, &props);
        caller->differed = !same(caller, &props) || !same(caller, &caller->first);
    }
    return NULL;
}

void mn_device_stable(struct mn_check *check)
{
    struct caller caller = {.check = check};
    pthread_t thread;

    mn_check_init(check);
    mn_device_read(check, 0, &caller.first);
    remember(&caller);
    call_properties(&caller);
    if (caller.differed || !same(&caller, &caller.first))
        mn_check_fail(check, "device 0: a later call gave other values, or changed the strings of "
                             "the first one");
    mn_check_step(check, "getProperties from another thread, which then ends");
    if (pthread_create(&thread, NULL, call_properties, &caller) != 0)
        mn_check_skip(check, "no second thread can be started");
    pthread_join(thread, NULL);
    if (caller.differed || !same(&caller, &caller.first))
        mn_check_fail(check, "device 0: another thread saw other values, or changed the strings");
}

void mn_device_concurrent(struct mn_check *check)
{
    struct caller callers[RACE_THREADS];
    pthread_t threads[RACE_THREADS];
    int n = 0;

    mn_check_init(check);
    for (int i = 0; i < RACE_THREADS; i++) {
        callers[i] = (struct caller){.check = check, .dev = i % check->n_dev};
        mn_device_read(check, callers[i].dev, &callers[i].first);
        remember(&callers[i]);
    }
    mn_check_step(check, "getProperties from %d threads at once", RACE_THREADS);
    while (n < RACE_THREADS && !pthread_create(&threads[n], NULL, call_properties, &callers[n]))
        n++;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++)
        if (callers[i].differed)
            mn_check_fail(check,
                          "device %d: of %d threads calling at once, one failed or saw other "
                          "values",
                          callers[i].dev, n);
}

/* NCCL picks one version, another release another: they describe the same devices. */
/* Of ptrSupport, in which versions must agree: DMA-BUFs came with v6, and the connections of v4,
 * which block, may be for host memory alone. */
static int bits_of(int version)
{
    return version < 5 ? NCCL_PTR_HOST : version < 6 ? NCCL_PTR_HOST | NCCL_PTR_CUDA : ~0;
}

void mn_device_consistent(struct mn_check *check)
{
    mn_check_init(check);
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++) {
        struct mn_raw other = {.lib = check->raw.lib};
        struct mn_raw_props props;
        struct mn_check as = *check;
        int ndev = 0;
        if (v->version == check->raw.version->version || !mn_raw_find(&other, v->version))
            continue;
        as.raw = other;
        mn_check_step(check, "init through v%d too", v->version);
        mn_check_ok(check, "init through another version", mn_raw_init(&as.raw, mn_kit_quiet));
        mn_check_ok(check, "devices through another version", mn_raw_devices(&as.raw, &ndev));
        if (ndev != check->n_dev)
            mn_check_fail(check, "v%d has %d devices, v%d has %d", v->version, ndev,
                          check->raw.version->version, check->n_dev);
        for (int dev = 0; dev < ndev; dev++) {
            struct mn_raw_props own;
            mn_device_read(&as, dev, &props);
            mn_device_read(check, dev, &own);
            if (props.name && own.name && strcmp(props.name, own.name) != 0)
                mn_check_fail(check, "device %d is \"%s\" in v%d and \"%s\" in v%d", dev,
                              props.name, v->version, own.name, check->raw.version->version);
            if (props.speed != own.speed || (props.ptr_support ^ own.ptr_support) &
                                                bits_of(v->version) &
                                                bits_of(check->raw.version->version))
                mn_check_fail(check, "device %d: speed or ptrSupport differ between v%d and v%d",
                              dev, v->version, check->raw.version->version);
        }
    }
}
