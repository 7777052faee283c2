#include "traces/import/kineto.h"

#include <string.h>

struct kineto_storages {
    const struct kineto_parts *parts;
    GHashTable *first_input; /* storage to whether its first use is an input */
    GHashTable *taken;       /* storages assigned to parameters */
};

static const struct kineto_use *use_at(const struct kineto_storages *storages, guint index)
{
    return &g_array_index(storages->parts->kineto->uses, struct kineto_use, index);
}

/* `parts` must outlive the result. Free with kineto_storages_free. */
static struct kineto_storages *kineto_storages_new(const struct kineto_parts *parts)
{
    struct kineto_storages *storages = g_new0(struct kineto_storages, 1);
    storages->parts = parts;
    storages->first_input = g_hash_table_new(NULL, NULL);
    storages->taken = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < parts->kineto->uses->len; i++) {
        const struct kineto_use *use = use_at(storages, i);
        gpointer key = GSIZE_TO_POINTER(use->storage);
        if (!g_hash_table_contains(storages->first_input, key))
            g_hash_table_insert(storages->first_input, key, GINT_TO_POINTER(!use->output));
    }
    return storages;
}

static void kineto_storages_free(struct kineto_storages *storages)
{
    g_hash_table_unref(storages->first_input);
    g_hash_table_unref(storages->taken);
    g_free(storages);
}

/* Returns the first use at or after the begin of the work. */
static guint first_use(const struct kineto_storages *storages, uint32_t work)
{
    uint64_t start_ns = kineto_work_at(storages->parts->step, work)->start_ns;
    guint low = 0, high = storages->parts->kineto->uses->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (use_at(storages, middle)->time_ns < start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool may_be(const struct kineto_storages *storages, const struct kineto_use *use,
                   uint64_t bytes)
{
    gpointer key = GSIZE_TO_POINTER(use->storage);
    return !use->output && use->bytes == bytes && !g_hash_table_contains(storages->taken, key) &&
           GPOINTER_TO_INT(g_hash_table_lookup(storages->first_input, key));
}

/* Returns 0 if there is none. */
static uint64_t find(const struct kineto_storages *storages, uint32_t work, uint64_t bytes)
{
    for (guint u = first_use(storages, work); u < first_use(storages, work + 1); u++)
        if (may_be(storages, use_at(storages, u), bytes))
            return use_at(storages, u)->storage;
    return 0;
}

/* Finds a storage of this size that the operator reads, that no operator made and no other
 * parameter has. Adds the tensor's reads of it in forward and backward. Returns false if there is
 * none. */
static bool kineto_storages_add_reads(struct kineto_storages *storages, uint32_t work,
                                      uint64_t bytes, tensor_id tensor)
{
    const struct kineto_parts *parts = storages->parts;
    uint64_t storage = find(storages, work, bytes);
    uint32_t at = 0;
    if (storage == 0)
        return false;
    g_hash_table_add(storages->taken, GSIZE_TO_POINTER(storage));
    for (guint u = first_use(storages, 0); u < parts->kineto->uses->len; u++) {
        const struct kineto_use *use = use_at(storages, u);
        while (at + 1 < parts->update &&
               kineto_work_at(parts->step, at + 1)->start_ns <= use->time_ns)
            at++;
        if (parts->update < parts->step->works->len &&
            use->time_ns >= kineto_work_at(parts->step, parts->update)->start_ns)
            break;
        struct kineto_access access = {at, {tensor, TRACE_PARAM, TRACE_READ, 0}};
        if (use->storage == storage && use->time_ns < parts->step->end_ns)
            g_array_append_val(parts->accesses, access);
    }
    return true;
}

/* Finds parameters by the gradients that are added to them. A gradient comes from a backward node,
 * which has the sequence number of the forward operator that made it. */

enum { UNKNOWN = UINT32_MAX };

struct parameter {
    const struct kineto_gradient *gradient; /* in the first micro-batch */
    uint32_t order;                         /* order in which gradients are added */
    uint32_t forward;                       /* the work that uses it, or UNKNOWN */
};

G_GNUC_PRINTF(2, 3)
static void note(const struct kineto_parts *parts, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_ptr_array_add(parts->notes, g_strdup_vprintf(format, arguments));
    va_end(arguments);
}

static const char *text(const struct kineto_parts *parts, uint32_t string)
{
    return string == 0 ? "" : string_table_text(parts->kineto->strings, string);
}

static const struct kineto_gradient *gradient_at(const struct kineto_parts *parts, uint32_t index)
{
    return &g_array_index(parts->step->gradients, struct kineto_gradient, index);
}

/* Returns the last forward operator of the micro-batch whose number is at most the node's. An
 * operator has the number that its first node will get. */
static uint32_t find_forward(const struct kineto_step *step, uint32_t micro_batch,
                             uint64_t sequence)
{
    uint32_t found = UNKNOWN;
    if (sequence == KINETO_NO_SEQUENCE || sequence > step->highest_forward)
        return UNKNOWN;
    for (uint32_t i = 0; i < step->works->len; i++) {
        const struct kineto_work *work = kineto_work_at(step, i);
        if (work->phase == TRACE_FORWARD && work->micro_batch == micro_batch &&
            work->sequence != KINETO_NO_SEQUENCE && work->sequence <= sequence)
            found = i;
    }
    return found;
}

static uint32_t micro_batch_of(const struct kineto_parts *parts,
                               const struct kineto_gradient *gradient)
{
    return kineto_work_at(parts->step, gradient->work)->micro_batch;
}

static int by_use(const void *left, const void *right)
{
    const struct parameter *a = (const struct parameter *)left;
    const struct parameter *b = (const struct parameter *)right;
    if (a->forward != b->forward)
        return a->forward < b->forward ? -1 : 1;
    return (a->order < b->order) - (a->order > b->order); /* backward runs in reverse order */
}

/* Returns the parameters in the order of their first use. */
static GArray *find_parameters(const struct kineto_parts *parts)
{
    GArray *parameters = g_array_new(FALSE, FALSE, sizeof(struct parameter));
    for (uint32_t g = 0; g < parts->step->gradients->len; g++) {
        const struct kineto_gradient *gradient = gradient_at(parts, g);
        struct parameter parameter = {gradient, g,
                                      find_forward(parts->step, 0, gradient->sequence)};
        if (micro_batch_of(parts, gradient) == 0)
            g_array_append_val(parameters, parameter);
    }
    g_array_sort(parameters, by_use);
    return parameters;
}

/* Returns the end of a sentence that says why there is no iteration. The order of starts, without
 * times, does not always tell where backward ends: PyTorch's observer loses its place where a
 * checkpoint ends its recomputation early. */
static const char *advice(const struct kineto_parts *parts)
{
    return parts->kineto->untimed
               ? "; the order of operators alone does not always tell where "
                 "backward ends: give the profiler's file of the same run with --times"
               : "";
}

/* Checks that every micro-batch adds the same gradients in the same order. */
static bool check_micro_batches(const struct kineto_parts *parts, uint32_t count)
{
    const struct kineto_step *step = parts->step;
    bool ok = step->gradients->len == (uint64_t)count * step->micro_batches;
    for (uint32_t g = 0; ok && g < step->gradients->len; g++)
        ok = micro_batch_of(parts, gradient_at(parts, g)) == g / count &&
             gradient_at(parts, g)->elements == gradient_at(parts, g % count)->elements;
    if (!ok)
        note(parts, "the iteration: its %u passes do not add the same gradients%s",
             step->micro_batches, advice(parts));
    return ok;
}

static uint8_t element_bytes(const char *type)
{
    static const struct {
        const char *type;
        uint8_t bytes;
    } types[] = {{"double", 8}, {"float", 4}, {"c10::BFloat16", 2}, {"c10::Half", 2}};
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].bytes;
    return 0;
}

/* Checks that sizes are known, and notes element types that differ. */
static bool check_sizes(const struct kineto_parts *parts, const GArray *parameters)
{
    uint32_t other = 0;
    if (parameters->len == 0) {
        note(parts, "the iteration: no gradient was added to a parameter's%s",
             parts->kineto->untimed ? advice(parts)
                                    : "; record a training step with backward() of a model whose "
                                      "parameters need gradients");
        return false;
    }
    const struct parameter *first = &g_array_index(parameters, struct parameter, 0);
    for (guint p = 0; p < parameters->len; p++) {
        const struct kineto_gradient *gradient =
            g_array_index(parameters, struct parameter, p).gradient;
        if (gradient->elements == 0 || element_bytes(text(parts, gradient->type)) == 0) {
            note(parts, "the iteration: the sizes of parameters are not known; record with "
                        "record_shapes=True");
            return false;
        }
        other += gradient->type != first->gradient->type;
    }
    if (other > 0)
        note(parts, "the widths of %u parameters' elements: they are not %s, as is assumed", other,
             text(parts, first->gradient->type));
    return true;
}

/* ---- the optimizer's states ---- */

/* Counts the outermost operators of a range, such as "aten::mul_" and "aten::_foreach_mul_" for
 * "mul_". */
static uint32_t count_calls(const struct kineto_parts *parts, const struct kineto_range *range,
                            const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = parts->update; i < parts->step->works->len; i++) {
        const struct kineto_work *work = kineto_work_at(parts->step, i);
        const char *called = text(parts, work->range->name);
        if (work->start_ns < range->start_ns || work->start_ns >= range->end_ns)
            continue;
        called += g_str_has_prefix(called, "aten::") ? strlen("aten::") : 0;
        called += g_str_has_prefix(called, "_foreach_") ? strlen("_foreach_") : 0;
        count += strcmp(called, name) == 0;
    }
    return count;
}

/* Momentum is what SGD multiplies. Its fused operator does not show it. */
static uint32_t states_of_sgd(const struct kineto_parts *parts, const struct kineto_range *range)
{
    bool fused = count_calls(parts, range, "_fused_sgd_") > 0;
    if (fused)
        note(parts, "whether the fused SGD has momentum: it is counted as having it");
    return fused || count_calls(parts, range, "mul_") > 0 ? 1 : 0;
}

/* RMSprop multiplies the mean of squares, to which it then adds the square, and its momentum if it
 * has one. Only with `centered` it has the mean of gradients. */
static uint32_t states_of_rmsprop(const struct kineto_parts *parts,
                                  const struct kineto_range *range)
{
    bool centered = count_calls(parts, range, "lerp_") > 0;
    bool momentum = count_calls(parts, range, "mul_") > count_calls(parts, range, "addcmul_");
    return 1 + centered + momentum;
}

/* With `amsgrad`, Adam and AdamW also keep the largest mean of squares. */
static uint32_t states_of_adam(const struct kineto_parts *parts, const struct kineto_range *range)
{
    return count_calls(parts, range, "maximum") + count_calls(parts, range, "maximum_") > 0 ? 3 : 2;
}

/* Returns how many states of the parameters' width an optimizer keeps. Notes those that are not
 * counted or not known. AdamW8bit, AdamWFp8 and their kin keep narrower ones. */
static uint32_t states_of(const struct kineto_parts *parts, const struct kineto_range *range,
                          const char *name)
{
    static const struct {
        const char *name;
        uint32_t states;
    } known[] = {{"Adadelta", 2}, {"Adagrad", 1}, {"Adamax", 2}, {"ASGD", 1},
                 {"Lion", 1},     {"Muon", 1},    {"Rprop", 2}};
    if (strcmp(name, "SGD") == 0)
        return states_of_sgd(parts, range);
    if (strcmp(name, "RMSprop") == 0)
        return states_of_rmsprop(parts, range);
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].states;
    if (strcmp(name, "Adafactor") == 0) {
        note(parts, "the states of Adafactor: they are not counted, because those of matrices are "
                    "one value per row and per column; its first moments, if it has them, are "
                    "missing");
        return 0;
    }
    if (strstr(name, "Adam") && !strstr(name, "bit") && !strstr(name, "Fp8"))
        return states_of_adam(parts, range);
    note(parts, "the states of the optimizer %s: those of AdamW are assumed", name);
    return 2;
}

/* Returns the most that one of the step's optimizers keeps, because all parameters have the same
 * lists; UNKNOWN if the file has no optimizer. */
static uint32_t find_states(const struct kineto_parts *parts)
{
    const GArray *ranges = parts->kineto->ranges;
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    uint32_t most = 0, least = UNKNOWN;
    for (guint i = 0; i < ranges->len; i++) {
        const struct kineto_range *range = &g_array_index(ranges, struct kineto_range, i);
        const char *name = text(parts, range->name);
        if (!range->annotation || range->start_ns < parts->step->start_ns ||
            range->start_ns >= parts->step->end_ns || !g_str_has_prefix(name, KINETO_OPTIMIZER))
            continue;
        name += strlen(KINETO_OPTIMIZER);
        g_autofree char *optimizer = g_strndup(name, strcspn(name, "."));
        if (g_hash_table_contains(seen, optimizer))
            continue;
        uint32_t states = states_of(parts, range, optimizer);
        most = MAX(most, states);
        least = MIN(least, states);
        g_hash_table_add(seen, g_steal_pointer(&optimizer));
    }
    if (least < most)
        note(parts,
             "which parameters each of the %u optimizers has: %u states are counted for all of "
             "them",
             g_hash_table_size(seen), most);
    return least == UNKNOWN ? UNKNOWN : most;
}

/* Returns how many values per element the optimizer keeps beside the gradient. */
static uint32_t count_states(const struct kineto_parts *parts)
{
    if (parts->update == parts->step->works->len) {
        note(parts, "the update: nothing follows backward");
        return 0;
    }
    uint32_t states = find_states(parts);
    if (states == UNKNOWN)
        note(parts, "the optimizer's states: those of AdamW are assumed");
    return states == UNKNOWN ? 2 : states;
}

static void set_lists(const struct kineto_parts *parts, const char *type)
{
    uint8_t bytes = element_bytes(type);
    uint32_t states = count_states(parts);
    uint8_t *lists = parts->trace->list_element_bytes;
    lists[TRACE_PARAM] = lists[TRACE_GRAD] = bytes;
    lists[TRACE_EXP_AVG] = states > 0 ? bytes : 0;
    lists[TRACE_EXP_AVG_SQ] = states > 1 ? bytes : 0;
    lists[TRACE_MASTER] = states > 2 ? bytes : 0; /* as for any recorded third state */
    parts->trace->precision = g_strdup(strcmp(type, "float") == 0           ? "fp32"
                                       : strcmp(type, "c10::BFloat16") == 0 ? "bf16"
                                       : strcmp(type, "c10::Half") == 0     ? "fp16"
                                                                            : "fp64");
}

static void add_access(const struct kineto_parts *parts, uint32_t work, uint32_t tensor,
                       enum trace_list list, enum trace_mode mode)
{
    struct kineto_access access = {work, {tensor, (uint8_t)list, (uint8_t)mode, 0}};
    g_array_append_val(parts->accesses, access);
}

/* Returns [works] the forward operator that made each node; UNKNOWN for other works. */
static uint32_t *find_makers(const struct kineto_step *step)
{
    uint32_t *makers = g_new(uint32_t, step->works->len);
    for (uint32_t i = 0; i < step->works->len; i++) {
        const struct kineto_work *work = kineto_work_at(step, i);
        makers[i] = work->phase == TRACE_BACKWARD
                        ? find_forward(step, work->micro_batch, work->sequence)
                        : UNKNOWN;
    }
    return makers;
}

/* The forward operator reads the parameter, and so do the nodes that it made. The last of them adds
 * the gradient. */
static void add_uses(const struct kineto_parts *parts, uint32_t tensor,
                     const struct kineto_gradient *gradient, const uint32_t *makers)
{
    uint32_t micro_batch = micro_batch_of(parts, gradient);
    uint32_t forward = find_forward(parts->step, micro_batch, gradient->sequence);
    if (forward != UNKNOWN)
        add_access(parts, forward, tensor, TRACE_PARAM, TRACE_READ);
    for (uint32_t i = forward; i < gradient->work; i++)
        if (makers[i] == forward)
            add_access(parts, i, tensor, TRACE_PARAM, TRACE_READ);
    add_access(parts, gradient->work, tensor, TRACE_PARAM, TRACE_READ);
    add_access(parts, gradient->work, tensor, TRACE_GRAD,
               micro_batch == 0 ? TRACE_OVERWRITE : TRACE_UPDATE);
}

/* ---- frozen parameters, to which no gradient is added ---- */

/* The use of a weight by an operator of forward. */
struct weight {
    uint32_t work;
    uint32_t shape;    /* string */
    uint64_t elements; /* 0 if the operator uses no weight */
};

static uint64_t elements_of(const char *shape)
{
    uint64_t product = 1;
    for (const char *at = shape + 1; *at; at += strcspn(at, ",") + (strchr(at, ',') ? 1 : 0))
        product *= g_ascii_strtoull(g_ascii_isspace(*at) ? at + 1 : at, NULL, 10);
    return product;
}

/* Returns the weight that a linear layer, an embedding or a convolution uses. */
static struct weight weight_of(const struct kineto_parts *parts, uint32_t work)
{
    const struct kineto_range *range = kineto_work_at(parts->step, work)->range;
    const char *name = text(parts, range->name);
    bool second = strcmp(name, "aten::linear") == 0 || g_str_has_prefix(name, "aten::conv");
    uint32_t shape = second                                 ? range->second_shape
                     : strcmp(name, "aten::embedding") == 0 ? range->shape
                                                            : 0;
    bool known = shape && kineto_work_at(parts->step, work)->phase == TRACE_FORWARD;
    return (struct weight){work, shape, known ? elements_of(text(parts, shape)) : 0};
}

/* Removes the first weight for which `by_work` says that the operator, or else the shape, is that
 * of a gradient. */
static bool remove_trained(const struct kineto_parts *parts, GArray *weights,
                           const struct kineto_gradient *gradient, bool by_work)
{
    uint32_t forward = find_forward(parts->step, micro_batch_of(parts, gradient),
                                    gradient->sequence);
    for (guint w = 0; w < weights->len; w++) {
        const struct weight *weight = &g_array_index(weights, struct weight, w);
        if (weight->shape == gradient->shape && (!by_work || weight->work == forward)) {
            g_array_remove_index(weights, w);
            return true;
        }
    }
    return false;
}

/* Returns the weights of a micro-batch's forward that are frozen: those for which no gradient is
 * left. A gradient of a weight that was converted first comes from the conversion, so it takes away
 * another weight of its shape. */
static GArray *find_frozen(const struct kineto_parts *parts, uint32_t micro_batch)
{
    GArray *weights = g_array_new(FALSE, FALSE, sizeof(struct weight));
    g_autofree uint8_t *matched = g_new0(uint8_t, parts->step->gradients->len + 1);
    for (uint32_t i = 0; i < parts->step->works->len; i++) {
        struct weight weight = weight_of(parts, i);
        if (weight.elements && kineto_work_at(parts->step, i)->micro_batch == micro_batch)
            g_array_append_val(weights, weight);
    }
    for (int by_work = 1; by_work >= 0; by_work--)
        for (uint32_t g = 0; g < parts->step->gradients->len; g++)
            if (!matched[g] && micro_batch_of(parts, gradient_at(parts, g)) == micro_batch)
                matched[g] = remove_trained(parts, weights, gradient_at(parts, g), by_work);
    return weights;
}

static void add_frozen_uses(const struct kineto_parts *parts, uint32_t tensor, uint32_t forward,
                            const uint32_t *makers)
{
    add_access(parts, forward, tensor, TRACE_PARAM, TRACE_READ);
    for (uint32_t i = forward; i < parts->update; i++)
        if (makers[i] == forward)
            add_access(parts, i, tensor, TRACE_PARAM, TRACE_READ);
}

static void add_frozen_tensor(const struct kineto_parts *parts, const struct weight *weight)
{
    struct trace *trace = parts->trace;
    struct trace_tensor tensor = {.name = g_strdup_printf("frozen parameter %u %s",
                                                          trace->tensor_count,
                                                          text(parts, weight->shape)),
                                  .elements = weight->elements};
    for (int list = TRACE_GRAD; list < TRACE_LISTS; list++)
        tensor.absent |= (uint8_t)((trace->list_element_bytes[list] > 0) << list);
    trace->tensors = g_renew(struct trace_tensor, trace->tensors, trace->tensor_count + 1);
    trace->tensors[trace->tensor_count++] = tensor;
}

/* Returns whether each gradient is that of several parameters, flat in one piece, which ranks sum
 * in parts (FSDP's first version). A piece is filled up to a multiple of the ranks. */
static bool are_flat(const struct kineto_parts *parts)
{
    bool flat = parts->exchanges->len > 0;
    for (uint32_t g = 0; flat && g < parts->step->gradients->len; g++) {
        const struct kineto_gradient *gradient = gradient_at(parts, g);
        flat = false;
        for (guint i = 0; !flat && i < parts->exchanges->len; i++) {
            const struct kineto_collective *exchange = kineto_exchange_at(parts, i);
            flat = exchange->exchange == KINETO_SCATTER &&
                   exchange->elements >= gradient->elements &&
                   exchange->elements - gradient->elements < exchange->ranks &&
                   !strchr(text(parts, gradient->shape), ',');
        }
    }
    return flat;
}

/* If storages are known, a weight that another operator uses, too, is one tensor. */
static void add_frozen(const struct kineto_parts *parts, struct kineto_storages *storages,
                       const uint32_t *makers)
{
    const struct trace *trace = parts->trace;
    g_autoptr(GArray) frozen = find_frozen(parts, 0);
    uint32_t trained = trace->tensor_count;
    bool known = parts->kineto->uses->len > 0;
    for (guint w = 0; w < frozen->len; w++) {
        const struct weight *weight = &g_array_index(frozen, struct weight, w);
        uint64_t bytes = weight->elements * trace->list_element_bytes[TRACE_PARAM];
        if (!known || kineto_storages_add_reads(storages, weight->work, bytes, trace->tensor_count))
            add_frozen_tensor(parts, weight);
    }
    for (uint32_t b = 0; !known && frozen->len && b < parts->step->micro_batches; b++) {
        g_autoptr(GArray) again = find_frozen(parts, b);
        for (guint w = 0; w < MIN(again->len, frozen->len); w++)
            add_frozen_uses(parts, trained + w, g_array_index(again, struct weight, w).work,
                            makers);
    }
    if (trace->tensor_count > trained)
        note(parts,
             "frozen parameters other than %u weights of linear layers, embeddings and "
             "convolutions, to which no gradient is added%s",
             trace->tensor_count - trained, known ? "" : "; one that is used twice counts twice");
}

static void add_tensors(struct kineto_parts *parts, const GArray *parameters)
{
    struct trace *trace = parts->trace;
    g_autofree uint32_t *makers = find_makers(parts->step);
    struct kineto_storages *storages = kineto_storages_new(parts);
    uint32_t unknown = 0, untold = 0;
    trace->tensor_count = parameters->len;
    trace->tensors = g_new0(struct trace_tensor, parameters->len);
    for (uint32_t t = 0; t < parameters->len; t++) {
        const struct parameter *parameter = &g_array_index(parameters, struct parameter, t);
        trace->tensors[t] = (struct trace_tensor){
            .name = g_strdup_printf("parameter %u %s", t, text(parts, parameter->gradient->shape)),
            .elements = parameter->gradient->elements};
        unknown += parameter->forward == UNKNOWN;
        untold += parameter->forward == UNKNOWN ||
                  !kineto_storages_add_reads(
                      storages, parameter->forward,
                      parameter->gradient->elements * trace->list_element_bytes[TRACE_PARAM], t);
        for (uint32_t b = 0; b < parts->step->micro_batches; b++) {
            const struct kineto_gradient *gradient =
                gradient_at(parts, parameter->order + b * parameters->len);
            add_uses(parts, t, gradient, makers);
        }
    }
    note(parts, "the names of parameters: they are numbered in the order of their use");
    parts->trained = parameters->len;
    if (are_flat(parts))
        note(parts,
             "which operators use which parameter: those of a module lie in one piece, which "
             "one operator of forward splits; frozen ones are in it");
    else
        add_frozen(parts, storages, makers);
    kineto_storages_free(storages);
    if (untold > 0)
        note(parts,
             "uses of %u parameters other than the one their gradient came from last (tied "
             "weights)",
             untold);
    if (unknown > 0)
        note(parts, "where forward uses %u of the %u parameters", unknown, parameters->len);
}

/* Returns whether the file has an optimizer whose update does not follow backward. */
static bool lost_update(const struct kineto_parts *parts)
{
    const GArray *ranges = parts->kineto->ranges;
    bool lost = false;
    for (guint i = 0; i < ranges->len; i++)
        lost = lost ||
               g_str_has_prefix(text(parts, g_array_index(ranges, struct kineto_range, i).name),
                                KINETO_OPTIMIZER);
    lost = lost && parts->kineto->untimed && parts->update == parts->step->works->len;
    if (lost)
        note(parts, "the iteration: nothing follows backward, but the file has an optimizer%s",
             advice(parts));
    return lost;
}

bool kineto_find_tensors(struct kineto_parts *parts)
{
    GArray *parameters = find_parameters(parts);
    bool ok = check_sizes(parts, parameters) && check_micro_batches(parts, parameters->len) &&
              !lost_update(parts);
    if (ok) {
        set_lists(parts,
                  text(parts, g_array_index(parameters, struct parameter, 0).gradient->type));
        add_tensors(parts, parameters);
        if (parts->trace->ranks > 1 && !parts->trace->whole_gradients &&
            parts->trace->list_element_bytes[TRACE_GRAD] < 4)
            note(parts,
                 "the widths of the ranks' shards: those of gradients in backward, %s, are "
                 "assumed",
                 parts->trace->precision);
        if (parts->step->inputs)
            note(parts, "gradients of %u inputs of reentrant checkpoints: they are no parameters",
                 parts->step->inputs);
    }
    g_array_unref(parameters);
    return ok;
}
