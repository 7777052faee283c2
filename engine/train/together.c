#include "engine/train/together.h"

#include "base/size.h"
#include "chunks/lack.h"
#include "engine/ranks_part.h"
#include "models/pipeline.h"
#include "models/rank_traffic.h"

#include <jansson.h>
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

/* Says into which stages the processes form, which decides who exchanges with whom. */
static char *places_of(const struct run_options *o)
{
    return g_strdup_printf("--stages: %u\n--stage-layers: %s\n--schedule: %s\n--stage-parts: %u\n",
                           MAX(o->stages, 1), o->stage_layers ? o->stage_layers : "equal",
                           pipeline_schedule_name((enum pipeline_schedule)o->schedule),
                           o->stage_parts);
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
    g_autofree char *places = places_of(options);
    if (!ranks_agree(options->ranks, places, status_of, elsewhere, error))
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

/* ---- what fits all ranks ---- */

/* How a rank fares. */
struct fare {
    int32_t status; /* 0, or the exit status of its error */
    struct plan_lack lack;
};

/* Returns what the option would have to say, of whose bytes each rank of a host gets a part. */
static struct plan_lack lack_of_option(const struct ranks *ranks, const GError *error)
{
    const struct plan_lack *own = plan_lack_of(error);
    struct plan_lack lack = own ? *own : (struct plan_lack){0};
    if (lack.memory == PLAN_MEMORY_HOST || lack.memory == PLAN_MEMORY_NVME)
        lack.bytes *= ranks->node_count;
    return lack;
}

/* Returns how each rank fares; free with g_free. */
static struct fare *share_fares(struct ranks *ranks, int status, const GError *error)
{
    struct fare *fares = g_new0(struct fare, ranks->count);
    fares[ranks->rank].status = status;
    fares[ranks->rank].lack = lack_of_option(ranks, error);
    ranks_begin(ranks, ranks_issue(ranks));
    ranks_share(ranks, sizeof *fares, fares);
    ranks_end(ranks);
    return fares;
}

/* Returns the rank that reports: the lowest that fares badly or, if it lacks memory, the one that
 * lacks the most of it. Returns the number of ranks if all fare well. */
static uint32_t find_reporter(const struct fare *fares, uint32_t count)
{
    uint32_t reporter = 0;
    while (reporter < count && !fares[reporter].status)
        reporter++;
    for (uint32_t r = reporter; r < count; r++)
        if (fares[r].lack.memory == fares[reporter].lack.memory &&
            fares[r].lack.bytes > fares[reporter].lack.bytes)
            reporter = r;
    return reporter;
}

/* With more host memory a rank may need more device memory than it has, as may other ranks. */
static uint64_t device_bytes_beside(const struct fare *fares, uint32_t count)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < count; r++)
        most = MAX(most, fares[r].lack.memory == PLAN_MEMORY_DEVICE ? fares[r].lack.bytes
                                                                    : fares[r].lack.device_bytes);
    return most;
}

/* Lets the error begin with the stage that lacks memory. */
static void say_which_stage(const struct run_options *options, GError *error)
{
    g_autofree char *said = error->message;
    uint32_t width = options->ranks->count / options->stages;
    error->message = g_strdup_printf("stage %u of %u: %s", options->ranks->rank / width,
                                     options->stages, said);
}

/* Lets the error of the rank that reports say what fits all. */
static void say_what_fits(const struct run_options *options, const struct fare *fares,
                          GError *error)
{
    const struct ranks *ranks = options->ranks;
    struct plan_lack lack = fares[ranks->rank].lack;
    bool divided = lack.memory == PLAN_MEMORY_HOST || lack.memory == PLAN_MEMORY_NVME;
    if (lack.memory == PLAN_MEMORY_HOST)
        lack.device_bytes = device_bytes_beside(fares, ranks->count);
    if (lack.memory != PLAN_MEMORY_NONE)
        plan_lack_replace(error, &lack);
    if (lack.memory != PLAN_MEMORY_NONE && options->stages > 1)
        say_which_stage(options, error);
    if (!divided || ranks->node_count == 1)
        return;
    g_autofree char *said = error->message;
    error->message = g_strdup_printf("%s. The %u ranks of this host divide %s: what would fit is "
                                     "for all of them, and the other figures are of one",
                                     said, ranks->node_count,
                                     lack.memory == PLAN_MEMORY_HOST ? "--host-memory"
                                                                     : "--nvme-memory");
}

bool together_agree_that_fits(const struct run_options *options, ranks_status_of *status_of,
                              int *elsewhere, GError **error)
{
    struct ranks *ranks = options->ranks;
    *elsewhere = 0;
    if (!ranks)
        return !*error;
    g_autofree struct fare *fares = share_fares(ranks, *error ? status_of(*error) : 0, *error);
    uint32_t reporter = find_reporter(fares, ranks->count);
    if (reporter == ranks->count)
        return true;
    if (reporter == ranks->rank) {
        say_what_fits(options, fares, *error);
    } else {
        *elsewhere = fares[reporter].status;
        g_clear_error(error);
    }
    return false;
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

/* A value is one line. */
static void describe_text(GString *text, const char *subject, const char *value)
{
    g_autofree char *line = g_strdelimit(g_strdup(value ? value : "none"), "\n", ' ');
    g_string_append_printf(text, "%s: %s\n", subject, line);
}

static void describe_number(GString *text, const char *subject, uint64_t number)
{
    g_string_append_printf(text, "%s: %" G_GUINT64_FORMAT "\n", subject, number);
}

/* Prefers the digits that people write. */
static void describe_real(GString *text, const char *subject, double number)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(digits, sizeof digits, "%.15g", number);
    if (g_ascii_strtod(digits, NULL) != number)
        g_ascii_dtostr(digits, sizeof digits, number);
    describe_text(text, subject, digits);
}

static void describe_flag(GString *text, const char *subject, bool flag)
{
    describe_text(text, subject, flag ? "yes" : "no");
}

static void describe_size(GString *text, const char *subject, uint64_t bytes)
{
    g_autofree char *size = bytes == RUN_UNLIMITED ? NULL : size_exact(bytes);
    describe_text(text, subject, size);
}

static void describe_layers(GString *text, const char *subject, const uint8_t *marks,
                            uint32_t count)
{
    g_autofree char *layers = run_layers_format(marks, count);
    describe_text(text, subject, layers);
}

static void describe_state(GString *text, const struct checkpoint_state *state)
{
    describe_text(text, "data", state->data_digest);
    describe_number(text, "steps done", state->step);
    describe_number(text, "--seed", state->seed);
    describe_number(text, "--delay", state->delay);
    describe_real(text, "--held-out", state->held_out);
    describe_text(text, "--data-order", state->data_order);
    describe_real(text, "--lr", state->schedule.peak);
    describe_real(text, "--min-lr", state->schedule.floor);
    describe_number(text, "--schedule-steps", state->schedule.steps); /* limits the warm-up's */
    describe_number(text, "--warmup-steps", state->schedule.warm_up);
    describe_real(text, "--beta1", state->beta1);
    describe_real(text, "--beta2", state->beta2);
    describe_real(text, "--epsilon", state->epsilon);
    describe_real(text, "--weight-decay", state->weight_decay);
    describe_real(text, "--clip", state->clip);
}

static void describe_options(GString *text, const struct run_options *o)
{
    describe_number(text, "--steps", o->steps);
    describe_number(text, "--eval-every", o->eval_every);
    describe_number(text, "--save-every", o->save_every);
    describe_text(text, "--save", o->save);
    describe_flag(text, "--save-wait", o->save_wait);
    describe_number(text, "--sample", o->sample);
    describe_text(text, "--prompt", o->prompt);
    describe_flag(text, "--merge", o->merge != NULL);
}

/* ---- what explains a digest ---- */

static void explain_chunks(GString *text, const struct run_options *o)
{
    g_autoptr(GString) sizes = g_string_new(NULL);
    for (int list = 0; list < TRACE_LISTS; list++) {
        g_autofree char *size = size_exact(o->chunk_sizes.of_list[list]);
        if (o->chunk_sizes.of_list[list])
            g_string_append_printf(sizes, "%s=%s,", trace_list_name(list), size);
    }
    g_autofree char *others = size_exact(o->chunk_sizes.others);
    if (o->chunk_sizes.others)
        g_string_append(sizes, others);
    else if (sizes->len)
        g_string_truncate(sizes, sizes->len - 1);
    describe_text(text, RANKS_EXPLAINS "--chunk-size", o->sized ? sizes->str : NULL);
}

/* Names the choices that a step's structure follows from, whether an option or a plan made them. */
static void explain_structure(GString *text, const struct run_options *o,
                              const struct model_job *job)
{
    const struct run_choices *choices = &job->choices;
    describe_text(text, RANKS_EXPLAINS "--plan", o->plan);
    describe_number(text, RANKS_EXPLAINS "--stage", choices->stage);
    describe_text(text, RANKS_EXPLAINS "--reduction", choices->fast ? "fast" : "exact");
    describe_text(text, RANKS_EXPLAINS "--train", o->train);
    describe_layers(text, RANKS_EXPLAINS "--recompute", choices->recompute, choices->layer_count);
    describe_layers(text, RANKS_EXPLAINS "--offload-activations", choices->offload,
                    choices->layer_count);
    describe_flag(text, RANKS_EXPLAINS "--host-update", o->host_update);
    describe_flag(text, RANKS_EXPLAINS "--host-embedding", choices->host_embedding);
    describe_number(text, RANKS_EXPLAINS "--bytes-per-parameter", model_bytes_per_parameter(job));
    describe_number(text, RANKS_EXPLAINS "--state-block", choices->state_block);
}

static gint compare_lines(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Much of config.json, such as dropout, is not seen in the structure of a step. Its keys explain
 * its digest, whatever their order and the spaces between them. */
static void describe_model(GString *text, const struct run_options *o,
                           const struct model_config *config)
{
    const char *key;
    json_t *value, *all = json_loads(config->file, 0, NULL);
    g_autofree char *sorted = json_dumps(all, JSON_SORT_KEYS | JSON_COMPACT);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, sorted, -1);
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
    json_object_foreach (all, key, value) {
        g_autofree char *is = json_dumps(value, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
        g_ptr_array_add(lines, g_strdup_printf(RANKS_EXPLAINS "%s of config.json: %s\n", key, is));
    }
    describe_text(text, RANKS_EXPLAINS "--model", o->model);
    g_ptr_array_sort(lines, compare_lines);
    for (guint i = 0; i < lines->len; i++)
        g_string_append(text, g_ptr_array_index(lines, i));
    describe_text(text, "config.json", digest);
    json_decref(all);
}

static void explain_data(GString *text, const char *option, const char *path,
                         const struct run_options *o)
{
    g_autofree char *subject = g_strconcat(RANKS_EXPLAINS, option, NULL);
    describe_text(text, subject, path);
    describe_text(text, RANKS_EXPLAINS "--tokens", run_options_tokens[o->tokens]);
}

char *together_describe_plan(const struct run_options *o, const struct run_plan *run)
{
    GString *text = g_string_new(NULL);
    g_autofree char *plan = together_plan_digest(run->plan);
    describe_text(text, RANKS_EXPLAINS "--plan", o->plan);
    explain_chunks(text, o);
    describe_text(text, RANKS_EXPLAINS "--layout", o->layout);
    describe_text(text, RANKS_EXPLAINS "--policy", o->policy);
    describe_number(text, RANKS_EXPLAINS "--look-ahead", o->look_ahead);
    describe_text(text, RANKS_EXPLAINS "--device", o->device->name);
    describe_size(text, RANKS_EXPLAINS "--device-memory", o->device_budget);
    describe_size(text, RANKS_EXPLAINS "--host-memory", o->host_budget);
    describe_size(text, RANKS_EXPLAINS "--nvme-memory", o->nvme_budget);
    describe_text(text, "plan", plan);
    return g_string_free(text, FALSE);
}

static void explain_weights(GString *text, const struct run_options *o)
{
    describe_text(text, RANKS_EXPLAINS "--resume", o->resume);
    describe_text(text, RANKS_EXPLAINS "--adapters", o->adapters);
    describe_text(text, RANKS_EXPLAINS "--model", o->model);
}

char *together_describe(const struct run_options *options, const struct run_plan *run,
                        const struct checkpoint_state *state, const char *eval_digest,
                        const struct weights_hash *weights)
{
    const struct model_iteration *whole = pipeline_whole(run->iteration);
    const struct trace *trace = whole->trace;
    g_autofree char *structure = trace_digest(trace);
    GString *text = g_string_new(NULL);
    describe_text(text, "--precision", trace->precision);
    describe_number(text, "--batch", trace->batch);
    describe_number(text, "--seq", trace->sequence);
    describe_number(text, "--micro-batches", trace->micro_batches);
    describe_options(text, options);
    explain_data(text, "--data", options->data, options);
    describe_state(text, state);
    explain_data(text, "--eval", options->eval, options);
    describe_text(text, "evaluation data", eval_digest);
    describe_model(text, options, run->config);
    explain_structure(text, options, &whole->job);
    describe_text(text, "structure of the step", structure);
    describe_real(text, "--lora-alpha", run->config->lora_alpha);
    explain_weights(text, options);
    g_string_append_printf(text, "weights: %016" G_GINT64_MODIFIER "x\n", weights->hash);
    return g_string_free(text, FALSE);
}
