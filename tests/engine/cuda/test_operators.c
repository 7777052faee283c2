/* Runs every operator of whole iterations on the CUDA device, with its emulated kernels and a model
 * of cuBLASLt, and on the CPU device. Each starts from the memory that the CPU device left. */
#include "engine/cuda/operators.h"
#include "engine/host/host_operators.h"
#include "engine/rotary.h"
#include "kernel_runs.h"
#include "models/train_choice.h"
#include "tests/drawn.h"
#include "tests/engine/kernels/fixture.h"
#include "tests/models/family_parts.h"
#include "tests/sanitized.h"

#include <math.h>

enum { GAP = 256 }; /* between regions, where nothing may write */

/* A tensor in a list, or a buffer. */
struct region {
    const char *name;
    uint64_t address, bytes;
    enum model_precision precision;
};

struct run {
    const struct model_iteration *iteration;
    GArray *regions; /* struct region: [tensor, list], then buffers */
    uint64_t bytes;
    uint8_t *cpu, *cuda; /* the arenas */
    double *cpu_norms, *cuda_norms;
    double cpu_loss, *cuda_loss;
    struct host_operators *cpu_operators;
    struct cuda_operators *cuda_operators;
};

static struct region *tensor_region(const struct run *run, uint32_t tensor, int list)
{
    return &g_array_index(run->regions, struct region, tensor * TRACE_LISTS + (uint32_t)list);
}

static struct region *buffer_region(const struct run *run, uint32_t buffer)
{
    return &g_array_index(run->regions, struct region,
                          run->iteration->trace->tensor_count * TRACE_LISTS + buffer);
}

static void add_region(struct run *run, const char *name, uint64_t bytes,
                       enum model_precision precision)
{
    struct region region = {name, run->bytes + GAP, bytes, precision};
    g_array_append_val(run->regions, region);
    run->bytes += GAP + (bytes + GAP - 1) / GAP * GAP;
}

static void lay_out(struct run *run)
{
    const struct trace *trace = run->iteration->trace;
    run->regions = g_array_new(FALSE, FALSE, sizeof(struct region));
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        for (int list = 0; list < TRACE_LISTS; list++) {
            uint8_t width = trace->list_element_bytes[list];
            add_region(run, trace->tensors[t].name, trace->tensors[t].elements * width,
                       width == sizeof(uint16_t) ? MODEL_BF16 : MODEL_FP32);
        }
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        add_region(run, trace->buffers[b].name, trace->buffers[b].bytes,
                   run->iteration->job.precision);
    run->bytes += GAP;
}

static void fill(struct run *run, const struct region *region, uint64_t elements)
{
    struct tensor *values = tensor_random(region->precision, elements, 0.3);
    memcpy(run->cpu + region->address, values->data, region->bytes);
    tensor_free(values);
}

/* Draws parameters and masters, clears moments, and sets the rest to NaN. */
static void fill_arena(struct run *run)
{
    const struct trace *trace = run->iteration->trace;
    memset(run->cpu, 0xff, run->bytes);
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        for (int list = 0; list < TRACE_LISTS; list++) {
            const struct region *region = tensor_region(run, t, list);
            if (region->bytes == 0)
                continue; /* no such list */
            if (list == TRACE_PARAM || list == TRACE_MASTER)
                fill(run, region, trace->tensors[t].elements);
            else if (list != TRACE_GRAD)
                memset(run->cpu + region->address, 0, region->bytes);
        }
}

static struct run run_new(const struct model_iteration *iteration)
{
    struct run run = {.iteration = iteration};
    GError *error = NULL;
    lay_out(&run);
    run.cpu = g_aligned_alloc(1, run.bytes, GAP);
    run.cuda = kernel_runs_new(run.bytes);
    run.cuda_loss = kernel_runs_new(sizeof(double));
    run.cpu_norms = g_new0(double, iteration->trace->tensor_count);
    run.cuda_norms = kernel_runs_new(iteration->trace->tensor_count * sizeof(double));
    fill_arena(&run);
    run.cpu_operators = host_operators_new(1, run.cpu, NULL);
    run.cuda_operators = cuda_operators_new(
        run.cuda, rotary_bytes(iteration->config, iteration->job.sequence), NULL, &error);
    g_assert_no_error(error);
    cuda_operators_join(run.cuda_operators);
    return run;
}

static void run_free(struct run *run)
{
    host_operators_free(run->cpu_operators);
    cuda_operators_free(run->cuda_operators);
    g_aligned_free(run->cpu);
    kernel_runs_free(run->cuda);
    kernel_runs_free(run->cuda_loss);
    g_free(run->cpu_norms);
    kernel_runs_free(run->cuda_norms);
    g_array_free(run->regions, TRUE);
}

/* ---- an operation with the regions' addresses ---- */

static uint64_t buffer_at(const struct run *run, uint32_t buffer)
{
    return buffer == NO_INDEX ? NO_ADDRESS : buffer_region(run, buffer)->address;
}

static void set_tensor(const struct run *run, const struct model_operator *op, int i,
                       struct operation_tensor *tensor)
{
    enum model_gradient layout = model_gradient_layout(&run->iteration->job);
    for (int list = 0; list < TRACE_LISTS; list++) {
        const struct region *region = tensor_region(run, op->t[i], list);
        tensor->address[list] = region->bytes ? region->address : NO_ADDRESS;
    }
    bool in_buffer = layout == MODEL_GRADIENT_BUFFER || op->frozen[i]; /* frozen: scratch or none */
    tensor->gradient = in_buffer                       ? buffer_at(run, op->gradient[i])
                       : layout == MODEL_GRADIENT_LIST ? tensor->address[TRACE_GRAD]
                                                       : tensor->address[TRACE_PARAM];
    tensor->elements = run->iteration->trace->tensors[op->t[i]].elements;
}

static struct operation describe(const struct run *run, const struct model_operator *op,
                                 bool training)
{
    const struct adamw_options adamw = {1e-2, 0.9, 0.99, 1e-8, 0.1, 0.5};
    struct operation operation = {
        .op = op,
        .name = run->iteration->trace->operators[op - run->iteration->operators].name,
        .config = run->iteration->config,
        .job = &run->iteration->job,
        .workspace = buffer_at(run, op->workspace),
        .masked = buffer_at(run, op->masked),
        .seed = 7,
        .pass = op->micro_batch,
        .training = training,
        .divisor = 11,
        .adamw = adamw_step_of(&adamw, 1),
    };
    for (int i = 0; i < MODEL_INPUTS; i++)
        operation.in[i] = buffer_at(run, op->in[i]);
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        operation.out[i] = buffer_at(run, op->out[i]);
    for (int i = 0; i < MODEL_TENSORS; i++) {
        operation.newest[i] = buffer_at(run, op->newest[i]);
        operation.tensor[i].gradient = op->frozen[i] ? buffer_at(run, op->gradient[i]) : NO_ADDRESS;
        for (int list = 0; list < TRACE_LISTS; list++)
            operation.tensor[i].address[list] = NO_ADDRESS;
        if (op->t[i] != NO_INDEX)
            set_tensor(run, op, i, &operation.tensor[i]);
    }
    return operation;
}

/* ---- comparison ---- */

static bool is_among(uint32_t buffer, const struct run *run, const struct region *region)
{
    return buffer != NO_INDEX && buffer_region(run, buffer) == region;
}

/* Sums and statistics are fp32 in either precision. */
static enum model_precision precision_of(const struct run *run, const struct model_operator *op,
                                         const struct region *region)
{
    bool stats = op->kind == MODEL_NORM_FORWARD || op->kind == MODEL_ATTENTION_FORWARD ||
                 op->kind == MODEL_GROUPED_FORWARD;
    return stats && is_among(op->out[1], run, region) ? MODEL_FP32 : region->precision;
}

static bool writes(const struct run *run, const struct model_operator *op,
                   const struct region *region)
{
    bool in_place = op->kind == MODEL_LOSS || op->kind == MODEL_GELU_BACKWARD ||
                    op->kind == MODEL_GATED_BACKWARD ||
                    (op->kind == MODEL_EMBED_BACKWARD && run->iteration->config->scaled_embedding);
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        if (is_among(op->out[i], run, region))
            return true;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        if (is_among(op->gradient[i], run, region))
            return true;
        for (int list = 0; list < TRACE_LISTS; list++)
            if (op->t[i] != NO_INDEX && !op->frozen[i] &&
                tensor_region(run, op->t[i], list) == region)
                return true;
    }
    return is_among(op->workspace, run, region) || is_among(op->masked, run, region) ||
           (in_place && is_among(op->in[0], run, region));
}

static const char *name_of(const struct run *run, const struct model_operator *op)
{
    return run->iteration->trace->operators[op - run->iteration->operators].name;
}

static double tolerance(const struct run *run)
{
    return run->iteration->job.precision == MODEL_BF16 ? 1.5e-2 : 1e-5;
}

static void assert_region(const struct run *run, const struct model_operator *op,
                          const struct region *region)
{
    const uint8_t *cpu = run->cpu + region->address, *cuda = run->cuda + region->address;
    enum model_precision precision = precision_of(run, op, region);
    uint64_t width = precision == MODEL_BF16 ? sizeof(uint16_t) : sizeof(float);
    uint64_t elements = region->bytes / width;
    double error = 0, norm = 0, most = 0;
    uint64_t worst = 0;
    if (memcmp(cpu, cuda, region->bytes) == 0)
        return;
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->frozen[i] && is_among(op->gradient[i], run, region))
            return; /* nobody reads it */
    if (is_among(op->workspace, run, region) && op->kind != MODEL_EMBED_BACKWARD)
        return; /* cuBLASLt rounds a gradient as it stores it */
    if (!writes(run, op, region))
        g_error("%s writes %s", name_of(run, op), region->name);
    struct tensor expected = {precision, elements, (void *)cpu, zeros(elements)};
    struct tensor found = {precision, elements, (void *)cuda, zeros(elements)};
    tensor_read(&expected);
    tensor_read(&found);
    for (uint64_t i = 0; i < elements; i++) {
        if (memcmp(cpu + i * width, cuda + i * width, width) == 0 && isnan(found.value[i]))
            continue; /* behind a buffer's last element */
        double difference = fabs(found.value[i] - expected.value[i]);
        if (!(difference <= most)) {
            most = difference;
            worst = i;
        }
        error += difference * difference;
        norm += pow(expected.value[i], 2);
    }
    if (!(sqrt(error) <= tolerance(run) * sqrt(norm)))
        g_error("%s (%s): %s is off by %.3g of the norm, most at element %" G_GUINT64_FORMAT
                ", which is %g instead of %g",
                name_of(run, op), model_kind_name(op->kind), region->name, sqrt(error / norm),
                worst, found.value[worst], expected.value[worst]);
    g_free(expected.value);
    g_free(found.value);
}

static void assert_near(const struct run *run, const struct model_operator *op, double cpu,
                        double cuda)
{
    if (!(fabs(cpu - cuda) <= tolerance(run) * fabs(cpu)))
        g_error("%s (%s): %.9g is not %.9g", name_of(run, op), model_kind_name(op->kind), cuda,
                cpu);
}

static void assert_gaps(const struct run *run)
{
    uint64_t end = 0;
    for (guint i = 0; i < run->regions->len; i++) {
        const struct region *region = &g_array_index(run->regions, struct region, i);
        for (uint64_t b = end; b < region->address; b++)
            if (run->cuda[b] != 0xff)
                g_error("a byte before %s was written", region->name);
        end = region->address + region->bytes;
    }
}

static void run_operator(struct run *run, const struct model_operator *op, bool training)
{
    struct operation operation = describe(run, op, training);
    struct operation on_cuda = operation;
    memcpy(run->cuda, run->cpu, run->bytes);
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->norms[i]) {
            operation.tensor[i].norm = &run->cpu_norms[op->t[i]];
            on_cuda.tensor[i].norm = &run->cuda_norms[op->t[i]];
        }
    operation.loss = &run->cpu_loss;
    on_cuda.loss = run->cuda_loss;
    host_operators_run(run->cpu_operators, &operation);
    char *why = cuda_operators_run(run->cuda_operators, &on_cuda);
    if (!why)
        why = cuda_operators_flush(run->cuda_operators);
    if (why)
        g_error("%s", why);
    kernel_runs_finish(operation.name);
    for (guint i = 0; i < run->regions->len; i++)
        assert_region(run, op, &g_array_index(run->regions, struct region, i));
    assert_gaps(run);
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->norms[i])
            assert_near(run, op, run->cpu_norms[op->t[i]], run->cuda_norms[op->t[i]]);
    if (op->kind == MODEL_LOSS)
        assert_near(run, op, run->cpu_loss, *run->cuda_loss);
}

/* Draws inputs and targets of the micro-batch into its buffer. Some targets do not count. */
static void draw_tokens(struct run *run, const struct model_operator *op)
{
    uint32_t count = 2 * run->iteration->job.choices.batch * run->iteration->job.sequence;
    uint32_t *tokens = random_tokens(count, run->iteration->config->vocabulary);
    for (uint32_t i = count / 2; i < count; i += 4)
        tokens[i] = KERNEL_NO_TARGET;
    memcpy(run->cpu + buffer_region(run, op->in[0])->address, tokens, count * sizeof *tokens);
    g_free(tokens);
}

static void check(const struct model_config *config, const struct model_job *job)
{
    GError *error = NULL;
    struct model_iteration *iteration = model_iteration_new(config, job, &error);
    g_assert_no_error(error);
    struct run run = run_new(iteration);
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        if (op->kind == MODEL_EMBED_FORWARD)
            draw_tokens(&run, op);
        if (op->kind == MODEL_LOSS)
            run_operator(&run, op, false);
        run_operator(&run, op, true);
    }
    run_free(&run);
    model_iteration_free(iteration);
}

/* Half of the variants run in each precision, because each takes long under a sanitizer. */
static void iterations(enum model_precision precision)
{
    static const int variants[][2] = {[MODEL_FP32] = {1, 2}, [MODEL_BF16] = {0, 3}};
    for (int i = 0; i < 2; i++) {
        int variant = variants[precision][i];
        bool even = variant & 1, tied = even;
        double dropout = variant & 2 ? 0.2 : 0;
        struct model_config config = {
            .name = (char *)"small",
            .layers = 2,
            .width = even ? 48 : 15,
            .heads = 3,
            .inner = even ? 64 : 22,
            .positions = 70,
            .vocabulary = even ? 64 : 37,
            .tied = tied,
            .embedding_dropout = dropout,
            .attention_dropout = dropout,
            .residual_dropout = dropout,
            .norm_epsilon = 1e-5,
            .initializer_range = 0.02,
        };
        uint8_t recompute[2] = {1, 0};
        struct model_job job = {
            .choices = {.batch = 2,
                        .micro_batches = variant == 1 || variant == 2 ? 2 : 1,
                        .recompute = recompute,
                        .split_masters = precision == MODEL_BF16 && variant == 0},
            .sequence = variant == 3 ? 66 : 17,
            .precision = precision};
        check(&config, &job);
    }
}

/* Each family has one variant in each precision. With sanitizers a few are drawn. */
static void families(enum model_precision precision)
{
    int variant = precision == MODEL_BF16;
    for (const struct model_family *const *family = model_families(); *family; family++) {
        struct model_config config = {
            .name = (char *)"small",
            .layers = 2,
            .width = variant % 2 ? 48 : 26,
            .inner = variant % 2 ? 64 : 22,
            .positions = 70,
            .vocabulary = 37,
            .tied = variant % 3 == 0,
            .attention_dropout = variant % 2 ? 0.2 : 0,
            .norm_epsilon = 1e-5,
            .initializer_range = 0.02,
        };
        uint8_t recompute[2] = {variant % 2, 0};
        struct model_job job = {.choices = {.batch = 2,
                                            .micro_batches = variant % 3 == 1 ? 2 : 1,
                                            .recompute = recompute,
                                            .split_masters = precision == MODEL_BF16},
                                .sequence = 17,
                                .precision = precision};
        if (*family == &family_gpt2 || (*family)->experts || *family == &family_bert)
            continue; /* the device refuses experts and encoders */
        g_test_message("%s", (*family)->type);
        set_family(*family, config.width == 48 ? 16 : 10, 5, &config);
        if (draws_row(UNLESS_SANITIZED(2, 1), 2))
            check(&config, &job);
        variant++;
    }
}

/* Checks a small model of the family that trains some tensors. */
static void check_trained(const struct model_family *family, enum model_precision precision,
                          const char *trained, bool recomputes, uint32_t micro_batches)
{
    GError *error = NULL;
    uint8_t *frozen, recompute[2] = {recomputes, 0};
    struct model_config config = {
        .name = (char *)"small",
        .layers = 2,
        .width = 48,
        .heads = 3,
        .inner = 64,
        .positions = 70,
        .vocabulary = 37,
        .tied = recomputes,
        .norm_epsilon = 1e-5,
        .initializer_range = 0.02,
    };
    if (family != &family_gpt2)
        set_family(family, 16, 5, &config);
    g_test_message("%s, %s", family->type, trained);
    g_assert_true(model_choose_trained(&config, trained, 0, &frozen, &error));
    const struct model_job job = {
        .choices = {.batch = 2,
                    .micro_batches = micro_batches,
                    .recompute = recompute,
                    .split_masters = precision == MODEL_BF16 && recomputes,
                    .frozen = frozen},
        .sequence = 17,
        .precision = precision};
    check(&config, &job);
    g_free(frozen);
}

/* Adapters beside all forms of products, of ranks that are no multiples of anything, and frozen
 * tensors, of which only the input's gradient or only some tensors' gradients are computed. */
static void trained_in_part(enum model_precision precision)
{
    static const struct {
        const struct model_family *family;
        const char *trained;
    } parts[] = {{&family_gpt2, "lora:3"},
                 {&family_llama, "lora:8"},
                 {&family_phi3, "lora:5"},
                 {&family_gemma2, "lora:3"},
                 {&family_qwen3, "lora:16"},
                 {&family_gpt2, "*.bias,wpe.*"},
                 {&family_qwen2, "*.q_proj.*,lm_head.*,*norm*"},
                 {&family_gpt2, "*mlp.c_fc.*"},
                 {&family_phi, "lora:3"},
                 {&family_gpt_neox, "*.bias"},
                 {&family_phi, "*.1.mlp.*"}};
    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++)
        if (draws_row(4, G_N_ELEMENTS(parts)))
            check_trained(parts[i].family, precision, parts[i].trained, i % 2, 1 + i % 3 / 2);
}

static void refuses(void)
{
    struct model_config config = {.width = 514, .heads = 2, .positions = 64};
    GError *error = NULL;
    g_assert_false(cuda_operators_support(&config, &error));
    g_assert_true(strstr(error->message, "257") != NULL);
    g_clear_error(&error);
    config.width = 512;
    g_assert_true(cuda_operators_support(&config, &error));
    config.heads = 64;
    config.key_heads = 8; /* as many heads of as many positions as Llama 3.1 70B has */
    config.positions = 131072;
    g_assert_true(cuda_operators_support(&config, &error));
    config.key_heads = 1;
    g_assert_false(cuda_operators_support(&config, &error));
    g_assert_nonnull(strstr(error->message, "64 heads of 131072 positions"));
    g_clear_error(&error);
    config.key_heads = 8;
    config.experts = 4;
    g_assert_false(cuda_operators_support(&config, &error));
    g_assert_nonnull(strstr(error->message, "--device cpu"));
    g_clear_error(&error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    add_precision_test("/operators/iterations", iterations);
    add_precision_test("/operators/families", families);
    add_precision_test("/operators/trained-in-part", trained_in_part);
    g_test_add_func("/operators/refuses", refuses);
    return g_test_run();
}
