/* Advice about alternatives: a plan, a strategy, a chunk size, other hardware. */
#include "base/size.h"
#include "chunks/figures.h"
#include "report/contents.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

/* Smaller gains are noise, or not worth the change. */
#define WORTH 0.02

/* Returns the time of the fastest way that the files know: the newest step, a plan, or `seconds`.
 */
static double fastest_known(const struct contents *contents, double seconds)
{
    const struct breakdown *given = subject_of_advice(contents->breakdowns);
    double least = given ? MIN(given->seconds, seconds) : seconds;
    for (guint p = 0; p < contents->inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(contents->inputs->plans, p);
        double planned = input->plan->predicted.iteration_seconds;
        least = planned > 0 ? MIN(least, planned) : least;
    }
    return least;
}

/* Returns the command that prints a plan as settings for PyTorch. */
static char *settings_command(const struct report_inputs *inputs, const struct input_plan *input)
{
    g_autofree char *plan = text_shell(input->path), *trace = command_trace(inputs);
    return g_strdup_printf("pstar-plan --explain %s %s --emit fsdp", plan, trace);
}

static void add_plan(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    const struct breakdown *given = subject_of_advice(contents->breakdowns);
    const struct input_plan *input = inputs->plans->len ? g_ptr_array_index(inputs->plans, 0)
                                                        : NULL;
    double planned = input ? input->plan->predicted.iteration_seconds : 0;
    if (!given || planned <= 0 || planned > (1 - WORTH) * given->seconds ||
        advice_has_run(contents, &input->configuration) ||
        (given->model && input->plan->model && strcmp(given->model, input->plan->model) != 0))
        return;
    g_autofree char *length = text_seconds(planned), *less = advice_gain(planned, given->seconds);
    g_autofree char *stall = text_seconds(input->plan->predicted.stall_seconds);
    bool torch = advice_is_torch(inputs);
    advice_append(
        contents, given->seconds - planned, "bars",
        g_strdup_printf("With the plan a step takes %s, which is %s less", length, less),
        g_strdup_printf("Under %s the device is predicted to wait for %s of this time. Device "
                        "memory stays the same, and the losses are equal bit for bit. %s",
                        input->path, stall,
                        torch ? "DeepSpeed and FSDP take the settings that come nearest to it."
                              : "pstar-run trains with it if it is given --plan."),
        torch ? settings_command(inputs, input) : NULL);
}

/* Reports the fastest entry of the sweep that the planner did not make, if it is faster than the
 * newest step and than the plans, and not what that step did. Breakdowns are ordered by time. */
static void add_strategy(struct contents *contents)
{
    const struct breakdown *given = subject_of_advice(contents->breakdowns), *best = NULL;
    for (guint i = 0; i < contents->breakdowns->len && !best; i++) {
        const struct breakdown *breakdown = g_ptr_array_index(contents->breakdowns, i);
        if (!breakdown->given && !breakdown->operators_only &&
            g_strcmp0(breakdown->maker, "planner"))
            best = breakdown;
    }
    if (!best || !given || advice_has_run(contents, best->configuration) ||
        best->seconds > (1 - WORTH) * fastest_known(contents, given->seconds))
        return;
    g_autofree char *length = text_seconds(best->seconds);
    g_autofree char *less = advice_gain(best->seconds, given->seconds);
    advice_append(contents, given->seconds - best->seconds, "bars",
                  g_strdup_printf("With %s a step would take %s, which is %s less", best->label,
                                  length, less),
                  g_strdup(command_is_pipeline(contents->inputs)
                               ? "It is the fastest entry of the sweep."
                               : "It is the fastest entry of the sweep. The planner is never "
                                 "slower than any of its entries."),
                  advice_plan_command(contents, 0));
}

/* Returns the entry of the sweep with the configuration that ran. May return NULL. */
static const struct sweep_file_entry *entry_like(const struct sweep_file *sweep,
                                                 const struct configuration *configuration)
{
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->fits && configuration_same(&entry->configuration, configuration))
            return entry;
    }
    return NULL;
}

static void add_chunk_size(struct contents *contents, const struct sweep_file *sweep,
                           const struct configuration *configuration)
{
    const struct sweep_file_entry *used = entry_like(sweep, configuration);
    const struct sweep_file_entry *best = used ? sweep_file_best(sweep, OBJECTIVE_TRAFFIC,
                                                                 configuration->device_budget,
                                                                 configuration->maker)
                                               : NULL;
    if (!best ||
        (double)figures_traffic(&best->figures) >
            (1 - WORTH) * (double)figures_traffic(&used->figures) ||
        best->figures.iteration_seconds > used->figures.iteration_seconds)
        return;
    g_autofree char *now = size_format(used->configuration.chunk_bytes);
    g_autofree char *then = size_format(best->configuration.chunk_bytes);
    g_autofree char *less = advice_gain((double)figures_traffic(&best->figures),
                                        (double)figures_traffic(&used->figures));
    g_autofree char *moved = size_format(figures_traffic(&used->figures));
    g_autofree char *maker = caption_name(configuration->maker);
    g_autofree char *step = text_difference(best->figures.iteration_seconds,
                                            used->figures.iteration_seconds);
    advice_append(
        contents, MAX(0, used->figures.iteration_seconds - best->figures.iteration_seconds),
        "sweep",
        g_strdup_printf("Chunks of %s waste %s of the traffic; chunks of %s do not", now, less,
                        then),
        g_strdup_printf("With %s the step moves %s. Of the sizes in the sweep, %s moves the least. "
                        "The step time changes by: %s. pstar-run takes the size as --chunk-size.",
                        maker, moved, then, step),
        NULL);
}

/* Compares chunk sizes for the newest step, if a sweep has an entry for it. */
static void add_chunks(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    const struct breakdown *given = subject_of_advice(contents->breakdowns);
    guint before = contents->advice->len;
    for (guint s = 0; given && s < inputs->sweeps->len && contents->advice->len == before; s++)
        add_chunk_size(contents, g_ptr_array_index(inputs->sweeps, s), given->configuration);
}

/* Users of PyTorch cannot run a plan, but their systems take settings that come near it. */
static void add_settings(struct contents *contents)
{
    char *command = advice_is_torch(contents->inputs) ? advice_plan_command(contents, 0) : NULL;
    if (command)
        advice_append(contents, 0, "bars",
                      g_strdup("A plan says what FSDP or DeepSpeed should keep on the device"),
                      g_strdup("The command makes it for the device memory that it names, and "
                               "prints the settings of FSDP that come nearest, with what they "
                               "lose. --emit deepspeed prints those of DeepSpeed."),
                      command);
}

void advice_add_choices(struct contents *contents)
{
    add_settings(contents);
    add_plan(contents);
    add_strategy(contents);
    add_chunks(contents);
}

#define WORTH 0.02

/* Advice to buy hardware comes after advice that costs nothing, so its gain counts less. */
#define AFTER 0.1

/* Returns the index of the plan's budget or, without a plan, of the smallest budget. */
static guint budget_now(const struct report_inputs *inputs, const GArray *budgets)
{
    for (guint b = 0; inputs->plans->len && b < budgets->len; b++)
        if (g_array_index(budgets, uint64_t, b) ==
            ((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))
                ->configuration.device_budget)
            return b;
    return 0;
}

/* Reports what the next larger budget gains. */
static void add_memory(struct contents *contents, const struct sweep_file *sweep,
                       const struct sweep_file_entry *less, uint64_t budget)
{
    const struct sweep_file_entry *more = sweep_file_fastest(sweep, budget, NULL);
    double slow = less->figures.iteration_seconds;
    if (!more || more->figures.iteration_seconds > (1 - WORTH) * fastest_known(contents, slow))
        return;
    g_autofree char *from = size_format(less->configuration.device_budget);
    g_autofree char *to = size_format(budget), *now = text_seconds(slow);
    g_autofree char *length = text_seconds(more->figures.iteration_seconds);
    g_autofree char *gained = advice_gain(more->figures.iteration_seconds, slow);
    g_autofree char *trace = command_trace(contents->inputs);
    g_autofree char *machine = command_machine(contents->inputs, less->configuration.device_budget);
    advice_append(
        contents, AFTER * (slow - more->figures.iteration_seconds), "sensitivity",
        g_strdup_printf(
            "With %s of device memory instead of %s a step would take %s, which is %s less", to,
            from, length, gained),
        g_strdup_printf("The fastest entry of the sweep takes %s with %s.", now, from),
        trace && !less->configuration.nvme_budget
            ? g_strdup_printf("pstar-plan %s --sensitivity more.svg %s", trace, machine)
            : NULL); /* questions know no NVMe */
}

static double slower_way(const struct sweep_file *sweep)
{
    return MIN(sweep->link_rate[0], sweep->link_rate[1]);
}

/* Reports what a faster link gains with the same memory. */
static void add_link(struct contents *contents, const struct sweep_file *sweep,
                     const struct sweep_file *other, const struct sweep_file_entry *slow)
{
    const struct sweep_file_entry *fast =
        sweep_file_fastest(other, slow->configuration.device_budget, NULL);
    double now = slow->figures.iteration_seconds;
    if (!fast || fast->figures.iteration_seconds > (1 - WORTH) * fastest_known(contents, now))
        return;
    g_autofree char *before = text_rate(slower_way(sweep)), *after = text_rate(slower_way(other));
    g_autofree char *length = text_seconds(fast->figures.iteration_seconds);
    g_autofree char *was = text_seconds(now), *trace = command_trace(contents->inputs);
    g_autofree char *memory = size_format(slow->configuration.device_budget);
    g_autofree char *gained = advice_gain(fast->figures.iteration_seconds, now);
    g_autofree char *machine = command_machine_with_link(
        contents->inputs, slow->configuration.device_budget, other->link_rate);
    advice_append(
        contents, AFTER * (now - fast->figures.iteration_seconds), "sensitivity",
        g_strdup_printf("With a link of %s instead of %s a step would take %s, which is %s less",
                        after, before, length, gained),
        g_strdup_printf("The fastest entry of the sweep takes %s with %s of device memory.", was,
                        memory),
        trace ? g_strdup_printf("pstar-plan %s %s -o plan.json", trace, machine) : NULL);
}

void advice_add_hardware(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    if (!inputs->sweeps->len)
        return;
    const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, 0);
    g_autoptr(GArray) budgets = sweep_file_budgets(sweep);
    guint now = budget_now(inputs, budgets);
    const struct sweep_file_entry *entry =
        sweep_file_fastest(sweep, g_array_index(budgets, uint64_t, now), NULL);
    if (entry && now + 1 < budgets->len)
        add_memory(contents, sweep, entry, g_array_index(budgets, uint64_t, now + 1));
    for (guint f = 0; entry && f < inputs->faster->len; f++) {
        const struct sweep_file *other = g_ptr_array_index(inputs->faster, f);
        if (sweep_file_is_slower(sweep, other))
            add_link(contents, sweep, other, entry);
    }
}
