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

#include "bench/agent.h"
#include "bench/check/far.h"
#include "bench/p2p.h"
#include "cli/cmd.h"
#include "cli/plugin_path.h"
#include "topo/base/alloc.h"
#include "topo/cpu.h"
#include "topo/mesh_file.h"

#define MAX_ADDRESSES 16

struct options {
    struct mn_opt_list listen;
    long port, clients, device, abi;
    const char *token_file, *plugin, *pin;
    unsigned idle_ms;
    int once;
};

static const struct mn_opt options[] = {
    {.name = "listen",
     .type = MN_OPT_LIST,
     .arg = "ADDRESS",
     .offset = offsetof(struct options, listen),
     .help = "Addresses to listen at; default: this node's in the mesh file, else loopback."},
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
     .help = "32 hexadecimal digits both sides share; default: a fresh one, printed once."},
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

/* How a client's process ended, for --once. */
enum { CLIENT_SERVED = 0, CLIENT_FAILED = 1, CLIENT_REFUSED = 3 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static enum mn_err own_addresses(struct mn_addr *addrs, int *count, struct mn_diag *diag)
{
    char path[512], why[256];
    struct mn_mesh mesh;
    struct mn_host host = {.n_nics = 0};
    int self;

    *count = 0;
    if (!mn_mesh_find_file(path, sizeof path)) {
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
    for (size_t n = 0; !err && n < mesh.nodes[self].n_nics; n++)
        for (size_t a = 0; a < mesh.nodes[self].nics[n].n_addrs && *count < MAX_ADDRESSES; a++)
            addrs[(*count)++] = mesh.nodes[self].nics[n].addrs[a];
    mn_host_free(&host);
    mn_mesh_free(&mesh);
    return err;
}

static enum mn_err listen_all(const struct options *o, struct pollfd *fds, int *n_fds,
                              struct mn_diag *diag)
{
    struct mn_addr addrs[MAX_ADDRESSES];
    int count = 0;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < o->listen.count && !err; i++) {
        if (count == MAX_ADDRESSES)
            return mn_fail(diag, MN_ERR_USAGE, "--listen: at most %d addresses", MAX_ADDRESSES);
        err = mn_addr_parse(o->listen.items[i], &addrs[count++], diag);
        if (err)
            return mn_fail(diag, MN_ERR_USAGE, "--listen '%s': expected an address of this host",
                           o->listen.items[i]);
    }
    if (!o->listen.count)
        err = own_addresses(addrs, &count, diag);
    for (int i = 0; i < count && !err; i++) {
        char text[MN_ADDR_TEXT];
        addrs[i].prefix = -1;
        err = mn_ctl_listen(&addrs[i], (uint16_t)o->port, &fds[*n_fds].fd, diag);
        /* A host without IPv6 is no reason to stop. */
        if (err && !o->listen.count && addrs[i].family == AF_INET6 && *n_fds) {
            err = MN_OK;
            continue;
        }
        if (!err) {
            fds[(*n_fds)++].events = POLLIN;
            printf("listening at %s port %ld\n", mn_addr_format(&addrs[i], text, sizeof text),
                   o->port);
        }
    }
    return err;
}

static enum mn_err get_token(const struct options *o, uint8_t token[MN_KEY_SIZE],
                             struct mn_diag *diag)
{
    if (o->token_file)
        return mn_key_read(o->token_file, token, diag);
    enum mn_err err = mn_random(token, MN_KEY_SIZE, diag);
    if (err)
        return err;
    printf("token ");
    for (int i = 0; i < MN_KEY_SIZE; i++)
        printf("%02x", token[i]);
    printf("  (put it into a file and give it to the bench: --token-file FILE)\n");
    return MN_OK;
}

static void tell_error(struct mn_ctl *ctl, enum mn_err err, const struct mn_diag *diag)
{
    if (!err || mn_ctl_gone(ctl))
        return;
    cJSON *reply = cJSON_CreateObject();
    cJSON_AddStringToObject(reply, "error", diag->text);
    mn_ctl_send(ctl, reply, NULL);
}

/* Runs in the client's own process: a plugin that crashes takes only this client along. */
static int serve_client(const struct options *o, const char *plugin_path, int fd,
                        const uint8_t token[MN_KEY_SIZE], const char *from, pid_t serve_pid)
{
    struct mn_ctl ctl = {.fd = fd};
    struct mn_plugin *plugin;
    struct mn_diag diag = {.text = ""};
    cJSON *first;

    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    /* However serve ends, its clients' processes end with it. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != serve_pid)
        return CLIENT_FAILED;
    mn_strlcpy(ctl.peer, from, sizeof ctl.peer);
    if (mn_ctl_authenticate(&ctl, 1, token, 5000, &diag)) {
        fprintf(stderr, "meshnet serve: %s\n", diag.text);
        return CLIENT_REFUSED;
    }
    enum mn_err err = mn_ctl_receive(&ctl, o->idle_ms, &first, &diag);
    if (!err && (mn_far_asked(first) || mn_agent_asked(first))) {
        err = mn_far_asked(first) ? mn_far_serve(plugin_path, &ctl, first, &diag)
                                  : mn_agent_serve(&ctl, first, token, plugin_path, &diag);
        tell_error(&ctl, err, &diag);
        cJSON_Delete(first);
    } else if (!err) {
        err = mn_plugin_open(plugin_path, (int)o->abi, &plugin, &diag);
        tell_error(&ctl, err, &diag);
        if (err) {
            cJSON_Delete(first);
        } else {
            err = mn_p2p_serve(plugin, &ctl, first, (int)o->device, o->pin, o->idle_ms, &diag);
            mn_plugin_close(plugin);
        }
    }
    if (err)
        fprintf(stderr, "meshnet serve: %s\n", diag.text);
    else
        printf("%s: done\n", from);
    mn_ctl_close(&ctl);
    return err ? CLIENT_FAILED : CLIENT_SERVED;
}

static void refuse(int fd)
{
    (void)send(fd, MN_CTL_BUSY, sizeof MN_CTL_BUSY - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* The processes of clients: how many there are, and whether --once is satisfied. */
struct clients {
    int running, satisfied;
};

static void reap(const struct options *o, struct clients *clients)
{
    int status;

    while (waitpid(-1, &status, WNOHANG) > 0) {
        clients->running--;
        if (WIFSIGNALED(status))
            fprintf(stderr, "meshnet serve: the process of a client died of signal %d\n",
                    WTERMSIG(status));
        clients->satisfied |=
            o->once && !(WIFEXITED(status) && WEXITSTATUS(status) == CLIENT_REFUSED);
    }
}

/* A place for one more: a client that has just left may still be ending. */
static int has_place(const struct options *o, struct clients *clients)
{
    for (int i = 0; clients->running >= o->clients && i < 50; i++) {
        poll(NULL, 0, 10);
        reap(o, clients);
    }
    return clients->running < o->clients;
}

static void take_client(const struct options *o, const char *plugin_path, struct pollfd *fds,
                        int n_fds, int fd, const uint8_t token[MN_KEY_SIZE],
                        struct clients *clients)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    struct mn_addr addr = {.prefix = -1};
    char text[MN_ADDR_TEXT], from[128];

    if (!has_place(o, clients)) {
        refuse(fd);
        return;
    }
    if (!getpeername(fd, (struct sockaddr *)&ss, &len))
        (void)mn_addr_from_sockaddr((const struct sockaddr *)&ss, &addr);
    snprintf(from, sizeof from, "client %s", mn_addr_format(&addr, text, sizeof text));
    fflush(NULL);
    pid_t serve_pid = getpid(), pid = fork();
    if (pid == 0) {
        for (int i = 0; i < n_fds; i++)
            close(fds[i].fd);
        int code = serve_client(o, plugin_path, fd, token, from, serve_pid);
        fflush(NULL);
        _exit(code);
    }
    if (pid > 0)
        clients->running++;
    close(fd);
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct pollfd fds[MAX_ADDRESSES];
    uint8_t token[MN_KEY_SIZE];
    char path[512];
    int n_fds = 0;
    struct clients clients = {0};
    struct mn_diag diag = {.text = ""};
    struct sigaction action = {.sa_handler = on_signal};

    if (argc) {
        mn_fail(&diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
        return mn_cmd_fail("serve", &diag);
    }
    if (mn_cpu_check(o->pin, &diag))
        return mn_cmd_fail("serve", &diag);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    mn_plugin_path(o->plugin, path, sizeof path);
    if (get_token(o, token, &diag) || listen_all(o, fds, &n_fds, &diag))
        return mn_cmd_fail("serve", &diag);
    fflush(stdout);
    while (!stopped && !clients.satisfied) {
        int ready = poll(fds, (nfds_t)n_fds, 100);
        reap(o, &clients);
        if (ready <= 0)
            continue;
        for (int i = 0; i < n_fds; i++) {
            int fd = fds[i].revents & POLLIN
                         ? accept4(fds[i].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
                         : -1;
            if (fd >= 0)
                take_client(o, path, fds, n_fds, fd, token, &clients);
        }
    }
    for (int i = 0; i < n_fds; i++)
        close(fds[i].fd);
    /* --once: clients that came beside the first may finish. */
    while (!stopped && clients.running > 0) {
        poll(NULL, 0, 100);
        reap(o, &clients);
    }
    return 0;
}

const struct mn_command mn_cmd_serve = {
    .name = "serve",
    .summary = "the other end of a bench: wait for meshnet bench --peer or --agents",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example: meshnet serve --listen 10.0.1.2 --token-file token\n"
             "Ends on SIGINT or SIGTERM with 0; 1 when an address cannot be used, 2 on wrong "
             "usage.",
    .run = run,
};
