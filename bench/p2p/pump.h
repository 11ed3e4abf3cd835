/* Inside of bench/p2p: connections (connect.c) and the polling loops both sides run (transfer.c,
 * pingpong.c). */
#ifndef MN_P2P_PUMP_H
#define MN_P2P_PUMP_H

#include "bench/p2p.h"

#define MN_P2P_PAGE 4096 /* slots of the buffers begin on one */

struct raw; /* raw.h */

struct mn_p2p_pump {
    struct mn_plugin *plugin;
    struct mn_ctl *ctl;
    unsigned timeout_ms;
    const volatile sig_atomic_t *stop; /* as in the plan */
    int device, connections, outstanding;
    const char *pin;                  /* see mn_cpu_pin */
    int threads, group, flush;        /* as in the plan */
    int window;                       /* requests under way now, at most outstanding */
    void **listens, **sends, **recvs; /* one a connection, each way */
    uint8_t *handles, *peer_handles;  /* MN_HANDLE_SIZE a connection */
    struct mn_memory memory;          /* what the buffers are of */
    uint8_t *area[2];                 /* message buffers: sent from, received into */
    size_t area_size;
    void **mhs[2];   /* registrations, one a comm */
    struct raw *raw; /* verbs alone; NULL: not asked for */
    char log[1024];  /* the plugin's last warning */
};

/* What one side of a transfer saw. */
struct mn_p2p_seen {
    uint64_t messages, bytes, wrong;
    double seconds, cpu_seconds;
};

/* A watch over a loop: bounded waiting without progress, and a look whether the peer still lives.
 * Set idle to 0 when something moved. */
struct mn_p2p_watch {
    const struct mn_p2p_pump *pump;
    const char *what; /* "moving messages" */
    double since;
    unsigned idle;
};

enum mn_err mn_p2p_open(struct mn_p2p_pump *pump, enum mn_memory_kind memory, int gpu,
                        struct mn_diag *diag);
/* After both sides know the other's handles. */
enum mn_err mn_p2p_connect(struct mn_p2p_pump *pump, struct mn_diag *diag);
enum mn_err mn_p2p_buffers(struct mn_p2p_pump *pump, size_t largest, size_t bytes,
                           struct mn_diag *diag);
void mn_p2p_close(struct mn_p2p_pump *pump);

/* Moves count messages of size over every connection, in the directions given (send: 1, receive:
 * 2). check: fills and compares each message. */
enum mn_err mn_p2p_transfer(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                            int check, struct mn_p2p_seen *seen, struct mn_diag *diag);
/* The same in two parts: begin posts the first receives, so that the time until the peer sends
 * does not count. finish ends the transfer, successful or not. NULL with *diag filled. */
struct mn_p2p_mover *mn_p2p_begin(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                                  int check, struct mn_diag *diag);
enum mn_err mn_p2p_finish(struct mn_p2p_mover *mover, struct mn_p2p_seen *seen,
                          struct mn_diag *diag);
void mn_p2p_cancel(struct mn_p2p_mover *mover); /* instead of finish, when all is at its end */
/* Ping-pong over connection 0. first: this side begins; rtts (microseconds, count entries) is
 * filled when not NULL. */
enum mn_err mn_p2p_pingpong(struct mn_p2p_pump *pump, size_t size, uint64_t count, int first,
                            float *rtts, struct mn_diag *diag);

/* Bursts of messages of size on every connection, each after a pause. way: 1 this side sends them
 * and waits for the answer, 2 it asks for them; times: this side's clock says how long each took
 * (microseconds, count entries), NULL at the side that follows. */
enum mn_err mn_p2p_bursts(struct mn_p2p_pump *pump, size_t size, int messages, uint64_t count,
                          unsigned pause_ms, int way, float *times, struct mn_diag *diag);
/* Warms up and measures for the plan's duration or iters; the peer follows (op "bursts"). */
#define MN_P2P_BURSTS_BEFORE 20
enum mn_err mn_p2p_measure_bursts(struct mn_p2p_pump *pump, const struct mn_p2p_plan *plan,
                                  size_t size, enum mn_p2p_direction direction,
                                  struct mn_p2p_burst *row, struct mn_diag *diag);
/* Until the request is done. */
enum mn_err mn_p2p_wait(struct mn_p2p_pump *pump, void *request, struct mn_p2p_watch *watch,
                        struct mn_diag *diag);
/* iflush of n receives, and until it is done. */
enum mn_err mn_p2p_flush(struct mn_p2p_pump *pump, int connection, int n, void **data, int *sizes,
                         struct mn_p2p_watch *watch, struct mn_diag *diag);

/* Verbs alone (raw_run.c): the side that follows. End closes, at both sides. */
enum mn_err mn_raw_on_open(struct mn_p2p_pump *pump, const cJSON *message, struct mn_diag *diag);
enum mn_err mn_raw_on_move(struct mn_p2p_pump *pump, const cJSON *message, struct mn_diag *diag);
void mn_raw_end(struct mn_p2p_pump *pump);

/* Adds what the TCP connections of this process sent and lost to the NICs they go out of. */
void mn_p2p_tcp_losses(const struct mn_host *host, struct mn_p2p_nic *nics, int count);
/* Counters of every NIC of this host; then the difference to an earlier reading. */
int mn_p2p_counters(struct mn_p2p_nic nics[MN_P2P_NICS]);
void mn_p2p_counters_since(struct mn_p2p_nic *nics, int count, const struct mn_p2p_nic *before,
                           int count_before);
double mn_p2p_cpu_now(void); /* processor seconds of this process */

/* MN_ERR_FAILED when the run was interrupted. */
enum mn_err mn_p2p_interrupted(const struct mn_p2p_pump *pump, struct mn_diag *diag);
/* Asks the peer to follow, unless the run was interrupted; message is used up. */
enum mn_err mn_p2p_start(const struct mn_p2p_pump *pump, cJSON *message, struct mn_diag *diag);
/* A turn of the loop without progress. MN_ERR_TIMEOUT, MN_ERR_PEER_DEAD, or interrupted. */
enum mn_err mn_p2p_idle(struct mn_p2p_watch *watch, struct mn_diag *diag);
/* The plugin's call returned result: MN_ERR_FAILED, with the plugin's last warning. */
enum mn_err mn_p2p_failed(const struct mn_p2p_pump *pump, const char *call, int result,
                          struct mn_diag *diag);

#endif
