#include "report/advice.h"
#include "report/commands.h"
#include "report/text.h"
#include "traces/size.h"

/* Gains below this share are not worth money. */
#define WORTH 0.02

/* Hardware costs what other changes do not: it comes after them. */
#define AFTER 0.1

/* The budget of the sweep that advice begins with: the plan's, or the least. */
static guint budget_now(const struct inputs *inputs, const GArray *budgets)
{
    for (guint b = 0; inputs->plans->len && b < budgets->len; b++)
        if (g_array_index(budgets, uint64_t, b) ==
            ((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))
                ->configuration.device_bytes)
            return b;
    return 0;
}

/* From the budget to the next. */
static void add_memory(struct contents *contents, const struct sweep_file *sweep,
                       const struct sweep_file_entry *less, uint64_t budget)
{
    const struct sweep_file_entry *more = sweep_file_fastest(sweep, budget, NULL);
    double slow = less->figures.iteration_seconds;
    if (!more || more->figures.iteration_seconds > (1 - WORTH) * slow)
        return;
    g_autofree char *from = size_format(less->configuration.device_bytes);
    g_autofree char *to = size_format(budget), *now = text_seconds(slow);
    g_autofree char *length = text_seconds(more->figures.iteration_seconds);
    g_autofree char *gained = advice_gain(more->figures.iteration_seconds, slow);
    g_autofree char *trace = command_trace(contents->inputs);
    g_autofree char *platform = command_platform(contents->inputs);
    advice_append(contents, AFTER * (slow - more->figures.iteration_seconds), "sensitivity",
                  g_strdup_printf("With %s of device memory instead of %s a step would take %s: %s "
                                  "less",
                                  to, from, length, gained),
                  g_strdup_printf("The best of the sweep takes %s with %s.", now, from),
                  g_strdup_printf("pstar-plan %s --sensitivity more.svg --device-memory "
                                  "%" G_GUINT64_FORMAT " --platform %s",
                                  trace, less->configuration.device_bytes, platform));
}

static double slower_way(const struct sweep_file *sweep)
{
    return MIN(sweep->link_rate[0], sweep->link_rate[1]);
}

/* With the same memory, of the sweeps of faster links. */
static void add_link(struct contents *contents, const struct sweep_file *sweep,
                     const struct sweep_file *other, const struct sweep_file_entry *slow)
{
    const struct sweep_file_entry *fast =
        sweep_file_fastest(other, slow->configuration.device_bytes, NULL);
    double now = slow->figures.iteration_seconds;
    if (!fast || fast->figures.iteration_seconds > (1 - WORTH) * now)
        return;
    g_autofree char *before = text_rate(slower_way(sweep)), *after = text_rate(slower_way(other));
    g_autofree char *length = text_seconds(fast->figures.iteration_seconds);
    g_autofree char *was = text_seconds(now), *trace = command_trace(contents->inputs);
    g_autofree char *memory = size_format(slow->configuration.device_bytes);
    g_autofree char *gained = advice_gain(fast->figures.iteration_seconds, now);
    advice_append(
        contents, AFTER * (now - fast->figures.iteration_seconds), "sensitivity",
        g_strdup_printf("With a link of %s instead of %s a step would take %s: %s less", after,
                        before, length, gained),
        g_strdup_printf("The best of the sweep takes %s with %s of device memory.", was, memory),
        g_strdup_printf("pstar-plan %s --device-memory %" G_GUINT64_FORMAT
                        " --link h2d=%.4gGB/s,d2h=%.4gGB/s -o plan.json",
                        trace, slow->configuration.device_bytes, other->link_rate[0] * 1e-9,
                        other->link_rate[1] * 1e-9));
}

void advice_add_hardware(struct contents *contents)
{
    const struct inputs *inputs = contents->inputs;
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
