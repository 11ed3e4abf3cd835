/* Every connection of a mesh of nodes with one GPU each, as NCCL makes them. */

#include "bench/check/kit.h"
#include "bench/check/scenario.h"
#include "topo/nccl_tree.h"

#define MOST     6 /* ranks */
#define CHANNELS 2
#define KINDS    2 /* connection index 0: ring, trees and PAT; 1: send and receive */
#define SIZE     4096

enum phase { RING, TREES, PAT, PAIRS, PHASES };
static const char *const names[] = {"rings", "both trees", "PAT", "all pairs"};

struct mesh {
    int ranks;
    struct mn_pair pairs[KINDS][CHANNELS][MOST][MOST];
    unsigned char there[KINDS][CHANNELS][MOST][MOST];
};

/* Half of the channels have one tree, half the other. */
static int wanted(enum phase phase, int n, int channel, int from, int to)
{
    if (from == to)
        return 0;
    if (phase == RING)
        return to == (from + 1) % n;
    if (phase == TREES)
        return mn_nccl_tree_parent(n, channel, from) == to ||
               mn_nccl_tree_parent(n, channel, to) == from;
    for (int distance = 1; phase == PAT && distance < n; distance *= 2)
        if (to == (from + distance) % n || from == (to + distance) % n)
            return 1;
    return phase == PAIRS;
}

/* One call for each that is not through, all ends on one thread. The number of those left. */
static int go_round(struct mn_check *check, struct mn_pair *const *pairs, int n)
{
    int left = 0;

    for (int i = 0; i < n; i++) {
        struct mn_pair *pair = pairs[i];
        mn_kit_try_connect(check, pair);
        mn_kit_try_accept(check, pair);
        if (pair->recv && pair->listen) {
            mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair->listen));
            pair->listen = NULL;
        }
        left += !pair->send || !pair->recv;
    }
    return left;
}

static void connect_phase(struct mn_check *check, struct mesh *mesh, enum phase phase)
{
    struct mn_pair *fresh[CHANNELS * MOST * MOST];
    int n = 0, left, kind = phase == PAIRS;

    for (int channel = 0; channel < CHANNELS; channel++)
        for (int from = 0; from < mesh->ranks; from++)
            for (int to = 0; to < mesh->ranks; to++) {
                if (!wanted(phase, mesh->ranks, channel, from, to) ||
                    mesh->there[kind][channel][from][to])
                    continue;
                mesh->there[kind][channel][from][to] = 1;
                fresh[n] = &mesh->pairs[kind][channel][from][to];
                mn_kit_listen(check, 0, fresh[n++]);
            }
    mn_check_step(check, "%d ranks, %s: %d new connections", mesh->ranks, names[phase], n);
    while ((left = go_round(check, fresh, n)) > 0) {
        if (mn_check_expired(check))
            mn_check_fail(check, "%d of %d connections of %s did not come up", left, n,
                          names[phase]);
        mn_check_pause(check);
    }
    for (int i = 0; i < n; i++)
        mn_kit_pass(check, fresh[i], SIZE, SIZE, (unsigned)(i + 100 * (int)phase));
}

void mn_check_mesh(struct mn_check *check)
{
    static struct mesh mesh;

    mn_check_init(check);
    for (int ranks = 3; ranks <= MOST; ranks++) {
        mesh = (struct mesh){.ranks = ranks};
        for (int phase = RING; phase < PHASES; phase++)
            connect_phase(check, &mesh, (enum phase)phase);
        for (int i = 0; i < KINDS * CHANNELS * MOST * MOST; i++)
            if ((&mesh.there[0][0][0][0])[i])
                mn_kit_close(check, &mesh.pairs[0][0][0][0] + i);
    }
}
