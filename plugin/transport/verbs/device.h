/* The RDMA devices of this process: opened once, kept while any communicator lives, their events
 * handed to the connections that use them. */
#ifndef MN_VERBS_DEVICE_H
#define MN_VERBS_DEVICE_H

#include <stdatomic.h>

#include "plugin/config.h"
#include "topo/ibv.h"

#define VERBS_MAX_DEVICES 32

struct verbs_device {
    const struct mn_ibv *ibv;
    struct ibv_context *context;
    struct ibv_pd *pd; /* made with the device, shared by all connections */
    int index;         /* 0 .. VERBS_MAX_DEVICES - 1: the place of its keys in a registration */
    char name[64];
    struct ibv_device_attr attr;
};

/* Opens every RDMA device of the host at the first call and starts the event thread; later calls
 * are cheap. Devices that cannot be opened are left out with a warning. Returns the count, 0 when
 * there is none or no libibverbs. Thread-safe; may ask the kernel but does not wait for it. */
int verbs_devices(struct verbs_device **devices);
/* Joins the event thread and closes the devices. Nothing that uses one may be left; the next call
 * of verbs_devices() opens them again. */
void verbs_devices_quit(void);

/* --- events -----------------------------------------------------------------------------------
 *
 * A watch is told what happens to one port, and to the queue pairs and completion queues whose
 * context pointer is the watch. The event thread only sets these fields; whoever owns the watch
 * reads them on its data path and decides. Relaxed loads: each value stands for itself. */

struct verbs_watch {
    struct verbs_device *device;
    uint8_t port;
    atomic_uint port_down; /* milliseconds (mn_now_ms, truncated, never 0) since when; 0 = up */
    atomic_int fatal;      /* enum ibv_event_type + 1 of a device, queue pair or queue error */
    const char *netdev;    /* an Ethernet port's, as long as the watch; NULL: not looked at, as
                            * when it is there no more */
    /* The event thread's: down since the netdev was seen without carrier; the device is asked. */
    uint8_t dark, asked;
    struct verbs_watch *next;
};

/* Counts what was told to any watch. */
extern atomic_uint verbs_alarm;

/* device, port and netdev must be set; the rest is reset. Down already: port_down is set at once.
 */
void verbs_watch_add(struct verbs_watch *watch);
/* After it returns the event thread does not touch the watch any more. */
void verbs_watch_remove(struct verbs_watch *watch);

/* --- which GID ---------------------------------------------------------------------------------
 */

/* Where an address of this host lives in the RDMA world, as both ends must know it. */
struct verbs_place {
    struct verbs_device *device;
    uint8_t port;
    uint8_t infiniband; /* link layer; then lid counts and the GID is the port's own */
    uint8_t grh;        /* InfiniBand: the port wants a global header in every packet */
    uint8_t mtu;        /* enum ibv_mtu, active */
    uint8_t gid_type;   /* enum mn_gid_type */
    uint16_t gid_index, lid;
    uint32_t max_message; /* bytes, of the port */
    union ibv_gid gid;
};

/* Finds the RDMA port and GID of a local address, so that holes in and drift of the table do not
 * matter: an entry with the address itself (IPv4 as ::ffff:a.b.c.d, IPv6 and fe80:: as they are),
 * on the netdev of the local, RoCE v2 before v1. The mesh file's device and port are preferred; its
 * gid_index is used when it still names the address and else given up with one warning for each
 * local and process. On an InfiniBand port of the netdev: LID and GID 0, or the mesh file's
 * gid_index.
 * Of what was read once, and again after an event of the device; asks the devices when that has no
 * such GID or a port that is not ACTIVE. Thread-safe.
 * MN_ERR_UNSUPPORTED: no RDMA device belongs to this NIC. Any other error: there is one, and why it
 * cannot be used (no such GID, port not ACTIVE); *diag says it, naming device, port and netdev, and
 * of *place the device is set. */
enum mn_err verbs_place_find(const struct mn_local *local, struct verbs_place *place,
                             struct mn_diag *diag);

/* The same, of what the local's device says now: for who was refused a GID found before. */
enum mn_err verbs_place_renew(const struct mn_local *local, struct verbs_place *place,
                              struct mn_diag *diag);
/* From here on all devices are read again, whether they told of a change or not. */
void verbs_cache_renew(void);

/* All GIDs of the ports of a netdev (NULL: of all) as lines "  rocep1s0f0 port 1 gid 3  10.0.1.1
 * RoCE v2  enp1s0f0np0\n", for messages. Cut at a whole line. Returns buf. */
char *verbs_gid_table(const char *netdev, char *buf, size_t size);

#endif
