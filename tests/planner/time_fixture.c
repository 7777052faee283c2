#include "time_fixture.h"

#include "best_bounds.h"

#include <math.h>

/* The kinds of clocks: queues, threads that share cores, directions that slow each other, and a
 * host's memory that is shared. */
enum { QUEUES, THREADS, DIRECTIONS, MEMORY, CLOCKS };
static const char *const clocks[CLOCKS] = {"queues", "threads", "directions", "memory"};

enum { FINER = 400 };

/* Returns the trace with every update on the host, or on the device. */
static struct trace *place_all(const struct time_fixture *f, bool on_host)
{
    const struct placement placement = {PLACEMENT_SPREAD, on_host ? PLACEMENT_PARTS : 0, 0, NULL,
                                        f->first};
    return placement_trace(&placement, f->trace, f->layout, f->platform);
}

/* Nanoseconds a byte: from a link that everything waits for to one that hardly matters. */
static double random_times(const struct time_fixture *f, GRand *random)
{
    return 5 * pow(0.01, g_rand_double(random)) / f->finer;
}

static char *curve(const char *name, double ns)
{
    return g_strdup_printf(", \"%s\": {\"source\": \"chance\", \"points\": [[1, %ge-9]]}", name,
                           ns);
}

/* Makes a platform of this kind of clock, with rates that do not depend on the amount. */
static struct platform *random_platform(const struct time_fixture *f, GRand *random)
{
    g_autofree char *threads = g_strdup_printf(
        ", \"threads\": {\"source\": \"a test\", \"host_cores\": 1, \"put_seconds\": %g, "
        "\"wake_seconds\": %g, \"late_seconds\": %g, \"gap_seconds\": %g, "
        "\"slow_down\": [[0.1, 0.2, 0], [0, 0.1, 0.3], [0.5, 0.4, 0.1]]}",
        1e-8 / f->finer, 3e-8 / f->finer, 5e-8 / f->finer, 2e-8 / f->finer);
    double h2d = random_times(f, random), d2h = random_times(f, random);
    g_autoptr(GString) text = g_string_new("{\"name\": \"a test's\", \"source\": \"chance\", "
                                           "\"device_bytes\": 1000, \"host_bytes\": 1000");
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) curves = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(curves, curve("h2d", h2d));
    g_ptr_array_add(curves, curve("d2h", d2h));
    g_ptr_array_add(curves, curve("compute_fp32", 1e-3));
    g_ptr_array_add(curves, curve("compute_bf16", 1e-3));
    g_ptr_array_add(curves, curve("memory", 0.1));
    g_ptr_array_add(curves, curve("host_update", 1 + 9 * g_rand_double(random)));
    if (f->clock == DIRECTIONS || (f->clock == MEMORY && g_rand_boolean(random))) {
        g_ptr_array_add(curves, curve("h2d_both", h2d * (1 + g_rand_double(random))));
        g_ptr_array_add(curves, curve("d2h_both", d2h * (1 + g_rand_double(random))));
    }
    for (guint i = 0; i < curves->len; i++)
        g_string_append(text, g_ptr_array_index(curves, i));
    if (f->clock == MEMORY)
        g_string_append_printf(text,
                               ", \"host\": {\"source\": \"chance\", \"ranks\": 3, "
                               "\"bytes_per_second\": %g}",
                               3e9 / random_times(f, random));
    if (f->trace->ranks > 1)
        g_string_append_printf(text,
                               ", \"node\": {\"source\": \"chance\", \"gpus\": %u, "
                               "\"bytes_per_second\": %g, \"latency_seconds\": %g, "
                               "\"exchanges_share_link\": %s}",
                               f->trace->ranks, 1e9 / random_times(f, random), 1e-8 / f->finer,
                               g_rand_boolean(random) ? "true" : "false");
    g_string_append_printf(text, "%s}", f->clock == THREADS ? threads : "");
    struct platform *platform = platform_parse(text->str, "the test's platform", &error);
    g_assert_no_error(error);
    g_assert_true(platform_spread_ranks(platform, MAX(f->trace->ranks, 1), 1, NULL));
    return platform;
}

static char *random_link(const struct time_fixture *f, GRand *random)
{
    return g_strdup_printf("h2d=%.0fMB/s,d2h=%.0fMB/s", 1e3 / random_times(f, random),
                           1e3 / random_times(f, random));
}

/* Returns a limit with which some chunks must live on the device. */
static uint64_t random_host_budget(const struct time_fixture *f, GRand *random)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < f->layout->chunk_count; c++)
        bytes += f->layout->chunks[c].copy_bytes;
    return (uint64_t)((0.4 + 0.6 * g_rand_double(random)) * (double)bytes);
}

void time_set_up(struct time_fixture *f, struct trace *trace, GRand *random)
{
    f->clock = g_rand_int_range(random, 0, CLOCKS);
    f->finer = g_rand_boolean(random) ? FINER : 1;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns =
            (uint64_t)ceil((double)trace->operators[m].duration_ns / f->finer);
    g_autofree char *link = f->clock == DIRECTIONS ? NULL : random_link(f, random);

    f->trace = trace;
    bool known = g_rand_boolean(random) || f->clock != QUEUES || trace->ranks > 1;
    f->platform = known ? random_platform(f, random) : NULL;
    f->costs = costs_new(f->platform, link, NULL);
    g_assert_nonnull(f->costs);
    g_assert_cmpint(f->costs->threads.known, ==, f->clock == THREADS);
    g_assert_cmpint(costs_is_shared(f->costs), ==,
                    f->clock == DIRECTIONS || f->clock == MEMORY ||
                        costs_exchanges_share_link(f->costs));
    f->spec = (struct layout_spec){0};
    for (int list = 0; list < TRACE_LISTS; list++)
        f->spec.chunk_bytes[list] = LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 40);
    f->layout = layout_pack(f->trace, &f->spec, NULL);
    struct non_model *non_model = non_model_place(f->trace);
    struct accesses *accesses = accesses_new(f->trace, f->layout, non_model->extent);
    uint64_t least = accesses_least_arena_bytes(accesses, f->layout, NULL);
    uint64_t room = layout_slot_bytes(f->layout) + non_model->peak_bytes;
    f->device_budget = least +
                       (uint64_t)(g_rand_double(random) * (double)(MAX(room, least) - least));
    f->host_budget = g_rand_boolean(random) ? UINT64_MAX : random_host_budget(f, random);
    f->either_side = placement_is_possible(f->trace, f->platform) && g_rand_boolean(random);
    f->first = f->either_side && g_rand_boolean(random)
                   ? (tensor_id)g_rand_int_range(random, 0, (gint32)f->trace->tensor_count)
                   : 0;
    f->sides[0] = f->either_side ? place_all(f, false) : f->trace;
    f->sides[1] = f->either_side ? place_all(f, true) : NULL;
    f->windows_seed = g_rand_int(random);
    bounds_find(f, random);
    accesses_free(accesses);
    non_model_free(non_model);
}

void time_tear_down(struct time_fixture *f)
{
    if (f->either_side) {
        trace_free(f->sides[0]);
        trace_free(f->sides[1]);
    }
    layout_free(f->layout);
    costs_free(f->costs);
    platform_free(f->platform);
    trace_free(f->trace);
}

const char *time_clock(const struct time_fixture *f)
{
    return clocks[f->clock];
}
