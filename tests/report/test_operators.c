/* The operators that take the most time, and the names of recorded copies. */
#include "chunks/parts.h"
#include "report/contents.h"
#include "tests/report/sample.h"

#include <string.h>

static const char *cell(const struct text_table *table, guint row, guint column)
{
    g_assert_cmpuint(row, <, table->rows->len);
    return g_ptr_array_index((GPtrArray *)g_ptr_array_index(table->rows, row), column);
}

/* Backward takes 8 of 16 ms. Its operators do as much as those of forward in twice the time. */
static void test_operators(void)
{
    struct trace *trace = sample_trace("");
    const struct input_trace input = {.path = (char *)"run.pstar", .trace = trace};
    struct report_inputs inputs = {0};
    struct text_table *table = table_operators(&inputs, &input);
    g_assert_cmpuint(table->rows->len, ==, 3);
    g_assert_cmpstr(cell(table, 0, 0), ==, "backward layer.*");
    g_assert_cmpstr(cell(table, 0, 1), ==, "4");
    g_assert_cmpstr(cell(table, 0, 2), ==, "8.00 ms");
    g_assert_cmpstr(cell(table, 0, 3), ==, "50 %");
    g_assert_cmpstr(cell(table, 0, 4), ==, "0.5 GFLOP/s");
    g_assert_cmpstr(cell(table, 0, 5), ==, "50 % of compute");
    g_assert_cmpstr(cell(table, 1, 5), ==, "100 % of compute");
    g_assert_nonnull(strstr(table->note, "no platform's file"));
    table_free(table);

    GError *error = NULL;
    inputs.platform = platform_read(PROJECT_DIR "/platforms/cpu-2core.json", &error);
    g_assert_no_error(error);
    table = table_operators(&inputs, &input);
    g_assert_cmpstr(cell(table, 1, 5), ==, "0 % of compute"); /* of 193 GFLOP/s */
    g_assert_nonnull(strstr(table->note, "what the platform's file states"));
    table_free(table);
    platform_free(inputs.platform);
    trace_free(trace);
}

static void test_kernels(void)
{
    struct tracks *tracks = tracks_new("profile.pstar");
    const struct report_inputs inputs = {0};
    tracks->seconds = 1;
    tracks_add(tracks, TRACK_COMPUTE, 0, 0.25, "gemm_128");
    tracks_add(tracks, TRACK_COMPUTE, 0.25, 0.375, "adam");
    tracks_add(tracks, TRACK_COMPUTE, 0.375, 0.875, "gemm_128");
    g_assert_null(table_kernels(&inputs, tracks)); /* operators, not kernels */
    tracks->gpu = true;
    struct text_table *table = table_kernels(&inputs, tracks);
    g_assert_cmpstr(cell(table, 0, 0), ==, "gemm_128");
    g_assert_cmpstr(cell(table, 0, 2), ==, "750 ms");
    g_assert_cmpstr(cell(table, 0, 3), ==, "86 %");
    table_free(table);
    tracks_free(tracks);
}

static void add_bytes(GArray *all, const struct plan *plan, uint64_t bytes)
{
    uint64_t rest = bytes;
    for (uint32_t part = 1; copy_is_cut(plan->cut_from_bytes, bytes) && part < COPY_PARTS; part++) {
        uint64_t own = bytes * part / COPY_PARTS - bytes * (part - 1) / COPY_PARTS;
        g_array_append_val(all, own);
        rest -= own;
    }
    g_array_append_val(all, rest);
}

/* Returns a recording of the plan's fetches, of which the first `late` ran in the step before. */
static struct tracks *record(const struct plan *plan, const struct trace *trace, guint late)
{
    struct tracks *tracks = tracks_new("planned.pstar");
    g_autoptr(GArray) bytes = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t a = 0; a < plan->first_action[trace->operator_count + 1]; a++)
        if (plan->actions[a].kind == PLAN_FETCH)
            add_bytes(bytes, plan, plan->layout->chunks[plan->actions[a].chunk].copy_bytes);
    g_assert_cmpuint(bytes->len, >, late);
    tracks->measured = true;
    for (guint i = 0; i < bytes->len; i++)
        tracks_add(tracks, TRACK_H2D, i, i + 1, "H2D")->bytes =
            g_array_index(bytes, uint64_t, (i + late) % bytes->len);
    return tracks;
}

static const char *first_name(const struct tracks *tracks)
{
    return g_array_index(tracks->spans[TRACK_H2D], struct track_span, 0).name;
}

/* Copies have the names of the plan's, where their bytes are those of the plan's in its order,
 * whole or in parts. */
static void check_copies(uint64_t cut_from_bytes)
{
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    plan->cut_from_bytes = cut_from_bytes;
    const struct input_trace traced = {.path = (char *)"run.pstar", .trace = trace};
    struct input_plan input = {.path = (char *)"plan.json", .plan = plan, .trace = &traced};
    struct report_inputs inputs = {.plans = g_ptr_array_new(), .tracks = g_ptr_array_new()};
    struct tracks *other = record(plan, trace, 0), *same = record(plan, trace, 1);
    g_array_index(other->spans[TRACK_H2D], struct track_span, 0).bytes++;
    g_ptr_array_add(inputs.plans, &input);
    g_ptr_array_add(inputs.tracks, same);
    g_ptr_array_add(inputs.tracks, other);
    inputs_name_copies(&inputs);
    g_test_message("%s", first_name(same));
    g_assert_true(g_regex_match_simple("^fetch chunk [0-9]+ \\((param|exp_avg|exp_avg_sq) "
                                       "layer\\.[0-3]\\)$",
                                       first_name(same), 0, 0));
    g_assert_cmpstr(first_name(other), ==, "H2D");
    g_ptr_array_unref(inputs.plans);
    g_ptr_array_unref(inputs.tracks);
    tracks_free(same);
    tracks_free(other);
    plan_free(plan);
    trace_free(trace);
}

static void test_copies(void)
{
    check_copies(0);
    check_copies(1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/operators/operators", test_operators);
    g_test_add_func("/report/operators/kernels", test_kernels);
    g_test_add_func("/report/operators/copies", test_copies);
    return g_test_run();
}
