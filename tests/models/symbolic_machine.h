/* The machine that computes on symbols: its buffers and lists, of which an operator reads and
 * writes what the trace lets it. */
#ifndef PSTAR_TESTS_MODELS_SYMBOLIC_MACHINE_H
#define PSTAR_TESTS_MODELS_SYMBOLIC_MACHINE_H

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

static inline symbol mix(symbol a, symbol b)
{
    symbol h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    return (h ^ (h >> 33)) | 1;
}

static inline symbol mix_text(const char *text, symbol a)
{
    return mix(g_str_hash(text), a);
}

static inline const struct trace_access *access_of(const struct machine *m, uint32_t tensor,
                                                   int list)
{
    const struct trace *trace = m->iteration->trace;
    for (uint32_t i = 0; i < m->traced->access_count; i++) {
        const struct trace_access *access = &trace->accesses[m->traced->first_access + i];
        if (access->tensor == tensor && access->list == list)
            return access;
    }
    return NULL;
}

static inline symbol read_tensor(const struct machine *m, uint32_t tensor, int list)
{
    const struct trace_access *access = access_of(m, tensor, list);
    g_assert_nonnull(access);
    g_assert_cmpint(access->mode, !=, TRACE_OVERWRITE);
    g_assert_cmpuint(m->lists[list][tensor], !=, 0);
    return m->lists[list][tensor];
}

static inline void write_tensor(struct machine *m, uint32_t tensor, int list, symbol value)
{
    const struct trace_access *access = access_of(m, tensor, list);
    g_assert_nonnull(access);
    g_assert_cmpint(access->mode, !=, TRACE_READ);
    m->lists[list][tensor] = value;
}

static inline symbol weight(const struct machine *m)
{
    return read_tensor(m, m->op->t[0], TRACE_PARAM);
}

static inline void check_alive(const struct machine *m, uint32_t buffer)
{
    g_assert_cmpuint(buffer, <, m->iteration->trace->buffer_count);
    const struct trace_buffer *b = &m->iteration->trace->buffers[buffer];
    g_assert_cmpuint(b->first, <=, m->moment);
    g_assert_cmpuint(b->last, >=, m->moment);
}

static inline bool is_experts(const struct machine *m)
{
    return m->op->expert != NO_INDEX;
}

static inline gpointer part_key(const struct machine *m, uint32_t buffer)
{
    gsize experts = MAX(m->iteration->config->experts, 1);
    return GSIZE_TO_POINTER(buffer * experts + m->op->expert + 1);
}

/* Of a buffer that experts share, the expert's rows, if experts have written it. */
static inline symbol value_of(const struct machine *m, uint32_t buffer)
{
    gpointer part;
    if (is_experts(m) && g_hash_table_lookup_extended(m->parts, part_key(m, buffer), NULL, &part))
        return GPOINTER_TO_SIZE(part);
    return is_experts(m) ? mix(m->buffers[buffer], m->op->expert) : m->buffers[buffer];
}

/* Returns the operator's input, which must be alive. */
static inline symbol in(const struct machine *m, int i)
{
    check_alive(m, m->op->in[i]);
    g_assert_cmpuint(m->buffers[m->op->in[i]], !=, 0);
    return value_of(m, m->op->in[i]);
}

/* Returns the operator's output, once it has been set. */
static inline symbol made(const struct machine *m, int i)
{
    return value_of(m, m->op->out[i]);
}

/* Writes a buffer; where experts share it, the rows of this one. */
static inline void set(struct machine *m, uint32_t buffer, symbol value)
{
    bool shared = is_experts(m) && buffer != m->op->workspace && buffer != m->op->gradient[0];
    check_alive(m, buffer);
    if (shared)
        g_hash_table_insert(m->parts, part_key(m, buffer), GSIZE_TO_POINTER(value));
    m->buffers[buffer] = shared ? m->buffers[buffer] + mix(value, m->op->expert) : value;
    g_assert_cmpuint(m->buffers[buffer], !=, 0);
}

/* Returns whether GELU's derivative is joined to the product behind it. */
static inline bool is_joined(const struct machine *m)
{
    return m->op->kind == MODEL_RESIDUAL_BACKWARD && m->op->in[2] != NO_INDEX;
}

#endif
