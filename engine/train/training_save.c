#include "engine/train/training_save.h"

/* How this process saves: as one of the writers, or only by answering them. */
struct training_saver {
    struct checkpoint_folder folder;
    bool writes;
    struct weights_writer writer;
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

bool training_save_open(struct training *training, GError **error)
{
    const struct run_options *options = training->options;
    if (!options->save)
        return true;
    struct training_saver *saver = training->saver = g_new0(struct training_saver, 1);
    *saver = (struct training_saver){.writes = true, .writer = {.index = 0, .count = 1}};
    return options->ranks ? open_together(saver, options->ranks, options->save, error)
                          : checkpoint_folder_open(&saver->folder, options->save, error);
}

void training_save_close(struct training *training)
{
    if (!training->saver)
        return;
    checkpoint_folder_clear(&training->saver->folder);
    g_clear_pointer(&training->saver, g_free);
}

/* ---- saving ---- */

static bool write_part(const struct training_saver *saver, const struct checkpoint_content *content,
                       GError **error)
{
    g_autofree char *partial = checkpoint_folder_begin(&saver->folder, content->state->step,
                                                       saver->writer.index == 0, error);
    return partial && checkpoint_write(partial, content, saver->writer, error);
}

/* Whatever happens to a rank, it answers the others, so that they come to an end, too. */
static bool write_together(struct training *training, const struct checkpoint_content *content,
                           GError **error)
{
    engine_share_begin(training->engine);
    bool written = !training->saver->writes || write_part(training->saver, content, error);
    engine_share_end(training->engine);
    return training->options->ranks ? ranks_share_error(training->options->ranks, error) : written;
}

/* The first rank makes a checkpoint of what all have written. */
static bool complete(struct training *training, const struct checkpoint_content *content,
                     bool written, GError **error)
{
    struct training_saver *saver = training->saver;
    bool complete = written;
    if (training_is_first(training->options)) {
        complete = written && checkpoint_complete(&saver->folder, content, saver->writer.count,
                                                  training->options->keep, error);
        if (!complete)
            checkpoint_folder_abandon(&saver->folder, content->state->step);
    }
    return written && training->options->ranks ? ranks_share_error(training->options->ranks, error)
                                               : complete;
}

bool training_save(struct training *training, GError **error)
{
    const struct weights_store store = engine_store(training->engine);
    const struct checkpoint_content content = {.state = &training->state,
                                               .config = training->run->config,
                                               .trace = training_trace(training),
                                               .store = &store,
                                               .form = &training->form};
    engine_flush(training->engine);
    return complete(training, &content, write_together(training, &content, error), error);
}
