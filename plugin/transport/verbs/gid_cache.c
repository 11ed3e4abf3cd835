/* The ports and GID tables as they were read last, so that connections need not ask the kernel: a
 * device is read when an address needs it, and again after an event about its ports. */
#include "plugin/transport/verbs/device_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/conn.h"

/* No event tells of it: a device that has none, and a device that belongs to the NIC from now on.
 */
#define STALE_MS 1000
/* "no GID" or "the port is down" of a moment ago is not asked again. */
#define RECENT_MS 100

/* What one lookup sees stays as it is while others renew it. */
struct snapshot {
    struct verbs_map map;
    int users; /* with the lock held; the cache is one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct snapshot *current;
static uint32_t known;                      /* bit per device that is in current */
static uint64_t read_ms[VERBS_MAX_DEVICES]; /* when it was */
/* Set by the event thread, which must not wait for a device that is being read. A change that comes
 * meanwhile is after what is read, or is read once more. */
static atomic_uint changed, mute;

void verbs_cache_changed(const struct verbs_device *device)
{
    atomic_fetch_or(&changed, 1u << device->index);
}

void verbs_cache_mute(const struct verbs_device *device)
{
    atomic_fetch_or(&mute, 1u << device->index);
}

static void let_go(struct snapshot *snapshot)
{
    if (!snapshot || --snapshot->users)
        return;
    verbs_map_free(&snapshot->map);
    free(snapshot);
}

static void drop_changed(uint64_t now)
{
    uint32_t silent = atomic_load(&mute);

    known &= ~atomic_exchange(&changed, 0);
    for (int i = 0; i < VERBS_MAX_DEVICES; i++)
        if (silent >> i & 1 && now - read_ms[i] > STALE_MS)
            known &= ~(1u << i);
}

/* Has current hold at least the devices of the bits. */
static enum mn_err fill(struct verbs_device *devices, int n, uint32_t bits, struct mn_diag *diag)
{
    uint64_t now = mn_now_ms();

    drop_changed(now);
    if (current && !(bits & ~known))
        return MN_OK;
    struct snapshot *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for the GID tables");
    fresh->users = 1;
    enum mn_err err =
        verbs_map_renew(devices, n, current ? &current->map : NULL, known, bits, &fresh->map, diag);
    if (err) {
        let_go(fresh);
        return err;
    }
    for (int i = 0; i < n; i++)
        if (bits & ~known & 1u << i)
            read_ms[i] = now;
    known |= bits;
    let_go(current);
    current = fresh;
    return MN_OK;
}

/* A snapshot with these devices, some of them read anew; NULL after an error. */
static struct snapshot *take(struct verbs_device *devices, int n, uint32_t bits, uint32_t anew,
                             struct mn_diag *diag)
{
    struct snapshot *snapshot = NULL;

    pthread_mutex_lock(&lock);
    known &= ~anew;
    if (!fill(devices, n, bits, diag)) {
        snapshot = current;
        snapshot->users++;
    }
    pthread_mutex_unlock(&lock);
    return snapshot;
}

static void give(struct snapshot *snapshot)
{
    pthread_mutex_lock(&lock);
    let_go(snapshot);
    pthread_mutex_unlock(&lock);
}

void verbs_cache_forget(void)
{
    pthread_mutex_lock(&lock);
    let_go(current);
    current = NULL;
    known = 0;
    atomic_store(&changed, 0);
    atomic_store(&mute, 0);
    pthread_mutex_unlock(&lock);
}

void verbs_cache_renew(void)
{
    atomic_store(&changed, UINT32_MAX);
}

/* --- asking ------------------------------------------------------------------------------------
 */

static uint32_t all_of(int n)
{
    return n >= VERBS_MAX_DEVICES ? UINT32_MAX : (1u << n) - 1;
}

static uint32_t named_by(const struct verbs_device *devices, int n, const struct mn_local *local)
{
    for (int i = 0; i < n; i++)
        if (local->rdma_device[0] && strcmp(devices[i].name, local->rdma_device) == 0)
            return 1u << i;
    return all_of(n);
}

static uint32_t older_than(uint64_t age_ms, int n)
{
    uint64_t now = mn_now_ms();
    uint32_t bits = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++)
        bits |= (uint32_t)(now - read_ms[i] > age_ms) << i;
    pthread_mutex_unlock(&lock);
    return bits;
}

/* Looks at the device that the local names, where it has the GID on the port named: no other ranks
 * before it. Else at all; and before it says that there is none, at the owner's once more. */
static enum mn_err find(struct verbs_device *devices, int n, const struct mn_local *local,
                        int from_device, struct verbs_place *place, struct mn_diag *diag)
{
    uint32_t bits = named_by(devices, n, local), all = all_of(n), anew = from_device ? bits : 0;

    for (int last = 0;;) {
        struct verbs_choice choice;
        struct snapshot *snapshot = take(devices, n, bits, anew, diag);
        if (!snapshot)
            return MN_ERR_NOMEM;
        verbs_choose(&snapshot->map, local, &choice);
        if (last || (choice.gid && choice.owner->attr.state == IBV_PORT_ACTIVE &&
                     (!choice.moved || bits == all))) {
            enum mn_err err = verbs_place_on(&snapshot->map, local, place, diag);
            give(snapshot);
            return err;
        }
        uint32_t suspects = choice.owner ? 1u << choice.owner->device->index : all;
        give(snapshot);
        last = bits == all;
        anew = last ? suspects & older_than(choice.owner ? RECENT_MS : STALE_MS, n) : 0;
        bits = all;
    }
}

static enum mn_err find_place(const struct mn_local *local, int from_device,
                              struct verbs_place *place, struct mn_diag *diag)
{
    struct verbs_device *devices;
    int n = verbs_devices(&devices);
    struct mn_diag why = {0};

    memset(place, 0, sizeof *place);
    if (n > 0)
        return find(devices, n, local, from_device, place, diag);
    if (!mn_ibv_open(&why))
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "%s", why.text);
    return mn_fail(diag, MN_ERR_UNSUPPORTED, "this host has no RDMA device that can be used");
}

enum mn_err verbs_place_find(const struct mn_local *local, struct verbs_place *place,
                             struct mn_diag *diag)
{
    return find_place(local, 0, place, diag);
}

enum mn_err verbs_place_renew(const struct mn_local *local, struct verbs_place *place,
                              struct mn_diag *diag)
{
    return find_place(local, 1, place, diag);
}

char *verbs_gid_table(const char *netdev, char *buf, size_t size)
{
    struct verbs_device *devices;
    int n = verbs_devices(&devices);
    uint32_t ifindex = netdev ? if_nametoindex(netdev) : 0;

    if (size > 0)
        buf[0] = '\0';
    if (n == 0 || (netdev && ifindex == 0))
        return buf;
    struct snapshot *snapshot = take(devices, n, all_of(n), 0, NULL);
    if (!snapshot)
        return buf;
    verbs_map_table(&snapshot->map, NULL, ifindex, buf, size);
    give(snapshot);
    return buf;
}
