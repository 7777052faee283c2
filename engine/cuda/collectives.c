#include "engine/cuda/collectives.h"

#include "engine/cuda/nccl.h"

/* One rank's view of all ranks, for one stream. */
struct stream_ranks {
    struct ranks ranks; /* first: see view_of */
    struct cuda_collectives *collectives;
    cudaStream_t stream;
};

struct cuda_collectives {
    struct ranks *ranks; /* that found each other */
    struct cuda_failure *failure;
    struct nccl nccl;
    ncclComm_t comm;
    struct stream_ranks views[CUDA_COLLECTIVES_STREAMS];
    uint32_t view_count;
};

static struct stream_ranks *view_of(struct ranks *ranks)
{
    return (struct stream_ranks *)ranks;
}

static void note(struct cuda_collectives *c, ncclResult_t result, const char *call)
{
    if (result != ncclSuccess)
        cuda_failure_note_reason(c->failure, c->nccl.get_error_string(result), call);
}

/* ---- the functions of struct ranks_ops ---- */

/* Within a group, messages of a rank wait for none of its others. */
static void transfer(struct ranks *ranks, const struct ranks_message *sends, uint32_t send_count,
                     const struct ranks_message *receives, uint32_t receive_count)
{
    struct stream_ranks *view = view_of(ranks);
    struct cuda_collectives *c = view->collectives;
    note(c, c->nccl.group_start(), "ncclGroupStart");
    for (uint32_t i = 0; i < receive_count; i++) {
        const struct ranks_message *m = &receives[i];
        note(c, c->nccl.receive(m->data, m->bytes, ncclChar, (int)m->rank, c->comm, view->stream),
             "ncclRecv");
        c->ranks->received_bytes += m->bytes;
    }
    for (uint32_t i = 0; i < send_count; i++) {
        const struct ranks_message *m = &sends[i];
        note(c, c->nccl.send(m->data, m->bytes, ncclChar, (int)m->rank, c->comm, view->stream),
             "ncclSend");
        c->ranks->sent_bytes += m->bytes;
    }
    note(c, c->nccl.group_end(), "ncclGroupEnd");
}

static void copy(struct ranks *ranks, void *to, const void *from, uint64_t bytes)
{
    struct stream_ranks *view = view_of(ranks);
    if (bytes)
        CUDA_TRY(view->collectives->failure,
                 cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, view->stream));
}

static void fail(struct ranks *ranks, const char *message)
{
    struct ranks *of_host = view_of(ranks)->collectives->ranks;
    of_host->ops->fail(of_host, message);
}

static const struct ranks_ops stream_ops = {.transfer = transfer, .copy = copy, .fail = fail};

/* ---- opening ---- */

/* Gives every rank the first one's name of the group. */
static ncclUniqueId share_id(struct cuda_collectives *c)
{
    struct ranks *ranks = c->ranks;
    g_autofree ncclUniqueId *ids = g_new0(ncclUniqueId, ranks->count);
    if (ranks->rank == 0)
        note(c, c->nccl.get_unique_id(&ids[0]), "ncclGetUniqueId");
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *ids, ids);
    ranks_end(ranks);
    return ids[0];
}

struct cuda_collectives *cuda_collectives_open(struct ranks *ranks, struct cuda_failure *failure,
                                               GError **error)
{
    struct cuda_collectives *c = g_new0(struct cuda_collectives, 1);
    c->ranks = ranks;
    c->failure = failure;
    if (nccl_load(&c->nccl, error))
        return c;
    g_free(c);
    return NULL;
}

bool cuda_collectives_join(struct cuda_collectives *c, GError **error)
{
    ncclUniqueId id = share_id(c);
    note(c, c->nccl.comm_init_rank(&c->comm, (int)c->ranks->count, id, (int)c->ranks->rank),
         "ncclCommInitRank");
    return cuda_failure_check(c->failure, DEVICE_ERROR_WORK, error);
}

void cuda_collectives_close(struct cuda_collectives *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->view_count; i++)
        ranks_clear_turns(&c->views[i].ranks);
    if (c->comm)
        c->nccl.comm_destroy(c->comm);
    g_free(c);
}

struct ranks *cuda_collectives_on(struct cuda_collectives *c, cudaStream_t stream)
{
    g_assert(c->view_count < CUDA_COLLECTIVES_STREAMS);
    struct stream_ranks *view = &c->views[c->view_count++];
    *view = (struct stream_ranks){
        .ranks = {.ops = &stream_ops,
                  .rank = c->ranks->rank,
                  .count = c->ranks->count,
                  .node_rank = c->ranks->node_rank,
                  .node_count = c->ranks->node_count,
                  .hosts = c->ranks->hosts},
        .collectives = c,
        .stream = stream,
    };
    ranks_init_turns(&view->ranks);
    return &view->ranks;
}
