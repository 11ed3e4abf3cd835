/* For fleet/apply_kernel*.c and apply_route.c only. */
#ifndef MN_APPLY_KERNEL_H
#define MN_APPLY_KERNEL_H

#include "fleet/apply.h"

struct nl_sock;
struct nl_cache;
struct rtnl_link;
struct mn_kernel_address {
    int ifindex;
    char *text;
};

/* As it was at the last refresh. */
struct mn_kernel {
    struct nl_sock *sock;
    struct nl_cache *links, *routes;
    struct mn_kernel_address *addrs;
    size_t n_addrs;
};

/* Into the kernel; a code of libnl below 0 after an error. */
int mn_kernel_read_addresses(struct mn_kernel *kernel);
void mn_kernel_drop_addresses(struct mn_kernel *kernel);
/* Who set the address adds the route to its subnet too, or there is another's. */
int mn_address_has_own_route(const char *text);

/* The NIC of a change: of its name, if that has its MAC; else the only one with its MAC. NULL and
 * MN_ERR_NOTFOUND: it is gone. */
struct rtnl_link *mn_kernel_link(const struct mn_kernel *kernel, const struct mn_change *change,
                                 struct mn_diag *diag);
enum mn_err mn_kernel_failed(struct mn_diag *diag, const struct mn_change *change, const char *to,
                             int code);

/* Of one kind each: whether text is there, and making that so. on: it is to be there. */
int mn_kernel_has_address(const struct mn_kernel *kernel, int ifindex, const char *text);
enum mn_err mn_kernel_set_address(struct mn_kernel *kernel, const struct mn_change *change,
                                  int ifindex, const char *text, int on, struct mn_diag *diag);
int mn_kernel_has_route(const struct mn_kernel *kernel, int ifindex, const char *text);
/* Asks the kernel for all it has of a kind; each message of the answer goes to each(), which
 * returns NL_OK. libnl's code, below 0 for an error. */
struct nl_msg;
int mn_kernel_dump(const struct mn_kernel *kernel, int type, void *question, size_t size,
                   int (*each)(struct nl_msg *msg, void *context), void *context);
/* As the kernel has it, with all its words; the caller frees. NULL: it is not there. */
char *mn_kernel_find_route(const struct mn_kernel *kernel, int ifindex, const char *text);
/* All of all NICs, as mn_kernel_routes has them. */
void mn_kernel_each_route(const struct mn_kernel *kernel,
                          void (*each)(const char *nic, int ifindex, const char *text,
                                       void *context),
                          void *context);
/* Those that mn_kernel_set_route could not make again as they are, at each of their NICs; text:
 * what can be said of them. */
enum mn_err mn_kernel_each_odd_route(const struct mn_kernel *kernel,
                                     void (*each)(int ifindex, const char *text, const char *why,
                                                  void *context),
                                     void *context, struct mn_diag *diag);
/* The next route after *at (0 at first) that stands where one to this subnet without a metric
 * would; NULL: no more. The caller frees. */
char *mn_kernel_rival(const struct mn_kernel *kernel, const char *to, size_t *at,
                      char nic[IF_NAMESIZE]);
enum mn_err mn_kernel_set_route(struct mn_kernel *kernel, const struct mn_change *change,
                                int ifindex, const char *text, int on, struct mn_diag *diag);
/* Between a route and its text. mn_route_text: 0 for what is no route of packets to others, or has
 * more than a text can say. mn_route_parse: over that NIC, where the text names none. */
#define MN_ROUTE_TEXT 4096
struct rtnl_route;
int mn_route_to(struct rtnl_route *route, struct mn_addr *to);
int mn_route_text(struct rtnl_route *route, char text[MN_ROUTE_TEXT]);
int mn_route_parse(const char *text, int ifindex, struct rtnl_route *route);
/* Rules: as above; possible: there is a program to make them with. */
int mn_rules_possible(void);
int mn_rule_holds(const struct mn_change *change);
enum mn_err mn_rule_make(const struct mn_change *change, struct mn_diag *diag);
void mn_text_push(char ***texts, size_t *n, const char *text);

/* What apply has set for transit: apply_record.c. Of a sysctl, from is what was there first. */
void mn_record_read(const char *root, struct mn_changes *record);
/* Of that kind and what, or NULL. */
const struct mn_change *mn_record_find(const struct mn_changes *record, enum mn_change_kind kind,
                                       const char *what);
/* Adds the record's file where it differs. */
void mn_record_plan(const char *root, const struct mn_changes *record, struct mn_changes *files);
/* Adds the removal of files of ours that the node needs no longer. */
void mn_transit_old_files(const struct mn_manager *manager, const struct mn_mesh *mesh, int node,
                          const char *root, struct mn_changes *files);

/* Adds routes, sysctls and rules for nodes that have no cable to each other. NICs of the mesh have
 * the host's names. */
enum mn_err mn_apply_transit(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                             const struct mn_kernel *kernel, const char *root,
                             struct mn_apply_plan *plan, struct mn_diag *diag);

#endif
