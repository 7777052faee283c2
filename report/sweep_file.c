#include "report/inputs.h"

#include "chunks/figures.h"
#include "report/report.h"

#include <stddef.h>

static void clear_entry(void *data)
{
    struct sweep_file_entry *entry = data;
    configuration_clear(&entry->configuration);
    g_clear_pointer(&entry->phases, g_free);
}

static double seconds_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Attributes waiting to the resources that were busy, the host first, because copies wait for it.
 */
static struct track_sums phase_of(const json_t *object)
{
    struct track_sums sums = {.seconds = seconds_of(object, "seconds")};
    sums.busy[TRACK_COMPUTE] = seconds_of(object, "compute_seconds");
    sums.busy[TRACK_H2D] = seconds_of(object, "h2d_seconds");
    sums.busy[TRACK_D2H] = seconds_of(object, "d2h_seconds");
    sums.busy[TRACK_HOST] = seconds_of(object, "host_seconds");
    double left = sums.busy[TRACK_WAIT] = MAX(0, sums.seconds - sums.busy[TRACK_COMPUTE]);
    for (int s = TRACK_HOST; s >= TRACK_H2D; s--) {
        sums.wait_for[s] = MIN(left, sums.busy[s]);
        left -= sums.wait_for[s];
    }
    sums.wait_for[TRACK_UNKNOWN] = left;
    return sums;
}

static struct track_sums *phases_of(const json_t *list)
{
    if (!json_array_size(list))
        return NULL;
    struct track_sums *phases = g_new0(struct track_sums, TRACK_NO_PHASE);
    const json_t *object;
    size_t index;
    json_array_foreach (list, index, object) {
        const char *name = json_string_value(json_object_get(object, "phase"));
        uint8_t phase;
        if (name && trace_phase_parse(name, &phase))
            phases[phase] = phase_of(object);
    }
    return phases;
}

static bool read_entry(const json_t *object, const char *origin, size_t number,
                       struct sweep_file_entry *entry, GError **error)
{
    const char *missing = NULL;
    const struct plan_figure *bad = NULL;
    const json_t *fits = json_object_get(object, "fits");
    if (!json_is_object(object))
        missing = "object";
    else if (!json_is_boolean(fits))
        missing = "fits";
    else if (!entry->configuration.maker)
        missing = "policy";
    else if (!entry->configuration.chunk_bytes)
        missing = "chunk_bytes";
    else if (entry->configuration.device_budget == UINT64_MAX)
        missing = "device_memory_bytes";
    else if (json_is_true(fits) && figures_from_json(object, &entry->figures, &bad))
        entry->fits = true;
    else if (bad)
        missing = bad->name;
    if (!missing)
        return true;
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                "%s: results[%zu] of the sweep has no valid \"%s\"", origin, number, missing);
    return false;
}

static bool read_pass(const json_t *list, struct drawn_pass *pass)
{
    const char *phase = json_string_value(json_array_get(list, 0));
    const json_t *micro_batch = json_array_get(list, 1);
    const json_t *start = json_array_get(list, 2), *end = json_array_get(list, 3);
    pass->micro_batch = (uint32_t)json_integer_value(micro_batch);
    pass->start = json_number_value(start);
    pass->end = json_number_value(end);
    return phase && trace_phase_parse(phase, &pass->phase) && json_is_integer(micro_batch) &&
           json_integer_value(micro_batch) >= 0 && json_integer_value(micro_batch) < UINT32_MAX &&
           json_is_number(start) && json_is_number(end) && pass->start >= 0 &&
           pass->end >= pass->start;
}

/* Reads how many stages the entry has, and their passes if it has them. */
static bool read_passes(const json_t *object, struct sweep_file *sweep, size_t number,
                        GError **error)
{
    const json_t *stage, *list;
    size_t s, p;
    json_array_foreach (json_object_get(object, "stages"), s, stage) {
        sweep->stages = MAX(sweep->stages, (uint32_t)s + 1);
        json_array_foreach (json_object_get(stage, "passes"), p, list) {
            struct drawn_pass pass = {.stage = (uint32_t)s};
            if (!read_pass(list, &pass)) {
                g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                            "%s: results[%zu].stages[%zu].passes[%zu] of the sweep is no pass: "
                            "phase, micro-batch, start and end",
                            sweep->origin, number, s, p);
                return false;
            }
            g_array_append_val(sweep->passes, pass);
        }
    }
    return true;
}

/* Sweeps from before there were objectives were ranked by traffic. */
static enum objective objective_of(const json_t *root)
{
    const char *name = json_string_value(json_object_get(root, "objective"));
    enum objective objective = OBJECTIVE_TRAFFIC;
    if (name)
        objective_find(name, &objective);
    return objective;
}

struct sweep_file *sweep_file_read(const json_t *root, const char *origin, GError **error)
{
    struct sweep_file *sweep = g_new0(struct sweep_file, 1);
    sweep->origin = g_strdup(origin);
    sweep->trace = g_strdup(json_string_value(json_object_get(root, "trace")));
    sweep->platform = g_strdup(json_string_value(json_object_get(root, "platform")));
    sweep->link_rate[0] = json_number_value(json_object_get(root, "h2d_rate"));
    sweep->link_rate[1] = json_number_value(json_object_get(root, "d2h_rate"));
    sweep->link = configuration_link(root);
    sweep->objective = objective_of(root);
    sweep->entries = g_array_new(FALSE, TRUE, sizeof(struct sweep_file_entry));
    g_array_set_clear_func(sweep->entries, clear_entry);
    sweep->passes = g_array_new(FALSE, FALSE, sizeof(struct drawn_pass));

    const char *digest = json_string_value(json_object_get(root, "digest"));
    const json_t *results = json_object_get(root, "results"), *object;
    size_t number;
    json_array_foreach (results, number, object) {
        struct sweep_file_entry entry = {.configuration = configuration_of_json(object)};
        if (!entry.configuration.digest)
            entry.configuration.digest = g_strdup(digest);
        configuration_add_machine(&entry.configuration, root);
        bool ok = read_entry(object, origin, number, &entry, error) &&
                  read_passes(object, sweep, number, error);
        entry.phases = phases_of(json_object_get(object, "phases"));
        g_array_append_val(sweep->entries, entry);
        if (!ok) {
            sweep_file_free(sweep);
            return NULL;
        }
    }
    if (sweep->entries->len)
        return sweep;
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s: the sweep has no results", origin);
    sweep_file_free(sweep);
    return NULL;
}

void sweep_file_free(struct sweep_file *sweep)
{
    if (!sweep)
        return;
    g_free(sweep->origin);
    g_free(sweep->trace);
    g_free(sweep->platform);
    g_free(sweep->link);
    g_array_unref(sweep->entries);
    g_array_unref(sweep->passes);
    g_free(sweep);
}

static double slower_way(const struct sweep_file *sweep)
{
    return MIN(sweep->link_rate[0], sweep->link_rate[1]);
}

bool sweep_file_is_slower(const struct sweep_file *sweep, const struct sweep_file *than)
{
    /* Rates come from fits, so equal links may differ in their last digits. */
    return !g_strcmp0(sweep->trace, than->trace) && slower_way(sweep) > 0 &&
           slower_way(sweep) < 0.999 * slower_way(than);
}

const struct sweep_file_entry *sweep_file_fastest(const struct sweep_file *sweep,
                                                  uint64_t device_budget, const char *maker)
{
    const struct sweep_file_entry *best = NULL;
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->fits && entry->configuration.device_budget == device_budget &&
            entry->figures.iteration_seconds > 0 &&
            (!maker || !g_strcmp0(entry->configuration.maker, maker)) &&
            (!best || entry->figures.iteration_seconds < best->figures.iteration_seconds))
            best = entry;
    }
    return best;
}

const struct sweep_file_entry *sweep_file_best(const struct sweep_file *sweep,
                                               enum objective objective, uint64_t device_budget,
                                               const char *maker)
{
    const struct sweep_file_entry *best = NULL;
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (!entry->fits ||
            (device_budget && entry->configuration.device_budget != device_budget) ||
            (maker && g_strcmp0(entry->configuration.maker, maker)))
            continue;
        if (!best || objective_compare(objective, &entry->figures, &best->figures) < 0)
            best = entry;
    }
    return best;
}

static int compare_sizes(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Returns the distinct values, ascending, of one field of the configurations (a uint64_t at
 * `offset`). */
static GArray *distinct_of(const struct sweep_file *sweep, size_t offset)
{
    GArray *values = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        g_array_append_vals(values, (const char *)&entry->configuration + offset, 1);
    }
    g_array_sort(values, compare_sizes);
    guint kept = 0;
    for (guint i = 0; i < values->len; i++) {
        uint64_t value = g_array_index(values, uint64_t, i);
        if (!kept || value != g_array_index(values, uint64_t, kept - 1))
            g_array_index(values, uint64_t, kept++) = value;
    }
    g_array_set_size(values, kept);
    return values;
}

GArray *sweep_file_budgets(const struct sweep_file *sweep)
{
    return distinct_of(sweep, offsetof(struct configuration, device_budget));
}

GArray *sweep_file_sizes(const struct sweep_file *sweep)
{
    return distinct_of(sweep, offsetof(struct configuration, chunk_bytes));
}

GPtrArray *sweep_file_makers(const struct sweep_file *sweep)
{
    GPtrArray *makers = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < sweep->entries->len; i++) {
        char *maker = g_array_index(sweep->entries, struct sweep_file_entry, i).configuration.maker;
        if (g_hash_table_add(seen, maker))
            g_ptr_array_add(makers, maker);
    }
    return makers;
}
