/* NCCL without GPUs: a message is a file in a folder that the ranks of a host share. As NCCL's,
 * messages of a group are queued on the stream together, and those between two ranks are matched in
 * the order in which they were queued. */
#include "engine/cuda/nccl.h"
#include "fake_runtime.h"

#include <glib/gstdio.h>
#include <string.h>

struct ncclComm {
    char *folder;
    int rank, ranks;
    uint64_t *sent, *received; /* [ranks] */
};

struct message {
    bool sends;
    uint8_t *data;
    size_t bytes;
    char *file;
};

static struct {
    GArray *messages; /* of the open group */
    cudaStream_t stream;
} group;

static ncclResult_t get_unique_id(ncclUniqueId *id)
{
    g_autofree char *folder = g_strdup("/dev/shm/pstar-nccl-XXXXXX");
    if (!g_mkdtemp(folder)) { /* there is no memory for files */
        g_free(folder);
        folder = g_dir_make_tmp("pstar-nccl-XXXXXX", NULL);
    }
    g_assert_cmpuint(g_strlcpy(id->internal, folder, sizeof id->internal), <, sizeof id->internal);
    return ncclSuccess;
}

static ncclResult_t comm_init_rank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    *comm = g_new0(struct ncclComm, 1);
    **comm = (struct ncclComm){.folder = g_strdup(id.internal),
                               .rank = rank,
                               .ranks = ranks,
                               .sent = g_new0(uint64_t, ranks),
                               .received = g_new0(uint64_t, ranks)};
    return ncclSuccess;
}

/* The last rank finds the folder empty. */
static ncclResult_t comm_destroy(ncclComm_t comm)
{
    (void)g_rmdir(comm->folder);
    g_free(comm->folder);
    g_free(comm->sent);
    g_free(comm->received);
    g_free(comm);
    return ncclSuccess;
}

static ncclResult_t group_start(void)
{
    g_assert_null(group.messages);
    group.messages = g_array_new(FALSE, FALSE, sizeof(struct message));
    return ncclSuccess;
}

static void queue_message(cudaStream_t stream, ncclComm_t comm, int from, int to, uint64_t number,
                          const struct message *message)
{
    struct message queued = *message;
    g_assert_true(fake_is_kind(message->data, message->bytes, true));
    queued.file = g_strdup_printf("%s/%d-%d-%" G_GUINT64_FORMAT, comm->folder, from, to, number);
    g_assert_true(group.messages->len == 0 || group.stream == stream);
    group.stream = stream;
    g_array_append_val(group.messages, queued);
}

static ncclResult_t send_bytes(const void *from, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream)
{
    g_assert_cmpint(type, ==, ncclChar);
    g_assert_cmpint(peer, !=, comm->rank);
    queue_message(stream, comm, comm->rank, peer, comm->sent[peer]++,
                  &(struct message){.sends = true, .data = (uint8_t *)from, .bytes = count});
    return ncclSuccess;
}

static ncclResult_t receive_bytes(void *to, size_t count, ncclDataType_t type, int peer,
                                  ncclComm_t comm, cudaStream_t stream)
{
    g_assert_cmpint(type, ==, ncclChar);
    g_assert_cmpint(peer, !=, comm->rank);
    queue_message(stream, comm, peer, comm->rank, comm->received[peer]++,
                  &(struct message){.data = to, .bytes = count});
    return ncclSuccess;
}

/* The file is there when it is whole. */
static void write_message(const struct message *message)
{
    GError *error = NULL;
    g_file_set_contents(message->file, (const char *)message->data, (gssize)message->bytes, &error);
    g_assert_no_error(error);
}

static void read_message(const struct message *message)
{
    enum { LOOK_US = 200 };
    g_autofree char *bytes = NULL;
    gsize count = 0;
    while (!g_file_get_contents(message->file, &bytes, &count, NULL))
        g_usleep(LOOK_US);
    g_assert_cmpuint(count, ==, message->bytes);
    memcpy(message->data, bytes, count);
    g_unlink(message->file);
}

/* What is queued: an array of messages that ends with one without a file. */
static void run_group(void *data)
{
    struct message *messages = data;
    for (struct message *m = messages; m->file; m++)
        if (m->sends)
            write_message(m);
    for (struct message *m = messages; m->file; m++) {
        if (!m->sends)
            read_message(m);
        g_free(m->file);
    }
}

static ncclResult_t group_end(void)
{
    const struct message last = {.file = NULL};
    g_array_append_val(group.messages, last);
    bool empty = group.messages->len == 1;
    void *messages = g_array_free(group.messages, empty);
    group.messages = NULL;
    if (!empty)
        fake_cuda_launch(group.stream, run_group, messages);
    return ncclSuccess;
}

static const char *get_error_string(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "made to fail";
}

bool nccl_load(struct nccl *nccl, GError **error)
{
    (void)error;
    *nccl = (struct nccl){get_unique_id, comm_init_rank, comm_destroy,  group_start,
                          group_end,     send_bytes,     receive_bytes, get_error_string};
    return true;
}
