/* How ranks join each other, and how they leave. */
#include "engine/mpi/mpi_ranks.h"

enum { HOST_BYTES = 256 };

static bool refuse(struct mpi_ranks *mpi, const char *why)
{
    mpi->error = g_error_new_literal(RANKS_ERROR, RANKS_ERROR_ALONE, why);
    return false;
}

static void find_hosts(struct mpi_ranks *mpi)
{
    uint32_t count = mpi->ranks.count;
    char own[HOST_BYTES] = {0};
    g_autofree char *all = g_malloc0((size_t)count * HOST_BYTES);
    g_strlcpy(own, g_get_host_name(), sizeof own);
    MPI_Allgather(own, HOST_BYTES, MPI_CHAR, all, HOST_BYTES, MPI_CHAR, MPI_COMM_WORLD);
    mpi->ranks.hosts = g_new0(char *, count + 1);
    for (uint32_t r = 0; r < count; r++)
        mpi->ranks.hosts[r] = g_strdup(all + (size_t)r * HOST_BYTES);
}

static void find_node(struct mpi_ranks *mpi)
{
    const struct ranks_process own = ranks_process_own(mpi->ranks.rank);
    MPI_Comm node;
    int rank, count;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &count);
    g_autofree struct ranks_process *all = g_new0(struct ranks_process, count);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, node);
    MPI_Comm_free(&node);
    mpi->ends = ranks_ends_new(all, (uint32_t)count);
    mpi->ranks.node_rank = (uint32_t)rank;
    mpi->ranks.node_count = (uint32_t)count;
}

#ifdef OPEN_MPI
#define SRUN "srun --mpi=pmix"

/* Open MPI ends a process that srun started in another way, with a page of text. */
static bool is_offered_join(void)
{
    return g_getenv("PMIX_RANK") != NULL;
}
#else
#define SRUN "srun --mpi=pmi2"

static bool is_offered_join(void)
{
    return true;
}
#endif

static bool refuse_launcher(struct mpi_ranks *mpi)
{
    mpi->error = g_error_new(
        RANKS_ERROR, RANKS_ERROR_LAUNCH,
        "the launcher started %u processes, but MPI cannot join them: start them with "
        "the mpirun of the MPI that pstar-run was built with, or under Slurm with " SRUN,
        mpi->ranks.count);
    return false;
}

bool mpi_join(struct mpi_ranks *mpi)
{
    int provided, rank, count;
    if (!is_offered_join())
        return refuse_launcher(mpi);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return refuse(mpi, "MPI could not be initialised");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (provided < MPI_THREAD_FUNNELED)
        return refuse(mpi, "this MPI does not allow programs with threads");
    if ((uint32_t)count != mpi->ranks.count)
        return refuse_launcher(mpi);
    mpi->ranks.rank = (uint32_t)rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->life);
    mpi->beat = MPI_REQUEST_NULL;
    find_hosts(mpi);
    find_node(mpi);
    mpi->last_look = g_get_monotonic_time() / 1000;
    return true;
}

/* Receives what nobody needs any more: a pipeline that never drains has sent activations of a step
 * that it does not take. */
static void drop_arrived(struct mpi_ranks *mpi)
{
    int arrived, bytes;
    MPI_Status status;
    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi->data, &arrived, &status);
        if (!arrived)
            return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        g_autofree char *message = g_malloc((size_t)bytes);
        MPI_Recv(message, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, mpi->data,
                 MPI_STATUS_IGNORE);
    }
}

void mpi_leave(struct mpi_ranks *mpi)
{
    enum { LOOK_US = 50 };
    MPI_Request all = MPI_REQUEST_NULL;
    mpi_drop_early(mpi);
    for (int complete = 0; !complete; g_usleep(LOOK_US)) {
        mpi_stay_alive(mpi);
        drop_arrived(mpi);
        mpi_free_arrived(mpi);
        if (all == MPI_REQUEST_NULL && g_queue_is_empty(&mpi->posted))
            MPI_Ibarrier(mpi->data, &all);
        if (all != MPI_REQUEST_NULL)
            MPI_Test(&all, &complete, MPI_STATUS_IGNORE);
    }
    if (mpi->beat != MPI_REQUEST_NULL)
        MPI_Request_free(&mpi->beat);
}
