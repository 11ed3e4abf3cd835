/* Which algorithm when nobody says which. */
#include <string.h>

#include "bench/coll/algorithm.h"

#define KIB ((size_t)1 << 10)

enum hosts { ANY_HOSTS, SHARED_HOSTS, ONE_HOST };

/* The first row that fits counts, and where none does, the collective's first algorithm: a ring,
 * which moves the fewest bytes, all of them between neighbours, or else the only simple way. */
static const struct {
    enum mn_collective collective;
    int ranks;    /* at most; 0 = any number */
    size_t bytes; /* of algbw, at most */
    enum hosts hosts;
    const char *name;
} choices[] = {
    /* Ranks of one host share its processors: the messages of all count, not the steps. */
    {MN_ALLREDUCE, 8, 4 * KIB, ONE_HOST, "star"},
    /* One message time; a few more copies of a small vector cost less than a second step. */
    {MN_ALLREDUCE, 4, 4 * KIB, ANY_HOSTS, "one-shot"},
    /* Steps still cost more than bytes: as few steps as can be without n copies at each rank. */
    {MN_ALLREDUCE, 0, 32 * KIB, ANY_HOSTS, "doubling"},
    /* Ranks of a host share its cables: only their sum should cross them. */
    {MN_ALLREDUCE, 0, SIZE_MAX, SHARED_HOSTS, "hierarchical"},
    /* A ring's bytes in fewer steps, until distance over several cables outweighs the steps. */
    {MN_ALLREDUCE, 0, 512 * KIB, ANY_HOSTS, "halving-doubling"},
    /* One step, and each block is sent only by who has it. */
    {MN_ALLGATHER, 8, 256 * KIB, ANY_HOSTS, "direct"},
    /* With more ranks the messages to all cost more than log2(n) steps. */
    {MN_ALLGATHER, 0, 256 * KIB, ANY_HOSTS, "bruck"},
    {MN_REDUCESCATTER, 8, 256 * KIB, ANY_HOSTS, "direct"},
    {MN_REDUCESCATTER, 0, 256 * KIB, ANY_HOSTS, "halving"},
    /* Up to three others the root alone is as quick as a tree: nobody waits for a second hop. */
    {MN_BROADCAST, 4, 32 * KIB, ANY_HOSTS, "direct"},
    /* Later a pipeline round the ring sends each byte once from each rank; a tree's root log2(n)
     * times. */
    {MN_BROADCAST, 0, 256 * KIB, ANY_HOSTS, "tree"},
    {MN_REDUCE, 4, 32 * KIB, ANY_HOSTS, "direct"},
    {MN_REDUCE, 0, 256 * KIB, ANY_HOSTS, "tree"},
    /* Every byte goes over the root's cables either way; a tree only saves it small messages. */
    {MN_GATHER, 0, 64 * KIB, ANY_HOSTS, "tree"},
    {MN_SCATTER, 0, 64 * KIB, ANY_HOSTS, "tree"},
};

const struct mn_algorithm *mn_algorithm_find(enum mn_collective c, const char *name)
{
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++)
        if (a->collective == c && (!name || !strcmp(a->name, name)))
            return a;
    return NULL;
}

/* Shared: some ranks have a host in common, but not all the same one. */
static enum hosts hosts_of(const struct mn_coll_job *job)
{
    int shared = 0, several = 0;

    for (int i = 0; job->hosts && i < job->nranks; i++)
        for (int k = 0; k < i; k++) {
            shared |= job->hosts[i] == job->hosts[k];
            several |= job->hosts[i] != job->hosts[k];
        }
    return !shared ? ANY_HOSTS : several ? SHARED_HOSTS : ONE_HOST;
}

const struct mn_algorithm *mn_algorithm_auto(enum mn_collective c, const struct mn_coll_job *job)
{
    size_t bytes = mn_collective_bytes(c, job);
    enum hosts hosts = hosts_of(job);

    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].collective != c || bytes > choices[i].bytes ||
            (choices[i].ranks && job->nranks > choices[i].ranks) ||
            (choices[i].hosts != ANY_HOSTS && choices[i].hosts != hosts))
            continue;
        const struct mn_algorithm *a = mn_algorithm_find(c, choices[i].name);
        if (a && !(a->refuses && a->refuses(job)))
            return a;
    }
    return mn_algorithm_find(c, NULL);
}
