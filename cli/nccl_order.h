/* The order of a job's hosts beside the cables: meshnet env and meshnet run look at it, say what it
 * costs, and run changes it where it is asked to. */
#ifndef MN_NCCL_ORDER_H
#define MN_NCCL_ORDER_H

#include "cli/job_order.h"
#include "cli/nccl_options.h"
#include "cli/rank_order.h"
#include "topo/base/out.h"

struct mn_nccl_order {
    struct mn_job_order job;
    int known;                   /* job has the hosts; else given is the mesh file's order */
    struct mn_rank_order given;  /* no nodes: too few of them for an order to matter */
    struct mn_rank_order better; /* along the cables, from the same first node on */
    double factor;               /* how many times as long given takes; 0 = not known */
};

/* argv: the command that will run, argc 0: none. MN_ERR_CONFIG for --hosts that are no nodes. To be
 * freed in every case. */
enum mn_err mn_nccl_order_find(const struct mn_nccl_options *options,
                               const struct mn_nccl_subject *subject, int argc, char **argv,
                               struct mn_nccl_order *order, struct mn_diag *diag);
void mn_nccl_order_free(struct mn_nccl_order *order);
/* On standard error: nothing where every step has a cable. applied: the better order is the job's.
 */
void mn_nccl_order_say(const char *command, const struct mn_nccl_subject *subject,
                       const struct mn_nccl_order *order, int applied);
/* The same for programs, under "order". */
void mn_nccl_order_print(struct mn_out *out, const struct mn_nccl_subject *subject,
                         const struct mn_nccl_order *order);
/* Puts the better order into the command's words; a new word is never freed. MN_ERR_USAGE where the
 * order is not in the words, with what to do instead. */
enum mn_err mn_nccl_order_apply(const struct mn_nccl_subject *subject,
                                const struct mn_nccl_order *order, char **argv,
                                struct mn_diag *diag);

#endif
