/* Point-to-point measurement of a network plugin between two processes. The bench side plans and
 * asks, the serve side follows; both drive the plugin file through bench/host.h, from threads that
 * poll. Prints nothing. */
#ifndef MN_P2P_H
#define MN_P2P_H

#include <signal.h>
#include <time.h>

#include "bench/area.h"
#include "fleet/ctl.h"
#include "bench/environment.h"
#include "bench/host.h"
#include "bench/repeat.h"
#include "topo/mesh.h"

#define MN_P2P_CONNECTIONS 128
#define MN_P2P_THREADS     64
#define MN_P2P_OUTSTANDING 32
#define MN_P2P_BURST       4096 /* messages of a burst */
#define MN_P2P_NICS        64

enum mn_p2p_direction { MN_P2P_OUT, MN_P2P_IN, MN_P2P_BOTH, MN_P2P_DIRECTIONS };
extern const char *const mn_p2p_direction_names[MN_P2P_DIRECTIONS]; /* "out", "in", "both" */

struct mn_p2p_plan {
    const unsigned long long *sizes;
    size_t n_sizes;
    unsigned directions; /* bits 1 << mn_p2p_direction; 0 = no bandwidth */
    int latency;         /* ping-pong for sizes up to latency_max */
    unsigned long long latency_max;
    unsigned long long bandwidth_min; /* smaller sizes have no bandwidth measured */
    /* Bits like directions: message rate, and bursts (out, in), for sizes up to latency_max too. */
    unsigned rate, bursts;
    unsigned raw;       /* bits like directions (out, in): verbs alone beside the plugin */
    int burst_messages; /* on each connection */
    unsigned pause_ms;  /* before each burst */
    int check;          /* data checked in a pass of its own */
    int connections;
    int outstanding, rate_outstanding; /* requests under way on a connection; in the second for
                                        * the message rate */
    int threads;                       /* that drive the connections, on each side; 0 = 1 */
    int group;                         /* messages of a request: receives posted together; 0 = 1 */
    int flush;                         /* iflush after each receive, as NCCL does for GPU memory */
    struct mn_repeat_plan repeat;      /* of each measurement, unless iters is given */
    unsigned long iters, warmup;
    unsigned budget_ms; /* for all: what would not end in it is left out. 0 = as long as it takes */
    unsigned timeout_ms;               /* longest wait without progress */
    const volatile sig_atomic_t *stop; /* not 0: the run ends, interrupted. NULL: never */
    size_t buffers;                    /* bytes for the messages of one side */
    enum mn_memory_kind memory;        /* of what kind */
    int gpu;                           /* number of the GPU, on both sides; -1 = the first */
    int device;
    const char *pin; /* see mn_cpu_pin */
};

/* One bandwidth row. Bytes are those the receiving side saw, time the slower side's. */
struct mn_p2p_bandwidth {
    size_t size;
    enum mn_p2p_direction direction;
    uint64_t messages, bytes;
    double seconds;
    double cpu_seconds[2];   /* here, peer */
    struct mn_spread spread; /* of the repetitions' seconds, which move equally many bytes */
};

/* Half round trips in microseconds. */
struct mn_p2p_latency {
    size_t size;
    uint64_t rounds;
    double min, mean, p50, p90, p99, p999, max;
    struct mn_spread spread; /* of the repetitions' means; outliers: rounds */
};

/* Microseconds from the first message of a burst until a small answer to the last (out), or from a
 * small question until the last message of the burst that answers it (in): one clock, this side's.
 */
struct mn_p2p_burst {
    size_t size;
    enum mn_p2p_direction direction;
    uint64_t bursts;
    double min, mean, p50, p90, p99, p999, max;
};

/* The plugin, and what verbs do by themselves. Writes on unreliable queue pairs carry immediate
 * data, so that the receiver can count them. */
enum mn_raw_kind {
    MN_RAW_PLUGIN,
    MN_RAW_RC_WRITE,
    MN_RAW_RC_SEND,
    MN_RAW_RC_READ,
    MN_RAW_UC_WRITE,
    MN_RAW_UC_SEND,
    MN_RAW_UD_SEND, /* up to the path's MTU */
    MN_RAW_KINDS
};
extern const char *const mn_raw_names[MN_RAW_KINDS]; /* "plugin", "RC write", … */

/* Medians over rounds in which all kinds took turns. */
struct mn_p2p_raw {
    size_t size;
    enum mn_p2p_direction direction;
    enum mn_raw_kind kind;
    double gbps, messages_per_s;
    double p50, p99; /* microseconds, half round trip, of a read the whole; NaN: not measured */
    uint64_t lost;
};

#define MN_RAW_DEVICE 192

struct mn_p2p_nic {
    char netdev[IF_NAMESIZE];
    char device[64];          /* RDMA device, "" = none */
    struct mn_nic_counters n; /* during the run */
    /* Of this run's own TCP connections: packets of data, and how many of them were lost. */
    uint64_t tcp_packets, tcp_lost;
};

/* What carried the messages, by the counters alone: it holds for any plugin. */
enum mn_p2p_carrier { MN_P2P_UNSEEN, MN_P2P_TCP, MN_P2P_RDMA, MN_P2P_MIXED };

struct mn_p2p_end {
    char node[MN_NAME_MAX];
    struct mn_plugin_info plugin;
    char device[128];
    char warning[512]; /* the plugin's last, "" = none */
    struct mn_p2p_nic nics[MN_P2P_NICS];
    int n_nics;
};

struct mn_p2p_report {
    struct mn_p2p_bandwidth *bandwidth;
    size_t n_bandwidth;
    struct mn_p2p_latency *latency;
    size_t n_latency;
    struct mn_p2p_bandwidth *rates; /* measured for the message rate */
    size_t n_rates;
    struct mn_p2p_raw *raw;
    size_t n_raw;
    int raw_depth;                      /* requests under way */
    char raw_devices[2][MN_RAW_DEVICE]; /* here, peer: device, port, GID, address */
    struct mn_p2p_burst *bursts;
    size_t n_bursts;
    uint64_t checked; /* messages whose data was compared */
    uint64_t wrong;
    /* All that both directions moved, warm-ups and checks included; packets: the fewest that RDMA
     * can have needed for it. */
    uint64_t moved_bytes, moved_packets;
    struct mn_p2p_end ends[2]; /* here, peer */
    struct mn_environment environments[2];
    time_t started;
    char left_out[400]; /* "in of 16M, both of 16M": for want of time; "" = nothing */
    const char *error;  /* why it ended early; NULL = it did not. The caller's */
};

/* Called before each measurement: what, its number and how many there are. */
typedef void (*mn_p2p_progress)(void *ctx, const char *what, int step, int steps);

/* Runs the plan over an authenticated control connection. After an error the report has what was
 * measured until then. Free it in every case. */
enum mn_err mn_p2p_run(struct mn_plugin *plugin, struct mn_ctl *ctl, const struct mn_p2p_plan *plan,
                       mn_p2p_progress progress, void *ctx, struct mn_p2p_report *report,
                       struct mn_diag *diag);
void mn_p2p_free(struct mn_p2p_report *report);

/* Follows one client until it is done; first is its first message, freed here. MN_OK when it left
 * after saying goodbye. */
enum mn_err mn_p2p_serve(struct mn_plugin *plugin, struct mn_ctl *ctl, cJSON *first, int device,
                         const char *pin, unsigned timeout_ms, struct mn_diag *diag);

/* Judges an end; shares[i] is the part of what carried the messages that NIC i moved, 0 to 1. */
enum mn_p2p_carrier mn_p2p_carrier(const struct mn_p2p_report *report, const struct mn_p2p_end *end,
                                   double shares[MN_P2P_NICS]);

double mn_p2p_gbytes(const struct mn_p2p_bandwidth *row); /* GB/s, 10^9 */

#endif
