/* Ranks at other hosts, through the meshnet serve that runs there. They come to rank 0 at the
 * address of this host that leads to theirs. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/host_name.h"
#include "fleet/agent.h"
#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "fleet/ssh.h"

#define CONNECT_MS 10000

static void host_of(const struct mn_collective_session *s, int rank, char *host, size_t size)
{
    mn_bench_address(&s->mesh, s->self, s->hosts->items[rank], host, size);
}

/* This host's address on the way there, by the kernel's routes; nothing is sent. */
static enum mn_err address_towards(const char *host, struct mn_addr *own, struct mn_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list;
    struct sockaddr_storage ss;
    socklen_t length = sizeof ss;
    int rc = getaddrinfo(host, "9", &hints, &list), found = 0;

    if (rc)
        return mn_fail(diag, MN_ERR_NOTFOUND, "--hosts %s: %s", host, gai_strerror(rc));
    for (const struct addrinfo *ai = list; ai && !found; ai = ai->ai_next) {
        int fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        found = fd >= 0 && !connect(fd, ai->ai_addr, ai->ai_addrlen) &&
                !getsockname(fd, (struct sockaddr *)&ss, &length) &&
                mn_addr_from_sockaddr((const struct sockaddr *)&ss, own) >= 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    return found ? MN_OK
                 : mn_fail(diag, MN_ERR_NOTFOUND, "--hosts %s: this host has no way there", host);
}

/* The port of the door at that address, 0 = there is none. */
static uint16_t door_at(const struct mn_group_plan *plan, const struct mn_addr *addr)
{
    for (int i = 0; i < plan->n_doors; i++) {
        struct sockaddr_storage ss;
        struct mn_addr own;
        socklen_t length = sizeof ss;
        if (getsockname(plan->doors[i], (struct sockaddr *)&ss, &length))
            continue;
        int port = mn_addr_from_sockaddr((const struct sockaddr *)&ss, &own);
        if (port > 0 && mn_addr_equal(&own, addr))
            return (uint16_t)port;
    }
    return 0;
}

/* Where this host is reached from there. */
static enum mn_err open_door(struct mn_group_plan *plan, const char *host, struct mn_diag *diag)
{
    struct mn_addr own;
    enum mn_err err = address_towards(host, &own, diag);

    if (err || door_at(plan, &own))
        return err;
    if (plan->n_doors == MN_GROUP_DOORS)
        return mn_fail(diag, MN_ERR_UNSUPPORTED,
                       "--agents: the hosts are reached from more than %d addresses",
                       MN_GROUP_DOORS);
    err = mn_ctl_listen(&own, 0, &plan->doors[plan->n_doors], diag);
    plan->n_doors += !err;
    return err;
}

enum mn_err mn_collective_doors(struct mn_collective_session *s, struct mn_diag *diag)
{
    struct mn_group_plan *plan = &s->plan;
    enum mn_err err = MN_OK;

    for (int r = 1; r < plan->nranks && !err; r++) {
        char host[256];
        if (mn_ssh_is_here(s->hosts->items[r]))
            continue;
        host_of(s, r, host, sizeof host);
        err = open_door(plan, host, diag);
        if (err && plan->go_on)
            err = MN_OK; /* who runs the rank will say it */
        char ways[MN_NAMES_WAYS][MN_ADDR_TEXT];
        int n = mn_names_ways(&s->mesh, s->self, s->hosts->items[r], ways);
        for (int i = 0; i < n && !err; i++)
            (void)open_door(plan, ways[i], NULL);
    }
    return err;
}

/* The launcher says of whom it is. */
static void on_line(void *ctx, int which, const char *text)
{
    (void)ctx;
    fprintf(which == 1 ? stdout : stderr, "%s\n", text);
    fflush(stdout);
}

static enum mn_err run(const struct mn_collective_session *s, int rank, struct mn_ctl *ctl,
                       int *code, struct mn_diag *diag)
{
    struct mn_agent_rank ask = {.rank = rank, .nranks = s->plan.nranks};
    struct sockaddr_storage ss;
    socklen_t length = sizeof ss;
    struct mn_opt_list words;
    struct mn_addr own = {.family = 0};
    char text[MN_ADDR_TEXT];

    if (getsockname(ctl->fd, (struct sockaddr *)&ss, &length) == 0 &&
        mn_addr_from_sockaddr((const struct sockaddr *)&ss, &own) >= 0)
        ask.port = door_at(&s->plan, &own);
    if (!ask.port)
        return mn_fail(diag, MN_ERR_FAILED,
                       "%s: is reached from %s, where rank 0 does not listen; give --hosts an "
                       "address of it",
                       ctl->peer, mn_addr_format(&own, text, sizeof text));
    mn_collective_words(s->options, &words);
    ask.words = words.items;
    ask.n_words = words.count;
    enum mn_err err = mn_agent_run(ctl, &ask, on_line, NULL, code, diag);
    mn_collective_free_words(&words);
    return err;
}

int mn_collective_agent(const struct mn_collective_session *s, int rank)
{
    struct mn_ctl ctl = {.fd = -1};
    struct mn_diag diag = {.text = ""};
    char host[256], ways[MN_NAMES_WAYS][MN_ADDR_TEXT];
    int code = 1;

    host_of(s, rank, host, sizeof host);
    enum mn_err err =
        mn_ctl_reach(host, (uint16_t)s->options->port, s->plan.token, CONNECT_MS, &ctl, &diag);
    int n = err ? mn_names_ways(&s->mesh, s->self, s->hosts->items[rank], ways) : 0;
    for (int i = 0; i < n && err; i++) {
        if (!strcmp(ways[i], host))
            continue;
        fprintf(stderr, "meshnet bench: %s\n", diag.text);
        err = mn_ctl_reach(ways[i], (uint16_t)s->options->port, s->plan.token, CONNECT_MS, &ctl,
                           &diag);
    }
    if (!err)
        err = run(s, rank, &ctl, &code, &diag);
    mn_ctl_close(&ctl);
    return err ? mn_cmd_fail("bench", &diag) : code;
}
