/* What a plan depends on, put into bytes in one way on every machine, and digested. */
#include "traces/trace.h"

#include <string.h>

enum { FLUSH_BYTES = 1 << 16 };

struct digester {
    GChecksum *checksum;
    GByteArray *pending; /* fields are short: they are digested many at a time */
};

static void flush(struct digester *digester)
{
    g_checksum_update(digester->checksum, digester->pending->data, (gssize)digester->pending->len);
    g_byte_array_set_size(digester->pending, 0);
}

static void add_number(struct digester *digester, uint64_t number)
{
    uint64_t little_endian = GUINT64_TO_LE(number);
    g_byte_array_append(digester->pending, (const guint8 *)&little_endian, sizeof little_endian);
    if (digester->pending->len >= FLUSH_BYTES)
        flush(digester);
}

static void add_text(struct digester *digester, const char *text)
{
    size_t length = !text ? 0 : strlen(text);
    add_number(digester, length);
    if (length > 0)
        g_byte_array_append(digester->pending, (const guint8 *)text, (guint)length);
}

static void add_tensors(struct digester *digester, const struct trace *trace)
{
    for (int list = 0; list < TRACE_LISTS; list++)
        add_number(digester, trace->list_element_bytes[list]);
    add_number(digester, trace->tensor_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        add_text(digester, trace->tensors[i].name);
        add_number(digester, trace->tensors[i].elements);
    }
}

static void add_operators(struct digester *digester, const struct trace *trace)
{
    add_number(digester, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        add_text(digester, op->name);
        add_number(digester, op->place);
        add_number(digester, op->h2d_bytes);
        add_number(digester, op->d2h_bytes);
        add_number(digester, op->access_count);
        for (uint32_t i = 0; i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            add_number(digester, access->tensor);
            add_number(digester, access->list);
            add_number(digester, access->mode);
        }
    }
}

static void add_non_model(struct digester *digester, const struct trace *trace)
{
    add_number(digester, trace->buffer_count);
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        add_number(digester, trace->buffers[i].bytes);
        add_number(digester, trace->buffers[i].first);
        add_number(digester, trace->buffers[i].last);
    }
    if (trace->buffer_count == 0)
        for (uint32_t m = 0; m < trace->operator_count; m++)
            add_number(digester, trace->non_model_bytes[m]);
}

char *trace_digest(const struct trace *trace)
{
    struct digester digester = {
        .checksum = g_checksum_new(G_CHECKSUM_SHA256),
        .pending = g_byte_array_sized_new(FLUSH_BYTES),
    };
    add_text(&digester, trace->precision);
    add_number(&digester, trace->batch);
    add_number(&digester, trace->sequence);
    add_number(&digester, trace->micro_batches);
    add_tensors(&digester, trace);
    add_operators(&digester, trace);
    add_non_model(&digester, trace);
    flush(&digester);
    char *digest = g_strdup(g_checksum_get_string(digester.checksum));
    g_byte_array_unref(digester.pending);
    g_checksum_free(digester.checksum);
    return digest;
}
