#include "collect/iterations.h"

#include <glib.h>

static void test_steps(void)
{
    static const char *const steps[] = {"ProfilerStep#3",  "step 3",       "Step_12", "iteration 0",
                                        "Iteration: 7",    "train_step#5", "iter-9",  "batch 100",
                                        "training step 1", "GLOBAL_STEP=4"};
    static const char *const others[] = {"",         "3",         "step",     "step ",
                                         "steps 3",  "forward 3", "layer 3",  "substep 3",
                                         "step 3 x", "#3",        "restep#3", "ProfilerStep"};
    for (gsize i = 0; i < G_N_ELEMENTS(steps); i++)
        g_assert_true(step_marks_is_step(steps[i]));
    for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
        g_assert_false(step_marks_is_step(others[i]));
}

static void test_optimizers(void)
{
    g_assert_true(step_marks_is_optimizer("Optimizer.step#AdamW.step"));
    g_assert_false(step_marks_is_optimizer("Optimizer.zero_grad#AdamW.zero_grad"));
    g_assert_false(step_marks_is_optimizer(""));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/step-marks/steps", test_steps);
    g_test_add_func("/step-marks/optimizers", test_optimizers);
    return g_test_run();
}
