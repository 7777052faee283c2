/* What forward leaves for backward: lives of buffers, recomputed layers, offloaded activations, and
 * a backward that runs twice. */
#include "small_model.h"

#include <string.h>

/* A buffer lives from the first to the last operator that names it, no longer, and takes whole
 * multiples of 256 bytes; it is saved when that spans the end of forward. */
static void check_lives(const struct model_iteration *iteration)
{
    const struct trace *trace = iteration->trace;
    uint32_t *first = g_new(uint32_t, trace->buffer_count);
    uint32_t *last = g_new0(uint32_t, trace->buffer_count);
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        first[b] = NO_INDEX;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        enum { OTHERS = MODEL_TENSORS + 2 };
        uint32_t used[OTHERS + MODEL_INPUTS + MODEL_OUTPUTS] = {op->workspace, op->masked};
        memcpy(used + 2, op->gradient, sizeof op->gradient);
        memcpy(used + OTHERS, op->in, sizeof op->in);
        memcpy(used + OTHERS + MODEL_INPUTS, op->out, sizeof op->out);
        for (size_t i = 0; i < G_N_ELEMENTS(used); i++) {
            if (used[i] == NO_INDEX)
                continue;
            first[used[i]] = MIN(first[used[i]], m);
            last[used[i]] = m;
        }
    }
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        g_assert_cmpuint(buffer->first, ==, first[b]);
        g_assert_cmpuint(buffer->last, ==, last[b]);
        g_assert_cmpuint(buffer->bytes % 256, ==, 0);
        bool spans = trace->operators[first[b]].phase == TRACE_FORWARD &&
                     trace->operators[last[b]].phase == TRACE_BACKWARD;
        g_assert_cmpint(buffer->saved, ==, spans);
    }
    g_free(first);
    g_free(last);
}

static void test_lives(void)
{
    for (unsigned choice = 0; choice < 32; choice++) {
        uint8_t all[3] = {1, 1, 1}, one[3] = {0, 1, 0};
        struct model_config config = small_model(choice & 1, choice & 2 ? 0.1 : 0);
        struct model_job job = small_job(choice & 4 ? MODEL_BF16 : MODEL_FP32, 1 + (choice & 1));
        job.choices.recompute = choice & 8 ? all : one;
        job.choices.split_masters = choice & 16 && job.precision == MODEL_BF16;
        struct model_iteration *iteration = new_iteration(&config, &job);
        check_lives(iteration);
        model_iteration_free(iteration);
    }
}

/* A layer that is recomputed saves its input, and with it nothing else; its operators run again
 * before its backward, all but the last product. */
static void test_recompute(void)
{
    uint8_t recompute[3] = {0, 1, 0};
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_BF16, 1);
    struct model_iteration *kept = new_iteration(&config, &job);
    job.choices.recompute = recompute;
    struct model_iteration *again = new_iteration(&config, &job);
    const struct trace *trace = again->trace;

    g_assert_cmpuint(trace->operator_count, ==, kept->trace->operator_count + 6);
    g_assert_cmpuint(find_operator(trace, "recompute h.1.mlp.c_fc", 0) + 1, ==,
                     find_operator(trace, "backward h.1.mlp.c_proj", 0));
    g_assert_cmpuint(again->forward_end, ==, kept->forward_end);
    uint32_t attend = find_operator(trace, "forward h.1.attn", 0);
    uint32_t repeat = find_operator(trace, "recompute h.1.attn", 0);
    g_assert_cmpint(trace->operators[repeat].phase, ==, TRACE_BACKWARD);
    g_assert_cmpuint(again->operators[attend].dropout_site, ==,
                     again->operators[repeat].dropout_site);
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        if (buffer->saved && g_str_has_prefix(buffer->name, "h.1."))
            g_assert_cmpstr(buffer->name, ==, "h.1.output");
    }
    model_iteration_free(kept);
    model_iteration_free(again);
}

static bool is_held(const struct trace *trace, const uint8_t *held, const char *name)
{
    bool found = false;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        found |= held[b] && g_str_equal(trace->buffers[b].name, name);
    return found;
}

/* Chunks hold what the layer saves, all but a few floats a row, and a recomputed layer's input.
 * What is not held lies as it did, and nothing else of the iteration changes. */
static void test_offload(void)
{
    uint8_t recompute[3] = {0, 1, 0}, offload[3] = {1, 1, 0};
    struct model_config config = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_BF16, 2);
    job.choices.recompute = recompute;
    struct model_iteration *kept = new_iteration(&config, &job);
    job.choices.offload = offload;
    struct model_iteration *offloaded = new_iteration(&config, &job);
    const struct trace *trace = offloaded->trace;
    g_autofree uint8_t *held = trace_held_buffers(trace);

    g_assert_null(trace_held_buffers(kept->trace));
    g_assert_nonnull(held);
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        g_assert_cmpstr(buffer->name, ==, kept->trace->buffers[b].name);
        if (!held[b])
            continue;
        g_assert_true(buffer->saved);
        g_assert_false(g_str_has_suffix(buffer->name, "stats"));
    }
    static const char *const names[] = {"embeddings", "h.0.attn.qkv", "h.0.mlp.inner",
                                        "h.0.output"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        g_assert_true(is_held(trace, held, names[i]));
    g_assert_false(is_held(trace, held, "h.0.attn.lse"));
    g_assert_false(is_held(trace, held, "h.1.attn.qkv"));
    g_assert_false(is_held(trace, held, "h.1.output")); /* the third layer's input */
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        g_assert_cmpuint(trace->operators[m].bytes, ==, kept->trace->operators[m].bytes);
        g_assert_cmpuint(trace->non_model_bytes[m], <=, kept->trace->non_model_bytes[m]);
    }
    model_iteration_free(kept);
    model_iteration_free(offloaded);
}

/* An embedding on the host sends its output into a buffer that no chunk holds. */
static void test_offload_host_embedding(void)
{
    uint8_t offload[3] = {1, 1, 1};
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    job.choices.offload = offload;
    job.choices.host_embedding = true;
    struct model_iteration *iteration = new_iteration(&config, &job);
    g_autofree uint8_t *held = trace_held_buffers(iteration->trace);
    g_assert_false(is_held(iteration->trace, held, "embeddings"));
    g_assert_true(is_held(iteration->trace, held, "h.0.ln_1"));
    model_iteration_free(iteration);
}

/* All but the classifier and the embedding runs backward twice, each time over what forward saved
 * or what is computed again then. */
static void test_second_backward(void)
{
    GError *error = NULL;
    uint8_t recompute[3] = {0, 1, 0};
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    job.choices.recompute = recompute;
    job.choices.split_masters = job.choices.second_backward = true;
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    uint32_t forward = 1 + 3 * 7 + 3, layers = 1 + 3 * 7 + 6;
    g_assert_cmpuint(trace->operator_count, ==,
                     forward + 1 + layers + 1 + layers + trace->tensor_count);
    uint32_t first = find_operator(trace, "recompute h.1.attn", 0),
             again = find_operator(trace, "recompute again h.1.attn", 0);
    g_assert_cmpuint(first, <, find_operator(trace, "backward embeddings", 0));
    g_assert_cmpuint(find_operator(trace, "update wte.weight", 0), <, again);
    g_assert_cmpuint(iteration->operators[first].out[0], !=, iteration->operators[again].out[0]);
    first = find_operator(trace, "backward h.2.attn", 0);
    again = find_operator(trace, "backward again h.2.attn", 0);
    g_assert_cmpuint(iteration->operators[first].in[1], ==, iteration->operators[again].in[1]);
    g_assert_cmpuint(trace->operators[first].bytes, ==, trace->operators[again].bytes);
    /* Of its moments at the most: what is as large as the vocabulary is gone in the second. */
    g_assert_cmpuint(trace->buffers[iteration->operators[forward - 1].in[0]].last, ==, forward);
    model_iteration_free(iteration);

    job.choices.micro_batches = 2; /* their gradients have a list, and updates come last */
    g_assert_null(model_iteration_new(&config, &job, &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_clear_error(&error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/saved/lives", test_lives);
    g_test_add_func("/saved/recompute", test_recompute);
    g_test_add_func("/saved/offload", test_offload);
    g_test_add_func("/saved/offload-host-embedding", test_offload_host_embedding);
    g_test_add_func("/saved/backward-twice", test_second_backward);
    return g_test_run();
}
