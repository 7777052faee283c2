#include "engine/bf16.h"
#include "engine/engine_state.h"

void engine_widen(enum model_precision precision, uint64_t count, float *values)
{
    const uint16_t *halves = (const uint16_t *)values;
    /* From the end: each element is read before its place is written over. */
    for (uint64_t i = count; precision == MODEL_BF16 && i-- > 0;) {
        uint16_t half;
        memcpy(&half, halves + i, sizeof half);
        values[i] = bf16_widen(half);
    }
}

struct place {
    enum device_memory memory;
    uint64_t address;
};

/* Before the start everything lies at home; afterwards flushed host-homed chunks do. */
static struct place locate(const struct engine *engine, uint32_t tensor, enum trace_list list,
                           uint64_t first)
{
    const struct plan *plan = engine->executor.plan;
    const struct layout_place *at = &plan->layout->places[list][tensor];
    uint64_t offset = at->offset +
                      first * engine->executor.iteration->trace->list_element_bytes[list];
    if (plan->host_address[at->chunk] != NO_ADDRESS)
        return (struct place){DEVICE_HOST_POOL, plan->host_address[at->chunk] + offset};
    return (struct place){DEVICE_ARENA, residency_address(engine->residency, at->chunk) + offset};
}

static void read_at(struct engine *engine, uint32_t tensor, enum trace_list list, uint64_t first,
                    uint64_t count, void *to)
{
    struct place place = locate(engine, tensor, list, first);
    uint64_t element = engine->executor.iteration->trace->list_element_bytes[list];
    engine->device->ops->read(engine->device, place.memory, place.address, count * element, to);
}

static void write_at(struct engine *engine, uint32_t tensor, enum trace_list list, uint64_t first,
                     uint64_t count, const void *from)
{
    struct place place = locate(engine, tensor, list, first);
    uint64_t element = engine->executor.iteration->trace->list_element_bytes[list];
    engine->device->ops->write(engine->device, place.memory, place.address, count * element, from);
}

static bool is_split(const struct engine *engine, enum trace_list list)
{
    return list == TRACE_MASTER && engine->executor.iteration->job.choices.split_masters;
}

static void read_split(struct engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                       float *values)
{
    g_autofree uint16_t *halves = g_new(uint16_t, 2 * count);
    uint16_t *rests = halves + count;
    read_at(engine, tensor, TRACE_PARAM, first, count, halves);
    read_at(engine, tensor, TRACE_MASTER, first, count, rests);
    for (uint64_t i = 0; i < count; i++)
        values[i] = bf16_join(halves[i], rests[i]);
}

static bool store_read(void *self, uint32_t tensor, enum trace_list list, uint64_t first,
                       uint64_t count, float *values, GError **error)
{
    struct engine *engine = self;
    uint8_t element = engine->executor.iteration->trace->list_element_bytes[list];
    (void)error;
    if (is_split(engine, list)) {
        read_split(engine, tensor, first, count, values);
    } else {
        read_at(engine, tensor, list, first, count, values);
        engine_widen(element == 2 ? MODEL_BF16 : MODEL_FP32, count, values);
    }
    return true;
}

static void write_rounded(struct engine *engine, uint32_t tensor, enum trace_list list,
                          uint64_t first, uint64_t count, const float *values)
{
    g_autofree uint16_t *halves = g_new(uint16_t, count);
    for (uint64_t i = 0; i < count; i++)
        halves[i] = bf16_round(values[i]);
    write_at(engine, tensor, list, first, count, halves);
}

static void write_rest(struct engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                       const float *values)
{
    g_autofree uint16_t *rests = g_new(uint16_t, count);
    for (uint64_t i = 0; i < count; i++)
        rests[i] = bf16_rest(values[i]);
    write_at(engine, tensor, TRACE_MASTER, first, count, rests);
}

static bool store_write(void *self, uint32_t tensor, enum trace_list list, uint64_t first,
                        uint64_t count, const float *values, GError **error)
{
    struct engine *engine = self;
    const struct trace *trace = engine->executor.iteration->trace;
    (void)error;
    g_assert(!engine->started);
    if (is_split(engine, list))
        write_rest(engine, tensor, first, count, values);
    else if (trace->list_element_bytes[list] == 2)
        write_rounded(engine, tensor, list, first, count, values);
    else
        write_at(engine, tensor, list, first, count, values);
    if (list == TRACE_MASTER)
        write_rounded(engine, tensor, TRACE_PARAM, first, count, values);
    if (list == weights_list(trace) &&
        tensor_use_state(engine->executor.use, tensor) != TENSOR_HOLD)
        tensor_use_fill(engine->executor.use, tensor);
    return true;
}

struct weights_store engine_store(struct engine *engine)
{
    return (struct weights_store){.self = engine, .read = store_read, .write = store_write};
}
