#include "planner/search/trials.h"

#include "sim/sizes.h"

#include <math.h>

enum { BETWEEN = 4 /* sizes an octave */, COMMON_TENSORS = 4 };

/* In long iterations, layouts of one kind whose numbers of chunks differ by less than this share of
 * them count as one. */
#define ALIKE_SHARE 0.03

/* Smaller tensors, in mean tensors, are packed together. */
#define SMALL_SHARE 0.125

static uint8_t widest(const struct trace *trace)
{
    uint8_t width = 0;
    for (int list = 0; list < TRACE_LISTS; list++)
        width = MAX(width, trace->list_element_bytes[list]);
    return width;
}

/* Takes ownership of `layout`. If another one has the same chunks, it is only of use to strategies
 * that depend on the requested chunk size. */
static void add_choice(struct layout_choices *choices, struct layout *layout, uint8_t kind,
                       bool swept)
{
    struct layout_choice choice = {.spec = {.given = layout}, .kind = kind, .swept = swept};
    for (guint i = 0; i < choices->items->len && !choice.duplicate; i++) {
        struct layout_choice *other = &g_array_index(choices->items, struct layout_choice, i);
        choice.duplicate = layout_same_chunks(other->spec.given, layout);
        other->swept |= choice.duplicate && swept;
        if (choice.duplicate && !swept) {
            layout_free(layout);
            return;
        }
    }
    g_ptr_array_add(choices->layouts, layout);
    g_array_append_val(choices->items, choice);
}

/* Returns whether a layout of this kind with about as many chunks is listed. */
static bool has_alike(const struct layout_choices *choices, const struct layout *layout,
                      uint8_t kind)
{
    double count = layout->chunk_count;
    for (guint i = 0; i < choices->items->len; i++) {
        const struct layout_choice *other = &g_array_index(choices->items, struct layout_choice, i);
        if (other->kind == kind &&
            fabs(other->spec.given->chunk_count - count) < ALIKE_SHARE * count)
            return true;
    }
    return false;
}

/* Adds chunks of `bytes` in the widest list, and in the others of equal bytes or equal elements. */
static void add_size(const struct trace *trace, struct layout_choices *choices, uint64_t bytes,
                     bool swept)
{
    for (int same_elements = 0; same_elements < 2; same_elements++)
        for (int reordered = 0; reordered < 2; reordered++) {
            struct layout_spec spec = {.order = reordered ? choices->matrices_first : NULL};
            for (int list = 0; list < TRACE_LISTS; list++) {
                uint64_t width = trace->list_element_bytes[list];
                bool scaled = same_elements && width;
                spec.chunk_bytes[list] = scaled ? layout_align(bytes / widest(trace) * width)
                                                : bytes;
            }
            struct layout *layout = layout_pack(trace, &spec, NULL);
            bool swept_as_is = swept && !same_elements && !reordered;
            uint8_t kind = (uint8_t)(1 + same_elements + 2 * reordered);
            if (!swept_as_is && trace->operator_count > LONG_ITERATION &&
                has_alike(choices, layout, kind))
                layout_free(layout);
            else
                add_choice(choices, layout, kind, swept_as_is);
        }
}

static void add_sweep_sizes(const struct trace *trace, struct layout_choices *choices, bool swept)
{
    g_autoptr(GArray) sizes = sizes_parse_chunks(NULL, trace, NULL);
    uint64_t least = g_array_index(sizes, uint64_t, 0);
    uint64_t most = g_array_index(sizes, uint64_t, sizes->len - 1);
    for (guint i = 0; i < sizes->len; i++)
        add_size(trace, choices, g_array_index(sizes, uint64_t, i), swept);
    for (int step = 1; (double)least * exp2((double)step / BETWEEN) < (double)most; step++)
        add_size(trace, choices,
                 layout_align((uint64_t)((double)least * exp2((double)step / BETWEEN))), false);
}

struct common_size {
    uint64_t bytes, total;
};

static int most_first(const void *left, const void *right)
{
    const struct common_size *a = left, *b = right;
    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Returns the sizes of tensors in the widest list; those that make up most of the model come first.
 */
static GArray *common_sizes(const struct trace *trace)
{
    g_autofree uint64_t *bytes = g_new(uint64_t, trace->tensor_count);
    GArray *sizes = g_array_new(FALSE, FALSE, sizeof(struct common_size));
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        bytes[t] = layout_align(trace->tensors[t].elements * widest(trace));
    qsort(bytes, trace->tensor_count, sizeof *bytes, by_value);
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        if (t == 0 || bytes[t] != bytes[t - 1]) {
            struct common_size fresh = {bytes[t], 0};
            g_array_append_val(sizes, fresh);
        }
        g_array_index(sizes, struct common_size, sizes->len - 1).total += bytes[t];
    }
    g_array_sort(sizes, most_first);
    return sizes;
}

static void add_tensor_sizes(const struct trace *trace, struct layout_choices *choices)
{
    g_autoptr(GArray) sizes = common_sizes(trace);
    for (guint i = 0; i < MIN(sizes->len, COMMON_TENSORS); i++)
        for (uint64_t times = 1; times <= 4; times *= 2)
            add_size(trace, choices, times * g_array_index(sizes, struct common_size, i).bytes,
                     false);
}

static uint32_t *order_matrices_first(const struct trace *trace)
{
    uint32_t *order = g_new(uint32_t, trace->tensor_count), next = 0;
    double sum = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        sum += (double)trace->tensors[t].elements;
    double small = SMALL_SHARE * sum / MAX(trace->tensor_count, 1);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t t = 0; t < trace->tensor_count; t++)
            if (((double)trace->tensors[t].elements < small) == (pass == 1))
                order[next++] = t;
    return order;
}

static void add_given(const struct trace *trace, struct layout_choices *choices,
                      const GPtrArray *given, bool swept)
{
    for (guint i = 0; i < given->len; i++) {
        const struct named_layout *named = g_ptr_array_index(given, i);
        const struct layout_spec spec = {.given = named->layout};
        add_choice(choices, layout_pack(trace, &spec, NULL), 0, swept);
    }
}

struct layout_choices *layout_choices_new(const struct trace *trace, const GPtrArray *given,
                                          const struct layout *start)
{
    struct layout_choices *choices = g_new0(struct layout_choices, 1);
    choices->items = g_array_new(FALSE, TRUE, sizeof(struct layout_choice));
    choices->layouts = g_ptr_array_new_with_free_func((GDestroyNotify)layout_free);
    choices->matrices_first = order_matrices_first(trace);
    if (start)
        add_choice(choices, layout_copy(start), 0, true);
    if (given) {
        add_given(trace, choices, given, !start);
    } else {
        add_sweep_sizes(trace, choices, !start);
        add_size(trace, choices, LAYOUT_ALIGNMENT, false);
        add_tensor_sizes(trace, choices);
    }
    return choices;
}

uint32_t layout_choices_find(struct layout_choices *choices, const struct layout *layout)
{
    for (guint i = 0; i < choices->items->len; i++)
        if (layout_same_chunks(g_array_index(choices->items, struct layout_choice, i).spec.given,
                               layout))
            return i;
    add_choice(choices, layout_copy(layout), 0, false);
    return choices->items->len - 1;
}

void layout_choices_free(struct layout_choices *choices)
{
    if (!choices)
        return;
    g_array_unref(choices->items);
    g_ptr_array_unref(choices->layouts);
    g_free(choices->matrices_first);
    g_free(choices);
}
