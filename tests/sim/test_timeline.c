/* The timeline of an operator that waits for a copy, on independent queues and on threads. */
#include "sim/clock.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

enum { OPERATORS = 2, CHUNKS = 2 };

struct fixture {
    struct trace_operator operators[OPERATORS];
    uint64_t non_model[OPERATORS];
    struct trace trace;
    struct chunk chunks[CHUNKS];
    struct layout_place place;
    struct trace_tensor tensor;
    struct layout layout;
    uint64_t address[CHUNKS];
    struct plan plan;
    struct costs *costs;
    struct timeline *timeline;
    struct sim_clock *clock;
};

static const struct mover_after none;

static mover_ticket run(struct sim_clock *clock, uint32_t moment, const struct mover_after *after)
{
    mover_ticket received;
    return sim_clock_mover.run(clock, moment, after, &received);
}

static void set_up(struct fixture *f, const void *threads)
{
    for (int m = 0; m < OPERATORS; m++)
        f->operators[m] = (struct trace_operator){.name = m ? "second" : "first",
                                                  .duration_ns = 1000};
    f->tensor = (struct trace_tensor){.name = "weight", .elements = 200};
    f->trace = (struct trace){.operator_count = OPERATORS,
                              .operators = f->operators,
                              .non_model_bytes = f->non_model,
                              .tensor_count = 1,
                              .tensors = &f->tensor};
    f->chunks[0] = f->chunks[1] = (struct chunk){.slot_bytes = 1024, .copy_bytes = 800};
    f->place = (struct layout_place){.chunk = 1};
    f->layout = (struct layout){.tensor_count = 1, .chunk_count = CHUNKS, .chunks = f->chunks};
    f->layout.places[TRACE_MASTER] = &f->place;
    f->plan = (struct plan){
        .layout = &f->layout, .host_address = f->address, .initial_address = f->address};
    f->costs = costs_new(NULL, "h2d=1GB/s,d2h=1GB/s", NULL);
    f->costs->threads.known = threads != NULL;
    f->costs->threads.cores = 1;
    if (threads) { /* of memory and copies, which the constants leave alone */
        struct cost *used[] = {&f->costs->threads.copy[0], &f->costs->threads.copy[1],
                               &f->costs->threads.memory};
        for (size_t i = 0; i < G_N_ELEMENTS(used); i++) {
            used[i]->curve.points = g_new(struct platform_point, 1);
            used[i]->curve.points[0] = (struct platform_point){1e12, 1};
            used[i]->curve.count = 1;
        }
    }
    f->timeline = timeline_new();
    f->clock = sim_clock_new(&(struct sim_job){.trace = &f->trace,
                                               .plan = &f->plan,
                                               .non_model = f->non_model,
                                               .costs = f->costs,
                                               .timeline = f->timeline});
    run(f->clock, 0, &none);
    const struct mover_copy copy = {.chunk = 1, .copy_bytes = 800, .slot_bytes = 1024};
    struct mover_after fetched = none;
    fetched.queue[MOVER_H2D] = sim_clock_mover.fetch(f->clock, &copy, &none);
    run(f->clock, 1, &fetched);
    sim_clock_lap(f->clock);
}

static void tear_down(struct fixture *f, const void *threads)
{
    (void)threads;
    sim_clock_free(f->clock);
    timeline_free(f->timeline);
    costs_free(f->costs);
}

static void test_stall(struct fixture *f, const void *threads)
{
    (void)threads;
    g_assert_cmpuint(f->timeline->stalls->len, ==, 1);
    const struct timeline_stall *stall = &g_array_index(f->timeline->stalls, struct timeline_stall,
                                                        0);
    g_assert_cmpuint(stall->moment, ==, 1);
    g_assert_cmpuint(stall->start_ns, ==, 1000);
    g_assert_cmpuint(stall->wait_ns, ==, 800);
    g_assert_cmpint(stall->queue, ==, MOVER_H2D);
    g_assert_cmpuint(stall->chunk, ==, 1);
    g_assert_cmpuint(f->timeline->begin_ns, ==, 0);
    g_assert_cmpuint(f->timeline->end_ns, ==, 2800);
}

static json_t *find(json_t *events, const char *name)
{
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event)
        if (g_str_equal(json_string_value(json_object_get(event, "name")), name))
            return event;
    g_error("there is no event '%s'", name);
}

static double number(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static void test_file(struct fixture *f, const void *threads)
{
    (void)threads;
    g_autofree char *folder = g_dir_make_tmp("pstar-timeline-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "timeline.json", NULL);
    GError *error = NULL;
    g_assert_true(timeline_write(f->timeline, &f->plan, &f->trace, f->costs, path, &error));
    g_assert_no_error(error);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *events = json_object_get(root, "traceEvents");
    g_assert_cmpfloat_with_epsilon(number(json_object_get(root, "otherData"), "h2d_rate"), 1e9, 1);
    json_t *fetch = find(events, "fetch chunk 1 (master weight)");
    g_assert_cmpfloat_with_epsilon(number(fetch, "ts"), 1.0, 1e-9);
    g_assert_cmpfloat_with_epsilon(number(fetch, "dur"), 0.8, 1e-9);
    g_assert_cmpint((int)number(fetch, "tid"), ==, MOVER_H2D);
    json_t *stall = find(events, "second waits for chunk 1 (master weight) on H2D");
    g_assert_cmpfloat_with_epsilon(number(stall, "dur"), 0.8, 1e-9);
    g_assert_cmpfloat_with_epsilon(number(find(events, "second"), "ts"), 1.8, 1e-9);
    json_decref(root);
    g_unlink(path);
    g_rmdir(folder);
}

static void test_table(struct fixture *f, const void *threads)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    (void)threads;
    timeline_print_stalls(f->timeline, &f->plan, &f->trace, 5, out);
    fclose(out);
    g_assert_nonnull(strstr(text, "chunk 1 (master weight)"));
    g_assert_nonnull(strstr(text, "H2D 0.001"));
    free(text);
}

#define ADD(name, function)                                                                  \
    g_test_add("/timeline/queues/" name, struct fixture, NULL, set_up, function, tear_down); \
    g_test_add("/timeline/threads/" name, struct fixture, "threads", set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("stall", test_stall);
    ADD("file", test_file);
    ADD("table", test_table);
    return g_test_run();
}
