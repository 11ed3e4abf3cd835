/* Tags and grouped receives. A message of tag t and number i is sent from place(t, i): what arrives
 * tells which it is. */
#include <limits.h>
#include <string.h>

#include "tests/broken/second/drive/drive.h"

#define ROOM 512

/* A group of two tags; each message's size tells them apart. */
static void two_tags(struct net *n, int first, int second)
{
    int tags[2] = {first, second}, sizes[8] = {0};
    void *recv, *a, *b;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_group(n, &p, 0, ROOM, 2, tags);
    a = send_at(n, &p, 100, 20, second);
    b = send_at(n, &p, 200, 10, first);
    finish_both(n, a, recv, sizes);
    finish(n, b, &(int){0});
    expect_int(sizes[0], 10, "size in the first slot");
    expect_int(sizes[1], 20, "size in the second slot");
    expect_bytes(200, 0, 10, "first slot");
    expect_bytes(100, ROOM, 20, "second slot");
}

static void tag_wide(struct net *n)
{
    two_tags(n, 65537, 1);
}

static void tag_zero(struct net *n)
{
    two_tags(n, 0, 5);
}

static void tag_max(struct net *n)
{
    two_tags(n, INT_MAX, 3);
}

static void equal_tags(struct net *n, struct pair *p, int k)
{
    int tags[8] = {7, 7, 7, 7, 7, 7, 7, 7}, sizes[8] = {0};
    void *recv = recv_group(n, p, 0, ROOM, k, tags), *sends[8];

    for (int i = 0; i < k; i++)
        sends[i] = send_at(n, p, (size_t)i * 100, 50 + (size_t)i, 7);
    finish(n, recv, sizes);
    for (int i = 0; i < k; i++) {
        finish(n, sends[i], &(int){0});
        expect_int(sizes[i], 50 + i, "size among equal tags");
        expect_bytes((size_t)i * 100, (size_t)i * ROOM, 50 + (size_t)i, "equal tags");
    }
}

static void group_cursor(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int k = 1; k <= 8; k++)
        equal_tags(n, &p, k);
    for (int k = 7; k >= 1; k--)
        equal_tags(n, &p, k);
}

/* Groups of tags 1 and 2; all messages of tag 1 come first, so that all but one wait. */
static void bursts(struct net *n, int groups)
{
    int tags[2] = {1, 2}, sizes[8] = {0};
    void *recv, *sends[2][64];
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_group(n, &p, 0, ROOM, 2, tags);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < groups; i++)
            sends[t][i] = send_at(n, &p, (size_t)(t * 64 + i) * 300, 100 + (size_t)i, t + 1);
    for (int i = 0; i < groups; i++) {
        finish(n, recv, sizes);
        for (int t = 0; t < 2; t++) {
            expect_int(sizes[t], 100 + i, "size");
            expect_bytes((size_t)(t * 64 + i) * 300, (size_t)t * ROOM, 100 + (size_t)i, "a burst");
            finish(n, sends[t][i], &(int){0});
        }
        if (i + 1 < groups)
            recv = recv_group(n, &p, 0, ROOM, 2, tags);
    }
}

static void park_order(struct net *n)
{
    bursts(n, 3);
}

static void park_many(struct net *n)
{
    bursts(n, 32);
}

/* 70000 groups of two, seven at a time under way; each message is its number. */
static void long_use(struct net *n)
{
    enum { DEEP = 7, ALL = 70000 };
    int tags[2] = {4, 5}, sizes[8];
    void *recvs[DEEP], *sends[DEEP][2];
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int base = 0; base < ALL; base += DEEP) {
        for (int i = 0; i < DEEP; i++)
            recvs[i] = recv_group(n, &p, (size_t)i * 2 * ROOM, ROOM, 2, tags);
        for (int i = 0; i < DEEP; i++)
            for (int t = 0; t < 2; t++) {
                const int number = (base + i) * 2 + t;
                memcpy(sbuf + (size_t)(i * 2 + t) * 8, &number, sizeof number);
                sends[i][t] = send_at(n, &p, (size_t)(i * 2 + t) * 8, 8, tags[t]);
            }
        for (int i = 0; i < DEEP; i++) {
            finish(n, recvs[i], sizes);
            finish(n, sends[i][0], sizes);
            finish(n, sends[i][1], sizes);
            expect_bytes((size_t)i * 16, (size_t)i * 2 * ROOM, 8, "after long use");
            expect_bytes((size_t)i * 16 + 8, (size_t)i * 2 * ROOM + ROOM, 8, "after long use");
        }
    }
}

static void zero_sizes(struct net *n)
{
    int tags[2] = {1, 2}, sizes[8];
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int i = 0; i < 800; i++) {
        const size_t first = i < 400 ? 100 : 0, second = i < 400 ? 200 : 50;
        void *recv = recv_group(n, &p, 0, ROOM, 2, tags);
        void *a = send_at(n, &p, 0, first, 1), *b = send_at(n, &p, 0, second, 2);
        memset(sizes, 0, sizeof sizes);
        finish_both(n, a, recv, sizes);
        finish(n, b, &(int){0});
        expect_int(sizes[0], (int)first, "size");
        expect_int(sizes[1], (int)second, "size");
    }
}

static void sizes_exact(struct net *n)
{
    int tags[2] = {1, 2}, sizes[16];
    struct pair p;
    void *recv, *a, *b;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int i = 0; i < 16; i++)
        sizes[i] = -77;
    recv = recv_group(n, &p, 0, ROOM, 2, tags);
    a = send_at(n, &p, 0, 10, 1);
    b = send_at(n, &p, 0, 20, 2);
    finish_both(n, a, recv, sizes);
    finish(n, b, &(int){0});
    expect_int(sizes[0], 10, "size");
    expect_int(sizes[1], 20, "size");
    for (int i = 2; i < 16; i++)
        expect_int(sizes[i], -77, "behind the sizes");
}

static void group_whole(struct net *n)
{
    const size_t large = (size_t)4 << 20;
    const double until = now_s() + patience;
    int tags[2] = {1, 2}, sizes[8], sent[2] = {0}, got = 0;
    struct pair p;
    void *recv, *sends[2];

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_group(n, &p, 0, large, 2, tags);
    for (int t = 0; t < 2; t++)
        sends[t] = send_at(n, &p, (size_t)t * large, large, tags[t]);
    while (!got) {
        for (int t = 0; t < 2; t++)
            sent[t] = sent[t] || is_done(n, sends[t], sizes);
        got = is_done(n, recv, sizes);
        if (is_over(until))
            broken("a group is not done");
    }
    expect_bytes(0, 0, 2 * large, "a group that is done");
}

static void group_rooms(struct net *n)
{
    two_tags(n, 1, 2);
}

const struct scenario of_matching[] = {
    {"tag_wide", tag_wide},
    {"tag_zero", tag_zero},
    {"tag_max", tag_max},
    {"group_cursor", group_cursor},
    {"park_order", park_order},
    {"park_two", park_order},
    {"park_many", park_many},
    {"long_use", long_use},
    {"zero_sizes", zero_sizes},
    {"sizes_exact", sizes_exact},
    {"group_whole", group_whole},
    {"group_rooms", group_rooms},
    {NULL, NULL},
};
