#include "engine/train/run_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

struct run_log {
    char *path;
    FILE *file;    /* NULL: nothing is written */
    json_t *about; /* for the first line; NULL: it is written, or was never given */
};

static bool fail(const char *path, GError **error)
{
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "%s: %s", path,
                g_strerror(errno));
    return false;
}

struct run_log *run_log_open(const char *path, GError **error)
{
    FILE *file = path ? fopen(path, "we") : NULL;
    if (path && !file) {
        fail(path, error);
        return NULL;
    }
    struct run_log *log = g_new(struct run_log, 1);
    *log = (struct run_log){g_strdup(path), file, NULL};
    return log;
}

/* JSON has no infinities and no NaN. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void run_log_describe(struct run_log *log, const struct plan *plan, uint64_t library_bytes,
                      double unigram_entropy)
{
    json_decref(log->about);
    log->about = json_pack("{s:s*, s:s*, s:I, s:I, s:I, s:s*, s:s*, s:I, s:I, s:I, s:o}", "model",
                           plan->model, "precision", plan->precision, "batch",
                           (json_int_t)plan->batch, "sequence", (json_int_t)plan->sequence,
                           "micro_batches", (json_int_t)plan->micro_batches, "made_by",
                           plan->made_by, "digest", plan->digest, "chunk_bytes",
                           (json_int_t)plan->layout->chunk_bytes[TRACE_PARAM], "look_ahead",
                           (json_int_t)plan->look_ahead, "library_bytes", (json_int_t)library_bytes,
                           "unigram_entropy", real(unigram_entropy));
    if (plan->device_budget != UINT64_MAX)
        json_object_set_new(log->about, "device_memory_bytes",
                            json_integer((json_int_t)(plan->device_budget + library_bytes)));
}

bool run_log_write(struct run_log *log, const struct run_log_entry *entry, GError **error)
{
    if (!log->file)
        return true;
    json_t *line = json_pack("{s:I, s:o, s:o, s:f, s:f}", "step", (json_int_t)entry->step, "loss",
                             real(entry->loss), "gradient_norm", real(entry->gradient_norm),
                             "learning_rate", entry->learning_rate, "tokens_per_second",
                             entry->tokens_per_second);
    json_t *figures = figures_to_json(&entry->figures);
    json_object_update(line, figures);
    json_decref(figures);
    if (!isnan(entry->eval_loss))
        json_object_set_new(line, "eval_loss", real(entry->eval_loss));
    if (log->about)
        json_object_update(line, log->about);
    g_clear_pointer(&log->about, json_decref);
    bool written = json_dumpf(line, log->file, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0 &&
                   fputc('\n', log->file) != EOF && fflush(log->file) == 0;
    json_decref(line);
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
