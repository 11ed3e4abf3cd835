#include "bench/check/far.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/check/peer.h"
#include "bench/check/warden.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"

#define CONNECT_MS 10000
#define FRAME_MS   10000 /* for the rest of a message that has begun to arrive */
#define POLL_MS    20
#define CHUNK      (24u << 10)
#define LIMIT_MAX  36000000.0

static cJSON *message(const char *op)
{
    cJSON *m = cJSON_CreateObject();

    cJSON_AddStringToObject(m, "op", op);
    return m;
}

static const char *text_of(const cJSON *m, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(m, key);

    return cJSON_IsString(item) ? item->valuestring : "";
}

static enum mn_err send_data(struct mn_ctl *ctl, const unsigned char *data, size_t size,
                             struct mn_diag *diag)
{
    static const char digits[] = "0123456789abcdef";
    char hex[2 * CHUNK + 1];
    cJSON *m = message("data");

    for (size_t i = 0; i < size; i++) {
        hex[2 * i] = digits[data[i] >> 4];
        hex[2 * i + 1] = digits[data[i] & 15];
    }
    hex[2 * size] = '\0';
    cJSON_AddStringToObject(m, "hex", hex);
    return mn_ctl_send(ctl, m, diag);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes of the peer that the rule has not taken yet. Until it has, nothing more is read from the
 * peer: a rule need not listen, and who waits for it must see that the peer leaves. */
struct held {
    size_t at, size;
    unsigned char data[CHUNK];
};

static void hand_over(struct held *held, int fd)
{
    while (held->at < held->size) {
        ssize_t n =
            send(fd, held->data + held->at, held->size - held->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            held->at += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        else if (n == 0 || errno != EINTR)
            break; /* the rule has ended: what it did not want to hear is lost with it */
    }
    held->at = held->size = 0;
}

static int holds(const struct held *held)
{
    return held->size > 0;
}

static short rule_events(const struct held *held)
{
    return holds(held) ? POLLIN | POLLOUT : POLLIN;
}

/* The bytes of a data message, into the socket of the rule. */
static enum mn_err take_data(const cJSON *m, struct held *held, int fd, struct mn_diag *diag)
{
    const char *hex = text_of(m, "hex");
    size_t length = strlen(hex), size = length / 2;

    if (size > CHUNK || length % 2)
        return mn_fail(diag, MN_ERR_PROTO, "control message: 'hex' holds no bytes");
    for (size_t i = 0; i < size; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return mn_fail(diag, MN_ERR_PROTO, "control message: 'hex' holds no bytes");
        held->data[i] = (unsigned char)(high << 4 | low);
    }
    held->at = 0;
    held->size = size;
    hand_over(held, fd);
    return MN_OK;
}

/* What the rule's process says, as long as there is something. 0 at the end of its stream. */
static int pass_on(int fd, struct mn_ctl *ctl, enum mn_err *err, struct mn_diag *diag)
{
    unsigned char data[CHUNK];
    ssize_t n;

    while ((n = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0 && !*err)
        *err = send_data(ctl, data, (size_t)n, diag);
    return n != 0;
}

static enum mn_err open_control(const struct mn_check_far *far, struct mn_ctl *ctl,
                                struct mn_diag *diag)
{
    return mn_ctl_reach(far->host, far->port, far->token, CONNECT_MS, ctl, diag);
}

enum mn_err mn_far_probe(const struct mn_check_far *far, struct mn_diag *diag)
{
    struct mn_ctl ctl = {.fd = -1};
    cJSON *m = message("check");
    enum mn_err err = open_control(far, &ctl, diag);

    cJSON_AddTrueToObject(m, "probe");
    mn_same_mesh_put(m);
    if (err)
        cJSON_Delete(m);
    else
        err = mn_ctl_send(&ctl, m, diag);
    if (!err)
        err = mn_ctl_receive(&ctl, FRAME_MS, &m, diag);
    if (!err) {
        mn_same_mesh_warn(m, far->host);
        cJSON_Delete(m);
    }
    mn_ctl_close(&ctl);
    return err;
}

/* Whether there is something to judge here. */
static enum mn_err answer_probe(const char *path, struct mn_ctl *ctl, const cJSON *first,
                                struct mn_diag *diag)
{
    struct mn_check_target target = {.path = ""};
    struct mn_check_info info;
    cJSON *m;

    mn_strlcpy(target.path, path, sizeof target.path);
    enum mn_err err = mn_check_probe(&target, &info, diag);
    if (err)
        return err;
    if (!info.path[0])
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "%s does not load", path);
    if (!info.versions[0] && !info.tuner_versions[0])
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "%s: neither a network plugin nor a tuner", path);
    mn_same_mesh_warn(first, ctl->peer);
    m = message("check");
    mn_same_mesh_put(m);
    return mn_ctl_send(ctl, m, diag);
}

/* The second process has ended: what it found counts for the rule, unless the rule killed it. */
static _Noreturn void take_end(struct mn_check *check, const struct mn_ctl *ctl, const cJSON *m,
                               int killed)
{
    const char *status = text_of(m, "status"), *seen = text_of(m, "seen");

    if (!killed && strcmp(status, "skip") == 0)
        mn_check_skip(check, "at the %.120s: %.800s", ctl->peer, seen);
    if (!killed && strcmp(status, "pass") != 0) /* fail, warn or note: by the rule's grade */
        mn_check_fail(check, "at the %.120s: %.800s", ctl->peer, seen);
    _exit(0);
}

static void take_message(struct mn_check *check, struct mn_ctl *ctl, struct held *held, int fd,
                         int killed)
{
    struct mn_diag diag;
    cJSON *m;

    if (mn_ctl_receive(ctl, FRAME_MS, &m, &diag) != MN_OK)
        mn_check_skip(check, "the control connection is lost: %s", diag.text);
    if (strcmp(text_of(m, "op"), "ended") == 0)
        take_end(check, ctl, m, killed);
    if (strcmp(text_of(m, "op"), "data") == 0 && take_data(m, held, fd, &diag) != MN_OK)
        mn_check_skip(check, "%s", diag.text);
    cJSON_Delete(m);
}

static _Noreturn void relay(struct mn_check *check, struct mn_ctl *ctl, int fd, int control)
{
    struct held held = {.size = 0};
    int killed = 0, open = 1;

    /* Past the rule's deadline too, which the rule itself tells with what it waited for: with the
     * rule's process this one ends, and the warden ends both. */
    for (;;) {
        struct pollfd p[] = {{.fd = holds(&held) ? -1 : ctl->fd, .events = POLLIN},
                             {.fd = open ? fd : -1, .events = rule_events(&held)},
                             {.fd = control, .events = POLLIN}};
        struct mn_diag diag;
        enum mn_err err = MN_OK;
        unsigned char number;
        if (poll(p, 3, POLL_MS) < 0 && errno != EINTR)
            break;
        hand_over(&held, fd);
        if (p[1].revents)
            open = pass_on(fd, ctl, &err, &diag);
        if (p[2].revents) {
            cJSON *m;
            if (recv(control, &number, 1, 0) != 1)
                break; /* the rule has ended */
            killed |= number == SIGKILL;
            m = message("signal");
            cJSON_AddNumberToObject(m, "number", number);
            err = mn_ctl_send(ctl, m, &diag);
        }
        if (err)
            mn_check_skip(check, "the control connection is lost: %s", diag.text);
        if (p[0].revents && !holds(&held))
            take_message(check, ctl, &held, fd, killed);
    }
    _exit(0);
}

/* Asks for the second process; its rule is this one. */
static void ask(struct mn_check *check, struct mn_ctl *ctl)
{
    const struct mn_check_target *target = check->target;
    struct mn_diag diag;
    cJSON *m = message("check"), *answer;

    if (open_control(target->far, ctl, &diag) != MN_OK)
        mn_check_skip(check, "%s", diag.text);
    cJSON_AddStringToObject(m, "rule", check->rule->id);
    cJSON_AddNumberToObject(m, "version", target->version);
    cJSON_AddNumberToObject(m, "seed", (double)target->seed);
    cJSON_AddNumberToObject(m, "limit_ms", target->limit_ms);
    if (mn_ctl_send(ctl, m, &diag) != MN_OK ||
        mn_ctl_receive(ctl, FRAME_MS, &answer, &diag) != MN_OK)
        mn_check_skip(check, "%s", diag.text);
    cJSON_Delete(answer);
}

void mn_far_start(struct mn_check *check, struct mn_peer *peer)
{
    int data[2], control[2];
    struct mn_ctl ctl = {.fd = -1};

    mn_check_step(check, "starting the second process at %s", check->target->far->host);
    ask(check, &ctl);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0)
        mn_check_skip(check, "no sockets to a second process: %s", strerror(errno));
    peer->pid = mn_check_fork(check);
    if (peer->pid == 0) {
        close(data[0]);
        close(control[0]);
        relay(check, &ctl, data[1], control[1]);
    }
    close(data[1]);
    close(control[1]);
    mn_ctl_drop(&ctl);
    peer->fd = data[0];
    peer->control = control[0];
}

static const struct mn_check_rule *find_rule(const char *id)
{
    for (int f = 0; mn_check_families[f]; f++)
        for (size_t r = 0; r < mn_check_families[f]->n_rules; r++) {
            const struct mn_check_rule *rule = &mn_check_families[f]->rules[r];
            if (strcmp(rule->id, id) == 0 && rule->flags & (MN_CHECK_PEER | MN_CHECK_ENDS))
                return rule;
        }
    return NULL;
}

static enum mn_err read_check(const cJSON *m, const struct mn_check_rule **rule,
                              struct mn_check_target *target, struct mn_diag *diag)
{
    double version, seed, limit;
    enum mn_err err = mn_ctl_number(m, "version", 0, 99, &version, diag);

    if (!err)
        err = mn_ctl_number(m, "seed", 0, 9e15, &seed, diag);
    if (!err)
        err = mn_ctl_number(m, "limit_ms", 100, LIMIT_MAX, &limit, diag);
    if (err)
        return err;
    *rule = find_rule(text_of(m, "rule"));
    if (!*rule)
        return mn_fail(diag, MN_ERR_PROTO, "this meshnet has no rule '%.40s' for two machines",
                       text_of(m, "rule"));
    target->version = (int)version;
    target->seed = (uint64_t)seed;
    target->limit_ms = (unsigned)limit;
    return MN_OK;
}

/* Until the rule's process ends, or the client has left (*left). */
static enum mn_err serve_rule(struct mn_ctl *ctl, int fd, struct mn_warden *warden, int *left,
                              struct mn_diag *diag)
{
    enum mn_err err = mn_ctl_send(ctl, message("checking"), diag);
    struct held held = {.size = 0};

    *left = 0;
    while (!err && !*left && !mn_warden_ended(warden)) {
        struct pollfd p[] = {{.fd = ctl->fd, .events = holds(&held) ? POLLRDHUP : POLLIN},
                             {.fd = fd, .events = rule_events(&held)}};
        double number;
        cJSON *m;
        if (poll(p, 2, POLL_MS) < 0 && errno != EINTR)
            return mn_fail_errno(diag, "poll");
        hand_over(&held, fd);
        if (p[1].revents)
            pass_on(fd, ctl, &err, diag);
        /* Of what is not read yet the end cannot be seen. */
        *left = mn_ctl_gone(ctl) || (holds(&held) && p[0].revents);
        if (err || *left || !p[0].revents)
            continue;
        err = mn_ctl_receive(ctl, FRAME_MS, &m, diag);
        if (err)
            return err;
        if (strcmp(text_of(m, "op"), "data") == 0) {
            err = take_data(m, &held, fd, diag);
        } else {
            err = mn_ctl_number(m, "number", 1, NSIG - 1, &number, diag);
            if (!err)
                mn_warden_signal(warden, (int)number);
        }
        cJSON_Delete(m);
    }
    return err;
}

int mn_far_asked(const cJSON *first)
{
    return strcmp(text_of(first, "op"), "check") == 0;
}

enum mn_err mn_far_serve(const char *path, struct mn_ctl *ctl, const cJSON *first,
                         struct mn_diag *diag)
{
    struct mn_check_target target = {.path = ""};
    const struct mn_check_rule *rule = NULL;
    struct mn_check_result result;
    struct mn_warden warden;
    int fds[2], left;
    cJSON *m;

    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(first, "probe")))
        return answer_probe(path, ctl, first, diag);
    enum mn_err err = read_check(first, &rule, &target, diag);
    if (err)
        return err;
    mn_ctl_watch(ctl);
    mn_strlcpy(target.path, path, sizeof target.path);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return mn_fail_errno(diag, "no sockets to a rule's process");
    target.second_fd = fds[1];
    err = mn_warden_start(&target, rule, &warden, diag);
    close(fds[1]);
    if (!err) {
        err = serve_rule(ctl, fds[0], &warden, &left, diag);
        if (err || left) {
            mn_warden_stop(&warden);
        } else {
            pass_on(fds[0], ctl, &err, diag);
            mn_warden_collect(&warden, rule, &result, NULL, NULL);
            m = message("ended");
            cJSON_AddStringToObject(m, "status", mn_check_status_name(result.status));
            cJSON_AddStringToObject(m, "seen", result.seen);
            err = mn_ctl_send(ctl, m, diag);
        }
    }
    close(fds[0]);
    return err;
}
