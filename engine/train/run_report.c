#include "engine/train/run_report.h"

#include "base/failure.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/size.h"
#include "chunks/chunk_spread.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the log ---- */

struct run_log {
    char *path;
    FILE *file;    /* NULL if nothing is written */
    json_t *about; /* for the first line; NULL after it, or if not set */
    off_t whole;   /* bytes of whole lines; -1 if it is no file */
};

static bool fail(const char *path, GError **error)
{
    g_set_error(error, FAILURE, FAILURE_RUNNING, "%s: %s", output_file_name(path),
                g_strerror(errno));
    return false;
}

/* Returns the bytes of the whole lines of a log that are of the first `done` steps, in their order;
 * 0 if the file is no log, or is missing. run_log_write writes the step first. */
static uint64_t count_kept(const char *path, uint64_t done)
{
    uint64_t kept = 0, step = 0, before = 0;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    FILE *file = g_file_test(path, G_FILE_TEST_IS_REGULAR) ? fopen(path, "re") : NULL;
    while (file && (length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n' &&
           sscanf(line, "{\"step\":%" SCNu64 ",", &step) == 1 && step > before && step <= done) {
        kept += (uint64_t)length;
        before = step;
    }
    free(line);
    if (file)
        fclose(file);
    return kept;
}

static FILE *open_stream(const char *path, uint64_t done)
{
    uint64_t kept = done ? count_kept(path, done) : 0;
    return kept ? output_stream_continue(path, kept) : output_stream_open(path);
}

struct run_log *run_log_open(const char *path, uint64_t done, GError **error)
{
    FILE *file = path ? open_stream(path, done) : NULL;
    if (path && !file) {
        fail(path, error);
        return NULL;
    }
    struct run_log *log = g_new(struct run_log, 1);
    *log = (struct run_log){g_strdup(path), file, NULL, -1};
    return log;
}

/* Removes the part of a line that a full disk has let in. What is no file stays as it is. */
static void cut_line(struct run_log *log)
{
    int code = errno;
    __fpurge(log->file);
    if (log->whole >= 0 && ftruncate(fileno(log->file), log->whole) == 0)
        lseek(fileno(log->file), log->whole, SEEK_SET);
    errno = code;
}

/* JSON has no infinities and no NaN. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void run_log_describe(struct run_log *log, const struct plan *plan, uint64_t library_bytes,
                      double unigram_entropy)
{
    const struct chunk_spread spread = chunk_spread_of(plan->layout, TRACE_PARAM);
    json_decref(log->about);
    log->about = json_pack(
        "{s:s*, s:s*, s:I, s:I, s:I, s:s*, s:s*, s:I, s:I, s:o}", "model", plan->model, "precision",
        plan->precision, "batch", (json_int_t)plan->batch, "sequence", (json_int_t)plan->sequence,
        "micro_batches", (json_int_t)plan->micro_batches, "made_by", plan->made_by, "digest",
        plan->digest, "look_ahead", (json_int_t)plan->look_ahead, "library_bytes",
        (json_int_t)library_bytes, "unigram_entropy", real(unigram_entropy));
    chunk_spread_to_json(&spread, log->about);
    if (plan->ranks > 1)
        json_object_set_new(log->about, "ranks", json_integer(plan->ranks));
    if (plan->device_budget != UINT64_MAX)
        json_object_set_new(log->about, "device_memory_bytes",
                            json_integer((json_int_t)(plan->device_budget + library_bytes)));
}

void run_log_describe_link(struct run_log *log, double h2d_rate, double d2h_rate)
{
    if (h2d_rate > 0)
        json_object_set_new(log->about, "h2d_rate", json_real(h2d_rate));
    if (d2h_rate > 0)
        json_object_set_new(log->about, "d2h_rate", json_real(d2h_rate));
}

bool run_log_write(struct run_log *log, const struct run_log_entry *entry, GError **error)
{
    if (!log->file)
        return true;
    json_t *line = json_pack("{s:I, s:o, s:o, s:f, s:f}", "step", (json_int_t)entry->step, "loss",
                             real(entry->loss), "gradient_norm", real(entry->gradient_norm),
                             "learning_rate", entry->learning_rate, "tokens_per_second",
                             entry->tokens_per_second);
    json_object_set_new(line, "weights_version", json_integer((json_int_t)entry->version));
    if (entry->targets >= 0)
        json_object_set_new(line, "targets", json_integer(entry->targets));
    if (entry->skipped)
        json_object_set_new(line, "skipped", json_true());
    json_t *figures = figures_to_json(&entry->figures);
    json_object_update(line, figures);
    json_decref(figures);
    if (!isnan(entry->eval_loss))
        json_object_set_new(line, "eval_loss", real(entry->eval_loss));
    if (log->about)
        json_object_update(line, log->about);
    g_clear_pointer(&log->about, json_decref);
    log->whole = lseek(fileno(log->file), 0, SEEK_CUR);
    bool written = json_dumpf(line, log->file, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0 &&
                   fputc('\n', log->file) != EOF && fflush(log->file) == 0;
    json_decref(line);
    if (!written)
        cut_line(log);
    return written || fail(log->path, error);
}

void run_log_close(struct run_log *log)
{
    if (!log)
        return;
    if (log->file)
        fclose(log->file);
    json_decref(log->about);
    g_free(log->path);
    g_free(log);
}

/* ---- the report ---- */

static void print_size(const char *label, uint64_t bytes, const char *note)
{
    char *size = size_format(bytes);
    printf("%-28s %12s%s%s\n", label, size, note ? "   " : "", note ? note : "");
    g_free(size);
}

static void print_copies(const char *label, uint64_t bytes, uint64_t copies)
{
    char *note = g_strdup_printf("in %" G_GUINT64_FORMAT " copies of chunks", copies);
    print_size(label, bytes, note);
    g_free(note);
}

static void print_nvme(const struct run_plan *run, const struct plan_figures *figures)
{
    g_autofree char *block = size_format(run->nvme_block_bytes);
    g_autofree char *note = g_strdup_printf("in blocks of %s, %u at a time", block,
                                            run->nvme_depth);
    print_size("NVMe", figures->peak_nvme_bytes, note);
    print_size("read from NVMe, a step", figures->nvme_read_bytes, NULL);
    print_size("written to NVMe, a step", figures->nvme_write_bytes, NULL);
}

static void add_nvme(json_t *root, const struct run_plan *run)
{
    if (run->plan->nvme_bytes)
        json_object_update_new(root, json_pack("{s:I, s:I}", "nvme_block_bytes",
                                               (json_int_t)run->nvme_block_bytes, "nvme_depth",
                                               (json_int_t)run->nvme_depth));
}

static void print_traffic(const struct run_plan *run, const struct plan_figures *figures)
{
    print_copies("host to device, a step", figures->h2d_bytes, figures->h2d_copies);
    print_copies("device to host, a step", figures->d2h_bytes, figures->d2h_copies);
    printf("%-28s %12" G_GUINT64_FORMAT "\n", "evictions, a step", figures->evictions);
    if (figures->moves)
        print_size("moved on the device, a step", figures->moved_bytes, NULL);
    if (figures->peak_nvme_bytes)
        print_nvme(run, figures);
}

static void print_peers(const struct run_plan *run, const struct ranks *ranks,
                        const struct stage_row *stages, const struct plan_figures *figures)
{
    printf("%-28s %12u   %u on this host; the figures are the first one's\n", "ranks", ranks->count,
           ranks->node_count);
    print_size("sent to other ranks, a step", figures->sent_bytes, NULL);
    print_size("received, a step", figures->received_bytes, NULL);
    if (figures->gathers)
        printf("%-28s %12" G_GUINT64_FORMAT "\n", "gathers of chunks, a step", figures->gathers);
    if (!stages)
        return;
    uint32_t count = run->iteration->trace->stages;
    printf("%-28s %12u   of %u rank%s; the table has the first of each\n", "stages", count,
           ranks->count / count, ranks->count == count ? "" : "s");
    stage_report_print(stages, count);
}

static void add_peers(json_t *root, const struct run_plan *run, const struct ranks *ranks,
                      const struct stage_row *stages)
{
    if (ranks)
        json_object_set_new(root, "ranks", json_integer(ranks->count));
    if (stages)
        json_object_set_new(root, "stages",
                            stage_report_json(stages, run->iteration->trace->stages));
}

static void print_json(json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    puts(text);
    free(text);
    json_decref(root);
}

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* ---- after training ---- */

static void print_summary_json(const struct run_plan *run, const struct run_summary *s)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:f, s:f}", "model", run->config->name, "precision",
        run->iteration->trace->precision, "plan", run->plan->made_by, "steps",
        (json_int_t)s->last.step, "first_loss", real_or_null(s->first_loss), "loss",
        real_or_null(s->last.loss), "eval_loss", real_or_null(s->eval_loss), "unigram_entropy",
        s->unigram_entropy, "tokens_per_second", s->last.tokens_per_second);
    json_t *figures = figures_to_json(&s->last.figures);
    json_object_update(root, figures);
    json_decref(figures);
    add_nvme(root, run);
    add_peers(root, run, s->ranks, s->stages);
    if (s->peak_flops > 0)
        json_object_update_new(root,
                               json_pack("{s:f, s:f}", "flops_per_second", s->flops_per_second,
                                         "peak_flops_per_second", s->peak_flops));
    for (uint32_t i = 0; s->sample && i < s->sample->len; i++) {
        if (i == 0)
            json_object_set_new(root, "sample", json_array());
        json_array_append_new(json_object_get(root, "sample"),
                              json_integer(g_array_index(s->sample, uint32_t, i)));
    }
    if (s->targets >= 0)
        json_object_set_new(root, "training_targets", json_integer(s->targets));
    if (s->saved || s->not_saved)
        json_object_update_new(root, json_pack("{s:I, s:I, s:o}", "checkpoints",
                                               (json_int_t)s->saved, "checkpoints_failed",
                                               (json_int_t)s->not_saved, "checkpoint_pause_seconds",
                                               real_or_null(s->longest_pause)));
    if (s->skipped)
        json_object_set_new(root, "skipped_steps", json_integer((json_int_t)s->skipped));
    if (s->sample_text)
        json_object_set_new(root, "sample_text", json_string(s->sample_text));
    print_json(root);
}

static void print_saves(const struct run_summary *s)
{
    if (!s->saved && !s->not_saved)
        return;
    printf("%-28s %12" G_GUINT64_FORMAT, "checkpoints", s->saved);
    if (s->not_saved)
        printf("   %" G_GUINT64_FORMAT " more could not be written", s->not_saved);
    putchar('\n');
    if (!isnan(s->longest_pause))
        printf("%-28s %12.3f s   the longest; %.0f %% of a step\n", "pause for a checkpoint",
               s->longest_pause, 100 * s->longest_pause / s->last.figures.iteration_seconds);
}

static void print_sample(const struct run_summary *s)
{
    putchar('\n');
    if (s->sample_text)
        fputs(s->sample_text, stdout);
    for (uint32_t i = 0; !s->sample_text && i < s->sample->len; i++)
        printf("%u ", g_array_index(s->sample, uint32_t, i));
    putchar('\n');
}

void run_report_print(const struct run_plan *run, const struct run_summary *s, bool json)
{
    const struct plan_figures *figures = &s->last.figures;
    if (json) {
        print_summary_json(run, s);
        return;
    }
    text_print_line(stdout, "%s, %s, %s", run->config->name, run->iteration->trace->precision,
                    run->plan->made_by);
    printf("%-28s %12" G_GUINT64_FORMAT "\n", "steps", s->last.step);
    if (s->skipped)
        printf("%-28s %12" G_GUINT64_FORMAT "   their gradients were not finite\n", "skipped",
               s->skipped);
    if (s->targets >= 0)
        printf("%-28s %12" G_GINT64_FORMAT "   of %" G_GUINT64_FORMAT " tokens, by the mask\n",
               "targets in the training text", s->targets, s->training_tokens);
    printf("%-28s %12.4f   from %.4f; unigram entropy of the text %.4f\n", "loss", s->last.loss,
           s->first_loss, s->unigram_entropy);
    if (!isnan(s->eval_loss))
        printf("%-28s %12.4f\n", "loss in evaluation", s->eval_loss);
    printf("%-28s %12.3f s   %s\n", "step", figures->iteration_seconds,
           s->steps > 1 ? "median of the steps after the first" : "the only one");
    printf("%-28s %12.3f s\n", "of it stalled", figures->stall_seconds);
    printf("%-28s %12.0f\n", "tokens a second", s->last.tokens_per_second);
    if (s->peak_flops > 0)
        printf("%-28s %12.1f %% of %.4g Gflop/s, the fastest %s\n", "share of the device's peak",
               100 * s->flops_per_second / s->peak_flops, s->peak_flops / 1e9,
               s->peak_by_step ? "step" : "large product measured at the start");
    print_saves(s);
    print_size("device memory at its peak", figures->peak_device_bytes, NULL);
    print_size("host memory", figures->peak_host_bytes, NULL);
    print_traffic(run, figures);
    if (s->ranks)
        print_peers(run, s->ranks, s->stages, figures);
    if (s->sample)
        print_sample(s);
}

/* ---- before ---- */

struct list_size {
    uint32_t chunks, on_device, device_homed;
    uint64_t bytes; /* of the slots */
};

static struct list_size size_of_list(const struct plan *plan, int list)
{
    struct list_size size = {0};
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        if (plan->layout->chunks[c].list != list)
            continue;
        size.chunks++;
        size.bytes += plan->layout->chunks[c].slot_bytes;
        size.on_device += plan->initial_address[c] != NO_ADDRESS;
        size.device_homed += plan_is_homed(plan, c);
    }
    return size;
}

/* Returns the first moment at which non-model data takes the most. */
static moment_id peak_moment(const struct non_model *places)
{
    moment_id moment = 0;
    while (places->extent[moment] < places->peak_bytes)
        moment++;
    return moment;
}

static void print_dry_json(const struct run_plan *run, const struct ranks *ranks,
                           const struct stage_row *stages)
{
    const struct trace *trace = run->iteration->trace;
    const struct plan *plan = run->plan;
    const struct non_model *places = run->places;
    uint32_t tightest = 0;
    uint64_t least = run_plan_least_device_bytes(run, &tightest);
    json_t *lists = json_object();
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        if (!plan->layout->places[list])
            continue;
        struct list_size size = size_of_list(plan, list);
        json_object_set_new(lists, trace_list_name(list),
                            json_pack("{s:I, s:I, s:I, s:I}", "chunks", (json_int_t)size.chunks,
                                      "bytes", (json_int_t)size.bytes, "on_device",
                                      (json_int_t)size.on_device, "device_homed",
                                      (json_int_t)size.device_homed));
    }
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:o, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "model",
                  run->config->name, "precision", trace->precision, "plan", plan->made_by, "lists",
                  lists, "non_model_bytes", (json_int_t)places->peak_bytes, "non_model_moment",
                  trace->operators[peak_moment(places)].name, "device_bytes",
                  (json_int_t)plan->arena_bytes, "host_bytes", (json_int_t)plan->host_pool_bytes,
                  "staging_bytes", (json_int_t)(plan->host_pool_bytes - plan->staging_address),
                  "library_bytes", (json_int_t)run->capacity.library_bytes, "least_device_bytes",
                  (json_int_t)least, "least_device_moment", trace->operators[tightest].name);
    if (run->snapshot_bytes)
        json_object_set_new(root, "snapshot_bytes", json_integer((json_int_t)run->snapshot_bytes));
    json_t *figures = figures_to_json(&plan->predicted);
    json_object_update(root, figures);
    json_decref(figures);
    add_nvme(root, run);
    add_peers(root, run, ranks, stages);
    print_json(root);
}

static void print_lists(const struct run_plan *run)
{
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        if (!run->plan->layout->places[list])
            continue;
        struct list_size size = size_of_list(run->plan, list);
        char *note = g_strdup_printf("%u chunks, %u on the device when a step begins", size.chunks,
                                     size.on_device);
        print_size(trace_list_name(list), size.bytes, note);
        g_free(note);
    }
}

static void print_with_moment(const char *label, uint64_t bytes, const struct trace *trace,
                              moment_id moment)
{
    char *note = g_strdup_printf("in moment %u, %s", moment, trace->operators[moment].name);
    print_size(label, bytes, note);
    g_free(note);
}

void run_report_print_dry(const struct run_plan *run, const struct ranks *ranks,
                          const struct stage_row *stages, bool json)
{
    const struct trace *trace = run->iteration->trace;
    const struct plan *plan = run->plan;
    if (json) {
        print_dry_json(run, ranks, stages);
        return;
    }
    const struct non_model *places = run->places;
    uint32_t tightest = 0;
    uint64_t least = run_plan_least_device_bytes(run, &tightest);
    text_print_line(stdout, "%s, %s, %s", run->config->name, trace->precision, plan->made_by);
    print_lists(run);
    print_with_moment("activations and workspaces", places->peak_bytes, trace, peak_moment(places));
    print_size("device memory", plan->arena_bytes, "taken at the start");
    if (run->capacity.library_bytes)
        print_size("beside it", run->capacity.library_bytes, "held by driver and libraries");
    print_with_moment("least that fits", least, trace, tightest);
    print_size("host memory", plan->host_pool_bytes, "taken at the start");
    print_size("of it staging", plan->host_pool_bytes - plan->staging_address,
               "for the activations of host operators");
    if (run->snapshot_bytes)
        print_size("beside it a snapshot", run->snapshot_bytes,
                   "of what is saved, while it is written");
    print_traffic(run, &plan->predicted);
    if (ranks)
        print_peers(run, ranks, stages, &plan->predicted);
    if (ranks && !stages)
        print_size("memory of this host's ranks",
                   ranks->node_count *
                       (plan->arena_bytes + plan->host_pool_bytes + run->snapshot_bytes),
                   "for devices and host together");
    if (ranks && !stages && plan->nvme_bytes)
        print_size("NVMe of this host's ranks", ranks->node_count * plan->nvme_bytes,
                   "in a file for each");
}
