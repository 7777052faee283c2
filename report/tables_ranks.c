/* The ranks of a run whose traces were all given: who waits for whom, and what their network does
 * beside its peak. */
#include "report/contents.h"
#include "report/text.h"
#include "traces/merge.h"

/* Adds the traces of the first's run: the same structure, on several ranks. */
static void find_ranks(const struct report_inputs *inputs, GPtrArray *found)
{
    const struct input_trace *first = NULL;
    for (guint t = 0; t < inputs->traces->len; t++) {
        struct input_trace *input = g_ptr_array_index(inputs->traces, t);
        if (input->trace->ranks <= 1 || input->trace->stages > 1)
            continue;
        first = first ? first : input;
        if (!g_strcmp0(input->digest, first->digest))
            g_ptr_array_add(found, input);
    }
}

/* Returns NULL unless there is a trace of every rank. */
static struct merge *merge_found(const GPtrArray *found)
{
    g_autoptr(GPtrArray) traces = g_ptr_array_new(), paths = g_ptr_array_new();
    g_autoptr(GPtrArray) gathers = g_ptr_array_new();
    for (guint r = 0; r < found->len; r++) {
        struct input_trace *input = g_ptr_array_index(found, r);
        g_ptr_array_add(traces, input->trace);
        g_ptr_array_add(gathers, input->gathers);
        g_ptr_array_add(paths, input->path);
    }
    return found->len ? merge_traces((struct trace *const *)traces->pdata,
                                     (struct gathers *const *)gathers->pdata,
                                     (char *const *)paths->pdata, found->len, false, NULL)
                      : NULL;
}

static char *seconds_cell(uint64_t ns)
{
    return text_seconds((double)ns * 1e-9);
}

static char *network_text(const struct report_inputs *inputs, const struct merge *merge)
{
    double seconds = (double)merge->network_ns * 1e-9, bytes = (double)merge->received_bytes;
    double peak = inputs->platform ? platform_ranks_rate(inputs->platform, merge->count) : 0;
    if (!(seconds > 0))
        return g_strdup("");
    g_autofree char *rate = text_rate(bytes / seconds), *limit = text_rate(peak);
    g_autofree char *share = text_number("%.0f", peak > 0 ? 100 * bytes / seconds / peak : 0);
    g_autofree char *beside =
        peak > 0
            ? g_strdup_printf("; %s says that it can receive %s, so this is %s %% of the peak",
                              inputs->platform_path, limit, share)
            : g_strdup(
                  ". A platform's file given to the report puts the network's peak beside this");
    return g_strdup_printf(
        " In %u exchanges of a step, %u of them gathers beside operators, a rank "
        "receives %s without waiting%s.",
        merge->exchanges, merge->gathers, rate, beside);
}

struct text_table *table_ranks(const struct report_inputs *inputs)
{
    g_autoptr(GPtrArray) found = g_ptr_array_new();
    find_ranks(inputs, found);
    struct merge *merge = merge_found(found);
    if (!merge)
        return NULL;
    struct text_table *table = table_new("Who waits for whom: the ranks of a step",
                                         "Rank|Computes|Exchanges|Waits for others|Others wait");
    for (uint32_t r = 0; r < merge->count; r++) {
        const struct merge_rank *rank = &merge->rank[r];
        const struct input_trace *input = g_ptr_array_index(found, r);
        table_add(table, caption_name(input->path), seconds_cell(rank->computing_ns),
                  seconds_cell(rank->exchanging_ns), seconds_cell(rank->waiting_ns),
                  g_strdup_printf("%u of %u", rank->last, merge->exchanges));
    }
    g_autofree char *network = network_text(inputs, merge);
    table->note =
        g_strconcat("An exchange ends when the last rank has come to it: what another rank "
                    "takes longer for it, it waits. The last column says in how many "
                    "exchanges the others waited for the rank.",
                    network, NULL);
    merge_free(merge);
    return table;
}
