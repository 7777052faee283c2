#include "engine/train/training_save.h"

#include "base/failure.h"
#include "engine/train/snapshot.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

enum stage {
    IDLE,
    WRITING,   /* each writer's thread writes its part */
    COMPLETING /* several ranks: the first one's thread makes a checkpoint of the parts */
};

/* How this process saves: as one of the writers, or only by answering them. */
struct training_saver {
    struct checkpoint_folder folder;
    bool writes;
    struct weights_writer writer;
    uint32_t keep;
    bool alone;                /* one rank: its thread does all */
    bool is_behind;            /* else training waits while a checkpoint is written */
    struct snapshot *snapshot; /* if this process writes behind the training */

    /* The checkpoint that is being written. The thread owns the last two until it has ended. */
    enum stage stage;
    struct checkpoint_state state; /* a copy */
    struct weights_store store;    /* of the snapshot, if it was taken */
    struct checkpoint_content content;
    GThread *thread; /* NULL if this process has nothing to do */
    atomic_bool ended;
    GError *error;
};

/* ---- opening ---- */

/* Returns a number that the first rank draws. */
static uint64_t draw_together(struct ranks *ranks)
{
    g_autofree uint64_t *numbers = g_new0(uint64_t, ranks->count);
    numbers[ranks->rank] = (uint64_t)g_random_int() << 32 | g_random_int();
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *numbers, numbers);
    ranks_end(ranks);
    return numbers[0];
}

/* The first rank writes, and every rank that sees its folder. */
static void find_part(struct training_saver *saver, struct ranks *ranks, const char *path,
                      uint64_t signature)
{
    g_autofree uint8_t *writes = g_new0(uint8_t, ranks->count);
    writes[ranks->rank] = ranks->rank == 0 || checkpoint_folder_is_signed(path, signature);
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *writes, writes);
    ranks_end(ranks);
    saver->writes = writes[ranks->rank];
    saver->writer = (struct weights_writer){0};
    for (uint32_t r = 0; r < ranks->count; r++) {
        saver->writer.index += r < ranks->rank && writes[r];
        saver->writer.count += writes[r];
    }
}

static bool open_together(struct training_saver *saver, struct ranks *ranks, const char *path,
                          GError **error)
{
    uint64_t signature = draw_together(ranks);
    if (ranks->rank == 0 && checkpoint_folder_open(&saver->folder, path, error))
        checkpoint_folder_sign(path, signature, error);
    if (!ranks_share_error(ranks, error))
        return false;
    find_part(saver, ranks, path, signature);
    if (ranks->rank == 0)
        checkpoint_folder_unsign(path, signature);
    else if (saver->writes)
        checkpoint_folder_join(&saver->folder, path, error);
    return ranks_share_error(ranks, error);
}

/* The plan has room for equal parts. Where some ranks write for others, these are larger. */
static bool take_snapshot_memory(struct training *training, GError **error)
{
    struct training_saver *saver = training->saver;
    const struct trace *trace = training_trace(training);
    bool delay = training->options->delay;
    if (!saver->writes)
        return true;
    if (training->options->host_budget != RUN_UNLIMITED &&
        snapshot_bytes(trace, delay, saver->writer) > training->run->snapshot_bytes) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOMEM,
                    "--host-memory has no room for the parts of other hosts");
        return false;
    }
    const struct ranks *ranks = training->options->ranks;
    saver->snapshot = snapshot_new(trace, delay, saver->writer, ranks ? ranks->node_count : 1,
                                   error);
    return saver->snapshot != NULL;
}

/* All ranks have a snapshot, or none has. */
static void find_snapshot(struct training *training, char **waits)
{
    g_autoptr(GError) error = NULL;
    if (!training->run->snapshot_bytes)
        return;
    bool taken = take_snapshot_memory(training, &error);
    if (training->options->ranks)
        taken = ranks_share_error(training->options->ranks, &error);
    training->saver->is_behind = taken;
    if (taken)
        return;
    g_clear_pointer(&training->saver->snapshot, snapshot_free);
    *waits = g_strdup_printf("%s; training waits while a checkpoint is written", error->message);
}

bool training_save_open(struct training *training, char **waits, GError **error)
{
    const struct run_options *options = training->options;
    *waits = NULL;
    if (!options->save)
        return true;
    struct training_saver *saver = training->saver = g_new0(struct training_saver, 1);
    *saver = (struct training_saver){.writes = true,
                                     .writer = {.index = 0, .count = 1},
                                     .keep = options->keep,
                                     .alone = !options->ranks};
    bool opened = options->ranks ? open_together(saver, options->ranks, options->save, error)
                                 : checkpoint_folder_open(&saver->folder, options->save, error);
    if (opened)
        find_snapshot(training, waits);
    else
        failure_mark(error, FAILURE_RUNNING);
    return opened;
}

static void join(struct training_saver *saver)
{
    g_clear_pointer(&saver->thread, g_thread_join);
}

void training_save_close(struct training *training)
{
    struct training_saver *saver = training->saver;
    if (!saver)
        return;
    join(saver);
    g_clear_error(&saver->error);
    checkpoint_state_clear(&saver->state);
    snapshot_free(saver->snapshot);
    checkpoint_folder_clear(&saver->folder);
    g_clear_pointer(&training->saver, g_free);
}

/* ---- parts ---- */

static bool write_part(const struct training_saver *saver, const struct checkpoint_content *content,
                       GError **error)
{
    g_autofree char *partial = checkpoint_folder_begin(&saver->folder, content->state->step,
                                                       saver->writer.index == 0, error);
    return partial && checkpoint_write(partial, content, saver->writer, error);
}

/* Makes a checkpoint of the parts if they are well, or removes them. */
static bool complete_parts(struct training_saver *saver, const struct checkpoint_content *content,
                           bool well, GError **error)
{
    bool complete = well && checkpoint_complete(&saver->folder, content, saver->writer.count,
                                                saver->keep, error);
    if (!complete)
        checkpoint_folder_abandon(&saver->folder, content->state->step);
    return complete;
}

/* ---- while training waits ---- */

/* Whatever happens to a rank, it answers the others, so that they come to an end, too. */
static bool write_together(struct training *training, const struct checkpoint_content *content,
                           GError **error)
{
    engine_share_begin(training->engine);
    bool written = !training->saver->writes || write_part(training->saver, content, error);
    written &= engine_share_end(training->engine, written ? error : NULL);
    return training->options->ranks ? ranks_share_error(training->options->ranks, error) : written;
}

static struct checkpoint_content content_of(const struct training *training,
                                            const struct checkpoint_state *state,
                                            const struct weights_store *store)
{
    return (struct checkpoint_content){.state = state,
                                       .config = training->run->config,
                                       .trace = training_trace(training),
                                       .store = store,
                                       .form = &training->form};
}

bool training_save(struct training *training, GError **error)
{
    const struct weights_store store = engine_store(training->engine);
    const struct checkpoint_content content = content_of(training, &training->state, &store);
    struct ranks *ranks = training->options->ranks;
    g_assert(training->saver->stage == IDLE);
    engine_flush(training->engine);
    bool written = write_together(training, &content, error), complete = written;
    if (training_is_first(training->options))
        complete = complete_parts(training->saver, &content, written, error);
    return written && ranks ? ranks_share_error(ranks, error) : complete;
}

/* ---- behind the training ---- */

/* Lets the operators' threads go first. */
static void give_way(void)
{
    enum { NICE = 10 };
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

static void *write_behind(void *data)
{
    struct training_saver *saver = data;
    give_way();
    bool written = write_part(saver, &saver->content, &saver->error);
    if (saver->alone)
        complete_parts(saver, &saver->content, written, &saver->error);
    atomic_store(&saver->ended, true);
    return NULL;
}

static void *complete_behind(void *data)
{
    struct training_saver *saver = data;
    give_way();
    complete_parts(saver, &saver->content, !saver->error, &saver->error);
    atomic_store(&saver->ended, true);
    return NULL;
}

/* Without a thread the work is done at once. */
static void start(struct training_saver *saver, GThreadFunc work)
{
    atomic_store(&saver->ended, false);
    saver->thread = g_thread_try_new("checkpoint", work, saver, NULL);
    if (!saver->thread)
        work(saver);
}

bool training_save_is_behind(const struct training *training)
{
    return training->saver && training->saver->is_behind;
}

bool training_save_begin(struct training *training)
{
    struct training_saver *saver = training->saver;
    const struct weights_store store = engine_store(training->engine);
    g_assert(saver->is_behind);
    if (saver->stage != IDLE)
        return false;
    engine_flush(training->engine);
    engine_share_begin(training->engine);
    bool taken = !saver->snapshot || snapshot_take(saver->snapshot, &store, &saver->error);
    taken &= engine_share_end(training->engine, taken ? &saver->error : NULL);
    checkpoint_state_clear(&saver->state);
    saver->state = checkpoint_state_copy(&training->state);
    saver->content = content_of(training, &saver->state, &saver->store);
    saver->stage = WRITING;
    atomic_store(&saver->ended, true);
    if (saver->snapshot && taken) {
        saver->store = snapshot_store(saver->snapshot);
        start(saver, write_behind);
    }
    return true;
}

/* Returns whether all ranks' threads have ended. */
static bool all_ended(struct training_saver *saver, struct ranks *ranks)
{
    bool ended = atomic_load(&saver->ended);
    if (!ranks)
        return ended;
    g_autofree uint8_t *each = g_new0(uint8_t, ranks->count);
    each[ranks->rank] = ended;
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *each, each);
    ranks_end(ranks);
    for (uint32_t r = 0; r < ranks->count; r++)
        ended = ended && each[r];
    return ended;
}

/* The first rank completes the parts, or removes them, also if its own could not be taken. An error
 * that all know stays with it. */
static void begin_completing(struct training *training)
{
    struct training_saver *saver = training->saver;
    ranks_share_error(training->options->ranks, &saver->error);
    saver->stage = COMPLETING;
    if (training_is_first(training->options))
        start(saver, complete_behind);
}

enum save_news training_save_poll(struct training *training, uint64_t *step, GError **error)
{
    struct training_saver *saver = training->saver;
    struct ranks *ranks = training->options->ranks;
    if (!saver || saver->stage == IDLE || !all_ended(saver, ranks))
        return SAVE_NO_NEWS;
    join(saver);
    if (saver->stage == WRITING && !saver->alone) {
        begin_completing(training);
        return SAVE_NO_NEWS;
    }
    if (ranks)
        ranks_share_error(ranks, &saver->error);
    saver->stage = IDLE;
    *step = saver->state.step;
    if (!saver->error)
        return SAVE_SUCCEEDED;
    g_propagate_error(error, g_steal_pointer(&saver->error));
    return SAVE_FAILED;
}

enum save_news training_save_settle(struct training *training, uint64_t *step, GError **error)
{
    enum save_news news = SAVE_NO_NEWS;
    while (training->saver && training->saver->stage != IDLE) {
        join(training->saver);
        news = training_save_poll(training, step, error);
    }
    return news;
}
