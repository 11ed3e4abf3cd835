/* What the rules about tuners share: communicators, and questions as NCCL asks them. */
#ifndef MN_CHECK_TUNER_KIT_H
#define MN_CHECK_TUNER_KIT_H

#include "bench/check/kit.h"

#define MN_TUNE_GUARDS 64 /* floats on each side of a table */

/* Which cells of a table can be had, as topology and settings decide it. */
enum mn_tune_kind {
    MN_TUNE_PLAIN,  /* ring, tree and PAT */
    MN_TUNE_ALL,    /* CollNet and NVLS beside them */
    MN_TUNE_RING,   /* NCCL_ALGO=Ring */
    MN_TUNE_SIMPLE, /* NCCL_PROTO=Simple */
    MN_TUNE_ONE,    /* one cell alone, and that one dear */
    MN_TUNE_N_KINDS
};

struct mn_tune_question {
    struct mn_tuner_call call;
    enum mn_tune_kind kind;
};

/* What NCCL makes of an answer: algo and proto -1 = nothing is left to choose; in v2, NCCL chooses
 * as without a tuner. */
struct mn_tune_choice {
    int algo, proto, channels;
    size_t chunk; /* v6, else 0 */
};

/* One question and all that came of it. */
struct mn_tune_reply {
    int result;
    float before[MN_TUNER_CELLS], after[MN_TUNER_CELLS];
    struct mn_tune_choice choice;
    const char *overrun; /* where else it wrote, or NULL */
};

/* A communicator; its id is that of all ranks. */
struct mn_tune_comm {
    uint64_t id;
    size_t ranks, nodes;
    void *ctx;
    ncclTunerConstants_v5_t constants; /* as init left them */
};

const char *mn_tune_func_name(int func); /* "AllReduce"; of others "function 9" */
/* "Ring/Simple" */
const char *mn_tune_cell_name(int algo, int proto, char text[32]);
/* "AllReduce of 4096 bytes" with what else may matter. */
const char *mn_tune_name(const struct mn_tune_question *question, char text[160]);

/* The model that NCCL passes to init. */
void mn_tune_constants(ncclTunerConstants_v5_t *constants);
/* One call of init, and of destroy or finalize. overrun: as of a reply; may be NULL. */
int mn_tune_init(struct mn_check *check, struct mn_tune_comm *comm, const char **overrun);
int mn_tune_end(struct mn_check *check, struct mn_tune_comm *comm);
/* The same, after mn_check_load_tuner; an error is a skip that names the rule which reports it. */
void mn_tune_open(struct mn_check *check, size_t ranks, size_t nodes, uint64_t id,
                  struct mn_tune_comm *comm);
void mn_tune_close(struct mn_check *check, struct mn_tune_comm *comm);

/* One call of getCollInfo. */
void mn_tune_ask(struct mn_check *check, const struct mn_tune_comm *comm,
                 const struct mn_tune_question *question, struct mn_tune_reply *reply);
/* The choice alone, chunk size included; an error is a skip. */
struct mn_tune_choice mn_tune_choose(struct mn_check *check, const struct mn_tune_comm *comm,
                                     const struct mn_tune_question *question);

/* The i-th of the questions that a job of many sizes asks, i from 0; 0 when there are no more. */
int mn_tune_question(const struct mn_check *check, int i, struct mn_tune_question *question);
/* Asks all of them of communicators of many shapes. */
void mn_tune_each(struct mn_check *check,
                  void (*judge)(struct mn_check *check, const struct mn_tune_comm *comm,
                                const struct mn_tune_question *question,
                                const struct mn_tune_reply *reply));

/* A shorter list of questions, for the same communicator again and again. */
#define MN_TUNE_SERIES 160
void mn_tune_series(struct mn_check *check, const struct mn_tune_comm *comm,
                    struct mn_tune_choice choices[MN_TUNE_SERIES]);
/* Fails unless two series are the same; when: "with another communicator beside it". */
void mn_tune_same(struct mn_check *check, const struct mn_tune_choice one[MN_TUNE_SERIES],
                  const struct mn_tune_choice other[MN_TUNE_SERIES], const char *when);

#endif
