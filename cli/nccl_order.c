#include "cli/nccl_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/route.h"

#define MATTERS 3  /* nodes: two are a ring in any order */
#define LISTED  32 /* nodes that a sentence names */

/* --- finding -------------------------------------------------------------------------------- */

/* All nodes, from that one on. */
static void all_nodes(const struct mn_mesh *mesh, int first, int **nodes, int *n)
{
    *nodes = mn_zalloc((mesh->n_nodes + 1) * sizeof **nodes);
    *n = 0;
    if (first >= 0)
        (*nodes)[(*n)++] = first;
    for (int i = 0; i < (int)mesh->n_nodes; i++)
        if (i != first)
            (*nodes)[(*n)++] = i;
}

enum mn_err mn_nccl_order_find(const struct mn_nccl_options *o, const struct mn_nccl_subject *s,
                               int argc, char **argv, struct mn_nccl_order *order,
                               struct mn_diag *diag)
{
    struct mn_job_order *job = &order->job;
    int *nodes = NULL, n = 0;
    enum mn_err err = MN_OK;

    *order = (struct mn_nccl_order){.factor = 0};
    mn_job_order_find(&s->mesh, s->self, argc, argv, job);
    if (o->hosts.count) {
        free(job->nodes);
        err = mn_rank_nodes(&s->mesh, "--hosts", &o->hosts, &job->nodes, &job->n, diag);
        if (job->node_rank < 0)
            snprintf(job->where, sizeof job->where, "--hosts");
    }
    order->known = job->n > 0;
    if (err || s->mesh.n_nodes < MATTERS || (order->known && job->n < MATTERS))
        return err;
    if (!order->known)
        all_nodes(&s->mesh, job->first, &nodes, &n);
    mn_rank_order_given(&s->mesh, order->known ? job->nodes : nodes, order->known ? job->n : n,
                        &order->given);
    mn_rank_order_best(&s->mesh, order->given.nodes, order->given.n, &order->better);
    if (order->given.missing > order->better.missing)
        order->factor = mn_rank_order_factor(&s->mesh, &order->given, &order->better);
    free(nodes);
    return MN_OK;
}

void mn_nccl_order_free(struct mn_nccl_order *order)
{
    mn_job_order_free(&order->job);
    mn_rank_order_free(&order->given);
    mn_rank_order_free(&order->better);
}

static int place_of(const struct mn_rank_order *order, int node)
{
    for (int i = 0; i < order->n; i++)
        if (order->nodes[i] == node)
            return i;
    return -1;
}

/* --- saying --------------------------------------------------------------------------------- */

/* What these steps cost, after a colon. */
static void cost_of(const struct mn_nccl_subject *s, const struct mn_nccl_order *order, char *text,
                    size_t size)
{
    const char *what = mn_reach_relays(&s->mesh.settings) ? "meshnet relayd" : "TCP";

    if (order->factor > 1.05)
        snprintf(text, size,
                 "%s through nodes in between, and a large all-reduce takes %.1f times as long by "
                 "the cables' speed alone",
                 what, order->factor);
    else if (order->factor > 0)
        snprintf(text, size, "%s through nodes in between, at what their processors pass on", what);
    else
        snprintf(text, size, "TCP over a network beside the cables");
}

/* The better order, or where it stands; malloc'ed. */
static char *names_of(const struct mn_nccl_subject *s, const struct mn_nccl_order *order)
{
    return order->better.n > LISTED ? mn_strdup("what meshnet topo ranks writes")
                                    : mn_rank_order_names(&s->mesh, &order->better);
}

static void say_bad(const char *command, const struct mn_nccl_subject *s,
                    const struct mn_nccl_order *order)
{
    char *gaps = mn_rank_order_gaps(&s->mesh, &order->given), cost[160];
    char *names = names_of(s, order);

    cost_of(s, order, cost, sizeof cost);
    fprintf(stderr, "meshnet %s: %s: the ring of %d goes over %s: %s; use %s", command,
            order->job.where, order->given.n, gaps, cost, names);
    if (order->better.missing)
        fprintf(stderr, " (%d pair%s without)", order->better.missing,
                order->better.missing == 1 ? "" : "s");
    fprintf(stderr, order->job.sorts
                        ? "; Slurm keeps an order of SLURM_HOSTFILE with --distribution=arbitrary "
                          "alone: meshnet topo ranks --format slurm\n"
                        : "\n");
    free(gaps);
    free(names);
}

static void say_gaps(const char *command, const struct mn_nccl_subject *s,
                     const struct mn_rank_order *order, int least)
{
    char *gaps = mn_rank_order_gaps(&s->mesh, order);

    fprintf(stderr, "meshnet %s: the ring of %d goes over %s; %s\n", command, order->n, gaps,
            least == order->missing ? "no order has fewer" : "no better order was found");
    free(gaps);
}

/* What nobody has told is the order; the one to use is said. */
static void say_advice(const char *command, const struct mn_nccl_subject *s,
                       const struct mn_nccl_order *order)
{
    char *names = names_of(s, order), cost[160];

    cost_of(s, order, cost, sizeof cost);
    fprintf(stderr,
            "meshnet %s: number the ranks in this order of nodes, so that neighbours have a cable: "
            "%s",
            command, names);
    if (order->given.missing > order->better.missing)
        fprintf(stderr, " (the mesh file's order has %d without: %s)", order->given.missing, cost);
    fputc('\n', stderr);
    free(names);
}

/* The number that a launcher on this host was given, beside what is known. 1: something was said.
 */
static int say_number(const char *command, const struct mn_nccl_subject *s,
                      const struct mn_nccl_order *order)
{
    const struct mn_job_order *job = &order->job;
    int number = job->node_rank, n = job->n_hosts;

    if (s->self < 0 || number < 0 || number >= n)
        return 0;
    if (order->known) {
        int place = place_of(&order->given, s->self);
        if (place < 0 || place == number)
            return 0;
        fprintf(stderr, "meshnet %s: %s %d: %s is number %d of --hosts\n", command, job->where,
                number, s->mesh.nodes[s->self].name, place);
        return 1;
    }
    if (job->first < 0 || n != (int)s->mesh.n_nodes || job->first == s->self)
        return 0;
    /* Whatever the others have: so many steps lead from number 0 to here, and so many back. */
    int steps = number < n - number ? number : n - number, hops;
    struct mn_fabric fabric;
    struct mn_routes routes;
    mn_fabric_from_mesh(&s->mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    hops = mn_routes_path(&routes, job->first, s->self, NULL);
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
    if (hops <= steps || order->better.missing)
        return 0;
    fprintf(stderr,
            "meshnet %s: %s %d: %d step%s of the ring lead%s from %s, number 0, to %s, which is %d "
            "cables away: some step has none\n",
            command, job->where, number, steps, steps == 1 ? "" : "s", steps == 1 ? "s" : "",
            s->mesh.nodes[job->first].name, s->mesh.nodes[s->self].name, hops);
    return 1;
}

void mn_nccl_order_say(const char *command, const struct mn_nccl_subject *s,
                       const struct mn_nccl_order *order, int applied)
{
    const struct mn_job_order *job = &order->job;

    if (!order->known && *job->stranger)
        fprintf(
            stderr,
            "meshnet %s: %s: %s is no node of the mesh file, so the order of these hosts is not "
            "looked at; --hosts names those of the job\n",
            command, job->stranger_of, job->stranger);
    if (!order->given.n)
        return;
    if (applied) {
        if (order->better.missing)
            say_gaps(command, s, &order->better, order->better.least);
        return;
    }
    (void)say_number(command, s, order);
    if (!order->known)
        say_advice(command, s, order);
    else if (order->given.missing > order->better.missing)
        say_bad(command, s, order);
    else if (order->given.missing) /* as many */
        say_gaps(command, s, &order->given, order->better.least);
}

void mn_nccl_order_print(struct mn_out *out, const struct mn_nccl_subject *s,
                         const struct mn_nccl_order *order)
{
    char *given = mn_rank_order_names(&s->mesh, &order->given);
    char *better = mn_rank_order_names(&s->mesh, &order->better);

    mn_out_begin(out, "order", NULL);
    mn_out_str(out, "from", NULL, order->known ? order->job.where : NULL);
    mn_out_str(out, "nodes", NULL, order->given.n ? given : NULL);
    mn_out_int(out, "steps_without_cable", NULL, order->given.missing);
    mn_out_str(out, "along_cables", NULL, order->given.n ? better : NULL);
    mn_out_int(out, "along_cables_without", NULL, order->better.missing);
    if (order->factor > 0)
        mn_out_num(out, "times_as_long", NULL, order->factor, 2);
    else
        mn_out_str(out, "times_as_long", NULL, NULL);
    mn_out_end(out);
    free(given);
    free(better);
}

/* --- changing ------------------------------------------------------------------------------- */

static enum mn_err apply_number(const struct mn_nccl_subject *s, const struct mn_nccl_order *order,
                                char **argv, struct mn_diag *diag)
{
    const struct mn_job_order *job = &order->job;
    int place = s->self < 0 ? -1 : place_of(&order->better, s->self);

    if (place < 0)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: this host is none of the nodes that are put in order; set "
                       "MESHNET_NODE, or give --hosts");
    if (job->n_hosts != order->better.n)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: --nnodes %d, and %d nodes to put in order: name those of "
                       "the job with --hosts",
                       job->n_hosts, order->better.n);
    argv[job->word] = mn_asprintf("%.*s%d", (int)job->prefix, argv[job->word], place);
    return MN_OK;
}

enum mn_err mn_nccl_order_apply(const struct mn_nccl_subject *s, const struct mn_nccl_order *order,
                                char **argv, struct mn_diag *diag)
{
    const struct mn_job_order *job = &order->job;

    if (!order->given.n && (job->n || job->node_rank >= 0))
        return MN_OK;
    if (job->node_rank >= 0)
        return apply_number(s, order, argv, diag);
    if (!order->known && *job->stranger)
        return mn_fail(diag, MN_ERR_USAGE, "--order cables: %s: %s is no node of the mesh file",
                       job->stranger_of, job->stranger);
    if (!order->known)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: the command names no hosts of the mesh in a way that is "
                       "known, as mpirun -H a,b,c does; meshnet topo ranks writes an order");
    if (order->given.missing == order->better.missing)
        return MN_OK;
    if (job->file[0])
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: %s has the order of hosts, and is left alone; meshnet topo "
                       "ranks --format hostfile (or rankfile, slurm) -o FILE writes one",
                       job->file);
    if (job->programs > 1)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: %d programs have hosts of their own, and stay as they are: "
                       "put these in order by hand, as meshnet topo ranks says",
                       job->programs);
    if (job->word < 0 || job->sorts)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: Slurm keeps the order of a file alone: meshnet topo ranks "
                       "--format slurm -o FILE, then SLURM_HOSTFILE=FILE srun "
                       "--distribution=arbitrary");
    if (job->unsure)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--order cables: %s may be an argument of the program: put the launcher's "
                       "list of hosts first, before its other options",
                       argv[job->word]);
    if (!mn_job_order_same(&s->mesh, s->self, argv[job->word] + job->prefix, order->better.nodes,
                           order->better.n)) {
        char *names = mn_rank_order_names(&s->mesh, &order->given);
        enum mn_err err = mn_fail(diag, MN_ERR_USAGE,
                                  "--order cables: %s: expected each of %s once and no other, to "
                                  "put them in order (%s)",
                                  argv[job->word] + job->prefix, names, job->where);
        free(names);
        return err;
    }
    argv[job->word] = mn_job_order_word(&s->mesh, s->self, argv[job->word], job->prefix,
                                        order->better.nodes, order->better.n);
    return MN_OK;
}
