/* Mixtures of experts. The linear layers of an expert are those of other layers, on the rows that
 * the router has sent there. */
#include "engine/operator_call.h"

static struct expert_shape shape_of(const struct call *call)
{
    return (struct expert_shape){call->precision,
                                 call->N,
                                 call->H,
                                 call->config->experts,
                                 call->config->experts_per_token,
                                 call->config->shared_weight};
}

static struct expert_routes routes_in(const struct call *call, void *routes)
{
    return expert_routes_of(routes, call->N, call->config->experts_per_token);
}

void operator_route_forward(const struct call *call)
{
    const struct expert_shape shape = shape_of(call);
    const struct expert_routes routes = routes_in(call, out(call, 1));
    call->kernels->product_forward(call->context, call->precision, call->N, call->op->inputs,
                                   call->op->outputs, in(call, 0), parameter(call, 0), NULL,
                                   workspace(call));
    call->kernels->experts->route(call->context, &shape, workspace(call), out(call, 0), &routes);
    if (in(call, 1)) /* the first layer's router begins the sums */
        call->kernels->experts->sum_routes(call->context, &shape, out(call, 0), &routes,
                                           call->op->layer > 0, in(call, 1));
}

/* The loss of imbalance counts each micro-batch of a step as much. It is the experts' number times
 * the sum of the products of each expert's share of the rows of all layers and its mean
 * probability. */
static double balance_factor(const struct call *call)
{
    double rows = (double)call->N * call->config->layers;
    double parts = call->operation->training ? call->operation->job->choices.micro_batches : 1;
    return call->config->balance * call->config->experts / (rows * rows) / parts;
}

/* Losses are sums over targets, whose number divides them when all are there. */
void operator_balance_loss(const struct call *call)
{
    call->kernels->experts->balance_loss(call->context, call->config->experts, in(call, 0),
                                         balance_factor(call) * call->operation->divisor,
                                         call->operation->loss);
}

void operator_dispatch_forward(const struct call *call)
{
    const struct expert_shape shape = shape_of(call);
    const struct expert_routes routes = routes_in(call, in(call, 1));
    call->kernels->experts->dispatch(call->context, &shape, in(call, 0), &routes, out(call, 0));
}

void operator_combine_forward(const struct call *call)
{
    const struct expert_shape shape = shape_of(call);
    const struct expert_routes routes = routes_in(call, in(call, 1));
    call->kernels->experts->combine(call->context, &shape, in(call, 0), &routes, in(call, 2),
                                    out(call, 0));
}

void operator_combine_backward(const struct call *call)
{
    const struct expert_shape shape = shape_of(call);
    const struct expert_routes routes = routes_in(call, in(call, 2));
    call->kernels->experts->combine_backward(call->context, &shape, in(call, 0), in(call, 1),
                                             &routes, out(call, 0), out(call, 1));
}

void operator_dispatch_backward(const struct call *call)
{
    const struct expert_shape shape = shape_of(call);
    const struct expert_routes routes = routes_in(call, in(call, 1));
    call->kernels->experts->dispatch_backward(call->context, &shape, in(call, 0), &routes,
                                              out(call, 0));
}

/* The input's gradient comes first, because the weight's may overwrite the weight. */
void operator_route_backward(const struct call *call)
{
    const struct expert_shape shape = shape_of(call);
    const struct expert_routes routes = routes_in(call, in(call, 3));
    const struct expert_balance balance = {in(call, 4), balance_factor(call)};
    void *dlogits = out(call, 1);
    call->kernels->experts->route_backward(call->context, &shape, in(call, 0), in(call, 2), &routes,
                                           balance.rows ? &balance : NULL, dlogits);
    if (out(call, 0))
        call->kernels->product_backward_input(call->context, call->precision, call->N,
                                              call->op->inputs, call->op->outputs, dlogits,
                                              parameter(call, 0), call->op->add, out(call, 0));
    if (gradient(call, 0))
        call->kernels->product_backward_weight(
            call->context, call->precision, call->N, call->op->inputs, call->op->outputs,
            in(call, 1), dlogits, gradient_kind(call, call->op->accumulate), workspace(call),
            gradient(call, 0), call->operation->tensor[0].norm);
}

/* ---- an expert ---- */

static void move(uint64_t *address, uint64_t bytes)
{
    if (*address != NO_ADDRESS)
        *address += bytes;
}

/* Moves the operation's buffers to the expert's first row. */
static void move_buffers(const struct call *call, uint64_t first, struct operation *operation)
{
    uint64_t row = first * element_bytes(call), h = call->H, f = call->config->inner;
    switch ((enum model_kind)call->op->kind) {
    case MODEL_GATED_FORWARD:
        move(&operation->in[0], row * h);
        move(&operation->out[0], row * 2 * f);
        move(&operation->out[1], row * f);
        break;
    case MODEL_LINEAR_FORWARD:
        move(&operation->in[0], row * f);
        move(&operation->out[0], row * h);
        break;
    case MODEL_LINEAR_BACKWARD:
        move(&operation->in[0], row * h);
        move(&operation->in[1], row * f);
        move(&operation->out[0], row * f);
        break;
    case MODEL_GATED_BACKWARD:
        move(&operation->in[0], row * f);
        move(&operation->in[1], row * h);
        move(&operation->in[2], row * 2 * f);
        move(&operation->out[0], row * h);
        move(&operation->out[1], row * 2 * f);
        break;
    default:
        g_assert_not_reached();
    }
}

/* An expert without rows has a gradient of zeros, or what earlier micro-batches left. */
static void leave_gradient(const struct call *call)
{
    const struct operation_tensor *tensor = &call->operation->tensor[0];
    uint64_t element = stored_gradients(call) == MODEL_BF16 ? 2 : 4;
    if (!gradient(call, 0))
        return;
    if (!call->op->accumulate)
        call->kernels->experts->clear(call->context, tensor->elements * element, gradient(call, 0));
    if (tensor->norm)
        call->kernels->sum_squares(call->context, stored_gradients(call), tensor->elements,
                                   gradient(call, 0), tensor->norm);
}

bool operator_begin_expert(struct call *call, struct operation *operation)
{
    const struct expert_routes routes = routes_in(call, in(call, 5));
    uint32_t first = routes.first[call->op->expert], end = routes.first[call->op->expert + 1];
    *operation = *call->operation;
    move_buffers(call, first, operation);
    operation->in[5] = NO_ADDRESS;
    call->operation = operation;
    call->N = end - first;
    if (call->N)
        return true;
    if (call->op->kind > MODEL_LOSS)
        leave_gradient(call);
    return false;
}
