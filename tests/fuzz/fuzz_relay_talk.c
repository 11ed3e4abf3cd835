/* Any bytes as what the other end of a flow says: refused, or read as what writing it again gives,
 * byte for byte; and whatever is said, an end that hears it keeps to its memory, while it posts and
 * sends, its data connections take and bring what they like, and its ways open anew. What it says
 * itself is never refused, and no receive is longer than it was posted. */
#include <stdlib.h>
#include <string.h>

#include "plugin/transport/relay/flow.h"
#include "tests/fuzz/fuzz_kit.h"
#include "topo/base/log.h"

#define BUFFER (3 * MN_RELAY_PIECE + 100)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- data connections that take what they like ------------------------------------------------ */

static struct fuzz_input input;
static uint8_t buffer[BUFFER], heads[MN_RELAY_WAYS][MN_RELAY_KINDS][RELAY_POSTED][MN_HEAD_SIZE];
static struct relay_comm comm;

static int is_within(const void *data, size_t size, const void *whole, size_t room)
{
    uintptr_t from = (uintptr_t)data - (uintptr_t)whole;

    return from <= room && size <= room - from;
}

static struct mn_request *taken(void)
{
    static struct mn_request request;

    return fuzz_take(&input, 1) % 4 == 3 ? NULL : &request;
}

static enum mn_err sends(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                         struct mn_request **request)
{
    (void)base, (void)tag, (void)mhandle;
    if (!is_within(data, size, buffer, sizeof buffer) &&
        !is_within(data, size, heads, sizeof heads))
        abort();
    *request = taken();
    return MN_OK;
}

/* One for each header, so that it is known what was asked for. */
static struct mn_request requests[MN_RELAY_WAYS][MN_RELAY_KINDS][RELAY_POSTED];

static enum mn_err receives(struct mn_comm *base, int n, void **data, const size_t *sizes,
                            const int *tags, void **mhandles, struct mn_request **request)
{
    size_t at = (size_t)((uint8_t *)data[0] - &heads[0][0][0][0]) / MN_HEAD_SIZE;

    (void)base, (void)tags, (void)mhandles;
    for (int i = 0; i < n; i++)
        if (!is_within(data[i], sizes[i], buffer, sizeof buffer) &&
            !is_within(data[i], sizes[i], heads, sizeof heads))
            abort();
    *request = taken() ? &requests[0][0][0] + at : NULL;
    return MN_OK;
}

/* What was asked for, but for what the input says. */
enum { OTHER_SIZE = 4, LATER = 8, DAMAGED = 16 };

static void bring(size_t at, uint8_t how, int *sizes)
{
    uint8_t *bytes = &heads[0][0][0][0] + at * MN_HEAD_SIZE;
    const struct relay_way *way = &comm.ways[at / RELAY_POSTED / MN_RELAY_KINDS];
    int kind = (int)(at / RELAY_POSTED % MN_RELAY_KINDS);
    const struct relay_piece *piece = &way->hops[kind].flight[at % RELAY_POSTED].piece;
    const struct relay_slot *slot = &comm.groups[piece->group % RELAY_GROUPS].slots[piece->slot];
    struct mn_relay_head head = {.pair = way->pair,
                                 .way = way->number,
                                 .kind = (uint8_t)kind,
                                 .slot = piece->slot,
                                 .group = piece->group,
                                 .piece = piece->piece};

    if (how & LATER) {
        head.empty = MN_PIECE_LATER;
    } else {
        uint64_t from = (uint64_t)piece->piece * MN_RELAY_PIECE;
        head.total = how & OTHER_SIZE ? fuzz_take(&input, 3)
                     : slot->known    ? slot->total
                                      : slot->size;
        uint64_t left = from < head.total ? head.total - from : 0;
        head.length = (uint32_t)(left < MN_RELAY_PIECE ? left : MN_RELAY_PIECE);
        head.empty = !head.length && head.piece ? MN_PIECE_EMPTY : MN_PIECE_DATA;
    }
    mn_relay_head_put(&head, bytes);
    sizes[0] = MN_HEAD_SIZE;
    sizes[1] = (int)head.length;
    if (how & DAMAGED)
        bytes[fuzz_take(&input, 1) % MN_HEAD_SIZE] ^= (uint8_t)fuzz_take(&input, 1);
}

static enum mn_err tests(struct mn_request *request, int *done, int *sizes)
{
    uint8_t how = (uint8_t)fuzz_take(&input, 1);

    *done = how % 4 != 3;
    if (*done && !comm.base.is_send)
        bring((size_t)(request - &requests[0][0][0]), how, sizes);
    return MN_OK;
}

static const struct mn_transport transport = {.isend = sends, .irecv = receives, .test = tests};
static struct mn_comm data_connection = {.ops = &transport};

/* --- what is said ----------------------------------------------------------------------------- */

/* 0: refused. */
static int twice(const uint8_t *data, size_t size)
{
    uint8_t text[MN_TALK_MAX], again[128];
    struct mn_bytes b = {text, text + size, 0};
    struct relay_word word;
    int got;

    memcpy(text, data, size);
    for (uint8_t *from = text; (got = relay_word_get(&b, &word)) > 0; from = b.at) {
        struct mn_bytes out = {again, again + sizeof again, 0};
        relay_word_put(&out, &word);
        if (out.bad || out.at - again != b.at - from || memcmp(again, from, (size_t)(b.at - from)))
            abort();
    }
    return !got;
}

/* Until its end has failed, as the line's reader does. */
static void heard(const uint8_t *data, size_t size)
{
    uint8_t text[MN_TALK_MAX];
    struct mn_bytes messages;
    struct relay_word word;

    if (relay_error(&comm))
        return;
    memcpy(text, data, size);
    enum mn_err err = relay_talk_hear(&comm.talk, text, size, &messages);
    while (!err && relay_word_get(&messages, &word) > 0)
        err = comm.base.is_send ? relay_send_word(&comm, &word) : relay_recv_word(&comm, &word);
}

/* Messages as the next frame, which acknowledges all that was said. */
static void heard_next(void)
{
    uint8_t text[MN_TALK_MAX];
    struct mn_bytes head = {text, text + sizeof text, 0};
    size_t len = RELAY_TALK_HEAD;

    mn_put(&head, comm.talk.heard + 1, 4);
    mn_put(&head, comm.talk.said, 4);
    len += fuzz_take_raw(&input, text + len, fuzz_take(&input, 1));
    heard(text, len);
}

static void says(void)
{
    uint8_t words[MN_TALK_MAX];
    size_t len = relay_talk_next(&comm.talk, words);

    if (len > RELAY_TALK_HEAD && !twice(words + RELAY_TALK_HEAD, len - RELAY_TALK_HEAD))
        abort();
    if (len)
        relay_talk_taken(&comm.talk);
}

/* --- what it does meanwhile ------------------------------------------------------------------- */

static void open_ways(void)
{
    for (int i = 0; i < comm.n_ways; i++) {
        struct relay_way *way = &comm.ways[i];
        if (way->state == RELAY_IS_OPEN)
            continue;
        way->number = (uint8_t)i;
        way->state = RELAY_IS_OPEN;
        way->pair = (uint32_t)(i + 1);
        way->weight = 1000;
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
            way->hops[kind].comm = &data_connection;
            way->hops[kind].heads = heads[i][kind];
        }
    }
}

/* For a receive that is there, so that nothing has to be waited for. */
static void post_send(void)
{
    const struct relay_group *group = &comm.groups[comm.group_at % RELAY_GROUPS];
    size_t size = (size_t)fuzz_take(&input, 3) % (sizeof buffer + 1);
    struct mn_request *request;
    int used = 0;

    for (int i = 0; i < RELAY_SENDS; i++)
        used += comm.sends[i].used;
    if (used == RELAY_SENDS || comm.group_at == comm.group_next)
        return;
    for (int i = 0; i < group->n; i++)
        if (!group->slots[i].send) {
            (void)relay_isend(&comm.base, buffer, size, group->slots[i].tag, NULL, &request);
            return;
        }
}

static void post_receive(void)
{
    int n = 1 + (int)fuzz_take(&input, 1) % RELAY_RECVS, tags[RELAY_RECVS];
    void *data[RELAY_RECVS], *memories[RELAY_RECVS];
    size_t sizes[RELAY_RECVS];
    struct mn_request *request;

    for (int i = 0; i < n; i++) {
        sizes[i] = (size_t)fuzz_take(&input, 3) % (sizeof buffer + 1);
        tags[i] = i;
        data[i] = buffer;
        memories[i] = NULL;
    }
    if (!comm.groups[comm.group_next % RELAY_GROUPS].used && relay_talk_has_room(&comm.talk))
        (void)relay_irecv(&comm.base, n, data, sizes, tags, memories, &request);
}

/* Those that are done, so that nothing has to be waited for. */
static void test_all(void)
{
    int done, sizes[RELAY_RECVS];

    for (int i = 0; i < RELAY_SENDS; i++)
        if (comm.sends[i].used && comm.sends[i].landed && !comm.sends[i].out &&
            (relay_send_test(&comm, &comm.sends[i], &done, NULL) || !done))
            abort();
    for (int i = 0; i < RELAY_GROUPS; i++) {
        struct relay_group *group = &comm.groups[i];
        if (comm.base.is_send || !group->used || group->left)
            continue;
        if (relay_recv_test(&comm, group, &done, sizes) || !done)
            abort();
        for (int k = 0; k < group->n; k++)
            if (sizes[k] < 0 || (size_t)sizes[k] > group->slots[k].size)
                abort();
    }
    if (comm.lost_tail - comm.lost_head > RELAY_LOST)
        abort();
}

static void quiet(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)level, (void)file, (void)line, (void)msg;
}

/* The first byte says which end. Then frames, two bytes of length in front of each, or by a length
 * from 0xff00 what the end does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mn_config config;

    mn_log_set_sink(quiet);
    input = (struct fuzz_input){data, data + size};
    memset(&comm, 0, sizeof comm);
    comm.base.is_send = (int)fuzz_take(&input, 1) & 1;
    comm.config = &config;
    comm.n_ways = 2;
    comm.talk.next = 1;
    comm.talk_way = -1;
    comm.heads_mem.fd = -1;
    pthread_mutex_init(&comm.memory, NULL);
    open_ways();
    while (input.at < input.end) {
        uint8_t frame[MN_TALK_MAX];
        size_t len = (size_t)fuzz_take(&input, 1);
        len |= (size_t)fuzz_take(&input, 1) << 8;
        switch (len >> 8 == 0xff ? len & 7 : 7) {
        case 0:
            heard_next();
            break;
        case 1:
            says();
            break;
        case 2:
            relay_talk_again(&comm.talk);
            break;
        case 3:
            if (comm.base.is_send)
                post_send();
            else
                post_receive();
            break;
        case 4:
            if (comm.base.is_send)
                relay_send_advance(&comm);
            else
                relay_recv_advance(&comm);
            break;
        case 5:
            test_all();
            break;
        case 6:
            open_ways();
            break;
        default:
            len = fuzz_take_raw(&input, frame, len % (MN_TALK_MAX + 1));
            (void)twice(frame, len);
            heard(frame, len);
        }
    }
    pthread_mutex_destroy(&comm.memory);
    return 0;
}
