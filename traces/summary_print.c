#include "traces/choices.h"
#include "traces/size.h"
#include "traces/summary.h"

static void print_size(FILE *out, const char *label, uint64_t bytes, const char *rest)
{
    char *size = size_format(bytes);
    fprintf(out, "%-18s %12s%s\n", label, size, rest);
    g_free(size);
}

char *summary_format_time(uint64_t ns)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if ((double)ns >= units[i].ns)
            return g_strdup_printf("%.3f %s", (double)ns / units[i].ns, units[i].unit);
    return g_strdup_printf("%u ns", (unsigned)ns);
}

static void print_text(FILE *out, const char *label, const char *text)
{
    fprintf(out, "%-18s %s\n", label, !text ? "unknown" : text);
}

static void print_origin(const struct trace *trace, const char *path, FILE *out)
{
    fprintf(out, "%s%s\n", path, trace->partial ? " (partial)" : "");
    print_text(out, "model", trace->model);
    print_text(out, "precision", trace->precision);
    fprintf(out, "%-18s %u x %u tokens, %u micro-batch%s a step\n", "batch", trace->batch,
            trace->sequence, trace->micro_batches, trace->micro_batches == 1 ? "" : "es");
    struct run_choices *choices = run_choices_of(trace);
    char *chosen = run_choices_describe(choices);
    print_text(out, "choices", chosen);
    g_free(chosen);
    run_choices_free(choices);
    print_text(out, trace->estimated ? "estimated for" : "machine", trace->machine);
    print_text(out, "made by", trace->producer);
    char *digest = trace_digest(trace);
    print_text(out, "structure", digest);
    g_free(digest);
    fprintf(out, "%-18s %u tensors, %u operators, %u accesses, %u buffers\n\n", "holds",
            trace->tensor_count, trace->operator_count, trace->access_count, trace->buffer_count);
}

static void print_memory(const struct summary *summary, const struct trace *trace, FILE *out)
{
    print_size(out, "model data", summary->model_bytes, "");
    for (int list = 0; list < TRACE_LISTS; list++)
        if (trace->list_element_bytes[list] > 0) {
            char *label = g_strconcat("  ", trace_list_name((enum trace_list)list), NULL);
            print_size(out, label, summary->list_bytes[list], "");
            g_free(label);
        }
    char *where = g_strdup_printf("  at moment %u, %s", summary->non_model_peak_moment,
                                  trace->operators[summary->non_model_peak_moment].name);
    print_size(out, "non-model peak", summary->non_model_peak_bytes, where);
    g_free(where);
    if (trace->library_bytes > 0)
        print_size(out, "held by libraries", trace->library_bytes, "");
    fputc('\n', out);
}

static double share(const struct summary *summary, uint64_t duration_ns)
{
    return summary->duration_ns == 0 ? 0 : 100 * (double)duration_ns / (double)summary->duration_ns;
}

/* Each, or where they are many, how long the shortest and the longest were. */
void summary_print_iterations(const GArray *iterations, FILE *out)
{
    enum { MOST_LINES = 8 };
    uint64_t least = UINT64_MAX, most = 0;
    for (guint i = 0; i < iterations->len; i++) {
        const struct summary_iteration *iteration = &g_array_index(iterations,
                                                                   struct summary_iteration, i);
        least = MIN(least, iteration->duration_ns);
        most = MAX(most, iteration->duration_ns);
        if (iterations->len > MOST_LINES)
            continue;
        char *time = summary_format_time(iteration->duration_ns);
        fprintf(out, "step %-13" G_GUINT64_FORMAT " %12s   from begin to end\n", iteration->step,
                time);
        g_free(time);
    }
    if (iterations->len > MOST_LINES) {
        char *shortest = summary_format_time(least), *longest = summary_format_time(most);
        fprintf(out, "%-5u %-12s %12s   to %s from begin to end\n", iterations->len, "steps",
                shortest, longest);
        g_free(shortest);
        g_free(longest);
    }
}

static void print_phases(const struct summary *summary, FILE *out)
{
    fprintf(out, "%-18s %12s %7s %10s\n", "phase", "time", "share", "operators");
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++) {
        char *time = summary_format_time(summary->phases[phase].duration_ns);
        fprintf(out, "%-18s %12s %6.1f%% %10u\n", trace_phase_name((enum trace_phase)phase), time,
                share(summary, summary->phases[phase].duration_ns),
                summary->phases[phase].operators);
        g_free(time);
    }
    char *time = summary_format_time(summary->duration_ns);
    double seconds = (double)summary->duration_ns / 1e9;
    fprintf(out, "%-18s %12s", "all operators", time);
    if (summary->flops > 0 && seconds > 0)
        fprintf(out, "   %.1f GFLOP/s", (double)summary->flops / seconds / 1e9);
    fputc('\n', out);
    g_free(time);
    summary_print_iterations(summary->iterations, out);
    fputc('\n', out);
}

static void print_longest(const struct summary *summary, const struct trace *trace, FILE *out)
{
    if (summary->longest_count == 0)
        return;
    fprintf(out, "%-18s %12s %7s\n", "longest operators", "time", "share");
    for (uint32_t i = 0; i < summary->longest_count; i++) {
        uint32_t moment = summary->longest[i];
        const struct trace_operator *op = &trace->operators[moment];
        char *time = summary_format_time(op->duration_ns);
        fprintf(out, "  moment %-9u %12s %6.1f%%  %s\n", moment, time,
                share(summary, op->duration_ns), op->name);
        g_free(time);
    }
    fputc('\n', out);
}

void summary_print(const struct summary *summary, const struct trace *trace,
                   const struct records *records, const char *path, FILE *out)
{
    print_origin(trace, path, out);
    print_memory(summary, trace, out);
    print_phases(summary, out);
    print_longest(summary, trace, out);
    activity_summary_print(summary->activity, out);
    fprintf(out, "%-18s %u NVTX events, %u samples\n", "recorded", records->event_count,
            records->sample_count);
    if (summary->missing->len == 0)
        fprintf(out, "%-18s nothing\n", "missing");
    for (guint i = 0; i < summary->missing->len; i++)
        fprintf(out, "%-18s %s\n", i == 0 ? "missing" : "",
                (const char *)g_ptr_array_index(summary->missing, i));
}
