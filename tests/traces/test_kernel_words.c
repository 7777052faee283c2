/* Names of kernels, as CUDA's libraries and PyTorch have them. */
#include "traces/activity/steps.h"

#include <glib.h>

static void test_optimizer(void)
{
    static const char *const optimizers[] = {
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
        "fused_lamb",
        "LAMBStage1Functor<float>",
        "lamb_cuda_kernel_part1",
        "fused_lion_step",
        "lion_update"};
    static const char *const others[] = {
        "void at::native::elementwise_kernel<at::native::add(float)::{lambda(float)#1}>",
        "with_lambda_lambda", "dilation_2d", "gemm_nn", ""};
    for (size_t i = 0; i < G_N_ELEMENTS(optimizers); i++)
        g_assert_true(kernel_words_optimizer(optimizers[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        g_assert_false(kernel_words_optimizer(others[i]));
}

static void test_backward(void)
{
    g_assert_true(kernel_words_backward("flash_bwd_dq_dk_dv"));
    g_assert_true(kernel_words_backward("cudnn::LayerNormBackward"));
    g_assert_true(kernel_words_backward("sm90_xmma_wgrad_implicit_gemm"));
    g_assert_false(kernel_words_backward("flash_fwd_kernel"));
    g_assert_false(kernel_words_backward("gradient"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel_words/optimizer", test_optimizer);
    g_test_add_func("/kernel_words/backward", test_backward);
    return g_test_run();
}
