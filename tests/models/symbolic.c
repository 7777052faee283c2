#include "symbolic.h"

/* What a forward operator read and made: its backward must be handed the same. `more` is a
 * residual, a gate, or keys and values. */
struct memory {
    symbol x, more[2], y, stats;
};

/* An operator at work on the machine's symbols. */
struct machine {
    const struct model_iteration *iteration;
    const struct model_operator *op;
    const struct trace_operator *traced;
    uint32_t moment;
    symbol *buffers;            /* 0: dead */
    symbol *gradient_of;        /* [buffer_count] the forward value whose gradient a buffer holds */
    uint32_t *terms;            /* [buffer_count] operators that have added to that gradient */
    GHashTable *readers;        /* forward value -> number of forward operators that read it */
    GHashTable *residuals;      /* sum with the residual stream -> the stream before it */
    struct memory *memories;    /* one a forward operator: see memory_of */
    GHashTable *parts;          /* of buffers that experts share: (buffer, expert) -> symbol */
    symbol *lists[TRACE_LISTS]; /* [tensor_count] */
    struct symbolic_result result;
};

static symbol mix(symbol a, symbol b)
{
    symbol h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    return (h ^ (h >> 33)) | 1;
}

static symbol mix_text(const char *text, symbol a)
{
    return mix(g_str_hash(text), a);
}

static const struct trace_access *access_of(const struct machine *m, uint32_t tensor, int list)
{
    const struct trace *trace = m->iteration->trace;
    for (uint32_t i = 0; i < m->traced->access_count; i++) {
        const struct trace_access *access = &trace->accesses[m->traced->first_access + i];
        if (access->tensor == tensor && access->list == list)
            return access;
    }
    return NULL;
}

static symbol read_tensor(const struct machine *m, uint32_t tensor, int list)
{
    const struct trace_access *access = access_of(m, tensor, list);
    g_assert_nonnull(access);
    g_assert_cmpint(access->mode, !=, TRACE_OVERWRITE);
    g_assert_cmpuint(m->lists[list][tensor], !=, 0);
    return m->lists[list][tensor];
}

static void write_tensor(struct machine *m, uint32_t tensor, int list, symbol value)
{
    const struct trace_access *access = access_of(m, tensor, list);
    g_assert_nonnull(access);
    g_assert_cmpint(access->mode, !=, TRACE_READ);
    m->lists[list][tensor] = value;
}

static symbol weight(const struct machine *m)
{
    return read_tensor(m, m->op->t[0], TRACE_PARAM);
}

static void check_alive(const struct machine *m, uint32_t buffer)
{
    g_assert_cmpuint(buffer, <, m->iteration->trace->buffer_count);
    const struct trace_buffer *b = &m->iteration->trace->buffers[buffer];
    g_assert_cmpuint(b->first, <=, m->moment);
    g_assert_cmpuint(b->last, >=, m->moment);
}

static bool is_experts(const struct machine *m)
{
    return m->op->expert != NO_INDEX;
}

static gpointer part_key(const struct machine *m, uint32_t buffer)
{
    gsize experts = MAX(m->iteration->config->experts, 1);
    return GSIZE_TO_POINTER(buffer * experts + m->op->expert + 1);
}

/* Of a buffer that experts share, the expert's rows, if experts have written it. */
static symbol value_of(const struct machine *m, uint32_t buffer)
{
    gpointer part;
    if (is_experts(m) && g_hash_table_lookup_extended(m->parts, part_key(m, buffer), NULL, &part))
        return GPOINTER_TO_SIZE(part);
    return is_experts(m) ? mix(m->buffers[buffer], m->op->expert) : m->buffers[buffer];
}

static symbol in(const struct machine *m, int i)
{
    check_alive(m, m->op->in[i]);
    g_assert_cmpuint(m->buffers[m->op->in[i]], !=, 0);
    return value_of(m, m->op->in[i]);
}

static symbol made(const struct machine *m, int i)
{
    return value_of(m, m->op->out[i]);
}

static void set(struct machine *m, uint32_t buffer, symbol value)
{
    bool shared = is_experts(m) && buffer != m->op->workspace && buffer != m->op->gradient[0];
    check_alive(m, buffer);
    if (shared)
        g_hash_table_insert(m->parts, part_key(m, buffer), GSIZE_TO_POINTER(value));
    m->buffers[buffer] = shared ? m->buffers[buffer] + mix(value, m->op->expert) : value;
    g_assert_cmpuint(m->buffers[buffer], !=, 0);
}

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

/* Forward and backward of one operator share a memory: the embedding's, a layer's attention's, or
 * that of the first tensor. */
static struct memory *memory_of(const struct machine *m)
{
    const struct model_operator *op = m->op;
    if (op->kind == MODEL_EMBED_FORWARD || op->kind == MODEL_EMBED_BACKWARD)
        return &m->memories[0];
    uint32_t layers = m->iteration->config->layers, tensors = m->iteration->trace->tensor_count;
    if (op->kind == MODEL_DISPATCH_FORWARD || op->kind == MODEL_DISPATCH_BACKWARD)
        return &m->memories[1 + layers + tensors + op->layer];
    if (op->kind == MODEL_COMBINE_FORWARD || op->kind == MODEL_COMBINE_BACKWARD)
        return &m->memories[1 + 2 * layers + tensors + op->layer];
    if (op->t[0] == NO_INDEX) /* attention */
        return &m->memories[1 + op->layer];
    return &m->memories[1 + layers + op->t[0]];
}

static void count_reader(struct machine *m, symbol value)
{
    gpointer key = GSIZE_TO_POINTER(value);
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(m->readers, key));
    if (m->traced->phase == TRACE_FORWARD)
        g_hash_table_insert(m->readers, key, GUINT_TO_POINTER(count + 1));
}

static void remember(struct machine *m)
{
    const struct model_operator *op = m->op;
    bool activated = op->kind == MODEL_GELU_FORWARD || op->kind == MODEL_GATED_FORWARD;
    struct memory memory = {.x = in(m, 0)};
    if (!is_experts(m))
        count_reader(m, memory.x);
    else if (op->kind == MODEL_GATED_FORWARD)
        count_reader(m, m->buffers[op->in[0]]);
    if (op->kind == MODEL_ADAPTER_FORWARD) { /* recomputed without what it adds */
        memory.y = m->buffers[op->out[0]];
        *memory_of(m) = memory;
        return;
    }
    bool routes = op->kind == MODEL_ROUTE_FORWARD; /* once to the loss of imbalance */
    for (int i = 0; !routes && i < 2 && op->in[1 + i] != NO_INDEX; i++) {
        memory.more[i] = in(m, 1 + i);
        count_reader(m, memory.more[i]);
    }
    memory.y = made(m, activated ? 1 : 0);
    if (activated)
        memory.stats = made(m, 0);
    else if (op->out[1] != NO_INDEX)
        memory.stats = made(m, 1);
    if (op->kind == MODEL_RESIDUAL_FORWARD)
        g_hash_table_insert(m->residuals, GSIZE_TO_POINTER(memory.y),
                            GSIZE_TO_POINTER(memory.more[0]));
    if (m->traced->phase == TRACE_BACKWARD)
        g_assert_cmpmem(&memory, sizeof memory, memory_of(m), sizeof memory);
    *memory_of(m) = memory;
}

/* Notes that the operator leaves a term of the value's gradient in a buffer. */
static void add_term(struct machine *m, uint32_t buffer, symbol value)
{
    m->terms[buffer] = m->op->add || is_experts(m) ? m->terms[buffer] + 1 : 1;
    m->gradient_of[buffer] = value;
}

/* When a gradient is read, every operator that read the value forward has added its term. The
 * logits' is the loss's. */
static void check_terms(const struct machine *m)
{
    const struct model_operator *op = m->op;
    if (op->kind == MODEL_CLASSIFIER_BACKWARD)
        return;
    gpointer value = GSIZE_TO_POINTER(memory_of(m)->y);
    g_assert_cmpuint(m->terms[op->in[0]], ==,
                     GPOINTER_TO_UINT(g_hash_table_lookup(m->readers, value)));
}

/* Where nothing of the branch that was added to the stream is wanted, its backward is left out, and
 * the gradient of the sum is the first term of that of the stream before it. */
static void pass_branch(struct machine *m)
{
    uint32_t stream = m->op->in[0];
    gpointer sum = GSIZE_TO_POINTER(m->gradient_of[stream]);
    if (m->gradient_of[stream] == memory_of(m)->y || !g_hash_table_contains(m->residuals, sum))
        return;
    m->gradient_of[stream] = GPOINTER_TO_SIZE(g_hash_table_lookup(m->residuals, sum));
    m->terms[stream] = 1;
}

/* The gradient of a sum with the residual stream is the first term of the stream's. */
static void pass_stream(struct machine *m)
{
    const struct model_operator *op = m->op;
    bool adds = op->kind == MODEL_RESIDUAL_BACKWARD || op->kind == MODEL_NORM_BACKWARD;
    if (!adds || !memory_of(m)->more[0])
        return;
    m->gradient_of[op->in[0]] = memory_of(m)->more[0];
    m->terms[op->in[0]] = 1;
}

static void check_grouped(struct machine *m)
{
    const struct model_operator *op = m->op;
    const struct memory *memory = memory_of(m);
    const symbol read[] = {memory->x, memory->more[0], memory->more[1]};
    for (int i = 0; i < 3; i++) {
        g_assert_cmpuint(in(m, 1 + i), ==, read[i]);
        add_term(m, op->out[i], read[i]);
    }
    g_assert_cmpuint(in(m, 4), ==, memory->y);
    g_assert_cmpuint(in(m, 5), ==, memory->stats);
}

static void check_adapter(struct machine *m)
{
    const struct model_operator *op = m->op;
    g_assert_cmpuint(in(m, 1), ==, memory_of(m)->x);
    g_assert_cmpuint(in(m, 2), ==, memory_of(m)->y);
    if (!op->add)
        return;
    g_assert_cmpuint(m->gradient_of[op->out[0]], ==, memory_of(m)->x);
    add_term(m, op->out[0], memory_of(m)->x);
}

/* Each expert reads its rows of what was dispatched, of which each has its term of the gradient. */
static void check_expert(struct machine *m)
{
    const struct model_operator *op = m->op;
    if (op->in[0] == NO_INDEX)
        return; /* no rows */
    g_assert_cmpuint(in(m, 1), ==, memory_of(m)->x);
    if (op->kind != MODEL_GATED_BACKWARD)
        return;
    g_assert_cmpuint(in(m, 2), ==, memory_of(m)->stats);
    if (op->out[0] != NO_INDEX)
        add_term(m, op->out[0], m->buffers[op->in[1]]);
}

/* The router has a weight of each row's result, and what it reads is read by the dispatch, too. */
static void check_router(struct machine *m)
{
    const struct memory *memory = memory_of(m);
    g_assert_cmpuint(in(m, 1), ==, memory->x);
    g_assert_cmpuint(in(m, 2), ==, memory->y);
    g_assert_cmpuint(in(m, 3), ==, memory->stats);
    if (m->op->out[0] == NO_INDEX)
        return;
    g_assert_cmpuint(m->gradient_of[m->op->out[0]], ==, memory->x);
    add_term(m, m->op->out[0], memory->x);
}

static void check_dispatch(struct machine *m)
{
    g_assert_cmpuint(m->gradient_of[m->op->in[0]], ==, memory_of(m)->y);
    check_terms(m);
    g_assert_cmpuint(in(m, 1), ==, memory_of(m)->more[0]);
    add_term(m, m->op->out[0], memory_of(m)->x);
}

/* What was added to the stream has the stream's gradient, which goes on. */
static void check_combine(struct machine *m)
{
    uint32_t stream = m->op->in[0];
    g_assert_cmpuint(m->gradient_of[stream], ==, memory_of(m)->y);
    check_terms(m);
    g_assert_cmpuint(in(m, 1), ==, memory_of(m)->x);
    g_assert_cmpuint(in(m, 2), ==, memory_of(m)->more[0]);
    m->gradient_of[stream] = memory_of(m)->more[1];
    m->terms[stream] = 1;
}

/* Returns whether the operator belongs to a mixture of experts, and was checked. */
static bool check_mixture(struct machine *m)
{
    if (is_experts(m))
        check_expert(m);
    else if (m->op->kind == MODEL_ROUTE_BACKWARD)
        check_router(m);
    else if (m->op->kind == MODEL_DISPATCH_BACKWARD)
        check_dispatch(m);
    else if (m->op->kind == MODEL_COMBINE_BACKWARD)
        check_combine(m);
    else
        return false;
    return true;
}

/* Returns whether GELU's derivative is joined to the product behind it. */
static bool is_joined(const struct machine *m)
{
    return m->op->kind == MODEL_RESIDUAL_BACKWARD && m->op->in[2] != NO_INDEX;
}

/* What comes in is the gradient of the forward operator's output, or of what GELU read in it.
 * Checks what backward reads of what GELU read, or of statistics. */
static void check_output(struct machine *m)
{
    const struct model_operator *op = m->op;
    const struct memory *memory = memory_of(m);
    bool late = op->kind == MODEL_LINEAR_BACKWARD && memory->stats;
    g_assert_cmpuint(m->gradient_of[op->in[0]], ==, late ? memory->stats : memory->y);
    check_terms(m);
    if (memory->stats && !late && op->kind != MODEL_EMBED_BACKWARD &&
        op->kind != MODEL_GROUPED_BACKWARD)
        g_assert_cmpuint(in(m, op->kind == MODEL_ATTENTION_BACKWARD ? 3 : 2), ==, memory->stats);
}

/* Returns that of which the operator makes the gradient. */
static symbol input_of(const struct machine *m)
{
    symbol x = memory_of(m)->x;
    if (!is_joined(m))
        return x;
    g_assert_cmpuint(mix_text("gelu", in(m, 2)), ==, x);
    return in(m, 2);
}

/* Follows the chain rule: what comes in is the gradient of the forward operator's output, what it
 * was saved from forward is what forward used, and what goes out is the gradient of its input. */
static void check_backward(struct machine *m)
{
    const struct model_operator *op = m->op;
    const struct memory *memory = memory_of(m);
    if (op->kind == MODEL_ADAPTER_BACKWARD) {
        check_adapter(m);
        return;
    }
    if (check_mixture(m))
        return;
    pass_branch(m);
    check_output(m);
    if (op->kind == MODEL_EMBED_BACKWARD)
        return;
    if (op->kind == MODEL_GROUPED_BACKWARD) {
        check_grouped(m);
        return;
    }
    g_assert_cmpuint(in(m, 1), ==, memory->x);
    if (op->kind == MODEL_ATTENTION_BACKWARD)
        g_assert_cmpuint(in(m, 2), ==, memory->y);
    pass_stream(m);
    if (op->add)
        g_assert_cmpuint(m->gradient_of[op->out[0]], ==, memory->x);
    if (op->out[0] != NO_INDEX)
        add_term(m, op->out[0], input_of(m));
    if (op->kind == MODEL_GATED_BACKWARD && op->in[3] != NO_INDEX) {
        g_assert_cmpuint(in(m, 3), ==, memory->more[0]);
        add_term(m, op->out[1], memory->more[0]);
    }
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
            remember(m);
    } else {
        check_backward(m);
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
