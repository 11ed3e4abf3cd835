/* What the mesh file wants of this host and is not so yet: a list of changes, which is shown, made,
 * checked and undone. Each can be made twice and undone twice, so that whoever finds a list half
 * done can go either way. */
#ifndef MN_APPLY_H
#define MN_APPLY_H

#include <cjson/cJSON.h>

#include "topo/mesh.h"

/* In the order in which they are made; undone in the reverse one. */
enum mn_change_kind {
    MN_CHANGE_MTU,
    MN_CHANGE_LINK,    /* "up", "down" */
    MN_CHANGE_ADDRESS, /* "10.0.1.1/24", " noprefixroute" behind it where it is so */
    MN_CHANGE_ROUTE,   /* "10.0.3.0/31 via 10.0.1.1 metric 100 src … proto …" */
    MN_CHANGE_SYSCTL,  /* what: "net/ipv4/ip_forward" */
    MN_CHANGE_RULE,    /* of the firewall; what: what it is about */
    MN_CHANGE_FILE,    /* what: its path, contents in from and to */
    MN_CHANGE_KINDS
};

struct mn_change {
    enum mn_change_kind kind;
    char nic[IF_NAMESIZE]; /* as this host calls it; "" = of none */
    uint8_t mac[6];        /* by which it is known, where has_mac is set */
    int has_mac;
    char *what;                  /* NULL where the NIC says it */
    char *from;                  /* NULL: was not there */
    char *to;                    /* NULL: is no longer to be there */
    unsigned from_mode, to_mode; /* of a file */
};

struct mn_changes {
    struct mn_change *items;
    size_t count;
};

void mn_changes_free(struct mn_changes *list); /* empty afterwards */
/* A new one at the end; the texts are copied, nic may be NULL. */
struct mn_change *mn_change_add(struct mn_changes *list, enum mn_change_kind kind,
                                const struct mn_nic *nic, const char *what, const char *from,
                                const char *to);
/* What undoes list, in the order in which it does. */
void mn_changes_reverse(const struct mn_changes *list, struct mn_changes *back);
/* "mtu", "link", … */
const char *mn_change_kind_name(enum mn_change_kind kind);
cJSON *mn_changes_json(const struct mn_changes *list);
/* *list is empty after an error. */
enum mn_err mn_changes_parse(const cJSON *json, struct mn_changes *list, struct mn_diag *diag);

/* --- this host's kernel (apply_kernel*.c, apply_route.c) -------------------------------------- */

struct mn_kernel;
/* What it has at this moment. */
enum mn_err mn_kernel_open(struct mn_kernel **kernel, struct mn_diag *diag);
enum mn_err mn_kernel_refresh(struct mn_kernel *kernel, struct mn_diag *diag);
void mn_kernel_close(struct mn_kernel *kernel); /* NULL is fine */
/* The addresses of a NIC as changes write them, link-local ones left out; the caller frees each and
 * the array. */
size_t mn_kernel_addresses(const struct mn_kernel *kernel, int ifindex, char ***texts);
/* The routes of all tables but the local one through it that the kernel has not made for its
 * addresses. */
size_t mn_kernel_routes(const struct mn_kernel *kernel, int ifindex, char ***texts);
void mn_texts_free(char **texts, size_t n);

/* Whether it is as to says already. */
int mn_change_holds(const struct mn_kernel *kernel, const struct mn_change *change);
/* Makes it so; fine when it is so. Without a kernel only files can be. */
enum mn_err mn_change_make(struct mn_kernel *kernel, const struct mn_change *change,
                           struct mn_diag *diag);
/* Makes all; stops at the first error. */
enum mn_err mn_changes_make(struct mn_kernel *kernel, const struct mn_changes *list,
                            struct mn_diag *diag);
/* Undoes all, whatever fails: the first error. */
enum mn_err mn_changes_undo(struct mn_kernel *kernel, const struct mn_changes *list,
                            struct mn_diag *diag);

/* --- what is wanted --------------------------------------------------------------------------- */

/* Who keeps the NICs' configuration over a reboot: chosen by what is there. */
struct mn_manager {
    const char *name;      /* "netplan", … */
    const char *format;    /* of mn_emit_formats */
    const char *note;      /* what people should know; NULL = nothing */
    const char *all[3];    /* paths that are there with it, all of these … */
    const char *any[3];    /* … and one of these, if there are any: it runs, or will at boot */
    const char *old;       /* files of ours, for glob(): those no longer written go. NULL = none */
    const char *reload[4]; /* command by which it hears of changed files */
};
const struct mn_manager *mn_manager_find(const char *root);
const struct mn_manager *mn_manager_named(const char *name); /* or NULL */
/* Has it read its files again, if it can be asked: *said, the caller's to free, is what was done,
 * NULL = nothing. At most 20 s. */
enum mn_err mn_manager_reload(const struct mn_manager *manager, const char *root, char **said,
                              struct mn_diag *diag);
/* What apply has set for packets of others, below root: for itself. */
#define MN_APPLY_RECORD "/var/lib/meshnet/transit.json"
/* Adds the files that are to be written or removed for the node; notes: what could not be read. */
enum mn_err mn_apply_files(const struct mn_manager *manager, const struct mn_mesh *mesh, int node,
                           const char *root, struct mn_changes *files, char ***notes,
                           size_t *n_notes, struct mn_diag *diag);

struct mn_apply_want {
    struct mn_mesh *mesh; /* its NICs of the node get the names that they have here */
    int node;
    const struct mn_host *host; /* with what is around; NULL: not this host, files alone */
    const char *const *take;    /* NICs to be taken though they carry something else */
    size_t n_take;
};

struct mn_apply_plan {
    const struct mn_manager *manager;
    struct mn_changes kernel, files;
    char **notes; /* what was left alone and why, what could not be compared */
    size_t n_notes;
};

/* root: where files are looked for, "" = /. MN_ERR_CONFIG where a NIC is not to be touched, or is
 * not there. */
enum mn_err mn_apply_plan(const struct mn_apply_want *want, const struct mn_kernel *kernel,
                          const char *root, struct mn_apply_plan *plan, struct mn_diag *diag);
/* To what the last apply that was kept replaced; MN_ERR_NOTFOUND where there is none. */
enum mn_err mn_apply_plan_back(const struct mn_apply_want *want, const struct mn_kernel *kernel,
                               struct mn_apply_plan *plan, struct mn_diag *diag);
void mn_apply_plan_free(struct mn_apply_plan *plan); /* empty afterwards */

#endif
