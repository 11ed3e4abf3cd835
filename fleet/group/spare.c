/* Ranks whose end is not the group's. Rank 0 sees it first; the others learn of it by the next
 * answer, all by the same one, so that they stay in step. */
#include <stdio.h>
#include <string.h>

#include "fleet/group/group_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

void mn_group_spare(struct mn_group *g)
{
    g->spares = 1;
    if (g->plan.roll)
        atomic_store(&g->plan.roll->spares, 1);
}

const char *mn_group_gone(const struct mn_group *g, int rank)
{
    return g->peers[rank].gone ? g->peers[rank].why : NULL;
}

int mn_group_lose(struct mn_group *g, int r, const char *why)
{
    struct mn_group_peer *peer = &g->peers[r];

    if (g->plan.rank || !g->spares)
        return 0;
    if (!peer->left)
        mn_strlcpy_words(peer->why, why, sizeof peer->why);
    peer->left = 1;
    mn_ctl_close(&peer->ctl);
    cJSON_Delete(peer->message);
    peer->message = NULL;
    return 1;
}

void mn_group_count(struct mn_group *g)
{
    for (int r = 1; r < g->plan.nranks; r++)
        g->peers[r].gone = g->peers[r].left;
}

void mn_group_tell_gone(const struct mn_group *g, cJSON *message)
{
    cJSON *gone = NULL;

    for (int r = 1; !g->plan.rank && r < g->plan.nranks; r++) {
        if (!g->peers[r].gone)
            continue;
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "rank", r);
        cJSON_AddStringToObject(one, "why", g->peers[r].why);
        if (!gone)
            gone = cJSON_AddArrayToObject(message, "gone");
        cJSON_AddItemToArray(gone, one);
    }
}

void mn_group_learn_gone(struct mn_group *g, const cJSON *message)
{
    const cJSON *one;

    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(message, "gone"))
    {
        const cJSON *why = cJSON_GetObjectItemCaseSensitive(one, "why");
        double rank;
        if (mn_ctl_number(one, "rank", 1, g->plan.nranks - 1, &rank, NULL) || !cJSON_IsString(why))
            continue;
        struct mn_group_peer *peer = &g->peers[(int)rank];
        peer->gone = 1;
        mn_strlcpy_words(peer->why, why->valuestring, sizeof peer->why);
        mn_clean(peer->why);
    }
}
