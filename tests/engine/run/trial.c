#include "trial.h"

#include "chunks/nvme_homes.h"
#include "engine/kernels.h"
#include "engine/train/checkpoint.h"
#include "models/train_choice.h"
#include "tests/chunks/check_figures.h"
#include "tests/models/family_parts.h"

#include <glib/gstdio.h>
#include <string.h>

enum { LAYERS = 3, BATCH = 2, SEQUENCE = 16, ROWS = BATCH * SEQUENCE, VOCABULARY = 203 };

static struct model_config config_of(const struct trial_job *job)
{
    struct model_config config = {
        .name = "trial",
        .layers = LAYERS,
        .width = 32,
        .heads = 4,
        .inner = 112,
        .positions = 24,
        .vocabulary = VOCABULARY,
        .tied = job->tied,
        .embedding_dropout = job->dropout,
        .attention_dropout = job->dropout,
        .residual_dropout = job->dropout,
        .norm_epsilon = 1e-5,
        .initializer_range = 0.2,
    };
    if (job->family)
        set_family(job->family, 10, 7, &config);
    config.balance = job->family == &family_qwen3_moe ? 0.5 : 0; /* of Mixtral it does not count */
    return config;
}

struct trial_placement trial_resident(void)
{
    return (struct trial_placement){.chunk_bytes = 1 << 20,
                                    .policy = &policy_opt,
                                    .room = 1,
                                    .host_room = 0,
                                    .evaluate_at = TRIAL_STEPS};
}

struct trial_placement trial_draw(GRand *random)
{
    uint32_t policies = 0;
    while (policy_all[policies])
        policies++;
    bool tight = g_rand_int_range(random, 0, 3) == 0;
    return (struct trial_placement){
        .chunk_bytes = 256u * (uint32_t)g_rand_int_range(random, 1, 200),
        .policy = policy_all[g_rand_int_range(random, 0, (gint32)policies)],
        .room = tight ? 0 : g_rand_double(random),
        .host_room = g_rand_boolean(random) ? 1 : g_rand_double(random),
        .look_ahead = (uint32_t)g_rand_int_range(random, 0, 6),
        .recompute = (uint32_t)g_rand_int_range(random, 0, 1 << LAYERS),
        .offload = (uint32_t)g_rand_int_range(random, 0, 1 << LAYERS),
        .host_embedding = g_rand_boolean(random),
        .split_masters = g_rand_boolean(random),
        .gelu_apart = g_rand_boolean(random),
        .state_block = g_rand_boolean(random) ? TRACE_BLOCK_STEP : 0,
        .host_update = (uint32_t[]){0, NO_INDEX,
                                    g_rand_int(random)}[g_rand_int_range(random, 0, 3)],
        .first_update = g_rand_boolean(random) ? (uint32_t)g_rand_int_range(random, 0, 1 << 16) : 0,
        .nvme = g_rand_boolean(random),
        .cut_from_bytes = g_rand_boolean(random) ? (uint64_t)g_rand_int_range(random, 1, 20000) : 0,
        .link_rate = g_rand_int_range(random, 0, 4) == 0 ? 300e6 : 0,
        .through_file = g_rand_boolean(random),
        .evaluate_at = (uint32_t)g_rand_int_range(random, 0, TRIAL_STEPS + 1),
    };
}

char *trial_describe(const struct trial_job *job, const struct trial_placement *p)
{
    return g_strdup_printf(
        "%s, %s%s, trains %s, %u micro-batches, %s, dropout %g; chunks of %" G_GUINT64_FORMAT
        ", %s, room %.3f, host %.3f, look-ahead %u, recompute %u, offload %u%s%s%s%s, host "
        "updates %x from %u on%s, cut from %" G_GUINT64_FORMAT ", link %g%s, evaluated at %u, "
        "saved at %u",
        job->family ? job->family->type : "gpt2", job->precision == MODEL_BF16 ? "bf16" : "fp32",
        job->delay ? ", delayed" : "", job->train ? job->train : "all", job->micro_batches,
        job->tied ? "tied" : "untied", job->dropout, p->chunk_bytes,
        p->strategy ? p->strategy : p->policy->name, p->room, p->host_room, p->look_ahead,
        p->recompute, p->offload, p->host_embedding ? ", host embedding" : "",
        p->split_masters ? ", split masters" : "", p->gelu_apart ? ", GELU apart" : "",
        p->state_block ? ", blocks" : "", p->host_update, p->first_update, p->nvme ? ", NVMe" : "",
        p->cut_from_bytes, p->link_rate, p->through_file ? ", from a file" : "", p->evaluate_at,
        p->save_at);
}

/* ---- the plan ---- */

static uint64_t between(uint64_t least, uint64_t most, double room)
{
    return least + (uint64_t)(room * (double)(MAX(most, least) - least));
}

/* The number that a message ends with, as in "1024 bytes would fit". */
static uint64_t would_fit(const GError *error)
{
    const char *end = strstr(error->message, " bytes would fit");
    g_assert_nonnull(end);
    while (end > error->message && g_ascii_isdigit(end[-1]))
        end--;
    return g_ascii_strtoull(end, NULL, 10);
}

/* Without a host budget, all states that only the host uses live in NVMe, and with one, as few
 * chunks as make the host pool fit, at most all that can. */
static void give_nvme(struct plan *plan, const struct trace *trace, const struct non_model *places,
                      double host_room)
{
    GError *error = NULL;
    struct accesses *accesses = accesses_new(trace, plan->layout, places->extent);
    uint64_t host = (uint64_t)(host_room * (double)plan->host_pool_bytes);
    struct nvme_budget budget = {.host_bytes = host_room < 1 ? host : UINT64_MAX,
                                 .nvme_bytes = UINT64_MAX};
    bool given = nvme_homes_give(plan, trace, accesses, &budget, &error);
    if (!given && host_room < 1 && strstr(error->message, " bytes would fit")) {
        budget.host_bytes = would_fit(error);
        g_assert_true(nvme_homes_give(plan, trace, accesses, &budget, NULL));
    }
    g_clear_error(&error);
    accesses_free(accesses);
}

/* Budgets from the least that fits, as its refusal says, to all there is. */
static struct plan *draw_plan(const struct trace *trace, const struct layout *layout,
                              const struct trial_placement *placement)
{
    struct non_model *places = non_model_place(trace);
    uint64_t all = layout_slot_bytes(layout) + places->peak_bytes;
    struct dry_run_options options = {.device_budget = UINT64_MAX / 2,
                                      .host_budget = UINT64_MAX,
                                      .policy = placement->policy,
                                      .look_ahead = placement->look_ahead};
    GError *error = NULL;
    if (placement->host_room < 1) {
        options.host_budget = 0;
        struct plan *unlimited = dry_run(trace, layout, &options, &error);
        options.host_budget = between(error ? would_fit(error) : 0, all, placement->host_room);
        plan_free(unlimited);
        g_clear_error(&error);
    }
    options.device_budget = 0;
    g_assert_null(dry_run(trace, layout, &options, &error));
    options.device_budget = between(would_fit(error), all, placement->room);
    g_clear_error(&error);
    struct plan *plan = dry_run(trace, layout, &options, &error);
    g_assert_no_error(error);
    if (placement->nvme)
        give_nvme(plan, trace, places, placement->host_room);
    non_model_free(places);
    return plan;
}

/* From the least device memory that fits, which its refusals say, to all there is. */
static struct plan *draw_strategy(const struct trace *trace, const struct layout *layout,
                                  const struct trial_placement *placement, bool unclipped)
{
    GError *error = NULL;
    GPtrArray *strategies = strategy_parse_list(placement->strategy, &error);
    g_assert_no_error(error);
    struct non_model *places = non_model_place(trace);
    uint64_t all = layout_slot_bytes(layout) + places->peak_bytes, needed = 0;
    const struct nvme_budget nvme = {.host_bytes = UINT64_MAX, .nvme_bytes = UINT64_MAX};
    const struct strategy *strategy = g_ptr_array_index(strategies, 0);
    struct strategy_job job = {.trace = trace,
                               .layout = layout,
                               .non_model = places->extent,
                               .nvme = strategy->ops->in_nvme ? &nvme : NULL,
                               .device_budget = (uint64_t)(placement->room * (double)all),
                               .host_budget = UINT64_MAX,
                               .unclipped = unclipped};
    struct trace *placed;
    struct plan *plan;
    while (!(plan = strategy_plan(strategy, &job, &placed, &needed, &error))) {
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
        g_assert_cmpuint(needed, >, job.device_budget);
        g_assert_cmpuint(needed, ==, would_fit(error));
        job.device_budget = needed;
        g_clear_error(&error);
    }
    trace_free(placed);
    non_model_free(places);
    g_ptr_array_unref(strategies);
    return plan;
}

static struct plan *read_back(struct plan *plan, const char *folder)
{
    GError *error = NULL;
    g_autofree char *path = g_build_filename(folder, "plan.json", NULL);
    plan_write(plan, path, &error);
    g_assert_no_error(error);
    plan_free(plan);
    plan = plan_read(path, &error);
    g_assert_no_error(error);
    g_remove(path);
    return plan;
}

static struct plan *make_plan(const struct trace *trace, const struct trial_placement *placement,
                              bool unclipped, const char *folder)
{
    GError *error = NULL;
    struct layout *layout = layout_pack_uniform(trace, placement->chunk_bytes, &error);
    g_assert_no_error(error);
    struct plan *plan = placement->strategy ? draw_strategy(trace, layout, placement, unclipped)
                                            : draw_plan(trace, layout, placement);
    layout_free(layout);
    plan->cut_from_bytes = placement->cut_from_bytes;
    return placement->through_file ? read_back(plan, folder) : plan;
}

/* ---- training ---- */

struct training {
    struct model_config config;
    struct model_iteration *iteration;
    struct non_model *places;
    struct plan *plan;
    struct engine *engine;
};

/* Split masters leave no embedding to the host where gradients are consumed in backward. */
static void choose_masters(struct model_job *model_job, const struct trial_job *job,
                           const struct trial_placement *placement)
{
    model_job->choices.state_block = placement->state_block;
    model_job->choices.split_masters = placement->split_masters && job->precision == MODEL_BF16 &&
                                       !job->delay;
    model_job->choices.second_backward = job->clip > 0 &&
                                         model_gradient_layout(model_job) == MODEL_GRADIENT_BUFFER;
    model_job->choices.host_embedding &= model_gradient_layout(model_job) != MODEL_GRADIENT_BUFFER;
}

static void open_training(struct training *t, const struct trial_job *job,
                          const struct trial_placement *placement, const char *folder)
{
    GError *error = NULL;
    uint8_t recompute[LAYERS], offload[LAYERS];
    for (int l = 0; l < LAYERS; l++) {
        recompute[l] = placement->recompute >> l & 1;
        offload[l] = placement->offload >> l & 1;
    }
    t->config = config_of(job);
    g_autofree uint8_t *frozen = NULL;
    g_assert_true(model_choose_trained(&t->config, job->train, 0, &frozen, NULL));
    g_autofree uint8_t *host_update = model_every_tensor(&t->config);
    for (uint32_t tensor = 0; tensor < model_tensor_count(&t->config); tensor++)
        host_update[tensor] = placement->host_update >> tensor % 32 & 1;
    struct model_job model_job = {
        .choices = {.batch = BATCH,
                    .micro_batches = job->micro_batches,
                    .recompute = recompute,
                    .offload = offload,
                    .host_embedding = placement->host_embedding,
                    .host_update = host_update,
                    .first_update = placement->first_update % model_tensor_count(&t->config),
                    .frozen = frozen},
        .sequence = SEQUENCE,
        .precision = job->precision,
        .delay = job->delay,
        .gelu_apart = placement->gelu_apart};
    choose_masters(&model_job, job, placement);
    t->iteration = model_iteration_new(&t->config, &model_job, &error);
    g_assert_no_error(error);
    t->plan = make_plan(t->iteration->trace, placement, job->clip == 0, folder);
    if (placement->strategy) { /* the run is the plan's */
        model_iteration_free(t->iteration);
        model_job.choices.host_update = t->plan->choices->host_update;
        model_job.choices.first_update = 0;
        model_job.choices.update_after = t->plan->choices->update_after;
        t->iteration = model_iteration_new(&t->config, &model_job, &error);
        g_assert_no_error(error);
    }
    t->places = non_model_place(t->iteration->trace);
    plan_check_placed(t->plan, t->iteration->trace, t->places, &error);
    g_assert_no_error(error);
    const struct engine_options options = {.iteration = t->iteration,
                                           .places = t->places,
                                           .plan = t->plan,
                                           .device = placement->device ? placement->device
                                                                       : &device_cpu,
                                           .h2d_rate = placement->link_rate,
                                           .d2h_rate = placement->link_rate,
                                           .threads = 1,
                                           .nvme = folder,
                                           .nvme_block_bytes = 12288,
                                           .nvme_depth = 2};
    t->engine = engine_open(&options, &error);
    g_assert_no_error(error);
}

static void close_training(struct training *t)
{
    g_assert_true(engine_counts_agree(t->engine));
    engine_close(t->engine);
    plan_free(t->plan);
    non_model_free(t->places);
    model_iteration_free(t->iteration);
}

/* In some steps, a third of the targets do not count. Returns the number of those that do. */
static uint64_t draw_tokens(uint32_t step, uint32_t micro_batches, uint32_t *tokens)
{
    uint64_t targets = 0;
    bool masked = step % 4 == 1 || step % 4 == 2;
    GRand *random = g_rand_new_with_seed(step + 1);
    for (uint32_t m = 0; m < micro_batches; m++, tokens += 2 * ROWS)
        for (uint32_t i = 0; i < ROWS; i++) {
            tokens[i] = (uint32_t)g_rand_int_range(random, 0, VOCABULARY);
            bool counts = !masked || (tokens[i] + i) % 3 > 0;
            tokens[ROWS + i] = counts ? (tokens[i] * 7 + 3) % VOCABULARY : KERNEL_NO_TARGET;
            targets += counts;
        }
    g_rand_free(random);
    return targets;
}

static void take_steps(struct training *t, double clip, uint32_t first, uint32_t end,
                       uint32_t evaluate_at, struct trial_result *result)
{
    uint32_t tokens[2 * 2 * ROWS];
    GError *error = NULL;
    for (uint32_t step = first; step < end; step++) {
        struct engine_result taken;
        if (step == evaluate_at) {
            uint64_t targets = draw_tokens(1001, 1, tokens);
            engine_forward(t->engine, tokens, targets, &result->evaluated, &error);
            g_assert_no_error(error);
        }
        uint64_t targets = draw_tokens(step, t->iteration->job.choices.micro_batches, tokens);
        const struct engine_step options = {.step = step,
                                            .tokens = tokens,
                                            .targets = targets,
                                            .seed = 11,
                                            .learning_rate = 0.01,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .epsilon = 1e-8,
                                            .weight_decay = 0.1,
                                            .clip = clip};
        engine_step(t->engine, &options, &taken, &error);
        g_assert_no_error(error);
        check_figures(&taken.figures, &t->plan->predicted);
        result->loss[step] = taken.loss;
        result->gradient_norm[step] = taken.gradient_norm;
    }
}

static char *digest_weights(struct training *t)
{
    const struct trace *trace = t->iteration->trace;
    const struct weights_store store = engine_store(t->engine);
    const enum trace_list lists[] = {weights_list(trace), TRACE_PARAM, TRACE_EXP_AVG,
                                     TRACE_EXP_AVG_SQ};
    GChecksum *checksum = g_checksum_new(G_CHECKSUM_SHA256);
    engine_flush(t->engine);
    for (uint32_t tensor = 0; tensor < trace->tensor_count; tensor++) {
        uint64_t count = trace->tensors[tensor].elements;
        g_autofree float *values = g_new(float, count);
        for (size_t l = 0; l < G_N_ELEMENTS(lists); l++) {
            if (!trace_has(trace, lists[l], tensor))
                continue;
            store.read(store.self, tensor, lists[l], 0, count, values, NULL);
            g_checksum_update(checksum, (const guchar *)values, (gssize)(count * sizeof *values));
        }
    }
    char *digest = g_strdup(g_checksum_get_string(checksum));
    g_checksum_free(checksum);
    return digest;
}

static void save(struct training *t, uint32_t steps, const char *folder)
{
    GError *error = NULL;
    const struct model_job *job = &t->iteration->job;
    struct checkpoint_state state = {.step = steps,
                                     .batch = job->choices.batch,
                                     .sequence = job->sequence,
                                     .micro_batches = job->choices.micro_batches,
                                     .precision = t->iteration->trace->precision,
                                     .delay = t->iteration->job.delay,
                                     .model = (char *)"model",
                                     .data_order = (char *)"random",
                                     .data_digest = (char *)"none"};
    const struct weights_store store = engine_store(t->engine);
    /* Frozen tensors are in the weights' files alone, which are in bf16 only if that is exact. */
    bool halves = steps % 2 && !run_freezes(&t->iteration->job.choices);
    const struct weights_form form = {.halves = halves, .file_bytes = 4096 * steps};
    const struct checkpoint_content content = {.state = &state,
                                               .config = &t->config,
                                               .trace = t->iteration->trace,
                                               .store = &store,
                                               .form = &form};
    engine_flush(t->engine);
    checkpoint_save(folder, &content, 1, &error);
    g_assert_no_error(error);
}

static void load(struct training *t, const char *folder)
{
    GError *error = NULL;
    const struct weights_store store = engine_store(t->engine);
    struct weights_form form;
    if (t->config.lora_rank) /* a checkpoint has the adapters alone */
        weights_initialise(&t->config, t->iteration->trace, 5, &store, &error);
    if (folder)
        checkpoint_load(folder, &t->config, t->iteration->trace, t->iteration->job.delay, &store,
                        &form, &error);
    else
        weights_initialise(&t->config, t->iteration->trace, 5, &store, &error);
    g_assert_no_error(error);
    engine_start(t->engine);
}

static void remove_folder(const char *folder)
{
    GDir *dir = g_file_test(folder, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(folder, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        remove_folder(path);
    }
    if (dir)
        g_dir_close(dir);
    g_remove(folder);
}

struct trial_result trial_run(const struct trial_job *job, const struct trial_placement *placement)
{
    struct trial_result result = {.evaluated = 0};
    struct training t;
    g_autofree char *folder = g_dir_make_tmp("pstar-trial-XXXXXX", NULL);
    g_autofree char *checkpoint = g_build_filename(folder, "checkpoint", NULL);
    open_training(&t, job, placement, folder);
    result.device_budget = t.plan->arena_bytes;
    result.model_bytes = trace_model_bytes(t.iteration->trace);
    load(&t, NULL);
    if (placement->save_at) {
        take_steps(&t, job->clip, 0, placement->save_at, placement->evaluate_at, &result);
        save(&t, placement->save_at, checkpoint);
        close_training(&t);
        open_training(&t, job, placement->resumed, folder);
        load(&t, checkpoint);
        remove_folder(checkpoint);
    }
    take_steps(&t, job->clip, placement->save_at, TRIAL_STEPS, placement->evaluate_at, &result);
    result.weights = digest_weights(&t);
    close_training(&t);
    remove_folder(folder);
    return result;
}
