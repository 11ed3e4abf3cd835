/* Any bytes as what comes over a control connection: from a stranger who greets or answers, from
 * one who has cut into a connection, and as the words of a peer that has the token. Nobody crashes,
 * no stranger gets in, nothing that was not sealed is taken for a message. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/ctl.h"
#include "fleet/ctl_greet.h"
#include "bench/environment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t token[MN_KEY_SIZE] = {1, 2, 3};

/* In pieces, as a stranger may send it. */
static void greet(struct mn_ctl *ctl, int peer, int server, const uint8_t *data, size_t size)
{
    struct mn_ctl_greeting greeting;
    size_t step = size ? data[0] + 1u : 1;
    enum mn_err err = mn_ctl_greet_begin(ctl, server, &greeting, NULL);

    for (size_t at = 0; at < size && !err; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (write(peer, data + at, n) != (ssize_t)n)
            return;
        err = mn_ctl_greet(ctl, &greeting, token, NULL);
        if (!err)
            abort(); /* who has not the token */
        if (err == MN_ERR_AGAIN)
            err = MN_OK;
    }
}

/* Both ways of one key: what the peer's end seals, this one opens. */
static void open_seals(struct mn_ctl *ctl, struct mn_seal *peer)
{
    static const uint8_t key[MN_SEAL_KEY] = {4, 5, 6};
    uint8_t header[MN_SEAL_HEADER];

    mn_seal_out(peer, key, header);
    mn_seal_in(&ctl->in, key, header);
}

static void cut_in(struct mn_ctl *ctl, int peer, const uint8_t *data, size_t size)
{
    cJSON *message;

    if (write(peer, data, size) != (ssize_t)size || shutdown(peer, SHUT_WR))
        return;
    (void)mn_ctl_gone(ctl);
    for (int i = 0; i < 2; i++)
        if (!mn_ctl_receive(ctl, 1000, &message, NULL))
            abort();
}

static void take(const cJSON *message)
{
    static struct mn_environment env;
    double value;

    if (!mn_ctl_number(message, "n", -1, 5, &value, NULL) && !(value >= -1 && value <= 5))
        abort();
    mn_environment_parse(message, &env);
    cJSON_Delete(mn_environment_json(&env));
}

/* A record of the length that the first bytes say, and one of what follows them. */
static void speak(struct mn_ctl *ctl, struct mn_seal *seal, int peer, const uint8_t *data,
                  size_t size)
{
    static uint8_t records[3 + MN_SEAL_EXTRA + MN_CTL_FRAME_MAX + MN_SEAL_EXTRA];
    uint8_t length[3] = {(uint8_t)size, (uint8_t)(size >> 8), 0};
    const int lies = size > 2 && data[0] == 0xff;
    cJSON *message;

    if (size > MN_CTL_FRAME_MAX / 2)
        return;
    if (lies)
        memcpy(length, data, sizeof length);
    mn_seal_put(seal, length, sizeof length, 0, records);
    mn_seal_put(seal, data, size, 0, records + sizeof length + MN_SEAL_EXTRA);
    size_t len = sizeof length + MN_SEAL_EXTRA + size + MN_SEAL_EXTRA;
    if (write(peer, records, len) != (ssize_t)len || shutdown(peer, SHUT_WR))
        return;
    if (!mn_ctl_receive(ctl, 1000, &message, NULL))
        take(message);
    cJSON_Delete(message);
}

/* The first byte chooses who speaks. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_ctl ctl = {.peer = "fuzz"};
    struct mn_seal seal;
    int pair[2];

    if (!size || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return 0;
    ctl.fd = pair[0];
    open_seals(&ctl, &seal);
    switch (data[0] & 3) {
    case 0:
    case 1:
        greet(&ctl, pair[1], data[0] & 1, data + 1, size - 1);
        break;
    case 2:
        cut_in(&ctl, pair[1], data + 1, size - 1);
        break;
    default:
        speak(&ctl, &seal, pair[1], data + 1, size - 1);
        break;
    }
    mn_ctl_close(&ctl);
    close(pair[1]);
    return 0;
}
