/* Describes a mixture of experts in place of a layer's MLP: a router chooses for each row some of
 * the layer's experts, and what these make is added up, weighted. Buffers of rows behind the router
 * have each row once for each of its experts. That is a number that does not depend on how rows
 * spread over experts, so they have the same sizes for any load. */
#include "models/decoder.h"

#include "models/expert_rows.h"

/* ---- names, tensors and buffers ---- */

static const struct model_config *config_of(const struct decoder_experts *x)
{
    return x->builder->config;
}

/* The rows of all experts together. */
static uint64_t all_rows(const struct decoder_experts *x)
{
    return x->builder->rows * config_of(x)->experts_per_token;
}

static char *module_name(const struct decoder_experts *x, enum model_module module, uint32_t expert)
{
    g_autofree char *name = model_module_name(config_of(x), module, expert);
    return decoder_part(x->builder, x->layer, name);
}

static char *experts_name(const struct decoder_experts *x)
{
    return decoder_part(x->builder, x->layer, model_family_of(config_of(x))->experts);
}

static char *dispatch_name(const struct decoder_experts *x)
{
    g_autofree char *part = g_strconcat(model_family_of(config_of(x))->mlp, ".dispatch", NULL);
    return decoder_part(x->builder, x->layer, part);
}

static uint32_t buffer(const struct decoder_experts *x, const char *name, uint64_t bytes)
{
    g_autofree char *part = g_strconcat(model_family_of(config_of(x))->mlp, name, NULL);
    g_autofree char *full = decoder_part(x->builder, x->layer, part);
    return iteration_builder_buffer(x->builder, full, bytes);
}

/* [N*S, columns] of the precision's element, which chunks may hold. */
static uint32_t saved_rows(const struct decoder_experts *x, const char *name, uint64_t columns)
{
    uint32_t made = buffer(x, name, all_rows(x) * columns * x->builder->element);
    if (x->held)
        iteration_builder_hold(x->builder, made);
    return made;
}

static struct model_operator operator_of(const struct decoder_experts *x, enum model_kind kind)
{
    return model_operator_of(kind, (int32_t)x->layer, x->micro_batch);
}

static const uint64_t *rows_of_layer(const struct decoder_experts *x)
{
    return x->builder->routed + (size_t)x->layer * config_of(x)->experts;
}

/* Sets the operator's tensor to that of a module of an expert, with its rows. */
static void set_expert(const struct decoder_experts *x, enum model_module module, uint32_t expert,
                       const struct decoder_layer *layer, struct model_operator *op)
{
    decoder_set_module(x->builder, module, op);
    op->t[0] += expert * EXPERT_TENSORS;
    op->expert = expert;
    op->routed = rows_of_layer(x)[expert];
    op->in[5] = layer->routes;
}

/* ---- forward ---- */

static void append_forward(const struct decoder_experts *x, const char *name,
                           const struct model_operator *op)
{
    iteration_builder_operator(x->builder, g_strdup_printf("%s %s", x->verb, name), x->phase, op);
}

static void route(const struct decoder_experts *x, struct decoder_layer *layer)
{
    const struct iteration_builder *b = x->builder;
    const struct model_config *config = config_of(x);
    uint64_t logits = b->rows * config->experts;
    struct model_operator op = operator_of(x, MODEL_ROUTE_FORWARD);
    g_autofree char *name = module_name(x, MODULE_ROUTER, 0);
    decoder_set_module(b, MODULE_ROUTER, &op);
    op.in[0] = layer->norm2;
    if (x->phase == TRACE_FORWARD)
        op.in[1] = b->balance;
    op.out[0] = layer->probabilities = buffer(x, ".probabilities", logits * sizeof(float));
    op.out[1] = layer->routes = buffer(
        x, ".routes", model_routes_bytes(b->rows, config->experts_per_token, config->experts));
    op.workspace = buffer(x, ".logits", logits * b->element);
    append_forward(x, name, &op);
}

static void dispatch(const struct decoder_experts *x, struct decoder_layer *layer)
{
    struct model_operator op = operator_of(x, MODEL_DISPATCH_FORWARD);
    g_autofree char *name = dispatch_name(x);
    op.in[0] = layer->norm2;
    op.in[1] = layer->routes;
    op.out[0] = layer->dispatched = saved_rows(x, ".dispatched", config_of(x)->width);
    append_forward(x, name, &op);
}

static void expert_forward(const struct decoder_experts *x, uint32_t expert,
                           const struct decoder_layer *layer)
{
    struct model_operator up = operator_of(x, MODEL_GATED_FORWARD);
    struct model_operator down = operator_of(x, MODEL_LINEAR_FORWARD);
    g_autofree char *of_up = module_name(x, MODULE_UP, expert);
    g_autofree char *of_down = module_name(x, MODULE_DOWN, expert);
    set_expert(x, MODULE_UP, expert, layer, &up);
    up.in[0] = layer->dispatched;
    up.out[0] = layer->pre;
    up.out[1] = layer->inner;
    append_forward(x, of_up, &up);
    set_expert(x, MODULE_DOWN, expert, layer, &down);
    down.in[0] = layer->inner;
    down.out[0] = layer->down;
    append_forward(x, of_down, &down);
}

void decoder_experts_forward(const struct decoder_experts *x, struct decoder_layer *layer)
{
    const struct model_config *config = config_of(x);
    route(x, layer);
    dispatch(x, layer);
    layer->pre = saved_rows(x, ".gate_up", 2 * (uint64_t)config->inner);
    layer->inner = saved_rows(x, ".inner", config->inner);
    layer->down = saved_rows(x, ".down", config->width);
    for (uint32_t expert = 0; expert < config->experts; expert++)
        if (expert_is_used(config, rows_of_layer(x), expert))
            expert_forward(x, expert, layer);
}

void decoder_experts_combine(const struct decoder_experts *x, const struct decoder_layer *layer,
                             uint32_t output)
{
    struct model_operator op = operator_of(x, MODEL_COMBINE_FORWARD);
    g_autofree char *name = experts_name(x);
    op.in[0] = layer->down;
    op.in[1] = layer->routes;
    op.in[2] = layer->middle;
    op.out[0] = output;
    append_forward(x, name, &op);
}

/* ---- backward ---- */

/* What is wanted of a layer's experts. */
struct wanted {
    bool input;                     /* the gradient of what router and experts read */
    uint32_t dys, dweights, dinner; /* buffers of gradients; NO_INDEX if they are not wanted */
    uint32_t dxs, dgate;
};

static uint32_t tensor_of(const struct decoder_experts *x, enum model_module module,
                          uint32_t expert)
{
    struct model_operator place = operator_of(x, MODEL_LINEAR_BACKWARD);
    decoder_set_module(x->builder, module, &place);
    return place.t[0] + expert * EXPERT_TENSORS;
}

static bool trains(const struct decoder_experts *x, enum model_module module, uint32_t expert)
{
    return !iteration_builder_freezes(x->builder, tensor_of(x, module, expert));
}

/* Returns whether the module of any expert that has rows is trained. */
static bool trains_any(const struct decoder_experts *x, enum model_module module)
{
    bool any = false;
    for (uint32_t expert = 0; expert < config_of(x)->experts; expert++)
        any |= expert_is_used(config_of(x), rows_of_layer(x), expert) && trains(x, module, expert);
    return any;
}

static uint32_t gradient_rows(const struct decoder_experts *x, const char *name, uint64_t columns)
{
    return buffer(x, name, all_rows(x) * columns * x->builder->element);
}

static struct wanted wanted_of(const struct decoder_experts *x)
{
    const struct model_config *config = config_of(x);
    bool input = x->builder->lowest < tensor_of(x, MODULE_ROUTER, 0);
    bool before_down = input || trains_any(x, MODULE_UP);
    bool experts = before_down || trains_any(x, MODULE_DOWN);
    bool router = input || trains(x, MODULE_ROUTER, 0);
    return (struct wanted){
        .input = input,
        .dys = experts ? gradient_rows(x, ".ddown", config->width) : NO_INDEX,
        .dweights = router ? buffer(x, ".dweights", all_rows(x) * sizeof(float)) : NO_INDEX,
        .dinner = before_down ? gradient_rows(x, ".dinner", config->inner) : NO_INDEX,
        .dxs = input ? gradient_rows(x, ".ddispatched", config->width) : NO_INDEX,
        .dgate = before_down ? gradient_rows(x, ".dgate_up", 2 * (uint64_t)config->inner)
                             : NO_INDEX};
}

static void combine_backward(const struct decoder_experts *x, const struct decoder_layer *layer,
                             uint32_t stream, const struct wanted *wanted)
{
    struct model_operator op = operator_of(x, MODEL_COMBINE_BACKWARD);
    g_autofree char *name = experts_name(x);
    op.in[0] = stream;
    op.in[1] = layer->down;
    op.in[2] = layer->routes;
    op.out[0] = wanted->dys;
    op.out[1] = wanted->dweights;
    decoder_append_backward(x->builder, x->turn, name, &op);
}

/* Of an expert without rows the gradients of its tensors are zeros, and nothing else is made. */
static void expert_operator(const struct decoder_experts *x, enum model_kind kind,
                            enum model_module module, uint32_t expert,
                            const struct decoder_layer *layer, const uint32_t in[3],
                            const uint32_t out[2])
{
    bool used = expert_is_used(config_of(x), rows_of_layer(x), expert);
    struct model_operator op = decoder_backward_operator(x->builder, x->turn, kind,
                                                         (int32_t)x->layer, x->micro_batch,
                                                         tensor_of(x, module, expert), 1);
    g_autofree char *name = module_name(x, module, expert);
    set_expert(x, module, expert, layer, &op);
    for (int i = 0; used && i < 3; i++)
        op.in[i] = in[i];
    for (int i = 0; used && i < 2; i++)
        op.out[i] = out[i];
    if (used)
        op.workspace = decoder_weight_workspace(x->builder, &op);
    else
        op.in[5] = NO_INDEX;
    if (decoder_trains(&op) || op.out[0] != NO_INDEX)
        decoder_append_backward(x->builder, x->turn, name, &op);
}

static void expert_backward(const struct decoder_experts *x, uint32_t expert,
                            const struct decoder_layer *layer, const struct wanted *wanted)
{
    bool trains_up = trains(x, MODULE_UP, expert);
    bool up = wanted->input || trains_up;
    const uint32_t into_down[3] = {wanted->dys, layer->inner, NO_INDEX};
    const uint32_t of_down[2] = {up ? wanted->dinner : NO_INDEX, NO_INDEX};
    const uint32_t into_up[3] = {wanted->dinner, layer->dispatched, layer->pre};
    const uint32_t of_up[2] = {wanted->dxs, wanted->dgate};
    expert_operator(x, MODEL_LINEAR_BACKWARD, MODULE_DOWN, expert, layer, into_down, of_down);
    if (up)
        expert_operator(x, MODEL_GATED_BACKWARD, MODULE_UP, expert, layer, into_up, of_up);
}

/* Returns the gradient of what router and experts read. */
static uint32_t dispatch_backward(const struct decoder_experts *x,
                                  const struct decoder_layer *layer, uint32_t dxs)
{
    struct iteration_builder *b = x->builder;
    struct model_operator op = operator_of(x, MODEL_DISPATCH_BACKWARD);
    g_autofree char *name = dispatch_name(x);
    op.in[0] = dxs;
    op.in[1] = layer->routes;
    op.out[0] = buffer(x, ".dinput", b->rows * config_of(x)->width * b->element);
    decoder_append_backward(b, x->turn, name, &op);
    return op.out[0];
}

static void route_backward(const struct decoder_experts *x, const struct decoder_layer *layer,
                           uint32_t dweights, uint32_t dx)
{
    struct iteration_builder *b = x->builder;
    struct model_operator op = decoder_backward_operator(b, x->turn, MODEL_ROUTE_BACKWARD,
                                                         (int32_t)x->layer, x->micro_batch,
                                                         tensor_of(x, MODULE_ROUTER, 0), 1);
    g_autofree char *name = module_name(x, MODULE_ROUTER, 0);
    op.inputs = config_of(x)->width;
    op.outputs = config_of(x)->experts;
    op.in[0] = dweights;
    op.in[1] = layer->norm2;
    op.in[2] = layer->probabilities;
    op.in[3] = layer->routes;
    op.in[4] = b->balance;
    op.out[0] = dx;
    op.add = dx != NO_INDEX;
    op.out[1] = buffer(x, ".dlogits", b->rows * op.outputs * b->element);
    op.workspace = decoder_weight_workspace(b, &op);
    decoder_append_backward(b, x->turn, name, &op);
}

uint32_t decoder_experts_backward(const struct decoder_experts *x,
                                  const struct decoder_layer *layer, uint32_t stream)
{
    const struct wanted wanted = wanted_of(x);
    uint32_t dx = NO_INDEX;
    if (wanted.dys != NO_INDEX || wanted.dweights != NO_INDEX)
        combine_backward(x, layer, stream, &wanted);
    for (uint32_t expert = config_of(x)->experts; expert-- > 0;)
        expert_backward(x, expert, layer, &wanted);
    if (wanted.dxs != NO_INDEX)
        dx = dispatch_backward(x, layer, wanted.dxs);
    if (wanted.dweights != NO_INDEX)
        route_backward(x, layer, wanted.dweights, dx);
    return dx;
}
