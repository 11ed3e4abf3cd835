/* Between the files of meshnet relayd. */
#ifndef MN_RELAYD_H
#define MN_RELAYD_H

#include "fleet/relay/daemon.h"
#include "topo/base/opt.h"

struct mn_relayd_options {
    const char *mesh, *socket;
    struct mn_opt_list users;
    int anyone, check, status, json, wide;
};

/* What it is started with: mesh file, key, users. */
struct mn_relayd_start {
    char path[512];
    struct mn_mesh mesh;
    struct mn_config config; /* filled when at least one address of the node is here */
    int self, here;          /* its node; whether config is */
    uint32_t *users;
    const char *socket;
};

/* relayd_start.c: reads and checks all of it; says on stderr what is missing and no reason to stop.
 */
enum mn_err mn_relayd_read(const struct mn_relayd_options *o, struct mn_relayd_start *s,
                           struct mn_diag *diag);
/* The node's addresses that lead along cables: how many there are, and how many are on a NIC of
 * this host that is up; the missing ones by name in missing. */
size_t mn_relayd_addresses(const struct mn_relayd_start *s, size_t *here, char *missing,
                           size_t size);
/* Reads config anew, of this host as it is with all of the node's cables plugged. */
enum mn_err mn_relayd_config(struct mn_relayd_start *s, struct mn_diag *diag);
/* Who may ask, buffers, what they may lock: lines on stdout, warnings on stderr. */
void mn_relayd_say(const struct mn_relayd_options *o, const struct mn_relayd_start *s);
void mn_relayd_free(struct mn_relayd_start *s);

/* relayd_serve.c */
enum mn_err mn_relayd_check(const struct mn_relayd_options *o, struct mn_diag *diag);
enum mn_err mn_relayd_serve(const struct mn_relayd_options *o, struct mn_diag *diag);
/* relayd_status.c */
enum mn_err mn_relayd_status(const struct mn_relayd_options *o, struct mn_diag *diag);

#endif
