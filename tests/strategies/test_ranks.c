/* Strategies on several ranks move what a closed form says. In the model every tensor is cut into
 * equal shards, so all ranks move the same. With M parameters, p ranks and gradients in bf16, what
 * is called a share below is (p - 1)/p of 2 M bytes: one gather of all parameters, or one reduction
 * of all gradients. */
#include "models/derive.h"
#include "models/synth.h"
#include "sim/replay.h"
#include "strategies/strategy.h"
#include "tests/chunks/check_figures.h"
#include "traces/shard.h"

#include <string.h>

/* A chunk holds the weight and the bias of the largest module, because backward reads no bias. */
enum { WIDTH = 512, LAYERS = 10, RANKS = 4, CHUNK_BYTES = 2560 << 10 };

static const struct model_config config = {.name = (char *)"small",
                                           .layers = LAYERS,
                                           .width = WIDTH,
                                           .heads = 4,
                                           .inner = 4 * WIDTH,
                                           .positions = 64,
                                           .vocabulary = 128,
                                           .initializer_range = 0.02,
                                           .norm_epsilon = 1e-5};

/* Returns the trace of one of `ranks` ranks that share parameters. With one micro-batch each,
 * gradients lie over these. */
static struct trace *synthesise(uint32_t ranks, uint32_t micro_batches, bool recompute)
{
    uint8_t layers[LAYERS];
    memset(layers, recompute, sizeof layers);
    const struct model_job job = {.choices = {.batch = 1,
                                              .micro_batches = micro_batches * ranks,
                                              .recompute = layers,
                                              .stage = ranks > 1 ? 3 : 0,
                                              .fast = ranks > 1},
                                  .sequence = 64,
                                  .precision = MODEL_BF16,
                                  .ranks = ranks};
    struct trace *trace = model_synthesise(&config, &job, NULL, NULL);
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        for (uint32_t r = 0; r < RANKS; r++)
            g_assert_cmpuint(shard_of(trace->tensors[t].elements, RANKS, r).count * RANKS, ==,
                             trace->tensors[t].elements);
    return trace;
}

static uint64_t parameters(const struct trace *trace)
{
    uint64_t elements = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        elements += trace->tensors[t].elements;
    return elements;
}

/* Returns the bytes of a gather of all parameters, or of a reduction of all gradients. */
static uint64_t share(const struct trace *trace)
{
    return 2 * parameters(trace) * (RANKS - 1) / RANKS;
}

/* Returns what ranks exchange beside: the squares of each gradient's blocks, unless every rank has
 * all gradients' sums; and their losses, each with a wish to stop. */
static uint64_t beside(const struct trace *trace)
{
    uint64_t numbers = 2 * (RANKS - 1);
    if (trace->whole_states)
        return numbers * sizeof(double);
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        uint64_t elements = trace->tensors[t].elements;
        numbers += elements / shard_block(elements) * (RANKS - 1) / RANKS;
    }
    return numbers * sizeof(double);
}

/* The plan of a strategy, and the trace that it is for. */
struct fixture {
    struct trace *trace, *placed;
    struct layout *layout;
    struct non_model *non_model;
    struct plan *plan;
};

/* Takes the trace. */
static void open_fixture(struct fixture *f, const char *name, struct trace *trace)
{
    GPtrArray *list = strategy_parse_list(name, NULL);
    GError *error = NULL;
    uint64_t needed;
    f->trace = trace;
    f->layout = layout_pack_uniform(f->trace, CHUNK_BYTES, NULL);
    f->non_model = non_model_place(f->trace);
    const struct strategy_job job = {.trace = f->trace,
                                     .layout = f->layout,
                                     .non_model = f->non_model->extent,
                                     .device_budget = UINT64_C(1) << 40,
                                     .host_budget = UINT64_MAX};
    trace_check(f->trace, "stage", &error);
    g_assert_no_error(error);
    f->plan = strategy_plan(g_ptr_array_index(list, 0), &job, &f->placed, &needed, &error);
    g_assert_no_error(error);
    plan_check(f->plan, f->placed, &error);
    g_assert_no_error(error);
    g_ptr_array_unref(list);
}

static void close_fixture(struct fixture *f)
{
    plan_free(f->plan);
    trace_free(f->placed);
    non_model_free(f->non_model);
    layout_free(f->layout);
    trace_free(f->trace);
}

/* Returns the steady iteration's figures, which are as the plan predicts. */
static struct plan_figures figures_of(const struct fixture *f)
{
    struct accesses *accesses = accesses_new(f->placed, f->layout, f->non_model->extent);
    struct costs *costs = costs_new(NULL, NULL, NULL);
    struct plan_figures figures =
        replay(f->plan, &(struct replay_view){f->placed, accesses, costs}).steady;
    check_figures(&figures, &f->plan->predicted);
    costs_free(costs);
    accesses_free(accesses);
    return figures;
}

/* A strategy gathers all parameters so many times, and reduces all gradients once. */
static void check_shares(const char *name, bool recompute, uint64_t gathers)
{
    struct fixture f;
    open_fixture(&f, name, synthesise(RANKS, 1, recompute));
    struct plan_figures figures = figures_of(&f);
    uint64_t sent = (gathers + 1) * share(f.trace) + beside(f.trace);
    g_assert_cmpuint(figures.sent_bytes, ==, sent);
    g_assert_cmpuint(figures.received_bytes, ==, sent);
    close_fixture(&f);
}

/* PatrickStar's 6 (p - 1)/p M bytes: a group comes for forward and again for backward, however
 * much room there is. Recomputation belongs to backward. */
static void test_groups(void)
{
    check_shares("patrickstar", false, 2);
    check_shares("patrickstar", true, 2);
    check_shares("gemini-auto", true, 1);
}

/* Finds the chunk of parameters whose group a gathered chunk belongs to. */
static chunk_id group_of(const struct layout *layout, chunk_id gathered)
{
    for (tensor_id t = 0; t < layout->tensor_count; t++)
        if (layout->places[TRACE_GATHERED][t].chunk == gathered)
            return layout->places[TRACE_PARAM][t].chunk;
    g_assert_not_reached();
}

/* A group comes as a whole: no operator finds only a part of it on the device. It leaves as a
 * whole, and at the end of each phase nothing gathered is there. */
static void check_groups(const struct fixture *f)
{
    const struct layout *layout = f->layout;
    g_autofree uint8_t *there = g_new0(uint8_t, layout->chunk_count);
    for (moment_id m = 0; m < f->plan->moment_count; m++) {
        for (uint32_t i = f->plan->first_action[m]; i < f->plan->first_action[m + 1]; i++) {
            const struct plan_action *action = &f->plan->actions[i];
            if (action->kind == PLAN_FETCH || action->kind == PLAN_DROP)
                there[action->chunk] = action->kind == PLAN_FETCH;
        }
        const struct trace_operator *op = &f->placed->operators[m];
        for (chunk_id c = 0; c < layout->chunk_count; c++)
            for (chunk_id d = 0; d < c; d++)
                if (layout->chunks[c].list == TRACE_GATHERED &&
                    layout->chunks[d].list == TRACE_GATHERED &&
                    group_of(layout, c) == group_of(layout, d))
                    g_assert_cmpint(there[c], ==, there[d]);
        for (chunk_id c = 0; op->phase == TRACE_UPDATE_PHASE && c < layout->chunk_count; c++)
            g_assert_false(layout->chunks[c].list == TRACE_GATHERED && there[c]);
    }
}

static uint32_t count_chunks(const struct layout *layout, enum trace_list list)
{
    uint32_t count = 0;
    for (chunk_id c = 0; c < layout->chunk_count; c++)
        count += layout->chunks[c].list == list;
    return count;
}

static void test_whole_groups(void)
{
    struct fixture f;
    open_fixture(&f, "patrickstar", synthesise(RANKS, 1, true));
    g_assert_cmpuint(count_chunks(f.layout, TRACE_GATHERED), >,
                     count_chunks(f.layout, TRACE_PARAM));
    check_groups(&f);
    close_fixture(&f);
}

/* Returns the trace of a rank in a stage of ZeRO, derived from that of one rank. */
static struct trace *derive(uint32_t stage, uint32_t micro_batches)
{
    struct trace *alone = synthesise(1, micro_batches, true);
    GError *error = NULL;
    struct recognised *recognised = recognise(alone, &error);
    g_assert_no_error(error);
    const struct run_stage together = {(uint8_t)stage, true};
    struct trace *trace = model_derive_ranks(recognised, alone, RANKS, together, NULL, &error);
    g_assert_no_error(error);
    recognised_free(recognised);
    trace_free(alone);
    return trace;
}

/* Shares that a rank sends in a step, and bytes a parameter that it holds, times the ranks. */
static const struct {
    const char *name;
    uint32_t stage;
    uint64_t shares, bytes;
} expected[] = {{"ddp", 0, 2, 14 * RANKS},
                {"zero1", 1, 2, 2 * RANKS + 12},
                {"zero2", 2, 2, 2 * RANKS + 12},
                {"zero3", 3, 3, 14},
                {"fsdp-no-reshard", 3, 2, 14}};

/* Returns what is sent less because the chunk of the classifier stays from its forward to its
 * backward, where nothing is kept longer. */
static uint64_t kept(const struct fixture *f)
{
    const struct layout_place *places = f->layout->places[TRACE_GATHERED];
    const struct trace *trace = f->placed;
    uint64_t elements = 0;
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        if (places[t].chunk == places[trace->tensor_count - 1].chunk)
            elements += trace->tensors[t].elements;
    return 2 * elements * (RANKS - 1) / RANKS;
}

static void test_stages(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        struct fixture f;
        open_fixture(&f, expected[i].name, derive(expected[i].stage, 1));
        struct plan_figures figures = figures_of(&f);
        uint64_t sent = expected[i].shares * share(f.trace) + beside(f.trace) -
                        (expected[i].shares == 3 ? kept(&f) : 0);
        g_test_message("%s", expected[i].name);
        g_assert_cmpuint(figures.sent_bytes, ==, sent);
        g_assert_cmpuint(figures.received_bytes, ==, sent);
        g_assert_cmpuint(trace_model_bytes(f.placed) * RANKS, ==,
                         expected[i].bytes * parameters(f.placed));
        g_assert_cmpuint(f.placed->ranks, ==, RANKS);
        close_fixture(&f);
    }
}

/* Gradients of several micro-batches are in fp32. Where a rank has all of them, it sends them once;
 * where it has shards, with each micro-batch. */
static void test_accumulation(void)
{
    static const uint64_t reductions[] = {1, 1, 3};
    for (uint32_t stage = 0; stage < G_N_ELEMENTS(reductions); stage++) {
        struct fixture f;
        open_fixture(&f, expected[stage].name, derive(stage, 3));
        uint64_t gathers = stage == 0 ? 2 : 1, reduced = 2 * share(f.trace) * reductions[stage];
        uint64_t losses = 2 * (RANKS - 1) * sizeof(double); /* of the other micro-batches */
        uint64_t sent = reduced + gathers * share(f.trace) + beside(f.trace) + losses;
        g_assert_cmpuint(figures_of(&f).sent_bytes, ==, sent);
        close_fixture(&f);
    }
}

/* A bucket has at least 25 MiB, unless it is the last, and stands behind the operator that filled
 * it. No gradient is reduced twice. */
static void test_buckets(void)
{
    struct trace *trace = derive(0, 1);
    g_autofree uint8_t *reduced = g_new0(uint8_t, trace->tensor_count);
    uint32_t buckets = 0;
    uint64_t last = MODEL_DDP_BUCKET_BYTES;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (!trace_operator_reduces(op))
            continue;
        g_assert_cmpuint(last, >=, MODEL_DDP_BUCKET_BYTES);
        last = 0;
        for (uint32_t i = 0; i < op->access_count; i++) {
            tensor_id tensor = trace->accesses[op->first_access + i].tensor;
            last += 2 * trace->tensors[tensor].elements;
            g_assert_cmpuint(reduced[tensor]++, ==, 0);
        }
        g_assert_cmpuint(op->exchange[TRACE_REDUCE].sent_bytes, ==, last * (RANKS - 1) / RANKS);
        g_assert_cmpuint(op->exchange[TRACE_GATHER].sent_bytes, ==, last * (RANKS - 1) / RANKS);
        g_assert_cmpint(op[-1].phase, ==, TRACE_BACKWARD);
        buckets++;
    }
    g_assert_cmpuint(buckets, ==, 3);
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        g_assert_cmpuint(reduced[t], ==, 1);
    trace_free(trace);
}

/* Stages are other runs, whose plans nobody takes for one another. */
static void test_digests(void)
{
    char *digest[3];
    for (uint32_t stage = 0; stage < 3; stage++) {
        struct trace *trace = derive(stage, 3);
        digest[stage] = trace_digest(trace);
        trace_free(trace);
    }
    g_assert_cmpstr(digest[0], !=, digest[1]);
    g_assert_cmpstr(digest[1], !=, digest[2]);
    for (uint32_t stage = 0; stage < 3; stage++)
        g_free(digest[stage]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/ranks/groups", test_groups);
    g_test_add_func("/strategies/ranks/whole-groups", test_whole_groups);
    g_test_add_func("/strategies/ranks/stages", test_stages);
    g_test_add_func("/strategies/ranks/accumulation", test_accumulation);
    g_test_add_func("/strategies/ranks/buckets", test_buckets);
    g_test_add_func("/strategies/ranks/digests", test_digests);
    return g_test_run();
}
