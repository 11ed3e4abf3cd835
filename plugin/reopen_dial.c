#include <stdlib.h>

#include "plugin/reopen_impl.h"
#include "topo/base/log.h"

#define PAUSE_MS     20 /* after the first round of attempts; twice as long after each, up to */
#define MAX_PAUSE_MS 5000

static void let_go(struct mn_reopen *r)
{
    if (r->chan)
        mn_chan_close(r->chan);
    free(r->chan);
    r->chan = NULL;
}

/* own: this host does not let it be dialled, as for want of descriptors. */
static void fail(struct mn_reopen *r, uint64_t now, const char *why, int own)
{
    const struct mn_way *way = &r->ways[r->way];
    char addr[MN_ADDR_TEXT];

    /* The peer may let it in yet: it must not take this for the end of the process. */
    if (r->chan && r->said) {
        mn_socket_reset(r->chan->fd);
        r->chan->fd = -1;
    }
    let_go(r);
    if (!(r->rounds & (r->rounds - 1)) || (own && !r->told))
        mn_log(
            own && !r->told ? MN_LOG_WARN : MN_LOG_INFO, __FILE__, __LINE__,
            "peer %s: opening a connection that was lost again to %s port %u over %s: %s; trying "
            "on",
            r->peer, mn_addr_format(&way->remote, addr, sizeof addr), r->port,
            way->routed ? "the routing table" : way->local.netdev, why);
    r->told |= own;
    r->way = (r->way + 1) % r->n_ways;
    r->due_ms = now;
    if (r->way)
        return;
    unsigned pause = r->rounds < 9 ? PAUSE_MS << r->rounds : MAX_PAUSE_MS;
    r->due_ms += pause < MAX_PAUSE_MS ? pause : MAX_PAUSE_MS;
    r->rounds++;
}

/* Says RETURN as soon as the kernel has an answer, which also is the first thing to be said. */
static enum mn_err begin(struct mn_reopen *r, struct mn_diag *why)
{
    const struct mn_way *way = &r->ways[r->way];
    struct mn_chan *chan = calloc(1, sizeof *chan);
    enum mn_err err = MN_ERR_NOMEM;
    int fd;

    if (chan)
        err = mn_dial(way->routed ? NULL : &way->local, &way->remote, r->port, r->traffic_class,
                      &fd, why);
    else
        mn_fail(why, err, "no memory");
    if (err) {
        free(chan);
        return err;
    }
    mn_chan_init(chan, fd);
    r->chan = chan;
    return MN_OK;
}

/* MN_OK: the peer has let this attempt in. */
static enum mn_err advance(struct mn_reopen *r, struct mn_diag *why)
{
    uint8_t frame[MN_RETURN_SIZE], *payload;
    uint64_t attempt = 0;
    enum mn_frame type;
    size_t len;
    enum mn_err err = r->said ? MN_OK : mn_dial_done(r->chan->fd, why);

    if (err)
        return err;
    if (!r->said) {
        mn_return_write(r, 1, ++r->attempt, frame);
        err = mn_chan_put(r->chan, MN_FRAME_RETURN, frame, sizeof frame);
        r->said = 1;
    }
    if (!err)
        err = mn_chan_flush(r->chan, why);
    if (!err)
        err = mn_chan_get(r->chan, &type, &payload, &len, why);
    if (err == MN_ERR_PEER_DEAD)
        return mn_fail(why, err,
                       "not let in: the peer has no such connection any more, or somebody "
                       "else listens there");
    if (!err && (type != MN_FRAME_RETURN || !mn_return_check(r, 0, payload, len, &attempt) ||
                 attempt != r->attempt))
        return mn_fail(why, MN_ERR_AUTH, "the answer is not the peer's");
    return err;
}

void mn_reopen_dial(struct mn_reopen *r, uint64_t now)
{
    struct mn_diag why = {.text = ""};
    enum mn_err err = MN_OK;

    if (!r->chan && now < r->due_ms)
        return;
    if (!r->chan) {
        r->said = 0;
        r->due_ms = now + r->patience_ms;
        err = begin(r, &why);
    }
    if (!err)
        err = advance(r, &why);
    if (err == MN_ERR_AGAIN && now < r->due_ms)
        return;
    if (err) {
        fail(r, now, err == MN_ERR_AGAIN ? "nobody answers" : why.text,
             !r->chan && (err == MN_ERR_SYS || err == MN_ERR_NOMEM));
        return;
    }
    r->lost = r->told = 0;
    mn_socket_keep(r->chan->fd); /* its comm may take it late, or never */
    mn_reopen_give(r, r->chan->fd);
    r->chan->fd = -1;
    let_go(r);
}
