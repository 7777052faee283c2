/* The operators, or kernels, that take the most time, and how near they come to the machine's peak.
 */
#include "report/contents.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

#define MOST_OPERATORS 15

/* Operators of one name, of all layers. */
struct operator_sum {
    char *name;
    guint calls;
    double seconds, flops, bytes;
};

static void free_sum(void *data)
{
    g_free(((struct operator_sum *)data)->name);
    g_free(data);
}

/* Returns "backward h.*.mlp.c_fc" for "backward h.3.mlp.c_fc". */
static char *without_layer(const char *name)
{
    GString *text = g_string_new(NULL);
    g_auto(GStrv) parts = g_strsplit(name, ".", -1);
    for (size_t i = 0; parts[i]; i++) {
        bool number = *parts[i] && !parts[i][strspn(parts[i], "0123456789")];
        g_string_append_printf(text, "%s%s", i ? "." : "", i && number ? "*" : parts[i]);
    }
    return g_string_free(text, FALSE);
}

/* Takes ownership of the name. */
static void add_to(GHashTable *sums, char *name, double seconds, double flops, double bytes)
{
    struct operator_sum *sum = g_hash_table_lookup(sums, name);
    if (!sum) {
        sum = g_new0(struct operator_sum, 1);
        sum->name = name;
        g_hash_table_insert(sums, name, sum);
    } else {
        g_free(name);
    }
    sum->calls++;
    sum->seconds += seconds;
    sum->flops += flops;
    sum->bytes += bytes;
}

static int by_seconds(const void *left, const void *right)
{
    const struct operator_sum *a = *(struct operator_sum *const *)left,
                              *b = *(struct operator_sum *const *)right;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* Returns the highest rate that a curve states. */
static double most_of(const struct platform_curve *curve)
{
    double most = 0;
    for (uint32_t p = 0; p < curve->count; p++)
        most = MAX(most, curve->points[p].amount / curve->points[p].seconds);
    return most;
}

/* What the device can do, in operations and in bytes a second. */
struct machine_peak {
    double flops, bytes;
    bool stated; /* by a platform; otherwise they are the rates of the fastest operators */
};

static struct machine_peak peak_of(const struct report_inputs *inputs, const GPtrArray *all,
                                   const char *precision)
{
    const struct platform *platform = inputs->platform;
    bool bf16 = !g_strcmp0(precision, "bf16");
    if (platform)
        return (struct machine_peak){most_of(&platform->compute[bf16]), most_of(&platform->memory),
                                     true};
    struct machine_peak peak = {0};
    for (guint i = 0; i < all->len; i++) {
        const struct operator_sum *sum = g_ptr_array_index(all, i);
        if (!(sum->seconds > 0))
            continue;
        peak.flops = MAX(peak.flops, sum->flops / sum->seconds);
        peak.bytes = MAX(peak.bytes, sum->bytes / sum->seconds);
    }
    return peak;
}

static char *percent(double part, double whole)
{
    g_autofree char *digits = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(digits, " %", NULL);
}

/* Returns the greater of both shares. */
static char *share_cell(const struct operator_sum *sum, const struct machine_peak *peak)
{
    double flops = peak->flops > 0 ? sum->flops / sum->seconds / peak->flops : 0;
    double bytes = peak->bytes > 0 ? sum->bytes / sum->seconds / peak->bytes : 0;
    if (!(MAX(flops, bytes) > 0))
        return g_strdup("–");
    g_autofree char *share = percent(MAX(flops, bytes), 1);
    return g_strdup_printf("%s of %s", share, flops >= bytes ? "compute" : "memory");
}

static char *rate_cell(const struct operator_sum *sum)
{
    if (!(sum->flops > 0))
        return g_strdup("–");
    return text_operation_rate(sum->flops / sum->seconds);
}

static char *note_of(const struct machine_peak *peak, guint shown, guint all)
{
    g_autofree char *cut = shown < all
                               ? g_strdup_printf(" The first %u of %u are shown.", shown, all)
                               : g_strdup("");
    if (!(peak->flops > 0))
        return g_strdup_printf("All calls of one name are summed.%s", cut);
    g_autofree char *flops = text_operation_rate(peak->flops);
    g_autofree char *bytes = text_rate(peak->bytes);
    return g_strdup_printf(
        "All layers' operators of one name are summed. The peak is %s of compute, or %s of "
        "memory, whichever the operator is nearer to: %s.%s",
        flops, bytes,
        peak->stated ? "what the platform's file states"
                     : "the rates of the fastest operators here, because no platform's file states "
                       "what the device can do",
        cut);
}

/* Returns NULL if nothing takes time. `title` is used up. */
static struct text_table *table_of(const struct report_inputs *inputs, GHashTable *sums,
                                   const char *precision, char *title)
{
    g_autofree char *shown = title;
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    GHashTableIter iterator;
    void *sum;
    double whole = 0;
    g_hash_table_iter_init(&iterator, sums);
    while (g_hash_table_iter_next(&iterator, NULL, &sum)) {
        whole += ((struct operator_sum *)sum)->seconds;
        g_ptr_array_add(all, sum);
    }
    if (!(whole > 0))
        return NULL;
    g_ptr_array_sort(all, by_seconds);
    struct machine_peak peak = peak_of(inputs, all, precision);
    guint rows = MIN(all->len, MOST_OPERATORS);
    struct text_table *table = table_new(shown, "|Calls|Time|Share|Rate|Of the peak");
    for (guint i = 0; i < rows; i++) {
        const struct operator_sum *row = g_ptr_array_index(all, i);
        if (row->seconds > 0)
            table_add(table, g_strdup(row->name), text_count(row->calls),
                      text_seconds(row->seconds), percent(row->seconds, whole), rate_cell(row),
                      share_cell(row, &peak));
    }
    table->note = note_of(&peak, rows, all->len);
    return table;
}

struct text_table *table_operators(const struct report_inputs *inputs,
                                   const struct input_trace *input)
{
    const struct trace *trace = input->trace;
    g_autoptr(GHashTable) sums = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_sum);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *ran = &trace->operators[m];
        if (ran->place != TRACE_ON_HOST)
            add_to(sums, without_layer(ran->name), (double)ran->duration_ns * 1e-9,
                   (double)ran->flops, (double)ran->bytes);
    }
    g_autofree char *file = caption_name(input->path);
    return table_of(
        inputs, sums, trace->precision,
        g_strdup_printf("Operators that take the most time%s, %s",
                        trace->estimated ? " (computed for a platform, not measured)" : "", file));
}

struct text_table *table_kernels(const struct report_inputs *inputs, const struct tracks *tracks)
{
    const GArray *spans = tracks->spans[TRACK_COMPUTE];
    g_autoptr(GHashTable) sums = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_sum);
    for (guint i = 0; tracks->gpu && i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        add_to(sums, g_strdup(span->name), span->end - span->start, 0, 0);
    }
    g_autofree char *origin = caption_name(tracks->origin);
    return table_of(inputs, sums, NULL,
                    g_strconcat("Kernels that take the most time, ", origin, NULL));
}
