/* Groups of ranks without a plugin: what they tell each other, and how they end. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fleet/ctl.h"
#include "bench/environment.h"
#include "fleet/group.h"

#define RANKS 5

/* --- ranks as threads, each doing body --- */

struct party {
    struct mn_group_plan plan;
    int (*body)(struct mn_group *group); /* 0 = as expected */
    int result;
    enum mn_err err; /* of joining */
    struct mn_diag diag;
};

static void *one_rank(void *arg)
{
    struct party *p = arg;
    struct mn_group *group;

    p->err = mn_group_join(&p->plan, &group, &p->diag);
    p->result = p->err ? -1 : p->body(group);
    if (!p->err)
        mn_group_leave(group);
    return NULL;
}

static int listen_somewhere(uint16_t *port)
{
    struct mn_addr addr;
    struct sockaddr_in in;
    socklen_t len = sizeof in;
    int fd;

    assert_int_equal(mn_addr_parse("127.0.0.1", &addr, NULL), MN_OK);
    assert_int_equal(mn_ctl_listen(&addr, 0, &fd, NULL), MN_OK);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    *port = ntohs(in.sin_port);
    return fd;
}

static void prepare(struct party *parties, int n, int (*body)(struct mn_group *), unsigned ms)
{
    uint16_t ports[2];
    int doors[2] = {listen_somewhere(&ports[0]), listen_somewhere(&ports[1])};

    for (int r = 0; r < n; r++)
        parties[r] = (struct party){.plan = {.rank = r,
                                             .nranks = n,
                                             .host = "127.0.0.1",
                                             .port = ports[r % 2],
                                             .doors = {doors[0], doors[1]},
                                             .n_doors = r ? 0 : 2,
                                             .token = {1, 2, 3},
                                             .timeout_ms = ms},
                                    .body = body};
}

static void run_all(struct party *parties, int n)
{
    pthread_t threads[RANKS];

    for (int r = 0; r < n; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, one_rank, &parties[r]), 0);
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    for (int i = 0; i < 2; i++)
        close(parties[0].plan.doors[i]);
}

static int talk(struct mn_group *g)
{
    int n = mn_group_size(g), rank = mn_group_rank(g), wrong = 0;
    struct mn_diag diag;
    uint16_t mine = (uint16_t)(1000 + rank), all[RANKS], to[RANKS], from[RANKS];
    static __thread float values[20000];
    char name[32];

    for (int round = 0; round < 3; round++) {
        wrong += mn_group_allgather(g, &mine, sizeof mine, all, &diag) != MN_OK;
        for (int r = 0; r < n; r++) {
            wrong += all[r] != 1000 + r;
            to[r] = (uint16_t)(rank * 16 + r);
        }
        wrong += mn_group_exchange(g, to, sizeof *to, from, &diag) != MN_OK;
        for (int r = 0; r < n; r++)
            wrong += from[r] != r * 16 + rank;
        for (int i = 0; i < 20000; i++)
            values[i] = (float)(i % n == rank ? i : -i);
        wrong += mn_group_max(g, values, 20000, &diag) != MN_OK;
        for (int i = 0; i < 20000; i++)
            wrong += n == 1 || i == 0 ? 0 : values[i] != (float)i;
        wrong += mn_group_barrier(g, &diag) != MN_OK;
    }
    for (int r = 0; r < n; r++) {
        snprintf(name, sizeof name, "rank %d (", r);
        wrong += strncmp(mn_group_name(g, r), name, strlen(name)) != 0;
    }
    return wrong;
}

static void ranks_talk(void **state)
{
    struct party parties[RANKS];

    (void)state;
    for (int n = 1; n <= RANKS; n++) {
        prepare(parties, n, talk, 20000);
        run_all(parties, n);
        for (int r = 0; r < n; r++) {
            assert_int_equal(parties[r].err, MN_OK);
            assert_int_equal(parties[r].result, 0);
        }
    }
}

static int three(struct mn_group *g)
{
    uint16_t mine = (uint16_t)mn_group_rank(g), all[RANKS] = {0};
    struct mn_diag diag;

    return mn_group_allgather(g, &mine, sizeof mine, all, &diag) || mn_group_size(g) != 3 ||
           all[1] != 1 || all[2] != 2 || strncmp(mn_group_name(g, 2), "rank 4 (", 8) != 0;
}

/* Rank 1 never comes, 3 not in time: the others close the gap. */
static void absent_ranks_are_left_out(void **state)
{
    struct party parties[RANKS];
    static struct mn_group_roll roll;

    (void)state;
    prepare(parties, RANKS, three, 2000);
    parties[0].plan.roll = &roll;
    parties[0].plan.go_on = 1;
    atomic_store(&roll.ranks[1].absent, 1);
    pthread_t threads[RANKS];
    for (int r = 0; r < RANKS; r += 2)
        assert_int_equal(pthread_create(&threads[r], NULL, one_rank, &parties[r]), 0);
    for (int r = 0; r < RANKS; r += 2)
        pthread_join(threads[r], NULL);
    for (int i = 0; i < 2; i++)
        close(parties[0].plan.doors[i]);
    for (int r = 0; r < RANKS; r += 2) {
        assert_int_equal(parties[r].err, MN_OK);
        assert_int_equal(parties[r].result, 0);
        assert_int_equal(atomic_load(&roll.ranks[r].came), r > 0);
    }
    assert_string_equal(roll.ranks[3].why, "its rank did not come within 2 s");
    assert_int_equal(atomic_load(&roll.ranks[3].absent), 1);
}

/* Rank r's text has r * r * 9000 bytes: none, less than a block, several blocks. */
static int tell(struct mn_group *g)
{
    int n = mn_group_size(g), wrong = 0;
    size_t mine = (size_t)mn_group_rank(g) * (size_t)mn_group_rank(g) * 9000;
    char *text = calloc(1, mine + 1), **texts;
    struct mn_diag diag;

    for (size_t i = 0; i < mine; i++)
        text[i] = (char)('a' + (i + (size_t)mn_group_rank(g)) % 26);
    wrong += mn_group_gather_text(g, text, &texts, &diag) != MN_OK;
    for (int r = 0; r < n && texts; r++) {
        size_t length = strlen(texts[r]);
        wrong += length != (size_t)r * (size_t)r * 9000;
        for (size_t i = 0; i < length; i++)
            wrong += texts[r][i] != (char)('a' + (i + (size_t)r) % 26);
    }
    free(texts);
    free(text);
    return wrong;
}

static void texts_of_any_length_reach_all(void **state)
{
    struct party parties[RANKS];

    (void)state;
    for (int n = 1; n <= RANKS; n++) {
        prepare(parties, n, tell, 20000);
        run_all(parties, n);
        for (int r = 0; r < n; r++) {
            assert_int_equal(parties[r].err, MN_OK);
            assert_int_equal(parties[r].result, 0);
        }
    }
}

static int surroundings(struct mn_group *g)
{
    struct mn_environment *own = calloc(1, sizeof *own), *all;
    struct mn_diag diag;
    int count;

    strcpy(own->node, "a");
    own->cpus = mn_group_rank(g);
    int wrong = mn_environment_gather(g, own, &all, &count, &diag) != MN_OK;
    /* Threads of one process are one host: its first rank speaks for it. */
    wrong += count != 1 || strcmp(all[0].node, "a") != 0 || all[0].cpus != 0;
    free(all);
    free(own);
    return wrong;
}

static void hosts_say_what_they_are(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, 3, surroundings, 20000);
    run_all(parties, 3);
    for (int r = 0; r < 3; r++)
        assert_int_equal(parties[r].result, 0);
}

/* Every pair talks over a line of its own, some at once; what is larger than a buffer passes too,
 * and the end of one side is seen at the other. */
static int lines(struct mn_group *g)
{
    int n = mn_group_size(g), rank = mn_group_rank(g), wrong = 0;
    struct mn_diag diag;
    static const char letters[40001] = {0};

    wrong += mn_group_open_lines(g, &diag) != MN_OK;
    wrong += mn_group_barrier(g, &diag) != MN_OK;
    for (int shift = 1; shift < n; shift++) {
        int peer = (shift - rank + n) % n;
        struct mn_ctl ctl;
        if (peer == rank)
            continue;
        if (mn_group_line(g, (unsigned)(rank < peer ? rank * n + peer : peer * n + rank), peer,
                          &ctl, &diag))
            return 1000;
        for (int round = 0; round < 3; round++) {
            cJSON *m = cJSON_CreateObject(), *got = NULL;
            double from = -1;
            char *text = malloc(sizeof letters);
            memset(text, 'a' + rank, sizeof letters - 1);
            text[sizeof letters - 1] = 0;
            cJSON_AddNumberToObject(m, "from", rank);
            cJSON_AddStringToObject(m, "text", text);
            wrong += mn_ctl_send(&ctl, m, &diag) != MN_OK;
            wrong += mn_ctl_receive(&ctl, 10000, &got, &diag) != MN_OK;
            wrong += mn_ctl_number(got, "from", 0, n, &from, &diag) != MN_OK || (int)from != peer;
            const cJSON *item = cJSON_GetObjectItemCaseSensitive(got, "text");
            memset(text, 'a' + peer, sizeof letters - 1);
            wrong += !cJSON_IsString(item) || strcmp(item->valuestring, text) != 0;
            cJSON_Delete(got);
            free(text);
        }
        if (rank > peer) {
            cJSON *got = NULL;
            wrong += mn_ctl_receive(&ctl, 10000, &got, &diag) != MN_ERR_PEER_DEAD;
        }
        mn_ctl_close(&ctl);
    }
    wrong += mn_group_barrier(g, &diag) != MN_OK;
    return wrong;
}

static void ranks_have_lines(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, RANKS, lines, 20000);
    run_all(parties, RANKS);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(parties[r].err, MN_OK);
        assert_int_equal(parties[r].result, 0);
    }
}

static int line_without_peer(struct mn_group *g)
{
    struct mn_diag diag;
    struct mn_ctl ctl;
    int wrong = mn_group_open_lines(g, &diag) != MN_OK || mn_group_barrier(g, &diag) != MN_OK;

    if (mn_group_rank(g) == 1)
        wrong += mn_group_line(g, 7, 0, &ctl, &diag) != MN_ERR_TIMEOUT || ctl.fd >= 0;
    else
        usleep(1500000);
    return wrong + (mn_group_barrier(g, &diag) != MN_OK);
}

static void a_line_without_a_peer_is_given_up(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, 2, line_without_peer, 1000);
    parties[0].plan.timeout_ms = 20000;
    run_all(parties, 2);
    assert_int_equal(parties[0].result, 0);
    assert_int_equal(parties[1].result, 0);
}

/* Rank 2 has a reason of its own; all others hear it in its words. */
static int one_fails(struct mn_group *g)
{
    struct mn_diag diag;

    if (mn_group_rank(g) == 2) {
        enum mn_err err = mn_fail(&diag, MN_ERR_FAILED, "out of marbles");
        return mn_group_fail(g, err, &diag) != MN_ERR_FAILED || !mn_group_told(g);
    }
    enum mn_err err = mn_group_barrier(g, &diag);
    if (!err)
        return 1;
    mn_group_fail(g, err, &diag);
    return !strstr(diag.text, "rank 2 (") || !strstr(diag.text, "out of marbles") ||
           !mn_group_told(g);
}

static void a_reason_reaches_all(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, RANKS, one_fails, 20000);
    run_all(parties, RANKS);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(parties[r].result, 0);
}

/* Rank 3 leaves without a word. */
static int one_dies(struct mn_group *g)
{
    struct mn_diag diag;

    if (mn_group_rank(g) == 3)
        return 0;
    enum mn_err err = mn_group_barrier(g, &diag);
    return !err || !strstr(diag.text, "rank 3 (") || !strstr(diag.text, "ended");
}

static void a_dead_rank_is_named(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, RANKS, one_dies, 20000);
    run_all(parties, RANKS);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(parties[r].result, 0);
}

static int hub_dies(struct mn_group *g)
{
    struct mn_diag diag;

    if (mn_group_rank(g) == 0)
        return 0;
    enum mn_err err = mn_group_barrier(g, &diag);
    return !err || !strstr(diag.text, "rank 0 (") || !strstr(diag.text, "ended") ||
           mn_group_told(g);
}

/* --- ranks that are spared --- */

#define ROUNDS 2000

/* Rank 2 ends at once. All others learn of it in the same round, and go on. */
static int goes_on(struct mn_group *group)
{
    int n = mn_group_size(group), me = mn_group_rank(group), known = -1;
    struct mn_diag diag;

    mn_group_spare(group);
    if (me == 2)
        return 0;
    for (int round = 0; round < ROUNDS && (known < 0 || round < known + 3); round++) {
        int32_t own[2] = {me + 1, known}, all[RANKS][2];
        if (mn_group_allgather(group, own, sizeof own, all, &diag))
            return 1;
        for (int r = 0; r < n; r++)
            if (r != 2 && (all[r][0] != r + 1 || all[r][1] != known))
                return 2;
        if (mn_group_gone(group, 2) && (all[2][0] || !strstr(mn_group_gone(group, 2), "rank 2 (")))
            return 3;
        if (known < 0 && mn_group_gone(group, 2))
            known = round;
        if (mn_group_gone(group, 1) || mn_group_gone(group, 0))
            return 4;
    }
    return known < 0 ? 5 : mn_group_barrier(group, &diag) ? 6 : 0;
}

static void a_rank_that_is_spared_ends_alone(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, RANKS, goes_on, 5000);
    run_all(parties, RANKS);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(parties[r].result, 0);
}

/* Who says nothing is left out as well, and learns it. */
static int waits_for_none(struct mn_group *group)
{
    struct mn_diag diag;
    int32_t own = 7, all[RANKS];

    mn_group_spare(group);
    if (mn_group_rank(group) == 1) {
        while (!mn_group_look(group, &diag))
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        return 0;
    }
    for (int round = 0; round < 2; round++)
        if (mn_group_allgather(group, &own, sizeof own, all, &diag))
            return 1;
    return !mn_group_gone(group, 1) ||
           !strstr(mn_group_gone(group, 1), "nothing heard from rank 1");
}

static void a_silent_rank_is_spared_too(void **state)
{
    struct party parties[3];

    (void)state;
    prepare(parties, 3, waits_for_none, 2000);
    run_all(parties, 3);
    for (int r = 0; r < 3; r++)
        assert_int_equal(parties[r].result, 0);
}

static void the_hub_is_named_too(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, 3, hub_dies, 20000);
    run_all(parties, 3);
    for (int r = 0; r < 3; r++)
        assert_int_equal(parties[r].result, 0);
}

static int late(struct mn_group *g)
{
    struct mn_diag diag;

    if (mn_group_rank(g) == 1) {
        sleep(3);
        enum mn_err err = mn_group_barrier(g, &diag);
        return !err;
    }
    enum mn_err err = mn_group_barrier(g, &diag);
    mn_group_fail(g, err, &diag);
    return !err || !strstr(diag.text, "nothing heard from rank 1 (");
}

static void a_silent_rank_is_not_waited_for_forever(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, 3, late, 1000);
    run_all(parties, 3);
    for (int r = 0; r < 3; r++)
        assert_int_equal(parties[r].result, 0);
}

static int nothing(struct mn_group *g)
{
    (void)g;
    return 0;
}

/* Those who say nothing, and came first, are looked at with all others at once. */
static void strangers_keep_no_rank_out(void **state)
{
    struct party parties[RANKS];
    struct mn_ctl strangers[40];

    (void)state;
    prepare(parties, 2, nothing, 15000);
    for (int i = 0; i < 40; i++)
        assert_int_equal(mn_ctl_connect("127.0.0.1", parties[i % 2].plan.port, 5000, &strangers[i],
                                        NULL),
                         MN_OK);
    run_all(parties, 2);
    for (int r = 0; r < 2; r++)
        assert_int_equal(parties[r].err, MN_OK);
    for (int i = 0; i < 40; i++)
        mn_ctl_close(&strangers[i]);
}

static void who_does_not_belong(void **state)
{
    struct party parties[RANKS];

    (void)state;
    prepare(parties, 2, nothing, 1000);
    parties[1].plan.token[0] = 9;
    run_all(parties, 2);
    assert_int_equal(parties[0].err, MN_ERR_TIMEOUT);
    assert_non_null(strstr(parties[0].diag.text, "did not come within 1 s: 1"));
    assert_int_equal(parties[1].err, MN_ERR_AUTH);

    prepare(parties, 3, nothing, 3000);
    parties[2].plan.rank = 1;
    run_all(parties, 3);
    assert_non_null(strstr(parties[0].diag.text, "two processes came as rank 1"));

    prepare(parties, 2, nothing, 3000);
    parties[1].plan.nranks = 3;
    run_all(parties, 2);
    assert_non_null(strstr(parties[0].diag.text, "rank 1 of 3 came to a group of 2"));
    assert_non_null(strstr(parties[1].diag.text, "a group of 2"));

    prepare(parties, 1, nothing, 1000);
    parties[0].plan.rank = 1;
    run_all(parties, 1);
    assert_int_equal(parties[0].err, MN_ERR_USAGE);
}

static volatile sig_atomic_t stop;
static struct {
    int number;
    const char *ended; /* by who started the ranks */
    const char *reason;
} stops[] = {
    {SIGINT, "", "interrupted"},
    {SIGTERM, "", "asked to end by SIGTERM"},
    {SIGTERM, "rank 1 failed: no route", "rank 1 failed: no route"},
};
static int stopped_by;

static int interrupted(struct mn_group *g)
{
    struct mn_diag diag;

    if (mn_group_rank(g) == 0)
        stop = stops[stopped_by].number;
    return mn_group_barrier(g, &diag) == MN_OK || strcmp(diag.text, stops[stopped_by].reason) != 0;
}

static void an_interrupt_ends_all(void **state)
{
    struct party parties[RANKS];

    static struct mn_group_roll roll;

    (void)state;
    for (stopped_by = 0; stopped_by < 3; stopped_by++) {
        stop = 0;
        strcpy(roll.ended, stops[stopped_by].ended);
        prepare(parties, 3, interrupted, 20000);
        parties[0].plan.stop = &stop;
        parties[0].plan.roll = &roll;
        run_all(parties, 3);
        for (int r = 0; r < 3; r++)
            assert_int_equal(parties[r].result, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_talk),
        cmocka_unit_test(absent_ranks_are_left_out),
        cmocka_unit_test(texts_of_any_length_reach_all),
        cmocka_unit_test(hosts_say_what_they_are),
        cmocka_unit_test(ranks_have_lines),
        cmocka_unit_test(a_line_without_a_peer_is_given_up),
        cmocka_unit_test(a_reason_reaches_all),
        cmocka_unit_test(a_dead_rank_is_named),
        cmocka_unit_test(a_rank_that_is_spared_ends_alone),
        cmocka_unit_test(a_silent_rank_is_spared_too),
        cmocka_unit_test(the_hub_is_named_too),
        cmocka_unit_test(a_silent_rank_is_not_waited_for_forever),
        cmocka_unit_test(strangers_keep_no_rank_out),
        cmocka_unit_test(who_does_not_belong),
        cmocka_unit_test(an_interrupt_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
