#include "report/analysis.h"

#include "base/size.h"
#include "chunks/figures.h"
#include "report/text.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static void breakdown_free(void *data)
{
    struct breakdown *breakdown = data;
    g_free(breakdown->label);
    g_free(breakdown->maker);
    g_free(breakdown);
}

/* Adds the sums of one phase. */
static void add_phase(struct breakdown *breakdown, uint8_t phase, const struct track_sums *sums)
{
    breakdown->compute[phase] += sums->busy[TRACK_COMPUTE];
    for (int cause = 0; cause <= TRACK_UNKNOWN; cause++)
        breakdown->wait[cause] += sums->wait_for[cause];
}

/* Returns 0 if the file is gone. */
static int64_t modified_of(const char *path)
{
    struct stat status;
    return stat(path, &status)
               ? 0
               : (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
}

static struct breakdown *breakdown_of_tracks(const struct tracks *tracks)
{
    struct breakdown *breakdown = g_new0(struct breakdown, 1);
    breakdown->label = g_strdup_printf("%s, %s", tracks->origin,
                                       tracks->operators_only ? "operators only"
                                       : tracks->measured     ? "measured"
                                                              : "simulated");
    breakdown->maker = g_strdup(tracks->configuration.maker);
    breakdown->seconds = tracks->seconds;
    breakdown->given = !tracks->operators_only;
    breakdown->measured = tracks->measured;
    breakdown->modified_ns = modified_of(tracks->origin);
    breakdown->model = tracks->model;
    breakdown->configuration = &tracks->configuration;
    breakdown->tracks = tracks;
    breakdown->operators_only = tracks->operators_only;
    if (!tracks->phases->len) {
        struct track_sums sums = tracks_sum_all(tracks);
        add_phase(breakdown, TRACK_NO_PHASE, &sums);
    }
    for (int phase = 0; tracks->phases->len && phase < TRACK_NO_PHASE; phase++) {
        struct track_sums sums = tracks_sum(tracks, (enum trace_phase)phase);
        add_phase(breakdown, (uint8_t)phase, &sums);
    }
    return breakdown;
}

/* Makes a breakdown of an iteration for which only sums are known. */
static struct breakdown *breakdown_of_figures(const struct configuration *configuration,
                                              const struct plan_figures *figures)
{
    struct breakdown *breakdown = g_new0(struct breakdown, 1);
    breakdown->label = configuration_short_label(configuration);
    breakdown->maker = g_strdup(configuration->maker);
    breakdown->configuration = configuration;
    breakdown->seconds = figures->iteration_seconds;
    breakdown->compute[TRACK_NO_PHASE] = figures->iteration_seconds - figures->stall_seconds;
    breakdown->wait[TRACK_UNKNOWN] = figures->stall_seconds;
    return breakdown;
}

/* Returns NULL if the log has no times. */
static struct breakdown *breakdown_of_run(const struct logged_run *run)
{
    struct plan_figures measured;
    if (!run_log_measured(run, &measured, NULL) || !(measured.iteration_seconds > 0))
        return NULL;
    struct breakdown *breakdown = breakdown_of_figures(&run->configuration, &measured);
    g_free(breakdown->label);
    breakdown->label = g_strdup_printf("%s, measured", run->origin);
    breakdown->given = breakdown->measured = true;
    breakdown->modified_ns = modified_of(run->origin);
    breakdown->model = run->model;
    breakdown->run = run;
    return breakdown;
}

/* Measured steps come first, the newest of them at the front. Others keep their order. */
static void sort_given(GPtrArray *given)
{
    for (guint i = 1; i < given->len; i++)
        for (guint at = i; at > 0; at--) {
            const struct breakdown *a = given->pdata[at - 1], *b = given->pdata[at];
            bool later = b->measured && (!a->measured || b->modified_ns > a->modified_ns);
            if (!later)
                break;
            gpointer moved = given->pdata[at];
            given->pdata[at] = given->pdata[at - 1];
            given->pdata[at - 1] = moved;
        }
}

static struct breakdown *breakdown_of_entry(const struct sweep_file_entry *entry)
{
    if (!entry->phases)
        return breakdown_of_figures(&entry->configuration, &entry->figures);
    struct breakdown *breakdown = breakdown_of_figures(&entry->configuration, &entry->figures);
    breakdown->compute[TRACK_NO_PHASE] = breakdown->wait[TRACK_UNKNOWN] = 0;
    for (int phase = 0; phase < TRACK_NO_PHASE; phase++) {
        const struct track_sums *sums = &entry->phases[phase];
        add_phase(breakdown, (uint8_t)phase, sums);
    }
    return breakdown;
}

static int by_seconds(const void *left, const void *right)
{
    const struct breakdown *a = *(struct breakdown *const *)left,
                           *b = *(struct breakdown *const *)right;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

static uint64_t budget_of(const struct sweep_file *sweep, const GPtrArray *plans)
{
    g_autoptr(GArray) budgets = sweep_file_budgets(sweep);
    for (guint p = 0; p < plans->len; p++)
        for (guint b = 0; b < budgets->len; b++) {
            const struct input_plan *plan = g_ptr_array_index(plans, p);
            if (g_array_index(budgets, uint64_t, b) == plan->configuration.device_budget)
                return plan->configuration.device_budget;
        }
    return g_array_index(budgets, uint64_t, budgets->len - 1);
}

static void add_sweep(const struct sweep_file *sweep, const GPtrArray *plans, GPtrArray *others)
{
    uint64_t budget = budget_of(sweep, plans);
    g_autoptr(GPtrArray) makers = sweep_file_makers(sweep);
    for (guint m = 0; m < makers->len; m++) {
        const struct sweep_file_entry *entry = sweep_file_fastest(sweep, budget,
                                                                  g_ptr_array_index(makers, m));
        if (entry)
            g_ptr_array_add(others, breakdown_of_entry(entry));
    }
}

/* Returns whether the timeline is of the plan. */
static bool is_timeline_of(const struct tracks *tracks, const struct input_plan *input)
{
    return !tracks->measured && !tracks->operators_only &&
           !g_strcmp0(tracks->configuration.maker, input->configuration.maker) &&
           fabs(tracks->seconds - input->plan->predicted.iteration_seconds) < 1e-6;
}

/* Returns whether a timeline of the plan is among the files; it says more than the plan. */
static bool has_timeline(const struct report_inputs *inputs, const struct input_plan *input)
{
    for (guint i = 0; i < inputs->tracks->len; i++)
        if (is_timeline_of(g_ptr_array_index(inputs->tracks, i), input))
            return true;
    return false;
}

const struct tracks *tracks_of_plan(const struct report_inputs *inputs,
                                    const struct input_plan *input)
{
    for (guint i = 0; i < inputs->tracks->len; i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        if (is_timeline_of(tracks, input))
            return tracks;
    }
    return NULL;
}

GPtrArray *breakdowns_find(const struct report_inputs *inputs)
{
    GPtrArray *breakdowns = g_ptr_array_new_with_free_func(breakdown_free);
    GPtrArray *others = g_ptr_array_new(), *alone = g_ptr_array_new();
    for (guint i = 0; i < inputs->tracks->len; i++) {
        struct breakdown *breakdown = breakdown_of_tracks(g_ptr_array_index(inputs->tracks, i));
        g_ptr_array_add(breakdown->operators_only ? alone : breakdowns, breakdown);
    }
    for (guint r = 0; r < inputs->runs->len; r++) {
        struct breakdown *breakdown = breakdown_of_run(g_ptr_array_index(inputs->runs, r));
        if (breakdown)
            g_ptr_array_add(breakdowns, breakdown);
    }
    sort_given(breakdowns);
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        if (input->plan->predicted.iteration_seconds > 0 && !has_timeline(inputs, input))
            g_ptr_array_add(others,
                            breakdown_of_figures(&input->configuration, &input->plan->predicted));
    }
    for (guint s = 0; s < inputs->sweeps->len; s++)
        add_sweep(g_ptr_array_index(inputs->sweeps, s), inputs->plans, others);
    g_ptr_array_sort(others, by_seconds);
    g_ptr_array_extend_and_steal(breakdowns, others);
    g_ptr_array_extend_and_steal(breakdowns, alone);
    return breakdowns;
}

const struct breakdown *subject_of_advice(const GPtrArray *breakdowns)
{
    const struct breakdown *first = breakdowns->len ? g_ptr_array_index(breakdowns, 0) : NULL;
    return first && first->given ? first : NULL;
}

static bool predict_by_plan(const struct report_inputs *inputs, struct prediction *prediction)
{
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        if (!configuration_same(&input->configuration, &prediction->run->configuration))
            continue;
        prediction->predictor = input->path;
        prediction->configuration = &input->configuration;
        prediction->predicted = input->plan->predicted;
        return true;
    }
    return false;
}

static bool predict_by_sweep(const struct sweep_file *sweep, struct prediction *prediction)
{
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (!entry->fits ||
            !configuration_same(&entry->configuration, &prediction->run->configuration))
            continue;
        prediction->predictor = sweep->origin;
        prediction->configuration = &entry->configuration;
        prediction->predicted = entry->figures;
        return true;
    }
    return false;
}

GArray *predictions_find(const struct report_inputs *inputs)
{
    GArray *predictions = g_array_new(FALSE, FALSE, sizeof(struct prediction));
    for (guint r = 0; r < inputs->runs->len; r++) {
        struct prediction prediction = {.run = g_ptr_array_index(inputs->runs, r)};
        if (!run_log_measured(prediction.run, &prediction.measured, &prediction.steady))
            continue;
        run_log_range(prediction.run, &prediction.low, &prediction.high);
        bool found = predict_by_plan(inputs, &prediction);
        for (guint s = 0; s < inputs->sweeps->len && !found; s++)
            found = predict_by_sweep(g_ptr_array_index(inputs->sweeps, s), &prediction);
        prediction.timed = prediction.predicted.iteration_seconds > 0;
        if (found)
            g_array_append_val(predictions, prediction);
    }
    return predictions;
}

unsigned prediction_equal_counts(const struct prediction *prediction, unsigned *of)
{
    unsigned equal = 0;
    *of = 0;
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        if (figure->unit == FIGURE_SECONDS ||
            figures_lack(&prediction->predicted, &prediction->measured, figure))
            continue;
        ++*of;
        equal += figures_value(&prediction->predicted, figure) ==
                 figures_value(&prediction->measured, figure);
    }
    return equal;
}

static bool first_two(const GPtrArray *all, bool measured, const struct tracks **steps)
{
    unsigned found = 0;
    for (guint i = 0; i < all->len && found < 2; i++) {
        const struct tracks *tracks = g_ptr_array_index(all, i);
        if (tracks->measured == measured)
            steps[found++] = tracks;
    }
    return found == 2;
}

/* Stages of one pipeline wait for each other, so none is faster. */
static bool are_stages(const struct report_inputs *inputs, const struct tracks *const *steps)
{
    const struct input_trace *first = inputs_trace_of(inputs, steps[0]),
                             *second = inputs_trace_of(inputs, steps[1]);
    return first && second && first->trace->stages > 1 && second->trace->stages > 1 &&
           first->trace->stage != second->trace->stage;
}

bool compare_steps(const struct report_inputs *inputs, const struct tracks **a,
                   const struct tracks **b)
{
    const struct tracks *steps[2];
    if (!first_two(inputs->tracks, true, steps) && !first_two(inputs->tracks, false, steps))
        return false;
    if (are_stages(inputs, steps))
        return false;
    *a = steps[0];
    *b = steps[1];
    return true;
}

bool compare_same_work(const struct report_inputs *inputs, const struct tracks *a,
                       const struct tracks *b)
{
    const struct input_trace *first = inputs_trace_of(inputs, a),
                             *second = inputs_trace_of(inputs, b);
    if (a->model && b->model && strcmp(a->model, b->model) != 0)
        return false;
    if (!first || !second)
        return true;
    const struct trace *one = first->trace, *other = second->trace;
    return one->batch == other->batch && one->sequence == other->sequence &&
           one->micro_batches == other->micro_batches;
}

static void add_spans(GArray *changes, GHashTable *places, const GArray *spans, int which)
{
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        gpointer place;
        if (!g_hash_table_lookup_extended(places, span->name, NULL, &place)) {
            const struct compare_change fresh = {.name = span->name};
            place = GUINT_TO_POINTER(changes->len);
            g_array_append_val(changes, fresh);
            g_hash_table_insert(places, (gpointer)span->name, place);
        }
        g_array_index(changes, struct compare_change, GPOINTER_TO_UINT(place)).seconds[which] +=
            span->end - span->start;
    }
}

static double difference(const struct compare_change *change)
{
    return fabs(change->seconds[1] - change->seconds[0]);
}

static int by_difference(const void *left, const void *right)
{
    double a = difference(left), b = difference(right);
    return (a < b) - (a > b);
}

GArray *compare_names(const struct tracks *a, const struct tracks *b)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct compare_change));
    g_autoptr(GHashTable) places = g_hash_table_new(g_str_hash, g_str_equal);
    const struct tracks *both[] = {a, b};
    for (int which = 0; which < 2; which++) {
        add_spans(changes, places, both[which]->spans[TRACK_COMPUTE], which);
        add_spans(changes, places, both[which]->spans[TRACK_HOST], which);
    }
    g_array_sort(changes, by_difference);
    return changes;
}
