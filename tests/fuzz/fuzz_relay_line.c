/* Any bytes, in pieces, as what comes to a relayd, as what answers who dials one, and as what
 * follows once a line is up: nobody crashes, nobody without the key gets a line, and what is read
 * are frames. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/relay/line_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mn_config config = {.has_key = 1, .cluster_key = "0123456789abcde"};

/* The first byte says in which state the line is. */
static struct mn_line *begin(uint8_t role, int fd)
{
    struct mn_line *line;

    mn_settings_default(&config.settings);
    if (mn_line_accept(&config, 7, fd, &line, NULL))
        abort();
    switch (role % 4) {
    case 0:
        line->state = MN_LINE_FIRST_SAID;
        break;
    case 1:
        line->state = MN_LINE_PROVED;
        mn_line_sign(config.cluster_key, &line->hello, &line->signs);
        break;
    case 2:
        line->state = MN_LINE_UP;
        break;
    default:
        break;
    }
    return line;
}

static void take_frames(struct mn_line *line)
{
    enum mn_line_frame type;
    uint8_t *payload, sum = 0;
    size_t len;

    while (!mn_line_get(line, &type, &payload, &len)) {
        if (type <= MN_LINE_PONG || type >= MN_LINE_FRAMES || len > MN_LINE_MAX)
            abort();
        for (size_t i = 0; i < len; i++)
            sum ^= payload[i];
        (void)mn_line_put(line, type, payload, len ? len - 1 : 0);
    }
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];

    if (size < 2 || size > 65536 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        return 0;
    struct mn_line *line = begin(data[0], pair[0]);
    int was_up = line->state == MN_LINE_UP;
    for (size_t at = 2, step = data[1] + 1u; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (send(pair[1], data + at, n, MSG_NOSIGNAL) != (ssize_t)n)
            break;
        if (line->state == MN_LINE_HEARS)
            (void)mn_line_judge(pair[0]);
        enum mn_err err = mn_line_step(line, NULL);
        if (!err && !was_up)
            abort();
        take_frames(line);
        if (err && err != MN_ERR_AGAIN)
            break;
        uint8_t sink[8192];
        while (recv(pair[1], sink, sizeof sink, MSG_DONTWAIT) > 0)
            ;
    }
    mn_line_close(line);
    close(pair[1]);
    return 0;
}
