/* What ends of a flow say: whole, once and in order, over lines that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "plugin/transport/relay/talk.h"

static struct relay_word words[] = {
    {.type = RELAY_OPEN, .way = 3, .pair = 0x12345678},
    {.type = RELAY_CLOSED, .way = 1, .pair = 7},
    {.type = RELAY_GROUP, .group = 9, .n = 2, .tags = {-1, 5}, .sizes = {0, 1u << 30}},
    {.type = RELAY_PIECES, .way = 2, .pair = 8, .group = 1, .slot = 7, .first = 64, .which = 5},
    {.type = RELAY_DONE, .group = 0xffffffff, .slot = 3},
    {.type = RELAY_FAILED, .code = MN_ERR_TOO_LONG},
    {.type = RELAY_REFUSED, .way = 1, .pair = 7},
};
#define N_WORDS (sizeof words / sizeof *words)

static struct mn_bytes written(const struct relay_word *word, uint8_t text[128])
{
    struct mn_bytes b = {text, text + 128, 0};

    relay_word_put(&b, word);
    assert_false(b.bad);
    return (struct mn_bytes){text, b.at, 0};
}

static void each_message_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_WORDS; i++) {
        struct relay_word got;
        uint8_t text[128];
        struct mn_bytes b = written(&words[i], text);
        assert_int_equal(relay_word_get(&b, &got), 1);
        assert_memory_equal(&got, &words[i], sizeof got);
        assert_int_equal(relay_word_get(&b, &got), 0);
    }
}

static void what_is_cut_or_out_of_bounds_is_no_message(void **state)
{
    static const struct relay_word bad[] = {
        {.type = RELAY_OPEN, .way = MN_RELAY_WAYS},
        {.type = RELAY_GROUP, .n = 0},
        {.type = RELAY_GROUP, .n = 1, .sizes = {(1u << 30) + 1}},
        {.type = RELAY_PIECES, .which = 0},
        {.type = RELAY_PIECES, .slot = MN_MAX_RECVS, .which = 1},
        {.type = RELAY_PIECES, .first = 4097, .which = 1},
        {.type = RELAY_DONE, .slot = MN_MAX_RECVS},
        {.type = RELAY_FAILED, .code = MN_OK},
        {.type = RELAY_FAILED, .code = MN_ERR_COUNT},
        {.type = 99, .code = 1},
    };
    struct relay_word got;
    uint8_t text[128];

    (void)state;
    for (size_t i = 0; i < N_WORDS; i++) {
        struct mn_bytes b = written(&words[i], text);
        b.end--;
        assert_int_equal(relay_word_get(&b, &got), -1);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mn_bytes b = written(&bad[i], text);
        assert_int_equal(relay_word_get(&b, &got), -1);
    }
}

/* Frames between two queues get lost with their line, or come twice. */
struct pipe {
    uint8_t words[4096][MN_TALK_MAX];
    size_t len[4096];
    unsigned first, last;
};

static void give(struct relay_talk *talk, struct pipe *pipe)
{
    for (size_t n; pipe->last < 4096 && (n = relay_talk_next(talk, pipe->words[pipe->last]));) {
        pipe->len[pipe->last++] = n;
        relay_talk_taken(talk);
    }
}

/* first: the number of the first frame. */
static void lines_that_end(uint32_t first)
{
    static struct pipe pipes[2];
    struct relay_talk a = {.said = first - 1, .acked = first - 1, .next = first};
    struct relay_talk b = {.heard = first - 1, .told = first - 1, .next = 1};
    uint32_t said = 0, heard = 0;
    struct mn_bytes messages;
    struct relay_word word;

    memset(pipes, 0, sizeof pipes);
    srand(5);
    for (int round = 0; round < 20000 && heard < 5000; round++) {
        struct relay_word w = {.type = RELAY_DONE, .group = said};
        while (said < 5000 && rand() % 8 && relay_talk_has_room(&a) && relay_talk_put(&a, &w))
            w.group = ++said;
        give(&a, &pipes[0]);
        give(&b, &pipes[1]);
        while (pipes[0].first != pipes[0].last && rand() % 5) {
            unsigned i = pipes[0].first++;
            if (relay_talk_hear(&b, pipes[0].words[i], pipes[0].len[i], &messages))
                continue;
            while (relay_word_get(&messages, &word) > 0)
                assert_int_equal(word.group, heard++);
        }
        while (pipes[1].first != pipes[1].last && rand() % 5)
            assert_int_equal(relay_talk_hear(&a, pipes[1].words[pipes[1].first],
                                             pipes[1].len[pipes[1].first], &messages),
                             MN_ERR_AGAIN),
                pipes[1].first++;
        if (rand() % 20 == 0 || pipes[0].last > 4000 || pipes[1].last > 4000) {
            pipes[0].first = pipes[0].last = pipes[1].first = pipes[1].last = 0;
            relay_talk_again(&a);
            relay_talk_again(&b);
        }
    }
    assert_int_equal(heard, 5000);
}

static void lines_that_end_lose_nothing_and_repeat_nothing(void **state)
{
    (void)state;
    lines_that_end(1);
}

static void frames_are_more_than_there_are_numbers(void **state)
{
    (void)state;
    lines_that_end(UINT32_MAX - 20);
}

static void there_is_room_for_the_end_of_all_that_was_asked_for(void **state)
{
    struct relay_talk talk = {.next = 1};
    uint8_t text[MN_TALK_MAX];
    int frames = 0;

    (void)state;
    while (relay_talk_has_room(&talk)) {
        assert_true(relay_talk_put(&talk, &words[3]));
        while (relay_talk_next(&talk, text))
            relay_talk_taken(&talk), frames++;
    }
    for (int i = 0; i < 64 * MN_MAX_RECVS; i++) {
        assert_true(relay_talk_put(&talk, &words[4]));
        while (relay_talk_next(&talk, text))
            relay_talk_taken(&talk), frames++;
    }
    assert_true(frames <= RELAY_TALKS);
}

static void frames_that_nobody_sent_are_refused(void **state)
{
    struct relay_talk talk = {.next = 1};
    uint8_t text[MN_TALK_MAX] = {0};
    struct mn_bytes messages;

    (void)state;
    assert_int_equal(relay_talk_hear(&talk, text, 7, &messages), MN_ERR_PROTO);
    text[0] = 1; /* a number, and nothing behind it */
    assert_int_equal(relay_talk_hear(&talk, text, 8, &messages), MN_ERR_PROTO);
    text[0] = 0;
    text[4] = 5; /* acknowledges what was not said */
    assert_int_equal(relay_talk_hear(&talk, text, 8, &messages), MN_ERR_PROTO);
    assert_int_equal(talk.acked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_is_read_as_it_was_written),
        cmocka_unit_test(what_is_cut_or_out_of_bounds_is_no_message),
        cmocka_unit_test(lines_that_end_lose_nothing_and_repeat_nothing),
        cmocka_unit_test(frames_are_more_than_there_are_numbers),
        cmocka_unit_test(there_is_room_for_the_end_of_all_that_was_asked_for),
        cmocka_unit_test(frames_that_nobody_sent_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
