#include "symbolic.h"

#include "symbolic_chain_rule.h"

/* The gradient's list; over the parameter it replaces it. */
static int gradient_list(const struct machine *m)
{
    return model_gradient_layout(&m->iteration->job) == MODEL_GRADIENT_LIST ? TRACE_GRAD
                                                                            : TRACE_PARAM;
}

static bool in_buffers(const struct machine *m)
{
    return model_gradient_layout(&m->iteration->job) == MODEL_GRADIENT_BUFFER;
}

static symbol gradient_in_buffer(const struct machine *m, int which)
{
    uint32_t buffer = m->op->gradient[which];
    check_alive(m, buffer);
    g_assert_cmpuint(m->buffers[buffer], !=, 0);
    return m->buffers[buffer];
}

/* `adds`: to what is there, which must be a gradient. */
static void put_gradient(struct machine *m, int which, symbol gradient, bool adds)
{
    if (m->op->frozen[which]) { /* nothing, or scratch */
        if (m->op->gradient[which] != NO_INDEX)
            set(m, m->op->gradient[which], gradient);
        return;
    }
    if (in_buffers(m)) {
        if (adds)
            gradient = mix(mix_text("sum", gradient_in_buffer(m, which)), gradient);
        set(m, m->op->gradient[which], gradient);
        return;
    }
    int list = gradient_list(m);
    if (adds)
        gradient = mix(mix_text("sum", read_tensor(m, m->op->t[which], list)), gradient);
    write_tensor(m, m->op->t[which], list, gradient);
}

static symbol dropout(const struct machine *m, symbol value)
{
    if (m->op->dropout_site == NO_INDEX)
        return value;
    symbol key = mix(m->op->dropout_site + 1, m->op->micro_batch + 1);
    return mix(mix_text("dropout", value), key);
}

static symbol parameters(const struct machine *m)
{
    symbol all = weight(m);
    for (int i = 1; i < MODEL_TENSORS && m->op->t[i] != NO_INDEX; i++)
        all = mix(all, read_tensor(m, m->op->t[i], TRACE_PARAM));
    return all;
}

/* Returns the gate in input `i`, or 0 if one buffer has the gate and what it is multiplied with. */
static symbol gate(const struct machine *m, int i)
{
    return m->op->in[i] == NO_INDEX ? 0 : in(m, i);
}

/* A product, and what an adapter adds to it. */
static symbol product(const struct machine *m)
{
    symbol y = mix_text("linear", mix(in(m, 0), parameters(m)));
    return m->op->in[2] == NO_INDEX ? y : mix(in(m, 2), y);
}

static void run_forward(struct machine *m)
{
    const struct model_operator *op = m->op;
    symbol normalised;
    switch ((enum model_kind)op->kind) {
    case MODEL_EMBED_FORWARD:
        set(m, op->out[0], dropout(m, mix(in(m, 0), parameters(m))));
        break;
    case MODEL_NORM_FORWARD:
        normalised = dropout(m, mix_text("norm", mix(in(m, 0), parameters(m))));
        set(m, op->out[0], op->in[1] == NO_INDEX ? normalised : mix(in(m, 1), normalised));
        set(m, op->out[1], mix_text("stats", in(m, 0)));
        break;
    case MODEL_LINEAR_FORWARD:
        set(m, op->out[0], product(m));
        break;
    case MODEL_ADAPTER_FORWARD:
        set(m, op->out[0], mix_text("A", mix(in(m, 0), weight(m))));
        if (op->out[1] != NO_INDEX)
            set(m, op->out[1], mix(m->buffers[op->out[0]], read_tensor(m, op->t[1], TRACE_PARAM)));
        break;
    case MODEL_GELU_FORWARD:
        set(m, op->out[0], product(m));
        set(m, op->out[1], mix_text("gelu", m->buffers[op->out[0]]));
        break;
    case MODEL_RESIDUAL_FORWARD:
        set(m, op->out[0], mix(in(m, 1), dropout(m, product(m))));
        break;
    case MODEL_ATTENTION_FORWARD:
        set(m, op->out[0], dropout(m, mix_text("attention", in(m, 0))));
        set(m, op->out[1], mix_text("lse", in(m, 0)));
        break;
    case MODEL_GATED_FORWARD:
        set(m, op->out[0], product(m));
        set(m, op->out[1], mix_text("gated", mix(gate(m, 1), made(m, 0))));
        break;
    case MODEL_GROUPED_FORWARD:
        set(m, op->out[0], dropout(m, mix_text("grouped", mix(in(m, 0), mix(in(m, 1), in(m, 2))))));
        set(m, op->out[1], mix_text("lse", mix(in(m, 0), in(m, 1))));
        break;
    case MODEL_ROUTE_FORWARD:
        set(m, op->workspace, mix_text("scratch", in(m, 0)));
        set(m, op->out[0], mix_text("probabilities", mix(in(m, 0), weight(m))));
        set(m, op->out[1], mix_text("routes", m->buffers[op->out[0]]));
        if (op->in[1] != NO_INDEX)
            set(m, op->in[1], mix(m->buffers[op->in[1]], m->buffers[op->out[0]]));
        break;
    case MODEL_DISPATCH_FORWARD:
        set(m, op->out[0], mix_text("dispatch", mix(in(m, 0), in(m, 1))));
        break;
    case MODEL_COMBINE_FORWARD:
        set(m, op->out[0], mix(in(m, 2), mix(in(m, 0), in(m, 1))));
        break;
    case MODEL_BALANCE_LOSS:
        m->result.losses[op->micro_batch] = mix(m->result.losses[op->micro_batch], in(m, 0));
        break;
    case MODEL_CLASSIFIER_FORWARD:
        set(m, op->out[0], mix_text("logits", mix(in(m, 0), parameters(m))));
        break;
    case MODEL_LOSS:
        m->result.losses[op->micro_batch] = mix(in(m, 0), in(m, 1));
        m->gradient_of[op->in[0]] = in(m, 0);
        set(m, op->in[0], mix_text("dlogits", m->result.losses[op->micro_batch]));
        break;
    default:
        g_assert_not_reached();
    }
}

/* Sets the input's gradient, or adds a term to it. */
static void put_input(struct machine *m, symbol dx)
{
    if (m->op->add)
        dx = mix(mix_text("sum", m->buffers[m->op->out[0]]), dx);
    set(m, m->op->out[0], dx);
}

/* Where the product's input is what GELU made, its gradient becomes that of what GELU read. */
static symbol input_gradient(struct machine *m, symbol dy)
{
    symbol dx = mix_text("dx", mix(dy, weight(m)));
    if (!is_joined(m))
        return dx;
    dx = mix_text("dgelu", mix(dx, in(m, 2)));
    if (m->op->t[2] != NO_INDEX)
        put_gradient(m, 2, mix_text("dbias", dx), m->op->accumulate);
    return dx;
}

/* Input gradient first: the weight's own may replace it. A weight's gradient goes through the
 * workspace where it is rounded. */
static void linear_backward(struct machine *m, symbol dy)
{
    const struct model_operator *op = m->op;
    bool rounded = gradient_list(m) != TRACE_GRAD && !op->frozen[0];
    if (is_experts(m) && op->in[0] == NO_INDEX) { /* no rows */
        put_gradient(m, 0, mix_text("nothing", op->t[0]), op->accumulate);
        return;
    }
    g_assert_true(rounded == (op->workspace != NO_INDEX));
    if (rounded)
        set(m, op->workspace, mix_text("scratch", dy));
    if (op->out[0] != NO_INDEX)
        put_input(m, input_gradient(m, dy));
    put_gradient(m, 0, mix_text("dweight", mix(dy, in(m, 1))), op->accumulate);
    if (op->t[1] != NO_INDEX || op->frozen[1])
        put_gradient(m, 1, mix_text("dbias", dy), op->accumulate);
}

static void adapter_backward(struct machine *m)
{
    const struct model_operator *op = m->op;
    symbol dy = in(m, 0), du = mix_text("du", mix(dy, read_tensor(m, op->t[1], TRACE_PARAM)));
    set(m, op->out[1], du);
    if (op->out[0] != NO_INDEX)
        put_input(m, mix_text("dx", mix(du, weight(m))));
    if (op->workspace != NO_INDEX)
        set(m, op->workspace, mix_text("scratch", du));
    put_gradient(m, 0, mix_text("dA", mix(du, in(m, 1))), op->accumulate);
    put_gradient(m, 1, mix_text("dB", mix(dy, in(m, 2))), op->accumulate);
}

static void run_norm_backward(struct machine *m)
{
    const struct model_operator *op = m->op;
    symbol dy = dropout(m, in(m, 0)), inputs = mix(dy, mix(in(m, 1), in(m, 2)));
    if (op->add)
        g_assert_cmpuint(m->buffers[op->out[0]], !=, 0);
    if (op->out[0] != NO_INDEX)
        put_input(m, mix_text("dnorm", mix(inputs, weight(m))));
    put_gradient(m, 0, mix_text("dweight", inputs), op->accumulate);
    if (op->t[1] != NO_INDEX || op->frozen[1])
        put_gradient(m, 1, mix_text("dbias", dy), op->accumulate);
}

static symbol masked_stream(struct machine *m)
{
    symbol dy = dropout(m, in(m, 0));
    g_assert_true((m->op->dropout_site == NO_INDEX) == (m->op->masked == NO_INDEX));
    if (m->op->masked != NO_INDEX)
        set(m, m->op->masked, dy);
    return dy;
}

static void run_backward(struct machine *m)
{
    const struct model_operator *op = m->op;
    symbol dy;
    switch ((enum model_kind)op->kind) {
    case MODEL_CLASSIFIER_BACKWARD:
    case MODEL_LINEAR_BACKWARD:
        linear_backward(m, op->in[0] == NO_INDEX ? 0 : in(m, 0));
        break;
    case MODEL_COMBINE_BACKWARD:
        dy = mix(in(m, 0), in(m, 2));
        if (op->out[0] != NO_INDEX)
            set(m, op->out[0], mix_text("drows", dy));
        if (op->out[1] != NO_INDEX)
            set(m, op->out[1], mix_text("dweights", mix(dy, in(m, 1))));
        break;
    case MODEL_DISPATCH_BACKWARD:
        set(m, op->out[0], mix_text("gather", mix(in(m, 0), in(m, 1))));
        break;
    case MODEL_ROUTE_BACKWARD:
        dy = mix(mix(in(m, 0), in(m, 2)), mix(in(m, 3), op->in[4] == NO_INDEX ? 0 : in(m, 4)));
        set(m, op->out[1], dy);
        linear_backward(m, dy);
        break;
    case MODEL_GELU_BACKWARD:
        dy = mix_text("dgelu", mix(in(m, 0), in(m, 2)));
        set(m, op->in[0], dy);
        linear_backward(m, dy);
        break;
    case MODEL_GATED_BACKWARD:
        if (op->in[0] == NO_INDEX) {
            linear_backward(m, 0);
            break;
        }
        dy = mix_text("dup", mix(in(m, 0), gate(m, 3)));
        set(m, op->out[1], mix_text("dgate", mix(in(m, 0), mix(in(m, 2), gate(m, 3)))));
        if (op->in[3] != NO_INDEX)
            set(m, op->in[0], dy);
        linear_backward(m, op->in[3] != NO_INDEX ? dy : made(m, 1));
        break;
    case MODEL_RESIDUAL_BACKWARD:
        linear_backward(m, masked_stream(m));
        break;
    case MODEL_NORM_BACKWARD:
        run_norm_backward(m);
        break;
    case MODEL_ADAPTER_BACKWARD:
        adapter_backward(m);
        break;
    case MODEL_ATTENTION_BACKWARD:
        set(m, op->out[0], dropout(m, mix(mix(in(m, 0), in(m, 1)), mix(in(m, 2), in(m, 3)))));
        break;
    case MODEL_GROUPED_BACKWARD:
        dy = mix(in(m, 0), mix(mix(in(m, 1), in(m, 2)), mix(in(m, 3), mix(in(m, 4), in(m, 5)))));
        for (symbol i = 0; i < 3; i++)
            set(m, op->out[i], dropout(m, mix(i + 1, dy)));
        break;
    case MODEL_EMBED_BACKWARD:
        dy = mix(dropout(m, in(m, 0)), in(m, 1));
        if (op->t[0] != NO_INDEX)
            put_gradient(m, 0, mix_text("dwte", dy), op->accumulate || m->iteration->config->tied);
        if (op->t[1] != NO_INDEX)
            put_gradient(m, 1, mix_text("dwpe", dropout(m, in(m, 0))), op->accumulate);
        if (op->t[2] != NO_INDEX)
            put_gradient(m, 2, mix_text("dtypes", dy), op->accumulate);
        break;
    default:
        g_assert_not_reached();
    }
}

/* Once a tensor, of a gradient that is there. */
static void take_norms(struct machine *m)
{
    for (int i = 0; i < MODEL_TENSORS; i++) {
        uint32_t t = m->op->t[i];
        if (!m->op->norms[i])
            continue;
        g_assert_cmpuint(m->result.norms[t], ==, 0);
        m->result.norms[t] = in_buffers(m) ? gradient_in_buffer(m, i)
                                           : m->lists[gradient_list(m)][t];
        g_assert_cmpuint(m->result.norms[t], !=, 0);
    }
}

/* A gradient that is clipped is the one whose norm was taken. The norms of all are known, unless
 * updates run in the only backward. */
static void check_clipped(const struct machine *m, uint32_t tensor, symbol gradient)
{
    g_assert_cmpuint(m->result.norms[tensor], ==, gradient);
    bool all = !in_buffers(m) || m->iteration->job.choices.second_backward;
    const uint8_t *frozen = m->iteration->job.choices.frozen;
    for (uint32_t t = 0; all && t < m->result.tensor_count; t++)
        if (!frozen[t])
            g_assert_cmpuint(m->result.norms[t], !=, 0);
}

static void run_update(struct machine *m)
{
    uint32_t t = m->op->t[0];
    symbol gradient = in_buffers(m) ? gradient_in_buffer(m, 0)
                                    : read_tensor(m, t, gradient_list(m));
    m->result.gradients[t] = gradient;
    check_clipped(m, t, gradient);
    int weights = m->iteration->job.precision == MODEL_BF16 ? TRACE_MASTER : TRACE_PARAM;
    symbol moments = mix(read_tensor(m, t, TRACE_EXP_AVG), read_tensor(m, t, TRACE_EXP_AVG_SQ));
    symbol value = mix(mix(gradient, moments), read_tensor(m, t, weights));
    if (m->iteration->job.choices.split_masters) /* the master's upper half */
        read_tensor(m, t, TRACE_PARAM);
    write_tensor(m, t, TRACE_EXP_AVG, mix_text("m", gradient));
    write_tensor(m, t, TRACE_EXP_AVG_SQ, mix_text("v", gradient));
    write_tensor(m, t, weights, value);
    if (weights == TRACE_MASTER)
        write_tensor(m, t, TRACE_PARAM, mix_text("rounded", value));
}

/* Tokens come with the batch; a buffer's bytes are anyone's after its life. */
static void begin_and_end_lives(struct machine *m)
{
    const struct trace *trace = m->iteration->trace;
    if (m->op->kind == MODEL_EMBED_FORWARD)
        set(m, m->op->in[0], mix_text("tokens", m->op->micro_batch + 1));
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (trace->buffers[b].first > m->moment || trace->buffers[b].last < m->moment)
            m->buffers[b] = m->gradient_of[b] = 0;
}

static void machine_init(struct machine *m, const struct model_iteration *iteration)
{
    const struct trace *trace = iteration->trace;
    *m = (struct machine){.iteration = iteration, .buffers = g_new0(symbol, trace->buffer_count)};
    m->gradient_of = g_new0(symbol, trace->buffer_count);
    m->terms = g_new0(uint32_t, trace->buffer_count);
    m->readers = g_hash_table_new(NULL, NULL);
    m->residuals = g_hash_table_new(NULL, NULL);
    m->memories = g_new0(struct memory, 1 + 3 * iteration->config->layers + trace->tensor_count);
    m->parts = g_hash_table_new(NULL, NULL);
    for (int list = 0; list < TRACE_LISTS; list++) {
        m->lists[list] = g_new0(symbol, trace->tensor_count);
        if (list == TRACE_GRAD || !trace->list_element_bytes[list])
            continue;
        for (uint32_t t = 0; t < trace->tensor_count; t++)
            if (trace_has(trace, (enum trace_list)list, t))
                m->lists[list][t] = mix(t + 1, (symbol)list + 1);
    }
    m->result.tensor_count = trace->tensor_count;
    m->result.micro_batches = trace->micro_batches;
    m->result.gradients = g_new0(symbol, trace->tensor_count);
    m->result.norms = g_new0(symbol, trace->tensor_count);
    m->result.losses = g_new0(symbol, trace->micro_batches);
}

static void run_operator(struct machine *m)
{
    begin_and_end_lives(m);
    if (m->op->kind == MODEL_UPDATE) {
        run_update(m);
    } else if (m->op->kind <= MODEL_BALANCE_LOSS) {
        run_forward(m);
        if (m->op->kind < MODEL_LOSS)
            symbolic_remember(m);
    } else {
        symbolic_check_backward(m);
        run_backward(m);
        take_norms(m);
    }
}

struct symbolic_result symbolic_run(const struct model_iteration *iteration)
{
    struct machine m;
    machine_init(&m, iteration);
    for (m.moment = 0; m.moment < iteration->trace->operator_count; m.moment++) {
        m.op = &iteration->operators[m.moment];
        m.traced = &iteration->trace->operators[m.moment];
        run_operator(&m);
    }
    for (int list = 0; list < TRACE_LISTS; list++)
        g_free(m.lists[list]);
    g_free(m.memories);
    g_hash_table_unref(m.readers);
    g_hash_table_unref(m.residuals);
    g_hash_table_unref(m.parts);
    g_free(m.terms);
    g_free(m.gradient_of);
    g_free(m.buffers);
    return m.result;
}

void symbolic_free(struct symbolic_result *result)
{
    g_free(result->gradients);
    g_free(result->norms);
    g_free(result->losses);
}
