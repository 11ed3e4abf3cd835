/* Grouped receives: a group at the head is filled whole, each message by its tag, equal tags in
 * index order; messages for a later group wait. */
#include "tests/drivers/conformance/kit.h"

#include <string.h>

#define MANY MN_HOST_MAX_RECVS

/* One scene: groups of tags, and the tags in the order they are sent. Message k goes into the
 * first free slot with its tag of the first group that still has one. */
struct scene {
    int n_groups;
    struct {
        int n, tags[MANY];
    } groups[3];
    int n_sends, sends[3 * MANY];
};

static void play(struct kit *kit, const struct scene *s, int sends_first, size_t step)
{
    static struct buf to[3][MANY], from[3 * MANY];
    static struct req sent[3 * MANY], got[3];
    int expected[3][MANY];
    struct pair pair;

    pair_open(kit, &pair);
    memset(expected, -1, sizeof expected);
    for (int g = 0; g < s->n_groups; g++)
        for (int i = 0; i < s->groups[g].n; i++)
            buf_new(kit, pair.recv, step * 3 * MANY + 1, 0, &to[g][i]);
    for (int k = 0; k < s->n_sends; k++) {
        buf_new(kit, pair.send, step * (size_t)k, 0, &from[k]);
        buf_fill(&from[k], from[k].size, (uint64_t)k);
        for (int g = 0, placed = 0; g < s->n_groups && !placed; g++)
            for (int i = 0; i < s->groups[g].n && !placed; i++)
                if (expected[g][i] < 0 && s->groups[g].tags[i] == s->sends[k]) {
                    expected[g][i] = k;
                    placed = 1;
                }
    }
    for (int half = 0; half < 2; half++) {
        if (half == sends_first)
            for (int g = 0; g < s->n_groups; g++)
                req_recv(kit, &pair, s->groups[g].n, to[g], s->groups[g].tags, &got[g]);
        else
            for (int k = 0; k < s->n_sends; k++)
                req_send(kit, &pair, &from[k], from[k].size, s->sends[k], &sent[k]);
    }
    req_wait_all(kit);
    for (int g = 0; g < s->n_groups; g++)
        for (int i = 0; i < s->groups[g].n; i++) {
            int k = expected[g][i];
            if (k < 0 || (size_t)got[g].sizes[i] != from[k].size)
                kit_fail(kit, "group %d slot %d: message %d expected, size %d reported", g, i, k,
                         got[g].sizes[i]);
            buf_expect(kit, &to[g][i], from[k].size, (uint64_t)k);
            buf_free(kit, &to[g][i]);
        }
    for (int k = 0; k < s->n_sends; k++)
        buf_free(kit, &from[k]);
    pair_close(kit, &pair);
}

static void play_both(struct kit *kit, const struct scene *s)
{
    static const size_t steps[] = {0, 8, 1000, 30000};

    kit_needs(kit, 5, "groups");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        play(kit, s, 0, steps[i]);
        play(kit, s, 1, steps[i]);
    }
}

static void permutations(struct kit *kit)
{
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};

    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct scene s = {.n_groups = 1, .groups = {{4, {0, 1, 2, 3}}}, .n_sends = 4};
        memcpy(s.sends, orders[o], sizeof orders[o]);
        play_both(kit, &s);
    }
}

static void eight(struct kit *kit)
{
    for (int round = 0; round < 4; round++) {
        struct scene s = {.n_groups = 1, .n_sends = MANY};
        s.groups[0].n = MANY;
        for (int i = 0; i < MANY; i++)
            s.groups[0].tags[i] = s.sends[i] = 100 + i;
        for (int i = MANY - 1; i > 0; i--) {
            int j = (int)(kit_random(kit) % (uint64_t)(i + 1)), t = s.sends[i];
            s.sends[i] = s.sends[j];
            s.sends[j] = t;
        }
        play_both(kit, &s);
    }
}

static void equal_tags(struct kit *kit)
{
    static const struct scene s = {.n_groups = 2,
                                   .groups = {{4, {5, 6, 5, 6}}, {2, {5, 5}}},
                                   .n_sends = 6,
                                   .sends = {5, 6, 6, 5, 5, 5}};
    play_both(kit, &s);
}

static void wait_for_head(struct kit *kit)
{
    static const struct scene scenes[] = {
        {2, {{2, {1, 2}}, {1, {1}}}, 3, {1, 1, 2}},
        {3, {{2, {9, 8}}, {2, {1, 2}}, {1, {2}}}, 5, {2, 1, 2, 8, 9}},
        {2, {{3, {1, 2, 3}}, {3, {1, 2, 3}}}, 6, {1, 1, 2, 2, 3, 3}},
    };

    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        play_both(kit, &scenes[i]);
}

const struct kit_case kit_group_cases[] = {
    {"group-permutations", permutations},
    {"group-of-eight", eight},
    {"group-equal-tags", equal_tags},
    {"group-head-waits", wait_for_head},
    {NULL, NULL},
};
