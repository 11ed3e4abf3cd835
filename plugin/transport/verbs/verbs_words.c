/* The words of recovery on the control connection. Nothing of them is trusted: lengths, links,
 * turns and states are checked, and what does not fit ends the connection. */
#include <stdio.h>
#include <string.h>

#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

const char *const verbs_word_names[VERBS_WORDS] = {
    [VERBS_SYNC] = "SYNC",     [VERBS_SYNC_REQUEST] = "SYNC_REQUEST",
    [VERBS_ANSWER] = "ANSWER", [VERBS_JOIN] = "JOIN",
    [VERBS_JOINED] = "JOINED",
};

/* --- saying ----------------------------------------------------------------------------------- */

static size_t write_word(struct verbs_comm *comm, int i, enum verbs_word word,
                         uint8_t frame[VERBS_WORD_MAX])
{
    const struct verbs_recovery *r = &comm->links[i].recovery;
    struct mn_bytes b = {frame, frame + VERBS_WORD_MAX, 0};

    mn_put(&b, word, 1);
    mn_put(&b, (uint64_t)i, 1);
    mn_put(&b, r->turn, 4);
    if (word == VERBS_SYNC || word == VERBS_SYNC_REQUEST)
        mn_put_raw(&b, r->cause, strlen(r->cause));
    else if (word == VERBS_ANSWER)
        verbs_write_answer(comm, i, &b);
    else if (word == VERBS_JOIN || !comm->base.is_send)
        verbs_write_qps(comm, i, &b);
    return b.bad ? 0 : (size_t)(b.at - frame);
}

void verbs_say(struct verbs_comm *comm)
{
    uint8_t frame[VERBS_WORD_MAX];

    if (comm->control.fd < 0)
        return;
    for (int i = 0; i < comm->n_links; i++)
        for (int word = 0; word < VERBS_WORDS && comm->links[i].recovery.say; word++) {
            uint8_t bit = (uint8_t)(1u << word);
            if (!(comm->links[i].recovery.say & bit))
                continue;
            size_t len = write_word(comm, i, (enum verbs_word)word, frame);
            size_t before = comm->control.tx_len;
            if (mn_chan_put(&comm->control, MN_FRAME_LINK, frame, len)) {
                comm->control.tx_len = before; /* full: once more when some of it has gone */
                continue;
            }
            comm->links[i].recovery.say &= (uint8_t)~bit;
        }
    if (comm->control.tx_len)
        (void)mn_chan_flush(&comm->control, NULL);
}

void verbs_say_again(struct verbs_comm *comm)
{
    for (int i = 0; i < comm->n_links && comm->failover; i++) {
        struct verbs_recovery *r = &comm->links[i].recovery;
        r->say = 0;
        if (!comm->base.is_send) {
            if (r->asked)
                r->say = 1u << VERBS_SYNC_REQUEST;
        } else if (r->state == VERBS_FENCED) {
            r->say = 1u << VERBS_SYNC;
        } else if (r->state == VERBS_JOINING && r->step == VERBS_ASKS) {
            r->say = 1u << VERBS_JOIN;
        } else if (r->state == VERBS_UP && r->turn) {
            r->say = 1u << VERBS_JOINED;
        }
        comm->hurry |= r->say != 0;
    }
}

/* --- hearing ---------------------------------------------------------------------------------- */

static void read_cause(struct mn_bytes *b, char cause[VERBS_CAUSE])
{
    size_t n = (size_t)(b->end - b->at), most = VERBS_CAUSE - 1;

    n = n < most ? n : most;
    for (size_t i = 0; i < n; i++)
        cause[i] = (char)(b->at[i] < 0x20 || b->at[i] == 0x7f ? '?' : b->at[i]);
    cause[n] = 0;
}

/* The receiver's evidence. One that has been given up, or is joining anew, is told by other words
 * already. */
static void on_request(struct verbs_comm *comm, int i, uint32_t turn, const char *cause)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    if (r->turn != turn)
        return;
    if (r->state == VERBS_JOINING)
        verbs_join_failed(comm, i, cause);
    else if (r->state == VERBS_UP)
        verbs_give_up(comm, i, mn_now_ms(), "the peer says: %.*s", VERBS_CAUSE - 20, cause);
}

/* The sender has fenced its end. JOIN for that turn may have been lost with a control connection.
 */
static enum mn_err on_sync(struct verbs_comm *comm, int i, uint32_t turn, const char *cause)
{
    struct verbs_recovery *r = &comm->links[i].recovery;
    uint64_t now = mn_now_ms();
    int ahead = (int32_t)(turn - r->turn) > 0;

    if ((int32_t)(turn - r->turn) < 0)
        return MN_OK;
    if (ahead && r->state != VERBS_DOWN)
        return verbs_fail(comm, i, MN_ERR_PROTO, "SYNC of turn %u in turn %u", turn, r->turn);
    r->turn = turn;
    if (ahead)
        r->unsure = 0; /* nothing has ever come by that turn's queue pairs */
    if (r->state == VERBS_DOWN) {
        r->say |= 1u << VERBS_ANSWER;
        comm->hurry = 1;
    } else if (r->state != VERBS_FENCED) {
        if (!r->asked) {
            char text[VERBS_CAUSE + 20];
            snprintf(text, sizeof text, "the peer says: %s", cause);
            snprintf(r->cause, sizeof r->cause, "%.*s", VERBS_CAUSE - 1, text);
        }
        verbs_fence(comm, i, now);
    }
    return MN_OK;
}

static enum mn_err wrong(struct verbs_comm *comm, int i, unsigned word, size_t len)
{
    return verbs_fail(comm, i, MN_ERR_PROTO, "word %u (%s) of %zu bytes about a link that is %s",
                      word, word < VERBS_WORDS ? verbs_word_names[word] : "?", len,
                      i < 0 ? "none" : verbs_state_names[comm->links[i].recovery.state]);
}

enum mn_err verbs_hear(struct verbs_comm *comm, const uint8_t *payload, size_t len)
{
    uint8_t copy[VERBS_WORD_MAX];
    struct mn_bytes b = {copy, copy + (len < sizeof copy ? len : sizeof copy), 0};
    char cause[VERBS_CAUSE];

    memcpy(copy, payload, (size_t)(b.end - copy));
    unsigned word = (unsigned)mn_get(&b, 1), link = (unsigned)mn_get(&b, 1);
    uint32_t turn = (uint32_t)mn_get(&b, 4);
    int i = link < (unsigned)comm->n_links ? (int)link : -1, sends = comm->base.is_send;
    enum mn_err err = MN_OK;

    if (b.bad || len > sizeof copy || i < 0 || !comm->failover)
        return wrong(comm, -1, word, len);
    switch (word) {
    case VERBS_SYNC_REQUEST:
        if (!sends)
            return wrong(comm, i, word, len);
        read_cause(&b, cause);
        on_request(comm, i, turn, cause);
        return MN_OK;
    case VERBS_SYNC:
        if (sends)
            return wrong(comm, i, word, len);
        read_cause(&b, cause);
        return on_sync(comm, i, turn, cause);
    case VERBS_ANSWER:
        if (!sends || (int32_t)(turn - comm->links[i].recovery.turn) > 0)
            return wrong(comm, i, word, len);
        /* Else it is said twice: the link is DOWN, or joins meanwhile. */
        if (comm->links[i].recovery.state == VERBS_FENCED && turn == comm->links[i].recovery.turn)
            err = verbs_answered(comm, i, &b, mn_now_ms());
        return err;
    case VERBS_JOIN:
        return sends ? wrong(comm, i, word, len) : verbs_on_join(comm, i, turn, &b);
    case VERBS_JOINED:
        return verbs_on_joined(comm, i, turn, &b);
    default:
        return wrong(comm, i, word, len);
    }
}
