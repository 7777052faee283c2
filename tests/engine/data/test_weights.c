/* A model's file: whose tensors it must hold, under which names, and which others are refused. */
#include "small_model.h"

#include "engine/weights.h"

#include <glib/gstdio.h>
#include <string.h>

struct fixture {
    char *folder, *path;
};

static void set_up(struct fixture *fixture, const void *unused)
{
    (void)unused;
    fixture->folder = g_dir_make_tmp("weights-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, WEIGHTS_FILE, NULL);
}

static void tear_down(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_unlink(fixture->path);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->path);
    g_free(fixture->folder);
}

static void expect_round_trip(const struct fixture *fixture, bool tied,
                              enum model_precision precision)
{
    struct small_model *saved = small_model_new(tied, precision, 1);
    struct small_model *loaded = small_model_new(tied, precision, 2);
    const struct weights_form form = weights_form_new();
    GError *error = NULL;
    const struct weights_writer alone = {.index = 0, .count = 1};
    g_assert_true(weights_save(fixture->folder, &saved->config, saved->trace, &saved->store, &form,
                               alone, &error));
    struct safetensors *file = weights_open(fixture->folder, &loaded->config, loaded->trace,
                                            &error);
    g_assert_no_error(error);
    g_assert_nonnull(safetensors_find(file, "transformer.h.1.mlp.c_proj.bias"));
    g_assert_true((safetensors_find(file, "lm_head.weight") == NULL) == tied);
    g_assert_true(weights_load(file, &loaded->config, loaded->trace, &loaded->store, &error));
    g_assert_true(small_model_equal(saved, loaded, false));
    safetensors_close(file);
    small_model_free(saved);
    small_model_free(loaded);
}

static void test_round_trip(struct fixture *fixture, const void *unused)
{
    (void)unused;
    expect_round_trip(fixture, true, MODEL_FP32);
    expect_round_trip(fixture, false, MODEL_FP32);
    expect_round_trip(fixture, true, MODEL_BF16);
}

/* How a file differs from the model's own. */
struct change {
    const char *prefix;
    const char *missing; /* a tensor left out */
    const char *turned;  /* a tensor whose dimensions change places */
    const char *extra;   /* a tensor added */
    bool tied;
    const char *reason; /* of the refusal; NULL: accepted */
};

static const struct change changes[] = {
    {.prefix = "transformer.", .tied = true},
    {.prefix = "", .tied = true},
    {.prefix = "", .tied = false},
    {.prefix = "transformer.", .extra = "transformer.h.1.attn.bias"},
    {.prefix = "", .extra = "h.0.attn.masked_bias"},
    {.prefix = "transformer.", .extra = "lm_head.weight", .tied = true},
    {.prefix = "transformer.", .missing = "wpe.weight", .reason = "tensor wpe.weight is missing"},
    {.prefix = "", .missing = "lm_head.weight", .reason = "tensor lm_head.weight is missing"},
    {.prefix = "",
     .turned = "h.1.mlp.c_fc.weight",
     .reason = "tensor h.1.mlp.c_fc.weight: its shape is [50, 24]; the model needs [24, 50]"},
    {.prefix = "transformer.",
     .extra = "transformer.h.2.ln_1.weight",
     .reason = "tensor transformer.h.2.ln_1.weight is not part of the model"},
    {.prefix = "transformer.", .extra = "wte.weight", .reason = "tensor wte.weight is not part"},
    {.prefix = "", .extra = "score.weight", .reason = "tensor score.weight is not part"},
};

static void write_changed(const char *path, const struct small_model *model,
                          const struct change *change)
{
    const uint64_t extra_shape[] = {2};
    const float zeros[4096] = {0};
    uint64_t total = 0;
    struct safetensors_writer *writer = safetensors_writer_new(path);
    for (uint32_t i = 0; i < model->trace->tensor_count; i++) {
        const char *name = model->trace->tensors[i].name;
        if (g_strcmp0(name, change->missing) == 0)
            continue;
        uint64_t shape[2];
        uint32_t rank = weights_shape(&model->config, name, shape);
        uint64_t turned[2] = {shape[1], shape[0]};
        char *full = g_strconcat(strcmp(name, "lm_head.weight") == 0 ? "" : change->prefix, name,
                                 NULL);
        safetensors_writer_declare(writer, SAFETENSORS_F32, full,
                                   g_strcmp0(name, change->turned) == 0 ? turned : shape, rank);
        total += model->trace->tensors[i].elements;
        g_free(full);
    }
    if (change->extra) {
        safetensors_writer_declare(writer, SAFETENSORS_F32, change->extra, extra_shape, 1);
        total += 2;
    }
    for (uint64_t done = 0; done < total;) {
        uint64_t count = MIN(total - done, G_N_ELEMENTS(zeros));
        g_assert_true(safetensors_writer_append(writer, zeros, count * sizeof *zeros, NULL));
        done += count;
    }
    g_assert_true(safetensors_writer_finish(writer, NULL));
    safetensors_writer_free(writer);
}

static void test_changed_files(struct fixture *fixture, const void *unused)
{
    (void)unused;
    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
        struct small_model *model = small_model_new(changes[i].tied, MODEL_FP32, 1);
        write_changed(fixture->path, model, &changes[i]);
        GError *error = NULL;
        struct safetensors *file = weights_open(fixture->path, &model->config, model->trace,
                                                &error);
        if (!changes[i].reason) {
            g_assert_no_error(error);
            g_assert_true(weights_load(file, &model->config, model->trace, &model->store, &error));
            g_assert_cmpfloat(model->values[TRACE_PARAM][5][1], ==, 0);
        } else {
            g_assert_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR);
            if (!strstr(error->message, changes[i].reason))
                g_error("\"%s\" does not say \"%s\"", error->message, changes[i].reason);
            g_clear_error(&error);
        }
        safetensors_close(file);
        small_model_free(model);
    }
}

static void test_exist(struct fixture *fixture, const void *unused)
{
    (void)unused;
    char *other = g_build_filename(fixture->folder, "pytorch_model.bin", NULL);
    GError *error = NULL;
    bool exist = true;
    g_assert_true(weights_exist(fixture->folder, &exist, &error) && !exist);
    g_assert_true(g_file_set_contents(other, "", 0, NULL));
    g_assert_false(weights_exist(fixture->folder, &exist, &error));
    g_assert_nonnull(strstr(error->message, "pytorch_model.bin: weights are read from"));
    g_clear_error(&error);
    g_assert_true(g_file_set_contents(fixture->path, "", 0, NULL));
    g_assert_true(weights_exist(fixture->folder, &exist, &error) && exist);
    g_unlink(other);
    g_free(other);
}

/* Every shape agrees with what the model's description says about the number of elements. */
static void test_shapes(struct fixture *fixture, const void *unused)
{
    (void)fixture;
    (void)unused;
    struct small_model *model = small_model_new(false, MODEL_FP32, 1);
    for (uint32_t i = 0; i < model->trace->tensor_count; i++) {
        uint64_t shape[2];
        uint32_t rank = weights_shape(&model->config, model->trace->tensors[i].name, shape);
        g_assert_cmpuint(shape[0] * shape[1], ==, model->trace->tensors[i].elements);
        g_assert_cmpuint(rank, ==, shape[1] == 1 ? 1 : 2);
    }
    small_model_free(model);
}

static void test_initialise(struct fixture *fixture, const void *unused)
{
    (void)fixture;
    (void)unused;
    struct small_model *model = small_model_new(true, MODEL_BF16, 1);
    g_assert_true(weights_initialise(&model->config, model->trace, 9, &model->store, NULL));
    for (uint32_t i = 0; i < model->trace->tensor_count; i++) {
        uint64_t elements = model->trace->tensors[i].elements;
        float *values = g_new(float, elements);
        initialise_values(&model->config, 9, i, model->trace->tensors[i].name, 0, elements, values);
        g_assert_cmpmem(model->values[TRACE_MASTER][i], elements * sizeof(float), values,
                        elements * sizeof(float));
        g_free(values);
    }
    small_model_free(model);
}

#define ADD(path, function) \
    g_test_add("/weights/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("round-trip", test_round_trip);
    ADD("changed-files", test_changed_files);
    ADD("exist", test_exist);
    ADD("shapes", test_shapes);
    ADD("initialise", test_initialise);
    return g_test_run();
}
