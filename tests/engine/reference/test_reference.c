/* pstar-run beside PyTorch, as record.py and record_families.py recorded it: every loss, gradient
 * norm and learning rate, and each tensor's gradient in the first step. */
#include "models/safetensors.h"
#include "run_program.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* Relative. PyTorch's own fp32 losses are 2e-7 off those of fp64. */
#define FP32_LOSS 1e-5
#define FP32_NORM 1e-5
#define BF16_LOSS 2e-3
#define BF16_NORM 2e-2
#define GRADIENT  1e-5 /* of a tensor's norm */

struct fixture {
    char *folder, *log, *checkpoint;
    json_t *reference;
};

static void set_up(struct fixture *fixture, const void *run)
{
    (void)run;
    fixture->folder = g_dir_make_tmp("reference-XXXXXX", NULL);
    fixture->log = g_build_filename(fixture->folder, "log.jsonl", NULL);
    fixture->checkpoint = g_build_filename(fixture->folder, "saved", NULL);
    fixture->reference = json_load_file(TEST_SOURCE_DIR "/reference.json", 0, NULL);
    g_assert_nonnull(fixture->reference);
    json_t *families = json_load_file(TEST_SOURCE_DIR "/families.json", 0, NULL);
    g_assert_true(json_equal(json_object_get(families, "recipe"),
                             json_object_get(fixture->reference, "recipe")));
    json_array_extend(json_object_get(fixture->reference, "runs"),
                      json_object_get(families, "runs"));
    json_decref(families);
}

static void remove_folder(const char *path)
{
    GDir *folder = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        remove_folder(child);
    }
    if (folder)
        g_dir_close(folder);
    g_remove(path);
}

static void tear_down(struct fixture *fixture, const void *run)
{
    (void)run;
    remove_folder(fixture->checkpoint);
    g_unlink(fixture->log);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    json_decref(fixture->reference);
    g_free(fixture->checkpoint);
    g_free(fixture->log);
    g_free(fixture->folder);
}

static const json_t *find_run(const struct fixture *fixture, const char *name)
{
    size_t i;
    json_t *run;
    json_array_foreach (json_object_get(fixture->reference, "runs"), i, run)
        if (strcmp(json_string_value(json_object_get(run, "name")), name) == 0)
            return run;
    g_error("no run %s is recorded", name);
}

static const char *model_of(const json_t *run)
{
    return json_string_value(json_object_get(run, "model"));
}

static void add_count(GPtrArray *arguments, const char *option, const json_t *run, const char *key)
{
    add_argument(arguments, "--%s=%.0f", option, number_of(run, key));
}

/* What both kinds of test ask of pstar-run. */
static GPtrArray *job_arguments(const json_t *run)
{
    GPtrArray *arguments = g_ptr_array_new_with_free_func(g_free);
    add_argument(arguments, "--model=%s/%s", TEST_SOURCE_DIR, model_of(run));
    add_argument(arguments, "--data=%s/data.bin", TEST_SOURCE_DIR);
    add_argument(arguments, "--data-order=sequential");
    add_argument(arguments, "--threads=1");
    add_argument(arguments, "--precision=%s", json_string_value(json_object_get(run, "precision")));
    add_count(arguments, "batch", run, "batch");
    add_count(arguments, "seq", run, "sequence");
    add_count(arguments, "micro-batches", run, "micro_batches");
    return arguments;
}

static void add_recipe(GPtrArray *arguments, const json_t *reference)
{
    static const char *const options[][2] = {
        {"lr", "learning_rate"},
        {"min-lr", "minimum_learning_rate"},
        {"warmup-steps", "warm_up"},
        {"beta1", "beta1"},
        {"beta2", "beta2"},
        {"epsilon", "epsilon"},
        {"weight-decay", "weight_decay"},
        {"clip", "clip"},
    };
    const json_t *recipe = json_object_get(reference, "recipe");
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
        add_argument(arguments, "--%s=%g", options[i][0], number_of(recipe, options[i][1]));
    add_count(arguments, "steps", reference, "steps");
}

static void expect_series(const json_t *run, const json_t *log, const char *key, double tolerance)
{
    const json_t *expected = json_object_get(run, key);
    g_assert_cmpuint(json_array_size(log), ==, json_array_size(expected));
    double worst = 0;
    for (size_t step = 0; step < json_array_size(expected); step++) {
        double recorded = json_number_value(json_array_get(expected, step));
        double ours = number_of(json_array_get(log, step), key);
        worst = fmax(worst, fabs(ours - recorded) / fabs(recorded));
        if (!(fabs(ours - recorded) <= tolerance * fabs(recorded)))
            g_error("step %zu: %s is %.9g, PyTorch's %.9g", step, key, ours, recorded);
    }
    g_test_message("%s: at most %.2g off", key, worst);
}

static void test_steps(struct fixture *fixture, const void *name)
{
    const json_t *run = find_run(fixture, name);
    GPtrArray *arguments = job_arguments(run);
    add_recipe(arguments, fixture->reference);
    add_argument(arguments, "--log=%s", fixture->log);
    run_program(arguments);
    json_t *log = read_log(fixture->log);
    bool bf16 = strstr(name, "bf16") != NULL;
    expect_series(run, log, "loss", bf16 ? BF16_LOSS : FP32_LOSS);
    expect_series(run, log, "gradient_norm", bf16 ? BF16_NORM : FP32_NORM);
    expect_series(run, log, "learning_rate", 1e-6);
    json_decref(log);
    g_ptr_array_free(arguments, TRUE);
}

static float *read_all(const struct safetensors *file, const struct safetensors_tensor *tensor)
{
    float *values = g_new(float, tensor->elements);
    g_assert_true(safetensors_read(file, tensor, 0, tensor->elements, values, NULL));
    return values;
}

static double norm(const float *values, uint64_t first, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = first; i < first + count; i++)
        sum += (double)values[i] * values[i];
    return sqrt(sum);
}

static double distance(const float *ours, const float *theirs, uint64_t first, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = first; i < first + count; i++)
        sum += ((double)ours[i] - theirs[i]) * ((double)ours[i] - theirs[i]);
    return sqrt(sum);
}

static void expect_close(const char *name, const float *ours, const float *theirs, uint64_t first,
                         uint64_t count, double scale)
{
    double off = distance(ours, theirs, first, count) / scale;
    g_test_message("%s: %.2g off", name, off);
    if (!(off <= GRADIENT))
        g_error("gradient of %s, elements from %" G_GUINT64_FORMAT ": %g off", name, first, off);
}

/* The gradient of a bias of queries, keys and values. That of the keys is zero in exact arithmetic,
 * since a shift of all keys shifts all scores alike: what is left is rounding. */
static void expect_attention_bias(const char *name, const float *ours, const float *theirs,
                                  uint64_t elements, double global_norm)
{
    uint64_t third = elements / 3;
    expect_close(name, ours, theirs, 0, third, norm(theirs, 0, third));
    expect_close(name, ours, theirs, third, third, global_norm);
    expect_close(name, ours, theirs, 2 * third, third, norm(theirs, 2 * third, third));
}

static void expect_gradients(const struct safetensors *ours, const struct safetensors *theirs,
                             double global_norm)
{
    for (uint32_t i = 0; i < safetensors_count(theirs); i++) {
        const struct safetensors_tensor *expected = safetensors_at(theirs, i);
        bool gpt2 = g_str_has_prefix(expected->name, "transformer.");
        char *name = g_strconcat(expected->name + (gpt2 ? strlen("transformer.") : 0), ".exp_avg",
                                 NULL);
        const struct safetensors_tensor *tensor = safetensors_find(ours, name);
        g_assert_nonnull(tensor);
        g_assert_cmpuint(tensor->elements, ==, expected->elements);
        float *a = read_all(ours, tensor), *b = read_all(theirs, expected);
        if (g_str_has_suffix(expected->name, ".c_attn.bias"))
            expect_attention_bias(name, a, b, expected->elements, global_norm);
        else
            expect_close(name, a, b, 0, expected->elements, norm(b, 0, expected->elements));
        g_free(a);
        g_free(b);
        g_free(name);
    }
}

/* Without momentum or clipping the first moment is the gradient itself, to the bit. */
static void test_gradients(struct fixture *fixture, const void *name)
{
    const json_t *run = find_run(fixture, name);
    GPtrArray *arguments = job_arguments(run);
    add_argument(arguments, "--beta1=0");
    add_argument(arguments, "--clip=0");
    add_argument(arguments, "--steps=1");
    add_argument(arguments, "--save=%s", fixture->checkpoint);
    run_program(arguments);

    char *path = g_build_filename(fixture->checkpoint, "optimizer.safetensors", NULL);
    char *recorded = g_build_filename(TEST_SOURCE_DIR, model_of(run), "gradients.safetensors",
                                      NULL);
    GError *error = NULL;
    struct safetensors *ours = safetensors_open(path, &error);
    g_assert_no_error(error);
    struct safetensors *theirs = safetensors_open(recorded, &error);
    g_assert_no_error(error);
    expect_gradients(ours, theirs,
                     json_number_value(json_array_get(json_object_get(run, "gradient_norm"), 0)));
    safetensors_close(ours);
    safetensors_close(theirs);
    g_free(recorded);
    g_free(path);
    g_ptr_array_free(arguments, TRUE);
}

#define ADD(path, run, function) \
    g_test_add("/reference/" path, struct fixture, run, set_up, function, tear_down)

#define ADD_FAMILY(name)                                  \
    ADD("steps/" name "-fp32", name "-fp32", test_steps); \
    ADD("steps/" name "-bf16", name "-bf16", test_steps); \
    ADD("gradients/" name, name "-fp32", test_gradients)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("steps/small-fp32", "small-fp32", test_steps);
    ADD("steps/small-accumulated", "small-accumulated", test_steps);
    ADD("steps/small-bf16", "small-bf16", test_steps);
    ADD("steps/small-bf16-accumulated", "small-bf16-accumulated", test_steps);
    ADD("steps/odd-fp32", "odd-fp32", test_steps);
    ADD("steps/odd-bf16", "odd-bf16", test_steps);
    ADD("gradients/small", "small-fp32", test_gradients);
    ADD("gradients/odd", "odd-fp32", test_gradients);
    ADD_FAMILY("llama");
    ADD_FAMILY("mistral");
    ADD_FAMILY("qwen2");
    ADD_FAMILY("qwen3");
    ADD_FAMILY("smollm3");
    ADD_FAMILY("gemma");
    ADD_FAMILY("gemma2");
    ADD_FAMILY("gemma3_text");
    ADD_FAMILY("olmo2");
    ADD_FAMILY("phi");
    ADD_FAMILY("gpt_neox");
    ADD_FAMILY("phi3");
    return g_test_run();
}
