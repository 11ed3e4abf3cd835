/* Many nodes asked at once: by ssh, by agents, and this host without either. */
#ifndef MN_CREW_H
#define MN_CREW_H

#include <cjson/cJSON.h>
#include <signal.h>
#include <stdint.h>

#include "fleet/node.h"
#include "topo/base/mac.h"
#include "topo/base/opt.h"
#include "topo/nic.h"

enum mn_crew_way { MN_CREW_SSH, MN_CREW_AGENTS };

/* Asked at one time: each takes a process and three descriptors until the crew closes. */
#define MN_CREW_HOSTS_MAX 256

struct mn_crew_plan {
    /* "localhost", this host's name and $MESHNET_NODE are this process's host, in all ways. */
    const struct mn_opt_list *hosts;
    enum mn_crew_way way;
    uint8_t token[MN_KEY_SIZE]; /* of agents */
    uint16_t port;              /* of agents; 0: MN_CTL_PORT */
    unsigned connect_ms;        /* 0: 10 s */
    /* Not 0: everything ends, MN_ERR_FAILED "interrupted". NULL: never. */
    const volatile sig_atomic_t *stop;
    /* Further places of a host, by number from 0 on, where its name does not lead to it; 0: there
     * are no more. NULL: its name alone. */
    int (*place)(void *places, const char *host, int number, char address[MN_ADDR_TEXT]);
    void *places; /* until mn_crew_open returns */
    /* News for people ("copied meshnet to spark-b"); may be NULL. */
    void (*say)(void *ctx, const char *host, const char *text);
    void *ctx;
};

struct mn_crew;

/* What one host said. */
struct mn_crew_answer {
    const char *host; /* of the plan */
    enum mn_err err;
    struct mn_diag diag; /* begins with the host's name */
    cJSON *json;         /* NULL after an error */
};

/* Makes sure that each host can be asked. By ssh, a host that lacks this meshnet (by version and
 * build) is given a copy in a folder of its own below /tmp when it has this architecture and libc;
 * it goes with the crew, however that ends, so that a verb cannot start the program anew
 * afterwards. A host that cannot be asked is no error here: every answer of it says why. */
enum mn_err mn_crew_open(const struct mn_crew_plan *plan, struct mn_crew **crew,
                         struct mn_diag *diag);
size_t mn_crew_size(const struct mn_crew *crew);
/* Asks all hosts at once and waits for all: ask is the same for every host, or asks[i] is that of
 * host i (NULL: it is left out, MN_ERR_SKIPPED in its answer). answers has room for
 * mn_crew_size(). Returns the first host's error. Bounded by the verb's seconds. */
enum mn_err mn_crew_ask(struct mn_crew *crew, const char *verb, const cJSON *ask,
                        struct mn_crew_answer *answers);
enum mn_err mn_crew_ask_each(struct mn_crew *crew, const char *verb, const cJSON *const *asks,
                             struct mn_crew_answer *answers);
void mn_crew_answers_free(struct mn_crew_answer *answers, size_t n);
/* Removes what was copied. NULL is fine. */
void mn_crew_close(struct mn_crew *crew);

#endif
