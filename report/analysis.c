#include "report/analysis.h"

#include "report/quantities.h"
#include "report/text.h"
#include "traces/size.h"

#include <math.h>

static void split_free(void *data)
{
    struct split *split = data;
    g_free(split->label);
    g_free(split->maker);
    g_free(split);
}

/* What the device waits for in a phase of which the sums are known. */
static void add_phase(struct split *split, uint8_t phase, const struct strip_sums *sums)
{
    split->compute[phase] += sums->busy[STRIP_COMPUTE];
    for (int cause = 0; cause <= STRIP_UNKNOWN; cause++)
        split->wait[cause] += sums->wait_for[cause];
}

static struct split *split_of_strips(const struct strips *strips)
{
    struct split *split = g_new0(struct split, 1);
    split->label = g_strdup_printf("%s, %s", strips->origin,
                                   strips->alone      ? "its operators alone"
                                   : strips->measured ? "measured"
                                                      : "simulated");
    split->maker = g_strdup(strips->configuration.maker);
    split->seconds = strips->seconds;
    split->given = !strips->alone;
    split->alone = strips->alone;
    if (!strips->phases->len) {
        struct strip_sums sums = strips_sum_all(strips);
        add_phase(split, STRIP_NO_PHASE, &sums);
    }
    for (int phase = 0; strips->phases->len && phase < STRIP_NO_PHASE; phase++) {
        struct strip_sums sums = strips_sum(strips, (enum trace_phase)phase);
        add_phase(split, (uint8_t)phase, &sums);
    }
    return split;
}

/* Of an iteration of which only sums are known. */
static struct split *split_of_figures(const struct configuration *configuration,
                                      const struct plan_figures *figures)
{
    struct split *split = g_new0(struct split, 1);
    split->label = configuration_short_label(configuration);
    split->maker = g_strdup(configuration->maker);
    split->seconds = figures->iteration_seconds;
    split->compute[STRIP_NO_PHASE] = figures->iteration_seconds - figures->stall_seconds;
    split->wait[STRIP_UNKNOWN] = figures->stall_seconds;
    return split;
}

static struct split *split_of_entry(const struct sweep_file_entry *entry)
{
    if (!entry->phases)
        return split_of_figures(&entry->configuration, &entry->figures);
    struct split *split = split_of_figures(&entry->configuration, &entry->figures);
    split->compute[STRIP_NO_PHASE] = split->wait[STRIP_UNKNOWN] = 0;
    for (int phase = 0; phase < STRIP_NO_PHASE; phase++) {
        const struct strip_sums *sums = &entry->phases[phase];
        add_phase(split, (uint8_t)phase, sums);
    }
    return split;
}

static int by_seconds(const void *left, const void *right)
{
    const struct split *a = *(struct split *const *)left, *b = *(struct split *const *)right;
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
            g_ptr_array_add(others, split_of_entry(entry));
    }
}

/* Whether a timeline of it is among the files, which says more. */
static bool has_timeline(const struct inputs *inputs, const struct input_plan *input)
{
    for (guint i = 0; i < inputs->strips->len; i++) {
        const struct strips *strips = g_ptr_array_index(inputs->strips, i);
        if (!strips->measured && !strips->alone &&
            !g_strcmp0(strips->configuration.maker, input->configuration.maker) &&
            fabs(strips->seconds - input->plan->predicted.iteration_seconds) < 1e-6)
            return true;
    }
    return false;
}

GPtrArray *splits_find(const struct inputs *inputs)
{
    GPtrArray *splits = g_ptr_array_new_with_free_func(split_free);
    GPtrArray *others = g_ptr_array_new(), *alone = g_ptr_array_new();
    for (guint i = 0; i < inputs->strips->len; i++) {
        struct split *split = split_of_strips(g_ptr_array_index(inputs->strips, i));
        g_ptr_array_add(split->alone ? alone : splits, split);
    }
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        if (input->plan->predicted.iteration_seconds > 0 && !has_timeline(inputs, input))
            g_ptr_array_add(others,
                            split_of_figures(&input->configuration, &input->plan->predicted));
    }
    for (guint s = 0; s < inputs->sweeps->len; s++)
        add_sweep(g_ptr_array_index(inputs->sweeps, s), inputs->plans, others);
    g_ptr_array_sort(others, by_seconds);
    g_ptr_array_extend_and_steal(splits, others);
    g_ptr_array_extend_and_steal(splits, alone);
    return splits;
}

static bool predict_by_plan(const struct inputs *inputs, struct pair *pair)
{
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        if (!configuration_same(&input->configuration, &pair->run->configuration))
            continue;
        pair->predictor = input->path;
        pair->configuration = &input->configuration;
        pair->predicted = input->plan->predicted;
        return true;
    }
    return false;
}

static bool predict_by_sweep(const struct sweep_file *sweep, struct pair *pair)
{
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (!entry->fits || !configuration_same(&entry->configuration, &pair->run->configuration))
            continue;
        pair->predictor = sweep->origin;
        pair->configuration = &entry->configuration;
        pair->predicted = entry->figures;
        return true;
    }
    return false;
}

GArray *pairs_find(const struct inputs *inputs)
{
    GArray *pairs = g_array_new(FALSE, FALSE, sizeof(struct pair));
    for (guint r = 0; r < inputs->runs->len; r++) {
        struct pair pair = {.run = g_ptr_array_index(inputs->runs, r)};
        if (!run_log_measured(pair.run, &pair.measured, &pair.steady))
            continue;
        run_log_range(pair.run, &pair.low, &pair.high);
        bool found = predict_by_plan(inputs, &pair);
        for (guint s = 0; s < inputs->sweeps->len && !found; s++)
            found = predict_by_sweep(g_ptr_array_index(inputs->sweeps, s), &pair);
        pair.timed = pair.predicted.iteration_seconds > 0;
        if (found)
            g_array_append_val(pairs, pair);
    }
    return pairs;
}

unsigned pair_equal_counts(const struct pair *pair, unsigned *of)
{
    unsigned equal = 0;
    *of = 0;
    for (const struct quantity *quantity = quantities; quantity->name; quantity++) {
        if (quantity->unit == QUANTITY_SECONDS)
            continue;
        ++*of;
        equal += quantity_value(&pair->predicted, quantity) ==
                 quantity_value(&pair->measured, quantity);
    }
    return equal;
}

static bool first_two(const GPtrArray *all, bool measured, const struct strips **pair)
{
    unsigned found = 0;
    for (guint i = 0; i < all->len && found < 2; i++) {
        const struct strips *strips = g_ptr_array_index(all, i);
        if (strips->measured == measured)
            pair[found++] = strips;
    }
    return found == 2;
}

bool compare_pair(const struct inputs *inputs, const struct strips **a, const struct strips **b)
{
    const struct strips *pair[2];
    if (!first_two(inputs->strips, true, pair) && !first_two(inputs->strips, false, pair))
        return false;
    *a = pair[0];
    *b = pair[1];
    return true;
}

static void add_spans(GArray *changes, GHashTable *places, const GArray *spans, int which)
{
    for (guint i = 0; i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
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

GArray *compare_names(const struct strips *a, const struct strips *b)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct compare_change));
    g_autoptr(GHashTable) places = g_hash_table_new(g_str_hash, g_str_equal);
    const struct strips *both[] = {a, b};
    for (int which = 0; which < 2; which++) {
        add_spans(changes, places, both[which]->spans[STRIP_COMPUTE], which);
        add_spans(changes, places, both[which]->spans[STRIP_HOST], which);
    }
    g_array_sort(changes, by_difference);
    return changes;
}
