#include "report/split.h"

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
            if (g_array_index(budgets, uint64_t, b) == plan->configuration.device_bytes)
                return plan->configuration.device_bytes;
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
