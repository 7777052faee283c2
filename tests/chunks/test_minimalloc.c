/* Packs the public instances of MiniMalloc, all within their capacity. */
#include "chunks/non_model.h"
#include "chunks/packing.h"

#include <glib.h>
#include <stdio.h>

enum { CAPACITY = 1048576, NODES = 3000000 };

static GArray *read_instance(const char *path)
{
    GArray *items = g_array_new(FALSE, FALSE, sizeof(struct packing_item));
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
    g_assert_cmpstr(g_strchomp(lines[0]), ==, "id,lower,upper,size");
    for (char **line = lines + 1; *line; line++) {
        g_auto(GStrv) cells = g_strsplit(*line, ",", -1);
        g_assert_cmpuint(g_strv_length(cells), ==, 4);
        struct packing_item item = {g_ascii_strtoull(cells[1], NULL, 10),
                                    g_ascii_strtoull(cells[2], NULL, 10),
                                    g_ascii_strtoull(cells[3], NULL, 10)};
        g_array_append_val(items, item);
    }
    return items;
}

static GArray *read_named(const char *name)
{
    g_autofree char *file = g_strdup_printf("%s.%d.csv", name, CAPACITY);
    g_autofree char *path = g_build_filename(PROJECT_DIR, "tests/data/minimalloc", file, NULL);
    return read_instance(path);
}

static void test_instance(gconstpointer name)
{
    g_autoptr(GArray) array = read_named(name);
    const struct packing_item *items = (const struct packing_item *)(const void *)array->data;
    g_autofree uint64_t *offset = g_new(uint64_t, array->len);
    uint64_t nodes = NODES;
    gint64 before = g_get_monotonic_time();
    g_assert_cmpint(packing_fit(items, array->len, CAPACITY, &nodes, offset), ==, PACKING_FOUND);
    g_assert_true(packing_is_apart(items, array->len, offset, NULL, NULL));
    g_assert_cmpuint(packing_extent(items, array->len, offset), <=, CAPACITY);
    printf("# %s: %u buffers, greatest load %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT
           " placements tried, %.3f s\n",
           (const char *)name, array->len, packing_load(items, array->len), nodes,
           (double)(g_get_monotonic_time() - before) / 1e6);
}

/* The instances as buffers of an iteration. With the few placements that are tried there, the peak
 * is below that of placing the longest-lived first, which is at least 1.37 times the greatest load.
 */
static void test_non_model(gconstpointer name)
{
    g_autoptr(GArray) array = read_named(name);
    const struct packing_item *items = (const struct packing_item *)(const void *)array->data;
    g_autofree struct trace_buffer *buffers = g_new0(struct trace_buffer, array->len);
    uint32_t moments = 0;
    for (guint i = 0; i < array->len; i++) {
        buffers[i].first = (uint32_t)items[i].begin;
        buffers[i].last = (uint32_t)items[i].end - 1;
        buffers[i].bytes = items[i].bytes;
        moments = MAX(moments, (uint32_t)items[i].end);
    }
    g_autofree struct trace_operator *operators = g_new0(struct trace_operator, moments);
    struct trace trace = {.operator_count = moments,
                          .operators = operators,
                          .buffer_count = array->len,
                          .buffers = buffers};
    trace_sum_buffers(&trace);
    struct non_model *placed = non_model_place(&trace);
    g_assert_true(packing_is_apart(items, array->len, placed->offset, NULL, NULL));
    g_assert_cmpuint(packing_extent(items, array->len, placed->offset), ==, placed->peak_bytes);
    g_assert_cmpuint(placed->peak_bytes, <, placed->peak_live_bytes * 5 / 4);
    printf("# %s: peak %.3f of the greatest load\n", (const char *)name,
           (double)placed->peak_bytes / (double)placed->peak_live_bytes);
    non_model_free(placed);
    g_free(trace.non_model_bytes);
}

int main(int argc, char **argv)
{
    static const char *names[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"};
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_strdup_printf("/packing/minimalloc/%s", names[i]);
        g_autofree char *buffers = g_strdup_printf("/non-model/minimalloc/%s", names[i]);
        g_test_add_data_func(path, names[i], test_instance);
        g_test_add_data_func(buffers, names[i], test_non_model);
    }
    return g_test_run();
}
