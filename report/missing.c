#include "report/findings.h"

#include "report/text.h"

#include <string.h>

/* Takes the strings over. */
static void add(struct contents *contents, const char *figure, char *reason, char *command)
{
    struct missing missing = {figure, reason, command};
    g_array_append_val(contents->missing, missing);
}

/* The name of a trace as a command line takes it: one of the files, or the name that it would
 * have. */
static char *trace_word(const struct inputs *inputs)
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

static char *plan_word(const struct inputs *inputs)
{
    if (!inputs->plans->len)
        return g_strdup("plan.json");
    return text_shell(((const struct input_plan *)g_ptr_array_index(inputs->plans, 0))->path);
}

static void add_memory(struct contents *contents, const char *trace)
{
    const struct inputs *inputs = contents->inputs;
    const char *figure = "Device memory over one iteration";
    if (contents->replays->len)
        return;
    if (!inputs->traces->len)
        add(contents, figure,
            g_strdup(inputs->plans->len ? "needs the trace that the plan was made for"
                                        : "needs a trace and a plan made for it"),
            g_strdup("pstar-collect -o run.pstar --iterations 1:2 -- "
                     "pstar-run --model CONFIG --data FILE"));
    else
        add(contents, figure,
            g_strdup(inputs->plans->len ? "no plan among the files was made for this trace"
                                        : "needs a plan"),
            g_strdup_printf("pstar-plan %s --device-memory SIZE -o plan.json", trace));
}

void missing_add(struct contents *contents)
{
    const struct inputs *inputs = contents->inputs;
    g_autofree char *trace = trace_word(inputs);
    g_autofree char *plan = plan_word(inputs);
    add_memory(contents, trace);
    if (!inputs->sweeps->len)
        add(contents, "Traffic by chunk size and policy", g_strdup("needs a sweep"),
            g_strdup_printf("pstar-sim %s --device-memory SIZE --policy all --json sweep.json",
                            trace));
    if (!contents->pairs->len) {
        bool predicted = inputs->plans->len || inputs->sweeps->len;
        add(contents, "Predicted beside measured",
            g_strdup(!inputs->runs->len ? "needs the log of a run"
                     : predicted
                         ? "no run log states the maker, chunk size and device memory of a plan "
                           "or of a sweep's entry"
                         : "needs a plan or a sweep of the same configuration"),
            inputs->runs->len && !predicted
                ? g_strdup_printf("pstar-plan %s --device-memory SIZE -o plan.json", trace)
                : g_strdup_printf("pstar-run --model CONFIG --data FILE --plan %s --log run.jsonl",
                                  plan));
    }
    if (!inputs->runs->len)
        add(contents, "Loss", g_strdup("needs the log of a run"),
            g_strdup_printf("pstar-run --model CONFIG --data FILE --plan %s --log run.jsonl",
                            plan));
}
