#include "planner/answers/emit.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/size.h"
#include "planner/answers/zero3.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* State while a schedule is visited: what is on the device. */
struct summary_walk {
    const struct plan *plan;
    const struct trace *trace;
    uint64_t *elements; /* [chunk_count] parameters; 0 in other lists */
    uint8_t *there;     /* [chunk_count] on the device */
    uint8_t *leaves;    /* [chunk_count] not on the device at some time */
    uint8_t *unused;    /* [chunk_count] fetched and not used since */
    uint64_t live, ahead;
    uint64_t held; /* bytes of parameters and gradients */
    struct plan_summary *summary;
};

static uint64_t *count_elements(const struct plan *plan, const struct trace *trace)
{
    uint64_t *elements = g_new0(uint64_t, plan->layout->chunk_count);
    for (uint32_t t = 0; plan->layout->places[TRACE_PARAM] && t < trace->tensor_count; t++)
        elements[plan->layout->places[TRACE_PARAM][t].chunk] += trace->tensors[t].elements;
    return elements;
}

static uint64_t held_bytes(const struct summary_walk *walk, chunk_id chunk)
{
    const struct chunk *of = &walk->plan->layout->chunks[chunk];
    return of->list == TRACE_PARAM || of->list == TRACE_GRAD ? of->copy_bytes : 0;
}

static void enter(struct summary_walk *walk, chunk_id chunk, bool fetched)
{
    walk->there[chunk] = 1;
    walk->unused[chunk] = fetched;
    walk->live += walk->elements[chunk];
    walk->ahead += fetched ? walk->elements[chunk] : 0;
    walk->held += held_bytes(walk, chunk);
}

static void use(struct summary_walk *walk, chunk_id chunk)
{
    if (walk->unused[chunk])
        walk->ahead -= walk->elements[chunk];
    walk->unused[chunk] = 0;
}

static void leave(struct summary_walk *walk, chunk_id chunk)
{
    use(walk, chunk);
    walk->there[chunk] = 0;
    walk->leaves[chunk] = 1;
    walk->live -= walk->elements[chunk];
    walk->held -= held_bytes(walk, chunk);
}

static void act(struct summary_walk *walk, const struct plan_action *action)
{
    switch ((enum plan_action_kind)action->kind) {
    case PLAN_FETCH:
    case PLAN_ALLOCATE:
        enter(walk, action->chunk, action->kind == PLAN_FETCH);
        break;
    case PLAN_WRITE_BACK:
    case PLAN_DROP:
        leave(walk, action->chunk);
        break;
    case PLAN_FLUSH:
    case PLAN_MOVE:
    case PLAN_WAIT:
    case PLAN_LOAD:
    case PLAN_RESERVE:
    case PLAN_STORE:
    case PLAN_RELEASE:
        break;
    case PLAN_ACTIONS:
        g_assert_not_reached();
    }
}

static void use_operator(struct summary_walk *walk, const struct trace_operator *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &walk->trace->accesses[op->first_access + i];
        use(walk, layout_place_of(walk->plan->layout, access)->chunk);
    }
}

/* Visits one iteration. What it fetches for the next one is still unused when the second pass
 * begins. */
static void walk_iteration(struct summary_walk *walk)
{
    const struct plan *plan = walk->plan;
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        for (uint32_t a = plan->first_action[m]; a < plan->first_action[m + 1]; a++)
            act(walk, &plan->actions[a]);
        walk->summary->live_elements = MAX(walk->summary->live_elements, walk->live);
        walk->summary->held_bytes = MAX(walk->summary->held_bytes, walk->held);
        if (m == plan->moment_count)
            break;
        use_operator(walk, &walk->trace->operators[m]);
        walk->summary->ahead_elements = MAX(walk->summary->ahead_elements, walk->ahead);
    }
}

static void find_tensors_that_stay(const struct summary_walk *walk)
{
    const struct layout_place *places = walk->plan->layout->places[TRACE_PARAM];
    uint64_t least_that_leaves = UINT64_MAX, most = 0;
    for (uint32_t t = 0; places && t < walk->trace->tensor_count; t++)
        if (walk->leaves[places[t].chunk])
            least_that_leaves = MIN(least_that_leaves, walk->trace->tensors[t].elements);
    for (uint32_t t = 0; t < walk->trace->tensor_count; t++)
        if (walk->trace->tensors[t].elements < least_that_leaves)
            most = MAX(most, walk->trace->tensors[t].elements);
    walk->summary->parameters_leave = least_that_leaves != UINT64_MAX;
    walk->summary->stay_elements = most;
}

uint8_t *plan_chunks_that_leave(const struct plan *plan)
{
    uint8_t *leaves = g_new0(uint8_t, plan->layout->chunk_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        leaves[c] = plan->initial_address[c] == NO_ADDRESS;
    for (uint32_t a = 0; a < plan->action_count; a++)
        if (plan->actions[a].kind == PLAN_WRITE_BACK || plan->actions[a].kind == PLAN_DROP)
            leaves[plan->actions[a].chunk] = 1;
    return leaves;
}

/* Adds the bytes of a tensor's states, and of those that live on the host. A chunk that has a home
 * there, but never leaves the device, does not. */
static void add_states(const struct plan *plan, const struct trace *trace, const uint8_t *leaves,
                       tensor_id tensor, uint64_t *all, uint64_t *on_host)
{
    for (int list = TRACE_MASTER; list <= TRACE_EXP_AVG_SQ; list++)
        for (uint32_t b = 0; b < trace_blocks(trace, (enum trace_list)list, tensor); b++) {
            uint64_t bytes = trace_block_bytes(trace, (enum trace_list)list, tensor, b);
            const struct layout_place *places = plan->layout->places[list];
            if (!bytes || !places)
                continue;
            chunk_id chunk = places[layout_place_index(plan->layout, list, tensor, b)].chunk;
            *all += bytes;
            *on_host += plan->host_address[chunk] != NO_ADDRESS && leaves[chunk] ? bytes : 0;
        }
}

static void find_homes(const struct plan *plan, const struct trace *trace, const uint8_t *leaves,
                       struct plan_summary *summary)
{
    uint64_t states = 0, on_host = 0, elements = 0, updated = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        add_states(plan, trace, leaves, t, &states, &on_host);
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        elements += trace->tensors[t].elements;
        if (plan->choices && plan->choices->host_update[t])
            updated += trace->tensors[t].elements;
    }
    summary->states_on_host = states ? (double)on_host / (double)states : 0;
    summary->updated_on_host = elements ? (double)updated / (double)elements : 0;
}

static void find_groups(const struct plan *plan, const uint64_t *elements,
                        struct plan_summary *summary)
{
    g_autofree uint64_t *of_group = g_new0(uint64_t, plan->layout->group_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        uint64_t *group = &of_group[plan->layout->chunks[c].group];
        *group += elements[c];
        summary->group_elements = MAX(summary->group_elements, *group);
    }
}

struct plan_summary plan_summary_of(const struct plan *plan, const struct trace *trace)
{
    uint32_t chunks = plan->layout->chunk_count;
    struct plan_summary summary = {0};
    g_autofree uint64_t *elements = count_elements(plan, trace);
    g_autofree uint8_t *there = g_new0(uint8_t, chunks), *leaves = g_new0(uint8_t, chunks);
    g_autofree uint8_t *unused = g_new0(uint8_t, chunks);
    struct summary_walk walk = {.plan = plan,
                                .trace = trace,
                                .elements = elements,
                                .there = there,
                                .leaves = leaves,
                                .unused = unused,
                                .summary = &summary};
    for (uint32_t c = 0; c < chunks; c++) {
        if (plan->initial_address[c] != NO_ADDRESS)
            enter(&walk, c, false);
        else
            leaves[c] = 1;
    }
    walk_iteration(&walk);
    walk_iteration(&walk);
    find_tensors_that_stay(&walk);
    find_homes(plan, trace, leaves, &summary);
    find_groups(plan, elements, &summary);
    for (uint32_t l = 0; plan->choices && l < plan->choices->layer_count; l++)
        summary.recomputed_layers += plan->choices->recompute[l];
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct chunk *chunk = &plan->layout->chunks[plan->actions[i].chunk];
        if (plan->actions[i].kind != PLAN_FETCH)
            continue;
        summary.offloaded_bytes += chunk->list == TRACE_ACTIVATION ? chunk->copy_bytes : 0;
        summary.gathered_elements += elements[plan->actions[i].chunk];
    }
    summary.layers = plan->choices ? plan->choices->layer_count : 0;
    summary.host_embedding = plan->choices && plan->choices->host_embedding;
    return summary;
}

static void lose(struct emitted *emitted, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void lose(struct emitted *emitted, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_ptr_array_add(emitted->lost, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

/* ---- what neither system can express ---- */

static void lose_schedule(struct emitted *emitted, const struct plan *plan)
{
    g_autofree char *budget = size_format(plan->device_budget);
    uint32_t moves = plan->action_count;
    if (moves)
        lose(emitted,
             "the schedule of %u actions: the other system's own prefetching decides instead",
             moves);
    lose(emitted, "the device budget of %s: the other system does not enforce it", budget);
}

/* The settings may wrap layers that backward computes again, and those whose activations leave. */
static void lose_choices(struct emitted *emitted, const struct plan_summary *summary,
                         bool wraps_layers)
{
    if (summary->recomputed_layers && !wraps_layers)
        lose(emitted,
             "recomputation of %u of %u layers: set it in the model's code, as --emit fsdp2 does",
             summary->recomputed_layers, summary->layers);
    if (summary->offloaded_bytes && !wraps_layers) {
        g_autofree char *bytes = size_format(summary->offloaded_bytes);
        lose(emitted,
             "offloaded activations, %s a step: set them in the model's code, as --emit fsdp2 does",
             bytes);
    }
    if (summary->host_embedding)
        lose(emitted, "the embedding on the host: set it in the model's code");
}

static void lose_layout(struct emitted *emitted, const struct plan *plan, const struct trace *trace)
{
    if (!trace->list_element_bytes[TRACE_GRAD])
        lose(emitted,
             "gradients in place of parameters: the other system's take 2 bytes a parameter more");
    lose(emitted, "the order of tensors in %u chunks", plan->layout->chunk_count);
}

static void lose_nvme(struct emitted *emitted, const struct plan *plan)
{
    g_autofree char *bytes = size_format(plan->nvme_bytes);
    if (plan->nvme_bytes)
        lose(emitted, "%s at home in NVMe: with the settings it is in host memory", bytes);
}

/* Takes the reference. */
static char *json_text(json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(3));
    char *line = g_strconcat(text, "\n", NULL);
    free(text);
    json_decref(root);
    return line;
}

/* ---- DeepSpeed ---- */

/* Memory comes first: in DeepSpeed, data that lives on the host cannot stay on the device, even if
 * it is updated there. */
static double offload_ratio(const struct plan_summary *summary)
{
    double ratio = fmax(summary->states_on_host, summary->updated_on_host);
    return ceil(ratio * 100 - 1e-9) / 100;
}

static void lose_optimizer(struct emitted *emitted, const struct plan_summary *summary)
{
    double ratio = offload_ratio(summary);
    if (ratio - summary->updated_on_host > 0.01)
        lose(emitted,
             "%.0f %% of the optimizer is updated on the device, but lives on the host: the "
             "other system updates it on the host",
             (ratio - summary->updated_on_host) * 100);
    if (ratio > 0 && ratio < 1)
        lose(emitted,
             "%.0f %% of the optimizer that stays on the device: with the loop's own optimizer all "
             "of it runs on the host (stage 3 with DeepSpeedCPUAdam takes offload_optimizer.ratio "
             "%.2f)",
             (1 - ratio) * 100, ratio);
}

static json_t *on_cpu(void)
{
    return json_pack("{s:s, s:b}", "device", "cpu", "pin_memory", 1);
}

/* Returns the elements of the bucket in which gradients leave: at least the largest tensor's,
 * otherwise what the plan holds beside the parameters that DeepSpeed has there. */
static uint64_t bucket_elements(const struct trace *trace, const struct plan_summary *summary,
                                uint64_t live)
{
    uint64_t largest = 1, all = 1;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        largest = MAX(largest, trace->tensors[t].elements);
        all += trace_has(trace, TRACE_GRAD, t) ? trace->tensors[t].elements : 0;
    }
    uint64_t held = summary->held_bytes / trace->list_element_bytes[TRACE_PARAM];
    return MAX(largest, MIN(all, held > live ? held - live : 0));
}

/* Says what DeepSpeed will do with the settings, beside the plan. */
static void predict(struct emitted *emitted, const struct zero3_counts *counts,
                    const struct plan_summary *summary, uint64_t bucket, uint64_t width)
{
    g_autofree char *held = size_format((counts->live + bucket) * width);
    g_autofree char *planned = size_format(summary->held_bytes);
    emitted->predicted = g_strdup_printf("DeepSpeed will gather %" G_GUINT64_FORMAT
                                         " parameters a step (the plan: %" G_GUINT64_FORMAT
                                         "), have at most %" G_GUINT64_FORMAT
                                         " on the device at a time (%" G_GUINT64_FORMAT
                                         "), and hold %s of parameters and gradients (%s).",
                                         counts->gathered, summary->gathered_elements, counts->live,
                                         summary->live_elements, held, planned);
}

/* Parameters leave the device. */
static void add_stage3(struct emitted *emitted, json_t *zero, const struct trace *trace,
                       const struct plan_summary *summary)
{
    struct zero3 *zero3 = zero3_new(trace);
    const struct zero3_counts wanted = {summary->live_elements, summary->gathered_elements};
    const struct zero3_settings settings = zero3_fit(zero3, &wanted, summary->ahead_elements);
    const struct zero3_counts counts = zero3_count(zero3, &settings);
    uint64_t bucket = bucket_elements(trace, summary, counts.live);
    const struct {
        const char *key;
        uint64_t elements;
    } keys[] = {{"reduce_bucket_size", bucket},
                {"sub_group_size", summary->group_elements},
                {"stage3_max_live_parameters", settings.max_live},
                {"stage3_max_reuse_distance", settings.reuse_distance},
                {"stage3_prefetch_bucket_size", settings.prefetch},
                {"stage3_param_persistence_threshold", settings.stay_each},
                {"stage3_model_persistence_threshold", settings.stay_all}};
    json_object_set_new(zero, "offload_param", on_cpu());
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        json_object_set_new(zero, keys[i].key, json_integer((json_int_t)keys[i].elements));
    if (trace->ranks <= 1) /* else the plan's counts are those of shards */
        predict(emitted, &counts, summary, bucket, trace->list_element_bytes[TRACE_PARAM]);
    zero3_free(zero3);
}

static json_t *zero_optimization(struct emitted *emitted, const struct plan *plan,
                                 const struct trace *trace, const struct plan_summary *summary)
{
    double ratio = offload_ratio(summary);
    /* Stage 2 keeps all parameters on the device. */
    bool stage3 = summary->parameters_leave;
    json_t *zero = json_pack("{s:i, s:b, s:b}", "stage",
                             stage3      ? 3
                             : ratio > 0 ? 2
                                         : 0,
                             "overlap_comm", plan->ranks > 1, "contiguous_gradients", 1);

    if (ratio > 0)
        json_object_set_new(zero, "offload_optimizer", on_cpu());
    if (stage3)
        add_stage3(emitted, zero, trace, summary);
    else if (ratio > 0)
        json_object_set_new(zero, "reduce_bucket_size",
                            json_integer((json_int_t)summary->group_elements));
    return zero;
}

/* Says what the other system's precision adds. Masters, where the trace has them, are fp32. */
static void lose_precision(struct emitted *emitted, const struct plan *plan,
                           const struct trace *trace, const char *system)
{
    bool half = g_strcmp0(plan->precision, "bf16") == 0 || g_strcmp0(plan->precision, "fp16") == 0;
    if (half && !trace->list_element_bytes[TRACE_MASTER])
        lose(emitted,
             "parameters in %s without fp32 masters: %s keeps masters and states in fp32, up to "
             "%d bytes a parameter more",
             plan->precision, system, 4 + 2 * 2);
}

/* The loop's own optimizer is used, whichever it is. */
static char *emit_deepspeed(struct emitted *emitted, const struct plan *plan,
                            const struct trace *trace, const struct plan_summary *summary)
{
    json_t *root = json_pack("{s:i, s:i, s:b, s:b, s:o}", "train_micro_batch_size_per_gpu",
                             (int)plan->batch, "gradient_accumulation_steps",
                             (int)MAX(1, plan->micro_batches), "zero_force_ds_cpu_optimizer", 0,
                             "zero_allow_untested_optimizer", 1, "zero_optimization",
                             zero_optimization(emitted, plan, trace, summary));
    if (g_strcmp0(plan->precision, "bf16") == 0 || g_strcmp0(plan->precision, "fp16") == 0)
        json_object_set_new(root, plan->precision, json_pack("{s:b}", "enabled", 1));
    lose_optimizer(emitted, summary);
    lose_precision(emitted, plan, trace, "DeepSpeed");
    lose_choices(emitted, summary, false);
    return json_text(root);
}

/* ---- FSDP ---- */

/* Says what the units cannot do as the plan does. */
static void lose_units(struct emitted *emitted, const struct plan_summary *summary,
                       const GPtrArray *units, bool offload)
{
    uint64_t largest = 0;
    for (guint i = 0; i < units->len; i++)
        largest = MAX(largest, ((const struct emit_unit *)g_ptr_array_index(units, i))->elements);
    if (offload && summary->updated_on_host < 0.99)
        lose(
            emitted,
            "the %.0f %% of the optimizer that runs on the device: units that live on the host are "
            "updated there",
            (1 - summary->updated_on_host) * 100);
    if (summary->parameters_leave)
        lose(emitted,
             "up to %" G_GUINT64_FORMAT
             " parameters on the device at a time: it has a unit of at most %" G_GUINT64_FORMAT
             ", the next one if it prefetches, and all units that stay",
             summary->live_elements, largest);
}

/* Layers become units if each has more parameters than this. */
static uint64_t least_unit(const GPtrArray *units, const struct plan_summary *summary)
{
    uint64_t least = UINT64_MAX;
    for (guint i = 1; i < units->len; i++)
        least = MIN(least, ((const struct emit_unit *)g_ptr_array_index(units, i))->elements);
    return units->len > 1 ? least - 1 : summary->group_elements;
}

static char *emit_fsdp(struct emitted *emitted, const struct plan *plan, const struct trace *trace,
                       const struct plan_summary *summary)
{
    g_autoptr(GPtrArray) units = emit_units(plan, trace);
    bool offload = summary->parameters_leave || summary->states_on_host > 0 ||
                   summary->updated_on_host > 0;
    bool masters = trace->list_element_bytes[TRACE_MASTER] > 0;
    json_t *fsdp = json_pack("{s:i, s:b, s:b, s:s, s:I, s:s, s:b, s:b}", "fsdp_version", 2,
                             "fsdp_reshard_after_forward", offload, "fsdp_offload_params", offload,
                             "fsdp_auto_wrap_policy", "SIZE_BASED_WRAP", "fsdp_min_num_params",
                             (json_int_t)least_unit(units, summary), "fsdp_state_dict_type",
                             "SHARDED_STATE_DICT", "fsdp_cpu_ram_efficient_loading", 0,
                             "fsdp_activation_checkpointing", 0);
    lose_units(emitted, summary, units, offload);
    if (offload && summary->stay_elements)
        lose(emitted,
             "parameters that stay on the device (those with at most %" G_GUINT64_FORMAT
             " elements): all leave; --emit fsdp2 lets whole layers stay",
             summary->stay_elements);
    if (plan->micro_batches > 1)
        lose(
            emitted,
            "%u micro-batches a step: give Accelerator(gradient_accumulation_steps=%u) in the loop",
            plan->micro_batches, plan->micro_batches);
    lose_choices(emitted, summary, false);
    const char *precision = masters && g_strcmp0(plan->precision, "bf16") == 0 ? "bf16" : "no";
    return json_text(json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "compute_environment",
                               "LOCAL_MACHINE", "distributed_type", "FSDP", "mixed_precision",
                               precision, "num_machines", 1, "num_processes",
                               (int)MAX(1, plan->ranks), "fsdp_config", fsdp));
}

static char *emit_fsdp2(struct emitted *emitted, const struct plan *plan, const struct trace *trace,
                        const struct plan_summary *summary)
{
    g_autoptr(GPtrArray) units = emit_units(plan, trace);
    bool offload = false;
    for (guint i = 0; i < units->len; i++)
        offload |= ((const struct emit_unit *)g_ptr_array_index(units, i))->offload;
    lose_units(emitted, summary, units, offload);
    if (units->len == 1)
        lose(emitted, "layers: the trace's tensors have no numbered layers, so the model is one "
                      "unit");
    lose_choices(emitted, summary, units->len > 1);
    return emit_fsdp2_text(units, summary->ahead_elements > 0);
}

static const struct emitter {
    const char *name;
    const char *file_name; /* known to the system's users */
    char *(*emit)(struct emitted *emitted, const struct plan *plan, const struct trace *trace,
                  const struct plan_summary *summary);
} emitters[] = {{"deepspeed", "ds_config.json", emit_deepspeed},
                {"fsdp", "fsdp_config.json", emit_fsdp},
                {"fsdp2", "fsdp2.py", emit_fsdp2}};

static const struct emitter *find(const char *format)
{
    for (size_t i = 0; i < G_N_ELEMENTS(emitters); i++)
        if (g_str_equal(emitters[i].name, format))
            return &emitters[i];
    return NULL;
}

bool emit_knows(const char *format)
{
    return find(format) != NULL;
}

struct emitted *emit_settings(const char *format, const struct plan *plan,
                              const struct trace *trace)
{
    const struct emitter *emitter = find(format);
    g_assert(emitter);
    const struct plan_summary summary = plan_summary_of(plan, trace);
    struct emitted *emitted = g_new0(struct emitted, 1);
    emitted->lost = g_ptr_array_new_with_free_func(g_free);
    emitted->text = emitter->emit(emitted, plan, trace, &summary);
    lose_schedule(emitted, plan);
    lose_layout(emitted, plan, trace);
    lose_nvme(emitted, plan);
    return emitted;
}

void emitted_free(struct emitted *emitted)
{
    if (!emitted)
        return;
    g_free(emitted->text);
    g_free(emitted->predicted);
    g_ptr_array_unref(emitted->lost);
    g_free(emitted);
}

char *emit_path(const char *plan_path, const char *format)
{
    const struct emitter *emitter = find(format);
    g_assert(emitter);
    g_autofree char *folder = g_path_get_dirname(plan_path);
    return strcmp(folder, ".") == 0 ? g_strdup(emitter->file_name)
                                    : g_build_filename(folder, emitter->file_name, NULL);
}

/* Moves other settings that are there away, unless some were before, which may be a person's.
 * Returns a line about them, to be freed, or NULL if there are none. */
static char *keep_old(const char *path, const char *text)
{
    g_autofree char *there = NULL, *old = g_strconcat(path, ".old", NULL);
    if (!g_file_get_contents(path, &there, NULL, NULL) || strcmp(there, text) == 0)
        return NULL;
    if (!g_file_test(old, G_FILE_TEST_EXISTS) && g_rename(path, old) == 0)
        return g_strdup_printf("%s was there before. It is %s now.", path, old);
    return g_strdup_printf("%s was there before and is replaced. %s stays.", path, old);
}

bool emit_beside(const char *plan_path, const char *format, const struct plan *plan,
                 const struct trace *trace, FILE *out, GError **error)
{
    struct emitted *emitted = emit_settings(format, plan, trace);
    g_autofree char *path = emit_path(plan_path, format);
    g_autofree char *old = keep_old(path, emitted->text);
    bool ok = output_file_write(path, emitted->text, error);
    if (ok && old)
        text_print_line(out, "%s", old);
    if (ok)
        text_print_line(
            out, "%s has the settings that come closest to the plan. They cannot express:", path);
    for (guint i = 0; ok && i < emitted->lost->len; i++)
        text_print_line(out, "  - %s", (const char *)g_ptr_array_index(emitted->lost, i));
    if (ok && emitted->predicted)
        text_print_line(out, "%s", emitted->predicted);
    emitted_free(emitted);
    return ok;
}
