#include "tests/fuzz/readers.h"

#include "chunks/layout_file.h"
#include "chunks/plan.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_manifest.h"
#include "engine/train/data.h"
#include "engine/train/token_mask.h"
#include "models/config.h"
#include "models/safetensors.h"
#include "models/tokenizer.h"
#include "platforms/platform.h"
#include "report/inputs.h"
#include "traces/activity/activity.h"
#include "traces/import/import.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* ---- traces, and what other tools recorded ---- */

static bool read_trace(const char *path, GError **error)
{
    struct trace *trace = trace_read(path, error);
    bool ok = trace && trace_verify(path, error);
    trace_free(trace);
    return ok;
}

static bool read_records(const char *path, GError **error)
{
    struct records *records = records_read(path, error);
    struct activity *activity = records ? activity_read(path, ACTIVITY_ALL, error) : NULL;
    bool ok = activity != NULL;
    activity_free(activity);
    if (records)
        records_free(records);
    return ok;
}

/* What an import writes must be a trace that can be read. */
static bool import(const char *from, importer *take, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(from);
    g_autofree char *to = g_build_filename(folder, "imported.pstar", NULL);
    g_autoptr(GPtrArray) unknown = g_ptr_array_new_with_free_func(g_free);
    if (!take(from, to, unknown, error))
        return false;
    g_autoptr(GError) fault = NULL;
    if (!read_records(to, &fault))
        g_error("the imported trace is damaged: %s", fault->message);
    g_assert_cmpint(g_unlink(to), ==, 0);
    return true;
}

static bool read_kineto(const char *path, GError **error)
{
    return import(path, import_kineto, error);
}

static bool read_chakra(const char *path, GError **error)
{
    return import(path, import_chakra, error);
}

static bool read_nsys(const char *path, GError **error)
{
    return import(path, import_nsys, error);
}

/* ---- plans and layouts, for the trace of the corpus ---- */

/* Returns the trace that the corpus' plans were made for, read once. */
static const struct trace *planned_trace(void)
{
    static struct trace *trace;
    if (trace)
        return trace;
    g_autofree char *folder = g_dir_make_tmp("pstar-fuzz-XXXXXX", NULL), *sql = NULL;
    g_assert_nonnull(folder);
    g_autofree char *path = g_build_filename(folder, "planned.pstar", NULL);
    gsize bytes;
    g_autoptr(GError) error = NULL;
    g_file_get_contents(FUZZ_DIR "/corpus/trace/good.sql", &sql, &bytes, &error);
    g_assert_no_error(error);
    fuzz_write_database(path, (const uint8_t *)sql, bytes);
    trace = trace_read(path, &error);
    g_assert_no_error(error);
    g_unlink(path);
    g_rmdir(folder);
    return trace;
}

/* A damaged digest would hide what follows it from the fuzzer. */
static bool read_plan(const char *path, GError **error)
{
    struct plan *plan = plan_read(path, error);
    if (!plan)
        return false;
    g_free(plan->digest);
    plan->digest = trace_digest(planned_trace());
    bool ok = plan_check(plan, planned_trace(), error);
    plan_free(plan);
    return ok;
}

static bool read_layout(const char *path, GError **error)
{
    struct layout *layout = layout_read(path, planned_trace(), error);
    if (layout)
        layout_free(layout);
    return layout != NULL;
}

/* ---- descriptions ---- */

static bool read_platform(const char *path, GError **error)
{
    struct platform *platform = platform_read(path, error);
    platform_free(platform);
    return platform != NULL;
}

static bool read_config(const char *path, GError **error)
{
    struct model_config *config = model_config_read(path, error);
    if (!config)
        return false;
    g_free(model_config_describe(config));
    g_assert_cmpuint(model_config_parameters(config), >, 0);
    model_config_free(config);
    return true;
}

static bool read_tokenizer(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    struct tokenizer *tokenizer = tokenizer_read(folder, error);
    if (!tokenizer)
        return false;
    static const char text[] = "The end, isn't it?<|endoftext|> 42 \303\244";
    g_autoptr(GArray) tokens = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    bool ok = tokenizer_encode(tokenizer, text, strlen(text), tokens, error);
    if (ok)
        g_free(tokenizer_decode(tokenizer, (const uint32_t *)(void *)tokens->data, tokens->len,
                                error));
    tokenizer_free(tokenizer);
    return ok && !*error;
}

/* ---- numbers ---- */

static void read_values(const struct safetensors *file)
{
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        if (!safetensors_expect(file, tensor, tensor->shape, tensor->rank, NULL))
            continue;
        g_autofree float *values = g_new(float, tensor->elements);
        (void)safetensors_read(file, tensor, 0, tensor->elements, values, NULL);
    }
}

static bool read_safetensors(const char *path, GError **error)
{
    struct safetensors *file = safetensors_open(path, error);
    if (file)
        read_values(file);
    safetensors_close(file);
    return file != NULL;
}

/* The files that the index may name lie in the corpus; the input's folder has links to them. */
static bool read_index(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *part = g_build_filename(folder, "part.safetensors", NULL);
    g_assert_cmpint(symlink(FUZZ_DIR "/corpus/safetensors/good.safetensors", part), ==, 0);
    struct safetensors *file = safetensors_open_index(path, error);
    if (file)
        read_values(file);
    safetensors_close(file);
    g_assert_cmpint(g_unlink(part), ==, 0);
    return file != NULL;
}

static bool read_data(const char *path, GError **error)
{
    enum { SEQUENCE = 8 };
    const struct data_options options = {
        .vocabulary = 256, .sequence = SEQUENCE, .held_out = 0.25, .model = "model"};
    struct data *data = data_open(path, &options, error);
    if (!data)
        return false;
    uint32_t tokens[SEQUENCE], targets[SEQUENCE];
    data_batch(data, 3, 0, 1, 1, tokens, targets);
    if (data_sequences(data, DATA_HELD_OUT) > 0)
        data_read(data, DATA_HELD_OUT, 0, 1, tokens, targets);
    data_unigram_entropy(data);
    g_free(data_digest(data));
    bool ok = data_check(data, error);
    data_close(data);
    return ok;
}

/* The mask of 61 tokens. Few inputs have the right checksum, but all headers are read. */
static bool read_mask(const char *path, GError **error)
{
    enum { TOKENS = 61 };
    bool counts[TOKENS - 2];
    struct token_mask *mask = token_mask_open(path, TOKENS, error);
    if (!mask)
        return false;
    token_mask_read(mask, 2, TOKENS - 2, counts);
    uint64_t counted = 0;
    for (size_t i = 0; i < TOKENS - 2; i++)
        counted += counts[i];
    g_assert_cmpuint(token_mask_count(mask, 2, TOKENS - 2), ==, counted);
    g_assert_null(token_mask_problem(mask));
    token_mask_close(mask);
    return true;
}

/* The index's tokens: 64 of 16 bits. */
static bool read_megatron(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *tokens = g_build_filename(folder, "tokens.bin", NULL);
    static const char none[128];
    g_assert_true(g_file_set_contents(tokens, none, sizeof none, NULL));
    bool ok = read_data(path, error);
    g_assert_cmpint(g_unlink(tokens), ==, 0);
    return ok;
}

/* ---- what runs leave ---- */

static bool read_trainer(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    struct checkpoint_state state = {0};
    bool ok = checkpoint_read_state(folder, &state, error);
    checkpoint_state_clear(&state);
    return ok;
}

/* A manifest has its own checksum. A wrong one would hide what follows it from the fuzzer. */
static void give_checksum(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    if (json_is_object(root)) {
        json_object_del(root, "crc32");
        char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
        json_object_set_new(root, "crc32", json_integer(crc32_z(0, (Bytef *)text, strlen(text))));
        g_assert_cmpint(json_dump_file(root, path, 0), ==, 0);
        free(text);
    }
    json_decref(root);
}

/* The files that it may name lie in the corpus; the input's folder has links to them. */
static bool read_manifest(const char *path, GError **error)
{
    static const char *const files[][2] = {
        {"model.safetensors", FUZZ_DIR "/corpus/safetensors/good.safetensors"},
        {"trainer.json", FUZZ_DIR "/corpus/trainer/good.json"},
    };
    g_autofree char *folder = g_path_get_dirname(path);
    char *links[G_N_ELEMENTS(files)];
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        links[i] = g_build_filename(folder, files[i][0], NULL);
        g_assert_cmpint(symlink(files[i][1], links[i]), ==, 0);
    }
    give_checksum(path);
    bool ok = checkpoint_manifest_check(folder, true, error);
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_assert_cmpint(g_unlink(links[i]), ==, 0);
        g_free(links[i]);
    }
    return ok;
}

static bool read_log(const char *path, GError **error)
{
    struct logged_run *run = run_log_read(path, error);
    if (!run)
        return false;
    struct plan_figures figures, low, high;
    bool steady;
    run_log_measured(run, &figures, &steady);
    run_log_range(run, &low, &high);
    run_log_free(run);
    return true;
}

/* Whatever pstar-report recognises: sweeps, timelines, and all of the above. */
static bool read_report(const char *path, GError **error)
{
    const char *const paths[] = {path, NULL};
    struct report_inputs *inputs = inputs_read(paths, error);
    if (!inputs)
        return false;
    inputs_free(inputs);
    return true;
}

const struct fuzz_reader fuzz_readers[] = {
    {"trace", "input.pstar", true, read_trace},
    {"records", "input.pstar", true, read_records},
    {"nsys", "input.sqlite", true, read_nsys},
    {"kineto", "input.json", false, read_kineto},
    {"chakra", "input.json", false, read_chakra},
    {"plan", "plan.json", false, read_plan},
    {"layout", "layout.json", false, read_layout},
    {"platform", "platform.json", false, read_platform},
    {"config", "config.json", false, read_config},
    {"tokenizer", "tokenizer.json", false, read_tokenizer},
    {"safetensors", "model.safetensors", false, read_safetensors},
    {"index", "model.safetensors.index.json", false, read_index},
    {"tokens", "tokens", false, read_data},
    {"megatron", "tokens.idx", false, read_megatron},
    {"mask", "tokens.mask", false, read_mask},
    {"trainer", "trainer.json", false, read_trainer},
    {"manifest", "checkpoint.json", false, read_manifest},
    {"log", "run.jsonl", false, read_log},
    {"report", "input.json", false, read_report},
};
const size_t fuzz_reader_count = G_N_ELEMENTS(fuzz_readers);

const struct fuzz_reader *fuzz_reader_find(const char *name)
{
    for (size_t i = 0; i < fuzz_reader_count; i++)
        if (g_str_equal(fuzz_readers[i].name, name))
            return &fuzz_readers[i];
    return NULL;
}

/* ---- trying ---- */

static void check_alone(const char *folder, const char *file)
{
    GDir *entries = g_dir_open(folder, 0, NULL);
    for (const char *name; (name = g_dir_read_name(entries));)
        if (!g_str_equal(name, file))
            g_error("the reader left %s in the folder", name);
    g_dir_close(entries);
}

bool fuzz_try(const struct fuzz_reader *reader, const uint8_t *input, size_t bytes)
{
    g_autofree char *folder = g_dir_make_tmp("pstar-fuzz-XXXXXX", NULL);
    g_assert_nonnull(folder);
    g_autofree char *path = g_build_filename(folder, reader->file, NULL);
    if (reader->database)
        fuzz_write_database(path, input, bytes);
    else
        g_assert_true(g_file_set_contents(path, (const char *)input, (gssize)bytes, NULL));
    g_autoptr(GError) error = NULL;
    bool ok = reader->read(path, &error);
    g_assert_true(ok == !error);
    if (error)
        g_test_message("%s", error->message);
    check_alone(folder, reader->file);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
    return ok;
}
