#include "base/size.h"
#include "chunks/figures.h"
#include "report/contents.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

/* Takes ownership of answer and detail. */
static void add(struct contents *contents, const char *question, char *answer, char *detail)
{
    struct highlight *highlight = g_new(struct highlight, 1);
    *highlight = (struct highlight){g_strdup(question), answer, detail};
    g_ptr_array_add(contents->highlights, highlight);
}

static void add_peak(struct contents *contents)
{
    if (!contents->replays->len)
        return;
    const struct replayed *replayed = &g_array_index(contents->replays, struct replayed, 0);
    const struct memory *memory = replayed->memory;
    const struct trace *trace = replayed->plan->trace->trace;
    g_autofree char *name = caption_name(trace->operators[memory->peak].name);
    uint64_t device_budget = replayed->plan->plan->device_budget;
    g_autofree char *size = size_format(device_budget);
    g_autofree char *budget = device_budget == UINT64_MAX
                                  ? g_strdup("without a budget")
                                  : g_strdup_printf("of a budget of %s", size);
    add(contents, "Peak device memory", size_format(memory_total(&memory->moments[memory->peak])),
        g_strdup_printf("%s, at %s", budget, name));
}

/* Compares the traffic of the plan with the least traffic of the sweeps at the same memory. */
static char *compare_with_sweeps(const struct contents *contents, const struct input_plan *plan)
{
    const struct sweep_file_entry *best = NULL;
    for (guint s = 0; s < contents->inputs->sweeps->len; s++) {
        const struct sweep_file_entry *entry =
            sweep_file_best(g_ptr_array_index(contents->inputs->sweeps, s), OBJECTIVE_TRAFFIC,
                            plan->configuration.device_budget, NULL);
        if (entry && (!best || figures_traffic(&entry->figures) < figures_traffic(&best->figures)))
            best = entry;
    }
    if (!best)
        return configuration_label(&plan->configuration);
    g_autofree char *label = configuration_short_label(&best->configuration);
    uint64_t planned = figures_traffic(&plan->plan->predicted);
    uint64_t least = figures_traffic(&best->figures);
    if (planned == least)
        return g_strdup_printf("as little as the entry of the sweep that moves least (%s)", label);
    double times = (double)planned / (double)least;
    if (least > 0 && times >= 2) {
        g_autofree char *digits = text_number("%.2g", times);
        return g_strdup_printf("%s times that of the entry of the sweep that moves least (%s)",
                               digits, label);
    }
    g_autofree char *percent = text_number("%.2g", 100 * fabs(times - 1));
    return least == 0
               ? g_strdup_printf("more than the entry of the sweep that moves least (%s)", label)
               : g_strdup_printf("%s %% %s than the entry of the sweep that moves least (%s)",
                                 percent, planned < least ? "less" : "more", label);
}

static void add_traffic(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    if (inputs->plans->len) {
        const struct input_plan *plan = g_ptr_array_index(inputs->plans, 0);
        add(contents, "Planned traffic per iteration",
            size_format(figures_traffic(&plan->plan->predicted)),
            compare_with_sweeps(contents, plan));
        return;
    }
    const struct sweep_file_entry *best =
        inputs->sweeps->len
            ? sweep_file_best(g_ptr_array_index(inputs->sweeps, 0), OBJECTIVE_TRAFFIC, 0, NULL)
            : NULL;
    if (best)
        add(contents, "Least traffic in the sweep", size_format(figures_traffic(&best->figures)),
            configuration_label(&best->configuration));
}

static void add_accuracy(struct contents *contents)
{
    unsigned equal = 0, of = 0;
    double worst = NAN;
    for (guint i = 0; i < contents->predictions->len; i++) {
        const struct prediction *prediction = &g_array_index(contents->predictions,
                                                             struct prediction, i);
        unsigned all;
        equal += prediction_equal_counts(prediction, &all);
        of += all;
        if (!prediction->timed)
            continue;
        double error = fabs(
            prediction->measured.iteration_seconds / prediction->predicted.iteration_seconds - 1);
        worst = isnan(worst) ? error : MAX(worst, error);
    }
    if (!of)
        return;
    const char *many = contents->predictions->len > 1 ? "s" : "";
    add(contents, "Predicted bytes, copies and peaks",
        equal == of ? g_strdup("exact") : g_strdup_printf("%u of %u", equal, of),
        g_strdup_printf("%u of %u counts and peaks are equal to the measured ones, in %u "
                        "configuration%s",
                        equal, of, contents->predictions->len, many));
    if (isnan(worst))
        return;
    g_autofree char *percent = text_number(worst < 0.095 ? "%.2g" : "%.0f", 100 * worst);
    add(contents, "Predicted step time", g_strdup_printf("within %s %%", percent),
        g_strdup_printf("of the measured time, in %u configuration%s", contents->predictions->len,
                        many));
}

/* Finds the first step from which the loss stays below the entropy. Returns false if there is none.
 */
static bool below_since(const struct logged_run *run, uint64_t *step)
{
    bool below = false;
    for (guint i = run->steps->len; i-- > 0;) {
        const struct run_step *at = &g_array_index(run->steps, struct run_step, i);
        if (!(at->loss < run->unigram_entropy))
            break;
        below = true;
        *step = at->step;
    }
    return below;
}

/* Returns the run that the verdict and the advice are about or, if that is of no log, the first. */
static const struct logged_run *newest_run(const struct contents *contents)
{
    const struct breakdown *subject = subject_of_advice(contents->breakdowns);
    return subject && subject->run ? subject->run : g_ptr_array_index(contents->inputs->runs, 0);
}

static void add_loss(struct contents *contents)
{
    if (!contents->inputs->runs->len)
        return;
    const struct logged_run *run = newest_run(contents);
    double first = g_array_index(run->steps, struct run_step, 0).loss;
    double last = g_array_index(run->steps, struct run_step, run->steps->len - 1).loss;
    g_autofree char *from = text_number("%.3g", first);
    g_autofree char *entropy = isnan(run->unigram_entropy)
                                   ? g_strdup("")
                                   : text_number("%.3g", run->unigram_entropy);
    uint64_t since;
    char *detail;
    if (isnan(run->unigram_entropy))
        detail = g_strdup_printf("from %s in %u steps", from, run->steps->len);
    else if (below_since(run, &since))
        detail = g_strdup_printf("from %s in %u steps; below the text's unigram entropy (%s) since "
                                 "step %" G_GUINT64_FORMAT,
                                 from, run->steps->len, entropy, since);
    else
        detail = g_strdup_printf("from %s in %u steps; not below the text's unigram entropy (%s)",
                                 from, run->steps->len, entropy);
    add(contents, "Loss", text_number("%.3g", last), detail);
}

void highlights_add(struct contents *contents)
{
    add_peak(contents);
    add_traffic(contents);
    add_accuracy(contents);
    add_loss(contents);
}

/* Takes ownership of reason and command. */
static void add_missing(struct contents *contents, const char *plot, char *reason, char *command)
{
    struct missing missing = {plot, reason, command};
    g_array_append_val(contents->missing, missing);
}

static bool has_plot(const struct contents *contents, const char *name)
{
    for (guint i = 0; i < contents->plots->len; i++)
        if (!strcmp(((const struct plot *)g_ptr_array_index(contents->plots, i))->name, name))
            return true;
    return false;
}

/* What makes the missing files: a trace, and the options of the machine. */
struct missing_maker {
    struct contents *contents;
    const char *trace; /* NULL if no file names one that is there */
    const char *machine;
};

/* Adds a figure that `program` with `options` would make. Without a trace to start from, says how
 * one is made instead. */
static void add_command(const struct missing_maker *maker, const char *plot, const char *reason,
                        const char *program, const char *options)
{
    if (maker->trace)
        add_missing(maker->contents, plot, g_strdup(reason),
                    g_strdup_printf("%s %s %s %s", program, maker->trace, maker->machine, options));
    else if (command_is_pipeline(maker->contents->inputs))
        add_missing(maker->contents, plot,
                    g_strdup_printf("%s; the commands for the stages of a pipeline are not made "
                                    "here: docs/pipelines.md shows them",
                                    reason),
                    NULL);
    else
        add_missing(maker->contents, plot,
                    g_strdup_printf("%s; %s starts from a trace, which pstar-collect -o "
                                    "run.pstar records",
                                    reason, program),
                    NULL);
}

static void add_memory(const struct missing_maker *maker)
{
    const struct report_inputs *inputs = maker->contents->inputs;
    const char *plot = "Device memory over one iteration";
    if (maker->contents->replays->len)
        return;
    if (inputs->traces->len)
        add_command(maker, plot,
                    inputs->plans->len ? "none of the given plans was made from this trace"
                                       : "needs a plan",
                    "pstar-plan", "-o plan.json");
    else
        add_missing(maker->contents, plot,
                    g_strdup(inputs->plans->len ? "needs the trace that the plan was made from; "
                                                  "pstar-collect -o run.pstar records one"
                                                : "needs a trace (pstar-collect -o run.pstar "
                                                  "records one) and a plan made from it"),
                    NULL);
}

static void add_prediction(const struct missing_maker *maker)
{
    const struct report_inputs *inputs = maker->contents->inputs;
    const char *plot = "Predicted beside measured";
    if (!inputs->runs->len)
        add_missing(maker->contents, plot,
                    g_strdup("needs the log of a run: pstar-run writes one with --log run.jsonl"),
                    NULL);
    else if (inputs->plans->len || inputs->sweeps->len)
        add_missing(maker->contents, plot,
                    g_strdup("no run log has the policy, chunk size and device memory of a plan or "
                             "of an entry of a sweep"),
                    NULL);
    else
        add_command(maker, plot, "needs a plan or a sweep of the same configuration", "pstar-plan",
                    "-o plan.json");
}

static void add_sensitivity(const struct missing_maker *maker)
{
    const char *plot = "What more device memory or a faster link would buy";
    const char *reason = "needs sweeps of several budgets, or with several links";
    if (maker->trace)
        add_missing(maker->contents, plot, g_strdup(reason),
                    command_sensitivity(maker->contents->inputs, maker->trace));
    else
        add_command(maker, plot, reason, "pstar-sim", NULL);
}

void missing_add(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    g_autofree char *trace = command_trace(inputs);
    g_autofree char *machine = command_machine(inputs, 0);
    const struct missing_maker maker = {contents, trace, machine};
    add_memory(&maker);
    if (!inputs->tracks->len || ((const struct tracks *)inputs->tracks->pdata[0])->operators_only)
        add_command(&maker, "How busy each resource is, and the link",
                    "needs a timeline, or a trace with recorded times", "pstar-sim",
                    "--timeline timeline.json");
    if (!inputs->sweeps->len)
        add_command(&maker, "Traffic by chunk size and policy", "needs a sweep", "pstar-sim",
                    "--policy all --json sweep.json");
    if (!has_plot(contents, "sensitivity"))
        add_sensitivity(&maker);
    /* No PyTorch loop writes the log that these two need. */
    const bool logs = inputs->runs->len || !advice_is_torch(inputs);
    if (!contents->predictions->len && logs)
        add_prediction(&maker);
    if (!inputs->runs->len && logs)
        add_missing(contents, "Loss",
                    g_strdup("needs the log of a run: pstar-run writes one with --log run.jsonl"),
                    NULL);
}
