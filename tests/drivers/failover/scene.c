/* A scenario: connections are made, messages of every size go over them, faults come in their time,
 * and all of it is held against what must be true. */
#include "tests/drivers/failover/flow.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_MS      60000
#define GRACE_MS     5000  /* real ones, … */
#define GRACE        50000 /* … and so many steps: a busy machine may give few in that time */
#define SEEN_DOWN_US 150000
#define CONNECT_MS   20000 /* real ones */
#define LAST         4     /* groups */
#define LONG_HOLD    40000
#define LONG_IDLE    8000 /* steps: no packet is under way any more */

struct scene {
    const struct fo_options *options;
    struct fo_result *result;
    const struct fo_class *row;
    struct fo_end *ends;
    struct fo_rng rng;
    struct fo_plan plan;
    struct fo_flow flows[FO_FLOWS];
    int n_flows, event, phases;
    int lossless; /* the device shows what it acknowledged: without, a link may not be replaced */
    uint64_t step, event_step, event_ms, event_flushes, event_made, idle_us, most_us, idle;
    uint64_t moved_ms; /* when something was done last */
    uint64_t hold_ms;  /* the last groups wait for links that are away, so long */
    jmp_buf out;
};

_Noreturn static void wrong(struct scene *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn static void wrong(struct scene *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(s->result->why, sizeof s->result->why, fmt, args);
    va_end(args);
    longjmp(s->out, 1);
}

static const char *line(const struct fo_end *end, int back)
{
    return back < end->n_lines ? end->lines[(end->n_lines - 1 - back) % FO_LINES] : "";
}

/* --- connecting --- */

static void connect_flow(struct scene *s, struct fo_flow *f)
{
    uint64_t end = fo_real_ms() + CONNECT_MS;
    unsigned links[2] = {s->ends[0].links, s->ends[1].links};
    int result = mn_plugin_listen(f->ends[1]->plugin, 0, f->handle, &f->listen);

    while (!result && !(f->comms[0] && f->comms[1])) {
        if (!f->comms[0])
            result = mn_plugin_connect(f->ends[0]->plugin, 0, f->handle, &f->comms[0]);
        if (!result && !f->comms[1])
            result = mn_plugin_accept(f->ends[1]->plugin, f->listen, &f->comms[1]);
        if (fo_real_ms() > end)
            wrong(s, "not connected in %d s", CONNECT_MS / 1000);
    }
    for (int i = 0; i < 2 && !result; i++) {
        f->areas[i] = fo_flow_area((int)(f - s->flows), i);
        result = mn_plugin_reg_mr(f->ends[i]->plugin, f->comms[i], f->areas[i], FO_AREA,
                                  NCCL_PTR_HOST, &f->mhs[i]);
    }
    if (result)
        wrong(s, "connecting: %s: %s / %s", mn_nccl_result_name(result), line(f->ends[0], 0),
              line(f->ends[1], 0));
    for (int i = 0; i < 2; i++)
        if (s->ends[i].links - links[i] != (unsigned)s->plan.links)
            wrong(s, "connected over %u of %d links", s->ends[i].links - links[i], s->plan.links);
    mn_plugin_close_listen(f->ends[1]->plugin, f->listen);
    f->listen = NULL;
}

static void close_end(struct scene *s, struct fo_flow *f, int i)
{
    struct mn_plugin *plugin = f->ends[i]->plugin;
    int result = 0;
    if (f->closed[i] || !f->comms[i])
        return;
    f->closed[i] = 1;
    if (f->mhs[i])
        result = mn_plugin_dereg_mr(plugin, f->comms[i], f->mhs[i]);
    if (!result)
        result = i ? mn_plugin_close_recv(plugin, f->comms[i])
                   : mn_plugin_close_send(plugin, f->comms[i]);
    if (result)
        wrong(s, "closing: %s: %s", mn_nccl_result_name(result), line(f->ends[i], 0));
}

/* --- faults --- */

/* A socket whose connection was reset. */
static int reset_socket(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger at_once = {1, 0};
    socklen_t len = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bind(listener, (struct sockaddr *)&addr, len);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&addr, &len);
    int connected = connect(fd, (struct sockaddr *)&addr, len),
        other = accept(listener, NULL, NULL);
    close(listener);
    if (connected != 0 || other < 0)
        abort();
    setsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(other);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* The connections between the two libraries that are open now, one of them or all, as a firewall or
 * a cable ends them: reset at both ends. Nobody says a last word, which only a process that ends
 * does. */
static void cut(struct scene *s)
{
    const struct linger at_once = {1, 0};
    int all = fo_below(&s->rng, 2) == 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0 || peer.sin_family != AF_INET)
            continue;
        int reset = reset_socket();
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        if (dup3(reset, fd, O_CLOEXEC) < 0)
            abort();
        close(reset);
        if (!all)
            return;
    }
}

static int is_due(struct scene *s, const struct fo_event *e)
{
    uint64_t steps = s->step - s->event_step, ms = fo_now_ms() - s->event_ms;
    switch (e->when) {
    case FO_STEPS:
        return steps >= e->after;
    case FO_MS:
        return ms >= e->after;
    case FO_FLUSHED:
    case FO_MADE:
        if (fo_counter(e->when == FO_MADE ? "create_qp" : "flushes") ==
            (e->when == FO_MADE ? s->event_made : s->event_flushes))
            s->event_step = s->step;
        return steps >= e->after || ms > 20000; /* it may not come to that */
    }
    return 1;
}

static void do_events(struct scene *s)
{
    while (s->event < s->plan.n && is_due(s, &s->plan.events[s->event])) {
        const struct fo_event *e = &s->plan.events[s->event++];
        if (s->options->verbose)
            printf("# step %llu, %llu ms: %s\n", (unsigned long long)s->step,
                   (unsigned long long)fo_now_ms(), e->settings);
        if (e->act == FO_CUT)
            cut(s);
        else
            fo_set("%s", e->settings);
        /* Threads have heard of it before anything else happens: so that it replays. */
        fo_settle();
        s->idle = 0;
        s->event_step = s->step;
        s->event_ms = fo_now_ms();
        s->moved_ms = s->event_ms;
        s->event_flushes = fo_counter("flushes");
        s->event_made = fo_counter("create_qp");
    }
}

/* --- what moves --- */

static int all_are_back(const struct scene *s)
{
    return s->ends[0].gone == s->ends[0].back && s->ends[1].gone == s->ends[1].back;
}

/* The sender holds back so that something is under way at each fault, and when all is over goes by
 * the links that came back. */
static int may_send(const struct scene *s, const struct fo_flow *f)
{
    int phase = f->sending * s->phases / f->n;
    if (s->hold_ms && f->sending >= f->n - LAST)
        return s->event == s->plan.n &&
               (all_are_back(s) || fo_now_ms() - s->event_ms >= s->hold_ms);
    return s->event >= s->plan.n * phase / s->phases;
}

static int one_thing(struct scene *s, struct fo_flow *f)
{
    char why[512];
    int moved, at;
    switch (fo_below(&s->rng, 4)) {
    case 0:
        moved = fo_flow_post(f, why);
        break;
    case 1:
        moved = may_send(s, f) ? fo_flow_send(f, why) : fo_flow_ask(f, why);
        break;
    case 2:
        at = f->received + (int)fo_below(&s->rng, (uint64_t)(f->posted - f->received) + 1);
        moved = at < f->posted ? fo_flow_test_recv(f, at, why) : 0;
        break;
    default:
        at = f->sent + (int)fo_below(&s->rng, (uint64_t)(f->sending - f->sent) + 1);
        moved = 0;
        for (int m = 0; at < f->n && m < FO_MEMBERS && !moved; m++)
            moved = fo_flow_test_send(f, at, m, why);
    }
    if (moved < 0)
        wrong(s, "flow %d: %s", (int)(f - s->flows), why);
    return moved;
}

/* An error: its reason names a link, or what else it is about. */
static void explained(struct scene *s, struct fo_flow *f)
{
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < FO_LINES; i++)
            if (strstr(line(&s->ends[e], i), "link ") || strstr(line(&s->ends[e], i), "10.66."))
                return;
    wrong(s, "flow %d failed and no warning names a link: %s / %s", (int)(f - s->flows),
          line(f->ends[0], 0), line(f->ends[1], 0));
}

static void look_at_errors(struct scene *s, struct fo_flow *f)
{
    if (!f->errors[0] && !f->errors[1])
        return;
    if (!f->broken_step) {
        f->broken_step = s->step;
        explained(s, f);
        if (s->options->failover > 0 && s->row->spares && s->lossless)
            wrong(s, "flow %d ended with link %d whole: %s / %s", (int)(f - s->flows),
                  s->plan.spared, line(f->ends[0], 0), line(f->ends[1], 0));
    }
    /* Whoever failed is closed, the other must come to an end by itself. */
    for (int i = 0; i < 2; i++)
        if (f->errors[i] && !f->closed[i] && fo_below(&s->rng, 100) == 0)
            close_end(s, f, i);
}

static int over(const struct scene *s)
{
    for (int i = 0; i < s->n_flows; i++)
        if (!fo_flow_over(&s->flows[i]))
            return 0;
    return 1;
}

static void stuck(struct scene *s)
{
    for (int i = 0; i < s->n_flows; i++) {
        const struct fo_flow *f = &s->flows[i];
        if (!fo_flow_over(f))
            wrong(s,
                  "flow %d stands still for %d s after event %d of %d: sent %d posted %d received "
                  "%d of %d groups, errors %d %d: %s / %s",
                  i, FO_BOUND / 1000, s->event, s->plan.n, f->sent, f->posted, f->received, f->n,
                  f->errors[0], f->errors[1], line(f->ends[0], 0), line(f->ends[1], 0));
    }
}

/* A receiver that has all closes in the end. Until then nothing may call it any more, and what the
 * sender waits for of it comes with the close. */
static int close_the_idle(struct scene *s)
{
    for (int i = 0; i < s->n_flows; i++) {
        struct fo_flow *f = &s->flows[i];
        if (f->received == f->n && !f->closed[1] && f->sent < f->n && !f->errors[0]) {
            close_end(s, f, 1);
            return 1;
        }
    }
    return 0;
}

static void move(struct scene *s)
{
    uint64_t grace = 0; /* real ms until which nothing may move in real time, too; 0: not yet */
    uint64_t grace_step = 0;
    s->event_ms = s->moved_ms = fo_now_ms();
    s->event_flushes = fo_counter("flushes");
    s->event_made = fo_counter("create_qp");
    for (s->step = 0; !over(s) || s->event < s->plan.n; s->step++) {
        int moved = 0;
        do_events(s);
        if (fo_now_ms() - s->moved_ms > IDLE_MS && s->event == s->plan.n)
            moved = close_the_idle(s);
        for (int i = 0; i < s->n_flows; i++) {
            moved |= one_thing(s, &s->flows[i]);
            look_at_errors(s, &s->flows[i]);
        }
        if (moved && grace) {
            fo_clock_freeze(1);
            grace = 0;
        }
        if (moved) {
            s->moved_ms = fo_now_ms();
            s->idle = 0;
            fo_clock_add(5);
            continue;
        }
        uint64_t us = s->idle > LONG_IDLE ? s->most_us : s->idle > 64 ? s->idle_us : 5;
        fo_clock_add(us);
        if (++s->idle % (1 + 50000 / us) == 0)
            fo_settle();
        if (fo_now_ms() - s->moved_ms <= FO_BOUND || over(s))
            continue;
        /* Threads may sleep in real time, which has been short. */
        if (!grace) {
            fo_clock_freeze(0);
            grace = fo_real_ms() + GRACE_MS;
            grace_step = s->step;
        }
        if (fo_real_ms() > grace && s->step - grace_step > GRACE)
            stuck(s);
    }
}

/* --- all of it --- */

static const char *const kept[] = {"qps", "cqs", "mrs", "channels"};

static void run(struct scene *s, uint64_t seed)
{
    static const uint64_t paces[] = {100, 400, 1500}; /* us: far less than what counts as silence */
    static const uint64_t holds[] = {0, 5000, 30000};
    uint64_t rnr = fo_counter("rnr");
    int links = 2 + (int)fo_below(&s->rng, FO_LINKS - 1);

    struct fo_ways ways;
    fo_choose(&s->rng, &ways);
    fo_set_ways(seed, &ways, s->options->verbose);
    int slow = ways.delay > 20 || ways.steps == 4; /* packets take many calls */
    s->lossless = !ways.noflush;
    s->plan.links = links;
    for (int i = links; i < FO_LINKS; i++)
        fo_set("link=a%d:down,link=b%d:down", i, i);
    /* A port that was down is not asked again for 100 ms (gid_cache.c), and the one before may have
     * said nothing of its return. */
    fo_clock_freeze(1);
    fo_clock_add(SEEN_DOWN_US);
    fo_clock_freeze(0);
    fo_settle();
    s->plan.rng.state = fo_mix(seed);
    s->plan.spared = s->row->spares ? (int)fo_below(&s->rng, (uint64_t)links) : -1;
    s->idle_us = paces[fo_below(&s->rng, slow ? 2 : 3)];
    s->most_us = paces[slow ? 1 : 2];
    s->n_flows = 1 + (int)fo_below(&s->rng, FO_FLOWS);
    if (s->options->warming)
        s->n_flows = FO_FLOWS; /* both libraries connect and accept */
    s->phases = 1 + (int)fo_below(&s->rng, 6);
    s->hold_ms = holds[fo_below(&s->rng, sizeof holds / sizeof *holds)];
    if (s->row->returns)
        s->hold_ms = LONG_HOLD;
    for (int i = 0; i < s->n_flows; i++) {
        struct fo_flow *f = &s->flows[i];
        f->ends[0] = &s->ends[i % 2];
        f->ends[1] = &s->ends[1 - i % 2];
        fo_flow_plan(f, &s->rng, 6 + (int)fo_below(&s->rng, FO_GROUPS - 6));
        connect_flow(s, f);
    }
    s->row->plan(&s->plan);
    fo_settle();
    fo_clock_freeze(1);
    move(s);
    fo_clock_freeze(0);
    for (int i = 0; i < s->n_flows; i++) {
        struct fo_flow *f = &s->flows[i];
        for (int k = 0, first = (int)fo_below(&s->rng, 2); k < 2; k++)
            close_end(s, f, first ^ k);
        char why[512];
        for (int slot = 0; slot < FO_DEPTH && f->received == f->n; slot++)
            if (fo_flow_untouched(f, slot, why))
                wrong(s, "flow %d, closed: %s", i, why);
        s->result->failed += f->errors[0] || f->errors[1];
        s->result->messages += f->messages;
        s->result->bytes += f->bytes;
    }
    for (int i = 0; i < 2; i++) {
        s->result->gone += s->ends[i].gone;
        s->result->back += s->ends[i].back;
        s->result->again += s->ends[i].again;
    }
    if (fo_counter("rnr") != rnr)
        wrong(s, "a write found no receive request (RNR)");
}

/* What threads still give back is waited for. */
static void nothing_kept(struct scene *s, const uint64_t before[4], int fds, int threads)
{
    uint64_t end = fo_real_ms() + 5000;
    fo_forget_threads();
    for (;;) {
        const char *what = NULL;
        for (int i = 0; i < 4 && !what; i++)
            what = fo_counter(kept[i]) != before[i] ? kept[i] : NULL;
        int now_fds = fo_count("/proc/self/fd"), now_threads = fo_threads();
        if (!what && now_fds <= fds && now_threads <= threads)
            return;
        if (fo_real_ms() > end)
            wrong(s, "left behind: %s; descriptors %d, were %d; threads %d, were %d",
                  what ? what : "-", now_fds, fds, now_threads, threads);
        usleep(1000);
    }
}

void fo_scene(struct fo_end ends[2], const struct fo_class *row, uint64_t seed,
              const struct fo_options *options, struct fo_result *result)
{
    static struct scene s; /* of setjmp */
    uint64_t before[4];
    fo_forget_threads();
    int fds = fo_count("/proc/self/fd"), threads = fo_threads();

    memset(&s, 0, sizeof s);
    memset(result, 0, sizeof *result);
    s.options = options;
    s.result = result;
    s.row = row;
    s.ends = ends;
    s.rng.state = fo_mix(seed ^ 0x6661696c);
    for (int i = 0; i < 2; i++) {
        ends[i].n_lines = 0;
        ends[i].gone = ends[i].back = 0;
        ends[i].again = 0;
    }
    for (int i = 0; i < 4; i++)
        before[i] = fo_counter(kept[i]);
    if (setjmp(s.out) == 0)
        run(&s, seed);
    if (!*result->why && !options->warming && setjmp(s.out) == 0)
        nothing_kept(&s, before, fds, threads);
    fo_clock_freeze(0);
    fo_flow_end_areas();
}
