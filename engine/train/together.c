#include "engine/train/together.h"

#include "engine/ranks_part.h"
#include "models/pipeline.h"
#include "models/rank_traffic.h"
#include "traces/size.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

/* ---- beginning ---- */

static bool is_first(const struct run_options *options)
{
    return !options->ranks || options->ranks->rank == 0;
}

static bool complete(struct run_options *options, GError **error)
{
    if (!run_options_complete(options, error))
        return false;
    if (options->ranks && options->host_budget != RUN_UNLIMITED)
        options->host_budget /= options->ranks->node_count;
    if (options->ranks && options->nvme_budget != RUN_UNLIMITED)
        options->nvme_budget /= options->ranks->node_count;
    return true;
}

/* The ranks of a stage follow each other, so that they are near each other. */
static void find_places(struct run_options *options)
{
    struct ranks *all = options->ranks;
    options->peers = all;
    if (!run_is_pipeline(options))
        return;
    uint32_t width = all->count / options->stages, of_stage = all->rank % width;
    options->peers = width == 1 ? NULL : ranks_part_new(all, all->rank - of_stage, 1, width);
    options->pipeline = ranks_part_new(all, of_stage, width, options->stages);
}

/* Ranks that do different things, or are of different versions, would exchange different messages,
 * so they say what they do in the first; those that measure do so, too (engine/probe/probe.c). Free
 * with g_free. */
static char *what_for(const struct run_options *options)
{
    return g_strdup_printf("work: %s\nversion: %s\n", options->dry_run ? "a dry run" : "training",
                           options->version);
}

bool together_begin(struct run_options *options, ranks_status_of *status_of, int *elsewhere,
                    GError **error)
{
    if (!ranks_open(&options->ranks, status_of, elsewhere, error))
        return false;
    if (!options->ranks)
        return run_options_complete(options, error);
    ranks_share_cores(options->ranks);
    g_autofree char *what = what_for(options);
    if (is_first(options))
        complete(options, error);
    if (!ranks_agree(options->ranks, what, status_of, elsewhere, error))
        return false;
    if (!is_first(options))
        complete(options, error);
    if (!ranks_agree(options->ranks, "", status_of, elsewhere, error))
        return false;
    find_places(options);
    return true;
}

void together_end(struct run_options *options)
{
    if (run_is_pipeline(options)) {
        ranks_part_free(options->peers);
        ranks_part_free(options->pipeline);
    }
    ranks_close(options->ranks);
    options->ranks = options->peers = options->pipeline = NULL;
}

void together_trace(const struct run_options *options, struct model_iteration *iteration)
{
    if (options->peers)
        rank_traffic_set(iteration, options->peers->rank);
}

/* ---- the disk of files in NVMe ---- */

/* A rank's file, and the disk on which it will lie. */
struct disk_file {
    uint64_t disk, bytes;
};

/* What the files of this host's ranks take of this rank's disk. */
struct disk_use {
    uint64_t bytes;
    uint32_t files;
};

static struct disk_use share_disk(struct ranks *ranks, const struct disk_file *own)
{
    struct disk_use use = {0};
    g_autofree struct disk_file *files = g_new0(struct disk_file, ranks->count);
    files[ranks->rank] = *own;
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *files, files);
    ranks_end(ranks);
    for (uint32_t r = 0; r < ranks->count; r++)
        if (files[r].bytes && files[r].disk == own->disk &&
            strcmp(ranks->hosts[r], ranks->hosts[ranks->rank]) == 0) {
            use.bytes += files[r].bytes;
            use.files++;
        }
    return use;
}

/* A folder that cannot be looked at is refused when the file is created. Some file systems do not
 * say how large they are. */
bool together_check_disk(const struct run_options *options, const struct run_plan *run,
                         GError **error)
{
    struct disk_file own = {0};
    struct stat folder;
    struct statvfs disk = {0};
    if (!options->ranks)
        return true;
    if (options->nvme && !options->dry_run && stat(options->nvme, &folder) == 0 &&
        statvfs(options->nvme, &disk) == 0)
        own = (struct disk_file){folder.st_dev, run->plan->nvme_bytes};
    const struct disk_use use = share_disk(options->ranks, &own);
    uint64_t there = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (!own.bytes || !disk.f_blocks || use.bytes <= there)
        return true;
    g_autofree char *size = size_format(use.bytes), *room = size_format(there);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "--nvme %s: the files of %u rank%s on this disk take %s together, and %s are free",
                options->nvme, use.files, use.files == 1 ? "" : "s", size, room);
    return false;
}

/* ---- descriptions ---- */

static void add_numbers(GChecksum *sum, const uint64_t *numbers, uint64_t count)
{
    g_checksum_update(sum, (const guchar *)numbers, (gssize)(count * sizeof *numbers));
}

static void add_layout(GChecksum *sum, const struct layout *layout)
{
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        const uint64_t chunk[] = {layout->chunks[c].list, layout->chunks[c].slot_bytes,
                                  layout->chunks[c].copy_bytes};
        add_numbers(sum, chunk, G_N_ELEMENTS(chunk));
    }
    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t i = 0; layout->places[list] && i < layout_place_count(layout, list); i++) {
            const uint64_t place[] = {layout->places[list][i].chunk,
                                      layout->places[list][i].offset};
            add_numbers(sum, place, G_N_ELEMENTS(place));
        }
}

char *together_plan_digest(const struct plan *plan)
{
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    add_layout(sum, plan->layout);
    add_numbers(sum, plan->host_address, plan->layout->chunk_count);
    add_numbers(sum, plan->initial_address, plan->layout->chunk_count);
    for (uint32_t m = 0; m < plan->moment_count; m++)
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            const uint64_t action[] = {m, plan->actions[i].kind, plan->actions[i].chunk,
                                       plan->actions[i].address};
            add_numbers(sum, action, G_N_ELEMENTS(action));
        }
    char *digest = g_strdup(g_checksum_get_string(sum));
    g_checksum_free(sum);
    return digest;
}

/* A multiplication for each 8 bytes: fast, and enough against accidents. */
static uint64_t mix(uint64_t hash, const float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool read_through(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                         uint64_t count, float *values, GError **error)
{
    const struct weights_hash *hash = self;
    return hash->store.read(hash->store.self, tensor, list, first, count, values, error);
}

static bool write_through(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                          uint64_t count, const float *values, GError **error)
{
    struct weights_hash *hash = self;
    hash->hash = mix(hash->hash, values, count);
    return hash->store.write(hash->store.self, tensor, list, first, count, values, error);
}

struct weights_store together_hash(struct weights_hash *hash)
{
    return (struct weights_store){.self = hash, .read = read_through, .write = write_through};
}

static void describe_state(GString *text, const struct checkpoint_state *state)
{
    g_string_append_printf(text, "data: %s\nheld-out share: %g\norder of the data: %s\n",
                           state->data_digest, state->held_out, state->data_order);
    g_string_append_printf(text, "seed: %" G_GUINT64_FORMAT "\nsteps done: %" G_GUINT64_FORMAT "\n",
                           state->seed, state->step);
    g_string_append_printf(text,
                           "learning rates: %.17g to %.17g, %" G_GUINT64_FORMAT
                           " steps of warm-up, %" G_GUINT64_FORMAT " in all\n",
                           state->schedule.peak, state->schedule.floor, state->schedule.warm_up,
                           state->schedule.steps);
    g_string_append_printf(
        text, "optimizer: betas %.17g %.17g, epsilon %.17g, decay %.17g, clip %.17g\ndelay: %u\n",
        state->beta1, state->beta2, state->epsilon, state->weight_decay, state->clip, state->delay);
}

static void describe_options(GString *text, const struct run_options *o)
{
    g_string_append_printf(text, "steps: %" G_GUINT64_FORMAT "\n", o->steps);
    g_string_append_printf(text,
                           "evaluations: every %" G_GUINT64_FORMAT " steps\nsaves: every "
                           "%" G_GUINT64_FORMAT " steps to %s%s\n",
                           o->eval_every, o->save_every, o->save ? o->save : "nowhere",
                           o->save_wait ? ", waiting" : "");
    g_string_append_printf(text, "samples: %u tokens\n", o->sample);
}

char *together_describe(const struct run_options *options, const struct run_plan *run,
                        const struct checkpoint_state *state, const struct weights_hash *weights)
{
    const struct trace *trace = pipeline_whole(run->iteration)->trace;
    g_autofree char *digest = trace_digest(trace), *plan = together_plan_digest(run->plan);
    GString *text = g_string_new(NULL);
    describe_options(text, options);
    g_string_append_printf(text, "model: %s\nprecision: %s\n", run->config->name, trace->precision);
    g_string_append_printf(text, "batch: %u\nsequence: %u\nmicro-batches: %u\n", trace->batch,
                           trace->sequence, trace->micro_batches);
    if (state)
        describe_state(text, state);
    g_string_append_printf(text, "structure of the step: %s\n", digest);
    if (run_is_pipeline(options)) /* each stage has another plan */
        g_string_append_printf(text,
                               "stages: %u\nparts of each: %u\nschedule: %s\n"
                               "layers of the stages: %s\n",
                               options->stages, options->stage_parts,
                               pipeline_schedule_name((enum pipeline_schedule)options->schedule),
                               options->stage_layers ? options->stage_layers : "equal");
    else
        g_string_append_printf(text, "plan: %s\n", plan);
    if (weights)
        g_string_append_printf(text, "weights: %016" G_GINT64_MODIFIER "x\n", weights->hash);
    return g_string_free(text, FALSE);
}
