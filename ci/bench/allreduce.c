/* MPI_Allreduce of float sums, out of place: what meshnet bench --collective is held against.
 *
 *   mpirun … allreduce BYTES ITERATIONS
 *
 * Prints microseconds an operation: the slowest rank's time for all, by their number. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long bytes = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    long iterations = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    int count = (int)(bytes / (long)sizeof(float)), ranks, wrong = 0, rank;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (count < 1 || iterations < 1) {
        fprintf(stderr, "usage: allreduce BYTES ITERATIONS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    float *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
    if (!from || !to)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < count; i++)
        from[i] = (float)(i % 7 + rank);
    for (long i = 0; i < 1 + iterations / 10; i++)
        MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        wrong |= to[i] != (float)(i % 7 * ranks + ranks * (ranks - 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long i = 0; i < iterations; i++)
        MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double took = MPI_Wtime() - start, slowest;
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.3f\n", slowest * 1e6 / (double)iterations);
    free(from);
    free(to);
    MPI_Finalize();
    return wrong;
}
