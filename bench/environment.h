/* What a node measured with: kernel, CPU, plugin, mesh file and NICs, recorded with every result.
 * A field is one row of a table; its JSON form, its reader and its printing come from the row. */
#ifndef MN_ENVIRONMENT_H
#define MN_ENVIRONMENT_H

#include <cjson/cJSON.h>

#include "fleet/group.h"
#include "bench/host.h"
#include "topo/mesh.h"

#define MN_ENVIRONMENT_NICS 64

/* Unknown: "" and numbers below 0. */
struct mn_environment_nic {
    char netdev[IF_NAMESIZE], device[64]; /* device: RDMA */
    long port;
    char driver[32], firmware[64];
    long mtu, speed_mbps;
    double pcie_gbps; /* of the slot's lanes, each way */
    long numa;
};

struct mn_environment {
    char node[MN_NAME_MAX], host[65];
    char kernel[192], cpu[128];
    long cpus;               /* online */
    char governor[64];       /* of cpufreq; "mixed" where CPUs differ */
    char pinned[256];        /* CPUs this process is bound to; "" = all */
    char nccl_settings[256]; /* NCCL's variables that count as settings: "NCCL_IB_TC=106 …" */
    struct {
        char path[512], symbol[32], sha256[65];
    } plugin;
    struct {
        char path[512], sha256[65];
    } mesh_file;
    struct mn_environment_nic nics[MN_ENVIRONMENT_NICS];
    int n_nics;
};

enum mn_environment_type { MN_ENVIRONMENT_TEXT, MN_ENVIRONMENT_LONG, MN_ENVIRONMENT_DOUBLE };

struct mn_environment_field {
    const char *group; /* the object it stands in, NULL = the outermost */
    const char *key;   /* NULL ends a table */
    enum mn_environment_type type;
    size_t offset, size;
};
/* Rows of one group follow each other; a group whose first text is unknown is null. */
extern const struct mn_environment_field mn_environment_fields[];     /* of mn_environment */
extern const struct mn_environment_field mn_environment_nic_fields[]; /* of mn_environment_nic */
/* The value of a field of either struct; 0 when it is unknown. */
int mn_environment_text(const void *owner, const struct mn_environment_field *f, const char **text);
int mn_environment_number(const void *owner, const struct mn_environment_field *f, double *value);

/* This host, this process's plugin and the mesh file it would read. What cannot be read is unknown
 * and no error. */
void mn_environment_read(const struct mn_plugin_info *plugin, struct mn_environment *env);
/* The caller's to cJSON_Delete. */
cJSON *mn_environment_json(const struct mn_environment *env);
/* A stranger's, with every length and bound checked: what does not fit is cut or unknown. */
void mn_environment_parse(const cJSON *json, struct mn_environment *env);

/* One of each host of the group, in the order of their first ranks, at every rank. *all is the
 * caller's to free. Together. */
enum mn_err mn_environment_gather(struct mn_group *group, const struct mn_environment *own,
                                  struct mn_environment **all, int *count, struct mn_diag *diag);

#endif
