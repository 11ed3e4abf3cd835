#include "tests/drivers/failover/flow.h"

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <string.h>

#define BLANK 0xee /* posted */

static size_t member_at(int member)
{
    return GUARD + (member ? FO_LARGE + GUARD : 0) +
           (member > 1 ? (size_t)(member - 1) * (FO_SMALL + GUARD) : 0);
}

static size_t slot_size(void)
{
    return member_at(FO_MEMBERS);
}

static uint8_t *buffer(const struct fo_flow *f, int end, int group, int member)
{
    return f->areas[end] + (size_t)(group % FO_DEPTH) * slot_size() + member_at(member);
}

static uint32_t room(int member)
{
    return member ? FO_SMALL : FO_LARGE;
}

/* The same for all scenes, as new pages cost more than what is sent. Between them it is nobody's.
 */
static uint8_t areas[FO_FLOWS][2][FO_AREA];

uint8_t *fo_flow_area(int flow, int end)
{
    ASAN_UNPOISON_MEMORY_REGION(areas[flow][end], FO_AREA);
    return memset(areas[flow][end], POISON, FO_AREA);
}

void fo_flow_end_areas(void)
{
    ASAN_POISON_MEMORY_REGION(areas, sizeof areas);
}

/* --- what is sent --- */

static uint32_t size_of(struct fo_rng *rng, int member)
{
    static const uint32_t edges[] = {0, 1, 127, 128, 129, 4095, 4096, 4097, 8191};
    static const uint32_t large[] = {65535, 65536, 131072, 131073, 200000, 262144, FO_LARGE};
    switch (fo_below(rng, member ? 2 : 5)) {
    case 0:
        return edges[fo_below(rng, sizeof edges / sizeof *edges)];
    case 1:
        return (uint32_t)fo_below(rng, FO_SMALL);
    case 2:
        return large[fo_below(rng, sizeof large / sizeof *large)];
    case 3:
        return (uint32_t)fo_below(rng, FO_LARGE);
    default:
        return (uint32_t)fo_below(rng, 300);
    }
}

void fo_flow_plan(struct fo_flow *flow, struct fo_rng *rng, int groups)
{
    flow->n = groups;
    flow->key = fo_mix(rng->state);
    for (int g = 0; g < groups; g++) {
        struct fo_group *group = &flow->groups[g];
        int equal = fo_below(rng, 4) == 0, count = 0;
        group->n = fo_below(rng, 3) ? 1 : 1 + (int)fo_below(rng, FO_MEMBERS);
        for (int m = 0; m < group->n; m++) {
            struct fo_message *message = &group->messages[m];
            message->size = size_of(rng, m);
            uint32_t spare = room(m) - message->size;
            message->capacity =
                message->size + (fo_below(rng, 2) ? (uint32_t)fo_below(rng, spare + 1) : 0);
            message->tag = equal ? 7 : 100 + m;
        }
        /* Any order between tags; in order where they are the same. */
        for (; count < group->n; count++)
            group->turn[count] = count;
        for (int m = group->n - 1; m > 0 && !equal; m--) {
            int k = (int)fo_below(rng, (uint64_t)m + 1), was = group->turn[m];
            group->turn[m] = group->turn[k];
            group->turn[k] = was;
        }
    }
}

/* Of the data, one word after the other, by where it is and which message it is. A sanitizer looks
 * at what the libraries do; this is most of what is done, and stays within what was allocated. */
typedef uint64_t word __attribute__((may_alias, aligned(1)));
#define OWN_LOOP __attribute__((no_sanitize("address", "undefined", "thread")))

static uint64_t first_word(const struct fo_flow *f, int group, int member)
{
    return fo_mix(f->key ^ (uint64_t)group << 40 ^ (uint64_t)member << 32);
}

OWN_LOOP static void fill(const struct fo_flow *f, int group, int member, uint8_t *data,
                          uint32_t size)
{
    uint64_t first = first_word(f, group, member);
    uint32_t at = 0;
    for (; at + 8 <= size; at += 8)
        *(word *)(data + at) = (first + at) * 0x9e3779b97f4a7c15u;
    uint64_t rest = (first + at) * 0x9e3779b97f4a7c15u;
    memcpy(data + at, &rest, size - at);
}

/* Where it differs; size: nowhere. */
OWN_LOOP static uint32_t differs(const struct fo_flow *f, int group, int member,
                                 const uint8_t *data, uint32_t size)
{
    uint64_t first = first_word(f, group, member);
    uint32_t at = 0;
    for (; at + 8 <= size; at += 8)
        if (*(const word *)(data + at) != (first + at) * 0x9e3779b97f4a7c15u)
            return at;
    uint64_t rest = (first + at) * 0x9e3779b97f4a7c15u;
    return memcmp(data + at, &rest, size - at) == 0 ? size : at;
}

int fo_flow_untouched(const struct fo_flow *f, int slot, char why[512])
{
    const uint8_t *at = f->areas[1] + (size_t)slot * slot_size();
    size_t bad = not_all(at, slot_size(), POISON);
    if (bad == slot_size())
        return 0;
    snprintf(why, 512,
             "a receive buffer was written after it was done: byte %zu of slot %d is %02x", bad,
             slot, at[bad]);
    return -1;
}

static int guarded(const struct fo_flow *f, int group, int member, uint32_t size, char why[512])
{
    const uint8_t *data = buffer(f, 1, group, member);
    const struct fo_message *message = &f->groups[group].messages[member];
    size_t rest = not_all(data + size, message->capacity - size, BLANK),
           after =
               not_all(data + message->capacity, room(member) - message->capacity + GUARD, POISON);
    if (rest == message->capacity - size && after == room(member) - message->capacity + GUARD &&
        not_all(data - GUARD, GUARD, POISON) == GUARD)
        return 0;
    snprintf(why, 512, "bytes around message %d.%d of %u into %u bytes were written", group, member,
             message->size, message->capacity);
    return -1;
}

static int arrived(const struct fo_flow *f, int group, int member, const char *whose, char why[512])
{
    uint32_t size = f->groups[group].messages[member].size;
    uint32_t at = differs(f, group, member, buffer(f, 1, group, member), size);
    if (at == size)
        return 0;
    snprintf(why, 512, "%s of message %d.%d of %u bytes is done, byte %u is not there", whose,
             group, member, size, at);
    return -1;
}

/* --- moving --- */

int fo_flow_post(struct fo_flow *f, char why[512])
{
    void *data[FO_MEMBERS], *mhs[FO_MEMBERS];
    size_t sizes[FO_MEMBERS];
    int tags[FO_MEMBERS], at = f->posted;
    struct fo_group *group = &f->groups[at];

    if (f->errors[1] || f->closed[1] || at == f->n || at - f->received >= FO_DEPTH ||
        (at >= FO_DEPTH && (f->groups[at - FO_DEPTH].state != FO_DONE)))
        return 0;
    if (fo_flow_untouched(f, at % FO_DEPTH, why))
        return -1;
    for (int m = 0; m < group->n; m++) {
        data[m] = buffer(f, 1, at, m);
        sizes[m] = group->messages[m].capacity;
        tags[m] = group->messages[m].tag;
        mhs[m] = f->mhs[1];
        memset(data[m], BLANK, sizes[m]);
    }
    group->request = NULL;
    f->errors[1] = mn_plugin_irecv(f->ends[1]->plugin, f->comms[1], group->n, data, sizes, tags,
                                   mhs, &group->request);
    if (!f->errors[1] && group->request) {
        group->state = FO_POSTED;
        f->posted++;
        return 1;
    }
    for (int m = 0; m < group->n && !f->errors[1]; m++)
        memset(data[m], POISON, sizes[m]);
    return 0;
}

int fo_flow_send(struct fo_flow *f, char why[512])
{
    int at = f->sending, member;
    (void)why;
    if (f->errors[0] || f->closed[0] || at == f->n || at - f->sent >= FO_DEPTH)
        return 0;
    struct fo_group *group = &f->groups[at];
    member = group->turn[f->member];
    struct fo_message *message = &group->messages[member];
    uint8_t *data = buffer(f, 0, at, member);
    /* Not before everything of it is out of that memory. */
    for (int m = 0; at >= FO_DEPTH && m < f->groups[at - FO_DEPTH].n; m++)
        if (f->groups[at - FO_DEPTH].messages[m].sent != FO_DONE)
            return 0;
    fill(f, at, member, data, message->size);
    message->request = NULL;
    f->errors[0] = mn_plugin_isend(f->ends[0]->plugin, f->comms[0], data, message->size,
                                   message->tag, f->mhs[0], &message->request);
    if (f->errors[0] || !message->request)
        return 0;
    message->sent = FO_POSTED;
    if (++f->member == group->n) {
        f->member = 0;
        f->sending++;
    }
    return 1;
}

int fo_flow_ask(struct fo_flow *f, char why[512])
{
    void *request = NULL;

    if (f->errors[0] || f->closed[0])
        return 0;
    f->errors[0] = mn_plugin_isend(f->ends[0]->plugin, f->comms[0], f->areas[0], 1, FO_NO_TAG,
                                   f->mhs[0], &request);
    if (!request)
        return 0;
    snprintf(why, 512, "a send was taken whose tag nobody receives");
    return -1;
}

int fo_flow_test_recv(struct fo_flow *f, int at, char why[512])
{
    struct fo_group *group = &f->groups[at];
    int done = 0, sizes[FO_MEMBERS];

    if (group->state != FO_POSTED || f->errors[1] || f->closed[1])
        return 0;
    memset(sizes, 0xff, sizeof sizes);
    f->errors[1] = mn_plugin_test(f->ends[1]->plugin, group->request, &done, sizes);
    if (f->errors[1] && done) {
        snprintf(why, 512, "group %d is done and has an error", at);
        return -1;
    }
    if (f->errors[1] || !done)
        return 0;
    group->state = FO_DONE;
    for (int m = 0; m < group->n; m++) {
        const struct fo_message *message = &group->messages[m];
        if ((uint32_t)sizes[m] != message->size) {
            snprintf(why, 512, "message %d.%d of %u bytes, %d reported", at, m, message->size,
                     sizes[m]);
            return -1;
        }
        if (arrived(f, at, m, "the receive", why) || guarded(f, at, m, message->size, why))
            return -1;
        f->messages++;
        f->bytes += message->size;
        memset(buffer(f, 1, at, m), POISON, message->capacity);
    }
    while (f->received < f->posted && f->groups[f->received].state == FO_DONE)
        f->received++;
    return 1;
}

static int all_sent(const struct fo_group *group)
{
    for (int m = 0; m < group->n; m++)
        if (group->messages[m].sent != FO_DONE)
            return 0;
    return 1;
}

int fo_flow_test_send(struct fo_flow *f, int at, int member, char why[512])
{
    struct fo_group *group = &f->groups[at];
    struct fo_message *message = &group->messages[member];
    int done = 0, sizes[FO_MEMBERS] = {-1};

    if (member >= group->n || message->sent != FO_POSTED || f->errors[0] || f->closed[0])
        return 0;
    f->errors[0] = mn_plugin_test(f->ends[0]->plugin, message->request, &done, sizes);
    if (f->errors[0] && done) {
        snprintf(why, 512, "send %d.%d is done and has an error", at, member);
        return -1;
    }
    if (f->errors[0] || !done)
        return 0;
    message->sent = FO_DONE;
    if ((uint32_t)sizes[0] != message->size) {
        snprintf(why, 512, "send %d.%d of %u bytes, %d reported", at, member, message->size,
                 sizes[0]);
        return -1;
    }
    /* What is sent is at the receiver, whether that knows it or not. */
    if (group->state == FO_NONE) {
        snprintf(why, 512, "send %d.%d is done, nothing was posted for it", at, member);
        return -1;
    }
    if (group->state == FO_POSTED && arrived(f, at, member, "the send", why))
        return -1;
    memset(buffer(f, 0, at, member), STALE, message->size);
    while (f->sent < f->n && all_sent(&f->groups[f->sent]))
        f->sent++;
    return 1;
}
