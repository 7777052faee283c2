/* Gathered chunks: what ranks exchange for them, and plans that must be refused. */
#include "chunks/gathering.h"

#include "chunks/dry_run.h"
#include "tests/chunks/random_iteration.h"

/* All ranks together copy every element over the link once, and send it to the p - 1 others. */
static void test_traffic(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 100; i++) {
        struct trace *trace = shared_iteration(random);
        uint32_t tensor = (uint32_t)g_rand_int_range(random, 0, (gint32)trace->tensor_count);
        uint64_t bytes = trace_list_bytes(trace, TRACE_GATHERED, tensor);
        struct gathering_traffic sum = {0};
        for (uint32_t r = 0; r < trace->ranks; r++)
            gathering_count(&sum, trace, tensor, r, false);
        g_assert_cmpuint(bytes, ==, trace->tensors[tensor].elements * 2);
        g_assert_cmpuint(sum.link_bytes, ==, bytes);
        g_assert_cmpuint(sum.exchange.sent_bytes, ==, bytes * (trace->ranks - 1));
        g_assert_cmpuint(sum.exchange.received_bytes, ==, sum.exchange.sent_bytes);
        sum = (struct gathering_traffic){0};
        gathering_count(&sum, trace, tensor, 0, true);
        g_assert_cmpuint(sum.link_bytes, ==, 0);
        trace_free(trace);
    }
    g_rand_free(random);
}

static void test_parts(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 100; i++) {
        struct trace *trace = shared_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 1024, NULL);
        struct gathering *gathering = gathering_new(layout);
        uint32_t seen = 0;
        for (uint32_t c = 0; c < layout->chunk_count; c++)
            for (uint32_t p = gathering->first[c]; p < gathering->first[c + 1]; p++, seen++) {
                const struct gathering_part *part = &gathering->parts[p];
                g_assert_cmpint(layout->chunks[c].list, ==, TRACE_GATHERED);
                g_assert_cmpint(layout->chunks[part->source].list, ==, TRACE_PARAM);
                g_assert_cmpuint(layout->places[TRACE_GATHERED][part->tensor].chunk, ==, c);
            }
        g_assert_cmpuint(seen, ==, trace->tensor_count);
        gathering_free(gathering);
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

/* Gathers that the plan leaves out, chunks that it keeps through their update, and copies of them
 * to the host are refused. */
static void refuse_each(struct plan *plan, const struct trace *trace)
{
    for (uint32_t i = 0; i < plan->action_count; i++) {
        struct plan_action *action = &plan->actions[i];
        const struct plan_action was = *action;
        if (plan->layout->chunks[was.chunk].list != TRACE_GATHERED || was.kind == PLAN_MOVE)
            continue;
        if (was.kind == PLAN_FETCH)
            action->kind = PLAN_ALLOCATE;
        else
            *action = (struct plan_action){.kind = PLAN_WAIT, .address = NO_ADDRESS};
        g_assert_false(plan_check(plan, trace, NULL));
        *action = was;
        action->kind = was.kind == PLAN_DROP ? PLAN_WRITE_BACK : PLAN_FLUSH;
        g_assert_false(plan_check(plan, trace, NULL));
        *action = was;
    }
}

static void test_refusals(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 50; i++) {
        struct trace *trace = shared_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
        const struct dry_run_options options = {.device_budget = UINT64_C(1) << 40,
                                                .host_budget = UINT64_MAX,
                                                .policy = &policy_opt,
                                                .look_ahead = (uint32_t)i % 4};
        struct plan *plan = dry_run(trace, layout, &options, NULL);
        g_assert_true(plan_check(plan, trace, NULL));
        g_assert_cmpuint(plan->predicted.gathers, >, 0);
        refuse_each(plan, trace);
        plan_free(plan);
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/gathering/traffic", test_traffic);
    g_test_add_func("/gathering/parts", test_parts);
    g_test_add_func("/gathering/refusals", test_refusals);
    return g_test_run();
}
