/* What may happen to links: a row a kind. */
#include "tests/drivers/failover/failover.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint64_t below(struct fo_plan *p, uint64_t n)
{
    return fo_below(&p->rng, n);
}

static void add(struct fo_plan *p, enum fo_when when, uint64_t after, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct fo_plan *p, enum fo_when when, uint64_t after, const char *fmt, ...)
{
    va_list args;
    if (p->n == FO_EVENTS)
        return;
    struct fo_event *e = &p->events[p->n++];
    *e = (struct fo_event){.when = when, .after = after};
    va_start(args, fmt);
    vsnprintf(e->settings, sizeof e->settings, fmt, args);
    va_end(args);
}

static void cut(struct fo_plan *p, uint64_t steps)
{
    add(p, FO_STEPS, steps, "control connections cut");
    p->events[p->n - 1].act = FO_CUT;
}

/* A link that is not the spared one. */
static int any(struct fo_plan *p)
{
    int link = (int)below(p, (uint64_t)p->links - (p->spared >= 0));
    return p->spared >= 0 && link >= p->spared ? link + 1 : link;
}

/* Another one, or the same where there is none. */
static int other(struct fo_plan *p, int not )
{
    for (int i = 0; i < p->links; i++)
        if (i != not &&i != p->spared)
            return i;
    return not ;
}

/* Long after: the link was given up, and perhaps all with it. Or at once. */
static uint64_t while_ms(struct fo_plan *p)
{
    static const uint64_t most[] = {2, 600, 2000, 9000, 40000};
    return below(p, most[below(p, sizeof most / sizeof *most)]);
}

static void port(struct fo_plan *p, int link, int up, int ends)
{
    const char *word = up ? "up" : "down";
    enum fo_when when = up ? FO_MS : FO_STEPS;
    uint64_t after = up ? while_ms(p) : below(p, 200);
    if (ends == 3)
        add(p, when, after, "link=a%d:%s,link=b%d:%s", link, word, link, word);
    else
        add(p, when, after, "link=%c%d:%s", ends == 1 ? 'a' : 'b', link, word);
}

static void loss(struct fo_plan *p, int link, const char *how, int ends)
{
    int heals = !strcmp(how, "none");
    enum fo_when when = heals ? FO_MS : FO_STEPS;
    uint64_t after = heals ? while_ms(p) : below(p, 200);
    if (ends == 3)
        add(p, when, after, "lost=a%d:%s,lost=b%d:%s", link, how, link, how);
    else
        add(p, when, after, "lost=%c%d:%s", ends == 1 ? 'a' : 'b', link, how);
}

/* --- the kinds --- */

static void plan_calm(struct fo_plan *p)
{
    (void)p;
}

static void plan_port(struct fo_plan *p)
{
    int link = any(p);
    port(p, link, 0, 3);
    if (below(p, 4))
        port(p, link, 1, 3);
}

static void plan_end(struct fo_plan *p)
{
    int link = any(p), end = 1 + (int)below(p, 2);
    if (below(p, 4) == 0)
        add(p, FO_STEPS, 0, "portmute=1");
    port(p, link, 0, end);
    if (below(p, 4))
        port(p, link, 1, end);
}

static void plan_silent(struct fo_plan *p)
{
    int link = any(p);
    loss(p, link, "both", below(p, 2) ? 3 : 1);
    if (below(p, 4))
        loss(p, link, "none", 3);
}

static void plan_oneway(struct fo_plan *p)
{
    int link = any(p);
    loss(p, link, below(p, 2) ? "in" : "out", 1 + (int)below(p, 2));
    if (below(p, 4))
        loss(p, link, "none", 3);
}

/* Again and again for moments: packets and answers come late, some after their sender gave up. */
static void plan_late(struct fo_plan *p)
{
    static const char *const how[] = {"in", "out", "both"};
    int link = any(p), n = 2 + (int)below(p, 8);
    for (int i = 0; i < n; i++) {
        loss(p, link, how[below(p, 3)], 1 + (int)below(p, 3));
        add(p, FO_STEPS, below(p, 1200), "lost=a%d:none,lost=b%d:none", link, link);
    }
}

static void plan_flap(struct fo_plan *p)
{
    int link = any(p);
    for (int i = 0; i < 10; i++) {
        int ends = below(p, 3) ? 3 : 1 + (int)below(p, 2);
        port(p, link, 0, ends);
        port(p, link, 1, ends);
    }
}

/* The second goes while the first is recovered from. */
static void plan_second(struct fo_plan *p)
{
    int first = any(p), next = other(p, first);
    if (below(p, 2))
        port(p, first, 0, 3);
    else
        loss(p, first, "both", 3);
    add(p, FO_FLUSHED, below(p, below(p, 2) ? 20 : 200),
        below(p, 2) ? "link=a%d:down,link=b%d:down" : "lost=a%d:both,lost=b%d:both", next, next);
    add(p, FO_MS, while_ms(p), "link=a%d:up,link=b%d:up,lost=a%d:none,lost=b%d:none", first, first,
        first, first);
    add(p, FO_MS, while_ms(p), "link=a%d:up,link=b%d:up,lost=a%d:none,lost=b%d:none", next, next,
        next, next);
}

/* It goes again while it returns. */
static void plan_rejoin(struct fo_plan *p)
{
    int link = any(p), n = 1 + (int)below(p, 3);
    port(p, link, 0, 3);
    for (int i = 0; i < n; i++) {
        port(p, link, 1, 3);
        add(p, FO_MADE, below(p, 40), below(p, 2) ? "link=a%d:down" : "lost=b%d:both", link);
        add(p, FO_MS, while_ms(p), "link=a%d:up,lost=b%d:none", link, link);
    }
}

static void plan_verbs(struct fo_plan *p)
{
    static const char *const verbs[] = {"create_qp", "modify_qp", "rtr", "create_cq"};
    int link = any(p), n = 1 + (int)below(p, 3);
    for (int i = 0; i < n; i++)
        add(p, FO_STEPS, below(p, 50), "fail=%s:%d", verbs[below(p, 4)], 1 + (int)below(p, 6));
    port(p, link, 0, 3);
    port(p, link, 1, 3);
    if (below(p, 2)) {
        add(p, FO_MS, while_ms(p), "fail=%s:%d", verbs[below(p, 4)], 1 + (int)below(p, 3));
        port(p, link, 0, 3);
        port(p, link, 1, 3);
    }
}

static void plan_gid(struct fo_plan *p)
{
    int link = any(p);
    port(p, link, 0, 3);
    add(p, FO_STEPS, below(p, 50), "gidmute=%d,gidshift=1", (int)below(p, 2));
    port(p, link, 1, 3);
    port(p, link, 0, 3);
    add(p, FO_STEPS, below(p, 50), "gidshift=0");
    port(p, link, 1, 3);
}

static void plan_control(struct fo_plan *p)
{
    int link = any(p);
    if (below(p, 2))
        cut(p, below(p, 100));
    if (below(p, 2))
        port(p, link, 0, 3);
    else
        loss(p, link, "both", 3);
    if (below(p, 2))
        add(p, FO_FLUSHED, below(p, 60), "portmute=0");
    cut(p, below(p, 60));
    add(p, FO_MS, while_ms(p), "link=a%d:up,link=b%d:up,lost=a%d:none,lost=b%d:none", link, link,
        link, link);
    if (below(p, 2))
        cut(p, below(p, 400));
}

/* Posts fail: no link is at fault. */
static void plan_post(struct fo_plan *p)
{
    static const char *const verbs[] = {"post_send", "post_recv"};
    int link = any(p);
    if (below(p, 2))
        port(p, link, 0, 3);
    add(p, FO_STEPS, below(p, 100), "fail=%s:%d", verbs[below(p, 2)], 1 + (int)below(p, 60));
    port(p, link, 1, 3);
}

static void plan_all(struct fo_plan *p)
{
    for (int i = 0; i < p->links; i++)
        port(p, i, 0, 3);
    for (int i = 0; i < p->links && below(p, 4); i++)
        port(p, i, 1, 3);
}

/* What no device should say: a write ends with any status. */
static void plan_error(struct fo_plan *p)
{
    add(p, FO_STEPS, below(p, 200), "error=%llu",
        (unsigned long long)(fo_counter("ops") + 1 + below(p, 100)));
}

const struct fo_class fo_classes[] = {
    {"calm", plan_calm, 1, 0},     {"port", plan_port, 1, 0},
    {"end", plan_end, 1, 0},       {"silent", plan_silent, 1, 0},
    {"oneway", plan_oneway, 1, 0}, {"late", plan_late, 1, 0},
    {"flap", plan_flap, 1, 1},     {"second", plan_second, 1, 1},
    {"rejoin", plan_rejoin, 1, 1}, {"verbs", plan_verbs, 1, 0},
    {"gid", plan_gid, 1, 1},       {"control", plan_control, 1, 0},
    {"post", plan_post, 0, 0},     {"all", plan_all, 0, 0},
    {"error", plan_error, 0, 0},   {NULL, NULL, 0, 0},
};
