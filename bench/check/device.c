/* init, devices and getProperties. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/check/device.h"
#include "bench/check/kit.h"
#include "bench/host.h"

#define MAX_DEVICES 128               /* NCCL_MAX_NETDEVS */
#define MAX_BYTES   ((size_t)1 << 40) /* NCCL_MAX_NET_SIZE_BYTES */
#define MAX_SPEED   100000000         /* 100 Tb/s in Mb/s */
#define PTR_HOST    1
#define PTR_DMABUF  4

static void check_init(struct mn_check *check)
{
    mn_check_load(check);
    mn_check_step(check, "init");
    mn_check_ok(check, "init", mn_raw_init(&check->raw, mn_kit_quiet));
}

static void check_init_twice(struct mn_check *check)
{
    int ndev = 0;

    mn_check_init(check);
    mn_check_step(check, "second init");
    mn_check_ok(check, "the second init", mn_raw_init(&check->raw, mn_kit_quiet));
    mn_check_ok(check, "devices after the second init", mn_raw_devices(&check->raw, &ndev));
    if (ndev != check->n_dev)
        mn_check_fail(check, "%d devices before the second init, %d after", check->n_dev, ndev);
}

static void check_count(struct mn_check *check)
{
    int ndev = -1;

    mn_check_load(check);
    if (mn_raw_init(&check->raw, mn_kit_quiet) != 0)
        mn_check_skip(check, "init failed (rule device.init)");
    mn_check_step(check, "devices");
    mn_check_ok(check, "devices", mn_raw_devices(&check->raw, &ndev));
    if (ndev == 0)
        mn_check_fail(check, "0 devices: NCCL goes on to its own networks; the plugin's log says "
                             "why, NCCL_SOCKET_IFNAME or its configuration may be needed");
    if (ndev < 0 || ndev > MAX_DEVICES)
        mn_check_fail(check, "%d devices, allowed are 1 to %d", ndev, MAX_DEVICES);
    mn_check_note(check, "%d device%s", ndev, ndev == 1 ? "" : "s");
}

static void properties(struct mn_check *check, int dev, int poison, unsigned char *props)
{
    memset(props, poison, MN_RAW_PROPS_MAX);
    mn_check_step(check, "getProperties of device %d", dev);
    mn_check_ok(check, "getProperties", mn_raw_properties(&check->raw, dev, props));
}

static void check_fields(struct mn_check *check)
{
    _Alignas(16) unsigned char a[MN_RAW_PROPS_MAX], b[MN_RAW_PROPS_MAX];

    mn_check_init(check);
    for (int dev = 0; dev < check->n_dev; dev++) {
        const struct mn_raw_version *v = check->raw.version;
        properties(check, dev, 0xa5, a);
        properties(check, dev, 0x5a, b);
        for (size_t i = 0; i < v->n_fields; i++)
            if (memcmp(a + v->fields[i].offset, b + v->fields[i].offset, v->fields[i].size) != 0 &&
                a[v->fields[i].offset] == 0xa5 && b[v->fields[i].offset] == 0x5a)
                mn_check_fail(check,
                              "device %d: %s is not written; NCCL's struct is uninitialised "
                              "stack memory",
                              dev, v->fields[i].name);
        for (size_t i = v->props_size; i < MN_RAW_PROPS_MAX; i++)
            if (a[i] != 0xa5 || b[i] != 0x5a)
                mn_check_fail(check, "device %d: byte %zu written, the struct of v%d ends at %zu",
                              dev, i, v->version, v->props_size);
    }
}

void mn_device_read(struct mn_check *check, int dev, struct mn_raw_props *props)
{
    _Alignas(16) unsigned char raw[MN_RAW_PROPS_MAX];

    properties(check, dev, 0, raw);
    mn_raw_read_props(&check->raw, raw, props);
}

static void check_names(struct mn_check *check)
{
    const char *names[MAX_DEVICES];

    mn_check_init(check);
    if (check->n_dev > MAX_DEVICES)
        mn_check_skip(check, "too many devices (rule device.count)");
    for (int dev = 0; dev < check->n_dev; dev++) {
        struct mn_raw_props props;
        const char *problem;
        mn_device_read(check, dev, &props);
        problem = mn_check_text_problem(props.name, 255);
        if (problem)
            mn_check_fail(check, "device %d: name %s", dev, problem);
        names[dev] = props.name;
        for (int other = 0; other < dev; other++)
            if (strcmp(names[other], props.name) == 0)
                mn_check_fail(check, "devices %d and %d are both named \"%s\"", other, dev,
                              props.name);
    }
    mn_check_note(check, "\"%s\"%s", names[0], check->n_dev > 1 ? " and others" : "");
}

static void each_device(struct mn_check *check,
                        void (*judge)(struct mn_check *, int, const struct mn_raw_props *))
{
    mn_check_init(check);
    for (int dev = 0; dev < check->n_dev; dev++) {
        struct mn_raw_props props;
        mn_device_read(check, dev, &props);
        judge(check, dev, &props);
    }
}

static void judge_speed(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    if (p->speed <= 0 || p->speed > MAX_SPEED)
        mn_check_fail(check, "device %d: speed is %d Mb/s", dev, p->speed);
    mn_check_note(check, "device %d: %d Mb/s", dev, p->speed);
}

static void check_speed(struct mn_check *check)
{
    each_device(check, judge_speed);
}

static void judge_pci(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    struct stat st;
    char *real;

    mn_check_note(check, "%s", p->pci_path ? p->pci_path : "NULL: attached to the first CPU");
    if (!p->pci_path)
        return;
    if (p->pci_path[0] != '/' || p->pci_path[strlen(p->pci_path) - 1] == '/')
        mn_check_fail(check, "device %d: pciPath \"%s\" must start with a slash and not end in one",
                      dev, p->pci_path);
    if (stat(p->pci_path, &st) != 0 || !S_ISDIR(st.st_mode))
        mn_check_fail(check, "device %d: pciPath \"%s\" is not a directory here", dev, p->pci_path);
    real = realpath(p->pci_path, NULL);
    if (real && strcmp(real, p->pci_path) != 0)
        mn_check_fail(check, "device %d: pciPath \"%s\" is a symbolic link to %s", dev, p->pci_path,
                      real);
    free(real);
}

static void check_pci(struct mn_check *check)
{
    each_device(check, judge_pci);
}

static void judge_pointers(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    if (!(p->ptr_support & PTR_HOST))
        mn_check_fail(check, "device %d: ptrSupport is 0x%x, without NCCL_PTR_HOST", dev,
                      (unsigned)p->ptr_support);
}

static void check_pointers(struct mn_check *check)
{
    each_device(check, judge_pointers);
}

static void check_dmabuf(struct mn_check *check)
{
    mn_check_init(check);
    if (!(check->props.ptr_support & PTR_DMABUF) && mn_raw_has_dmabuf(&check->raw) &&
        mn_check_dialect(check, MN_DIALECT_DMABUF_ANYWAY))
        mn_check_fail(check, "ptrSupport has no NCCL_PTR_DMABUF (0x%x) but regMrDmaBuf is not NULL",
                      (unsigned)check->props.ptr_support);
    if ((check->props.ptr_support & PTR_DMABUF) && !mn_raw_has_dmabuf(&check->raw))
        mn_check_fail(check, "ptrSupport has NCCL_PTR_DMABUF but regMrDmaBuf is NULL");
}

static void judge_limits(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    if (p->max_comms < 1)
        mn_check_fail(check, "device %d: maxComms is %d", dev, p->max_comms);
    if (p->max_recvs < 1 || p->max_recvs > MN_RAW_MAX_RECVS)
        mn_check_fail(check, "device %d: maxRecvs is %d", dev, p->max_recvs);
    if (p->max_recvs != check->props.max_recvs)
        mn_check_fail(check, "maxRecvs is %d on device 0 and %d on device %d; both ends must agree",
                      check->props.max_recvs, p->max_recvs, dev);
    mn_check_note(check, "maxComms %d, maxRecvs %d", p->max_comms, p->max_recvs);
}

static void check_limits(struct mn_check *check)
{
    each_device(check, judge_limits);
}

static void judge_p2p_bytes(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    if (!p->has_v9)
        mn_check_skip(check, "v8 has no maxP2pBytes");
    if (p->max_p2p_bytes == 0 || p->max_p2p_bytes > MAX_BYTES)
        mn_check_fail(check,
                      "device %d: maxP2pBytes is %zu, allowed are 1 to 2^40: every "
                      "connection would fail",
                      dev, p->max_p2p_bytes);
}

static void check_p2p_bytes(struct mn_check *check)
{
    each_device(check, judge_p2p_bytes);
}

static void judge_vprops(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    if (!p->has_v9)
        mn_check_skip(check, "v8 has no vProps");
    if (p->n_devs < 1 || p->n_devs > 4)
        mn_check_fail(check, "device %d: vProps.ndevs is %d, allowed are 1 to 4", dev, p->n_devs);
    if (p->n_devs == 1 && p->devs0 != dev)
        mn_check_fail(check, "device %d: vProps names device %d", dev, p->devs0);
}

static void check_vprops(struct mn_check *check)
{
    each_device(check, judge_vprops);
}

static void judge_type(struct mn_check *check, int dev, const struct mn_raw_props *p)
{
    if (p->device_type != 0)
        mn_check_fail(check, "device %d: netDeviceType is %d, a host plugin has 0 (HOST)", dev,
                      p->device_type);
}

static void check_type(struct mn_check *check)
{
    each_device(check, judge_type);
}

/* Fusion is optional; a virtual device that was made is counted and described. */
static void check_vdevice(struct mn_check *check)
{
    const int devs[2] = {0, 1};
    int made = -1, called = 0, ndev = 0, result;
    struct mn_raw_props props;

    mn_check_init(check);
    mn_check_step(check, "makeVDevice");
    result = mn_raw_make_vdevice(&check->raw, check->n_dev > 1 ? 2 : 1, devs, &made, &called);
    if (!called || result) {
        mn_check_note(check, "%s",
                      called ? "no virtual device was made" : "there is no makeVDevice");
        return;
    }
    mn_check_ok(check, "devices", mn_raw_devices(&check->raw, &ndev));
    if (ndev != check->n_dev + 1)
        mn_check_fail(check, "%d devices before makeVDevice, %d after", check->n_dev, ndev);
    if (made != check->n_dev)
        mn_check_fail(check, "the virtual device is number %d, it must follow the %d others", made,
                      check->n_dev);
    mn_device_read(check, made, &props);
    if (props.n_devs < 1 || props.n_devs > check->raw.version->max_vdevs)
        mn_check_fail(check, "the virtual device has %d devices", props.n_devs);
}

/* A release that merges NICs asks for groups of one too; one that is refused is asked again and
 * again. */
static void check_vdevice_one(struct mn_check *check)
{
    mn_check_init(check);
    for (int dev = 0; dev < check->n_dev; dev++) {
        int made = -1, called = 0, result;
        mn_check_step(check, "makeVDevice of device %d alone", dev);
        result = mn_raw_make_vdevice(&check->raw, 1, &dev, &made, &called);
        if (!called) {
            mn_check_note(check, "there is no makeVDevice");
            return;
        }
        if (result && check->n_dev > 1)
            mn_check_fail(check, "a group of one device is refused with %s while there are %d",
                          mn_nccl_result_name(result), check->n_dev);
    }
}

static const struct mn_check_rule rules[] = {
    {"device.init", "init succeeds",
     "some NCCL releases crash when init fails: a plugin that cannot serve succeeds and reports 0 "
     "devices",
     check_init, .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetPluginInit: calls finalize after an init that "
                 "failed, through a slot that is NULL for v6 to v10",
     .breaks = "NCCL falls back to its own networks, or refuses to start.",
     .flags = MN_CHECK_FIRST},
    {"device.init_twice", "a second init is tolerated",
     "init comes again after all communicators are gone, or for each one, while others transfer",
     check_init_twice, .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetPluginInit: init for each communicator; "
                 "plugin/net/net_v10.cc again when all are gone",
     .breaks = "The second communicator of a process falls back to sockets."},
    {"device.count", "1 to 128 devices",
     "arrays of NCCL_MAX_NETDEVS (128) are indexed without a check", check_count,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 include/proxy.h, ncclProxyProgressState: arrays of 128 are indexed by "
                 "the device; plugin/net.cc, ncclNetPluginInit gives up a plugin with 0",
     .breaks = "NCCL falls back to its own networks, or overruns its arrays."},
    {"device.fields", "every property is written, and nothing behind them",
     "getProperties gets uninitialised stack memory of exactly that version's struct", check_fields,
     .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/net.cc, sendSetup: reads properties from uninitialised stack memory",
     .breaks = "NCCL decides by what happens to lie on its stack, differently in each run.",
     .flags = MN_CHECK_FIRST},
    {"device.name", "device names are unique and fit the topology XML",
     "the name identifies the device in the topology: unique, at most 255 bytes, XML-safe",
     check_names, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 graph/xml.cc, ncclTopoFillNet: finds a device by its name, and takes "
                 "the second of one name for the first",
     .breaks = "Two NICs are taken for one, or the topology cannot be read."},
    {"device.stable", "properties and their strings stay",
     "NCCL keeps the string pointers; they must stay valid and unchanged", mn_device_stable,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendSetup and recvSetup: read the properties again "
                 "for each connection; both must tell the same",
     .breaks = "The topology changes under a running job."},
    {"device.concurrent", "getProperties may be called by several threads at once",
     "service threads of different communicators call it in parallel", mn_device_concurrent,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxySetup: runs on the service thread of every "
                 "communicator of the process",
     .breaks = "Ranks of one process see different devices and build different rings."},
    {"device.speed", "the speed is plausible",
     "speed is Mb/s per port; 0 and less is replaced by 10000", check_speed,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 graph/topo.cc replaces 0 and less by 10000: channels are planned with "
                 "a wrong number",
     .breaks = "NCCL plans too few or too many channels."},
    {"device.pci", "pciPath is a real sysfs directory or NULL",
     "it is the resolved directory of the PCI function without a trailing slash; NULL attaches to "
     "the first CPU",
     check_pci, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 graph/xml.cc, ncclTopoFillNet: takes what stands behind the last slash "
                 "for the bus id",
     .breaks = "GPUs are paired with the wrong NIC."},
    {"device.pointers", "host memory is supported",
     "NCCL stages through host memory and uses NCCL_PTR_HOST without asking", check_pointers,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyConnect: registers host buffers with "
                 "NCCL_PTR_HOST without asking",
     .breaks = "NCCL stages nothing and the first transfer fails."},
    {"device.dmabuf", "regMrDmaBuf and NCCL_PTR_DMABUF agree",
     "RCCL calls regMrDmaBuf whenever it is not NULL, whatever ptrSupport says", check_dmabuf,
     .grade = MN_CHECK_SHOULD,
     .evidence = "RCCL of ROCm 7 transport/net.cc calls regMrDmaBuf whenever it is there. NCCL's "
                 "own IB has it without the bit, and its function works",
     .breaks = "RCCL registers GPU memory with a plugin that cannot use it."},
    {"device.limits", "maxComms and maxRecvs are at least 1",
     "maxRecvs above 1 turns on shared connections and must be equal everywhere", check_limits,
     .grade = MN_CHECK_STYLE,
     .evidence = "NCCL 2.27 transport/net.cc shares connections if maxRecvs is above 1; less than "
                 "1 is taken as 1, maxComms is only recorded",
     .breaks = "The first connection is refused, or receives are never grouped."},
    {"device.p2p_bytes", "maxP2pBytes is between 1 and 2^40",
     "any other value makes every connection fail with ncclInternalError", check_p2p_bytes,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxySetup: ncclInternalError unless maxP2pBytes "
                 "is between 1 and 2^40",
     .breaks = "Every connection fails with ncclInternalError.", .since = 9},
    {"device.vprops", "vProps describes the device itself",
     "a physical device has ndevs 1 and devs[0] its own number; a wrong ndevs overruns an array",
     check_vprops, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net/net_v9.cc, ncclNet_getProperties: copies ndevs entries "
                 "without a bound",
     .breaks = "NCCL overruns an array while it reads the devices.", .since = 9},
    {"device.type", "the device type is HOST",
     "other types hand the data path to GPU kernels of a matching version", check_type,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net.cc, ncclNetCheckDeviceVersion: refuses a device type it "
                 "does not know",
     .breaks = "NCCL refuses the plugin, or starts kernels for a device that is not there.",
     .since = 7},
    {"device.consistent", "every version describes the same devices",
     "the release decides which version is used; nodes and libraries of one job must agree",
     mn_device_consistent, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (devices, getProperties): each release reads one version only; users "
                 "change the release and find another topology",
     .breaks = "An update of NCCL changes the topology."},
    {"device.agrees", "devices agree with the mesh file and with what the host has",
     "speed, pciPath and number describe the NICs behind the devices: every node plans with its "
     "own",
     mn_device_agrees, .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 graph/topo.cc plans with what is reported. NCCL's own IB reports the "
                 "verbs port's speed, not the netdev's",
     .breaks = "Traffic is planned over NICs that are slower, elsewhere, or not meant."},
    {"device.vdevice", "a virtual device that was made is counted",
     "virtual devices follow the physical ones and keep their numbers; refusing is allowed",
     check_vdevice, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 graph/topo.cc, ncclTopoMakeVNics: counts with devices again, and reads "
                 "the new device's properties",
     .breaks = "Merged NICs are lost, or another device is used in their place.", .since = 9},
    {"device.vdevice_one", "a group of one device can be merged, where merging is offered",
     "makeVDevice is called for every group, also of one device", check_vdevice_one,
     .profile = "nccl-2.26",
     .evidence = "NCCL 2.26 graph/topo.cc, ncclTopoMakeVNics: starts over for ever when a group of "
                 "one device is refused",
     .breaks = "NCCL 2.26 tries for ever.", .since = 9, .until = 10,
     .dialect = MN_DIALECT_MERGES_ONE},
};

MN_CHECK_FAMILY(mn_check_device_family, "device", "init, devices and properties", rules);
