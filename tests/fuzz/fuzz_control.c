/* Any bytes as what comes over a control connection: from a stranger who greets or answers, from
 * one who has cut into a connection, and as the words of a peer that has the token; and two ends
 * with somebody between them. Nobody crashes, no stranger gets in, nothing that was not sealed is
 * taken for a message, what is taken is what was said, in its order, and what nobody has touched is
 * all of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/ctl.h"
#include "fleet/ctl_greet.h"
#include "bench/environment.h"
#include "tests/fuzz/fuzz_kit.h"

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

/* --- two ends, and somebody between them ------------------------------------------------------ */

#define MESSAGES 64

struct end {
    struct mn_ctl ctl;
    struct mn_ctl_greeting greeting;
    enum mn_err err; /* of its greeting */
    int far;         /* the other end of its socket: his who is between */
    unsigned sent, received;
    int hurt; /* something of what was for it */
};

/* Also once more over the same connection: what was said before is nothing then. */
static void begin(struct end *e, int server)
{
    e->sent = e->received = 0;
    e->err = mn_ctl_greet_begin(&e->ctl, server, &e->greeting, NULL) ? MN_ERR_SYS : MN_ERR_AGAIN;
}

static int end_open(struct end *e, int server)
{
    int pair[2];

    memset(e, 0, sizeof *e);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return 0;
    e->ctl = (struct mn_ctl){.fd = pair[0], .peer = "fuzz"};
    e->far = pair[1];
    begin(e, server);
    return 1;
}

static void end_close(struct end *e)
{
    mn_ctl_close(&e->ctl);
    if (e->far >= 0)
        close(e->far);
}

static void step(struct end *e, int server, int place, const uint8_t *secret)
{
    if (e->err != MN_ERR_AGAIN)
        return;
    e->err = mn_ctl_greet(&e->ctl, &e->greeting, secret, NULL);
    if (server && !e->err)
        e->err = mn_ctl_greet_end(&e->ctl, &e->greeting, secret, place, NULL);
}

static void pass(struct fuzz_input *in, const struct end *from, struct end *to)
{
    to->hurt |= fuzz_pass(in, from->far, to->far) != FUZZ_ALL;
}

static void tell(struct end *e)
{
    cJSON *message = cJSON_CreateObject();

    if (e->sent >= MESSAGES || e->ctl.out.life != MN_SEAL_OPEN) {
        cJSON_Delete(message);
        return;
    }
    cJSON_AddNumberToObject(message, "n", e->sent++);
    if (mn_ctl_send(&e->ctl, message, NULL))
        abort();
}

static enum mn_err listen_to(struct end *e, const struct end *other)
{
    cJSON *message;
    double n;
    enum mn_err err = mn_ctl_receive(&e->ctl, 0, &message, NULL);

    if (err)
        return err;
    if (mn_ctl_number(message, "n", e->received, e->received, &n, NULL) ||
        e->received++ >= other->sent)
        abort(); /* not what comes next, or never said */
    cJSON_Delete(message);
    return MN_OK;
}

/* He has gone: what is left is heard, and that nothing comes any more. */
static void drain(struct end *e, const struct end *other)
{
    close(e->far);
    e->far = -1;
    while (!mn_ctl_gone(&e->ctl) && !listen_to(e, other))
        ;
    if (!listen_to(e, other))
        abort();
    if (!e->err && !e->hurt && e->received != other->sent)
        abort();
    if (e->ctl.in.life == MN_SEAL_ENDED && other->ctl.out.life != MN_SEAL_ENDED)
        abort(); /* it has not closed it */
}

/* Four words. */
static void greet_both(struct fuzz_input *in, struct end *client, struct end *server, int place,
                       const uint8_t *secret)
{
    for (int i = 0; i < 2; i++) {
        pass(in, client, server);
        step(server, 1, place, token);
        pass(in, server, client);
        step(client, 0, place, secret);
    }
}

/* The first byte: whether the server has a place, and the client the token. They greet, and then do
 * what the input says. */
static void between(const uint8_t *data, size_t size)
{
    static const uint8_t another[MN_KEY_SIZE] = {1, 2, 4};
    struct fuzz_input in = {data, data + size};
    struct end client, server;
    uint8_t what = (uint8_t)fuzz_take(&in, 1);
    int place = !(what & 1), alike = !(what & 2);

    if (!end_open(&client, 0))
        return;
    if (!end_open(&server, 1)) {
        end_close(&client);
        return;
    }
    greet_both(&in, &client, &server, place, alike ? token : another);
    if (!alike && (!client.err || !server.err))
        abort();
    if (alike && !client.hurt && !server.hurt && (server.err || (client.err == MN_OK) != place))
        abort();
    while (in.at < in.end) {
        uint8_t op = (uint8_t)fuzz_take(&in, 1);
        struct end *from = op & 1 ? &server : &client, *to = op & 1 ? &client : &server;
        if (op & 8) {
            begin(&client, 0);
            begin(&server, 1);
            greet_both(&in, &client, &server, place, alike ? token : another);
            continue;
        }
        switch (op >> 1 & 3) {
        case 0:
            tell(from);
            break;
        case 1:
            pass(&in, from, to);
            break;
        case 2:
            (void)listen_to(to, from);
            break;
        default:
            mn_ctl_finish(&from->ctl);
        }
    }
    pass(&in, &client, &server);
    pass(&in, &server, &client);
    drain(&server, &client);
    drain(&client, &server);
    end_close(&client);
    end_close(&server);
}

/* The first byte chooses who speaks. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_ctl ctl = {.peer = "fuzz"};
    struct mn_seal seal;
    int pair[2];

    if (size && (data[0] & 7) == 4)
        between(data + 1, size - 1);
    if (!size || (data[0] & 7) == 4 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
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
