/* Layouts that people write: chunk sizes by list, and layout files. */
#include "chunks/chunk_sizes.h"
#include "chunks/dry_run.h"
#include "chunks/layout_file.h"
#include "tests/chunks/random_iteration.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

enum { TRIALS = 100 };

struct fixture {
    char *folder, *path;
    GRand *random;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->folder = g_dir_make_tmp("pstar-layout-XXXXXX", NULL);
    f->path = g_build_filename(f->folder, "layout.json", NULL);
    f->random = g_rand_new_with_seed(random_seed());
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_unlink(f->path);
    g_assert_cmpint(g_rmdir(f->folder), ==, 0);
    g_rand_free(f->random);
    g_free(f->folder);
    g_free(f->path);
}

static void assert_says(const GError *error, const char *says)
{
    g_assert_nonnull(error);
    if (!strstr(error->message, says))
        g_error("'%s' does not say '%s'", error->message, says);
}

static void assert_layouts_equal(const struct layout *a, const struct layout *b)
{
    g_assert_cmpuint(a->chunk_count, ==, b->chunk_count);
    g_assert_cmpuint(a->group_count, ==, b->group_count);
    for (uint32_t c = 0; c < a->chunk_count; c++) {
        g_assert_cmpuint(a->chunks[c].slot_bytes, ==, b->chunks[c].slot_bytes);
        g_assert_cmpuint(a->chunks[c].copy_bytes, ==, b->chunks[c].copy_bytes);
        g_assert_cmpuint(a->chunks[c].list, ==, b->chunks[c].list);
    }
    for (int list = 0; list < TRACE_LISTS; list++) {
        g_assert_true(!a->places[list] == !b->places[list]);
        g_assert_cmpuint(layout_place_count(a, list), ==, layout_place_count(b, list));
        for (uint32_t i = 0; a->places[list] && i < layout_place_count(a, list); i++) {
            g_assert_cmpuint(a->places[list][i].chunk, ==, b->places[list][i].chunk);
            g_assert_cmpuint(a->places[list][i].offset, ==, b->places[list][i].offset);
        }
    }
}

/* ---- a size a list ---- */

static uint64_t some_size(GRand *random)
{
    return LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 60);
}

static void test_sizes(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < TRIALS; i++) {
        struct trace *trace = random_iteration(f->random);
        struct layout_spec spec = {.order = NULL};
        struct chunk_sizes sizes;
        uint64_t others = some_size(f->random);
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_printf(text, "%" G_GUINT64_FORMAT "B", others - 100); /* is rounded up */
        for (int list = 0; list < TRACE_LISTS; list++) {
            spec.chunk_bytes[list] = others;
            if (!trace->list_element_bytes[list] || g_rand_boolean(f->random))
                continue;
            spec.chunk_bytes[list] = some_size(f->random);
            g_string_append_printf(text, ",%s=%" G_GUINT64_FORMAT "B", trace_list_name(list),
                                   spec.chunk_bytes[list]);
        }
        GError *error = NULL;
        g_assert_true(chunk_sizes_parse(text->str, &sizes, &error));
        struct layout *expected = layout_pack(trace, &spec, NULL);
        struct layout *layout = chunk_sizes_pack(&sizes, trace, &error);
        g_assert_no_error(error);
        assert_layouts_equal(layout, expected);
        layout_free(layout);
        layout_free(expected);
        trace_free(trace);
    }
}

static void test_bad_sizes(struct fixture *f, gconstpointer data)
{
    (void)f;
    (void)data;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no size"},
        {"param=", "''"},
        {"weights=1MiB", "'weights': there is no list of chunks of this name; the lists are param, "
                         "grad, master, exp_avg, exp_avg_sq, gathered"},
        {"=1MiB", "there is no list"},
        {"param=1MiB,param=2MiB", "'param=2MiB': a size for this list"},
        {"1MiB,2MiB", "'2MiB': a default size"},
        {"param=0", "above 0"},
        {"param=2048PiB", "below 1 EiB"},
        {"param=1MiB,", "''"},
        {"param=1MiB=2", "1MiB=2"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct chunk_sizes sizes;
        g_autoptr(GError) error = NULL;
        g_assert_false(chunk_sizes_parse(bad[i].text, &sizes, &error));
        assert_says(error, bad[i].says);
    }
}

static void test_lists(struct fixture *f, gconstpointer data)
{
    (void)f;
    (void)data;
    struct trace_tensor tensors[] = {{.name = (char *)"a", .elements = 10}};
    const struct trace trace = {.tensors = tensors,
                                .tensor_count = 1,
                                .list_element_bytes = {[TRACE_PARAM] = 4, [TRACE_EXP_AVG] = 4}};
    static const struct {
        const char *text, *says;
    } bad[] = {{"param=1KiB", "list exp_avg has no size"},
               {"1KiB,grad=1KiB", "this run has no list grad"}};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct chunk_sizes sizes;
        g_autoptr(GError) error = NULL;
        g_assert_true(chunk_sizes_parse(bad[i].text, &sizes, NULL));
        g_assert_null(chunk_sizes_pack(&sizes, &trace, &error));
        assert_says(error, bad[i].says);
    }
}

/* ---- files ---- */

/* Returns whether the list lacks the tensor of a place, which then takes no bytes. */
static bool is_absent(const struct layout *layout, const struct trace *trace, int list,
                      uint32_t place)
{
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        for (uint32_t b = 0; b < trace_blocks(trace, (enum trace_list)list, t); b++)
            if (layout_place_index(layout, list, t, b) == place)
                return trace_block_bytes(trace, (enum trace_list)list, t, b) == 0;
    g_assert_not_reached();
}

/* Appends the tensors that begin at an offset of a chunk: first those that take nothing there. */
static void append_names(json_t *names, const struct layout *layout, const struct trace *trace,
                         chunk_id chunk, uint64_t offset)
{
    int list = layout->chunks[chunk].list;
    for (int absent = 1; absent >= 0; absent--)
        for (uint32_t i = 0; i < layout_place_count(layout, list); i++) {
            const struct layout_place *place = &layout->places[list][i];
            g_autofree char *name = layout_place_name(layout, trace, list, i);
            if (place->chunk == chunk && place->offset == offset &&
                is_absent(layout, trace, list, i) == (absent != 0))
                json_array_append_new(names, json_string(name));
        }
}

/* Writes the chunks of a layout as a file names them: by list, or one list for all. */
static json_t *chunks_of(const struct layout *layout, const struct trace *trace, int list)
{
    json_t *chunks = json_array();
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        if (layout->chunks[c].list != list)
            continue;
        json_t *names = json_array();
        for (uint64_t offset = 0; offset <= layout->chunks[c].copy_bytes;
             offset += LAYOUT_ALIGNMENT)
            append_names(names, layout, trace, c, offset);
        json_array_append_new(chunks, names);
    }
    return chunks;
}

static void write_json(const struct fixture *f, json_t *root)
{
    g_assert_cmpint(json_dump_file(root, f->path, 0), ==, 0);
    json_decref(root);
}

static uint32_t *random_order(GRand *random, uint32_t count)
{
    uint32_t *order = g_new(uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)g_rand_int_range(random, 0, (gint32)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* A layout of random order and sizes is the same when it is read back. */
static void test_round_trip(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < TRIALS; i++) {
        struct trace *trace = random_iteration(f->random);
        g_autofree uint32_t *order = random_order(f->random, trace->tensor_count);
        struct layout_spec spec = {.order = order};
        json_t *lists = json_object();
        for (int list = 0; list < TRACE_LISTS; list++)
            spec.chunk_bytes[list] = some_size(f->random);
        struct layout *layout = layout_pack(trace, &spec, NULL);
        for (int list = 0; list < TRACE_LISTS; list++)
            if (layout->places[list])
                json_object_set_new(lists, trace_list_name(list), chunks_of(layout, trace, list));
        write_json(f, json_pack("{s:i, s:o}", "pstar_layout", 1, "chunks", lists));
        GError *error = NULL;
        struct layout *back = layout_read(f->path, trace, &error);
        g_assert_no_error(error);
        assert_layouts_equal(layout, back);
        for (uint32_t c = 0; c < back->chunk_count; c++)
            for (uint32_t other = 0; other < back->chunk_count; other++)
                g_assert_true((back->chunks[c].group == back->chunks[other].group) ==
                              (layout->chunks[c].group == layout->chunks[other].group));
        layout_free(back);
        layout_free(layout);
        trace_free(trace);
    }
}

/* The layout of a plan leads to the same decisions for the same run. */
static void test_plan(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < 20; i++) {
        struct trace *trace = random_iteration(f->random);
        struct layout *layout = layout_pack_uniform(trace, some_size(f->random), NULL);
        const struct dry_run_options options = {
            .device_budget = UINT64_C(1) << 40, .host_budget = UINT64_MAX, .policy = &policy_opt};
        struct plan *plan = dry_run(trace, layout, &options, NULL);
        g_assert_true(plan_write(plan, f->path, NULL));
        GError *error = NULL;
        struct layout *back = layout_read(f->path, trace, &error);
        g_assert_no_error(error);
        assert_layouts_equal(layout, back);
        for (uint32_t c = 0; c < back->chunk_count; c++)
            g_assert_cmpuint(back->chunks[c].slot_bytes, ==, layout->chunks[c].slot_bytes);
        layout_free(back);
        g_free(trace->model);
        trace->model = g_strdup("another");
        g_assert_null(layout_read(f->path, trace, &error));
        assert_says(error, "another");
        g_clear_error(&error);
        plan_free(plan);
        layout_free(layout);
        trace_free(trace);
    }
}

static void test_bad_files(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct trace_tensor tensors[] = {{.name = (char *)"a", .elements = 100},
                                     {.name = (char *)"b", .elements = 100},
                                     {.name = (char *)"c", .elements = 100}};
    const struct trace trace = {.tensors = tensors,
                                .tensor_count = 3,
                                .list_element_bytes = {[TRACE_PARAM] = 4, [TRACE_EXP_AVG] = 4}};
    static const struct {
        const char *contents, *says;
    } bad[] = {
        {"{", "line 1"},
        {"[]", "neither a plan nor a layout"},
        {"{\"pstar_layout\": 2}", "neither a plan nor a layout"},
        {"{\"pstar_layout\": 1}", "list param is missing"},
        {"{\"pstar_layout\": 1, \"chunks\": [\"a\"]}",
         "list param: chunk 0 must be a non-empty list of tensors"},
        {"{\"pstar_layout\": 1, \"chunks\": [[]]}", "chunk 0 must be a non-empty list of tensors"},
        {"{\"pstar_layout\": 1, \"chunks\": [[1]]}", "there is no tensor ''"},
        {"{\"pstar_layout\": 1, \"chunks\": [[\"a\"], [\"x\"]]}", "there is no tensor 'x'"},
        {"{\"pstar_layout\": 1, \"chunks\": [[\"a\", \"b\"]]}", "list param: tensor c is missing"},
        {"{\"pstar_layout\": 1, \"chunks\": [[\"a\", \"b\"], [\"c\", \"a\"]]}",
         "list param: tensor a appears twice"},
        {"{\"pstar_layout\": 1, \"chunks\": {\"param\": [[\"a\", \"b\", \"c\"]]}}",
         "list exp_avg is missing"},
        {"{\"pstar_layout\": 1, \"chunks\": {\"weights\": []}}", "there is no list of chunks "
                                                                 "'weights'; the lists are param, "
                                                                 "grad, master, exp_avg"},
        {"{\"pstar_layout\": 1, \"chunks\": {\"grad\": []}}", "this run has no list grad"},
        {"{\"pstar_layout\": 1, \"chunk_bytes\": 1024, \"chunks\": [[\"a\"], [\"b\", \"c\"]]}",
         NULL},
        {"{\"pstar_layout\": 1, \"chunk_bytes\": {\"exp_avg\": 1023}, \"chunks\": [[\"a\"], "
         "[\"b\", \"c\"]]}",
         "list exp_avg: chunk 1 takes 1024 bytes; chunk_bytes allows 1023"},
        {"{\"pstar_layout\": 1, \"chunk_bytes\": -1, \"chunks\": [[\"a\"], [\"b\", \"c\"]]}",
         "chunk_bytes of list param"},
        {"{\"pstar_layout\": 1, \"chunk_bytes\": {\"x\": 1}, \"chunks\": [[\"a\", \"b\", \"c\"]]}",
         "list of chunks 'x'"},
        {"{\"pstar_layout\": 1, \"chunks\": {\"param\": [[\"a\", \"b\"], [\"c\"]], \"exp_avg\": "
         "[[\"a\"], [\"b\", \"c\"]]}}",
         "lists must nest: tensors b and c share a chunk of list exp_avg"},
        {"{\"pstar_plan\": 1}", "digest"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_true(g_file_set_contents(f->path, bad[i].contents, -1, NULL));
        struct layout *layout = layout_read(f->path, &trace, &error);
        g_assert_true((layout == NULL) == (bad[i].says != NULL));
        g_assert_true((layout == NULL) == (error != NULL));
        if (error && i + 1 < G_N_ELEMENTS(bad))
            assert_says(error, bad[i].says);
        if (error)
            g_assert_true(g_str_has_prefix(error->message, f->path));
        layout_free(layout);
    }
    g_autoptr(GError) error = NULL;
    g_assert_null(layout_read("none.json", &trace, &error));
    assert_says(error, "none.json");
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/layout-file/sizes", test_sizes);
    ADD("/layout-file/bad-sizes", test_bad_sizes);
    ADD("/layout-file/lists", test_lists);
    ADD("/layout-file/round-trip", test_round_trip);
    ADD("/layout-file/plan", test_plan);
    ADD("/layout-file/bad-files", test_bad_files);
    return g_test_run();
}
