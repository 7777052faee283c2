/* The description of an iteration: tensors, lists, accesses, gradients, updates, digests. */
#include "models/train_choice.h"
#include "small_model.h"

#include <string.h>

static uint32_t find_tensor(const struct trace *trace, const char *name)
{
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        if (!strcmp(trace->tensors[t].name, name))
            return t;
    g_error("no tensor '%s'", name);
}

/* The accesses as one line: "wte.weight param read; ..." */
static char *accesses_text(const struct trace *trace, uint32_t moment)
{
    const struct trace_operator *op = &trace->operators[moment];
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        g_string_append_printf(text, "%s%s %s %s", i ? "; " : "",
                               trace->tensors[access->tensor].name, trace_list_name(access->list),
                               trace_mode_name(access->mode));
    }
    return g_string_free(text, FALSE);
}

static void assert_accesses(const struct model_config *config, const struct model_job *job,
                            const char *name, uint32_t micro_batch, const char *expected)
{
    struct model_iteration *iteration = new_iteration(config, job);
    const struct trace *trace = iteration->trace;
    char *text = accesses_text(trace, find_operator(trace, name, micro_batch));
    g_assert_cmpstr(text, ==, expected);
    g_free(text);
    model_iteration_free(iteration);
}

static void test_tensors(void)
{
    static const char *const expected[] = {"wte.weight 88",
                                           "wpe.weight 40",
                                           "h.0.ln_1.weight 8",
                                           "h.0.ln_1.bias 8",
                                           "h.0.attn.c_attn.weight 192",
                                           "h.0.attn.c_attn.bias 24",
                                           "h.0.attn.c_proj.weight 64",
                                           "h.0.attn.c_proj.bias 8",
                                           "h.0.ln_2.weight 8",
                                           "h.0.ln_2.bias 8",
                                           "h.0.mlp.c_fc.weight 192",
                                           "h.0.mlp.c_fc.bias 24",
                                           "h.0.mlp.c_proj.weight 192",
                                           "h.0.mlp.c_proj.bias 8"};
    struct model_config config = small_model(false, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    uint64_t elements = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        char *text = g_strdup_printf("%s %" G_GUINT64_FORMAT, trace->tensors[t].name,
                                     trace->tensors[t].elements);
        if (t < G_N_ELEMENTS(expected))
            g_assert_cmpstr(text, ==, expected[t]);
        g_free(text);
        elements += trace->tensors[t].elements;
    }
    g_assert_cmpuint(trace->tensor_count, ==, 2 + 3 * 12 + 3);
    g_assert_cmpstr(trace->tensors[trace->tensor_count - 1].name, ==, "lm_head.weight");
    g_assert_cmpuint(elements, ==, model_config_parameters(&config));
    config.tied = true;
    g_assert_cmpuint(elements - 88, ==, model_config_parameters(&config));
    model_iteration_free(iteration);
}

static void test_bytes_per_parameter(void)
{
    static const struct {
        enum model_precision precision;
        uint32_t micro_batches, bytes;
        bool split;
    } expected[] = {{MODEL_FP32, 1, 16, false}, {MODEL_FP32, 2, 16, false},
                    {MODEL_BF16, 1, 14, false}, {MODEL_BF16, 2, 18, false},
                    {MODEL_BF16, 1, 12, true},  {MODEL_BF16, 2, 16, true}};
    struct model_config config = small_model(true, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        struct model_job job = small_job(expected[i].precision, expected[i].micro_batches);
        g_assert_true(
            model_split_masters(&job, expected[i].bytes, &job.choices.split_masters, NULL));
        g_assert_cmpint(job.choices.split_masters, ==, expected[i].split);
        g_assert_cmpuint(model_bytes_per_parameter(&job), ==, expected[i].bytes);
        struct model_iteration *iteration = new_iteration(&config, &job);
        g_assert_cmpuint(trace_model_bytes(iteration->trace), ==,
                         expected[i].bytes * model_config_parameters(&config));
        model_iteration_free(iteration);
    }
}

static void test_no_such_bytes_per_parameter(void)
{
    static const struct {
        enum model_precision precision;
        uint32_t micro_batches, bytes;
        const char *named;
    } bad[] = {{MODEL_FP32, 1, 12, "fp32 it must be 16"},
               {MODEL_BF16, 1, 16, "12 or 14"},
               {MODEL_BF16, 2, 12, "16 or 18"}};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct model_job job = small_job(bad[i].precision, bad[i].micro_batches);
        GError *error = NULL;
        g_assert_false(model_split_masters(&job, bad[i].bytes, &job.choices.split_masters, &error));
        g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
        g_assert_nonnull(strstr(error->message, bad[i].named));
        g_error_free(error);
    }
}

static bool is_at_an_end(const struct model_operator *op)
{
    return op->kind == MODEL_CLASSIFIER_BACKWARD || op->kind == MODEL_EMBED_BACKWARD;
}

/* How many operators after it a gradient in a buffer lives that is complete after `op`: for the
 * updates of its two or three tensors, or none in a first backward, which at its end leaves up to
 * three for updates. */
static uint32_t gradient_waits(const struct model_iteration *iteration,
                               const struct model_operator *op)
{
    if (!op->finishes[0])
        return 0;
    bool left = iteration->choices->second_backward && is_at_an_end(op);
    if (!left)
        return op->t[2] == NO_INDEX ? 2 : 3;
    return op->kind == MODEL_EMBED_BACKWARD ? 3 : UINT32_MAX / 2;
}

/* Where gradients are buffers each lives from the first operator that writes it to its update,
 * which comes before any operator but the other updates of what was finished with it; or to where
 * its norm has been taken. */
static void test_gradients_in_buffers(void)
{
    for (int variant = 0; variant < 4; variant++) {
        struct model_config config = small_model(variant & 1, 0);
        struct model_job job = small_job(MODEL_BF16, 1);
        job.choices.split_masters = true;
        job.choices.second_backward = variant & 2;
        struct model_iteration *iteration = new_iteration(&config, &job);
        const struct trace *trace = iteration->trace;
        g_autofree uint8_t *updated = g_new0(uint8_t, trace->tensor_count);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            const struct model_operator *op = &iteration->operators[m];
            for (int i = 0; i < MODEL_TENSORS; i++) {
                if (op->t[i] == NO_INDEX || op->kind <= MODEL_LOSS)
                    continue;
                g_assert_false(updated[op->t[i]]);
                const struct trace_buffer *buffer = &trace->buffers[op->gradient[i]];
                g_assert_cmpuint(buffer->bytes, >=, 2 * trace->tensors[op->t[i]].elements);
                if (op->finishes[i] || op->norms[i])
                    g_assert_cmpuint(buffer->last, <=, m + gradient_waits(iteration, op));
                updated[op->t[i]] = op->kind == MODEL_UPDATE;
            }
        }
        for (uint32_t t = 0; t < trace->tensor_count; t++)
            g_assert_true(updated[t]);
        model_iteration_free(iteration);
    }
}

/* A cut table of words: its updates add up to the one of the whole, touch each block once, and only
 * the first may overwrite the parameter. */
static void test_blocks(void)
{
    for (int variant = 0; variant < 6; variant++) {
        struct model_config config = small_model(true, 0);
        config.vocabulary = 700; /* 5,600 elements: five blocks and 480 elements */
        struct model_job job = small_job(variant & 1 ? MODEL_BF16 : MODEL_FP32,
                                         variant & 2 ? 2 : 1);
        job.choices.split_masters = variant == 5;
        struct model_iteration *whole = new_iteration(&config, &job);
        job.choices.state_block = TRACE_BLOCK_STEP;
        struct model_iteration *cut = new_iteration(&config, &job);
        uint64_t flops = 0, bytes = 0;
        uint32_t blocks = 0;
        g_assert_cmpuint(whole->trace->state_block, ==, 0);
        g_assert_cmpuint(cut->trace->state_block, ==, TRACE_BLOCK_STEP);
        g_assert_true(trace_check(cut->trace, "cut", NULL));
        g_assert_cmpuint(cut->trace->operator_count, ==, whole->trace->operator_count + 5);
        for (uint32_t m = 0; m < cut->trace->operator_count; m++) {
            const struct model_operator *op = &cut->operators[m];
            const struct trace_operator *traced = &cut->trace->operators[m];
            if (op->kind != MODEL_UPDATE || op->t[0] != 0)
                continue;
            g_autofree char *name = g_strdup_printf("update wte.weight[%u]", blocks);
            g_assert_cmpstr(traced->name, ==, name);
            g_assert_cmpuint(op->block, ==, blocks);
            g_assert_cmpint(op->more, ==, blocks < 5);
            for (uint32_t i = 0; i < traced->access_count; i++) {
                const struct trace_access *a = &cut->trace->accesses[traced->first_access + i];
                g_assert_cmpuint(a->block, ==, a->list >= TRACE_MASTER ? blocks : 0);
                if (a->mode == TRACE_OVERWRITE)
                    g_assert_cmpuint(blocks, ==, 0);
            }
            flops += traced->flops;
            bytes += traced->bytes;
            blocks++;
        }
        g_assert_cmpuint(blocks, ==, 6);
        for (uint32_t m = 0; m < whole->trace->operator_count; m++)
            if (whole->operators[m].kind == MODEL_UPDATE && whole->operators[m].t[0] == 0) {
                g_assert_cmpuint(flops, ==, whole->trace->operators[m].flops);
                /* a gradient's buffer is as long as a multiple of 256 bytes */
                g_assert_cmpuint(bytes, <=, whole->trace->operators[m].bytes);
                g_assert_cmpuint(bytes + 256, >, whole->trace->operators[m].bytes);
            }
        job.choices.state_block = 2 * TRACE_BLOCK_STEP; /* three blocks: not cut */
        struct model_iteration *uncut = new_iteration(&config, &job);
        g_autofree char *a = trace_digest(uncut->trace), *b = trace_digest(whole->trace);
        g_assert_cmpstr(a, ==, b);
        model_iteration_free(uncut);
        model_iteration_free(cut);
        model_iteration_free(whole);
    }
}

/* A number, a 64th of the model but at least 2^20 elements, or none. */
static void test_state_block(void)
{
    struct model_config small = small_model(true, 0), large = small_model(true, 0);
    large.vocabulary = 1 << 24;
    uint64_t block;
    GError *error = NULL;
    g_assert_true(model_state_block(&small, "auto", &block, NULL));
    g_assert_cmpuint(block, ==, 1 << 20);
    g_assert_true(model_state_block(&large, "auto", &block, NULL));
    g_assert_cmpuint(block % TRACE_BLOCK_STEP, ==, 0);
    g_assert_cmpuint(64 * block, >=, model_config_parameters(&large));
    g_assert_cmpuint(64 * (block - TRACE_BLOCK_STEP), <, model_config_parameters(&large));
    g_assert_true(model_state_block(&small, "2048", &block, NULL));
    g_assert_cmpuint(block, ==, 2048);
    g_assert_true(model_state_block(&small, NULL, &block, NULL));
    g_assert_cmpuint(block, ==, 0);
    g_assert_true(model_is_cut(&large, NULL, TRACE_BLOCK_STEP));
    g_assert_false(model_is_cut(&small, NULL, 0));
    g_assert_false(model_is_cut(&small, NULL, TRACE_BLOCK_STEP));
    g_assert_false(model_state_block(&small, "-1", &block, &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_error_free(error);
}

static void test_accesses(void)
{
    struct model_config tied = small_model(true, 0), untied = small_model(false, 0);
    struct model_job fp32 = small_job(MODEL_FP32, 2), bf16 = small_job(MODEL_BF16, 1),
                     bf16_list = small_job(MODEL_BF16, 2), split = bf16, split_list = bf16_list;
    split.choices.split_masters = split_list.choices.split_masters = true;
    const char *c_fc = "backward h.1.mlp.c_fc", *ln = "backward h.1.ln_2",
               *embed = "backward embeddings", *update = "update wpe.weight";

    assert_accesses(&tied, &bf16, "forward h.1.mlp.c_fc", 0,
                    "h.1.mlp.c_fc.weight param read; h.1.mlp.c_fc.bias param read");
    assert_accesses(&tied, &fp32, c_fc, 0,
                    "h.1.mlp.c_fc.weight param read; h.1.mlp.c_fc.weight grad overwrite; "
                    "h.1.mlp.c_fc.bias grad overwrite");
    assert_accesses(&tied, &fp32, c_fc, 1,
                    "h.1.mlp.c_fc.weight param read; h.1.mlp.c_fc.weight grad update; "
                    "h.1.mlp.c_fc.bias grad update");
    assert_accesses(&tied, &bf16, c_fc, 0, "h.1.mlp.c_fc.weight param update");
    assert_accesses(&tied, &bf16, "backward h.1.mlp.c_proj", 0,
                    "h.1.mlp.c_proj.weight param update; h.1.mlp.c_proj.bias param overwrite; "
                    "h.1.mlp.c_fc.bias param overwrite");
    assert_accesses(&tied, &bf16_list, c_fc, 0,
                    "h.1.mlp.c_fc.weight param read; h.1.mlp.c_fc.weight grad overwrite; "
                    "h.1.mlp.c_fc.bias grad overwrite");
    assert_accesses(&tied, &bf16_list, "backward h.1.mlp.c_proj", 0,
                    "h.1.mlp.c_proj.weight param read; h.1.mlp.c_proj.weight grad overwrite; "
                    "h.1.mlp.c_proj.bias grad overwrite");
    assert_accesses(&tied, &bf16, ln, 0,
                    "h.1.ln_2.weight param update; h.1.ln_2.bias param overwrite");
    assert_accesses(&tied, &fp32, ln, 0,
                    "h.1.ln_2.weight param read; h.1.ln_2.weight grad overwrite; "
                    "h.1.ln_2.bias grad overwrite");

    assert_accesses(&tied, &bf16, "backward lm_head", 0, "wte.weight param update");
    assert_accesses(&tied, &bf16, embed, 0, "wte.weight param update; wpe.weight param overwrite");
    assert_accesses(&untied, &bf16, embed, 0,
                    "wte.weight param overwrite; wpe.weight param overwrite");
    assert_accesses(&tied, &fp32, embed, 0, "wte.weight grad update; wpe.weight grad overwrite");
    assert_accesses(&untied, &fp32, embed, 0,
                    "wte.weight grad overwrite; wpe.weight grad overwrite");
    assert_accesses(&untied, &fp32, embed, 1, "wte.weight grad update; wpe.weight grad update");
    assert_accesses(&untied, &fp32, "backward lm_head", 0,
                    "lm_head.weight param read; lm_head.weight grad overwrite");

    assert_accesses(&tied, &fp32, update, 0,
                    "wpe.weight param update; wpe.weight grad read; wpe.weight exp_avg update; "
                    "wpe.weight exp_avg_sq update");
    assert_accesses(&tied, &bf16, update, 0,
                    "wpe.weight param update; wpe.weight master update; "
                    "wpe.weight exp_avg update; wpe.weight exp_avg_sq update");
    assert_accesses(&tied, &bf16_list, update, 0,
                    "wpe.weight param overwrite; wpe.weight grad read; wpe.weight master update; "
                    "wpe.weight exp_avg update; wpe.weight exp_avg_sq update");

    assert_accesses(&tied, &split, c_fc, 0, "h.1.mlp.c_fc.weight param read");
    assert_accesses(&tied, &split, embed, 0, "");
    assert_accesses(&tied, &split, update, 0,
                    "wpe.weight param update; wpe.weight master update; "
                    "wpe.weight exp_avg update; wpe.weight exp_avg_sq update");
    assert_accesses(&tied, &split_list, update, 0,
                    "wpe.weight param update; wpe.weight grad read; wpe.weight master update; "
                    "wpe.weight exp_avg update; wpe.weight exp_avg_sq update");
}

/* Each tensor's gradient is finished once, in the last operator that writes it before the update.
 */
static void test_finishes(void)
{
    for (int tied = 0; tied < 2; tied++) {
        struct model_config config = small_model(tied, 0);
        struct model_job job = small_job(MODEL_FP32, 2);
        struct model_iteration *iteration = new_iteration(&config, &job);
        const struct trace *trace = iteration->trace;
        for (uint32_t t = 0; t < trace->tensor_count; t++) {
            uint32_t written = 0, finished = 0, times = 0;
            for (uint32_t m = 0; m < trace->operator_count; m++) {
                const struct trace_operator *op = &trace->operators[m];
                for (uint32_t i = 0; i < op->access_count; i++) {
                    const struct trace_access *a = &trace->accesses[op->first_access + i];
                    if (a->tensor == t && a->list == TRACE_GRAD && a->mode != TRACE_READ)
                        written = m;
                }
                for (int which = 0; which < MODEL_TENSORS; which++)
                    if (iteration->operators[m].t[which] == t &&
                        iteration->operators[m].finishes[which]) {
                        finished = m;
                        times++;
                    }
            }
            g_assert_cmpuint(times, ==, 1);
            g_assert_cmpuint(finished, ==, written);
        }
        model_iteration_free(iteration);
    }
}

/* Every place that drops draws its own numbers, in backward those of its forward. */
static void check_dropout_sites(const struct model_config *config)
{
    struct model_job job = small_job(MODEL_FP32, 1);
    struct model_iteration *iteration = new_iteration(config, &job);
    unsigned forward = 0, backward = 0;
    uint64_t seen = 0;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++) {
        uint32_t site = iteration->operators[m].dropout_site;
        if (site == NO_INDEX)
            continue;
        g_assert_cmpuint(site, <, 64);
        bool again = seen >> site & 1;
        g_assert_cmpint(again, ==, iteration->trace->operators[m].phase == TRACE_BACKWARD);
        seen |= UINT64_C(1) << site;
        *(again ? &backward : &forward) += 1;
    }
    g_assert_cmpuint(forward, ==, 1 + 3 * 3);
    g_assert_cmpuint(backward, ==, forward);
    model_iteration_free(iteration);
}

static void test_dropout_sites(void)
{
    struct model_config config = small_model(true, 0.1), bert = config;
    set_family(&family_bert, 0, 0, &bert);
    bert.embedding_dropout = 0.1;
    check_dropout_sites(&config);
    check_dropout_sites(&bert);
}

static void test_host_operators(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    g_autofree uint8_t *every = model_every_tensor(&config);
    job.choices.host_embedding = true;
    job.choices.host_update = every;
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    uint64_t x_bytes = (uint64_t)2 * 4 * 8 * 2;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        uint8_t kind = iteration->operators[m].kind;
        bool host = kind == MODEL_EMBED_FORWARD || kind == MODEL_EMBED_BACKWARD ||
                    kind == MODEL_UPDATE;
        g_assert_cmpint(op->place, ==, host ? TRACE_ON_HOST : TRACE_ON_DEVICE);
        g_assert_cmpuint(op->h2d_bytes, ==, kind == MODEL_EMBED_FORWARD ? x_bytes : 0);
        g_assert_cmpuint(op->d2h_bytes, ==, kind == MODEL_EMBED_BACKWARD ? x_bytes : 0);
    }
    model_iteration_free(iteration);
}

/* A gradient that is a buffer on the device comes to an update on the host; no embedding there. */
static void test_host_updates_of_split_masters(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    g_autofree uint8_t *every = model_every_tensor(&config);
    job.choices.host_update = every;
    job.choices.split_masters = true;
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        bool update = op->kind == MODEL_UPDATE;
        g_assert_cmpuint(trace->operators[m].d2h_bytes, ==,
                         update ? 2 * trace->tensors[op->t[0]].elements : 0);
        g_assert_cmpuint(trace->operators[m].h2d_bytes, ==, 0);
    }
    model_iteration_free(iteration);
}

static void test_moments(void)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 2);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    uint32_t forward = 1 + 3 * 7 + 3, backward = 2 + 3 * 7 + 1;
    g_assert_cmpuint(iteration->forward_end, ==, forward);
    g_assert_cmpuint(trace->operator_count, ==, 2 * (forward + backward) + trace->tensor_count);
    g_assert_cmpstr(trace->operators[forward - 1].name, ==, "forward loss");
    g_assert_cmpint(trace->operators[find_operator(trace, "update h.2.ln_1.bias", 0)].layer, ==, 2);
    g_assert_cmpint(trace->operators[find_operator(trace, "update ln_f.bias", 0)].layer, ==, -1);
    g_assert_cmpuint(iteration->operators[trace->operator_count - 1].t[0], ==,
                     find_tensor(trace, "ln_f.bias"));
    model_iteration_free(iteration);
}

static char *digest_of(const struct model_config *config, const struct model_job *job)
{
    struct model_iteration *iteration = new_iteration(config, job);
    char *digest = trace_digest(iteration->trace);
    model_iteration_free(iteration);
    return digest;
}

static void test_digests(void)
{
    uint8_t recompute[3] = {0, 0, 1};
    struct model_config config = small_model(true, 0), dropping = small_model(true, 0.1);
    g_autofree uint8_t *every = model_every_tensor(&config), *some = model_every_tensor(&config);
    some[1] = 0;
    struct model_job jobs[10];
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++)
        jobs[i] = small_job(MODEL_FP32, 1);
    jobs[1].choices.batch = 3;
    jobs[2].sequence = 3;
    jobs[3].precision = MODEL_BF16;
    jobs[4].choices.micro_batches = 2;
    jobs[5].choices.recompute = recompute;
    jobs[6].choices.host_update = every;
    jobs[7].choices.host_update = some;
    jobs[8].precision = MODEL_BF16;
    jobs[8].choices.split_masters = true;
    jobs[9] = jobs[8];
    jobs[9].choices.second_backward = true;
    GHashTable *digests = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        char *again = digest_of(&config, &jobs[i]);
        g_assert_true(g_hash_table_add(digests, digest_of(&config, &jobs[i])));
        g_assert_true(g_hash_table_contains(digests, again));
        g_free(again);
    }
    g_assert_true(g_hash_table_add(digests, digest_of(&dropping, &jobs[0])));
    g_hash_table_unref(digests);
}

static void test_bad_jobs(void)
{
    struct model_config config = small_model(true, 0), large = small_model(true, 0);
    large.positions = large.vocabulary = 1 << 24;
    large.width = 1 << 20;
    struct {
        const struct model_config *config;
        struct model_job job;
        const char *named;
    } bad[] = {{&config, small_job(MODEL_FP32, 0), "micro-batches 0"},
               {&config, small_job(MODEL_FP32, UINT32_MAX), "too large"},
               {&config, small_job(MODEL_FP32, 1), "batch 0"},
               {&config, small_job(MODEL_FP32, 1), "sequence 6"},
               {&large, small_job(MODEL_FP32, 1), "too large"},
               {&config, small_job(MODEL_FP32, 1), "split into halves"},
               {&config, small_job(MODEL_BF16, 1), "embedding cannot run on the host"},
               {&config, small_job(MODEL_FP32, 1), "state blocks of 1000 elements"},
               {&config, small_job(MODEL_FP32, 2), "several ranks"},
               {&large, small_job(MODEL_FP32, 1), "more than 4096"},
               {&config, small_job(MODEL_FP32, 1), "every tensor is frozen"}};
    g_autofree uint8_t *every = model_every_tensor(&config);
    bad[10].job.choices.frozen = every;
    bad[5].job.choices.split_masters = bad[6].job.choices.split_masters =
        bad[6].job.choices.host_embedding = true;
    bad[2].job.choices.batch = 0;
    bad[3].job.sequence = 6;
    bad[4].job.sequence = 1 << 24;
    bad[7].job.choices.state_block = 1000;
    bad[8].job.ranks = 2;
    bad[8].job.choices.state_block = bad[9].job.choices.state_block = TRACE_BLOCK_STEP;
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        g_assert_null(model_iteration_new(bad[i].config, &bad[i].job, &error));
        g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
        g_assert_nonnull(strstr(error->message, bad[i].named));
        g_error_free(error);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/iteration/tensors", test_tensors);
    g_test_add_func("/iteration/bytes-per-parameter", test_bytes_per_parameter);
    g_test_add_func("/iteration/no-such-bytes-per-parameter", test_no_such_bytes_per_parameter);
    g_test_add_func("/iteration/gradients-in-buffers", test_gradients_in_buffers);
    g_test_add_func("/iteration/blocks", test_blocks);
    g_test_add_func("/iteration/state-block", test_state_block);
    g_test_add_func("/iteration/accesses", test_accesses);
    g_test_add_func("/iteration/finishes", test_finishes);
    g_test_add_func("/iteration/dropout-sites", test_dropout_sites);
    g_test_add_func("/iteration/host-operators", test_host_operators);
    g_test_add_func("/iteration/host-updates-of-split-masters", test_host_updates_of_split_masters);
    g_test_add_func("/iteration/moments", test_moments);
    g_test_add_func("/iteration/digests", test_digests);
    g_test_add_func("/iteration/bad-jobs", test_bad_jobs);
    return g_test_run();
}
