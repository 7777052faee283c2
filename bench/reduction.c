/* Times a sum of gradients of several ranks: as pstar-run reduces, by an exchange of shards and a
 * sum in the order of the ranks, or with MPI's own reduce-scatter, which chooses its order.
 *
 *   mpirun -n 2 build/bench_reduction ordered
 *   mpirun -n 2 build/bench_reduction mpi
 *
 * Rank 0 prints for each size the median over TRIES of the slowest rank's time. There is no goal:
 * an order that never changes has its price, and the two show it. */
#include "engine/reduction.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 15 };

static const uint64_t sizes[] = {UINT64_C(1) << 12, UINT64_C(1) << 16, UINT64_C(1) << 20,
                                 UINT64_C(1) << 24};

static double seconds_now(void)
{
    return (double)g_get_monotonic_time() * 1e-6;
}

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void print(uint64_t elements, uint32_t ranks, double *times)
{
    qsort(times, TRIES, sizeof *times, ascending);
    double bytes = (double)elements * sizeof(float) * (ranks - 1) / ranks;
    printf("%10" G_GUINT64_FORMAT " elements %10.1f us %8.2f GB/s sent by each of %u ranks\n",
           elements, times[TRIES / 2] * 1e6, bytes / times[TRIES / 2] * 1e-9, ranks);
    if (elements == sizes[G_N_ELEMENTS(sizes) - 1])
        printf("No goal: compare 'ordered' with 'mpi'.\n");
}

static float *new_gradient(uint64_t elements)
{
    float *gradient = g_new(float, elements);
    for (uint64_t i = 0; i < elements; i++)
        gradient[i] = (float)(i % 1000) * 1e-3f;
    return gradient;
}

static void time_ordered(struct ranks *ranks, struct reduction *reduction, uint64_t elements)
{
    g_autofree float *gradient = new_gradient(elements);
    g_autofree float *sum = g_new0(float, shard_room(elements, ranks->count));
    g_autofree double *slowest = g_new0(double, ranks->count);
    double times[TRIES];
    const struct reduction_sum of = {.elements = elements, .gradients = {gradient}, .sum = sum};
    for (int i = 0; i < TRIES; i++) {
        ranks_share(ranks, sizeof *slowest, slowest); /* a barrier */
        double start = seconds_now();
        reduction_add(reduction, &of, 1);
        slowest[ranks->rank] = seconds_now() - start;
        ranks_share(ranks, sizeof *slowest, slowest);
        times[i] = 0;
        for (uint32_t r = 0; r < ranks->count; r++)
            times[i] = MAX(times[i], slowest[r]);
    }
    if (ranks->rank == 0)
        print(elements, ranks->count, times);
}

static int status_of(const GError *error)
{
    return error ? 2 : 0;
}

static int run_ordered(void)
{
    struct ranks *ranks;
    int elsewhere;
    g_autoptr(GError) error = NULL;
    if (!ranks_open(&ranks, status_of, &elsewhere, &error) || !ranks) {
        if (elsewhere)
            return elsewhere;
        fprintf(stderr, "bench_reduction: %s\n",
                error ? error->message : "needs mpirun -n 2 or more");
        return 2;
    }
    struct reduction *reduction = reduction_new(ranks, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
        time_ordered(ranks, reduction, sizes[i]);
    reduction_free(reduction);
    ranks_close(ranks);
    return 0;
}

static void time_mpi(int rank, int ranks, uint64_t elements)
{
    g_autofree float *gradient = new_gradient(elements);
    g_autofree float *sum = g_new0(float, elements / (uint64_t)ranks + 1);
    double times[TRIES], time;
    for (int i = 0; i < TRIES; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = seconds_now();
        MPI_Reduce_scatter_block(gradient, sum, (int)(elements / (uint64_t)ranks), MPI_FLOAT,
                                 MPI_SUM, MPI_COMM_WORLD);
        time = seconds_now() - start;
        MPI_Reduce(&time, &times[i], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        print(elements, (uint32_t)ranks, times);
}

static int run_mpi(int *argc, char ***argv)
{
    int rank, ranks;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
        time_mpi(rank, ranks, sizes[i]);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "ordered") == 0)
        return run_ordered();
    if (argc == 2 && strcmp(argv[1], "mpi") == 0)
        return run_mpi(&argc, &argv);
    fprintf(stderr, "usage: mpirun -n RANKS bench_reduction ordered|mpi\n");
    return 2;
}
