#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/reach.h"
#include "plugin/relay/line_impl.h"
#include "topo/base/alloc.h"

/* --- its end ---------------------------------------------------------------------------------- */

enum mn_err mn_line_end(struct mn_line *line, enum mn_err code, const char *fmt, ...)
{
    char why[sizeof line->why.text];
    va_list args;

    if (line->over)
        return line->why.code;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    line->over = 1;
    return mn_fail(&line->why, code, "%s", why);
}

enum mn_err mn_line_end_errno(struct mn_line *line, int error)
{
    char text[160];

    line->reset = error == EPIPE || error == ECONNRESET;
    if (line->reset)
        return mn_line_end(line, MN_ERR_PEER_DEAD, "%s: the other end of the line is gone",
                           line->peer);
    int silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    return mn_line_end(line, silent ? MN_ERR_LINK_DEAD : MN_ERR_SYS, "%s: the line has ended: %s",
                       line->peer, mn_reach_error(error, text, sizeof text));
}

int mn_line_was_reset(const struct mn_line *line)
{
    return line->reset;
}

/* --- its beginning ---------------------------------------------------------------------------- */

static void name_peer(struct mn_line *line)
{
    if (line->name[0] && line->address[0])
        snprintf(line->peer, sizeof line->peer, "%s (%s)", line->name, line->address);
    else
        mn_strlcpy(line->peer, line->name[0] ? line->name : line->address, sizeof line->peer);
}

void mn_line_call(struct mn_line *line, const char *name)
{
    mn_strlcpy(line->name, name, sizeof line->name);
    name_peer(line);
}

static void tell_address(struct mn_line *line, const struct mn_addr *addr)
{
    struct mn_addr host = *addr;

    host.prefix = -1;
    mn_addr_format(&host, line->address, sizeof line->address);
    name_peer(line);
}

static struct mn_line *line_new(const struct mn_config *config, struct mn_diag *diag)
{
    struct mn_line *line = calloc(1, sizeof *line);

    if (!line) {
        mn_fail(diag, MN_ERR_NOMEM, "no memory for a line to a relay");
        return NULL;
    }
    line->config = config;
    line->fd = line->ask_fd = -1;
    line->due_ms = mn_now_ms() + config->settings.handshake_ms;
    return line;
}

/* The own end of the cable, whatever device has it. */
static const struct mn_local *local_of(const struct mn_config *config, const struct mn_addr *addr)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (mn_addr_equal(&config->devices[d].locals[i].addr, addr))
                return &config->devices[d].locals[i];
    return NULL;
}

static enum mn_err dial(struct mn_line *line, struct mn_diag *diag)
{
    const struct mn_relay_door *door = &line->doors[line->door];
    const struct mn_local *local = local_of(line->config, &door->from);
    char text[MN_ADDR_TEXT];

    tell_address(line, &door->to);
    line->state = MN_LINE_CONNECT;
    line->due_ms = mn_now_ms() + line->config->settings.handshake_ms;
    if (!local)
        return mn_fail(diag, MN_ERR_LINK_DEAD, "no cable here has the address %s",
                       mn_addr_format(&door->from, text, sizeof text));
    return mn_dial(local, &door->to, line->port, line->config->settings.traffic_class, &line->fd,
                   diag);
}

/* This door does not lead there: the next one, or the end. */
static enum mn_err next_door(struct mn_line *line, const struct mn_diag *failed)
{
    struct mn_diag why = *failed;

    for (;;) {
        if (line->fd >= 0)
            close(line->fd);
        line->fd = -1;
        line->rx_len = 0;
        if (why.code == MN_ERR_PEER_DEAD)
            mn_fail(&why, MN_ERR_PEER_DEAD,
                    "nobody listens at port %u: meshnet relayd does not run there, unless a "
                    "firewall rejects the port",
                    line->port);
        if (line->door + 1 >= line->n_doors)
            return mn_line_end(line, why.code, "%s: no line to its relayd: %s", line->peer,
                               why.text);
        line->door++;
        if (!dial(line, &why))
            return MN_OK;
    }
}

enum mn_err mn_line_dial(const struct mn_line_dial *d, struct mn_line **out, struct mn_diag *diag)
{
    if (d->n_doors < 1)
        return mn_fail(diag, MN_ERR_CONFIG, "%s: no cable to it has an address", d->relay_name);
    struct mn_line *line = line_new(d->config, diag);
    struct mn_diag why;

    if (!line)
        return MN_ERR_NOMEM;
    enum mn_err err = mn_random(line->hello.random[1], sizeof line->hello.random[1], diag);
    if (err) {
        mn_line_close(line);
        return err;
    }
    line->hello.relay_node = (uint32_t)d->relay_node;
    line->hello.kind = (uint8_t)d->kind;
    line->hello.node = (uint32_t)d->node;
    line->hello.uid = geteuid();
    line->hello.pid = (uint32_t)getpid();
    line->n_doors = d->n_doors < MN_LINE_DOORS ? d->n_doors : MN_LINE_DOORS;
    memcpy(line->doors, d->doors, (size_t)line->n_doors * sizeof *line->doors);
    line->port = d->port;
    mn_strlcpy(line->name, d->relay_name, sizeof line->name);
    if (dial(line, &why))
        (void)next_door(line, &why); /* step says so */
    *out = line;
    return MN_OK;
}

enum mn_err mn_line_accept(const struct mn_config *config, int node, int fd, struct mn_line **out,
                           struct mn_diag *diag)
{
    struct sockaddr_storage ss = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof ss;
    struct mn_addr addr;
    struct mn_line *line = config->has_key ? line_new(config, diag) : NULL;

    if (!line) {
        close(fd);
        return config->has_key ? MN_ERR_NOMEM
                               : mn_fail(diag, MN_ERR_CONFIG,
                                         "a relayd needs the cluster key: see plugin.key_file");
    }
    line->fd = fd;
    line->state = MN_LINE_HEARS;
    line->hello.relay_node = (uint32_t)node;
    enum mn_err err = mn_random(line->hello.random[0], sizeof line->hello.random[0], diag);
    if (err) {
        mn_line_close(line);
        return err;
    }
    if (!getpeername(fd, (struct sockaddr *)&ss, &len) &&
        mn_addr_from_sockaddr((struct sockaddr *)&ss, &addr) >= 0)
        tell_address(line, &addr);
    else
        mn_line_call(line, "a process of this node");
    mn_socket_tune(fd, config->settings.relay_silence_ms);
    *out = line;
    return MN_OK;
}

enum mn_err mn_line_over(const struct mn_config *config, int fd, const uint8_t key[MN_KEY_SIZE],
                         const char *name, unsigned silence_ms, struct mn_line **out,
                         struct mn_diag *diag)
{
    struct mn_line *line = line_new(config, diag);

    if (!line) {
        close(fd);
        return MN_ERR_NOMEM;
    }
    line->fd = fd;
    line->state = MN_LINE_UP;
    memcpy(line->signs.key, key, MN_KEY_SIZE);
    mn_strlcpy(line->peer, name, sizeof line->peer);
    mn_socket_tune(fd, silence_ms);
    *out = line;
    return MN_OK;
}

void mn_line_close(struct mn_line *line)
{
    if (!line)
        return;
    if (line->fd >= 0)
        close(line->fd);
    if (line->ask_fd >= 0)
        close(line->ask_fd);
    free(line->tx);
    mn_wipe(&line->signs, sizeof line->signs);
    free(line);
}

/* --- steps ------------------------------------------------------------------------------------ */

static enum mn_err connected(struct mn_line *line)
{
    struct mn_diag why;
    enum mn_err err = mn_dial_done(line->fd, &why);

    if (err == MN_ERR_AGAIN)
        return err;
    if (err)
        return next_door(line, &why);
    mn_socket_tune(line->fd, line->config->settings.relay_silence_ms);
    return mn_line_say_first(line);
}

static enum mn_err late(struct mn_line *line)
{
    unsigned seconds = line->config->settings.handshake_ms / 1000;
    struct mn_diag why;

    if (line->state > MN_LINE_FIRST_SAID)
        return mn_line_end(line, MN_ERR_TIMEOUT, "%s: the greeting of a line took longer than %u s",
                           line->peer, seconds);
    mn_fail(&why, MN_ERR_LINK_DEAD,
            line->state == MN_LINE_CONNECT
                ? "nobody answers at port %u within %u s: is the cable in, and its host up?"
                : "its host answers at port %u, its relayd does not within %u s: is it stopped?",
            line->port, seconds);
    return next_door(line, &why);
}

/* MN_OK: it is up. */
static enum mn_err greet(struct mn_line *line)
{
    enum mn_err err = MN_OK;

    while (!err && line->state < MN_LINE_UP) {
        err = line->state == MN_LINE_CONNECT ? connected(line) : mn_line_greet(line);
        if (err == MN_ERR_AGAIN && mn_now_ms() >= line->due_ms)
            err = late(line);
        /* Another door may do, until its relayd has said who it is. */
        if (line->over && line->state == MN_LINE_FIRST_SAID && line->why.code != MN_ERR_AUTH &&
            line->door + 1 < line->n_doors) {
            line->over = 0;
            err = next_door(line, &line->why);
        }
    }
    return err;
}

enum mn_err mn_line_step(struct mn_line *line, struct mn_diag *diag)
{
    if (line->state < MN_LINE_UP && !line->over && greet(line) == MN_ERR_AGAIN)
        return MN_ERR_AGAIN;
    if (line->state == MN_LINE_UP && !line->over) {
        mn_line_flush(line);
        mn_line_read(line);
        if (line->tx_error && line->rx_len < sizeof line->rx) /* all that was said is read */
            (void)mn_line_end_errno(line, line->tx_error);
    }
    if (!line->over || (line->state == MN_LINE_UP && mn_line_has_frame(line)))
        return MN_OK;
    if (diag)
        *diag = line->why;
    return line->why.code;
}

int mn_line_fd(const struct mn_line *line)
{
    return line->state == MN_LINE_ASKING ? line->ask_fd : line->fd;
}

unsigned mn_line_events(const struct mn_line *line)
{
    if (line->state == MN_LINE_CONNECT)
        return POLLOUT;
    return (line->rx_len - line->rx_off < sizeof line->rx ? POLLIN : 0u) |
           (line->state == MN_LINE_UP && line->tx_len > line->tx_off ? POLLOUT : 0u);
}

int mn_line_has_closed(const struct mn_line *line)
{
    return line->closed;
}

const struct mn_line_hello *mn_line_who(const struct mn_line *line)
{
    return &line->hello;
}

const uint8_t *mn_line_key(const struct mn_line *line)
{
    return line->signs.key;
}

const char *mn_line_peer(const struct mn_line *line)
{
    return line->peer;
}
