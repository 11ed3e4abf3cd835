/* In which order a job has its hosts, as far as that can be told before it starts: by the words of
 * the launcher that is about to run, or by what a scheduler has put into the environment. */
#ifndef MN_JOB_ORDER_H
#define MN_JOB_ORDER_H

#include "topo/base/err.h"
#include "topo/mesh.h"

struct mn_job_order {
    char where[96]; /* "mpirun -H", "SLURM_JOB_NODELIST"; "" = no order is told */
    int *nodes, n;  /* different ones, by their first ranks; n 0: not told */
    /* Where it can be changed: the word that has the list, from its byte prefix on; -1: nowhere. */
    int word;
    size_t prefix;
    char file[512]; /* that has the list, "" = none */
    int unsure;     /* the word may be the program's own */
    int sorts;      /* the launcher puts hosts in an order of its own */
    int programs;   /* of one mpirun that have hosts of their own */
    /* A host that was named and is no node of the mesh, and where: no order is told then, unless
     * another place tells one. "" = none. */
    char stranger[128], stranger_of[96];
    /* Of a launcher that runs on each host and is told which one it is: the number, that of hosts,
     * and the node of number 0, -1 = not told. word and prefix are the number's. */
    int node_rank, n_hosts, first;
};

/* Never fails: what cannot be understood, or names hosts that are no nodes of the mesh, is no
 * order. self: this node, -1 = not known. To be freed. */
void mn_job_order_find(const struct mn_mesh *mesh, int self, int argc, char **argv,
                       struct mn_job_order *order);
void mn_job_order_free(struct mn_job_order *order);

/* The word with the list of hosts in the order of these nodes, each with what follows its name;
 * malloc'ed. */
char *mn_job_order_word(const struct mn_mesh *mesh, int self, const char *word, size_t prefix,
                        const int *nodes, int n);

/* Whether that list has each of these nodes once and nothing else. */
int mn_job_order_same(const struct mn_mesh *mesh, int self, const char *list, const int *nodes,
                      int n);

/* The hosts of a list as Slurm writes it, "spark-[1-3,7],other", each malloc'ed and appended to
 * *names; those behind the first 8192 are left out. */
void mn_slurm_hosts(const char *list, char ***names, size_t *n);

#endif
