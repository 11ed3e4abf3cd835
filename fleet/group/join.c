/* How ranks find each other. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/group/group_impl.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/clock.h"
#include "topo/base/log.h"
#include "topo/mesh.h"

static void set_name(struct mn_group *g, int rank, const char *node, long pid)
{
    char *name = g->peers[rank].name;

    snprintf(name, sizeof g->peers[rank].name, "rank %d (%.64s, pid %ld)", rank, node, pid);
    mn_clean(name);
}

static enum mn_err out_of_time(const struct mn_group *g, struct mn_diag *diag)
{
    char missing[256] = "";
    size_t used = 0;

    for (int r = 1; r < g->plan.nranks && used < sizeof missing - 8; r++)
        if (g->peers[r].ctl.fd < 0)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d",
                                     used ? ", " : "", r);
    return mn_fail(diag, MN_ERR_TIMEOUT, "these ranks did not come within %u s: %s",
                   g->plan.timeout_ms / 1000, missing);
}

/* Length of a name's part after "rank N (" that is the node. */
static size_t node_of(const struct mn_group *g, int rank, const char **node)
{
    const char *open = strchr(g->peers[rank].name, '('), *end;

    *node = open ? open + 1 : g->peers[rank].name;
    end = strstr(*node, ", pid ");
    return end ? (size_t)(end - *node) : strlen(*node);
}

/* Said of one rank of each node. */
static void compare_mesh(struct mn_group *g, int rank, const cJSON *message)
{
    const char *node, *other;
    size_t length = node_of(g, rank, &node);
    char text[1024], name[sizeof g->peers[rank].name];

    snprintf(name, sizeof name, "%.*s", (int)length, node);
    for (int r = 0; r < g->plan.nranks; r++)
        if (g->peers[r].other_mesh && node_of(g, r, &other) == length &&
            !memcmp(node, other, length))
            return;
    g->peers[rank].other_mesh = mn_same_mesh_differs(message, name, text, sizeof text);
    if (g->peers[rank].other_mesh)
        MN_WARN("%s", text);
}

/* What a client says of itself: its rank and name, and what its mesh file says. */
static enum mn_err check_in(struct mn_group *g, struct mn_ctl *ctl, int *rank, struct mn_diag *diag)
{
    double number, nranks, pid;
    cJSON *m;
    enum mn_err err = mn_ctl_receive(ctl, 2000, &m, diag);

    if (err)
        return err;
    err = mn_ctl_number(m, "rank", 1, MN_GROUP_RANKS - 1, &number, diag);
    if (!err)
        err = mn_ctl_number(m, "nranks", 1, MN_GROUP_RANKS, &nranks, diag);
    if (!err)
        err = mn_ctl_number(m, "pid", 1, 1e9, &pid, diag);
    *rank = err ? 0 : (int)number;
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(m, "node");
    if (!err && !cJSON_IsString(node))
        err = mn_fail(diag, MN_ERR_PROTO, "control message: 'node' is missing");
    else if (!err && ((int)nranks != g->plan.nranks || *rank >= g->plan.nranks))
        err = mn_fail(diag, MN_ERR_FAILED,
                      "rank %d of %d came to a group of %d; give all ranks the same size", *rank,
                      (int)nranks, g->plan.nranks);
    else if (!err && g->peers[*rank].ctl.fd >= 0)
        err = mn_fail(diag, MN_ERR_FAILED, "two processes came as rank %d; the first is %s", *rank,
                      g->peers[*rank].name);
    if (!err) {
        set_name(g, *rank, node->valuestring, (long)pid);
        compare_mesh(g, *rank, m);
    }
    cJSON_Delete(m);
    return err;
}

/* One whom the door let through; one who does not belong here ends the group. */
static enum mn_err receive_guest(struct mn_group *g, struct mn_ctl *ctl, int *came,
                                 struct mn_diag *diag)
{
    int rank;
    enum mn_err err = check_in(g, ctl, &rank, diag);

    if (err) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "error", diag->text);
        mn_ctl_send(ctl, m, NULL);
        mn_ctl_close(ctl);
        return err;
    }
    if (g->plan.roll)
        atomic_store(&g->plan.roll->ranks[rank].came, 1);
    mn_ctl_watch(ctl);
    mn_strlcpy(ctl->peer, g->peers[rank].name, sizeof ctl->peer);
    g->peers[rank].ctl = *ctl;
    mn_wipe(ctl, sizeof *ctl);
    ++*came;
    return MN_OK;
}

static enum mn_err tell_names(struct mn_group *g, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int r = 1; r < g->plan.nranks && !err; r++) {
        cJSON *m = cJSON_CreateObject(), *names = cJSON_AddArrayToObject(m, "names");
        cJSON_AddNumberToObject(m, "rank", r);
        for (int i = 0; i < g->plan.nranks; i++)
            cJSON_AddItemToArray(names, cJSON_CreateString(g->peers[i].name));
        err = mn_ctl_send(&g->peers[r].ctl, m, diag);
    }
    return err;
}

/* Who has no token is no news at rank 0. */
static void say(int of_stranger, const char *text)
{
    if (!of_stranger)
        MN_WARN("rank 0: %s", text);
}

enum mn_err mn_group_door(const struct mn_group_plan *plan, struct mn_door **door,
                          struct mn_diag *diag)
{
    struct mn_door_plan door_plan = {.fds = plan->doors,
                                     .n_fds = plan->n_doors,
                                     .who = "a rank at",
                                     .first_word = 1,
                                     .say = say};

    memcpy(door_plan.token, plan->token, sizeof door_plan.token);
    enum mn_err err = mn_door_open(&door_plan, door, diag);
    mn_wipe(door_plan.token, sizeof door_plan.token);
    return err;
}

/* Of those who have not come, how many never will. */
static int absent(const struct mn_group *g)
{
    int n = 0;

    for (int r = 1; g->plan.go_on && g->plan.roll && r < g->plan.nranks; r++)
        n += g->peers[r].ctl.fd < 0 && atomic_load(&g->plan.roll->ranks[r].absent);
    return n;
}

/* 1: it goes on without those who did not come in time. */
static int give_up_waiting(struct mn_group *g)
{
    struct mn_group_roll *roll = g->plan.roll;

    for (int r = 1; g->plan.go_on && roll && r < g->plan.nranks; r++)
        if (g->peers[r].ctl.fd < 0 && !atomic_load(&roll->ranks[r].absent)) {
            snprintf(roll->ranks[r].why, sizeof roll->ranks[r].why,
                     "its rank did not come within %u s", g->plan.timeout_ms / 1000);
            atomic_store(&roll->ranks[r].absent, 1);
        }
    return g->plan.go_on && roll;
}

/* Those who came are all there is from now on. */
static void close_ranks(struct mn_group *g)
{
    int n = 1;

    for (int r = 1; r < g->plan.nranks; r++)
        if (g->peers[r].ctl.fd >= 0) {
            if (n < r) {
                g->peers[n] = g->peers[r];
                g->peers[r] = (struct mn_group_peer){.ctl = {.fd = -1}};
            }
            n++;
        }
    g->plan.nranks = n;
}

/* Ranks that have come are watched for their end meanwhile. */
static enum mn_err join_as_hub(struct mn_group *g, struct mn_diag *diag)
{
    double deadline = mn_seconds() + g->plan.timeout_ms / 1000.0;
    struct mn_ctl ctl;
    struct mn_door *door;
    int came = 1;
    enum mn_err err = mn_group_door(&g->plan, &door, diag);

    while (came + absent(g) < g->plan.nranks && !err) {
        struct pollfd p = {.fd = mn_door_fd(door), .events = POLLIN};
        (void)poll(&p, 1, 20);
        while (!err && came < g->plan.nranks && mn_door_look(door, 1, &ctl))
            err = receive_guest(g, &ctl, &came, diag);
        if (!err)
            err = mn_group_watch(g, 0, diag);
        if (!err && mn_seconds() > deadline && !give_up_waiting(g))
            err = out_of_time(g, diag);
    }
    mn_door_close(door);
    if (!err)
        close_ranks(g);
    return err ? err : tell_names(g, diag);
}

static enum mn_err no_hub(const struct mn_group *g, enum mn_err err, struct mn_diag *diag)
{
    char why[512];

    if (g->plan.by_ssh)
        return mn_fail(diag, err,
                       "rank 0 cannot be reached: the way back through ssh (-R, port %u) does not "
                       "work: " MN_GROUP_SSH_BACK,
                       g->plan.port);
    snprintf(why, sizeof why, "%.511s", diag->text);
    return mn_fail(diag, err, "rank 0 cannot be reached at %s port %u: %s", g->plan.host,
                   g->plan.port, why);
}

/* Rank 0 may come later than this one, listen before it looks, and have strangers at its door. */
static enum mn_err reach_hub(struct mn_group *g, struct mn_diag *diag)
{
    struct mn_ctl *hub = &g->peers[0].ctl;
    double deadline = mn_seconds() + g->plan.timeout_ms / 1000.0;

    for (;;) {
        enum mn_err err = mn_ctl_connect(g->plan.host, g->plan.port, 2000, hub, diag);
        int there = !err;
        if (there) {
            mn_ctl_watch(hub);
            err = mn_ctl_authenticate(hub, 0, g->plan.token, g->plan.timeout_ms, diag);
        }
        if (!err || (there && err != MN_ERR_PEER_DEAD))
            return err;
        mn_ctl_close(hub);
        if (g->plan.stop && *g->plan.stop)
            return mn_fail(diag, MN_ERR_FAILED, "%s", mn_group_stop_reason(g));
        if (mn_seconds() > deadline)
            return there ? err : no_hub(g, err, diag);
        poll(NULL, 0, 100);
    }
}

static enum mn_err learn_names(struct mn_group *g, struct mn_diag *diag)
{
    cJSON *m;
    enum mn_err err = mn_group_await(g, 0, mn_seconds(), &m, diag);

    if (err)
        return err;
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(m, "names");
    int n = cJSON_IsArray(names) ? cJSON_GetArraySize(names) : 0;
    double rank = 0;
    if (n < 2 || n > g->plan.nranks)
        err = mn_fail(diag, MN_ERR_PROTO, "rank 0: a list of up to %d names was expected",
                      g->plan.nranks);
    else
        err = mn_ctl_number(m, "rank", 1, n - 1, &rank, diag);
    if (!err) {
        g->plan.nranks = n;
        g->plan.rank = (int)rank;
    }
    for (int r = 0; r < g->plan.nranks && !err; r++) {
        const cJSON *name = cJSON_GetArrayItem(names, r);
        mn_strlcpy(g->peers[r].name, cJSON_IsString(name) ? name->valuestring : "?",
                   sizeof g->peers[r].name);
        mn_clean(g->peers[r].name);
    }
    cJSON_Delete(m);
    mn_strlcpy(g->peers[0].ctl.peer, g->peers[0].name, sizeof g->peers[0].ctl.peer);
    return err;
}

static enum mn_err join_as_guest(struct mn_group *g, const char *node, struct mn_diag *diag)
{
    struct mn_ctl *hub = &g->peers[0].ctl;
    enum mn_err err = reach_hub(g, diag);

    if (err)
        return err;
    cJSON *m = cJSON_CreateObject();
    cJSON_AddNumberToObject(m, "rank", g->plan.rank);
    cJSON_AddNumberToObject(m, "nranks", g->plan.nranks);
    cJSON_AddNumberToObject(m, "pid", getpid());
    cJSON_AddStringToObject(m, "node", node);
    mn_same_mesh_put(m);
    err = mn_ctl_send(hub, m, diag);
    return err ? err : learn_names(g, diag);
}

enum mn_err mn_group_join(const struct mn_group_plan *plan, struct mn_group **group,
                          struct mn_diag *diag)
{
    char node[65] = "";
    enum mn_err err;

    *group = NULL;
    if (plan->n_doors < 0 || plan->n_doors > MN_GROUP_DOORS)
        return mn_fail(diag, MN_ERR_INTERNAL, "%d doors of a group", plan->n_doors);
    if (plan->nranks < 1 || plan->nranks > MN_GROUP_RANKS || plan->rank < 0 ||
        plan->rank >= plan->nranks)
        return mn_fail(diag, MN_ERR_USAGE, "rank %d of %d: expected 1 to %d ranks, from 0 on",
                       plan->rank, plan->nranks, MN_GROUP_RANKS);
    struct mn_group *g = mn_zalloc(sizeof *g);
    g->plan = *plan;
    g->peers = mn_zalloc((size_t)plan->nranks * sizeof *g->peers);
    for (int r = 0; r < plan->nranks; r++) {
        g->peers[r].ctl.fd = -1;
        snprintf(g->peers[r].name, sizeof g->peers[r].name, "rank %d", r);
    }
    mn_node_name(node, sizeof node);
    set_name(g, plan->rank, node, (long)getpid());
    err = plan->rank ? join_as_guest(g, node, diag) : join_as_hub(g, diag);
    if (err) {
        if (!plan->rank)
            mn_group_fail(g, err, diag);
        mn_group_leave(g);
        return err;
    }
    *group = g;
    return MN_OK;
}

/* A connection closed with words unread takes back the last ones sent: reads to the end. */
static void part(struct mn_group *g)
{
    double deadline = mn_seconds() + 2;
    char rest[4096];

    for (int r = 0; r < g->plan.nranks; r++)
        if (g->peers[r].ctl.fd >= 0) {
            mn_ctl_finish(&g->peers[r].ctl);
            (void)shutdown(g->peers[r].ctl.fd, SHUT_WR);
        }
    for (int r = 0; r < g->plan.nranks; r++) {
        struct pollfd p = {.fd = g->peers[r].ctl.fd, .events = POLLIN};
        double left;
        while (p.fd >= 0 && (left = deadline - mn_seconds()) > 0)
            if (poll(&p, 1, (int)(left * 1000)) > 0 &&
                recv(p.fd, rest, sizeof rest, MSG_DONTWAIT) <= 0)
                break;
    }
}

void mn_group_leave(struct mn_group *g)
{
    if (!g)
        return;
    if (g->over)
        part(g);
    if (g->close_companion)
        g->close_companion(g->companion);
    mn_group_close_lines(g);
    for (int r = 0; r < g->plan.nranks; r++) {
        mn_ctl_close(&g->peers[r].ctl);
        cJSON_Delete(g->peers[r].message);
    }
    mn_wipe(g->plan.token, sizeof g->plan.token);
    free(g->peers);
    free(g);
}

void mn_group_accompany(struct mn_group *g, void *companion, void (*close)(void *companion))
{
    g->companion = companion;
    g->close_companion = close;
}

void *mn_group_companion(const struct mn_group *g)
{
    return g->companion;
}

unsigned mn_group_timeout_ms(const struct mn_group *g)
{
    return g->plan.timeout_ms;
}

int mn_group_rank(const struct mn_group *g)
{
    return g->plan.rank;
}

int mn_group_size(const struct mn_group *g)
{
    return g->plan.nranks;
}

const char *mn_group_name(const struct mn_group *g, int rank)
{
    return g->peers[rank].name;
}

void mn_group_hosts(const struct mn_group *g, int *hosts)
{
    int next = 0;

    for (int r = 0; r < g->plan.nranks; r++) {
        const char *node, *other;
        size_t length = node_of(g, r, &node);
        int same = 0;
        while (same < r && (node_of(g, same, &other) != length || memcmp(node, other, length) != 0))
            same++;
        hosts[r] = same < r ? hosts[same] : next++;
    }
}
