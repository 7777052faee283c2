/* The commands that a report prints. They work as printed, in the folder of the files: with the
 * trace, the budget, the platform and the link of the step that they are about. */
#include "report/contents.h"
#include "report/text.h"
#include "traces/size.h"

#include <math.h>

/* A budget that fits a step if no file states one: a share of the model data. */
#define USUAL_BUDGET  "50%"
#define LARGER_BUDGET "75%"

/* Rates that differ by less are the same link. */
#define SAME_LINK 0.05

bool command_has_trace(const struct report_inputs *inputs)
{
    bool named = inputs->traces->len > 0;
    for (guint s = 0; s < inputs->sweeps->len; s++)
        named = named || ((const struct sweep_file *)inputs->sweeps->pdata[s])->trace;
    return named;
}

char *command_trace(const struct report_inputs *inputs)
{
    if (inputs->traces->len)
        return text_shell(((const struct input_trace *)g_ptr_array_index(inputs->traces, 0))->path);
    for (guint s = 0; s < inputs->sweeps->len; s++) {
        const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, s);
        if (sweep->trace)
            return text_shell(sweep->trace);
    }
    return g_strdup("run.pstar");
}

/* Returns 0 if the memory is unknown or unlimited. */
static uint64_t limited(uint64_t bytes)
{
    return bytes == UINT64_MAX ? 0 : bytes;
}

/* Returns the budget of the first file that has one, or 0. */
static uint64_t budget_of(const struct report_inputs *inputs)
{
    uint64_t bytes = 0;
    if (inputs->plans->len)
        bytes = limited(((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))
                            ->configuration.device_budget);
    for (guint i = 0; i < inputs->tracks->len && !bytes; i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        bytes = tracks->measured ? 0 : limited(tracks->configuration.device_budget);
    }
    if (!bytes && inputs->sweeps->len) {
        g_autoptr(GArray) budgets = sweep_file_budgets(g_ptr_array_index(inputs->sweeps, 0));
        bytes = g_array_index(budgets, uint64_t, budgets->len - 1);
    }
    return bytes;
}

/* Returns the rates of the link that the files were simulated with [H2D, D2H], or NULL. */
static const double *simulated_link(const struct report_inputs *inputs)
{
    for (guint i = 0; i < inputs->tracks->len; i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        if (!tracks->measured && tracks->link_rate[0] > 0 && tracks->link_rate[1] > 0)
            return tracks->link_rate;
    }
    for (guint i = 0; i < inputs->sweeps->len; i++) {
        const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, i);
        if (sweep->link_rate[0] > 0 && sweep->link_rate[1] > 0)
            return sweep->link_rate;
    }
    return NULL;
}

static bool is_rate_of(const struct platform_curve *curve, double rate)
{
    const struct platform_point *last = &curve->points[curve->count - 1];
    return fabs(last->amount / last->seconds / rate - 1) < SAME_LINK;
}

/* Returns the path of the platform that is given, or that a sweep names, if its file is there. May
 * return NULL. */
static const char *platform_path(const struct report_inputs *inputs)
{
    for (guint s = 0; !inputs->platform_path && s < inputs->sweeps->len; s++) {
        const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, s);
        if (sweep->platform && g_file_test(sweep->platform, G_FILE_TEST_IS_REGULAR))
            return sweep->platform;
    }
    return inputs->platform_path;
}

/* Appends --link, unless it is the platform's (may be NULL), or not known. */
static void append_link(GString *text, const struct report_inputs *inputs,
                        const struct platform *platform, double times)
{
    const struct input_plan *plan = inputs->plans->len ? g_ptr_array_index(inputs->plans, 0) : NULL;
    const double *rates = simulated_link(inputs);
    if (times == 1 && plan && plan->plan->certificate && plan->plan->certificate->link)
        g_string_append_printf(text, " --link %s", plan->plan->certificate->link);
    else if (rates && (times != 1 || !platform || !is_rate_of(&platform->h2d, rates[0]) ||
                       !is_rate_of(&platform->d2h, rates[1])))
        g_string_append_printf(text, " --link h2d=%.4gGB/s,d2h=%.4gGB/s", times * rates[0] * 1e-9,
                               times * rates[1] * 1e-9);
    else if (times != 1)
        g_string_append(text, " --link h2d=64GB/s,d2h=64GB/s"); /* PCIe 5.0 x16 */
}

static char *machine_of(const struct report_inputs *inputs, const char *memory, double link_times)
{
    GString *text = g_string_new("--device-memory ");
    const char *path = platform_path(inputs);
    struct platform *platform = path ? platform_read(path, NULL) : NULL;
    g_string_append(text, memory);
    if (platform) {
        g_autofree char *quoted = text_shell(path);
        g_string_append_printf(text, " --platform %s", quoted);
    }
    append_link(text, inputs, platform, link_times);
    platform_free(platform);
    return g_string_free(text, FALSE);
}

char *command_machine(const struct report_inputs *inputs, uint64_t device_budget)
{
    uint64_t bytes = device_budget ? device_budget : budget_of(inputs);
    g_autofree char *memory = bytes ? size_exact(bytes) : g_strdup(USUAL_BUDGET);
    return machine_of(inputs, memory, 1);
}

char *command_sensitivity(const struct report_inputs *inputs, const char *trace)
{
    uint64_t bytes = budget_of(inputs);
    g_autofree char *less = bytes ? size_exact(bytes) : g_strdup(USUAL_BUDGET);
    g_autofree char *more = bytes ? size_exact(2 * bytes) : g_strdup(LARGER_BUDGET);
    g_autofree char *both = g_strdup_printf("%s,%s", less, more);
    g_autofree char *now = machine_of(inputs, both, 1), *faster = machine_of(inputs, both, 2);
    return g_strdup_printf(
        "pstar-sim %s %s --json sweep.json && pstar-sim %s %s --json faster.json", trace, now,
        trace, faster);
}
