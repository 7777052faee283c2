/* The states of a tensor's use: an iteration passes through them, and every other way is refused.
 */
#include "engine/tensor_use.h"

#include <string.h>

static struct model_operator operator_on(enum model_kind kind, uint32_t tensor, bool finishes)
{
    return (struct model_operator){
        .kind = kind, .t = {tensor, NO_INDEX, NO_INDEX}, .finishes = {finishes}};
}

static void pass(struct tensor_use *use, enum model_kind kind, bool finishes,
                 enum tensor_use_state after)
{
    const struct model_operator op = operator_on(kind, 0, finishes);
    g_assert_true(tensor_use_begin(use, &op, NULL));
    g_assert_cmpint(tensor_use_state(use, 0), ==, TENSOR_COMPUTE);
    tensor_use_end(use, &op);
    g_assert_cmpint(tensor_use_state(use, 0), ==, after);
}

static void refuse(struct tensor_use *use, enum model_kind kind, const char *state)
{
    const struct model_operator op = operator_on(kind, 0, false);
    enum tensor_use_state before = tensor_use_state(use, 0);
    char *why = NULL;
    g_assert_false(tensor_use_begin(use, &op, &why));
    g_assert_nonnull(strstr(why, state));
    g_assert_cmpint(tensor_use_state(use, 0), ==, before);
    g_free(why);
}

static void test_iteration(void)
{
    struct tensor_use *use = tensor_use_new(1);
    g_assert_cmpint(tensor_use_state(use, 0), ==, TENSOR_FREE);
    tensor_use_fill(use, 0);
    for (int iteration = 0; iteration < 2; iteration++) {
        for (int micro_batch = 0; micro_batch < 2; micro_batch++) {
            bool last = micro_batch == 1;
            pass(use, MODEL_LINEAR_FORWARD, false, TENSOR_HOLD_AFTER_FWD);
            tensor_use_end_forward(use);
            g_assert_cmpint(tensor_use_state(use, 0), ==, TENSOR_HOLD);
            pass(use, MODEL_LINEAR_FORWARD, false, TENSOR_HOLD_AFTER_FWD); /* recomputation */
            pass(use, MODEL_LINEAR_BACKWARD, last, last ? TENSOR_HOLD_AFTER_BWD : TENSOR_HOLD);
        }
        pass(use, MODEL_UPDATE, false, TENSOR_HOLD);
    }
    tensor_use_free(use);
}

static void test_refusals(void)
{
    struct tensor_use *use = tensor_use_new(1);
    refuse(use, MODEL_LINEAR_FORWARD, "FREE");
    refuse(use, MODEL_UPDATE, "FREE");
    tensor_use_fill(use, 0);
    refuse(use, MODEL_UPDATE, "HOLD");
    pass(use, MODEL_LINEAR_FORWARD, false, TENSOR_HOLD_AFTER_FWD);
    refuse(use, MODEL_UPDATE, "HOLD_AFTER_FWD");
    pass(use, MODEL_LINEAR_BACKWARD, true, TENSOR_HOLD_AFTER_BWD);
    refuse(use, MODEL_LINEAR_FORWARD, "HOLD_AFTER_BWD");
    refuse(use, MODEL_LINEAR_BACKWARD, "HOLD_AFTER_BWD");
    const struct model_operator update = operator_on(MODEL_UPDATE, 0, false);
    g_assert_true(tensor_use_begin(use, &update, NULL));
    refuse(use, MODEL_UPDATE, "COMPUTE");
    refuse(use, MODEL_LINEAR_FORWARD, "COMPUTE");
    tensor_use_free(use);
}

/* Of two tensors neither is taken where one may not be. */
static void test_both_or_none(void)
{
    struct tensor_use *use = tensor_use_new(2);
    const struct model_operator op = {.kind = MODEL_LINEAR_FORWARD, .t = {0, 1, NO_INDEX}};
    tensor_use_fill(use, 0);
    g_assert_false(tensor_use_begin(use, &op, NULL));
    g_assert_cmpint(tensor_use_state(use, 0), ==, TENSOR_HOLD);
    tensor_use_free(use);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tensor-use/iteration", test_iteration);
    g_test_add_func("/tensor-use/refusals", test_refusals);
    g_test_add_func("/tensor-use/both-or-none", test_both_or_none);
    return g_test_run();
}
