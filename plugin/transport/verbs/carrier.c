/* Carriers that are told late. A RoCE device learns of its port's from the netdev, and the kernel
 * tells of netdevs once a second: both halves of a port that goes, or the second of two cables, may
 * be told that much later. So for a while after a port was told to go or come the others are looked
 * at. */
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/carrier.h"
#include "plugin/transport/verbs/device_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define FOR_MS  1100
#define LOOK_MS 20
#define NETDEVS (2 * VERBS_MAX_DEVICES)

struct seen {
    char netdev[IFNAMSIZ];
    int carrier, changed; /* carrier: -1 = nobody can say */
};

/* The event thread's. */
static uint64_t told_ms;
static int
    dark; /* watches that are down by a look alone: until their netdev is up, or the device tells */

void verbs_carriers_told(uint64_t now)
{
    told_ms = now;
}

static struct seen *find(struct seen *seen, int n, const char *netdev)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(seen[i].netdev, netdev))
            return &seen[i];
    return NULL;
}

static int is_down(struct verbs_watch *watch)
{
    return atomic_load_explicit(&watch->port_down, memory_order_relaxed) != 0;
}

static int list(struct seen *seen)
{
    int n = 0;

    for (struct verbs_watch *w = verbs_watches_lock(); w && n < NETDEVS; w = w->next)
        if (w->netdev && !find(seen, n, w->netdev) && (w->dark || !is_down(w)))
            mn_strlcpy(seen[n++].netdev, w->netdev, sizeof seen->netdev);
    verbs_watches_unlock();
    return n;
}

static void apply(struct seen *seen, int n)
{
    dark = 0;
    for (struct verbs_watch *w = verbs_watches_lock(); w; w = w->next) {
        struct seen *of = w->netdev ? find(seen, n, w->netdev) : NULL;
        if (of && of->carrier < 0) {
            /* It has another name or place now: what the device tells is left. */
            w->netdev = NULL;
            w->dark = 0;
        } else if (of && !of->carrier && !is_down(w)) {
            verbs_watch_down(w);
            w->dark = of->changed = 1;
        } else if (of && of->carrier && w->dark) {
            atomic_store_explicit(&w->port_down, 0, memory_order_relaxed);
            w->dark = 0;
            of->changed = 1;
        }
        dark += w->dark;
    }
    verbs_watches_unlock();
}

static void look(void)
{
    struct seen seen[NETDEVS] = {{.changed = 0}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), n = fd < 0 ? 0 : list(seen);

    for (int i = 0; i < n; i++)
        seen[i].carrier = mn_has_carrier(fd, seen[i].netdev);
    if (fd < 0)
        return;
    close(fd);
    apply(seen, n);
    for (int i = 0; i < n; i++) {
        if (!seen[i].changed)
            continue;
        atomic_fetch_add_explicit(&verbs_alarm, 1, memory_order_release);
        if (seen[i].carrier > 0)
            MN_INFO("%s has a carrier again", seen[i].netdev);
        else
            MN_WARN("%s has no carrier: the cable is out, or the port at its other end is down",
                    seen[i].netdev);
    }
}

int verbs_carriers_look(uint64_t now)
{
    if (!dark && now - told_ms > FOR_MS)
        return -1;
    look();
    return LOOK_MS;
}
