#include "plugin/transport/relay/talk.h"

#include <string.h>

#define MAX_SIZE (1u << 30)

/* --- messages --------------------------------------------------------------------------------- */

void relay_word_put(struct mn_bytes *b, const struct relay_word *w)
{
    mn_put(b, w->type, 1);
    switch (w->type) {
    case RELAY_OPEN:
    case RELAY_CLOSED:
    case RELAY_REFUSED:
        mn_put(b, w->way, 1);
        mn_put(b, w->pair, 4);
        break;
    case RELAY_GROUP:
        mn_put(b, w->group, 4);
        mn_put(b, w->n, 1);
        for (int i = 0; i < w->n; i++) {
            mn_put(b, (uint32_t)w->tags[i], 4);
            mn_put(b, w->sizes[i], 4);
        }
        break;
    case RELAY_PIECES:
        mn_put(b, w->way, 1);
        mn_put(b, w->pair, 4);
        mn_put(b, w->group, 4);
        mn_put(b, w->slot, 1);
        mn_put(b, w->first, 4);
        mn_put(b, w->which, 8);
        break;
    case RELAY_DONE:
        mn_put(b, w->group, 4);
        mn_put(b, w->slot, 1);
        break;
    default:
        mn_put(b, w->code, 1);
    }
}

static int get_group(struct mn_bytes *b, struct relay_word *w)
{
    w->group = (uint32_t)mn_get(b, 4);
    w->n = (uint8_t)mn_get(b, 1);
    if (w->n < 1 || w->n > MN_MAX_RECVS)
        return 0;
    for (int i = 0; i < w->n; i++) {
        w->tags[i] = (int32_t)mn_get(b, 4);
        w->sizes[i] = (uint32_t)mn_get(b, 4);
        if (w->sizes[i] > MAX_SIZE)
            return 0;
    }
    return 1;
}

static int get_fields(struct mn_bytes *b, struct relay_word *w)
{
    switch (w->type) {
    case RELAY_OPEN:
    case RELAY_CLOSED:
    case RELAY_REFUSED:
        w->way = (uint8_t)mn_get(b, 1);
        w->pair = (uint32_t)mn_get(b, 4);
        return w->way < MN_RELAY_WAYS;
    case RELAY_GROUP:
        return get_group(b, w);
    case RELAY_PIECES:
        w->way = (uint8_t)mn_get(b, 1);
        w->pair = (uint32_t)mn_get(b, 4);
        w->group = (uint32_t)mn_get(b, 4);
        w->slot = (uint8_t)mn_get(b, 1);
        w->first = (uint32_t)mn_get(b, 4);
        w->which = mn_get(b, 8);
        return w->way < MN_RELAY_WAYS && w->slot < MN_MAX_RECVS && w->which &&
               w->first <= MAX_SIZE / MN_RELAY_PIECE;
    case RELAY_DONE:
        w->group = (uint32_t)mn_get(b, 4);
        w->slot = (uint8_t)mn_get(b, 1);
        return w->slot < MN_MAX_RECVS;
    case RELAY_FAILED:
        w->code = (uint8_t)mn_get(b, 1);
        return w->code > MN_OK && w->code < MN_ERR_COUNT;
    default:
        return 0;
    }
}

int relay_word_get(struct mn_bytes *b, struct relay_word *w)
{
    memset(w, 0, sizeof *w);
    if (b->at == b->end)
        return 0;
    w->type = (uint8_t)mn_get(b, 1);
    return get_fields(b, w) && !b->bad ? 1 : -1;
}

/* --- the queue -------------------------------------------------------------------------------- */

static uint32_t waiting(const struct relay_talk *talk)
{
    return talk->said - talk->acked;
}

static void seal(struct relay_talk *talk)
{
    uint32_t number = ++talk->said;
    struct mn_bytes b = {talk->now, talk->now + RELAY_TALK_HEAD, 0};

    mn_put(&b, number, 4);
    memcpy(talk->words[number % RELAY_TALKS], talk->now, talk->now_len);
    talk->len[number % RELAY_TALKS] = talk->now_len;
    talk->now_len = 0;
}

int relay_talk_put(struct relay_talk *talk, const struct relay_word *word)
{
    uint8_t text[128];
    struct mn_bytes b = {text, text + sizeof text, 0};

    relay_word_put(&b, word);
    size_t len = (size_t)(b.at - text);
    if (talk->now_len + len > sizeof talk->now) {
        if (waiting(talk) >= RELAY_TALKS)
            return 0;
        seal(talk);
    }
    if (!talk->now_len)
        talk->now_len = RELAY_TALK_HEAD;
    memcpy(talk->now + talk->now_len, text, len);
    talk->now_len = (uint16_t)(talk->now_len + len);
    return 1;
}

int relay_talk_has_room(const struct relay_talk *talk)
{
    return waiting(talk) < RELAY_TALKS / 2;
}

/* While much is not acknowledged, only full frames are made: so there is always room for the DONE
 * of what has been asked for. */
size_t relay_talk_next(struct relay_talk *talk, uint8_t words[MN_TALK_MAX])
{
    struct mn_bytes head = {words, words + RELAY_TALK_HEAD, 0};
    uint32_t number = 0;
    size_t len = RELAY_TALK_HEAD;

    if (talk->next == talk->said + 1 && talk->now_len && waiting(talk) < RELAY_TALKS * 3 / 4)
        seal(talk);
    if (talk->next != talk->said + 1) {
        number = talk->next;
        len = talk->len[number % RELAY_TALKS];
        memcpy(words, talk->words[number % RELAY_TALKS], len);
    } else if (talk->heard - talk->told < RELAY_ACK_EVERY) {
        return 0;
    }
    mn_put(&head, number, 4);
    mn_put(&head, talk->heard, 4);
    return len;
}

void relay_talk_taken(struct relay_talk *talk)
{
    if (talk->next != talk->said + 1)
        talk->next++;
    talk->told = talk->heard;
}

void relay_talk_again(struct relay_talk *talk)
{
    talk->next = talk->acked + 1;
    talk->told = talk->heard - RELAY_ACK_EVERY; /* what was acknowledged last may not have come */
}

int relay_talk_is_out(const struct relay_talk *talk)
{
    return !talk->now_len && talk->next == talk->said + 1;
}

int relay_talk_is_heard(const struct relay_talk *talk)
{
    return !talk->now_len && talk->acked == talk->said;
}

enum mn_err relay_talk_hear(struct relay_talk *talk, uint8_t *words, size_t len,
                            struct mn_bytes *messages)
{
    *messages = (struct mn_bytes){words, words + len, 0};
    uint32_t number = (uint32_t)mn_get(messages, 4);
    uint32_t acked = (uint32_t)mn_get(messages, 4);

    if (messages->bad || (number && len == RELAY_TALK_HEAD))
        return MN_ERR_PROTO;
    if (acked - talk->acked <= waiting(talk)) {
        talk->acked = acked;
        if ((int32_t)(talk->next - (acked + 1)) < 0)
            talk->next = acked + 1;
    } else if (talk->acked - acked > RELAY_TALKS) {
        return MN_ERR_PROTO; /* neither said nor an old one */
    }
    if (len == RELAY_TALK_HEAD || number != talk->heard + 1)
        return MN_ERR_AGAIN; /* came before, or comes again */
    talk->heard = number;
    return MN_OK;
}
