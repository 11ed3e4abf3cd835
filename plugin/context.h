/* Contexts: what one communicator has of the plugin, and everything it opened.
 *
 * Up to ABI v10 NCCL knows no contexts and no end: all its communicators share one context, which
 * stays for the life of the library. From v11 on every communicator has its own, which ends with
 * mn_net_finalize(). When the last one has ended, every thread of the plugin is joined and every
 * device closed; the next init reads the mesh file and the host anew.
 *
 * The library is linked with -z nodelete nevertheless. NCCL 2.22 to 2.25 unload it after the last
 * communicator without any call before, while the thread that reads the devices' events is still
 * there. A destructor could join it, but runs under the loader's lock, which the thread needs as
 * soon as it loads or unwinds anything: then dlclose() would never return. So the code stays, at
 * the price of some address space, and a second dlopen() finds the library as it was left. */
#ifndef MN_CONTEXT_H
#define MN_CONTEXT_H

#include "plugin/listen.h"
#include "plugin/net.h"
#include "plugin/transport.h"

struct mn_listening;

struct mn_net {
    struct mn_net *next;
    struct mn_config config; /* its own copy, with the communicator's traffic class */
    struct mn_comm *comms;
    struct mn_listening *listenings;
};

/* What listen() gives out. */
struct mn_listening {
    struct mn_net *net;
    struct mn_listener *listener;
    struct mn_listening *next, **at;
};

/* NULL: the context shared by the versions that have none; NULL when init was not called. */
struct mn_net *mn_net_or_shared(struct mn_net *net);
/* NULL: no such context or no such device. */
const struct mn_device *mn_net_device(const struct mn_net *net, int dev);

/* As the application gave it; below 0 = not at all. */
enum mn_err mn_net_check_class(int traffic_class, struct mn_diag *diag);
/* What the devices are: NULL when no init has succeeded. */
const struct mn_config *mn_net_config(void);

/* Makes comm or listening the context's, which closes it when it ends. */
void mn_comm_adopt(struct mn_net *net, struct mn_comm *comm);
void mn_listening_adopt(struct mn_net *net, struct mn_listening *listening);
/* Ends the registrations left on it, then the comm. */
void mn_comm_close(struct mn_comm *comm);
void mn_listening_close(struct mn_listening *listening);
/* Notes a registration, so that the comm can end it when nobody else does. */
enum mn_err mn_comm_note(struct mn_comm *comm, void *mhandle);
void mn_comm_forget(struct mn_comm *comm, void *mhandle);

/* A copy that stays for the life of the library: NCCL keeps pointers to names. */
char *mn_net_lasting(const char *text);

/* Wraps a finished handshake in the transport's comm; conn is used up. */
enum mn_err mn_comm_open(struct mn_conn *conn, struct mn_comm **comm, struct mn_diag *diag);

/* NCCL's word for an error that was explained already. */
int mn_net_result(enum mn_err err);
/* The same, explaining it at WARN. */
int mn_net_explain(enum mn_err err, const char *doing, const struct mn_diag *diag);

#endif
