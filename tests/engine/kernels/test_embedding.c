#include "fixture.h"

enum { POSITIONS = 90 };

struct embedding {
    enum model_precision precision;
    uint32_t B, T, N, H, V;
    const struct kernel_dropout *dropout;
    enum kernel_gradient gradient;
    uint32_t *tokens;
    uint64_t *order;
    struct tensor *wte, *wpe, *x, *dx, *dwte, *dwpe;
};

static void run_forward(struct cpu_context *cpu, void *argument)
{
    struct embedding *e = argument;
    cpu_embed_forward(cpu, e->precision, e->N, e->T, e->H, e->tokens, e->wte->data, e->wpe->data,
                      e->dropout, e->x->data);
}

static void run_backward(struct cpu_context *cpu, void *argument)
{
    struct embedding *e = argument;
    cpu_embed_tokens(cpu, e->precision, e->N, e->H, e->V, e->order, e->dx->data, e->dropout,
                     e->gradient, e->dwte->data);
    cpu_embed_positions(cpu, e->precision, e->B, e->T, e->H, POSITIONS, e->dx->data, e->dropout,
                        e->gradient, e->dwpe->data);
}

static void check_forward(struct embedding *e, const double *mask)
{
    double *x = zeros(e->x->elements);
    for (uint32_t n = 0; n < e->N; n++)
        for (uint32_t h = 0; h < e->H; h++)
            x[n * e->H + h] = mask[n * e->H + h] * (e->wte->value[e->tokens[n] * e->H + h] +
                                                    e->wpe->value[n % e->T * e->H + h]);
    run_everywhere(run_forward, e, &e->x, 1);
    assert_close(e->x, x, 1e-6, "x");
    g_free(x);
}

static void check_backward(struct embedding *e, const double *mask)
{
    bool adds = kernel_gradient_adds(e->gradient);
    double *dwte = adds ? g_memdup2(e->dwte->value, e->dwte->elements * sizeof(double))
                        : zeros(e->dwte->elements);
    double *dwpe = adds ? g_memdup2(e->dwpe->value, e->dwpe->elements * sizeof(double))
                        : zeros(e->dwpe->elements);
    for (uint32_t n = 0; n < e->N; n++)
        for (uint32_t h = 0; h < e->H; h++) {
            double dx = mask[n * e->H + h] * e->dx->value[n * e->H + h];
            dwte[e->tokens[n] * e->H + h] += dx;
            dwpe[n % e->T * e->H + h] += dx;
        }
    cpu_embed_order(NULL, e->N, e->tokens, e->order);
    for (uint32_t i = 1; i < e->N; i++)
        g_assert_cmpuint(e->order[i - 1], <, e->order[i]);
    for (uint32_t i = 0; i < e->N; i++)
        g_assert_cmpuint(e->order[i] >> 32, ==, e->tokens[(uint32_t)e->order[i]]);
    run_everywhere(run_backward, e, (struct tensor *[]){e->dwte, e->dwpe}, 2);
    assert_close(e->dwte, dwte, 1e-6, "dwte");
    assert_close(e->dwpe, dwpe, 1e-6, "dwpe");
    g_free(dwte);
    g_free(dwpe);
}

static void check(struct embedding e)
{
    uint64_t wte = (uint64_t)e.V * e.H, wpe = (uint64_t)POSITIONS * e.H;
    enum model_precision stored = gradient_precision(e.gradient);
    bool adds = kernel_gradient_adds(e.gradient);
    e.N = e.B * e.T;
    e.tokens = random_tokens(e.N, e.V);
    e.order = g_new(uint64_t, e.N);
    e.wte = tensor_random(e.precision, wte, 1);
    e.wpe = tensor_random(e.precision, wpe, 1);
    e.dx = tensor_random(e.precision, (uint64_t)e.N * e.H, 1);
    e.x = tensor_unset(e.precision, (uint64_t)e.N * e.H);
    e.dwte = adds ? tensor_random(stored, wte, 1) : tensor_unset(stored, wte);
    e.dwpe = adds ? tensor_random(stored, wpe, 1) : tensor_unset(stored, wpe);
    double *mask = dropout_mask(e.dropout, e.N, e.H);
    check_forward(&e, mask);
    check_backward(&e, mask);
    struct tensor *all[] = {e.wte, e.wpe, e.x, e.dx, e.dwte, e.dwpe};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(mask);
    g_free(e.tokens);
    g_free(e.order);
}

static void embeddings(enum model_precision precision)
{
    static const uint32_t sizes[][4] = {
        {1, 1, 17, 1}, {3, 17, 65, 7}, {2, 64, 128, 1000}, {1, 90, 33, 20}};
    struct kernel_dropout dropout = {{(uint64_t)g_test_rand_int(), 3, 1}, 0.25};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        for (enum kernel_gradient gradient = 0; gradient <= KERNEL_GRADIENT_ADD_BF16; gradient++)
            check((struct embedding){.precision = precision,
                                     .B = sizes[i][0],
                                     .T = sizes[i][1],
                                     .H = sizes[i][2],
                                     .V = sizes[i][3],
                                     .gradient = gradient,
                                     .dropout = gradient % 2 ? NULL : &dropout});
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_precision_test("/embedding", embeddings);
    return g_test_run();
}
