/* Messages of an authenticated connection. Each is two sealed records in one piece: its length, and
 * its text. The last record of all is a length of 0. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "fleet/ctl_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define LENGTH 3 /* bytes, little-endian */
#define HEAD   (LENGTH + MN_SEAL_EXTRA)

static void put_length(uint8_t bytes[LENGTH], size_t len)
{
    for (int i = 0; i < LENGTH; i++)
        bytes[i] = (uint8_t)(len >> 8 * i);
}

static size_t get_length(const uint8_t bytes[LENGTH])
{
    return bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16;
}

enum mn_err mn_ctl_send(struct mn_ctl *ctl, cJSON *message, struct mn_diag *diag)
{
    char *text = cJSON_PrintUnformatted(message);
    size_t len = text ? strlen(text) : 0;
    uint8_t length[LENGTH];
    enum mn_err err;

    cJSON_Delete(message);
    if (ctl->out.life != MN_SEAL_OPEN) {
        err = mn_fail(diag, MN_ERR_PEER_DEAD, "%s: nothing more can be sent to it", ctl->peer);
    } else if (!len || len > MN_CTL_FRAME_MAX) {
        err = mn_fail(diag, MN_ERR_INTERNAL, "control message of %zu bytes", len);
    } else {
        /* In one piece: a second packet would wait for the acknowledgement of the first. */
        uint8_t *frame = mn_zalloc(HEAD + len + MN_SEAL_EXTRA);
        put_length(length, len);
        mn_seal_put(&ctl->out, length, LENGTH, 0, frame);
        mn_seal_put(&ctl->out, text, len, 0, frame + HEAD);
        err = mn_ctl_write(ctl, frame, HEAD + len + MN_SEAL_EXTRA, diag);
        if (err)
            ctl->out.life = MN_SEAL_BROKEN; /* perhaps in the middle of a record */
        free(frame);
    }
    free(text);
    return err;
}

void mn_ctl_finish(struct mn_ctl *ctl)
{
    static const uint8_t nothing[LENGTH];
    uint8_t record[HEAD];

    if (ctl->fd < 0 || ctl->out.life != MN_SEAL_OPEN)
        return;
    mn_seal_put(&ctl->out, nothing, LENGTH, 1, record);
    (void)send(ctl->fd, record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static enum mn_err tampered(const struct mn_ctl *ctl, struct mn_diag *diag)
{
    return mn_fail(diag, MN_ERR_AUTH,
                   "%s: what came over the control connection is not what it sent: something on "
                   "the way tampered with it or damaged it",
                   ctl->peer);
}

/* Reads and opens one record of len bytes and the seal's own. */
static enum mn_err read_record(struct mn_ctl *ctl, size_t len, int begun, uint64_t deadline,
                               void *data, struct mn_diag *diag)
{
    uint8_t *record = mn_zalloc(len + MN_SEAL_EXTRA);
    size_t got;
    enum mn_err err = mn_ctl_read(ctl, record, len + MN_SEAL_EXTRA, deadline, &got, diag);

    if (err && (begun || got))
        ctl->in.life = MN_SEAL_BROKEN; /* what comes next is not the beginning of a record */
    if (!err && !mn_seal_get(&ctl->in, record, len, data))
        err = tampered(ctl, diag);
    free(record);
    return err;
}

/* The text of the next message, the caller's to free. */
static enum mn_err read_text(struct mn_ctl *ctl, unsigned timeout_ms, char **text,
                             struct mn_diag *diag)
{
    uint64_t deadline = mn_now_ms() + timeout_ms;
    uint8_t length[LENGTH];

    if (ctl->in.life == MN_SEAL_NONE)
        return mn_fail(diag, MN_ERR_INTERNAL, "%s: has not proved itself", ctl->peer);
    if (ctl->in.life == MN_SEAL_BROKEN)
        return tampered(ctl, diag);
    enum mn_err err =
        ctl->in.life == MN_SEAL_OPEN ? read_record(ctl, LENGTH, 0, deadline, length, diag) : MN_OK;
    if (err)
        return err;
    if (ctl->in.life == MN_SEAL_ENDED)
        return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: closed the control connection", ctl->peer);
    size_t len = get_length(length);
    if (!len || len > MN_CTL_FRAME_MAX) {
        ctl->in.life = MN_SEAL_BROKEN;
        return mn_fail(diag, MN_ERR_PROTO, "%s: control message of %zu bytes", ctl->peer, len);
    }
    *text = mn_zalloc(len + 1);
    err = read_record(ctl, len, 1, deadline, *text, diag);
    if (err)
        free(*text);
    return err;
}

enum mn_err mn_ctl_receive(struct mn_ctl *ctl, unsigned timeout_ms, cJSON **message,
                           struct mn_diag *diag)
{
    char *text = NULL;

    *message = NULL;
    enum mn_err err = read_text(ctl, timeout_ms, &text, diag);
    if (err)
        return err;
    if (!(*message = cJSON_Parse(text)))
        err = mn_fail(diag, MN_ERR_PROTO, "%s: control message is not JSON", ctl->peer);
    free(text);
    mn_clean_json(*message);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(*message, "error");
    if (!err && cJSON_IsString(error)) {
        err = mn_fail(diag, MN_ERR_FAILED, "%s: %.800s", ctl->peer, error->valuestring);
        cJSON_Delete(*message);
        *message = NULL;
    }
    return err;
}

/* No more comes than what is there, and that is less than len bytes. */
static int is_cut(const struct mn_ctl *ctl, size_t len)
{
    struct pollfd p = {.fd = ctl->fd, .events = POLLRDHUP};
    int left;

    return poll(&p, 1, 0) > 0 && !ioctl(ctl->fd, FIONREAD, &left) && (size_t)left < len;
}

int mn_ctl_gone(const struct mn_ctl *ctl)
{
    uint8_t record[HEAD], length[LENGTH];
    ssize_t n = recv(ctl->fd, record, sizeof record, MSG_PEEK | MSG_DONTWAIT);

    if (n <= 0)
        return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    if (n < (ssize_t)sizeof record)
        return ctl->in.life != MN_SEAL_OPEN || is_cut(ctl, sizeof record);
    struct mn_seal ahead = ctl->in;
    int gone = ahead.life != MN_SEAL_OPEN || !mn_seal_get(&ahead, record, LENGTH, length) ||
               ahead.life == MN_SEAL_ENDED ||
               is_cut(ctl, sizeof record + get_length(length) + MN_SEAL_EXTRA);
    mn_wipe(&ahead, sizeof ahead);
    return gone;
}

enum mn_err mn_ctl_number(const cJSON *message, const char *key, double min, double max,
                          double *value, struct mn_diag *diag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min && item->valuedouble <= max))
        return mn_fail(diag, MN_ERR_PROTO, "control message: '%s' is missing or out of range", key);
    *value = item->valuedouble;
    return MN_OK;
}
