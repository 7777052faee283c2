#include "engine/train/checkpoint_folder.h"
#include "engine/train/training.h"

/* ---- several ranks ---- */

/* How a rank takes part in a save: as one of the writers, or only by answering them. */
struct save_part {
    bool writes;
    struct weights_writer writer;
};

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
static struct save_part find_part(struct ranks *ranks, const char *folder, uint64_t signature)
{
    g_autofree uint8_t *writes = g_new0(uint8_t, ranks->count);
    struct save_part part = {0};
    writes[ranks->rank] = ranks->rank == 0 || checkpoint_folder_is_signed(folder, signature);
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *writes, writes);
    ranks_end(ranks);
    part.writes = writes[ranks->rank];
    for (uint32_t r = 0; r < ranks->count; r++) {
        part.writer.index += r < ranks->rank && writes[r];
        part.writer.count += writes[r];
    }
    return part;
}

/* The first rank makes the folder of the new files. Fails on all ranks if it cannot. */
static bool begin(struct ranks *ranks, const char *folder, uint64_t signature, GError **error)
{
    if (ranks->rank == 0) {
        g_autofree char *fresh = checkpoint_begin(folder, error);
        if (fresh && !checkpoint_folder_sign(folder, signature, error))
            checkpoint_folder_abandon(folder);
    }
    return ranks_share_error(ranks, error);
}

/* Whatever happens to a rank, it answers the others, so that they come to an end, too. */
static bool write_part(struct engine *engine, struct ranks *ranks, const char *folder,
                       const struct checkpoint_content *content, const struct save_part *part,
                       GError **error)
{
    g_autofree char *fresh = checkpoint_folder_fresh(folder);
    engine_share_begin(engine);
    if (part->writes)
        checkpoint_write(fresh, content, part->writer, error);
    engine_share_end(engine);
    return ranks_share_error(ranks, error);
}

/* The first rank replaces the old checkpoint when all new files are there. */
static bool end(struct ranks *ranks, const char *folder, const struct checkpoint_content *content,
                const struct save_part *part, bool written, GError **error)
{
    if (ranks->rank == 0)
        checkpoint_end(folder, content, part->writer.count, written, error);
    return written && ranks_share_error(ranks, error);
}

static bool save_together(struct engine *engine, struct ranks *ranks, const char *folder,
                          const struct checkpoint_content *content, GError **error)
{
    uint64_t signature = draw_together(ranks);
    if (!begin(ranks, folder, signature, error))
        return false;
    const struct save_part part = find_part(ranks, folder, signature);
    if (ranks->rank == 0)
        checkpoint_folder_unsign(folder, signature);
    bool written = write_part(engine, ranks, folder, content, &part, error);
    return end(ranks, folder, content, &part, written, error);
}

/* ---- all runs ---- */

bool training_save(struct training *training, GError **error)
{
    const struct run_options *options = training->options;
    const struct weights_store store = engine_store(training->engine);
    const struct checkpoint_content content = {.state = &training->state,
                                               .config = training->run->config,
                                               .trace = training_trace(training),
                                               .store = &store,
                                               .form = &training->form};
    engine_flush(training->engine);
    return options->ranks
               ? save_together(training->engine, options->ranks, options->save, &content, error)
               : checkpoint_save(options->save, &content, error);
}
