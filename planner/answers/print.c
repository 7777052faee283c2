#include "planner/answers/print.h"

#include "planner/answers/explain.h"
#include "traces/size.h"

static void print_row(const char *name, const struct plan_figures *figures, const char *remark,
                      FILE *out)
{
    g_autofree char *moved = size_format(figures->h2d_bytes + figures->d2h_bytes);

    fprintf(out, "  %-14s %11s %10.4f %10.4f   %s\n", name, moved, figures->stall_seconds,
            figures->iteration_seconds, remark);
}

static void print_baseline(const struct search_baseline *baseline, FILE *out)
{
    g_autofree char *chunk = size_format(baseline->chunk_bytes);
    g_autofree char *remark = g_strdup_printf("chunks of %s", chunk);

    if (baseline->name)
        print_row(baseline->name, &baseline->figures, remark, out);
}

/* Elements whose optimizer runs on the host, in percent. */
static double host_share(const struct plan *plan, const struct trace *trace)
{
    uint64_t on_host = 0, all = 0;

    for (uint32_t t = 0; plan->choices && t < trace->tensor_count; t++) {
        all += trace->tensors[t].elements;
        on_host += plan->choices->host_update[t] ? trace->tensors[t].elements : 0;
    }
    return all ? 100.0 * (double)on_host / (double)all : 0;
}

static void print_choices(const struct plan *plan, FILE *out)
{
    if (!plan->choices || !plan->choices->layer_count)
        return;
    g_autofree char *layers = run_layers_format(plan->choices->recompute,
                                                plan->choices->layer_count);
    g_autofree char *offloaded = run_layers_format(plan->choices->offload,
                                                   plan->choices->layer_count);
    fprintf(
        out,
        "  layers whose activations are computed again: %s; may leave the device: %s; a step is "
        "%u x %u sequences\n",
        layers, offloaded, plan->micro_batches, plan->batch);
}

void print_result(const struct search_result *result, FILE *out)
{
    const struct plan_figures *f = &result->plan->predicted;
    g_autofree char *peak = size_format(f->peak_device_bytes);
    g_autofree char *host = size_format(f->peak_host_bytes);
    g_autofree char *remark = g_strdup_printf("device %s, host %s, %.0f %% of the optimizer there",
                                              peak, host, host_share(result->plan, result->trace));

    fprintf(out, "%u layouts, %u plans%s\n", result->layouts_tried, result->plans_tried,
            result->stopped ? ", stopped early" : "");
    fprintf(out, "  %-14s %11s %10s %10s\n", "", "traffic", "stall s", "step s");
    print_baseline(&result->policy, out);
    print_baseline(&result->strategy, out);
    print_row("plan", f, remark, out);
    print_choices(result->plan, out);
    explain_certificate(result->plan->certificate, out);
}
