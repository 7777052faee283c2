#include "symbolic_chain_rule.h"

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

void symbolic_remember(struct machine *m)
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
void symbolic_check_backward(struct machine *m)
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
