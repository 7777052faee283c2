/* Sweeps: the same rows whatever the threads, and rows that say what does not fit. */
#include "sim/sizes.h"
#include "sim/sweep_report.h"
#include "sim/workers.h"
#include "tests/chunks/random_iteration.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

struct fixture {
    struct trace *trace;
    GPtrArray *layouts;
    GArray *budgets, *look_aheads;
    struct costs *costs;
    struct sweep_options options;
};

static void set_up(struct fixture *f, GRand *random, const char *budgets)
{
    f->trace = random_iteration(random);
    f->layouts = layout_list_parse("1KiB:32KiB", NULL, f->trace, NULL);
    f->budgets = sizes_parse_budgets(budgets, f->trace, NULL);
    f->look_aheads = sizes_parse_counts("0,3", NULL);
    f->costs = costs_new(NULL, NULL, NULL);
    f->options = (struct sweep_options){.layouts = f->layouts,
                                        .budgets = f->budgets,
                                        .look_aheads = f->look_aheads,
                                        .policies = policy_all,
                                        .host_budget = UINT64_MAX,
                                        .costs = f->costs};
}

static void tear_down(struct fixture *f)
{
    g_ptr_array_unref(f->layouts);
    g_array_unref(f->budgets);
    g_array_unref(f->look_aheads);
    costs_free(f->costs);
    trace_free(f->trace);
}

static uint32_t policy_count(void)
{
    uint32_t count = 0;
    while (policy_all[count])
        count++;
    return count;
}

static char *as_csv(const struct sweep *sweep)
{
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "pstar-sweep-XXXXXX", NULL);
    char *text = NULL;
    g_close(g_mkstemp(path), NULL);
    g_assert_true(sweep_write_csv(sweep, path, NULL));
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_unlink(path);
    return text;
}

static void test_any_number_of_threads(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 6; i++) {
        struct fixture f;
        set_up(&f, random, "30%,60%,100%");
        g_autofree char *expected = NULL;
        for (uint32_t threads = 1; threads <= 5; threads += 2) {
            f.options.threads = threads;
            struct sweep *sweep = sweep_run(f.trace, &f.options);
            g_assert_cmpuint(sweep->row_count, ==, 11 * policy_count() * 2 * 3);
            g_autofree char *text = as_csv(sweep);
            if (!expected)
                expected = g_steal_pointer(&text);
            else
                g_assert_cmpstr(text, ==, expected);
            sweep_free(sweep);
        }
        tear_down(&f);
    }
}

/* Sizes that no tensor tells apart give the same chunks, which are replayed once: every size has
 * the rows that it has alone. */
static void test_sizes_with_the_same_chunks(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    uint32_t alike = 0;
    for (int i = 0; i < 6; i++) {
        struct fixture f;
        set_up(&f, random, "1%,40%,100%");
        struct sweep *together = sweep_run(f.trace, &f.options);
        uint32_t rows = policy_count() * 2, sizes = f.layouts->len;
        for (uint32_t s = 0; s < sizes; s++) {
            struct named_layout *named = g_ptr_array_index(f.layouts, s), *last = named;
            if (s > 0)
                last = g_ptr_array_index(f.layouts, s - 1);
            alike += s > 0 && layout_same_chunks(named->layout, last->layout);
            g_autoptr(GPtrArray) one = g_ptr_array_new();
            g_ptr_array_add(one, named);
            struct sweep_options options = f.options;
            options.layouts = one;
            struct sweep *alone = sweep_run(f.trace, &options);
            for (uint32_t r = 0; r < alone->row_count; r++) {
                const struct sweep_row *row =
                    &together->rows[(r / rows * sizes + s) * rows + r % rows];
                g_assert_true(row->layout == named && row->done);
                g_assert_cmpint(row->fits, ==, alone->rows[r].fits);
                g_assert_cmpstr(row->reason, ==, alone->rows[r].reason);
                g_assert_cmpmem(&row->figures, sizeof row->figures, &alone->rows[r].figures,
                                sizeof row->figures);
            }
            sweep_free(alone);
        }
        sweep_free(together);
        tear_down(&f);
    }
    g_test_message("%u sizes are like the one before", alike);
}

static void test_what_does_not_fit(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    set_up(&f, random, "256B,1GB");
    struct sweep *sweep = sweep_run(f.trace, &f.options);
    for (uint32_t r = 0; r < sweep->row_count; r++) {
        const struct sweep_row *row = &sweep->rows[r];
        bool small = row->device_budget == 256;
        g_assert_true(row->done);
        g_assert_cmpint(row->fits, ==, !small);
        g_assert_cmpint(row->reason != NULL, ==, small);
        g_assert_cmpuint(row->least_device_bytes, >, 256);
    }
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    g_assert_cmpuint(ranked->len, ==, sweep->row_count);
    const struct sweep_row *last = &sweep->rows[g_array_index(ranked, uint32_t, ranked->len - 1)];
    g_assert_cmpuint(last->device_budget, ==, 1000000000);
    sweep_free(sweep);

    tear_down(&f);
}

/* Returns the only row's least device memory with this budget, and whether it fits. */
static uint64_t sweep_one(struct fixture *f, uint64_t device_budget, bool *fits)
{
    g_array_set_size(f->budgets, 0);
    g_array_append_val(f->budgets, device_budget);
    struct sweep *sweep = sweep_run(f->trace, &f->options);
    uint64_t least = sweep->rows[0].least_device_bytes;
    *fits = sweep->rows[0].fits;
    bool lacks_host = !*fits && g_str_has_prefix(sweep->rows[0].reason, "host memory");
    sweep_free(sweep);
    return lacks_host ? 0 : least;
}

/* What a row calls the least does fit, and a byte less does not, whatever the host has room for. */
static void test_least(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int limited = 0, i = 0; i < 4 || !limited; i++) {
        struct fixture f;
        bool fits;
        set_up(&f, random, "256B");
        g_ptr_array_unref(f.layouts);
        f.options.layouts = f.layouts = layout_list_parse("2KiB", NULL, f.trace, NULL);
        uint64_t ample = sweep_one(&f, 256, &fits);
        if (i % 2)
            f.options.host_budget = (uint64_t)g_rand_int_range(random, 2000, 100000);
        uint64_t least = sweep_one(&f, 256, &fits);
        g_assert_false(fits);
        if (least) {
            g_assert_cmpuint(least, >=, ample);
            limited += least > ample;
            sweep_one(&f, least, &fits);
            g_assert_true(fits);
            g_assert_cmpuint(sweep_one(&f, least - 1, &fits), ==, least);
            g_assert_false(fits);
        }
        tear_down(&f);
    }
}

static bool stop_at_once(void *data, uint32_t done, uint32_t total)
{
    uint32_t *calls = data;
    (*calls)++;
    g_assert_cmpuint(done, <=, total);
    return false;
}

static void slow_task(void *data, uint32_t index)
{
    gint *begun = data;
    (void)index;
    g_atomic_int_inc(begun);
    g_usleep(20000);
}

static void test_interruption(void)
{
    gint begun = 0;
    uint32_t calls = 0;
    workers_run(&(struct workers_job){.task = slow_task,
                                      .data = &begun,
                                      .count = 1000,
                                      .threads = 2,
                                      .progress = stop_at_once,
                                      .progress_data = &calls});
    g_assert_cmpint(begun, >=, 2);
    g_assert_cmpint(begun, <, 1000);
    g_assert_cmpuint(calls, >=, 1);
}

static void test_no_tasks(void)
{
    gint begun = 0;
    workers_run(&(struct workers_job){.task = slow_task, .data = &begun, .threads = 2});
    g_assert_cmpint(begun, ==, 0);
}

static void test_json(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "pstar-sweep-XXXXXX", NULL);
    struct fixture f;
    set_up(&f, random, "256B,100%");
    struct sweep *sweep = sweep_run(f.trace, &f.options);
    g_close(g_mkstemp(path), NULL);
    g_assert_true(sweep_write_json(sweep, f.trace, "a.pstar", NULL, f.options.costs, path, NULL));
    json_t *root = json_load_file(path, 0, NULL), *results = json_object_get(root, "results"), *row;
    size_t index;
    g_assert_cmpstr(json_string_value(json_object_get(root, "trace")), ==, "a.pstar");
    g_assert_cmpstr(json_string_value(json_object_get(root, "objective")), ==, "time");
    g_assert_cmpfloat_with_epsilon(json_number_value(json_object_get(root, "d2h_rate")),
                                   costs_link_rate(f.options.costs, MOVER_D2H), 1);
    g_assert_cmpuint(json_array_size(results), ==, sweep->row_count);
    json_array_foreach (results, index, row) {
        const struct sweep_row *expected = &sweep->rows[index];
        g_assert_cmpstr(json_string_value(json_object_get(row, "policy")), ==,
                        expected->policy->name);
        g_assert_cmpint(json_is_true(json_object_get(row, "fits")), ==, expected->fits);
        g_assert_cmpint(json_is_integer(json_object_get(row, "h2d_bytes")), ==, expected->fits);
        g_assert_cmpint(json_is_string(json_object_get(row, "reason")), ==, !expected->fits);
        g_assert_cmpint(json_integer_value(json_object_get(row, "d2h_bytes")), ==,
                        expected->figures.d2h_bytes);
        g_assert_cmpfloat_with_epsilon(json_real_value(json_object_get(row, "iteration_seconds")),
                                       expected->figures.iteration_seconds, 1e-12);
    }
    json_decref(root);
    g_unlink(path);
    sweep_free(sweep);
    tear_down(&f);
}

static void test_sizes(void)
{
    static const char *const bad[] = {"1MiB:1KiB",
                                      "0",
                                      "1MiB,0B",
                                      "1MiB:",
                                      "4MB0",
                                      "2MiB;3MiB",
                                      "",
                                      "1:18446744073709551615",
                                      "18446744073709551615"};
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct trace *trace = random_iteration(random);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(sizes_parse_chunks(bad[i], trace, &error));
        g_assert_nonnull(error);
    }
    g_autoptr(GArray) range = sizes_parse_chunks("1000B:4KiB", trace, NULL);
    const uint64_t expected[] = {1024, 1536, 2048, 3072, 4096};
    g_assert_cmpuint(range->len, ==, (guint)G_N_ELEMENTS(expected));
    for (guint i = 0; i < range->len; i++)
        g_assert_cmpuint(g_array_index(range, uint64_t, i), ==, expected[i]);
    g_autoptr(GArray) list = sizes_parse_chunks("4KiB,1KiB,4096", trace, NULL);
    g_assert_cmpuint(list->len, ==, 2);
    g_assert_cmpuint(g_array_index(list, uint64_t, 0), ==, 1024);
    trace_free(trace);
}

/* Lists may differ, and sizes a list may stand beside sizes for all. */
static void test_layouts(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 20; i++) {
        struct trace *trace = random_iteration(random);
        g_autoptr(GError) error = NULL;
        g_autoptr(GPtrArray) layouts = layout_list_parse("1KiB,2KiB;4KiB,param=1KiB;8KiB:16KiB",
                                                         NULL, trace, &error);
        static const uint64_t param[] = {1024, 2048, 1024, 8192, 11776, 16384};
        g_assert_no_error(error);
        g_assert_cmpuint(layouts->len, ==, (guint)G_N_ELEMENTS(param));
        for (guint l = 0; l < layouts->len; l++) {
            const struct named_layout *named = g_ptr_array_index(layouts, l);
            g_assert_cmpuint(named->layout->chunk_bytes[TRACE_PARAM], ==, param[l]);
            g_assert_cmpstr(named->name, ==, l == 2 ? "4KiB,param=1KiB" : NULL);
        }
        static const char *const bad[] = {"", "1KiB;", "1KiB;param=0", "x=1KiB",
                                          "param=1KiB;2KiB:1KiB"};
        for (size_t b = 0; b < G_N_ELEMENTS(bad); b++) {
            g_autoptr(GError) wrong = NULL;
            g_assert_null(layout_list_parse(bad[b], NULL, trace, &wrong));
            g_assert_nonnull(wrong);
        }
        g_assert_null(layout_list_parse("1KiB", "layout.json", trace, &error));
        g_assert_nonnull(strstr(error->message, "--chunk-size"));
        trace_free(trace);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sweep/any_number_of_threads", test_any_number_of_threads);
    g_test_add_func("/sweep/what_does_not_fit", test_what_does_not_fit);
    g_test_add_func("/sweep/least", test_least);
    g_test_add_func("/sweep/sizes_with_the_same_chunks", test_sizes_with_the_same_chunks);
    g_test_add_func("/sweep/interruption", test_interruption);
    g_test_add_func("/sweep/no_tasks", test_no_tasks);
    g_test_add_func("/sweep/json", test_json);
    g_test_add_func("/sweep/sizes", test_sizes);
    g_test_add_func("/sweep/layouts", test_layouts);
    return g_test_run();
}
