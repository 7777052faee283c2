#include "planner/answers/pipelines.h"

#include "base/failure.h"
#include "base/output_file.h"
#include "base/size.h"
#include "chunks/plan.h"
#include "chunks/stage_path.h"
#include "planner/answers/questions.h"
#include "sim/stage_sweep.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* ---- parts of a step ---- */

static const struct {
    const char *title, *key;
    size_t offset;
} parts[] = {
    {"compute", "compute_seconds", offsetof(struct pipeline_parts, compute)},
    {"recompute", "recompute_seconds", offsetof(struct pipeline_parts, recompute)},
    {"imbalance", "imbalance_seconds", offsetof(struct pipeline_parts, imbalance)},
    {"bubble", "bubble_seconds", offsetof(struct pipeline_parts, bubble)},
    {"network", "network_seconds", offsetof(struct pipeline_parts, network)},
};

static double part_of(const struct pipeline_candidate *candidate, size_t part)
{
    return *(const double *)(const void *)((const char *)&candidate->parts + parts[part].offset);
}

/* Returns the layers of a part of a stage. */
static struct stage_layers layers_of_part(const struct pipeline_question *q,
                                          const struct pipeline_candidate *candidate,
                                          uint32_t stage, uint32_t part)
{
    const struct pipeline_shape shape = {.stages = candidate->stages,
                                         .schedule = candidate->schedule,
                                         .parts = candidate->stage_parts};
    return stage_part_of(&shape, q->config->layers, &candidate->costs[stage], part);
}

/* Returns the seconds of a later micro-batch's backward, of both halves if it is split. */
static double backward_seconds(const struct stage_cost *cost)
{
    return (double)(cost->backward_ns[UNIT_LATER] + cost->weights_ns[UNIT_LATER]) * 1e-9;
}

static uint32_t layer_count(const struct pipeline_question *q,
                            const struct pipeline_candidate *candidate, uint32_t stage)
{
    uint32_t count = 0;
    for (uint32_t part = 0; part < candidate->stage_parts; part++) {
        const struct stage_layers layers = layers_of_part(q, candidate, stage, part);
        count += layers.end - layers.first;
    }
    return count;
}

/* Returns the stage that needs most device memory. */
static uint32_t neediest(const struct pipeline_candidate *candidate)
{
    uint32_t most = 0;
    for (uint32_t s = 1; s < candidate->stages; s++)
        if (candidate->costs[s].device_bytes > candidate->costs[most].device_bytes)
            most = s;
    return most;
}

static uint32_t recomputed(const struct pipeline_question *q,
                           const struct pipeline_candidate *candidate)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < candidate->stages; s++)
        count += candidate->costs[s].recomputed;
    for (uint32_t l = 0; q->recompute && l < q->config->layers; l++)
        count += q->recompute[l];
    return count;
}

/* Says why a candidate lost, in the words of what it takes more than the best. */
static char *why(const struct pipeline_candidate *candidate, const struct pipeline_candidate *best)
{
    size_t most = 0;
    if (!candidate->fits) {
        g_autofree char *lacks = size_format(candidate->short_bytes);
        return g_strdup_printf("memory: stage %u lacks %s", neediest(candidate), lacks);
    }
    if (!candidate->timed)
        return g_strdup("bound: no cut is as fast as the best");
    for (size_t p = 1; p < G_N_ELEMENTS(parts); p++)
        if (part_of(candidate, p) - part_of(best, p) >
            part_of(candidate, most) - part_of(best, most))
            most = p;
    return g_strdup_printf("%s: %+.4g s", parts[most].title,
                           part_of(candidate, most) - part_of(best, most));
}

/* ---- the table ---- */

static const char *schedule_of(const struct pipeline_candidate *candidate)
{
    return candidate->stages == 1 ? "-" : pipeline_schedule_name(candidate->schedule);
}

static void print_head(FILE *out)
{
    fprintf(out, "\n%7s %7s %11s %13s %11s %5s %10s %11s", "depth", "width", "micro-batch",
            "micro-batches", "schedule", "parts", "recomputed", "device");
    for (size_t p = 0; p < G_N_ELEMENTS(parts); p++)
        fprintf(out, " %9s", parts[p].title);
    fprintf(out, " %9s %9s\n", "step s", "bound s");
}

static void print_row(const struct pipeline_question *q, const struct pipeline_candidate *candidate,
                      const struct pipeline_candidate *best, FILE *out)
{
    g_autofree char *device = size_format(candidate->costs[neediest(candidate)].device_bytes);
    fprintf(out, "%c %5u %7u %11u %13u %11s %5u %10u %11s", candidate == best ? '*' : ' ',
            candidate->stages, candidate->width, candidate->micro_batch, candidate->micro_batches,
            schedule_of(candidate), candidate->stage_parts, recomputed(q, candidate), device);
    for (size_t p = 0; candidate->timed && p < G_N_ELEMENTS(parts); p++)
        fprintf(out, " %9.4g", part_of(candidate, p));
    if (candidate->timed)
        fprintf(out, " %9.4g", candidate->step_seconds);
    else
        fprintf(out, " %*s", 10 * (int)G_N_ELEMENTS(parts) + 9, "");
    if (candidate->fits)
        fprintf(out, " %9.4g", candidate->bound_seconds);
    if (candidate != best) {
        g_autofree char *reason = why(candidate, best);
        fprintf(out, "%s  %s", candidate->fits ? "" : "          ", reason);
    }
    fputc('\n', out);
}

/* Prints the best of each depth and schedule behind the nearest ones. */
static bool is_shown(const struct pipeline_answer *answer, uint32_t c, uint32_t top)
{
    const struct pipeline_candidate *candidate = &answer->candidates[c];
    for (uint32_t i = 0; i < c && c > top; i++) {
        const struct pipeline_candidate *other = &answer->candidates[i];
        if (other->stages == candidate->stages && other->schedule == candidate->schedule)
            return false;
    }
    return true;
}

/* Returns the layers of a stage, such as "0-2,6-8". The caller frees the text with g_free. */
static char *stage_layers_format(const struct pipeline_question *q,
                                 const struct pipeline_candidate *candidate, uint32_t stage)
{
    GString *text = g_string_new(NULL);
    for (uint32_t part = 0; part < candidate->stage_parts; part++) {
        const struct stage_layers layers = layers_of_part(q, candidate, stage, part);
        g_string_append_printf(text, "%s%u", part ? "," : "", layers.first);
        if (layers.end - layers.first > 1)
            g_string_append_printf(text, "-%u", layers.end - 1);
    }
    return g_string_free(text, FALSE);
}

static void print_stages(const struct pipeline_question *q, const struct pipeline_candidate *best,
                         FILE *out)
{
    fprintf(out, "\n%5s  %8s  %10s  %11s  %11s  %11s  %11s  %11s\n", "stage", "layers",
            "recomputed", "device", "states", "forward s", "backward s", "update s");
    for (uint32_t s = 0; s < best->stages; s++) {
        const struct stage_cost *cost = &best->costs[s];
        g_autofree char *layers = stage_layers_format(q, best, s);
        g_autofree char *device = size_format(cost->device_bytes);
        g_autofree char *states = size_format(cost->state_bytes);
        fprintf(out, "%5u  %8s  %10u  %11s  %11s  %11.4g  %11.4g  %11.4g\n", s, layers,
                cost->recomputed, device, states, (double)cost->forward_ns[UNIT_LATER] * 1e-9,
                backward_seconds(cost), (double)cost->update_ns * 1e-9);
    }
}

/* ---- what follows ---- */

/* Returns the options that cut a model into stages of so many layers, or of several parts, whose
 * layers follow from their number. The caller frees them with g_free. */
static char *cut_text(uint32_t stages, uint32_t stage_parts, const uint32_t *layers)
{
    GString *text = g_string_new(NULL);
    if (stage_parts > 1)
        g_string_printf(text, "--stages %u --stage-parts %u", stages, stage_parts);
    for (uint32_t s = 0; s < stages && stage_parts == 1; s++)
        g_string_append_printf(text, "%s%u", s ? "," : "--stage-layers ", layers[s]);
    return g_string_free(text, FALSE);
}

/* Marks the layers of a stage that are recomputed, the first ones of its parts. */
static void mark_recomputed(const struct pipeline_question *q,
                            const struct pipeline_candidate *candidate, uint32_t stage,
                            uint8_t *marks)
{
    uint32_t left = candidate->costs[stage].recomputed;
    for (uint32_t part = 0; part < candidate->stage_parts; part++) {
        const struct stage_layers layers = layers_of_part(q, candidate, stage, part);
        for (uint32_t l = layers.first; l < layers.end && left > 0; l++, left--)
            marks[l] = 1;
    }
}

/* Returns the recomputed layers as --recompute takes them. The caller frees them with g_free. */
static char *recompute_of(const struct pipeline_question *q,
                          const struct pipeline_candidate *candidate)
{
    g_autofree uint8_t *marks = g_new0(uint8_t, q->config->layers);
    if (q->recompute)
        memcpy(marks, q->recompute, q->config->layers);
    for (uint32_t s = 0; !q->recompute && s < candidate->stages; s++)
        mark_recomputed(q, candidate, s, marks);
    return run_layers_format(marks, q->config->layers);
}

/* Returns the options that cut the model as the plan does. The caller frees them with g_free. */
static char *cut_of(const struct pipeline_candidate *best)
{
    g_autofree uint32_t *layers = g_new(uint32_t, best->stages);
    for (uint32_t s = 0; s < best->stages; s++)
        layers[s] = best->costs[s].end - best->costs[s].first;
    return cut_text(best->stages, best->stage_parts, layers);
}

/* Returns whether the ranks of a stage sum as pstar-run's pipelines do not. */
static bool sums_otherwise(const struct pipeline_question *q,
                           const struct pipeline_candidate *candidate)
{
    return candidate->width > 1 && q->fast;
}

/* Says what pstar-run would do otherwise than the plan; NULL if it trains so. */
static const char *untrained(const struct pipeline_question *q,
                             const struct pipeline_candidate *best)
{
    if (!model_config_predicts_next(q->config))
        return "pstar-run trains models that predict the next token";
    if (sums_otherwise(q, best))
        return "pstar-run's pipelines reduce each micro-batch's gradient, to have the bits of one "
               "process, which is planned without --reduction fast";
    if (best->schedule == PIPELINE_2BW && best->stages > 1 && !q->clips)
        return "pstar-run waits for all stages before updates, also without clipping";
    return NULL;
}

/* The caller frees the results of both with g_free. A single stage has neither cut nor schedule. */
static char *launcher_of(const struct pipeline_candidate *best)
{
    uint32_t processes = best->stages * best->width;
    return processes > 1 ? g_strdup_printf("mpirun -n %u ", processes) : g_strdup("");
}

static char *shape_options(const struct pipeline_candidate *best)
{
    g_autofree char *cut = cut_of(best);
    if (best->stages == 1)
        return g_strdup("");
    return g_strdup_printf(" %s --schedule %s", cut, pipeline_schedule_name(best->schedule));
}

/* Returns the option that says what is trained, for a command. The caller frees it with g_free. */
static char *train_option(const struct pipeline_request_files *files)
{
    g_autofree char *word = files->train ? question_word(files->train) : NULL;
    return word ? g_strconcat(" --train ", word, NULL) : g_strdup("");
}

static void print_command(const struct pipeline_question *q,
                          const struct pipeline_request_files *files,
                          const struct pipeline_candidate *best, FILE *out)
{
    const char *note = untrained(q, best);
    g_autofree char *launcher = launcher_of(best), *shape = shape_options(best),
                    *recompute = recompute_of(q, best);
    g_autofree char *model = files->model ? question_word(files->model) : g_strdup("CONFIG");
    g_autofree char *train = train_option(files);
    if (note)
        fprintf(out, "\nNot trained here as planned: %s.\n", note);
    if (sums_otherwise(q, best) || !model_config_predicts_next(q->config))
        return;
    fprintf(out,
            "\n%spstar-run --model %s%s%s%s --batch %u --micro-batches %u --seq %u --precision %s "
            "--recompute %s --data TEXT\n",
            launcher, model, train, platform_device_option(q->platform), shape, best->micro_batch,
            best->micro_batches * best->width, q->sequence,
            q->precision == MODEL_BF16 ? "bf16" : "fp32", recompute);
}

/* ---- stages whose chunks move ---- */

static uint32_t moving_recomputed(const struct pipeline_question *q,
                                  const struct moving_stages *moving)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < q->config->layers; l++)
        count += moving->recompute[l];
    return count;
}

/* Layers of several parts do not follow each other, so only their number is printed. The caller
 * frees the result with g_free. */
static char *moving_layers(const struct moving_stages *moving, uint32_t s)
{
    const struct stage_result *stage = &moving->results[s];
    uint32_t last = stage->first_layer + stage->layers - 1;
    if (moving->parts > 1)
        return g_strdup_printf("%u in all", stage->layers);
    return stage->layers == 1 ? g_strdup_printf("%u", last)
                              : g_strdup_printf("%u-%u", stage->first_layer, last);
}

static void print_moving_stage(const struct moving_stages *moving, uint32_t s, FILE *out)
{
    const struct stage_result *stage = &moving->results[s];
    const struct stage_times *times = &stage->times;
    g_autofree char *layers = moving_layers(moving, s);
    g_autofree char *device = size_format(stage->device_bytes);
    g_autofree char *host = size_format(stage->host_bytes);
    g_autofree char *fetched = size_format(stage->figures.h2d_bytes);
    g_autofree char *written = size_format(stage->figures.d2h_bytes);
    fprintf(out, "%5u  %8s  %11s  %11s  %11s  %11s  %9.4g  %9.4g  %9.4g  %9.4g\n", s, layers,
            device, host, fetched, written, times->compute,
            times->warm_up + times->drain + times->imbalance, times->communication, times->copies);
}

static void print_moving(const struct pipeline_question *q, const struct moving_stages *moving,
                         FILE *out)
{
    g_autofree char *parts_text = moving->parts > 1
                                      ? g_strdup_printf(" with %u parts a stage", moving->parts)
                                      : g_strdup("");
    fprintf(out,
            "\nNo stage fits a device with all of its model data, so chunks come and go within "
            "stages. Of %u shapes, %u %s looked at; the best has %u stages of %u GPU%s, "
            "micro-batches of %u, %u a step, schedule %s%s, and recomputes %u of %u layers.\n\n",
            moving->shapes, moving->looks, moving->looks == 1 ? "was" : "were", moving->stages,
            moving->width, moving->width == 1 ? "" : "s", moving->micro_batch,
            moving->micro_batches * moving->width, pipeline_schedule_name(moving->schedule),
            parts_text, moving_recomputed(q, moving), q->config->layers);
    fprintf(out, "%5s  %8s  %11s  %11s  %11s  %11s  %9s  %9s  %9s  %9s\n", "stage", "layers",
            "device", "host", "to device", "to host", "compute s", "waits s", "network s",
            "copies s");
    for (uint32_t s = 0; s < moving->stages; s++)
        print_moving_stage(moving, s, out);
    fprintf(out, "\nA step takes %.4g s. ", moving->step_seconds);
    if (moving->bound_seconds > 0)
        fprintf(out,
                "No shape takes less than %.4g s, whatever moves; the plan is within %.2f %% of "
                "that.\n",
                moving->bound_seconds, 100 * (moving->step_seconds / moving->bound_seconds - 1));
    else
        fputs("The time that no shape can beat is not known, because the search was stopped before "
              "it had seen all shapes.\n",
              out);
}

static void print_planned_command(const struct pipeline_question *q,
                                  const struct pipeline_request_files *files,
                                  const struct moving_stages *moving, FILE *out)
{
    g_autofree char *cut = cut_text(moving->stages, moving->parts, moving->layers),
                    *plans = question_word(files->plans);
    g_autofree char *model = files->model ? question_word(files->model) : g_strdup("CONFIG");
    g_autofree char *train = train_option(files);
    fprintf(out,
            "\nWith the plans in %s a step takes %.4g s:\n"
            "\nmpirun -n %u pstar-run --model %s%s%s %s --schedule %s --precision %s --plan %s "
            "--data TEXT\n",
            files->plans, moving->step_seconds, moving->stages * moving->width, model, train,
            platform_device_option(q->platform), cut, pipeline_schedule_name(moving->schedule),
            q->precision == MODEL_BF16 ? "bf16" : "fp32", plans);
}

/* ---- the answer ---- */

static void print_resident(const struct pipeline_question *q,
                           const struct pipeline_request_files *files,
                           const struct pipeline_answer *answer, FILE *out)
{
    const struct pipeline_candidate *best = &answer->candidates[0];
    print_head(out);
    for (uint32_t c = 0; c < answer->count; c++)
        if (is_shown(answer, c, files->top))
            print_row(q, &answer->candidates[c], best, out);
    print_stages(q, best, out);
    fprintf(out,
            "\nNo cut of any of %u candidates takes less than %.4g s; the plan is within %.2f %% "
            "of that.\n",
            answer->count, answer->bound_seconds,
            100 * (best->step_seconds / answer->bound_seconds - 1));
    if (!files->plans)
        print_command(q, files, best, out);
}

static void print_answer(const struct pipeline_question *q,
                         const struct pipeline_request_files *files,
                         const struct pipeline_answer *answer, FILE *out)
{
    fprintf(out, "%s, %.3g billion parameters: %u sequences of %u tokens a step, on %u GPUs\n",
            q->config->name, (double)model_config_parameters(q->config) * 1e-9, q->sequences,
            q->sequence, q->gpus);
    if (answer->candidates[0].fits)
        print_resident(q, files, answer, out);
    else
        print_moving(q, answer->moving, out);
    if (answer->stopped)
        fputs("\nThe search was stopped early, so there may be better plans.\n", out);
    if (answer->moving && files->plans)
        print_planned_command(q, files, answer->moving, out);
    else if (answer->moving)
        fprintf(out, "\n-o 'plan-%%s.json' writes the plans of the stages, and prints the command "
                     "that trains with them.\n");
}

/* ---- as JSON ---- */

static json_t *stage_json(const struct stage_cost *cost, uint32_t layers)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "first_layer",
        (json_int_t)cost->first, "layers", (json_int_t)layers, "recomputed",
        (json_int_t)cost->recomputed, "device_bytes", (json_int_t)cost->device_bytes, "state_bytes",
        (json_int_t)cost->state_bytes, "forward_seconds",
        (double)cost->forward_ns[UNIT_LATER] * 1e-9, "backward_seconds", backward_seconds(cost),
        "weights_seconds", (double)cost->weights_ns[UNIT_LATER] * 1e-9, "reduce_seconds",
        (double)cost->reduce_ns * 1e-9, "update_seconds", (double)cost->update_ns * 1e-9);
}

static json_t *candidate_json(const struct pipeline_question *q,
                              const struct pipeline_candidate *candidate,
                              const struct pipeline_candidate *best)
{
    g_autofree char *layers = recompute_of(q, candidate);
    json_t *json = json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:b, s:I}", "depth",
        (json_int_t)candidate->stages, "width", (json_int_t)candidate->width, "micro_batch",
        (json_int_t)candidate->micro_batch, "micro_batches", (json_int_t)candidate->micro_batches,
        "schedule", schedule_of(candidate), "stage_parts", (json_int_t)candidate->stage_parts,
        "recomputed", (json_int_t)recomputed(q, candidate), "recompute", layers, "fits",
        candidate->fits, "short_bytes", (json_int_t)candidate->short_bytes);
    if (candidate->fits)
        json_object_set_new(json, "bound_seconds", json_real(candidate->bound_seconds));
    if (candidate->timed)
        json_object_set_new(json, "step_seconds", json_real(candidate->step_seconds));
    for (size_t p = 0; candidate->timed && p < G_N_ELEMENTS(parts); p++)
        json_object_set_new(json, parts[p].key, json_real(part_of(candidate, p)));
    json_t *stages = json_array();
    for (uint32_t s = 0; s < candidate->stages; s++)
        json_array_append_new(stages,
                              stage_json(&candidate->costs[s], layer_count(q, candidate, s)));
    json_object_set_new(json, "stages", stages);
    if (candidate != best) {
        g_autofree char *reason = why(candidate, best);
        json_object_set_new(json, "lost", json_string(reason));
    }
    return json;
}

static json_t *moving_json(const struct pipeline_question *q, const struct moving_stages *moving)
{
    g_autofree char *layers = run_layers_format(moving->recompute, q->config->layers);
    json_t *json = json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:I, s:s, s:f, s:b, s:o}", "depth", (json_int_t)moving->stages,
        "width", (json_int_t)moving->width, "micro_batch", (json_int_t)moving->micro_batch,
        "micro_batches", (json_int_t)moving->micro_batches, "schedule",
        pipeline_schedule_name(moving->schedule), "stage_parts", (json_int_t)moving->parts,
        "recompute", layers, "step_seconds", moving->step_seconds, "stopped", (int)moving->stopped,
        "stages", stage_sweep_json(moving->results, moving->stages, false));
    if (moving->bound_seconds > 0)
        json_object_set_new(json, "bound_seconds", json_real(moving->bound_seconds));
    return json;
}

static bool write_json(const struct pipeline_question *q, const struct pipeline_answer *answer,
                       const char *path, GError **error)
{
    const struct pipeline_candidate *best = &answer->candidates[0];
    json_t *list = json_array();
    for (uint32_t c = 0; c < answer->count; c++)
        json_array_append_new(list, candidate_json(q, &answer->candidates[c], best));
    json_t *root = json_pack("{s:s, s:I, s:I, s:I, s:b, s:o}", "model", q->config->name, "gpus",
                             (json_int_t)q->gpus, "sequences", (json_int_t)q->sequences, "sequence",
                             (json_int_t)q->sequence, "stopped", (int)answer->stopped, "candidates",
                             list);
    if (best->fits)
        json_object_set_new(root, "bound_seconds", json_real(answer->bound_seconds));
    if (answer->moving)
        json_object_set_new(root, best->fits ? "plans" : "moving", moving_json(q, answer->moving));
    bool ok = output_file_write_json(path, root, JSON_INDENT(2), error);
    json_decref(root);
    return ok || failure_mark(error, FAILURE_RUNNING);
}

static bool write_plans(const struct moving_stages *moving, const char *pattern, GError **error)
{
    for (uint32_t s = 0; s < moving->stages; s++) {
        g_autofree char *path = stage_path(pattern, s);
        if (!plan_write(moving->plans[s], path, error))
            return false;
    }
    return true;
}

/* ---- refusal ---- */

/* Returns "3 stages of 1 GPU each", with the schedule if there is one. The caller frees it with
 * g_free. */
static char *shape_text(const struct pipeline_candidate *candidate)
{
    g_autofree char *schedule = candidate->stages == 1
                                    ? g_strdup("")
                                    : g_strdup_printf(" (%s)", schedule_of(candidate));
    return g_strdup_printf("%u stage%s of %u GPU%s%s and micro-batches of %u%s", candidate->stages,
                           candidate->stages == 1 ? "" : "s", candidate->width,
                           candidate->width == 1 ? "" : "s", candidate->stages == 1 ? "" : " each",
                           candidate->micro_batch, schedule);
}

/* Returns whether the question asks for fewer stages than its GPUs and layers allow. */
static bool may_have_more_stages(const struct pipeline_question *q)
{
    for (uint32_t stages = q->stages + 1; q->stages && stages <= q->gpus; stages++)
        if (pipeline_suits(q, stages))
            return true;
    return false;
}

/* Returns why stages whose chunks come and go do not help, either. The caller frees the text with
 * g_free. */
static char *unmoved_text(const struct pipeline_question *q, const struct pipeline_answer *answer)
{
    if (answer->unmoved)
        return g_strdup_printf("with chunks that come and go, %s", answer->unmoved);
    if (q->stages && pipeline_suits(q, q->gpus))
        return g_strdup_printf("with --reduction fast chunks come and go within stages of one GPU "
                               "only, as --stages %u would make them",
                               q->gpus);
    return g_strdup("with --reduction fast chunks come and go within stages of one GPU only");
}

/* Returns what may lower the need, besides more GPUs. */
static const char *other_levers(const struct pipeline_question *q)
{
    if (may_have_more_stages(q))
        return q->recompute ? ", more stages or recomputation" : " or more stages";
    return q->recompute ? " or recomputation" : "";
}

/* Budgets are those of the options, which hold what libraries take, too. */
static void refuse(const struct pipeline_question *q, const struct pipeline_answer *answer,
                   GError **error)
{
    const struct pipeline_candidate *least = &answer->candidates[0];
    uint64_t libraries = q->trace ? q->trace->library_bytes : 0;
    uint64_t needed = least->costs[neediest(least)].device_bytes + libraries;
    g_autofree char *lacks = size_format(least->short_bytes), *need = size_format(needed);
    g_autofree char *budget = size_format(q->device_budget + libraries);
    g_autofree char *shape = shape_text(least), *moving = unmoved_text(q, answer);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "nothing fits: with %s, stage %u needs %s of device memory, %s more than the "
                "budget of %s; %" G_GUINT64_FORMAT
                " bytes would fit (%s), and less may do with more GPUs%s; %s",
                shape, neediest(least), need, lacks, budget, needed, need, other_levers(q), moving);
}

/* Refuses to write plans that are not made (moving_stages_can_plan). */
static bool check_plans(const struct pipeline_question *q,
                        const struct pipeline_request_files *files,
                        const struct pipeline_answer *answer, GError **error)
{
    const struct pipeline_candidate *best = &answer->candidates[0];
    if (!files->plans || answer->moving)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "-o %s: the best pipeline has %u stage%s of %u GPU%s, and plans are written for "
                "several stages%s; --gpus without --stages plans one stage",
                files->plans, best->stages, best->stages == 1 ? "" : "s", best->width,
                best->width == 1 ? "" : "s",
                sums_otherwise(q, best) ? " of one GPU each, or without --reduction fast" : "");
    return false;
}

bool pipelines_answer(const struct pipeline_question *question,
                      const struct pipeline_request_files *files, FILE *out, GError **error)
{
    struct pipeline_answer *answer = pipeline_search(question, error);
    if (!answer)
        return false;
    bool fits = answer->candidates[0].fits || answer->moving;
    bool ok = !files->plans || !answer->moving ||
              write_plans(answer->moving, files->plans, error) ||
              failure_mark(error, FAILURE_RUNNING);
    if (ok && fits)
        print_answer(question, files, answer, out);
    ok = ok && (!files->json || write_json(question, answer, files->json, error));
    if (ok && !fits)
        refuse(question, answer, error);
    ok = ok && fits &&
         check_plans(question, files, answer, error); /* who has the answer may ask again */
    pipeline_answer_free(answer);
    return ok;
}
