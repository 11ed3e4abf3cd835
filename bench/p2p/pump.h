/* Inside of bench/p2p: connections (connect.c) and the polling loops both sides run (transfer.c,
 * pingpong.c). */
#ifndef MN_P2P_PUMP_H
#define MN_P2P_PUMP_H

#include "bench/p2p.h"

#define MN_P2P_PAGE 4096 /* slots of the buffers begin on one */

struct mn_p2p_pump {
    struct mn_plugin *plugin;
    struct mn_ctl *ctl;
    unsigned timeout_ms;
    int device, connections, outstanding;
    void **listens, **sends, **recvs; /* one a connection, each way */
    uint8_t *handles, *peer_handles;  /* MN_HANDLE_SIZE a connection */
    uint8_t *area[2];                 /* message buffers: sent from, received into */
    size_t area_size;
    void **mhs[2];  /* registrations, one a comm */
    char log[1024]; /* the plugin's last warning */
};

/* What one side of a transfer saw. */
struct mn_p2p_seen {
    uint64_t messages, bytes, wrong;
    double seconds, cpu_seconds;
};

enum mn_err mn_p2p_open(struct mn_p2p_pump *pump, struct mn_diag *diag);
/* After both sides know the other's handles. */
enum mn_err mn_p2p_connect(struct mn_p2p_pump *pump, struct mn_diag *diag);
enum mn_err mn_p2p_buffers(struct mn_p2p_pump *pump, size_t largest, size_t memory,
                           struct mn_diag *diag);
void mn_p2p_close(struct mn_p2p_pump *pump);

/* Moves count messages of size over every connection, in the directions given (send: 1, receive:
 * 2). check: fills and compares each message. */
enum mn_err mn_p2p_transfer(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                            int check, struct mn_p2p_seen *seen, struct mn_diag *diag);
/* Ping-pong over connection 0. first: this side begins; rtts (microseconds, count entries) is
 * filled when not NULL. */
enum mn_err mn_p2p_pingpong(struct mn_p2p_pump *pump, size_t size, uint64_t count, int first,
                            float *rtts, struct mn_diag *diag);

/* Counters of every NIC of this host; then the difference to an earlier reading. */
int mn_p2p_counters(struct mn_p2p_nic nics[MN_P2P_NICS]);
void mn_p2p_counters_since(struct mn_p2p_nic *nics, int count, const struct mn_p2p_nic *before,
                           int count_before);
double mn_p2p_now(void);     /* seconds, CLOCK_MONOTONIC */
double mn_p2p_cpu_now(void); /* processor seconds of this process */

/* A watch over a loop: bounded waiting without progress, and a look whether the peer still lives.
 * Set idle to 0 when something moved. */
struct mn_p2p_watch {
    const struct mn_p2p_pump *pump;
    const char *what; /* "moving messages" */
    double since;
    unsigned idle;
};
/* A turn of the loop without progress. MN_ERR_TIMEOUT, MN_ERR_PEER_DEAD. */
enum mn_err mn_p2p_idle(struct mn_p2p_watch *watch, struct mn_diag *diag);
/* The plugin's call returned result: MN_ERR_FAILED, with the plugin's last warning. */
enum mn_err mn_p2p_failed(const struct mn_p2p_pump *pump, const char *call, int result,
                          struct mn_diag *diag);

#endif
