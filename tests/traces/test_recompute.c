/* Traces in which layers are computed again: by hand for two layers, and against pstar's own
 * description of such runs for drawn models. */
#include "models/config.h"
#include "models/synth.h"
#include "tests/traces/bare_trace.h"
#include "traces/choices.h"
#include "traces/recompute.h"

#include <string.h>

/* ---- two layers of three operators ---- */

enum { NORM, UP, ADD, LAYER = 3, HEAD = 6, HEAD_BACK, ADD_BACK, UP_BACK, NORM_BACK, END = 14 };

static void set_operator(struct trace *trace, uint32_t m, const char *name, enum trace_phase phase,
                         int32_t layer)
{
    trace->operators[m] = (struct trace_operator){.name = g_strdup(name),
                                                  .phase = (uint8_t)phase,
                                                  .layer = layer,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .flops = m + 1,
                                                  .duration_ns = 100 + m};
    uint8_t list = phase == TRACE_FORWARD ? TRACE_PARAM : TRACE_GRAD;
    uint8_t mode = phase == TRACE_FORWARD ? TRACE_READ : TRACE_OVERWRITE;
    trace->accesses[m] = (struct trace_access){.list = list, .mode = mode};
}

static void set_buffer(struct trace *trace, uint64_t bytes, uint32_t first, uint32_t last,
                       bool saved)
{
    trace->buffers[trace->buffer_count++] = (struct trace_buffer){
        g_strdup_printf("buffer of %u", first), bytes, first, last, saved, saved ? bytes : 0};
}

/* A layer saves what its norm and its product make (10 and 100 bytes), uses a workspace (5), and
 * hands on a sum (1000), which only the next operators read. */
static struct trace *two_layers(void)
{
    static const char *const parts[] = {"norm", "up", "add"};
    struct trace *trace = bare_trace(END);
    for (int32_t layer = 0; layer < 2; layer++)
        for (uint32_t part = 0; part < LAYER; part++) {
            g_autofree char *forward = g_strdup_printf("forward %d.%s", layer, parts[part]);
            g_autofree char *backward = g_strdup_printf("backward %d.%s", layer, parts[part]);
            set_operator(trace, LAYER * (uint32_t)layer + part, forward, TRACE_FORWARD, layer);
            set_operator(trace, END - 1 - (LAYER * (uint32_t)layer + part), backward,
                         TRACE_BACKWARD, layer);
        }
    set_operator(trace, HEAD, "forward head", TRACE_FORWARD, -1);
    set_operator(trace, HEAD_BACK, "backward head", TRACE_BACKWARD, -1);
    for (uint32_t layer = 0; layer < 2; layer++) {
        uint32_t first = LAYER * layer, back = END - 1 - first;
        set_buffer(trace, 10, first + NORM, back - NORM, true);
        set_buffer(trace, 5, first + NORM, first + UP, false);
        set_buffer(trace, 100, first + UP, back - UP, true);
        set_buffer(trace, 1000, first + ADD, first + ADD + 1, false);
    }
    trace_sum_buffers(trace);
    return trace;
}

static void assert_moments(const struct trace *trace, uint32_t count, const uint64_t *bytes)
{
    g_assert_cmpuint(trace->operator_count, ==, count);
    for (uint32_t m = 0; m < count; m++) {
        g_test_message("moment %u, %s", m, trace->operators[m].name);
        g_assert_cmpuint(trace->non_model_bytes[m], ==, bytes[m]);
    }
}

static void test_by_hand(void)
{
    struct trace *trace = two_layers();
    const uint64_t traced[END] = {15,  115, 1110, 1125, 225, 1220, 1220,
                                  220, 220, 220,  120,  110, 110,  10};
    assert_moments(trace, END, traced);
    const uint8_t second[] = {0, 1};
    struct trace *again = trace_recompute(trace, second);
    GError *error = NULL;
    trace_check(again, "again", &error);
    g_assert_no_error(error);

    /* The second layer's norm and product run again before its backward. Its input, a sum of the
     * first layer that died at its first operator, stays until then. Its own sum, which the head
     * reads, ends where it did. */
    const uint64_t bytes[] = {15,   115,  1110, 1125, 1225, 2220, 2110, 1110,
                              1125, 1225, 220,  220,  120,  110,  110,  10};
    assert_moments(again, G_N_ELEMENTS(bytes), bytes);
    g_assert_cmpstr(again->operators[8].name, ==, "recompute 1.norm");
    g_assert_cmpstr(again->operators[9].name, ==, "recompute 1.up");
    g_assert_cmpstr(again->operators[10].name, ==, "backward 1.add");
    g_assert_cmpuint(again->operators[9].duration_ns, ==, trace->operators[LAYER + UP].duration_ns);
    g_assert_cmpuint(again->operators[9].flops, ==, trace->operators[LAYER + UP].flops);
    g_assert_cmpint(again->operators[9].phase, ==, TRACE_BACKWARD);
    g_assert_cmpuint(again->accesses[again->operators[9].first_access].list, ==, TRACE_PARAM);
    g_assert_true(again->estimated);
    trace_free(again);
    trace_free(trace);
}

/* What cannot run again stays. */
static void test_stays(void)
{
    struct trace *trace = two_layers();
    const uint8_t both[] = {1, 1}, none[] = {0, 0};
    g_autofree char *digest = trace_digest(trace);
    struct trace *copy = trace_recompute(trace, none);
    g_autofree char *same = trace_digest(copy);
    g_assert_cmpstr(same, ==, digest);
    g_assert_false(copy->estimated);
    trace_free(copy);

    trace->operators[LAYER + UP].place = TRACE_ON_HOST;
    trace->accesses[NORM].mode = TRACE_UPDATE;
    copy = trace_recompute(trace, both);
    g_assert_cmpuint(copy->operator_count, ==, END);
    trace_free(copy);

    trace->accesses[NORM].mode = TRACE_READ;
    copy = trace_recompute(trace, both);
    g_assert_cmpuint(copy->operator_count, ==, END + 2); /* the first layer alone */
    trace_free(copy);

    g_assert_true(trace_may_recompute(trace));
    trace->list_element_bytes[TRACE_GRAD] = 0;
    g_assert_false(trace_may_recompute(trace));
    trace_free(trace);
}

/* ---- pstar's own description ---- */

static struct trace *describe(const struct model_config *config, uint32_t micro_batches,
                              uint8_t *recompute)
{
    GError *error = NULL;
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    const struct model_job job = {
        .choices = {.batch = 2, .micro_batches = micro_batches, .recompute = recompute},
        .sequence = 64,
        .precision = MODEL_FP32};
    g_assert_no_error(error);
    struct trace *trace = model_synthesise(config, &job, platform, &error);
    g_assert_no_error(error);
    platform_free(platform);
    return trace;
}

static uint64_t peak(const struct trace *trace)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        most = MAX(most, trace->non_model_bytes[m]);
    return most;
}

/* Returns the operators that run again, with those of each layer in their order. */
static GPtrArray *repeated(const struct trace *trace)
{
    GPtrArray *names = g_ptr_array_new();
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_has_prefix(trace->operators[m].name, "recompute "))
            g_ptr_array_add(names, trace->operators[m].name);
    return names;
}

/* pstar's own runs need as much memory at their peak. They run the same operators again, except
 * that they leave out some whose results nothing in backward reads. */
static void test_models(void)
{
    static const char *const configs[] = {"gpt2", "pythia-70m", "qwen3-0.6b"};
    GRand *random = g_rand_new_with_seed(g_test_rand_int());
    for (size_t i = 0; i < G_N_ELEMENTS(configs); i++) {
        g_autofree char *path = g_strdup_printf(PROJECT_DIR "/models/configs/%s.json", configs[i]);
        struct model_config *config = model_config_read(path, NULL);
        g_assert_nonnull(config);
        g_autofree uint8_t *marks = g_new0(uint8_t, config->layers);
        uint32_t micro_batches = (uint32_t)g_rand_int_range(random, 1, 4);
        for (uint32_t l = 0; l < config->layers; l++)
            marks[l] = (uint8_t)g_rand_int_range(random, 0, 2);
        struct trace *kept = describe(config, micro_batches, NULL);
        struct trace *own = describe(config, micro_batches, marks);
        struct trace *again = trace_recompute(kept, marks);
        GError *error = NULL;
        trace_check(again, "again", &error);
        g_assert_no_error(error);
        struct run_choices *choices = run_choices_of(again);
        g_assert_cmpmem(choices->recompute, config->layers, marks, config->layers);
        run_choices_free(choices);

        g_autoptr(GPtrArray) mine = repeated(again), theirs = repeated(own);
        g_test_message("%s: %u and %u operators run again, peaks %" G_GUINT64_FORMAT
                       " and %" G_GUINT64_FORMAT ", traced %" G_GUINT64_FORMAT,
                       configs[i], mine->len, theirs->len, peak(again), peak(own), peak(kept));
        g_assert_cmpuint(mine->len, >=, theirs->len);
        for (guint k = 0, at = 0; k < theirs->len; k++, at++) {
            while (at < mine->len && !g_str_equal(mine->pdata[at], theirs->pdata[k]))
                at++;
            g_assert_cmpuint(at, <, mine->len);
        }
        g_assert_cmpuint(peak(again), ==, peak(own));
        trace_free(kept);
        trace_free(own);
        trace_free(again);
        model_config_free(config);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/recompute/by_hand", test_by_hand);
    g_test_add_func("/recompute/stays", test_stays);
    g_test_add_func("/recompute/models", test_models);
    return g_test_run();
}
