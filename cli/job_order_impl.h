/* Inside of cli/job_order.c and cli/job_list.c. */
#ifndef MN_JOB_ORDER_IMPL_H
#define MN_JOB_ORDER_IMPL_H

#include "cli/job_order.h"

enum mn_job_list {
    HOSTS,    /* a,b:2,c */
    HOSTFILE, /* a line a host; # begins a comment */
    RANKFILE, /* rank 0=a slot=… */
    SLURM     /* a[1-3],b, in an order of its own */
};

/* Adds its nodes to those of the order. 0: a host is none, and becomes the order's stranger; or the
 * list cannot be read. keeps: the launcher does not sort it. */
int mn_job_list_add(const struct mn_mesh *mesh, int self, enum mn_job_list kind, const char *value,
                    int keeps, struct mn_job_order *order);

#endif
