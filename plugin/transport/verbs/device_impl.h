/* What the files of the devices share, and what their tests call with tables of their own. */
#ifndef MN_VERBS_DEVICE_IMPL_H
#define MN_VERBS_DEVICE_IMPL_H

#include "plugin/transport/verbs/device.h"
#include "plugin/transport/verbs/memory.h"

/* Opens what the library lists and RC queue pairs can use; returns the count, at most max. */
int verbs_devices_open(const struct mn_ibv *ibv, struct verbs_device *devices, int max);
void verbs_devices_close(struct verbs_device *devices, int n);
/* Starts the thread that reads the events of these devices; ends it. */
void verbs_events_start(struct verbs_device *devices, int n);
void verbs_events_stop(void);
/* The watches, which stay as they are until they are unlocked. */
struct verbs_watch *verbs_watches_lock(void);
void verbs_watches_unlock(void);
void verbs_watch_down(struct verbs_watch *watch);
/* Carriers, of the event thread. A device has told that a port went or came. */
void verbs_carriers_told(uint64_t now);
/* Looks at them if it is time for it. Returns in how many ms it is again; -1: not before
 * somebody tells. */
int verbs_carriers_look(uint64_t now);

/* --- ports and GIDs as they are now ------------------------------------------------------------
 */

struct verbs_port {
    struct verbs_device *device;
    uint8_t number;
    struct ibv_port_attr attr;
};

struct verbs_gid {
    const struct verbs_port *port;
    uint16_t index;
    enum mn_gid_type type;
    uint32_t ifindex; /* 0 = not known */
    union ibv_gid gid;
};

struct verbs_map {
    struct verbs_port *ports;
    size_t n_ports;
    struct verbs_gid *gids;
    size_t n_gids;
};

/* src: where GIDs are read that the library cannot tell (one older than 1.11); NULL = this host.
 * Free with verbs_map_free, also after an error. */
enum mn_err verbs_map_read(struct verbs_device *devices, int n, const struct mn_host_source *src,
                           struct verbs_map *map, struct mn_diag *diag);
/* A map of the devices of the bits known, taken from old, and of those wanted, read where they are
 * not known. Free as above. */
enum mn_err verbs_map_renew(struct verbs_device *devices, int n, const struct verbs_map *old,
                            uint32_t known, uint32_t wanted, struct verbs_map *map,
                            struct mn_diag *diag);
void verbs_map_free(struct verbs_map *map);

/* The map that is kept. A device's ports changed: it is read again by whoever asks next. Waits for
 * nothing; from any thread. */
void verbs_cache_changed(const struct verbs_device *device);
/* No event will tell of this device's changes: it is read again from time to time. */
void verbs_cache_mute(const struct verbs_device *device);
/* The devices are going away. */
void verbs_cache_forget(void);

struct verbs_choice {
    const struct verbs_gid *gid;    /* NULL = none */
    const struct verbs_port *owner; /* of the NIC, though it may have no GID; NULL = none */
    int drifted;                    /* gid_index no longer names the address … */
    const struct verbs_gid *pinned; /* … but this; NULL = nothing */
    int moved;                      /* not the port the local names */
};

void verbs_choose(const struct verbs_map *map, const struct mn_local *local,
                  struct verbs_choice *choice);
/* verbs_place_find() on a map. */
enum mn_err verbs_place_on(const struct verbs_map *map, const struct mn_local *local,
                           struct verbs_place *place, struct mn_diag *diag);
/* verbs_gid_table() on a map: of the ports that have a GID on ifindex (0: of all), or of one. */
char *verbs_map_table(const struct verbs_map *map, const struct verbs_port *port, uint32_t ifindex,
                      char *buf, size_t size);

/* --- memory ------------------------------------------------------------------------------------
 */

struct verbs_range {
    void *data;
    size_t size;
    int type, local, fd;
    uint64_t offset, allocation;
};

/* verbs_memory_get() with the devices that the bits stand for. */
enum mn_err verbs_memory_get_on(struct verbs_device *devices, uint32_t bits,
                                const struct verbs_range *range, int relaxed,
                                struct verbs_memory **memory, struct mn_diag *diag);

#endif
