#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/apart.h"
#include "topo/cpu.h"

enum mn_err mn_hwloc_load(hwloc_topology_t *topology, struct mn_diag *diag)
{
    if (hwloc_topology_init(topology) != 0)
        return mn_fail(diag, MN_ERR_NOMEM, "hwloc: cannot make a topology");
    /* The Linux back end finds PCI devices in sysfs. Of the others, pci leaks (libpciaccess),
     * opencl and gl start drivers. */
    static const char *const unwanted[] = {"pci", "opencl", "gl"};
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc_topology_set_components(*topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      unwanted[i]);
    hwloc_topology_set_io_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(*topology) != 0) {
        hwloc_topology_destroy(*topology);
        return mn_fail_errno(diag, "hwloc: cannot read this host");
    }
    return MN_OK;
}

hwloc_obj_t mn_hwloc_pci(hwloc_topology_t topology, const char *address)
{
    unsigned domain, bus, slot, function;

    if (sscanf(address, "%8x:%2x:%2x.%1x", &domain, &bus, &slot, &function) != 4)
        return NULL;
    return hwloc_get_pcidev_by_busid(topology, domain, bus, slot, function);
}

/* "0", "2,4-7": numbers, ranges upwards, commas between. */
static int is_list(const char *text)
{
    for (;;) {
        char *end;
        if (!isdigit((unsigned char)*text))
            return 0;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            text = end + 1;
            if (!isdigit((unsigned char)*text))
                return 0;
            last = strtoul(text, &end, 10);
        }
        if (last < first || last > 1u << 20)
            return 0;
        if (!*end)
            return 1;
        if (*end != ',')
            return 0;
        text = end + 1;
    }
}

static enum mn_err list_of(hwloc_topology_t topology, const char *pin, hwloc_cpuset_t list,
                           struct mn_diag *diag)
{
    hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
    enum mn_err err = MN_OK;

    hwloc_bitmap_list_sscanf(list, pin);
    if (!hwloc_bitmap_isincluded(list, allowed)) {
        char *have;
        hwloc_bitmap_list_asprintf(&have, allowed);
        err = mn_fail(diag, MN_ERR_CONFIG,
                      "--pin %s: this process may use the CPUs %s; give some of them", pin, have);
        free(have);
    }
    return err;
}

static enum mn_err check_list(const void *pin, void *nothing, struct mn_diag *diag)
{
    hwloc_topology_t topology;

    (void)nothing;
    enum mn_err err = mn_hwloc_load(&topology, diag);
    if (err)
        return err;
    hwloc_cpuset_t list = hwloc_bitmap_alloc();
    err = list_of(topology, pin, list, diag);
    hwloc_bitmap_free(list);
    hwloc_topology_destroy(topology);
    return err;
}

enum mn_err mn_cpu_check(const char *pin, struct mn_diag *diag)
{
    if (!strcmp(pin, "auto") || !strcmp(pin, "none"))
        return MN_OK;
    if (!is_list(pin))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--pin '%s': expected auto, none or CPUs such as 0,2,4-7", pin);
    return mn_apart("hwloc", check_list, pin, NULL, 0, diag);
}

void mn_cpu_near(hwloc_topology_t topology, const char *pci_path, hwloc_cpuset_t near)
{
    const char *address = pci_path ? strrchr(pci_path, '/') : NULL;
    hwloc_obj_t device = address ? mn_hwloc_pci(topology, address + 1) : NULL;
    hwloc_obj_t parent = device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;

    if (parent && parent->cpuset && !hwloc_bitmap_iszero(parent->cpuset))
        hwloc_bitmap_copy(near, parent->cpuset);
    else
        hwloc_bitmap_copy(near, hwloc_topology_get_topology_cpuset(topology));
}

/* Cores when there are enough, else the processors of cores. */
static int share_by(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_cpuset_t within,
                    int part, int parts, hwloc_cpuset_t share)
{
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, within, type);

    if (n < parts)
        return 0;
    hwloc_bitmap_zero(share);
    for (int i = part * n / parts; i < (part + 1) * n / parts; i++) {
        hwloc_obj_t object =
            hwloc_get_obj_inside_cpuset_by_type(topology, within, type, (unsigned)i);
        hwloc_bitmap_or(share, share, object->cpuset);
    }
    return 1;
}

int mn_cpu_share(hwloc_topology_t topology, hwloc_const_cpuset_t within, int part, int parts,
                 hwloc_cpuset_t share)
{
    hwloc_bitmap_copy(share, within);
    return parts <= 1 || share_by(topology, HWLOC_OBJ_CORE, within, part, parts, share);
}

/* A list shares out what it names, were it half of a core each; processes beyond that take turns.
 */
static void share_list(hwloc_topology_t topology, hwloc_const_cpuset_t list, int part, int parts,
                       hwloc_cpuset_t share)
{
    int n = hwloc_bitmap_weight(list);

    if (parts > n) {
        part %= n;
        parts = n;
    }
    if (!mn_cpu_share(topology, list, part, parts, share))
        share_by(topology, HWLOC_OBJ_PU, list, part, parts, share);
}

static enum mn_err choose(hwloc_topology_t topology, const char *pin, const char *pci_path,
                          int part, int parts, hwloc_cpuset_t set, struct mn_diag *diag)
{
    hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
    hwloc_cpuset_t within = hwloc_bitmap_alloc();
    enum mn_err err = MN_OK;

    if (!strcmp(pin, "auto")) {
        mn_cpu_near(topology, pci_path, within);
        hwloc_bitmap_and(within, within, allowed);
        mn_cpu_share(topology, within, part, parts, set);
    } else {
        err = list_of(topology, pin, within, diag);
        if (!err)
            share_list(topology, within, part, parts, set);
    }
    hwloc_bitmap_free(within);
    return err;
}

struct wish {
    const char *pin, *pci_path;
    int part, parts;
    pid_t pid;
};

static enum mn_err bind_as(const void *arg, void *nothing, struct mn_diag *diag)
{
    const struct wish *w = arg;
    hwloc_topology_t topology;

    (void)nothing;
    enum mn_err err = mn_hwloc_load(&topology, diag);
    if (err)
        return err;
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    err = choose(topology, w->pin, w->pci_path, w->part, w->parts, set, diag);
    if (!err && !hwloc_bitmap_iszero(set) &&
        hwloc_set_proc_cpubind(topology, w->pid, set, HWLOC_CPUBIND_PROCESS))
        err = mn_fail_errno(diag, "--pin %s", w->pin);
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    return err;
}

enum mn_err mn_cpu_pin(const char *pin, const char *pci_path, int part, int parts,
                       struct mn_diag *diag)
{
    char bound[MN_CPU_TEXT];
    struct wish wish = {pin, pci_path, part, parts, getpid()};
    int is_auto = pin && !strcmp(pin, "auto");

    mn_cpu_pinned(bound);
    if (!pin || !strcmp(pin, "none") || (is_auto && bound[0]))
        return MN_OK;
    if (!is_auto && !is_list(pin))
        return mn_cpu_check(pin, diag);
    enum mn_err err = mn_apart("hwloc", bind_as, &wish, NULL, 0, diag);
    /* Where the host forbids it, auto measures without. */
    return is_auto ? MN_OK : err;
}
