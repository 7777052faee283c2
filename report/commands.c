/* The commands that a report prints. They work as printed, in the folder of the files: with the
 * trace, the budgets, the platform and the link of the step that they are about. */
#include "base/size.h"
#include "report/contents.h"
#include "report/text.h"

#include <math.h>

/* A budget that fits a step if no file states one: a share of the model data. */
#define USUAL_BUDGET  "50%"
#define LARGER_BUDGET "75%"

/* Rates that differ by less are the same link. Fitted rates differ more from the measured points.
 */
#define SAME_LINK   0.05
#define FITTED_LINK 0.3

/* Returns the trace's file as it is named, or NULL if no file names one that exists. */
static const char *trace_path(const struct report_inputs *inputs)
{
    if (inputs->traces->len)
        return ((const struct input_trace *)g_ptr_array_index(inputs->traces, 0))->path;
    for (guint s = 0; s < inputs->sweeps->len; s++) {
        const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, s);
        if (sweep->trace && g_file_test(sweep->trace, G_FILE_TEST_IS_REGULAR))
            return sweep->trace;
    }
    return NULL;
}

bool command_is_pipeline(const struct report_inputs *inputs)
{
    bool any = false;
    for (guint t = 0; t < inputs->traces->len; t++)
        any |= ((const struct input_trace *)g_ptr_array_index(inputs->traces, t))->trace->stages >
               1;
    for (guint s = 0; s < inputs->sweeps->len; s++)
        any |= ((const struct sweep_file *)g_ptr_array_index(inputs->sweeps, s))->stages > 0;
    return any;
}

char *command_trace(const struct report_inputs *inputs)
{
    const char *path = command_is_pipeline(inputs) ? NULL : trace_path(inputs);
    return path ? text_shell(path) : NULL;
}

static bool is_limited(const struct configuration *configuration)
{
    return configuration->device_budget != UINT64_MAX;
}

/* Returns the configuration of the step that commands are about: that of a plan, of a simulation,
 * or of the newest run, or the one with the most device memory of a sweep. Its budget of device
 * memory is limited. May return NULL. */
static const struct configuration *configuration_of(const struct report_inputs *inputs)
{
    const struct configuration *found = NULL;
    if (inputs->plans->len)
        found = &((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))->configuration;
    for (guint i = 0; i < inputs->tracks->len && !(found && is_limited(found)); i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        found = tracks->measured ? NULL : &tracks->configuration;
    }
    for (guint r = inputs->runs->len; r > 0 && !(found && is_limited(found)); r--)
        found = &((const struct logged_run *)g_ptr_array_index(inputs->runs, r - 1))->configuration;
    if (found && is_limited(found))
        return found;
    found = NULL;
    const GArray *entries =
        inputs->sweeps->len
            ? ((const struct sweep_file *)g_ptr_array_index(inputs->sweeps, 0))->entries
            : NULL;
    for (guint i = 0; entries && i < entries->len; i++) {
        const struct configuration *entry =
            &g_array_index(entries, struct sweep_file_entry, i).configuration;
        if (!found || entry->device_budget > found->device_budget)
            found = entry;
    }
    return found;
}

/* The link that the files were simulated with, or else that of the newest run. */
struct simulated_link {
    const double *rates; /* H2D, D2H; NULL if no file states them */
    const char *given;   /* as --link gave it, "" if it was not given, NULL if unknown */
};

static struct simulated_link simulated_link(const struct report_inputs *inputs)
{
    for (guint i = 0; i < inputs->tracks->len; i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        if (!tracks->measured && tracks->link_rate[0] > 0 && tracks->link_rate[1] > 0)
            return (struct simulated_link){tracks->link_rate, tracks->link};
    }
    for (guint i = 0; i < inputs->sweeps->len; i++) {
        const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, i);
        if (sweep->link_rate[0] > 0 && sweep->link_rate[1] > 0)
            return (struct simulated_link){sweep->link_rate, sweep->link};
    }
    for (guint r = inputs->runs->len; r > 0; r--) {
        const struct logged_run *run = g_ptr_array_index(inputs->runs, r - 1);
        if (run->link_rate[0] > 0 && run->link_rate[1] > 0)
            return (struct simulated_link){run->link_rate, NULL};
    }
    return (struct simulated_link){NULL, NULL};
}

static double rate_of(const struct platform_curve *curve)
{
    const struct platform_point *last = &curve->points[curve->count - 1];
    return last->amount / last->seconds;
}

/* Returns whether the simulation took the platform's link. Its rates are fitted to all points,
 * which decides only where the file does not say that no other link was given. Ranks that share a
 * switch or the host's memory have less. */
static bool is_link_of(const struct platform *platform, const struct simulated_link *simulated)
{
    double tolerance = simulated->given ? FITTED_LINK : SAME_LINK;
    if (!platform || (simulated->given && *simulated->given))
        return false;
    double h2d = rate_of(&platform->h2d) / simulated->rates[0] - 1;
    double d2h = rate_of(&platform->d2h) / simulated->rates[1] - 1;
    bool slower = platform->spread.ranks > 1 && MIN(h2d, d2h) > -tolerance;
    return slower || (fabs(h2d) < tolerance && fabs(d2h) < tolerance);
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

static void append_rates(GString *text, const double *rates, double times)
{
    g_string_append_printf(text, " --link h2d=%.4gGB/s,d2h=%.4gGB/s", times * rates[0] * 1e-9,
                           times * rates[1] * 1e-9);
}

/* Appends --link, unless it is the platform's (may be NULL), or not known. */
static void append_link(GString *text, const struct report_inputs *inputs,
                        const struct platform *platform, double times)
{
    const struct input_plan *plan = inputs->plans->len ? g_ptr_array_index(inputs->plans, 0) : NULL;
    const struct simulated_link simulated = simulated_link(inputs);
    const double *rates = simulated.rates;
    const bool own = rates && is_link_of(platform, &simulated);
    const char *planned = plan && plan->plan->certificate ? plan->plan->certificate->link : NULL;
    const char *given = planned ? planned : simulated.given;
    g_autofree char *quoted = given && *given ? text_shell(given) : NULL;
    if (times == 1 && quoted)
        g_string_append_printf(text, " --link %s", quoted);
    else if (own && times != 1)
        append_rates(text, (double[]){rate_of(&platform->h2d), rate_of(&platform->d2h)}, times);
    else if (rates && !own)
        append_rates(text, rates, times);
    else if (!own && times != 1)
        g_string_append(text, " --link h2d=64GB/s,d2h=64GB/s"); /* PCIe 5.0 x16 */
}

/* Appends --host-memory, unless it is what pstar-sim and pstar-plan take without it. */
static void append_host(GString *text, uint64_t budget, const struct platform *platform)
{
    uint64_t usual = platform ? platform_host_room(platform) : UINT64_MAX;
    if (!budget || budget == usual)
        return;
    g_autofree char *size = budget == UINT64_MAX ? g_strdup("unlimited") : size_exact(budget);
    g_string_append_printf(text, " --host-memory %s", size);
}

/* Returns the ranks of the trace that commands name, or 0 if it is not among the files. */
static uint32_t traced_ranks(const struct report_inputs *inputs)
{
    return inputs->traces->len
               ? ((const struct input_trace *)g_ptr_array_index(inputs->traces, 0))->trace->ranks
               : 0;
}

/* Appends --gpus, --nodes, --stage and --reduction, unless the step is one rank's, as its trace is.
 * --nodes needs a platform. */
static void append_ranks(GString *text, const struct report_inputs *inputs,
                         const struct configuration *configuration, bool has_platform)
{
    if (!configuration->ranks || (configuration->ranks == 1 && traced_ranks(inputs) <= 1))
        return;
    g_string_append_printf(text, " --gpus %u", configuration->ranks);
    if (configuration->nodes && has_platform)
        g_string_append_printf(text, " --nodes %u", configuration->nodes);
    if ((configuration->stage || configuration->fast) && configuration->ranks > 1)
        g_string_append_printf(text, " --stage %u%s", configuration->stage,
                               configuration->fast ? " --reduction fast" : "");
}

/* `rates` is a link [H2D, D2H] that replaces that of the step, or NULL. */
static char *machine_of(const struct report_inputs *inputs, const char *memory, const double *rates,
                        double link_times)
{
    const struct configuration *configuration = configuration_of(inputs);
    GString *text = g_string_new("--device-memory ");
    const char *path = platform_path(inputs);
    struct platform *platform = path ? platform_read(path, NULL) : NULL;
    if (platform && configuration && configuration->ranks > 1)
        platform_spread_ranks(platform, configuration->ranks, configuration->nodes, NULL);
    g_string_append(text, memory);
    if (configuration)
        append_host(text, configuration->host_budget, platform);
    if (configuration && configuration->nvme_budget) {
        g_autofree char *nvme = size_exact(configuration->nvme_budget);
        g_string_append_printf(text, " --nvme-memory %s", nvme);
    }
    if (platform) {
        g_autofree char *quoted = text_shell(path);
        g_string_append_printf(text, " --platform %s", quoted);
    }
    if (rates)
        append_rates(text, rates, 1);
    else
        append_link(text, inputs, platform, link_times);
    if (configuration)
        append_ranks(text, inputs, configuration, platform != NULL);
    platform_free(platform);
    return g_string_free(text, FALSE);
}

/* Returns the budget of the step's device memory, or `usual` if no file states it. */
static char *memory_of(const struct report_inputs *inputs, const char *usual, uint64_t times)
{
    const struct configuration *configuration = configuration_of(inputs);
    return configuration ? size_exact(times * configuration->device_budget) : g_strdup(usual);
}

char *command_machine(const struct report_inputs *inputs, uint64_t device_budget)
{
    g_autofree char *memory = device_budget ? size_exact(device_budget)
                                            : memory_of(inputs, USUAL_BUDGET, 1);
    return machine_of(inputs, memory, NULL, 1);
}

char *command_machine_with_link(const struct report_inputs *inputs, uint64_t device_budget,
                                const double *rates)
{
    g_autofree char *memory = size_exact(device_budget);
    return machine_of(inputs, memory, rates, 1);
}

char *command_sensitivity(const struct report_inputs *inputs, const char *trace)
{
    g_autofree char *less = memory_of(inputs, USUAL_BUDGET, 1);
    g_autofree char *more = memory_of(inputs, LARGER_BUDGET, 2);
    g_autofree char *both = g_strdup_printf("%s,%s", less, more);
    g_autofree char *now = machine_of(inputs, both, NULL, 1);
    g_autofree char *faster = machine_of(inputs, both, NULL, 2);
    return g_strdup_printf(
        "pstar-sim %s %s --json sweep.json && pstar-sim %s %s --json faster.json", trace, now,
        trace, faster);
}
