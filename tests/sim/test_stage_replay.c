/* The stages of a pipeline on one clock: drawn schedules take what closed forms and a slow, obvious
 * clock say, their times add up, and traces that do not belong together are refused. */
#include "chunks/dry_run.h"
#include "models/pipeline.h"
#include "sim/stage_replay.h"
#include "tests/models/small_model.h"

#include <math.h>
#include <string.h>

enum { MOST_STAGES = 6, MOST_PASSES = 2 * (MOST_STAGES + 10), NS = 1000 };

#define CURVE "{\"source\": \"s\", \"points\": [[1e9, 1]]}"

struct drawn {
    struct model_config config;
    struct model_iteration *whole;
    struct model_iteration *stage[MOST_STAGES];
    uint32_t stages, micro_batches;
    enum pipeline_schedule schedule;
    uint64_t pass_ns[MOST_STAGES][2], update_ns[MOST_STAGES]; /* forward, backward */
    struct platform *platform;                                /* NULL if messages take no time */
};

/* Gives the first operator that computes in each pass the pass's time, and the others none. */
static void set_durations(struct drawn *d, uint32_t s)
{
    const struct trace *trace = d->stage[s]->trace;
    bool updated = false, done[MOST_PASSES] = {false};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        uint32_t pass = 2 * op->micro_batch + (op->phase == TRACE_BACKWARD);
        bool passes = op->exchange[TRACE_PASS].sent_bytes ||
                      op->exchange[TRACE_PASS].received_bytes;
        bool updates = op->phase == TRACE_UPDATE_PHASE;
        bool *taken = updates ? &updated : &done[pass];
        op->duration_ns = passes || *taken ? 0
                          : updates        ? d->update_ns[s]
                                           : d->pass_ns[s][op->phase == TRACE_BACKWARD];
        *taken |= !passes;
    }
}

static void draw(struct drawn *d, bool equal, bool takes_time)
{
    *d = (struct drawn){.config = small_model(false, 0)};
    d->stages = (uint32_t)g_test_rand_int_range(2, MOST_STAGES + 1);
    d->micro_batches = d->stages + (uint32_t)g_test_rand_int_range(0, 10);
    d->schedule = (enum pipeline_schedule)g_test_rand_int_range(0, PIPELINE_INTERLEAVED);
    d->config.layers = d->stages;
    struct model_job job = small_job(MODEL_FP32, d->micro_batches);
    job.delay = d->schedule == PIPELINE_2BW;
    const struct pipeline_shape shape = {d->stages, d->schedule, NULL, 1};
    d->whole = new_iteration(&d->config, &job);
    for (uint32_t s = 0; s < d->stages; s++) {
        for (int backward = 0; backward < 2; backward++)
            d->pass_ns[s][backward] = equal && s > 0
                                          ? d->pass_ns[0][backward]
                                          : NS * (uint64_t)g_test_rand_int_range(1, 1000);
        d->update_ns[s] = equal ? 0 : NS * (uint64_t)g_test_rand_int_range(1, 1000);
        d->stage[s] = pipeline_stage(d->whole, &shape, s);
        set_durations(d, s);
    }
    if (!takes_time)
        return;
    g_autofree char *text = g_strdup_printf(
        "{\"name\": \"m\", \"source\": \"s\", \"device_bytes\": 1000000000, "
        "\"host_bytes\": 1000000000, \"h2d\": " CURVE ", \"d2h\": " CURVE
        ", \"compute_fp32\": " CURVE ", \"compute_bf16\": " CURVE ", \"memory\": " CURVE
        ", \"host_update\": " CURVE ", \"network\": {\"source\": \"s\", "
        "\"bytes_per_second\": 1e6, \"latency_seconds\": %d.0e-6}}",
        g_test_rand_int_range(1, 300));
    GError *error = NULL;
    d->platform = platform_parse(text, "drawn", &error);
    g_assert_no_error(error);
    g_assert_true(platform_spread_stages(d->platform, d->stages, 1, 0, NULL));
}

static void clear(struct drawn *d)
{
    for (uint32_t s = 0; s < d->stages; s++)
        model_iteration_free(d->stage[s]);
    model_iteration_free(d->whole);
    platform_free(d->platform);
}

/* Replays the stages with everything resident. */
static void replay_drawn(const struct drawn *d, struct stage_result *results)
{
    const struct trace *traces[MOST_STAGES];
    struct stage_view views[MOST_STAGES];
    struct timeline *timelines[MOST_STAGES];
    struct layout *layouts[MOST_STAGES];
    struct accesses *accesses[MOST_STAGES];
    struct plan *plans[MOST_STAGES];
    GError *error = NULL;
    struct costs *costs = costs_new(d->platform, NULL, NULL);
    for (uint32_t s = 0; s < d->stages; s++) {
        const struct dry_run_options options = {
            .device_budget = 1 << 30, .host_budget = UINT64_MAX, .policy = &policy_opt};
        traces[s] = d->stage[s]->trace;
        layouts[s] = layout_pack_uniform(traces[s], 1 << 16, NULL);
        struct non_model *places = non_model_place(traces[s]);
        accesses[s] = accesses_new(traces[s], layouts[s], places->extent);
        plans[s] = dry_run_accesses(traces[s], layouts[s], NULL, accesses[s], &options, &error);
        g_assert_no_error(error);
        timelines[s] = timeline_new();
        views[s] = (struct stage_view){plans[s], {traces[s], accesses[s], costs}};
        non_model_free(places);
    }
    struct stage_messages *messages = stage_messages_new(traces, d->stages, &error);
    g_assert_no_error(error);
    stages_replay(views, messages, timelines, results);
    stage_messages_free(messages);
    for (uint32_t s = 0; s < d->stages; s++) {
        timeline_free(timelines[s]);
        plan_free(plans[s]);
        accesses_free(accesses[s]);
        layout_free(layouts[s]);
    }
    costs_free(costs);
}

static void assert_near(double a, double b)
{
    g_assert_cmpfloat(fabs(a - b), <, 1e-10);
}

/* Equal stages whose messages take no time: each waits for (S - 1) / (K + S - 1) of the step. A
 * pipeline that never drains waits for the backward passes of that alone. */
static void test_bubble(void)
{
    for (int i = 0; i < 60; i++) {
        struct drawn d;
        struct stage_result results[MOST_STAGES];
        draw(&d, true, false);
        replay_drawn(&d, results);
        double backward = (double)d.pass_ns[0][1] * 1e-9;
        double both = (double)d.pass_ns[0][0] * 1e-9 + backward;
        double bubble = (d.stages - 1) * (d.schedule == PIPELINE_2BW ? backward : both);
        for (uint32_t s = 0; s < d.stages; s++) {
            const struct stage_times *t = &results[s].times;
            assert_near(results[s].figures.iteration_seconds, d.micro_batches * both + bubble);
            assert_near(t->compute, d.micro_batches * both);
            assert_near(t->warm_up + t->drain, bubble);
            assert_near(t->imbalance + t->communication + t->copies, 0);
            assert_near(results[s].figures.stall_seconds, bubble);
        }
        clear(&d);
    }
}

/* Gives each part's pass of a micro-batch the time of its direction. Each part has one layer. */
static void set_part_durations(struct trace *trace, const uint64_t pass_ns[2])
{
    g_autoptr(GHashTable) begun = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        bool passes = op->layer >= 0 && op->phase != TRACE_UPDATE_PHASE;
        char *key = g_strdup_printf("%u %d %d", op->micro_batch, op->layer, op->phase);
        op->duration_ns = passes && g_hash_table_add(begun, key)
                              ? pass_ns[op->phase == TRACE_BACKWARD]
                              : 0;
        if (!passes)
            g_free(key);
    }
}

/* Stages of v parts each wait only for as long as S - 1 passes through a part: (S - 1) / (v K) of
 * what they compute. */
static void test_interleaved_bubble(void)
{
    for (int i = 0; i < 8; i++) {
        struct stage_result results[MOST_STAGES];
        struct drawn d = {.config = small_model(false, 0), .schedule = PIPELINE_INTERLEAVED};
        uint32_t parts = (uint32_t)g_test_rand_int_range(2, 4);
        d.stages = (uint32_t)g_test_rand_int_range(2, 5);
        d.micro_batches = d.stages * (uint32_t)g_test_rand_int_range(1, 3);
        d.config.layers = d.stages * parts;
        const uint64_t pass_ns[] = {NS * (uint64_t)g_test_rand_int_range(1, 1000),
                                    NS * (uint64_t)g_test_rand_int_range(1, 1000)};
        const struct model_job job = small_job(MODEL_FP32, d.micro_batches);
        const struct pipeline_shape shape = {d.stages, d.schedule, NULL, parts};
        d.whole = new_iteration(&d.config, &job);
        for (uint32_t s = 0; s < d.stages; s++) {
            d.stage[s] = pipeline_stage(d.whole, &shape, s);
            set_part_durations(d.stage[s]->trace, pass_ns);
        }
        replay_drawn(&d, results);
        double both = (double)(pass_ns[0] + pass_ns[1]) * 1e-9;
        for (uint32_t s = 0; s < d.stages; s++) {
            const struct stage_times *t = &results[s].times;
            assert_near(t->compute, d.micro_batches * parts * both);
            assert_near(t->warm_up + t->drain + t->imbalance, (d.stages - 1) * both);
            assert_near(t->communication + t->copies, 0);
        }
        clear(&d);
    }
}

/* Gives the first operator of a layer in each pass the pass's time. Each stage has one layer. */
static void set_split_durations(struct model_iteration *stage, const uint64_t pass_ns[3])
{
    g_autoptr(GHashTable) begun = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (uint32_t m = 0; m < stage->trace->operator_count; m++) {
        struct trace_operator *op = &stage->trace->operators[m];
        int pass = stage->operators[m].kind == MODEL_WEIGHT_BACKWARD ? 2
                   : op->phase == TRACE_BACKWARD                     ? 1
                                                                     : 0;
        bool passes = op->layer >= 0 && op->phase != TRACE_UPDATE_PHASE;
        char *key = g_strdup_printf("%u %d", op->micro_batch, pass);
        op->duration_ns = passes && g_hash_table_add(begun, key) ? pass_ns[pass] : 0;
        if (!passes)
            g_free(key);
    }
}

/* Of equal stages whose gradients of weights take the least, each waits for (S - 1)(F + B - W),
 * where 1f1b waits for (S - 1)(F + B + W): table 2 of Qi et al. */
static void test_zero_bubble(void)
{
    for (int i = 0; i < 40; i++) {
        struct stage_result results[MOST_STAGES];
        struct drawn d = {.config = small_model(false, 0), .schedule = PIPELINE_ZERO_BUBBLE};
        d.stages = (uint32_t)g_test_rand_int_range(2, MOST_STAGES + 1);
        d.micro_batches = d.stages + (uint32_t)g_test_rand_int_range(0, 10);
        d.config.layers = d.stages;
        uint64_t pass_ns[3] = {0, 0, NS * (uint64_t)g_test_rand_int_range(1, 1000)};
        for (int pass = 0; pass < 2; pass++)
            pass_ns[pass] = pass_ns[2] + NS * (uint64_t)g_test_rand_int_range(0, 1000);
        struct model_job job = small_job(MODEL_FP32, d.micro_batches);
        job.split = true;
        const struct pipeline_shape shape = {d.stages, d.schedule, NULL, 1};
        d.whole = new_iteration(&d.config, &job);
        for (uint32_t s = 0; s < d.stages; s++) {
            d.stage[s] = pipeline_stage(d.whole, &shape, s);
            set_split_durations(d.stage[s], pass_ns);
        }
        replay_drawn(&d, results);
        double each = (double)(pass_ns[0] + pass_ns[1] + pass_ns[2]) * 1e-9;
        double bubble = (double)((d.stages - 1) * (pass_ns[0] + pass_ns[1] - pass_ns[2])) * 1e-9;
        for (uint32_t s = 0; s < d.stages; s++) {
            const struct stage_times *t = &results[s].times;
            g_assert_cmpuint(results[s].in_flight, ==, d.stages);
            assert_near(results[s].figures.iteration_seconds, d.micro_batches * each + bubble);
            assert_near(t->compute, d.micro_batches * each);
            assert_near(t->warm_up + t->drain + t->imbalance, bubble);
            assert_near(t->communication + t->copies, 0);
        }
        clear(&d);
    }
}

/* ---- a slow, obvious clock ---- */

/* When each pass has ended, and when what it sends has arrived; 0 while that is not known. */
struct ends {
    uint64_t end[MOST_STAGES][MOST_PASSES], arrival[MOST_STAGES][MOST_PASSES];
};

static uint64_t message_ns(const struct drawn *d, uint64_t bytes, uint64_t *way_ns)
{
    *way_ns = 0;
    if (!d->platform)
        return 0;
    *way_ns = (uint64_t)llround((double)bytes * 1e9 / d->platform->network.bytes_per_second);
    return (uint64_t)llround((double)bytes * 1e9 / d->platform->network.bytes_per_second +
                             1e9 * d->platform->network.latency_seconds);
}

/* What a step leaves to the next: when the ways of both directions are free, and when the last
 * activation that a stage has sent is there. */
struct left {
    uint64_t free_ns[MOST_STAGES][2], activation_ns[MOST_STAGES];
};

/* Returns when a pass of a stage may begin, or 0 if that is not known yet. The first activation
 * that a stage receives of a pipeline that never drains was sent in the step before. */
static uint64_t ready(const struct drawn *d, const struct ends *known, const struct left *before,
                      uint32_t s, const struct pipeline_pass *pass)
{
    uint32_t index = 2 * pass->micro_batch + pass->backward;
    uint32_t ahead = pipeline_ahead(d->schedule, d->stages, s);
    if (pass->backward)
        return s + 1 == d->stages ? 1 : known->arrival[s + 1][index];
    if (s == 0)
        return 1;
    bool was_sent = d->schedule == PIPELINE_2BW && pass->micro_batch == ahead;
    return was_sent ? before->activation_ns[s - 1] : known->arrival[s - 1][index];
}

/* Runs the passes of a stage as far as they are known to be ready. */
static void run_stage(const struct drawn *d, struct ends *known, const struct left *before,
                      struct left *after, uint32_t s, uint64_t now)
{
    g_autofree struct pipeline_pass *passes = pipeline_passes(d->schedule, d->stages, s,
                                                              d->micro_batches);
    uint64_t bytes = (uint64_t)2 * 4 * d->config.width * sizeof(float), way;
    uint64_t all = message_ns(d, bytes, &way), *free_ns = after->free_ns[s];
    memcpy(free_ns, before->free_ns[s], sizeof before->free_ns[s]);
    for (uint32_t p = 0; p < 2 * d->micro_batches; p++) {
        bool backward = passes[p].backward;
        uint32_t index = 2 * passes[p].micro_batch + backward;
        uint64_t arrival = ready(d, known, before, s, &passes[p]);
        if (!arrival)
            return;
        now = MAX(now, arrival) + d->pass_ns[s][backward];
        known->end[s][index] = now;
        uint64_t start = MAX(now, free_ns[backward]);
        if (backward ? s == 0 : s + 1 == d->stages)
            continue;
        free_ns[backward] = start + way;
        known->arrival[s][index] = start + all;
        if (!backward)
            after->activation_ns[s] = start + all;
    }
}

/* Returns when every stage has come to the updates, of stages that begin a step at `begins`. */
static uint64_t slow_step(const struct drawn *d, const uint64_t *begins, struct left *left)
{
    g_autofree struct ends *known = g_new0(struct ends, 1);
    const struct left before = *left;
    uint64_t last = 0;
    for (uint32_t round = 0; round < 2 * MOST_PASSES * MOST_STAGES; round++)
        for (uint32_t s = 0; s < d->stages; s++)
            run_stage(d, known, &before, left, s, begins[s]);
    for (uint32_t s = 0; s < d->stages; s++)
        for (uint32_t p = 0; p < 2 * d->micro_batches; p++) {
            g_assert_cmpuint(known->end[s][p], >, 0);
            last = MAX(last, known->end[s][p]);
        }
    return last;
}

/* Returns how long a step takes when many have run. */
static double slow_seconds(const struct drawn *d)
{
    enum { STEPS = 12 };
    uint64_t begins[MOST_STAGES] = {0}, tensors = 0, way, met = 0, step = 0;
    struct left left = {0};
    for (uint32_t s = 0; s < d->stages; s++) {
        tensors += d->stage[s]->trace->tensor_count;
        left.activation_ns[s] = 1;
    }
    uint64_t shown = message_ns(d, (d->stages - 1) * 8 * (d->micro_batches + 1 + tensors), &way);
    for (int i = 0; i < STEPS; i++) {
        uint64_t meets = slow_step(d, begins, &left) + shown;
        step = meets - met;
        met = meets;
        for (uint32_t s = 0; s < d->stages; s++)
            begins[s] = met + d->update_ns[s];
    }
    return (double)step * 1e-9;
}

/* Unequal stages, messages that take time, updates: the step is that of the slow clock. */
static void test_oracle(void)
{
    for (int i = 0; i < 90; i++) {
        struct drawn d;
        struct stage_result results[MOST_STAGES];
        draw(&d, false, g_test_rand_int_range(0, 2));
        replay_drawn(&d, results);
        double seconds = slow_seconds(&d);
        for (uint32_t s = 0; s < d.stages; s++) {
            const struct stage_times *t = &results[s].times;
            assert_near(results[s].figures.iteration_seconds, seconds);
            assert_near(t->compute, (double)(d.micro_batches * (d.pass_ns[s][0] + d.pass_ns[s][1]) +
                                             d.update_ns[s]) *
                                        1e-9);
            g_assert_cmpfloat(MIN(MIN(t->warm_up, t->drain), t->imbalance), >=, 0);
            g_assert_true(d.platform || t->communication == 0);
        }
        clear(&d);
    }
}

/* ---- traces that do not belong together ---- */

static void expect_refusal(const struct trace *const *traces, uint32_t stages, const char *why)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(stage_messages_new(traces, stages, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    if (!strstr(error->message, why))
        g_error("'%s' does not say '%s'", error->message, why);
}

/* Returns the last operator whose name begins so. */
static struct trace_operator *find(struct trace *trace, const char *prefix)
{
    for (uint32_t m = trace->operator_count; m-- > 0;)
        if (g_str_has_prefix(trace->operators[m].name, prefix))
            return &trace->operators[m];
    g_assert_not_reached();
}

static void test_refusals(void)
{
    struct drawn d;
    const struct trace *traces[MOST_STAGES];
    draw(&d, true, false);
    while (d.schedule == PIPELINE_2BW) {
        clear(&d);
        draw(&d, true, false);
    }
    for (uint32_t s = 0; s < d.stages; s++)
        traces[s] = d.stage[s]->trace;
    struct trace *last = d.stage[d.stages - 1]->trace;
    struct trace_operator *receive = find(last, "receive activation");
    expect_refusal(traces, d.stages - 1, "a trace of each stage is needed");
    traces[d.stages - 1] = traces[0];
    expect_refusal(traces, d.stages, "there is no trace of stage");
    traces[d.stages - 1] = last;
    uint64_t bytes = receive->exchange[TRACE_PASS].received_bytes++;
    expect_refusal(traces, d.stages, "bytes, but stage");
    receive->exchange[TRACE_PASS] = (struct trace_exchange){0, 0};
    expect_refusal(traces, d.stages, "sends what no stage receives");
    receive->exchange[TRACE_PASS].received_bytes = bytes;
    receive->micro_batch = 0;
    expect_refusal(traces, d.stages, "is of micro-batch 0, but stage");
    receive->micro_batch = d.micro_batches - 1;
    last->micro_batches++;
    expect_refusal(traces, d.stages, "are not of one run");
    last->micro_batches--;
    last->stages = 0;
    expect_refusal(traces, d.stages, "is of a whole model");
    last->stages = d.stages;
    find(d.stage[0]->trace, "send activation")->exchange[TRACE_PASS].sent_bytes = 0;
    expect_refusal(traces, d.stages, "waits for ever: nothing comes for 'receive ");
    g_free(receive->name);
    receive->name = g_strdup("receive something");
    expect_refusal(traces, d.stages, "not known to which stage");
    clear(&d);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stage_replay/bubble/interleaved", test_interleaved_bubble);
    g_test_add_func("/stage_replay/bubble", test_bubble);
    g_test_add_func("/stage_replay/bubble/zero", test_zero_bubble);
    g_test_add_func("/stage_replay/oracle", test_oracle);
    g_test_add_func("/stage_replay/refusals", test_refusals);
    return g_test_run();
}
