#include "report/pairs.h"

#include "report/quantities.h"

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
