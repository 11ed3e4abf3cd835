#include <stdlib.h>
#include <string.h>

#include "fleet/group.h"
#include "fleet/launch_env.h"

/* The first row whose rank and size are both set counts. When the size of this host's part equals
 * the whole, rank 0 is on this host. */
static const struct row {
    const char *launcher, *rank, *size, *local_size, *address, *port;
} rows[] = {
    {"meshnet bench", "MESHNET_RANK", "MESHNET_WORLD", NULL, NULL, NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL,
     NULL},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, NULL},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL, NULL, NULL},
};

static const char *text_of(const char *variable)
{
    const char *text = variable ? getenv(variable) : NULL;
    return text && *text ? text : NULL;
}

static enum mn_err number_of(const char *variable, long min, long max, long *number,
                             struct mn_diag *diag)
{
    const char *text = text_of(variable);
    char *end = NULL;

    *number = text ? strtol(text, &end, 10) : 0;
    if (text && (*end || *number < min || *number > max))
        return mn_fail(diag, MN_ERR_CONFIG, "%s=%s: expected a number from %ld to %ld", variable,
                       text, min, max);
    return MN_OK;
}

enum mn_err mn_launch_env(struct mn_launch_env *env, struct mn_diag *diag)
{
    const struct row *row = rows, *end = rows + sizeof rows / sizeof *rows;
    long rank, nranks, local, port;

    *env = (struct mn_launch_env){.launcher = NULL};
    while (row < end && !(text_of(row->rank) && text_of(row->size)))
        row++;
    if (row == end)
        return MN_OK;
    enum mn_err err = number_of(row->size, 1, MN_GROUP_RANKS, &nranks, diag);
    if (!err)
        err = number_of(row->rank, 0, nranks - 1, &rank, diag);
    if (!err)
        err = number_of(row->local_size, 1, nranks, &local, diag);
    /* The port itself belongs to the launcher's own store. */
    if (!err)
        err = number_of(row->port, 1, 65534, &port, diag);
    if (err)
        return err;
    *env = (struct mn_launch_env){.launcher = row->launcher,
                                  .rank = (int)rank,
                                  .nranks = (int)nranks,
                                  .address = text_of(row->address),
                                  .port = (uint16_t)(port ? port + 1 : 0)};
    if (!env->address && local == nranks)
        env->address = "127.0.0.1";
    return MN_OK;
}
