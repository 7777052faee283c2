#include "report/commands.h"
#include "report/findings.h"

#include <string.h>

/* Takes the strings over. */
static void add(struct contents *contents, const char *figure, char *reason, char *command)
{
    struct missing missing = {figure, reason, command};
    g_array_append_val(contents->missing, missing);
}

static bool has_figure(const struct contents *contents, const char *name)
{
    for (guint i = 0; i < contents->figures->len; i++)
        if (!strcmp(((const struct figure *)g_ptr_array_index(contents->figures, i))->name, name))
            return true;
    return false;
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
    g_autofree char *trace = command_trace(inputs);
    g_autofree char *plan = command_plan(inputs);
    add_memory(contents, trace);
    if (!inputs->strips->len || ((const struct strips *)inputs->strips->pdata[0])->alone)
        add(contents, "Who is busy, and the link",
            g_strdup("needs a timeline, or a trace that has recorded one"),
            g_strdup_printf("pstar-sim %s --device-memory SIZE --timeline timeline.json", trace));
    if (!inputs->sweeps->len)
        add(contents, "Traffic by chunk size and policy", g_strdup("needs a sweep"),
            g_strdup_printf("pstar-sim %s --device-memory SIZE --policy all --json sweep.json",
                            trace));
    if (!has_figure(contents, "sensitivity"))
        add(contents, "What more device memory or a faster link would buy",
            g_strdup("needs sweeps of several budgets, or with several links"),
            g_strdup_printf("pstar-sim %s --device-memory SIZE,LARGER --json sweep.json && "
                            "pstar-sim %s --device-memory SIZE,LARGER --link h2d=RATE,d2h=RATE "
                            "--json faster.json",
                            trace, trace));
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
