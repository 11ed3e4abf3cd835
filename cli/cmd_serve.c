#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/agent.h"
#include "bench/check/far.h"
#include "fleet/door.h"
#include "fleet/node_agent.h"
#include "bench/p2p.h"
#include "cli/cmd.h"
#include "cli/host_name.h"
#include "cli/plugin_path.h"
#include "cli/rank_env.h"
#include "cli/serve_plugin.h"
#include "topo/base/alloc.h"
#include "topo/cpu.h"
#include "topo/mesh_file.h"

#define MAX_ADDRESSES 16

struct options {
    struct mn_opt_list listen;
    long port, clients, device, abi;
    const char *token_file, *plugin, *pin;
    unsigned idle_ms;
    int once, manage;
};

static const struct mn_opt options[] = {
    {.name = "listen",
     .type = MN_OPT_LIST,
     .arg = "ADDRESS",
     .offset = offsetof(struct options, listen),
     .help = "Addresses, or this node's name, to listen at; default: this node's in the mesh file, "
             "else loopback."},
    {.name = "port",
     .type = MN_OPT_INT,
     .arg = "PORT",
     .def = "18515",
     .offset = offsetof(struct options, port),
     .min = 1,
     .max = 65535,
     .help = "Port of the control connection."},
    {.name = "token-file",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct options, token_file),
     .help = "32 hexadecimal digits both sides share; default: $MESHNET_TOKEN, else a fresh one, "
             "printed once."},
    MN_PLUGIN_OPTIONS(struct options),
    {.name = "pin",
     .type = MN_OPT_STRING,
     .arg = "CPUS",
     .def = "auto",
     .offset = offsetof(struct options, pin),
     .help = "CPUs to measure on: auto (near the NIC), none, or a list such as 0,2,4-7."},
    {.name = "clients",
     .type = MN_OPT_INT,
     .arg = "N",
     .def = "1",
     .offset = offsetof(struct options, clients),
     .min = 1,
     .max = 64,
     .help = "Serve this many clients, or ranks, at a time; more are told to come back later."},
    {.name = "once",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, once),
     .help = "End after the first client that had the right token."},
    {.name = "manage",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, manage),
     .help = "Clients may change this host: addresses, routes, the mesh file. Else they may look."},
    {.name = "idle-timeout",
     .type = MN_OPT_DURATION,
     .arg = "TIME",
     .def = "60s",
     .offset = offsetof(struct options, idle_ms),
     .min = 1000,
     .max = 3600000,
     .help = "Drop a client that says nothing for so long."},
    MN_OPT_END,
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void say_first(int count, int all)
{
    if (count < all)
        fprintf(stderr,
                "meshnet serve: listens at the first %d of %d addresses that the mesh file gives "
                "this node; choose others with --listen ADDRESS\n",
                count, all);
}

static enum mn_err own_addresses(struct mn_addr *addrs, int *count, struct mn_diag *diag)
{
    char path[512], why[256];
    struct mn_mesh mesh;
    struct mn_host host = {.n_nics = 0};
    int self;

    *count = 0;
    if (!mn_mesh_find_file(path, sizeof path)) {
        fputs("meshnet serve: no mesh file says which addresses this node has, so it listens on "
              "loopback only, where other hosts do not reach it: give --listen ADDRESS, or write "
              "the file with meshnet discover\n",
              stderr);
        for (const char *const *text = (const char *const[]){"127.0.0.1", "::1", NULL}; *text;
             text++)
            mn_addr_parse(*text, &addrs[(*count)++], NULL);
        return MN_OK;
    }
    mn_mesh_init(&mesh);
    enum mn_err err = mn_mesh_read(path, &mesh, diag);
    if (!err)
        err = mn_host_read(NULL, &host, diag);
    if (!err)
        err = mn_mesh_find_self(&mesh, &host, &self, why, sizeof why, diag);
    if (!err) {
        *count = MAX_ADDRESSES;
        int all = mn_names_listening(&mesh.nodes[self], addrs, count);
        say_first(*count, all);
    }
    mn_host_free(&host);
    mn_mesh_free(&mesh);
    return err;
}

/* An address, or this node's name for all that the mesh file gives it. */
static enum mn_err named_addresses(const char *name, struct mn_addr *addrs, int *count,
                                   struct mn_diag *diag)
{
    struct mn_names names;
    int all;

    if (!mn_addr_parse(name, addrs, NULL)) {
        *count = 1;
        return MN_OK;
    }
    enum mn_err err = mn_names_read(&names, diag);
    if (!err)
        err = mn_names_own(&names, "--listen", name, addrs, count, &all, diag);
    if (!err)
        say_first(*count, all);
    mn_names_free(&names);
    return err;
}

static enum mn_err listen_all(const struct options *o, int *fds, int *n_fds, struct mn_diag *diag)
{
    struct mn_addr addrs[MAX_ADDRESSES];
    int count = 0;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < o->listen.count && !err; i++) {
        int more = MAX_ADDRESSES - count;
        if (!more)
            return mn_fail(diag, MN_ERR_USAGE, "--listen: at most %d addresses", MAX_ADDRESSES);
        err = named_addresses(o->listen.items[i], addrs + count, &more, diag);
        count += more;
    }
    if (!o->listen.count)
        err = own_addresses(addrs, &count, diag);
    for (int i = 0; i < count && !err; i++) {
        char text[MN_ADDR_TEXT];
        addrs[i].prefix = -1;
        err = mn_ctl_listen(&addrs[i], (uint16_t)o->port, &fds[*n_fds], diag);
        if (!err) {
            ++*n_fds;
            printf("listening at %s port %ld\n", mn_addr_format(&addrs[i], text, sizeof text),
                   o->port);
        } else if (!o->listen.count && err != MN_ERR_EXISTS) {
            /* A host without IPv6, or a lease that has ended, is no reason to stop. */
            if (!mn_addr_is_loopback(&addrs[i]))
                fprintf(stderr, "meshnet serve: goes on without an address of the mesh file: %s\n",
                        diag->text);
            err = MN_OK;
        }
    }
    return err || *n_fds || !count ? err : diag->code;
}

/* *fresh: nobody else knows it yet. */
static enum mn_err get_token(const struct options *o, uint8_t token[MN_KEY_SIZE], int *fresh,
                             struct mn_diag *diag)
{
    *fresh = !o->token_file && !getenv("MESHNET_TOKEN");
    return *fresh ? mn_random(token, MN_KEY_SIZE, diag)
                  : mn_token_read(o->token_file, "", token, diag);
}

static void print_token(const uint8_t token[MN_KEY_SIZE])
{
    printf("token ");
    for (int i = 0; i < MN_KEY_SIZE; i++)
        printf("%02x", token[i]);
    printf("  (for the other side: in MESHNET_TOKEN, or in a file for --token-file FILE)\n");
}

static void tell_error(struct mn_ctl *ctl, enum mn_err err, const struct mn_diag *diag)
{
    if (!err || mn_ctl_gone(ctl))
        return;
    cJSON *reply = cJSON_CreateObject();
    cJSON_AddStringToObject(reply, "error", diag->text);
    mn_ctl_send(ctl, reply, NULL);
}

struct server {
    const struct options *o;
    char plugin_path[512];
    struct mn_door_plan plan;
    struct mn_door *door;
    pid_t pid;
    int running; /* processes of clients */
    int served;  /* one has ended */
};

/* Runs in the client's own process: a plugin that crashes takes only this client along. Returns its
 * exit code. */
static int serve_client(const struct server *s, struct mn_ctl *ctl)
{
    const struct options *o = s->o;
    const char *path = s->plugin_path;
    struct mn_plugin *plugin;
    struct mn_diag diag = {.text = ""};
    cJSON *first;

    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    /* However serve ends, its clients' processes end with it. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != s->pid)
        return 1;
    enum mn_err err = mn_ctl_receive(ctl, o->idle_ms, &first, &diag);
    if (!err && mn_node_agent_asked(first)) {
        err = mn_node_agent_serve(ctl, first, o->manage, o->idle_ms, &diag);
        tell_error(ctl, err, &diag);
        cJSON_Delete(first);
    } else if (!err && (mn_far_asked(first) || mn_agent_asked(first))) {
        err = mn_far_asked(first) ? mn_far_serve(path, ctl, first, &diag)
                                  : mn_agent_serve(ctl, first, s->plan.token, path, &diag);
        tell_error(ctl, err, &diag);
        cJSON_Delete(first);
    } else if (!err) {
        err = mn_plugin_open(path, (int)o->abi, &plugin, &diag);
        tell_error(ctl, err, &diag);
        if (err) {
            cJSON_Delete(first);
        } else {
            err = mn_p2p_serve(plugin, ctl, first, (int)o->device, o->pin, o->idle_ms, &diag);
            mn_plugin_close(plugin);
        }
    }
    if (err)
        fprintf(stderr, "meshnet serve: %s\n", diag.text);
    else
        printf("%s: done\n", ctl->peer);
    mn_ctl_close(ctl);
    return err ? 1 : 0;
}

static void reap(struct server *s)
{
    int status;

    while (waitpid(-1, &status, WNOHANG) > 0) {
        s->running--;
        s->served = 1;
        if (WIFSIGNALED(status))
            fprintf(stderr, "meshnet serve: the process of a client died of signal %d\n",
                    WTERMSIG(status));
    }
}

static void take_client(struct server *s, struct mn_ctl *ctl)
{
    struct mn_diag diag;

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < s->plan.n_fds; i++)
            close(s->plan.fds[i]);
        mn_door_close(s->door);
        int code = serve_client(s, ctl);
        fflush(NULL);
        _exit(code);
    }
    if (pid > 0) {
        s->running++;
        mn_ctl_drop(ctl);
    } else {
        enum mn_err err = mn_fail_errno(&diag, "a process for %s", ctl->peer);
        fprintf(stderr, "meshnet serve: %s\n", diag.text);
        tell_error(ctl, err, &diag);
        mn_ctl_close(ctl);
    }
}

static void say(int of_stranger, const char *text)
{
    (void)of_stranger;
    fprintf(stderr, "meshnet serve: %s\n", text);
}

static void serve(struct server *s)
{
    struct mn_ctl ctl;

    while (!stopped && !(s->o->once && s->served)) {
        struct pollfd p = {.fd = mn_door_fd(s->door), .events = POLLIN};
        (void)poll(&p, 1, 100);
        reap(s);
        while (mn_door_look(s->door, s->running < s->o->clients, &ctl))
            take_client(s, &ctl);
    }
    mn_door_close(s->door);
    for (int i = 0; i < s->plan.n_fds; i++)
        close(s->plan.fds[i]);
    /* --once: clients that came beside the first may finish. */
    while (!stopped && s->running > 0) {
        poll(NULL, 0, 100);
        reap(s);
    }
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    int fds[MAX_ADDRESSES];
    struct server s = {.o = o, .plan = {.fds = fds, .who = "client", .say = say}, .pid = getpid()};
    struct mn_diag diag = {.text = ""};
    struct sigaction action = {.sa_handler = on_signal};
    int fresh = 0;

    if (argc) {
        mn_fail(&diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
        return mn_cmd_fail("serve", &diag);
    }
    if (mn_cpu_check(o->pin, &diag))
        return mn_cmd_fail("serve", &diag);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    mn_plugin_path(o->plugin, s.plugin_path, sizeof s.plugin_path);
    /* Agents need none: that the default is not there is no mistake. */
    if ((o->plugin || o->abi || o->device) &&
        mn_serve_plugin_check(s.plugin_path, (int)o->abi, (int)o->device, &diag))
        return mn_cmd_fail("serve", &diag);
    if (get_token(o, s.plan.token, &fresh, &diag) || listen_all(o, fds, &s.plan.n_fds, &diag) ||
        mn_door_open(&s.plan, &s.door, &diag)) {
        mn_wipe(s.plan.token, sizeof s.plan.token);
        return mn_cmd_fail("serve", &diag);
    }
    if (fresh)
        print_token(s.plan.token);
    fflush(stdout);
    serve(&s);
    mn_wipe(s.plan.token, sizeof s.plan.token);
    return 0;
}

const struct mn_command mn_cmd_serve = {
    .name = "serve",
    .summary = "the other end of a bench and of commands with --agents",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example: meshnet serve --listen 10.0.1.2 --token-file token",
    .exits = {{0, MN_GOOD ": ended by SIGINT or SIGTERM, or with --once after a client"},
              {1, MN_FAILED "an address cannot be used"},
              {2, MN_REFUSED "a mistake in the mesh file or the token, or a --plugin or --abi that "
                             "cannot be had"}},
    .run = run,
};
