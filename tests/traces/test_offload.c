/* Traces in which what layers save may leave the device: by hand, and for drawn uses of buffers of
 * pstar's own models, that every operator has what it uses. */
#include "models/config.h"
#include "models/synth.h"
#include "tests/traces/bare_trace.h"
#include "tests/traces/random_trace.h"
#include "traces/choices.h"
#include "traces/offload.h"
#include "traces/recompute.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>

/* ---- one layer of two operators, by hand ---- */

enum { EMBED, NORM, UP, HEAD, HEAD_BACK, UP_BACK, NORM_BACK, END };

static void set_operator(struct trace *trace, uint32_t m, const char *name, enum trace_phase phase,
                         int32_t layer)
{
    trace->operators[m] = (struct trace_operator){.name = g_strdup(name),
                                                  .phase = (uint8_t)phase,
                                                  .layer = layer,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .duration_ns = 100};
    trace->accesses[m] = (struct trace_access){.list = TRACE_PARAM, .mode = TRACE_READ};
}

static void set_buffer(struct trace *trace, uint64_t bytes, uint32_t first, uint32_t last)
{
    trace->buffers[trace->buffer_count++] = (struct trace_buffer){
        g_strdup_printf("buffer of %u", first), bytes, first, last, true, bytes};
}

/* The embedding makes 1000 bytes, which the norm saves and the product reads once more. The norm
 * makes 100 bytes, which the product saves; its backward restores them for the norm's, too. It also
 * makes 10 bytes, which are saved at once. */
static struct trace *one_layer(void)
{
    static const struct trace_use uses[] = {
        {0, EMBED, TRACE_USES}, {0, NORM, TRACE_SAVES},         {0, UP, TRACE_USES},
        {0, HEAD, TRACE_USES},  {0, NORM_BACK, TRACE_RESTORES}, {1, NORM, TRACE_USES},
        {1, UP, TRACE_SAVES},   {1, UP_BACK, TRACE_RESTORES},   {1, NORM_BACK, TRACE_USES},
        {2, NORM, TRACE_SAVES}, {2, NORM_BACK, TRACE_RESTORES}};
    struct trace *trace = bare_trace(END);
    set_operator(trace, EMBED, "forward embed", TRACE_FORWARD, -1);
    set_operator(trace, NORM, "forward 0.norm", TRACE_FORWARD, 0);
    set_operator(trace, UP, "forward 0.up", TRACE_FORWARD, 0);
    set_operator(trace, HEAD, "forward head", TRACE_FORWARD, -1);
    set_operator(trace, HEAD_BACK, "backward head", TRACE_BACKWARD, -1);
    set_operator(trace, UP_BACK, "backward 0.up", TRACE_BACKWARD, 0);
    set_operator(trace, NORM_BACK, "backward 0.norm", TRACE_BACKWARD, 0);
    set_buffer(trace, 1000, EMBED, NORM_BACK);
    set_buffer(trace, 100, NORM, NORM_BACK);
    set_buffer(trace, 10, NORM, NORM_BACK);
    trace->use_count = G_N_ELEMENTS(uses);
    trace->uses = g_memdup2(uses, sizeof uses);
    trace_sum_buffers(trace);
    return trace;
}

static void assert_access(const struct trace *trace, uint32_t m, uint32_t nth, uint32_t buffer,
                          enum trace_mode mode)
{
    g_assert_cmpuint(nth, <, trace->operators[m].access_count);
    const struct trace_access *access = &trace->accesses[trace->operators[m].first_access + nth];
    g_assert_cmpuint(access->list, ==, TRACE_ACTIVATION);
    g_assert_cmpuint(access->tensor, ==, buffer);
    g_assert_cmpuint(access->mode, ==, mode);
}

/* The layers that a plan names are those that its trace shows, and give the same trace again. */
static void assert_same_from_choices(const struct trace *trace, const struct trace *held)
{
    struct run_choices *choices = run_choices_of(held);
    struct trace *again = trace_offload(trace, choices->offload);
    assert_traces_equal(held, again);
    trace_free(again);
    run_choices_free(choices);
}

static void test_by_hand(void)
{
    struct trace *trace = one_layer();
    const uint8_t layers[] = {1};
    GError *error = NULL;
    trace_check(trace, "one layer", &error);
    g_assert_no_error(error);
    g_assert_true(trace_may_offload(trace));
    struct trace *held = trace_offload(trace, layers);
    trace_check(held, "held", &error);
    g_assert_no_error(error);

    /* The first buffer is there until the head has used it, the second until it was saved, and
     * again from the product's backward on. The third is too small to leave. */
    const uint64_t bytes[END] = {1000, 1110, 1110, 1010, 10, 110, 110};
    for (uint32_t m = 0; m < END; m++)
        g_assert_cmpuint(held->non_model_bytes[m], ==, bytes[m]);
    assert_access(held, NORM, 1, 0, TRACE_OVERWRITE);
    assert_access(held, UP, 1, 1, TRACE_OVERWRITE);
    assert_access(held, UP_BACK, 1, 1, TRACE_READ);
    assert_access(held, NORM_BACK, 1, 0, TRACE_READ);
    g_assert_cmpuint(held->access_count, ==, trace->access_count + 4);
    g_assert_cmpuint(held->buffers[1].last, ==, UP_BACK);
    g_assert_cmpuint(held->use_count, ==, 2); /* of the third buffer */
    g_assert_false(trace_may_offload(held));
    g_assert_false(held->estimated); /* all durations are measured ones */

    const uint8_t none[] = {0};
    struct trace *same = trace_offload(trace, none);
    assert_traces_equal(trace, same);
    trace_free(same);
    trace_free(held);
    trace->ranks = 2;
    g_assert_false(trace_may_offload(trace));
    trace_free(trace);
}

/* The norm's layer saves what only the product's layer, the second, restores. */
static void test_saved_by_another(void)
{
    struct trace *trace = one_layer();
    trace->operators[UP].layer = trace->operators[UP_BACK].layer = 1;
    trace->uses[4].moment = UP_BACK;
    const uint8_t first[] = {1, 0}, both[] = {1, 1};
    struct trace *held = trace_offload(trace, first);
    assert_access(held, NORM, 1, 2, TRACE_OVERWRITE);
    g_assert_cmpuint(held->access_count, ==, trace->access_count + 2);
    assert_same_from_choices(trace, held);
    trace_free(held);
    held = trace_offload(trace, both);
    assert_access(held, NORM, 1, 0, TRACE_OVERWRITE);
    assert_access(held, UP_BACK, 1, 0, TRACE_READ);
    assert_same_from_choices(trace, held);
    trace_free(held);
    trace_free(trace);
}

/* A recomputed layer saves its input alone, and begins with it. */
static void test_recomputed(void)
{
    struct trace *trace = one_layer();
    const uint8_t layers[] = {1};
    struct trace *again = trace_recompute(trace, layers);
    GError *error = NULL;
    trace_check(again, "again", &error);
    g_assert_no_error(error);
    g_assert_cmpstr(again->operators[UP_BACK].name, ==, "recompute 0.norm");
    struct trace *held = trace_offload(again, layers);
    trace_check(held, "held", &error);
    g_assert_no_error(error);
    assert_access(held, NORM, 1, 0, TRACE_OVERWRITE);
    assert_access(held, UP_BACK, 1, 0, TRACE_READ);
    g_assert_cmpuint(held->non_model_bytes[HEAD_BACK], ==, 0);
    g_assert_cmpuint(held->access_count, ==, again->access_count + 2);
    trace_free(held);
    trace_free(again);
    trace_free(trace);
}

/* ---- drawn uses ---- */

static struct trace *describe(const struct model_config *config, uint32_t micro_batches)
{
    GError *error = NULL;
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    const struct model_job job = {.choices = {.batch = 2, .micro_batches = micro_batches},
                                  .sequence = 64,
                                  .precision = MODEL_FP32};
    g_assert_no_error(error);
    struct trace *trace = model_synthesise(config, &job, platform, &error);
    g_assert_no_error(error);
    platform_free(platform);
    return trace;
}

/* Draws how operators use a buffer that forward saves for backward. */
static void draw_uses(const struct trace *trace, uint32_t b, GArray *uses, GRand *random)
{
    const struct trace_buffer *buffer = &trace->buffers[b];
    uint32_t last_forward = buffer->first;
    for (uint32_t m = buffer->first; m <= buffer->last; m++)
        if (trace->operators[m].phase == TRACE_FORWARD)
            last_forward = m;
    uint32_t most = MIN(last_forward, buffer->first + 3);
    bool restored = false;
    uint32_t save = (uint32_t)g_rand_int_range(random, (gint32)buffer->first, (gint32)most + 1);
    for (uint32_t m = buffer->first; m <= buffer->last; m++) {
        bool backward = m > last_forward && trace->operators[m].phase == TRACE_BACKWARD;
        bool drawn = m == save || m == buffer->last || g_rand_int_range(random, 0, 20) == 0;
        struct trace_use use = {b, m, TRACE_USES};
        if (m == save)
            use.kind = TRACE_SAVES;
        else if (backward && (!restored || g_rand_boolean(random)))
            use.kind = TRACE_RESTORES;
        if (!drawn || (!backward && m > last_forward))
            continue;
        restored |= use.kind == TRACE_RESTORES;
        g_array_append_val(uses, use);
    }
}

static void draw_all_uses(struct trace *trace, GRand *random)
{
    GArray *uses = g_array_new(false, false, sizeof(struct trace_use));
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        const struct trace_operator *first = &trace->operators[buffer->first];
        const struct trace_operator *last = &trace->operators[buffer->last];
        if (buffer->saved && first->phase == TRACE_FORWARD && last->phase == TRACE_BACKWARD &&
            g_rand_int_range(random, 0, 4))
            draw_uses(trace, b, uses, random);
    }
    trace->use_count = uses->len;
    trace->uses = (struct trace_use *)(void *)g_array_free(uses, uses->len == 0);
}

static bool accesses(const struct trace *trace, uint32_t m, uint32_t buffer)
{
    const struct trace_operator *op = &trace->operators[m];
    for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++)
        if (trace->accesses[i].list == TRACE_ACTIVATION && trace->accesses[i].tensor == buffer)
            return true;
    return false;
}

/* Returns whether a buffer of the same name and size that no chunk holds is alive. */
static bool has_copy(const struct trace *held, uint32_t m, const struct trace_buffer *of)
{
    for (uint32_t b = 0; b < held->buffer_count; b++) {
        const struct trace_buffer *buffer = &held->buffers[b];
        if (buffer->first <= m && m <= buffer->last && buffer->bytes == of->bytes &&
            g_str_equal(buffer->name, of->name) && !accesses(held, buffer->first, b))
            return true;
    }
    return false;
}

/* Every operator has what it uses: where it was made, in a chunk, or as a copy. */
static void assert_complete(const struct trace *trace, const struct trace *held)
{
    for (uint32_t i = 0; i < trace->use_count; i++) {
        const struct trace_use *use = &trace->uses[i];
        const struct trace_buffer *buffer = &trace->buffers[use->buffer];
        bool copied = has_copy(held, use->moment, buffer);
        g_assert_true(copied ||
                      (use->kind == TRACE_RESTORES && accesses(held, use->moment, use->buffer)));
    }
}

static uint64_t sum(const uint64_t *bytes, uint32_t count)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++)
        all += bytes[i];
    return all;
}

static void check_one(const struct trace *trace, const uint8_t *marks, const char *path)
{
    GError *error = NULL;
    trace_check(trace, "drawn", &error);
    g_assert_no_error(error);
    trace_write(trace, path, &error);
    g_assert_no_error(error);
    struct trace *back = trace_read(path, &error);
    g_assert_no_error(error);
    assert_traces_equal(trace, back);
    trace_free(back);
    if (!trace_may_offload(trace))
        return;
    struct trace *held = trace_offload(trace, marks);
    trace_check(held, "held", &error);
    g_assert_no_error(error);
    assert_complete(trace, held);
    assert_same_from_choices(trace, held);
    g_assert_cmpuint(sum(held->non_model_bytes, held->operator_count), <=,
                     2 * sum(trace->non_model_bytes, trace->operator_count));
    trace_free(held);
}

static void test_drawn(void)
{
    static const char *const configs[] = {"gpt2", "pythia-70m"};
    GRand *random = g_rand_new_with_seed(g_test_rand_int());
    g_autofree char *folder = g_dir_make_tmp("pstar-offload-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(folder, "run.pstar", NULL);
    for (int round = 0; round < 6; round++) {
        g_autofree char *path = g_strdup_printf(PROJECT_DIR "/models/configs/%s.json",
                                                configs[round % 2]);
        struct model_config *config = model_config_read(path, NULL);
        g_assert_nonnull(config);
        g_autofree uint8_t *offload = g_new0(uint8_t, config->layers);
        g_autofree uint8_t *recompute = g_new0(uint8_t, config->layers);
        for (uint32_t l = 0; l < config->layers; l++) {
            offload[l] = (uint8_t)g_rand_int_range(random, 0, 2);
            recompute[l] = (uint8_t)g_rand_int_range(random, 0, 2);
        }
        struct trace *trace = describe(config, (uint32_t)g_rand_int_range(random, 1, 3));
        draw_all_uses(trace, random);
        check_one(trace, offload, file);
        struct trace *again = trace_recompute(trace, recompute);
        check_one(again, offload, file);
        trace_free(again);
        trace_free(trace);
        model_config_free(config);
    }
    g_unlink(file);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/offload/by_hand", test_by_hand);
    g_test_add_func("/offload/saved_by_another", test_saved_by_another);
    g_test_add_func("/offload/recomputed", test_recomputed);
    g_test_add_func("/offload/drawn", test_drawn);
    return g_test_run();
}
