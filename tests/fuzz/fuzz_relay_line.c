/* Any bytes, in pieces, as what comes to a relayd, as what answers who dials one, and as what
 * follows once a line is up; and the two ends of a line with somebody between them, who may answer
 * for the relayd that signs, too. Nobody crashes, nobody without the key gets a line, who has it
 * and is not disturbed gets one, and what is read are frames. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/relay/line_impl.h"
#include "tests/fuzz/fuzz_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Both ends; of those, who dials asks its relayd to sign; that one does not answer; is not there;
 * has another key. Who is left alone says something first. */
enum { BOTH = 4, ASKS = 8, LATE = 16, NOBODY = 32, OTHER_KEY = 64, TELLS = 128 };

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

/* The other end leaves; tells: before that is seen, this one says something. */
static void end(struct mn_line *line, int peer, int tells)
{
    close(peer);
    if (tells)
        (void)mn_line_put(line, MN_LINE_PING, "ping", 4);
    (void)mn_line_step(line, NULL);
    take_frames(line);
    if (mn_line_step(line, NULL) == MN_OK)
        abort();
    mn_line_close(line);
}

static void alone(const uint8_t *data, size_t size)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        return;
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
    end(line, pair[1], data[0] & TELLS);
}

/* --- both ends -------------------------------------------------------------------------------- */

static struct both {
    struct mn_line *comes, *relayd;
    int far[2];  /* of the one, of the other: his who is between */
    int door;    /* where it is asked to sign; -1: nobody listens */
    int touched; /* not all was passed as it was said */
    int hurt;    /* … and what they prove themselves by is not what was said */
    int is_somebody;
} both;
static struct mn_config dialler, keyless = {.has_key = 0}, another;

static int listen_at(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    snprintf(at.sun_path, sizeof at.sun_path, "%s", keyless.settings.relay_socket);
    unlink(at.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4))
        abort();
    return fd;
}

/* As the relayd of the node would, but for what the input says. */
static void sign(struct fuzz_input *in)
{
    uint8_t ask[4 + MN_LINE_HELLO_SIZE], answer[MN_ASK_ANSWER] = {MN_ASK_SIGNED}, *at = answer + 1;
    struct mn_line_hello hello;
    struct mn_line_signed made;
    int pair[2], fd = both.door < 0 ? -1 : accept(both.door, NULL, NULL);

    if (fd < 0)
        return;
    if (recv(fd, ask, sizeof ask, 0) != (ssize_t)sizeof ask || !mn_line_hello_get(ask + 4, &hello))
        abort();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        abort();
    hello.kind = MN_LINE_PROCESS;
    hello.uid = 1000;
    mn_line_sign(config.cluster_key, &hello, &made);
    mn_line_hello_put(&hello, at);
    memcpy(at += MN_LINE_HELLO_SIZE, made.proof, MN_MAC_SIZE);
    memcpy(at += MN_MAC_SIZE, made.welcome, MN_MAC_SIZE);
    memcpy(at + MN_MAC_SIZE, made.key, MN_KEY_SIZE);
    if (write(pair[0], answer, sizeof answer) != (ssize_t)sizeof answer)
        abort();
    both.touched |= fuzz_pass(in, pair[1], fd) != FUZZ_ALL;
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

static struct mn_line *line_new(const struct mn_config *of, int node, int *far)
{
    struct mn_line *line;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) ||
        mn_line_accept(of, node, pair[0], &line, NULL))
        abort();
    *far = pair[1];
    return line;
}

static void open_both(struct fuzz_input *in, uint8_t role)
{
    uint8_t kind = (uint8_t)fuzz_take(in, 1) % 4, node = (uint8_t)fuzz_take(in, 1);

    mn_settings_default(&config.settings);
    dialler = keyless = another = config;
    keyless.has_key = 0;
    another.cluster_key[0] ^= 1;
    snprintf(keyless.settings.relay_socket, sizeof keyless.settings.relay_socket,
             "/tmp/fuzz-line-%d", getpid());
    both.touched = both.hurt = node != 0;
    both.is_somebody = role & ASKS || kind != 3; /* for whom is signed is a process */
    both.door = role & ASKS && !(role & NOBODY) ? listen_at() : -1;
    both.comes = line_new(role & OTHER_KEY ? &another : &dialler, 7 + node, &both.far[0]);
    both.relayd = line_new(&config, 7, &both.far[1]);
    if (role & ASKS)
        both.comes->config = &keyless;
    both.comes->hello.kind = kind && !(role & ASKS) ? kind : MN_LINE_PROCESS;
    both.comes->hello.node = 3;
    if (mn_line_say_first(both.comes))
        abort();
}

static void pass(struct fuzz_input *in, int from)
{
    enum fuzz_passing how = fuzz_pass(in, both.far[from], both.far[!from]);

    both.touched |= how != FUZZ_ALL;
    both.hurt |= how != FUZZ_ALL && how != FUZZ_TWICE; /* what is behind may be taken for frames */
}

static void step_both(struct fuzz_input *in, uint8_t role)
{
    pass(in, 0);
    if (both.relayd->state == MN_LINE_HEARS)
        (void)mn_line_judge(both.relayd->fd);
    (void)mn_line_step(both.relayd, NULL);
    take_frames(both.relayd);
    pass(in, 1);
    (void)mn_line_step(both.comes, NULL);
    if (both.comes->state == MN_LINE_ASKING) {
        if (role & LATE)
            both.comes->ask_due_ms = 0;
        else
            sign(in);
        (void)mn_line_step(both.comes, NULL);
    }
    take_frames(both.comes);
}

static void together(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data + 1, data + size};
    uint8_t role = data[0], payload[256];

    open_both(&in, role);
    for (int i = 0; i < 2; i++)
        step_both(&in, role);
    int up = (both.comes->state == MN_LINE_UP) + (both.relayd->state == MN_LINE_UP);
    int is_signed = role & ASKS ? !(role & (LATE | NOBODY)) : !(role & OTHER_KEY);
    if (is_signed && both.is_somebody ? up < 2 && !both.touched : up)
        abort();
    if (up == 2 && both.hurt)
        abort();
    if (up == 2 && !both.touched &&
        memcmp(mn_line_key(both.comes), mn_line_key(both.relayd), MN_KEY_SIZE) != 0)
        abort();
    while (in.at < in.end) {
        uint8_t op = (uint8_t)fuzz_take(&in, 1);
        struct mn_line *line = op & 1 ? both.relayd : both.comes;
        if (op & 2)
            mn_line_ping(line);
        else
            (void)mn_line_put(line, (enum mn_line_frame)(op >> 4), payload,
                              fuzz_take_raw(&in, payload, fuzz_take(&in, 1)));
        step_both(&in, role);
    }
    end(both.comes, both.far[0], role & TELLS);
    end(both.relayd, both.far[1], role & TELLS);
    if (both.door >= 0) {
        close(both.door);
        unlink(keyless.settings.relay_socket);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 65536)
        return 0;
    if (data[0] & BOTH)
        together(data, size);
    else
        alone(data, size);
    return 0;
}
