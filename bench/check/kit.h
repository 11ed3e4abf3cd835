/* What several rules share: connected pairs, guarded buffers, posting and waiting with a bound. */
#ifndef MN_CHECK_KIT_H
#define MN_CHECK_KIT_H

#include "bench/check/rule.h"

#define MN_KIT_HANDLE   128                                      /* NCCL_NET_HANDLE_MAXSIZE */
#define MN_KIT_STALE    ((void *)(uintptr_t)0x5a5a5a5a5a5a5a50u) /* never a request */
#define MN_KIT_OPTIONAL ((void *)0x1) /* since v9: whether it arrived is all that matters */

/* NULL, or what is wrong with a text that goes into XML: "is NULL", "has byte 0x3c", … */
const char *mn_check_text_problem(const char *text, size_t max);
int mn_check_count_threads(void);
int mn_check_count_fds(void);
/* The file behind the loaded library. */
void mn_check_resolve(struct mn_check *check, char *path, size_t size);
/* Times this thread gave up the CPU of its own accord: a call that sleeps adds one. */
long mn_check_sleeps(void);

/* The device handle argument of connect and accept as the release to behave like passes it: NCCL
 * the address of a NULL pointer, RCCL that of a 4-byte object with others' memory around it. */
struct mn_kit_slot {
    uint64_t words[3];
};
void **mn_kit_slot(const struct mn_check *check, struct mn_kit_slot *slot);
/* Fails when the call wrote where it must not. */
void mn_kit_slot_kept(struct mn_check *check, const struct mn_kit_slot *slot, const char *call);
/* What *request holds before isend (n = 0) or irecv of n buffers: never a request. */
void *mn_kit_old_request(const struct mn_check *check, int n);

/* A log function for init that says nothing. */
void mn_kit_quiet(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);
/* Another communicator of the same library: the rule's own, with a context of its own. */
struct mn_check mn_kit_communicator(struct mn_check *check, uint64_t id);
void mn_kit_finalize(struct mn_check *check);

struct mn_pair {
    int dev;
    void *listen, *send, *recv;
    _Alignas(16) unsigned char handle[MN_KIT_HANDLE]; /* the one connect gets, every time */
};

void mn_kit_listen(struct mn_check *check, int dev, struct mn_pair *pair);
/* One call each; fail the rule when the plugin reports an error. Do nothing when already there. */
void mn_kit_try_connect(struct mn_check *check, struct mn_pair *pair);
void mn_kit_try_accept(struct mn_check *check, struct mn_pair *pair);
/* Both in turn until both are there. */
void mn_kit_finish(struct mn_check *check, struct mn_pair *pair);
/* Listen, finish, closeListen as NCCL does. */
void mn_kit_connect(struct mn_check *check, struct mn_pair *pair);
void mn_kit_close(struct mn_check *check, struct mn_pair *pair);

/* size bytes of addresses, at most MN_KIT_ALIAS_MAX, over MN_KIT_ALIAS bytes of memory; NULL when
 * there are none. Only for more than MN_KIT_ALIAS_ABOVE: see remote.h. */
#define MN_KIT_ALIAS       ((size_t)2 << 20)
#define MN_KIT_ALIAS_ABOVE ((size_t)64 << 20)
#define MN_KIT_ALIAS_MAX   ((size_t)1 << 30)
unsigned char *mn_kit_alias(size_t size);

/* Memory with guard bytes on both sides, offset bytes into a page. */
struct mn_buf {
    unsigned char *data;
    size_t size, room;
    unsigned char *base;
    void *mhandle;
    void *comm;
};
/* Allocates, guards, fills with a byte no pattern holds for long, and registers for comm. */
void mn_kit_buf(struct mn_check *check, void *comm, size_t size, size_t offset, struct mn_buf *buf);
void mn_kit_free(struct mn_check *check, struct mn_buf *buf);
void mn_kit_fill(struct mn_buf *buf, size_t size, unsigned seed);
/* Fails unless the first size bytes hold the pattern, the rest is untouched and the guards hold. */
void mn_kit_expect(struct mn_check *check, const struct mn_buf *buf, size_t size, unsigned seed,
                   const char *what);
/* Fails unless nothing from byte `from` on, guards included, was written. */
void mn_kit_untouched(struct mn_check *check, const struct mn_buf *buf, size_t from,
                      const char *what);

struct mn_req {
    void *request;
    int done;
    int result; /* of the last test */
    int sizes[MN_RAW_MAX_RECVS];
};

/* One attempt; the slot holds MN_KIT_STALE on entry. 1 posted, 0 no resources now. */
int mn_kit_try_isend(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size, int tag,
                     struct mn_req *req);
int mn_kit_try_irecv(struct mn_check *check, void *comm, int n, struct mn_buf **bufs,
                     const size_t *sizes, const int *tags, struct mn_req *req);
/* Until posted. */
void mn_kit_isend(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size, int tag,
                  struct mn_req *req);
/* The same, testing n receives meanwhile, as NCCL does: a receiver may tell the sender of its
 * buffers only when it is tested. */
void mn_kit_isend_polling(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size,
                          struct mn_req *req, struct mn_req *recvs, int n);
/* Before another attempt at isend, n receives being posted; bounded. */
void mn_kit_isend_again(struct mn_check *check, struct mn_req *recvs, int n);
void mn_kit_irecv(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size, int tag,
                  struct mn_req *req);
void mn_kit_irecv_group(struct mn_check *check, void *comm, int n, struct mn_buf **bufs,
                        const size_t *sizes, const int *tags, struct mn_req *req);
/* Sends without waiting for a receive; where the plugin asks for one first (a NULL request), posts
 * all of in as the receive, sends, and returns 1. */
int mn_kit_isend_early(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out,
                       size_t size, struct mn_buf *in, struct mn_req *send, struct mn_req *recv);
/* One test: fails on an error or a done that is neither 0 nor 1. Returns done. */
int mn_kit_test(struct mn_check *check, struct mn_req *req);
/* As mn_kit_test, but an error is only kept in req->result. */
int mn_kit_poll(struct mn_check *check, struct mn_req *req);
/* Tests all in turn until all are done. */
void mn_kit_wait(struct mn_check *check, struct mn_req *const *reqs, size_t n);
void mn_kit_wait2(struct mn_check *check, struct mn_req *a, struct mn_req *b);
/* Sends size bytes through the pair and checks them, receive posted first, capacity as given. */
void mn_kit_pass(struct mn_check *check, struct mn_pair *pair, size_t size, size_t capacity,
                 unsigned seed);

#endif
