/* What the cases of the conformance suite share. One thread drives both ends and never sleeps:
 * whoever waits polls, with a bound. A failed case leaves through kit_fail(). */
#ifndef MN_CONFORMANCE_KIT_H
#define MN_CONFORMANCE_KIT_H

#include <setjmp.h>

#include "bench/host.h"

#define KIT_PATIENCE_S 20
#define KIT_LIVE       1024

enum { KIT_PASSED, KIT_FAILED, KIT_SKIPPED };

struct req {
    void *request; /* NULL of a send that waits until the plugin has room for it */
    int done;
    int result; /* the error that ended it */
    int sizes[MN_HOST_MAX_RECVS];
    struct pair *pair; /* of a waiting send */
    struct buf *buf;
    size_t size;
    int tag;
};

struct kit {
    struct mn_plugin *plugin;
    const char *self; /* this program, to be executed by a child */
    uint64_t seed, random;
    int tolerant; /* errors of test end the request instead of the case */
    struct req *live[KIT_LIVE], *waiting[KIT_LIVE];
    int n_live, n_waiting;
    char why[512];
    jmp_buf out; /* KIT_FAILED or KIT_SKIPPED */
};

struct kit_case {
    const char *name;
    void (*run)(struct kit *kit);
};
extern const struct kit_case kit_transfer_cases[], kit_group_cases[], kit_connect_cases[],
    kit_fault_cases[], kit_process_cases[]; /* each ends with a NULL name */

_Noreturn void kit_fail(struct kit *kit, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Leaves the case, skipped, unless the plugin is driven through this version or a later one. */
void kit_needs(struct kit *kit, int version, const char *what);
void kit_ok(struct kit *kit, const char *what, int result);
uint64_t kit_now_ms(void);
uint64_t kit_random(struct kit *kit);
int kit_count(const char *directory);
/* fakeverbs_counter(); 0 where the double of libibverbs is not loaded. */
uint64_t kit_fakeverbs(const char *counter);

struct pair {
    void *listen, *send, *recv;
    _Alignas(16) char handle[MN_HANDLE_SIZE];
};
void pair_listen(struct kit *kit, struct pair *pair);
/* One call each; 1 when both comms are there. */
int pair_poll(struct kit *kit, struct pair *pair);
void pair_finish(struct kit *kit, struct pair *pair);
void pair_open(struct kit *kit, struct pair *pair);
void pair_close(struct kit *kit, struct pair *pair);
/* One message through, checked. */
void pair_pass(struct kit *kit, struct pair *pair, size_t size);

/* Memory with guards on both sides, shift bytes off a page. */
struct buf {
    unsigned char *base, *data;
    size_t size;
    void *comm, *mhandle;
};
void buf_new(struct kit *kit, void *comm, size_t size, size_t shift, struct buf *buf);
/* 0, and nothing kept, when the plugin refuses the registration. */
int buf_try_new(struct kit *kit, void *comm, size_t size, size_t shift, struct buf *buf);
/* As new: no byte written. */
void buf_clear(struct buf *buf);
void buf_free(struct kit *kit, struct buf *buf);
void buf_fill(struct buf *buf, size_t size, uint64_t key);
/* The first size bytes hold the pattern of key; the rest and the guards are untouched. */
void buf_expect(struct kit *kit, const struct buf *buf, size_t size, uint64_t key);

/* One attempt: 0 when the plugin has no room now. */
int req_try_send(struct kit *kit, struct pair *pair, struct buf *buf, size_t size, int tag,
                 struct req *req);
int req_try_recv(struct kit *kit, struct pair *pair, int n, struct buf *bufs, const int *tags,
                 struct req *req);
/* Posted now, or as soon as there is room: a plugin may want to see the receive first. Sends of one
 * connection with one tag stay in order. */
void req_send(struct kit *kit, struct pair *pair, struct buf *buf, size_t size, int tag,
              struct req *req);
/* Until posted; everything live is polled meanwhile. */
void req_recv(struct kit *kit, struct pair *pair, int n, struct buf *bufs, const int *tags,
              struct req *req);
/* Forgets all requests. */
void req_drop_all(struct kit *kit);
/* Tests everything live once. */
void req_poll(struct kit *kit);
/* Tests one of them once, whichever chance picks: that one when it has ended, else NULL. */
struct req *req_poll_any(struct kit *kit);
void req_wait(struct kit *kit, struct req *req);
void req_wait_all(struct kit *kit);

#endif
