#include "tests/chunks/random_iteration.h"

#include <stdlib.h>
#include <string.h>

struct builder {
    struct trace *trace;
    GRand *random;
    GArray *operators, *accesses, *buffers;
    bool host_update, over_param, host_first;
    bool shared;           /* parameters are */
    bool reduces;          /* a reduction follows backward, and adds to the gradient */
    bool accumulates;      /* backward adds to the gradient of a micro-batch before */
    bool in_buffers;       /* gradients are, and each is consumed as soon as it is there */
    uint32_t first_buffer; /* of the micro-batch */
    uint32_t made[16];     /* if gradients are buffers, the operator that makes the tensor's */
    uint8_t held[16];      /* chunks hold what the tensor's forward saves */
};

static void begin_operator(struct builder *b, const char *verb, uint32_t tensor,
                           enum trace_phase phase, enum trace_place place)
{
    struct trace_operator op = {.name = g_strdup_printf("%s t%u", verb, tensor),
                                .phase = (uint8_t)phase,
                                .place = (uint8_t)place,
                                .layer = (int32_t)tensor,
                                .first_access = b->accesses->len,
                                .duration_ns = (uint64_t)g_rand_int_range(b->random, 1, 10000)};
    if (place == TRACE_ON_HOST && phase == TRACE_FORWARD)
        op.h2d_bytes = 512;
    if (place == TRACE_ON_HOST && phase == TRACE_BACKWARD)
        op.d2h_bytes = 512;
    g_array_append_val(b->operators, op);
}

static void access_block(struct builder *b, uint32_t tensor, enum trace_list list,
                         enum trace_mode mode, uint32_t block)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode, (uint16_t)block};
    struct trace_operator *op = &g_array_index(b->operators, struct trace_operator,
                                               b->operators->len - 1);
    g_array_append_val(b->accesses, access);
    op->access_count++;
}

static void access_tensor(struct builder *b, uint32_t tensor, enum trace_list list,
                          enum trace_mode mode)
{
    access_block(b, tensor, list, mode, 0);
}

static void add_buffer(struct builder *b, uint32_t first, uint32_t last)
{
    struct trace_buffer buffer = {.name = g_strdup_printf("b%u", b->buffers->len),
                                  .bytes = 256u * (uint64_t)g_rand_int_range(b->random, 1, 9),
                                  .first = first,
                                  .last = last,
                                  .saved = last > first};
    g_array_append_val(b->buffers, buffer);
}

/* An update may round the parameter from its master, and so overwrite it. */
static void share(struct builder *b)
{
    uint8_t *bytes = b->trace->list_element_bytes;
    b->shared = true;
    b->trace->ranks = (uint32_t)g_rand_int_range(b->random, 2, 5);
    b->trace->shared_parameters = true;
    b->trace->micro_batches = b->trace->ranks;
    b->in_buffers = b->over_param = false;
    bytes[TRACE_PARAM] = bytes[TRACE_GATHERED] = 2;
    bytes[TRACE_GRAD] = bytes[TRACE_MASTER] = bytes[TRACE_EXP_AVG] = bytes[TRACE_EXP_AVG_SQ] = 4;
}

static enum trace_list read_list(const struct builder *b)
{
    return b->shared ? TRACE_GATHERED : TRACE_PARAM;
}

static void describe_lists(struct builder *b)
{
    uint8_t *bytes = b->trace->list_element_bytes;
    b->in_buffers = g_rand_int_range(b->random, 0, 4) == 0;
    b->over_param = !b->in_buffers && g_rand_boolean(b->random);
    if (b->in_buffers) {
        bytes[TRACE_PARAM] = bytes[TRACE_MASTER] = 2;
        bytes[TRACE_EXP_AVG] = bytes[TRACE_EXP_AVG_SQ] = 4;
        return;
    }
    bytes[TRACE_PARAM] = b->over_param ? 2 : 4;
    bytes[TRACE_GRAD] = b->over_param ? 0 : 4;
    bytes[TRACE_MASTER] = b->over_param ? 4 : 0;
    bytes[TRACE_EXP_AVG] = bytes[TRACE_EXP_AVG_SQ] = 4;
}

static bool is_frozen(const struct builder *b, uint32_t tensor)
{
    return b->trace->tensors[tensor].absent;
}

static void add_gradient(struct builder *b, uint32_t tensor)
{
    if (is_frozen(b, tensor)) {
        access_tensor(b, tensor, read_list(b), TRACE_READ);
        return;
    }
    access_tensor(b, tensor, read_list(b), b->over_param ? TRACE_UPDATE : TRACE_READ);
    if (!b->over_param && !b->in_buffers && !b->reduces)
        access_tensor(b, tensor, TRACE_GRAD, b->accumulates ? TRACE_UPDATE : TRACE_OVERWRITE);
}

static struct trace_operator *last_operator(struct builder *b)
{
    return &g_array_index(b->operators, struct trace_operator, b->operators->len - 1);
}

static struct trace_exchange random_exchange(GRand *random)
{
    return (struct trace_exchange){(uint64_t)g_rand_int_range(random, 1, 10000),
                                   (uint64_t)g_rand_int_range(random, 1, 10000)};
}

/* The network's queue adds what the backward before it computed. */
static void add_reduction(struct builder *b, uint32_t tensor, bool first)
{
    begin_operator(b, "reduce", tensor, TRACE_BACKWARD, TRACE_ON_DEVICE);
    last_operator(b)->exchange[TRACE_REDUCE] = random_exchange(b->random);
    access_tensor(b, tensor, TRACE_GRAD, first ? TRACE_OVERWRITE : TRACE_UPDATE);
}

static void add_update_of(struct builder *b, uint32_t tensor, uint32_t block, bool rounded)
{
    begin_operator(b, "update", tensor, TRACE_UPDATE_PHASE,
                   b->host_update ? TRACE_ON_HOST : TRACE_ON_DEVICE);
    access_tensor(b, tensor, TRACE_PARAM, rounded && !block ? TRACE_OVERWRITE : TRACE_UPDATE);
    if (!b->over_param && !b->in_buffers)
        access_tensor(b, tensor, TRACE_GRAD, TRACE_READ);
    if (b->trace->list_element_bytes[TRACE_MASTER])
        access_block(b, tensor, TRACE_MASTER, TRACE_UPDATE, block);
    access_block(b, tensor, TRACE_EXP_AVG, TRACE_UPDATE, block);
    access_block(b, tensor, TRACE_EXP_AVG_SQ, TRACE_UPDATE, block);
    if (b->shared)
        access_tensor(b, tensor, TRACE_GATHERED, TRACE_UPDATE);
    else if (b->reduces)
        last_operator(b)->exchange[TRACE_GATHER] = random_exchange(b->random);
}

static void add_update(struct builder *b, uint32_t tensor)
{
    bool cut = trace_is_cut(b->trace, tensor);
    bool rounded = (b->shared || cut) && g_rand_boolean(b->random);
    if (is_frozen(b, tensor))
        return;
    for (uint32_t block = 0; block < trace_blocks(b->trace, TRACE_EXP_AVG, tensor); block++)
        add_update_of(b, tensor, block, rounded);
}

static bool is_on_host(const struct builder *b, uint32_t tensor)
{
    return b->host_first && tensor == 0;
}

/* Of the trace's buffers, what the tensor's forward saves. */
static void access_saved(struct builder *b, uint32_t tensor, uint32_t tensors, enum trace_mode mode)
{
    if (b->held[tensor])
        access_tensor(b, b->first_buffer + 2 * tensors - 1 - tensor, TRACE_ACTIVATION, mode);
}

/* Right after its backward, from a buffer that an update on the host receives. */
static void consume_gradient(struct builder *b, uint32_t tensor)
{
    b->made[tensor] = b->operators->len - 1;
    add_update(b, tensor);
    for (uint32_t m = b->made[tensor] + 1; b->host_update && m < b->operators->len; m++)
        g_array_index(b->operators, struct trace_operator, m).d2h_bytes =
            2 * trace_block_elements(b->trace, TRACE_EXP_AVG, tensor, m - b->made[tensor] - 1);
}

static void add_forward(struct builder *b, uint32_t tensors, bool tied)
{
    for (uint32_t t = 0; t < tensors; t++) {
        begin_operator(b, "forward", t, TRACE_FORWARD,
                       is_on_host(b, t) ? TRACE_ON_HOST : TRACE_ON_DEVICE);
        access_tensor(b, t, read_list(b), TRACE_READ);
        if (tied && t == tensors - 1)
            access_tensor(b, 0, read_list(b), TRACE_READ);
        access_saved(b, t, tensors, TRACE_OVERWRITE);
        if (t > 0)
            access_saved(b, t - 1, tensors, TRACE_READ);
        add_buffer(b, b->operators->len - 1, b->operators->len - 1);
    }
}

/* `begin` is the moment of the first forward operator. */
static void add_backward(struct builder *b, uint32_t tensors, uint32_t begin)
{
    for (uint32_t t = tensors; t-- > 0;) {
        begin_operator(b, "backward", t, TRACE_BACKWARD,
                       is_on_host(b, t) ? TRACE_ON_HOST : TRACE_ON_DEVICE);
        add_gradient(b, t);
        access_saved(b, t, tensors, TRACE_READ);
        add_buffer(b, begin + t, b->operators->len - 1);
        if (b->in_buffers)
            consume_gradient(b, t);
    }
}

static void build_iteration(struct builder *b, uint32_t tensors)
{
    b->host_first = !b->in_buffers && !b->shared && g_rand_boolean(b->random);
    bool holds = g_rand_boolean(b->random);
    for (uint32_t t = 0; t < tensors; t++)
        b->held[t] = holds && !is_on_host(b, t) && g_rand_boolean(b->random);
    bool tied = tensors > 1 && g_rand_boolean(b->random);
    int micro_batches = !b->in_buffers && !b->over_param && g_rand_boolean(b->random) ? 2 : 1;
    for (int micro_batch = 0; micro_batch < micro_batches; micro_batch++) {
        uint32_t begin = b->operators->len;
        b->accumulates = micro_batch > 0;
        b->first_buffer = b->buffers->len;
        add_forward(b, tensors, tied);
        add_backward(b, tensors, begin);
    }
    b->trace->micro_batches *= (uint32_t)micro_batches;
    for (uint32_t t = 0; t < tensors; t++)
        if (b->in_buffers)
            add_buffer(b, b->made[t], b->made[t] + trace_blocks(b->trace, TRACE_EXP_AVG, t));
        else
            add_update(b, t);
}

/* Forward and backward of one micro-batch of several ranks. */
static void add_passes(struct builder *b, uint32_t tensors, bool first)
{
    uint32_t begin = b->operators->len;
    for (uint32_t t = 0; t < tensors; t++) {
        begin_operator(b, "forward", t, TRACE_FORWARD, TRACE_ON_DEVICE);
        access_tensor(b, t, read_list(b), TRACE_READ);
    }
    for (uint32_t t = tensors; t-- > 0;) {
        begin_operator(b, "backward", t, TRACE_BACKWARD, TRACE_ON_DEVICE);
        add_gradient(b, t);
        add_buffer(b, begin + t, b->operators->len - 1);
        if (g_rand_int_range(b->random, 0, 4) > 0)
            add_reduction(b, t, first);
        else
            access_tensor(b, t, TRACE_GRAD, first ? TRACE_OVERWRITE : TRACE_UPDATE);
    }
}

static struct builder begin_trace(GRand *random)
{
    struct builder b = {.trace = g_new0(struct trace, 1),
                        .random = random,
                        .operators = g_array_new(FALSE, TRUE, sizeof(struct trace_operator)),
                        .accesses = g_array_new(FALSE, TRUE, sizeof(struct trace_access)),
                        .buffers = g_array_new(FALSE, TRUE, sizeof(struct trace_buffer)),
                        .host_update = g_rand_int_range(random, 0, 3) == 0};
    struct trace *trace = b.trace;
    trace->producer = g_strdup("random_iteration");
    trace->model = g_strdup("random");
    trace->precision = g_strdup("bf16");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    describe_lists(&b);
    return b;
}

static void add_tensors(struct builder *b, uint32_t count)
{
    struct trace *trace = b->trace;
    trace->tensor_count = count;
    trace->tensors = g_new0(struct trace_tensor, count);
    for (uint32_t t = 0; t < count; t++) {
        trace->tensors[t].name = g_strdup_printf("t%u", t);
        trace->tensors[t].elements = (uint64_t)g_rand_int_range(b->random, 1, 1500);
    }
}

/* Freezes some tensors, which then have parameters only, or none. */
static void freeze_tensors(struct builder *b)
{
    bool freezes = !b->in_buffers && g_rand_int_range(b->random, 0, 3) == 0;
    for (uint32_t t = 1; freezes && t < b->trace->tensor_count; t++) {
        bool frozen = g_rand_boolean(b->random);
        for (int list = TRACE_GRAD; frozen && list < TRACE_GATHERED; list++)
            if (b->trace->list_element_bytes[list])
                b->trace->tensors[t].absent |= (uint8_t)(1 << list);
    }
}

/* Cuts the first tensor into a few blocks, or leaves all whole. */
static void cut_tensors(struct builder *b)
{
    if (g_rand_int_range(b->random, 0, 3) > 0)
        return;
    b->trace->state_block = TRACE_BLOCK_STEP;
    b->trace->tensors[0].elements = (uint64_t)g_rand_int_range(
        b->random, TRACE_UNCUT_BLOCKS * TRACE_BLOCK_STEP + 1, 9 * TRACE_BLOCK_STEP);
}

static struct trace *end_trace(struct builder *b)
{
    struct trace *trace = b->trace;
    trace->operator_count = b->operators->len;
    trace->access_count = b->accesses->len;
    trace->buffer_count = b->buffers->len;
    trace->operators = (void *)g_array_free(b->operators, FALSE);
    trace->accesses = (void *)g_array_free(b->accesses, FALSE);
    trace->buffers = (void *)g_array_free(b->buffers, FALSE);
    trace_sum_buffers(trace);
    return trace;
}

struct trace *random_iteration(GRand *random)
{
    struct builder b = begin_trace(random);
    add_tensors(&b, (uint32_t)g_rand_int_range(random, 1, 16));
    cut_tensors(&b);
    freeze_tensors(&b);
    build_iteration(&b, b.trace->tensor_count);
    return end_trace(&b);
}

struct trace *shared_iteration(GRand *random)
{
    struct builder b = begin_trace(random);
    share(&b);
    add_tensors(&b, (uint32_t)g_rand_int_range(random, 1, 16));
    build_iteration(&b, b.trace->tensor_count);
    for (guint m = 0; m < b.operators->len; m++) {
        struct trace_operator *op = &g_array_index(b.operators, struct trace_operator, m);
        op->exchange[TRACE_REDUCE].sent_bytes = (uint64_t)g_rand_int_range(random, 0, 100);
        op->exchange[TRACE_GATHER].received_bytes = (uint64_t)g_rand_int_range(random, 0, 100);
    }
    return end_trace(&b);
}

struct trace *ranks_iteration(GRand *random)
{
    struct builder b = begin_trace(random);
    share(&b);
    b.reduces = true;
    b.shared = b.trace->shared_parameters = g_rand_boolean(random);
    b.trace->list_element_bytes[TRACE_GATHERED] = b.shared ? 2 : 0;
    add_tensors(&b, (uint32_t)g_rand_int_range(random, 1, 12));
    int micro_batches = g_rand_boolean(random) ? 2 : 1;
    for (int micro_batch = 0; micro_batch < micro_batches; micro_batch++)
        add_passes(&b, b.trace->tensor_count, micro_batch == 0);
    b.trace->micro_batches *= (uint32_t)micro_batches;
    for (uint32_t t = 0; t < b.trace->tensor_count; t++)
        add_update(&b, t);
    return end_trace(&b);
}

/* ---- any accesses ---- */

/* Accesses some lists of the tensor, as chance has it. */
static void access_wildly(struct builder *b, uint32_t tensor)
{
    for (int list = 0; list < TRACE_LISTS; list++)
        if (b->trace->list_element_bytes[list] && g_rand_boolean(b->random))
            access_tensor(b, tensor, (enum trace_list)list,
                          (enum trace_mode)g_rand_int_range(b->random, 0, 3));
}

static void add_wild_operator(struct builder *b, enum trace_phase phase)
{
    static const char *const verbs[] = {"forward", "backward", "update"};
    uint32_t tensors = b->trace->tensor_count;
    uint32_t tensor = (uint32_t)g_rand_int_range(b->random, 0, (gint32)tensors);
    bool on_host = g_rand_int_range(b->random, 0, 3) == 0;
    begin_operator(b, verbs[phase], tensor, phase, on_host ? TRACE_ON_HOST : TRACE_ON_DEVICE);
    access_wildly(b, tensor);
    if (tensors > 1 && phase != TRACE_UPDATE_PHASE && g_rand_boolean(b->random))
        access_wildly(b, (tensor + 1) % tensors);
    if (!on_host && g_rand_boolean(b->random))
        add_buffer(b, b->operators->len - 1, b->operators->len - 1);
}

struct trace *wild_iteration(GRand *random)
{
    struct builder b = begin_trace(random);
    add_tensors(&b, (uint32_t)g_rand_int_range(random, 1, 4));
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++)
        for (int i = g_rand_int_range(random, phase == TRACE_FORWARD, 6); i > 0; i--)
            add_wild_operator(&b, (enum trace_phase)phase);
    return end_trace(&b);
}

/* Puts the operators from `first` on in this order, with their accesses. */
static void reorder(struct trace *trace, uint32_t first, const struct trace_operator *order)
{
    g_autofree struct trace_access *accesses = g_memdup2(trace->accesses,
                                                         trace->access_count * sizeof *accesses);
    uint32_t next = trace->operators[first].first_access;
    for (uint32_t m = first; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        *op = order[m - first];
        memcpy(trace->accesses + next, accesses + op->first_access,
               op->access_count * sizeof *accesses);
        op->first_access = next;
        next += op->access_count;
    }
}

void shuffle_updates(struct trace *trace, GRand *random)
{
    uint32_t first = trace->operator_count;
    while (first > 0 && trace->operators[first - 1].phase == TRACE_UPDATE_PHASE)
        first--;
    uint32_t count = trace->operator_count - first;
    g_autofree struct trace_operator *order = g_memdup2(trace->operators + first,
                                                        count * sizeof *order);
    for (uint32_t i = 0; i < count / 2 && !random; i++) {
        struct trace_operator op = order[i];
        order[i] = order[count - 1 - i];
        order[count - 1 - i] = op;
    }
    for (uint32_t i = count; i > 1 && random; i--) {
        uint32_t with = (uint32_t)g_rand_int_range(random, 0, (gint32)i);
        struct trace_operator op = order[i - 1];
        order[i - 1] = order[with];
        order[with] = op;
    }
    if (count)
        reorder(trace, first, order);
}

const struct pstar_policy_ops *random_policy(GRand *random)
{
    gint32 count = 0;
    while (policy_all[count])
        count++;
    return policy_all[g_rand_int_range(random, 0, count)];
}

guint32 random_seed(void)
{
    const char *given = g_getenv("PSTAR_SEED");
    guint32 seed = given ? (guint32)strtoul(given, NULL, 10) : (guint32)g_get_real_time();
    g_test_message("PSTAR_SEED=%u", seed);
    return seed;
}
