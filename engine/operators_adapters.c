/* Low-rank adapters beside linear layers: thin products, with weights as files of adapters have
 * them, A [rank, inputs] and B [outputs, rank]. */
#include "engine/operator_call.h"

static void scale(const struct call *call, void *x)
{
    const struct model_config *config = call->config;
    call->kernels->scale(call->context, call->precision, (uint64_t)call->N * config->lora_rank,
                         (float)(config->lora_alpha / config->lora_rank), x);
}

void operator_adapter_forward(const struct call *call)
{
    uint32_t rank = call->config->lora_rank;
    call->kernels->product_forward(call->context, call->precision, call->N, call->op->inputs, rank,
                                   in(call, 0), parameter(call, 0), NULL, out(call, 0));
    scale(call, out(call, 0));
    if (out(call, 1))
        call->kernels->product_forward(call->context, call->precision, call->N, rank,
                                       call->op->outputs, out(call, 0), parameter(call, 1), NULL,
                                       out(call, 1));
}

/* The gradients of what was read come first, because those of A and B may overwrite A and B. */
void operator_adapter_backward(const struct call *call)
{
    const struct kernels *kernels = call->kernels;
    const struct operation_tensor *tensor = call->operation->tensor;
    uint32_t rank = call->config->lora_rank, inputs = call->op->inputs, outputs = call->op->outputs;
    enum kernel_gradient kind = gradient_kind(call, call->op->accumulate);
    void *dy = in(call, 0), *du = out(call, 1);
    kernels->product_backward_input(call->context, call->precision, call->N, rank, outputs, dy,
                                    parameter(call, 1), false, du);
    scale(call, du);
    if (out(call, 0))
        kernels->product_backward_input(call->context, call->precision, call->N, inputs, rank, du,
                                        parameter(call, 0), call->op->add, out(call, 0));
    kernels->product_backward_weight(call->context, call->precision, call->N, inputs, rank,
                                     in(call, 1), du, kind, workspace(call), gradient(call, 0),
                                     tensor[0].norm);
    kernels->product_backward_weight(call->context, call->precision, call->N, rank, outputs,
                                     in(call, 2), dy, kind, workspace(call), gradient(call, 1),
                                     tensor[1].norm);
}
