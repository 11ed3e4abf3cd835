/* The connecting end of a rule's connections in another process or on another machine
 * (MN_CHECK_ENDS): its connect,
 * regMr, isend, test, … are carried out there, one at a time, and what the rule holds here stands
 * for the comms, registrations and requests there. The bytes of a message go over with its isend,
 * unless they did with one before it that had no room; once test reported it done, they are
 * overwritten there. The accepting end stays in the rule's process, so that everything about
 * received bytes is seen by the rule itself. */
#ifndef MN_CHECK_REMOTE_H
#define MN_CHECK_REMOTE_H

#include <stddef.h>

struct mn_check;  /* bench/check/rule.h */
struct mn_remote; /* in mn_raw: there is another machine */

/* Before the plugin is loaded. Afterwards raw->remote of the check is set, and check->n_dev_there
 * is what devices() says there. */
void mn_remote_start(struct mn_check *check);
/* The other machine's side, in the rule's process there: until the rule here ends. */
void mn_remote_serve(struct mn_check *check, int fd);

/* Whether a comm, a registration or a request is only a name for one over there. */
int mn_remote_owns(const struct mn_remote *remote, const void *object);

/* What the process over there has, and how often connect slept in it. */
enum mn_remote_count { MN_REMOTE_FDS, MN_REMOTE_THREADS, MN_REMOTE_SLEEPS };
int mn_remote_count(struct mn_remote *remote, enum mn_remote_count what);

/* As the mn_raw_ functions. They end the rule when the other machine does not answer. handle:
 * MN_REMOTE_HANDLE bytes, with what connect left in it; device_handle: NULL, or where 8 bytes are,
 * which change when connect there wrote through its own. */
#define MN_REMOTE_HANDLE 128
int mn_remote_connect(struct mn_remote *remote, int dev, void *handle, void **comm,
                      void **device_handle);
/* More than MN_KIT_ALIAS_ABOVE bytes are, there too, the same few pages over and over. */
int mn_remote_reg(struct mn_remote *remote, void *comm, void *data, size_t size, void **mhandle);
int mn_remote_dereg(struct mn_remote *remote, void *comm, void *mhandle);
int mn_remote_isend(struct mn_remote *remote, void *comm, void *data, size_t size, int tag,
                    void *mhandle, void **request);
int mn_remote_test(struct mn_remote *remote, void *request, int *done, int *sizes);
int mn_remote_close(struct mn_remote *remote, void *comm);

#endif
