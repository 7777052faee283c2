#include "traces/activity/activity_steps.h"

#include "traces/import/kernel_words.h"

/* By most kernels. */
static uint32_t busiest_stream(const struct activity *activity, uint32_t device)
{
    g_autoptr(GHashTable) counts = g_hash_table_new(NULL, NULL);
    uint32_t busiest = 0, most = 0;
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        gpointer key = GUINT_TO_POINTER(kernel->stream);
        if (kernel->device != device)
            continue;
        uint32_t count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, key)) + 1;
        g_hash_table_insert(counts, key, GUINT_TO_POINTER(count));
        if (count > most) {
            most = count;
            busiest = kernel->stream;
        }
    }
    return busiest;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t median_step(const struct period *period, const GArray *starts)
{
    g_autoptr(GArray) times = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t s = 0; s + 1 < period->count; s++) {
        uint32_t at = period->first + s * period->length;
        uint64_t time_ns = g_array_index(starts, uint64_t, at + period->length) -
                           g_array_index(starts, uint64_t, at);
        g_array_append_val(times, time_ns);
    }
    g_array_sort(times, by_size);
    return times->len > 0 ? g_array_index(times, uint64_t, times->len / 2) : 0;
}

/* Ids of strings, made dense. */
static uint32_t symbol_of(GHashTable *symbols, uint32_t name)
{
    gpointer key = GUINT_TO_POINTER(name);
    uint32_t symbol = GPOINTER_TO_UINT(g_hash_table_lookup(symbols, key));
    if (symbol == 0) {
        symbol = g_hash_table_size(symbols) + 1;
        g_hash_table_insert(symbols, key, GUINT_TO_POINTER(symbol));
    }
    return symbol - 1;
}

/* Steps repeat from wherever the recording began: the first whole one follows an optimizer's last
 * kernel, as the longest stretch without one shows it. */
static void begin_after_update(struct period *period, const GArray *names, const GArray *ending)
{
    uint32_t last = 0, begin = 0, longest = 0;
    bool seen = false;
    for (uint32_t i = 0; i < 2 * period->length; i++) {
        if (!g_array_index(ending, bool, g_array_index(names, uint32_t, period->first + i)))
            continue;
        if (seen && i - last > longest) {
            longest = i - last;
            begin = last + 1;
        }
        seen = true;
        last = i;
    }
    if (period->length == 0 || begin % period->length == 0)
        return;
    period->first += begin % period->length;
    period->count--;
}

struct period activity_steps(const struct activity *activity, const struct records *records,
                             uint32_t device, uint64_t *step_ns)
{
    g_autoptr(GHashTable) symbols = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) ending = g_array_new(FALSE, FALSE, sizeof(bool));
    g_autoptr(GArray) names = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint32_t stream = busiest_stream(activity, device);
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        if (kernel->device != device || kernel->stream != stream)
            continue;
        uint32_t symbol = symbol_of(symbols, kernel->name);
        if (symbol == ending->len) {
            bool ends = kernel_words_optimizer(records_text(records, kernel->name));
            g_array_append_val(ending, ends);
        }
        g_array_append_val(names, symbol);
        g_array_append_val(starts, kernel->start_ns);
    }
    struct period period = period_find((const uint32_t *)(void *)names->data, names->len,
                                       ending->len, (const bool *)(void *)ending->data);
    *step_ns = median_step(&period, starts);
    begin_after_update(&period, names, ending);
    return period;
}

const struct kernel_record *activity_steps_kernel(const struct activity *activity, uint32_t device,
                                                  uint32_t place)
{
    uint32_t stream = busiest_stream(activity, device);
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        if (kernel->device == device && kernel->stream == stream && place-- == 0)
            return kernel;
    }
    return &activity->kernels[activity->kernel_count - 1];
}
