/* Strategies on several ranks move what a closed form says. In the model every tensor is cut into
 * equal shards, so all ranks move the same. With M parameters, p ranks and gradients in bf16, what
 * is called a share below is (p - 1)/p of 2 M bytes: one gather of all parameters, or one reduction
 * of all gradients. */
#include "models/synth.h"
#include "sim/replay.h"
#include "strategies/strategy.h"
#include "tests/chunks/check_figures.h"
#include "traces/shard.h"

/* A chunk holds the weight and the bias of the largest module, because backward reads no bias. */
enum { WIDTH = 512, RANKS = 4, CHUNK_BYTES = 2560 << 10 };

static const uint64_t roomy = UINT64_C(1) << 40;

static const struct model_config config = {.name = (char *)"small",
                                           .layers = 4,
                                           .width = WIDTH,
                                           .heads = 4,
                                           .inner = 4 * WIDTH,
                                           .positions = 64,
                                           .vocabulary = 128,
                                           .initializer_range = 0.02,
                                           .norm_epsilon = 1e-5};

/* Several ranks that share parameters, whose gradients lie over these, with one micro-batch each.
 */
static struct trace *synthesise(bool recompute)
{
    uint8_t layers[] = {recompute, recompute, recompute, recompute};
    const struct model_job job = {
        .choices = {.batch = 1, .micro_batches = RANKS, .recompute = layers},
        .sequence = 64,
        .precision = MODEL_BF16,
        .ranks = RANKS,
        .shared_parameters = true,
        .narrow_gradients = true};
    struct trace *trace = model_synthesise(&config, &job, NULL, NULL);
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        for (uint32_t r = 0; r < RANKS; r++)
            g_assert_cmpuint(shard_of(trace->tensors[t].elements, RANKS, r).count * RANKS, ==,
                             trace->tensors[t].elements);
    return trace;
}

/* Returns the bytes of a gather of all parameters, or of a reduction of all gradients. */
static uint64_t share(const struct trace *trace)
{
    uint64_t elements = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        elements += trace->tensors[t].elements;
    return 2 * elements * (RANKS - 1) / RANKS;
}

/* Returns what ranks exchange beside: the squares of each gradient's blocks; and their losses, each
 * with a wish to stop. */
static uint64_t beside(const struct trace *trace)
{
    uint64_t numbers = 2 * (RANKS - 1);
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

static void open_fixture(struct fixture *f, const char *name, bool recompute, uint64_t budget)
{
    GPtrArray *list = strategy_parse_list(name, NULL);
    GError *error = NULL;
    uint64_t needed;
    f->trace = synthesise(recompute);
    f->layout = layout_pack_uniform(f->trace, CHUNK_BYTES, NULL);
    f->non_model = non_model_place(f->trace);
    const struct strategy_job job = {.trace = f->trace,
                                     .layout = f->layout,
                                     .non_model = f->non_model->extent,
                                     .device_budget = budget,
                                     .host_budget = UINT64_MAX};
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
    open_fixture(&f, name, recompute, roomy);
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
    open_fixture(&f, "patrickstar", true, roomy);
    g_assert_cmpuint(count_chunks(f.layout, TRACE_GATHERED), >,
                     count_chunks(f.layout, TRACE_PARAM));
    check_groups(&f);
    close_fixture(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/ranks/groups", test_groups);
    g_test_add_func("/strategies/ranks/whole-groups", test_whole_groups);
    return g_test_run();
}
