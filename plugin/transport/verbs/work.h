/* Threads for what can sleep in the kernel: changing a queue pair to RTR asks the neighbour table
 * and waits up to a second for an answer (Linux, rdma_resolve_ip through ib_resolve_eth_dmac). */
#ifndef MN_VERBS_WORK_H
#define MN_VERBS_WORK_H

struct verbs_job {
    void (*run)(struct verbs_job *job);
    const void *owner; /* whose end waits for it */
    struct verbs_job *next;
};

/* Runs the job on one of a few threads, started when needed and ended when idle. The job must stay
 * until run() was called; run() may free it. 0, or an errno value when no thread could be had. */
int verbs_work(struct verbs_job *job);
/* Waits until no job of this owner is queued or running. */
void verbs_work_settle(const void *owner);
/* Whether there is one. */
int verbs_work_has(const void *owner);
/* Runs what is queued and joins the threads. The next job starts one again. */
void verbs_work_end(void);

#endif
