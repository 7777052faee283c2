#include "tests/report/sample.h"

#include "chunks/dry_run.h"
#include "traces/trace_file.h"

#include <ftw.h>
#include <jansson.h>
#include <stdio.h>

#define OPERATORS (3 * SAMPLE_TENSORS)

static struct trace_operator operator_of(const char *suffix, enum trace_phase phase,
                                         uint32_t tensor, uint32_t moment)
{
    return (struct trace_operator){
        .name = g_strdup_printf("%s layer.%u%s", trace_phase_name(phase), tensor, suffix),
        .phase = phase,
        .layer = (int32_t)tensor,
        .first_access = phase == TRACE_UPDATE_PHASE
                            ? 2 * SAMPLE_TENSORS + 3 * (moment - 2 * SAMPLE_TENSORS)
                            : moment,
        .access_count = phase == TRACE_UPDATE_PHASE ? 3 : 1,
        .flops = 1000000,
        .bytes = 2048,
        .duration_ns = phase == TRACE_BACKWARD ? 2000000 : 1000000,
    };
}

static void add_operators(struct trace *trace, const char *suffix)
{
    trace->operator_count = OPERATORS;
    trace->operators = g_new0(struct trace_operator, OPERATORS);
    trace->access_count = 5 * SAMPLE_TENSORS;
    trace->accesses = g_new0(struct trace_access, trace->access_count);
    struct trace_access *access = trace->accesses;
    for (uint32_t m = 0; m < OPERATORS; m++) {
        enum trace_phase phase = (enum trace_phase)(m / SAMPLE_TENSORS);
        uint32_t tensor = m % SAMPLE_TENSORS;
        if (phase == TRACE_BACKWARD)
            tensor = SAMPLE_TENSORS - 1 - tensor;
        trace->operators[m] = operator_of(suffix, phase, tensor, m);
        *access++ = (struct trace_access){tensor, TRACE_PARAM,
                                          phase == TRACE_FORWARD ? TRACE_READ : TRACE_UPDATE, 0};
        if (phase != TRACE_UPDATE_PHASE)
            continue;
        *access++ = (struct trace_access){tensor, TRACE_EXP_AVG, TRACE_UPDATE, 0};
        *access++ = (struct trace_access){tensor, TRACE_EXP_AVG_SQ, TRACE_UPDATE, 0};
    }
}

static void add_buffers(struct trace *trace)
{
    trace->buffer_count = SAMPLE_TENSORS;
    trace->buffers = g_new0(struct trace_buffer, SAMPLE_TENSORS);
    for (uint32_t t = 0; t < SAMPLE_TENSORS; t++)
        trace->buffers[t] = (struct trace_buffer){.name = g_strdup_printf("activation %u", t),
                                                  .bytes = 400,
                                                  .first = t,
                                                  .last = 2 * SAMPLE_TENSORS - 1 - t,
                                                  .saved = true};
    trace->non_model_bytes = g_new0(uint64_t, OPERATORS);
    trace_sum_buffers(trace);
}

struct trace *sample_trace(const char *suffix)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->model = g_strconcat("sample", suffix, NULL);
    trace->precision = g_strdup("fp32");
    trace->batch = trace->micro_batches = 1;
    trace->sequence = 8;
    trace->list_element_bytes[TRACE_PARAM] = 4;
    trace->list_element_bytes[TRACE_EXP_AVG] = 4;
    trace->list_element_bytes[TRACE_EXP_AVG_SQ] = 4;
    trace->tensor_count = SAMPLE_TENSORS;
    trace->tensors = g_new0(struct trace_tensor, SAMPLE_TENSORS);
    for (uint32_t t = 0; t < SAMPLE_TENSORS; t++)
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("layer.%u", t),
                                                  .elements = 256};
    add_operators(trace, suffix);
    add_buffers(trace);
    GError *error = NULL;
    trace_check(trace, "sample", &error);
    g_assert_no_error(error);
    return trace;
}

static struct plan *plan_of(const struct trace *trace, uint64_t device_budget,
                            const struct pstar_policy_ops *policy)
{
    GError *error = NULL;
    struct layout *layout = layout_pack_uniform(trace, SAMPLE_CHUNK_BYTES, &error);
    g_assert_no_error(error);
    const struct dry_run_options options = {
        .device_budget = device_budget, .host_budget = UINT64_MAX, .policy = policy};
    struct plan *plan = dry_run(trace, layout, &options, &error);
    g_assert_no_error(error);
    layout_free(layout);
    return plan;
}

struct plan *sample_plan(const struct trace *trace, uint64_t device_budget)
{
    return plan_of(trace, device_budget, &policy_opt);
}

char *sample_path(const struct sample *sample, const char *name)
{
    return g_build_filename(sample->folder, name, NULL);
}

char *sample_file(const struct sample *sample, const char *name, const char *text)
{
    GError *error = NULL;
    char *path = sample_path(sample, name);
    g_file_set_contents(path, text, -1, &error);
    g_assert_no_error(error);
    return path;
}

static char *figures_text(const struct plan_figures *figures, double seconds)
{
    GString *text = g_string_new(NULL);
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
        if (figure->unit != FIGURE_SECONDS)
            g_string_append_printf(text, "\"%s\": %" G_GUINT64_FORMAT ", ", figure->name,
                                   figures_count(figures, figure));
    g_string_append_printf(text, "\"stall_seconds\": %.3f, \"iteration_seconds\": %.3f",
                           seconds / 4, seconds);
    return g_string_free(text, FALSE);
}

static char *entry_text(const char *policy, uint64_t chunk, uint64_t device, bool fits,
                        const struct plan_figures *figures)
{
    g_autofree char *numbers = figures_text(figures, 0.016);
    return g_strdup_printf("{\"chunk_bytes\": %" G_GUINT64_FORMAT
                           ", \"policy\": \"%s\", \"strategy\": null, \"device_memory_bytes\": "
                           "%" G_GUINT64_FORMAT ", \"look_ahead\": 0, \"fits\": %s%s%s}",
                           chunk, policy, device, fits ? "true" : "false", fits ? ", " : "",
                           fits ? numbers : "");
}

static char *sweep_text(const struct plan_figures *opt, const struct plan_figures *fifo)
{
    g_autofree char *first = entry_text("opt", SAMPLE_CHUNK_BYTES, SAMPLE_DEVICE_BYTES, true, opt);
    g_autofree char *second = entry_text("fifo", SAMPLE_CHUNK_BYTES, SAMPLE_DEVICE_BYTES, true,
                                         fifo);
    g_autofree char *third = entry_text("opt", 2048, SAMPLE_DEVICE_BYTES, false, opt);
    g_autofree char *fourth = entry_text("fifo", 2048, SAMPLE_DEVICE_BYTES, true, fifo);
    g_autofree char *fifth = entry_text("opt", 2048, 20000, true, opt);
    return g_strdup_printf(
        "{\"trace\": \"sample.pstar\", \"results\": [\n%s,\n%s,\n%s,\n%s,\n%s]}\n", first, second,
        third, fourth, fifth);
}

static void append_event(GString *text, const char *name, int row, int start_ms, int length_ms,
                         const char *arguments)
{
    json_t *quoted = json_string(name);
    char *dumped = quoted ? json_dumps(quoted, JSON_ENCODE_ANY) : g_strdup("\"no UTF-8\"");
    g_string_append_printf(text,
                           ",\n{\"ph\": \"X\", \"pid\": 0, \"tid\": %d, \"name\": %s, "
                           "\"ts\": %d, \"dur\": %d, \"args\": {%s}}",
                           row, dumped, start_ms * 1000, length_ms * 1000, arguments);
    free(dumped);
    json_decref(quoted);
}

/* Writes what pstar-sim --timeline would. The wait of the first operator begins before 0. */
static char *timeline_text(const struct trace *trace)
{
    static const char *const rows[] = {"compute", "H2D", "D2H", "host", "stalls"};
    GString *text = g_string_new(NULL);
    g_string_append_printf(text,
                           "{\"otherData\": {\"model\": \"sample\", \"made_by\": "
                           "\"zero3-offload\", \"chunk_bytes\": %d, \"device_memory_bytes\": %d, "
                           "\"iteration_seconds\": %g}, \"traceEvents\": [{\"ph\": \"M\"}",
                           SAMPLE_CHUNK_BYTES, SAMPLE_DEVICE_BYTES, SAMPLE_STEP_MS / 1e3);
    for (int row = 0; row < 5; row++)
        g_string_append_printf(text,
                               ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"tid\": %d, "
                               "\"args\": {\"name\": \"%s\"}}",
                               row, rows[row]);
    for (int t = 0; t < SAMPLE_TENSORS; t++) {
        append_event(text, trace->operators[t].name, 0, t, 1, "\"phase\": \"forward\"");
        append_event(text, trace->operators[SAMPLE_TENSORS + t].name, 0, 4 + 3 * t, 2,
                     "\"phase\": \"backward\"");
        append_event(text, "write back", 2, 6 + 3 * t, 1, "\"bytes\": 1024");
        append_event(text, "backward waits", 4, 6 + 3 * t, 1, "\"waits_for\": \"D2H\"");
        append_event(text, trace->operators[2 * SAMPLE_TENSORS + t].name, 3, 16 + 5 * t, 5,
                     "\"phase\": \"update\"");
        append_event(text, "fetch", 1, 36 + t, 1, "\"bytes\": 1024");
    }
    append_event(text, "forward waits", 4, 16 - SAMPLE_STEP_MS, SAMPLE_STEP_MS - 16,
                 "\"waits_for\": \"H2D\"");
    g_string_append(text, "]}\n");
    return g_string_free(text, FALSE);
}

static char *run_text(const char *maker, const struct plan_figures *figures)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text,
                           "{%s, \"chunk_bytes\": %d, \"device_memory_bytes\": %d, "
                           "\"look_ahead\": 0, \"unigram_entropy\": 3.0}\n",
                           maker, SAMPLE_CHUNK_BYTES, SAMPLE_DEVICE_BYTES);
    for (int step = 1; step <= 6; step++) {
        g_autofree char *numbers = figures_text(figures, 0.016 + 0.001 * step);
        g_string_append_printf(text, "{\"step\": %d, \"loss\": %.6f, %s}\n", step, 5.5 / step,
                               numbers);
    }
    return g_string_free(text, FALSE);
}

struct sample *sample_new(const char *suffix)
{
    GError *error = NULL;
    struct sample *sample = g_new0(struct sample, 1);
    sample->folder = g_dir_make_tmp("report-XXXXXX", &error);
    g_assert_no_error(error);

    struct trace *trace = sample_trace(suffix);
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    struct plan *fifo = plan_of(trace, SAMPLE_DEVICE_BYTES, &policy_fifo);
    sample->trace = sample_path(sample, "sample.pstar");
    trace_write(trace, sample->trace, &error);
    g_assert_no_error(error);
    sample->plan = sample_path(sample, "plan.json");
    plan_write(plan, sample->plan, &error);
    g_assert_no_error(error);

    g_autofree char *sweep = sweep_text(&plan->predicted, &fifo->predicted);
    g_autofree char *timeline = timeline_text(trace);
    g_autofree char *run = run_text("\"made_by\": \"policy opt\"", &plan->predicted);
    g_autofree char *policy_run = run_text("\"policy\": \"fifo\"", &fifo->predicted);
    sample->sweep = sample_file(sample, "sweep.json", sweep);
    sample->timeline = sample_file(sample, "timeline.json", timeline);
    sample->run = sample_file(sample, "run.jsonl", run);
    sample->policy_run = sample_file(sample, "policy_run.jsonl", policy_run);
    plan_free(plan);
    plan_free(fifo);
    trace_free(trace);
    return sample;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void sample_free(struct sample *sample)
{
    nftw(sample->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    g_free(sample->folder);
    g_free(sample->trace);
    g_free(sample->plan);
    g_free(sample->sweep);
    g_free(sample->timeline);
    g_free(sample->run);
    g_free(sample->policy_run);
    g_free(sample);
}

char *sample_read(const char *path)
{
    GError *error = NULL;
    char *text = NULL;
    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

unsigned sample_count(const char *folder)
{
    unsigned count = 0;
    GDir *dir = g_dir_open(folder, 0, NULL);
    g_assert_nonnull(dir);
    while (g_dir_read_name(dir))
        count++;
    g_dir_close(dir);
    return count;
}
