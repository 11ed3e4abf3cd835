/* A deterministic double of libibverbs, for tests of what runs on RDMA verbs.
 *
 * It is a libibverbs.so.1 in build/<preset>/tests/fakeverbs; put that folder into LD_LIBRARY_PATH
 * and whatever opens or links libibverbs gets it, without knowing. FAKEVERBS="key=value,…" sets it
 * up; FAKEVERBS=help lists the keys. Without any there is one device, fv0 on lo, with the addresses
 * 127.0.0.1 and ::1.
 *
 *   FAKEVERBS=seed=7,dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2,delay=20,reorder=1 program
 *
 * Reliable connections: SEND, WRITE (both also with immediate data) and READ; signaled, inline and
 * fence. Unreliable connections (no READ) and datagrams (SEND only, up to the port's MTU, 40 bytes
 * before the data): what finds no receive is lost without a word, and so is every Nth message with
 * lose=N. It refuses what a device refuses, in the same way: states and their attributes, limits,
 * full queues, keys, bounds, access. It aborts with a message on what would be corruption
 * or a hang with a real one (a region deregistered under work in flight, an event never
 * acknowledged).
 *
 * One process: nothing happens but inside calls of verbs, any call moves the work of every queue
 * pair, and all chances come from the seed. The same seed and the same calls replay exactly. There
 * is no clock: patience is counted in calls.
 *
 * GID tables have RoCE v1 entries, holes, and IPv4 and IPv6 entries, so that an index that is right
 * by luck elsewhere is wrong here.
 *
 * A process with a completion channel may sleep: a thread moves what moves, as in a fabric of
 * several processes. Then the same seed does not replay.
 *
 * Not a prefix of the real thing: shared receive queues, atomic operations,
 * memory windows and extended queue pairs are absent. The devices have no sysfs entries.
 *
 * Tests may look at it and change it while it runs, through these symbols (dlsym on a handle of
 * libibverbs.so.1, version FAKEVERBS_1). */
#ifndef FAKEVERBS_H
#define FAKEVERBS_H

#include <stdint.h>

/* By the names in the stats file: ops bytes polls rnr flushes stale errors registrations events
 * dangling fork_inits rtr, of the verbs that ask the kernel query_port query_gids create_cq
 * create_qp modify_qp reg_mr destroy, and of queue pairs that were made ready with such a value
 * class.N (traffic class) level.N (service level) timeout.N retries.N ece.N; also qps cqs mrs pds
 * channels that exist now. Aborts on another name. rnr is without what a queue pair lacks since a
 * receive was refused it by "fail=post_recv". */
uint64_t fakeverbs_counter(const char *name);

/* One or more settings, as in the environment: "link=fv0:down", "silent=1". N of a key that counts
 * operations counts from the start of the process: gidshift=1 shifts a table used before now. A
 * seed starts the chances of what is made from now on anew. Devices cannot be added. */
void fakeverbs_set(const char *settings);

/* How long this thread has been in verbs, in ns, since it asked first (0): what remains of the time
 * of a call is the caller's own. */
uint64_t fakeverbs_ns(void);

#endif
