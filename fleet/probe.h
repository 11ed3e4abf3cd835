/* Who is at the other end of each cable, found before there are addresses: all nodes of a run send
 * to, and listen for, each other at every NIC that can be a cable's end, over IPv6's link-local
 * multicast and, where this process may, raw Ethernet. What is heard is authenticated by the run's
 * key. No address, route or setting of a NIC is changed, but for "up". */
#ifndef MN_PROBE_H
#define MN_PROBE_H

#include <cjson/cJSON.h>
#include <signal.h>

#include "topo/base/mac.h"
#include "topo/base/opt.h"
#include "topo/survey.h"

#define MN_PROBE_PORT    18517 /* UDP, ff02::4d4e:5042 */
#define MN_PROBE_MS      5000  /* from when all nodes have begun */
#define MN_PROBE_UP_MS   15000 /* where NICs are brought up first */
#define MN_PROBE_LATE_MS 5000  /* how long those who have not begun are waited for */
#define MN_PROBE_MAX_MS  60000

struct mn_probe_plan {
    uint8_t key[MN_KEY_SIZE];
    /* 0: nobody leads. Then whoever else has the key is believed once it has heard this process,
     * which what was recorded of an earlier run has not. */
    uint64_t run;
    int index, count; /* this node's among those of the run; count 0: not known */
    char name[MN_NAME_MAX];
    unsigned ms;
    int whole;                     /* not ended as soon as all have heard each other */
    struct mn_opt_list take, skip; /* NETDEV, of any node, or NODE/NETDEV */
    int up;   /* NICs that are switched off are brought up, and put back at the end */
    int lldp; /* LLDP is sent too */
    const volatile sig_atomic_t *stop; /* not 0: end; NULL: never */
};

/* A NIC that is, or could be, a cable's end. */
struct mn_probe_nic {
    char netdev[IF_NAMESIZE];
    int probed;    /* bit 1 << enum mn_survey_way: what was sent by (LLDP: listened for) */
    char why[224]; /* why not, or not by all ways; "" = nothing to say */
};

/* A NIC of a node of the run that was heard at a NIC here. */
struct mn_probe_heard {
    char at[IF_NAMESIZE];
    char node[MN_NAME_MAX], netdev[IF_NAMESIZE];
    uint8_t mac[6];
    enum mn_nic_kind kind;
    int nic_mtu;
    long speed_mbps;
    enum mn_survey_way way; /* IPv6 when by both */
    int mtu;                /* of the largest that came from there */
    int back_mtu;           /* of the largest that came there from here; 0 = it has heard nothing */
};

struct mn_probe_result {
    struct mn_survey survey; /* this host alone, with the strangers; nothing seen */
    struct mn_probe_nic *nics;
    size_t n_nics;
    struct mn_probe_heard *heard;
    size_t n_heard;
    double seconds; /* that it took */
};

/* Probes; ends by itself. MN_ERR_FAILED "interrupted" when stopped. What is in *result is to be
 * freed, after an error too. */
enum mn_err mn_probe_run(const struct mn_probe_plan *plan, struct mn_probe_result *result,
                         struct mn_diag *diag);
void mn_probe_result_free(struct mn_probe_result *result);

/* Between nodes. The caller's to cJSON_Delete. */
cJSON *mn_probe_result_json(const struct mn_probe_result *result);
/* A stranger's: every number and text checked, MN_ERR_PROTO says where. *result is zeroed first and
 * after an error. */
enum mn_err mn_probe_result_parse(const cJSON *json, struct mn_probe_result *result,
                                  struct mn_diag *diag);

/* What a node is asked by the verb "probe", but for what is its own: index. The key is in it. The
 * caller's to cJSON_Delete. */
cJSON *mn_probe_ask(const struct mn_probe_plan *plan);
/* The longest that the verb takes, in seconds. */
#define MN_PROBE_VERB_S ((MN_PROBE_MAX_MS + MN_PROBE_LATE_MS) / 1000 + 12)

/* One survey of what n nodes found. A node that did not answer, or is not of those asked, but was
 * heard, is in it with the NICs that were. MN_ERR_CONFIG when two have one name. *survey is zeroed
 * first and after an error. */
enum mn_err mn_probe_gather(const struct mn_probe_result *results, size_t n,
                            struct mn_survey *survey, struct mn_diag *diag);

#endif
