/* The control connection: what it carries, that it may be lost, and that it comes back. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define SILENCE_MS 1000 /* between looks whether it is silent */
#define DRAIN_MS   50   /* what was sent before the peer closed has completed here by then */

/* Takes the new control connection, if it was opened again. */
static void renew_control(struct verbs_comm *comm)
{
    char who[VERBS_WHO];

    if (!mn_reopen_is_done(comm->reopen))
        return;
    mn_reopen_watch(comm->reopen, -1);
    int fd = mn_reopen_take(comm->reopen);
    /* The peer may not have seen yet that there is a new one. */
    if (comm->control.fd >= 0)
        mn_socket_reset(comm->control.fd);
    comm->control.fd = -1;
    mn_chan_close(&comm->control);
    mn_chan_init(&comm->control, fd);
    comm->base.wakes_changed++;
    mn_socket_keep(fd);
    verbs_attend_watch(comm);
    verbs_say_again(comm);
    if (!comm->peer_closed)
        comm->ended_ms = 0;
    MN_WARN("%s: the control connection was opened again", verbs_name(comm, -1, who));
}

int verbs_control_is_on(const struct verbs_comm *comm, const struct verbs_link *link)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    struct mn_addr addr;

    if (comm->control.fd < 0 || getsockname(comm->control.fd, (struct sockaddr *)&ss, &len) ||
        mn_addr_from_sockaddr((struct sockaddr *)&ss, &addr) < 0)
        return 0;
    return mn_addr_equal(&addr, &link->local.addr);
}

/* --- what is said ---------------------------------------------------------------------------- */

void verbs_tell_peer(struct verbs_comm *comm, enum mn_err code, const char *text)
{
    uint8_t frame[512];
    struct mn_bytes b = {frame, frame + sizeof frame, 0};
    size_t len = strlen(text);

    renew_control(comm);
    mn_put(&b, (uint64_t)code, 1);
    mn_put_raw(&b, text, len < sizeof frame - 1 ? len : sizeof frame - 1);
    len = (size_t)(b.at - frame);
    enum mn_err err = comm->control.fd < 0
                          ? MN_ERR_LINK_DEAD
                          : mn_chan_put(&comm->control, MN_FRAME_FAILED, frame, len);
    if (!err)
        err = mn_chan_flush(&comm->control, NULL);
    /* What is sent may be lost with its cable. Who has not heard it would wait for ever once a new
     * connection tells that the process is there. */
    mn_reopen_fail(comm->reopen, MN_FRAME_FAILED, frame, len);
    if (err && err != MN_ERR_AGAIN && !comm->peer_closed && !comm->ended_ms)
        (void)mn_reopen_lost(comm->reopen);
}

/* A receiver that closes no longer acknowledges what it has received: it says so instead. */
void verbs_say_bye(struct verbs_comm *comm)
{
    uint8_t landed[4];
    struct mn_bytes b = {landed, landed + sizeof landed, 0};

    renew_control(comm);
    mn_put(&b, comm->seq_landed, 4);
    if (comm->control.fd >= 0 && !verbs_error(comm) &&
        !mn_chan_put(&comm->control, MN_FRAME_BYE, landed, sizeof landed))
        (void)mn_chan_flush(&comm->control, NULL);
    if (comm->control.fd >= 0)
        mn_socket_last_words(comm->control.fd, comm->config->settings.rdma_silence_ms);
}

/* --- what is heard --------------------------------------------------------------------------- */

static enum mn_err on_control(struct verbs_comm *comm, enum mn_frame type, uint8_t *payload,
                              size_t len)
{
    struct mn_bytes b = {payload, payload + len, 0};
    char text[480];

    if (type == MN_FRAME_BYE && len == 4) {
        comm->peer_closed = 1;
        if (comm->base.is_send)
            verbs_send_landed(comm, (uint32_t)mn_get(&b, 4));
        return MN_OK;
    }
    if (type == MN_FRAME_LINK)
        return verbs_hear(comm, payload, len);
    if (type != MN_FRAME_FAILED || len < 1)
        return verbs_fail(comm, -1, MN_ERR_PROTO, "control frame %d of %zu bytes", (int)type, len);
    uint64_t code = mn_get(&b, 1);
    size_t n = len - 1 < sizeof text - 1 ? len - 1 : sizeof text - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(payload[i + 1] < 0x20 || payload[i + 1] == 0x7f ? '?' : payload[i + 1]);
    text[n] = 0;
    char told[512];
    snprintf(told, sizeof told, "the peer gave up: %s", text);
    return verbs_fail_text(comm, comm->broken_link,
                           code == MN_ERR_TOO_LONG ? MN_ERR_TOO_LONG : MN_ERR_PEER_DEAD, told);
}

/* What else than the peer's end of it ends a control connection says nothing of the queue pairs:
 * they are asked at once. */
static void lose_control(struct verbs_comm *comm, const char *why)
{
    char who[VERBS_WHO];

    mn_reopen_watch(comm->reopen, -1);
    mn_chan_close(&comm->control);
    comm->base.wakes_changed++;
    MN_WARN("%s: the control connection is lost (%s); going on without it as long as the queue "
            "pairs work%s",
            verbs_name(comm, -1, who), why,
            mn_reopen_lost(comm->reopen) ? "; it is being opened again" : "");
    comm->in_doubt = 1;
}

/* What was on its way by the old one has arrived, or will not. */
static enum mn_err read_old_control(struct verbs_comm *comm)
{
    enum mn_err err = MN_OK;
    enum mn_frame type;
    uint8_t *payload;
    size_t len;

    while (!err && comm->control.fd >= 0 &&
           !mn_chan_get(&comm->control, &type, &payload, &len, NULL))
        err = on_control(comm, type, payload, len);
    return err;
}

/* Its cable may be out while others are not. The old one stays until there is a new one. One that
 * is lost may have found no descriptor to be dialled with. */
static void look_for_silence(struct verbs_comm *comm, uint64_t now)
{
    if (!comm->base.is_send || comm->peer_closed || comm->ended_ms ||
        now - comm->listened_ms < SILENCE_MS)
        return;
    comm->listened_ms = now;
    if (comm->control.fd < 0 || mn_socket_is_silent(comm->control.fd))
        (void)mn_reopen_lost(comm->reopen);
}

enum mn_err verbs_look_at_control(struct verbs_comm *comm, uint64_t now)
{
    struct mn_diag diag = {.text = ""};
    enum mn_frame type;
    uint8_t *payload;
    size_t len;

    if (mn_reopen_is_done(comm->reopen)) {
        enum mn_err err = read_old_control(comm);
        if (err)
            return err;
        renew_control(comm);
    }
    look_for_silence(comm, now);
    comm->unheard = 1;
    for (int i = 0; i < 4 && comm->control.fd >= 0 && !comm->ended_ms; i++) {
        enum mn_err err = mn_chan_get(&comm->control, &type, &payload, &len, &diag);
        if (!err)
            err = on_control(comm, type, payload, len);
        else if (err == MN_ERR_AGAIN)
            return comm->unheard = 0, MN_OK;
        else if (err == MN_ERR_PEER_DEAD || (comm->peer_closed && err != MN_ERR_PROTO))
            comm->ended_ms = now, err = MN_OK;
        else if (err == MN_ERR_PROTO)
            err = verbs_fail(comm, -1, err, "%s", diag.text);
        else if (mn_reopen_is_done(comm->reopen))
            renew_control(comm), err = MN_OK;
        else
            lose_control(comm, diag.text), err = MN_OK;
        if (err)
            return err;
    }
    if (!comm->ended_ms || now - comm->ended_ms < DRAIN_MS)
        return MN_OK;
    if (comm->peer_closed)
        return verbs_fail(comm, -1, MN_ERR_CLOSED, "the peer has closed the connection");
    return verbs_fail(comm, -1, MN_ERR_PEER_DEAD,
                      "peer is gone: its process ended without closing the connection");
}
