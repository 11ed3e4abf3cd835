/* Where the names of the mesh lead on this node: "names": {HOSTNAME: [ADDRESS, …]}. A name that the
 * system does not know is left out: ssh may have it for itself. */
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "fleet/doctor_ask.h"
#include "topo/base/alloc.h"

#define PATIENCE 3 /* s for all: a name server may be unreachable */
#define MOST     64

struct lookup {
    pthread_t thread;
    int started, done;
    char name[65];
    struct mn_addr addrs[8];
    int n;
};

static void *look_up(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;

    if (getaddrinfo(l->name, NULL, &hints, &list))
        return NULL;
    for (const struct addrinfo *a = list; a && l->n < 8; a = a->ai_next)
        if (mn_addr_from_sockaddr(a->ai_addr, &l->addrs[l->n]) >= 0)
            l->addrs[l->n++].prefix = -1;
    freeaddrinfo(list);
    return NULL;
}

void mn_doctor_ask_names(const struct mn_doctor_look *look, cJSON *answer)
{
    const struct mn_mesh *mesh = look->mesh;
    size_t n = mesh->n_nodes < MOST ? mesh->n_nodes : MOST;
    /* Never freed: a lookup that takes too long goes on in its thread until the process ends. */
    static struct lookup lookups[MOST];
    cJSON *names = cJSON_AddObjectToObject(answer, "names");
    struct timespec end;

    for (size_t i = 0; i < n; i++) {
        mn_strlcpy(lookups[i].name, mesh->nodes[i].hostname, sizeof lookups[i].name);
        lookups[i].started = !pthread_create(&lookups[i].thread, NULL, look_up, &lookups[i]);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PATIENCE;
    for (size_t i = 0; i < n; i++)
        lookups[i].done = lookups[i].started &&
                          !pthread_clockjoin_np(lookups[i].thread, NULL, CLOCK_MONOTONIC, &end);
    for (size_t i = 0; i < n; i++) {
        char text[MN_ADDR_TEXT];
        if (!lookups[i].done || !lookups[i].n ||
            cJSON_GetObjectItemCaseSensitive(names, lookups[i].name))
            continue;
        cJSON *list = cJSON_AddArrayToObject(names, lookups[i].name);
        for (int k = 0; k < lookups[i].n; k++)
            cJSON_AddItemToArray(list, cJSON_CreateString(mn_addr_format(&lookups[i].addrs[k], text,
                                                                         sizeof text)));
    }
}
