/* Each kernel runs a loop of engine/cpu/simd on the threads of a context, or calls a matrix
 * product. */
#include "engine/cpu/context.h"

/* ---- embedding ---- */

void cpu_embed_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t T,
                       uint32_t H, const uint32_t *tokens, const void *wte, const void *wpe,
                       const struct kernel_dropout *dropout, void *x)
{
    const struct cpu_context *cpu = context;
    struct simd_embed_forward arguments = {
        precision, T, H, tokens, wte, wpe, cpu_dropout_of(dropout), x};
    cpu_parallel(cpu, cpu->simd->embed_forward, &arguments, N, 1);
}

static void sift_down(uint64_t *heap, uint32_t root, uint32_t count)
{
    uint64_t value = heap[root];
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= value)
            break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

/* Heap sort, because it sorts in place; the C library's qsort may allocate. */
void cpu_embed_order(const void *context, uint32_t N, const uint32_t *tokens, uint64_t *order)
{
    (void)context;
    for (uint32_t n = 0; n < N; n++)
        order[n] = (uint64_t)tokens[n] << 32 | n;
    for (uint32_t root = N / 2; root-- > 0;)
        sift_down(order, root, N);
    for (uint32_t end = N; end-- > 1;) {
        uint64_t greatest = order[0];
        order[0] = order[end];
        order[end] = greatest;
        sift_down(order, 0, end);
    }
}

/* Clears rows [first, rows) of a gradient that is overwritten. */
static void clear_rows(enum kernel_gradient gradient, uint32_t first, uint32_t rows, uint32_t H,
                       void *rows_of)
{
    uint64_t row_bytes = 0;
    if (gradient == KERNEL_GRADIENT_SET)
        row_bytes = (uint64_t)H * sizeof(float);
    else if (gradient == KERNEL_GRADIENT_SET_BF16)
        row_bytes = (uint64_t)H * sizeof(uint16_t);
    memset((char *)rows_of + first * row_bytes, 0, (rows - first) * row_bytes);
}

void cpu_embed_tokens(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                      uint32_t V, const uint64_t *order, const void *dx,
                      const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                      void *dwte)
{
    const struct cpu_context *cpu = context;
    struct simd_embed_tokens arguments = {precision, N,   H, order, dx, cpu_dropout_of(dropout),
                                          gradient,  dwte};
    clear_rows(gradient, 0, V, H, dwte);
    cpu_parallel(cpu, cpu->simd->embed_tokens, &arguments, simd_tiles(H), 1);
}

void cpu_embed_positions(const void *context, enum model_precision precision, uint32_t B,
                         uint32_t T, uint32_t H, uint32_t P, const void *dx,
                         const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                         void *dwpe)
{
    const struct cpu_context *cpu = context;
    struct simd_embed_positions arguments = {precision, B,   T, H, dx, cpu_dropout_of(dropout),
                                             gradient,  dwpe};
    clear_rows(gradient, T, P, H, dwpe);
    cpu_parallel(cpu, cpu->simd->embed_positions, &arguments, T, 1);
}

/* ---- layer norm ---- */

void cpu_norm_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                      double epsilon, const void *weight, const void *bias, const void *x, void *y,
                      float *stats)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_forward arguments = {precision, N, H, (float)epsilon, weight,
                                          bias,      x, y, stats};
    cpu_parallel(cpu, cpu->simd->norm_forward, &arguments, N, 1);
}

void cpu_norm_backward_input(const void *context, enum model_precision precision, uint32_t N,
                             uint32_t H, const void *weight, const void *dy, const void *x,
                             const float *stats, bool add, void *dx)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_input arguments = {precision, N, H, weight, dy, x, stats, add, dx, 0};
    cpu_parallel(cpu, cpu->simd->norm_input, &arguments, N, 1);
}

void cpu_norm_backward_parameters(const void *context, enum model_precision precision, uint32_t N,
                                  uint32_t H, const void *dy, const void *x, const float *stats,
                                  enum kernel_gradient gradient, void *dweight, void *dbias)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_parameters arguments = {precision, N,        H,       dy,   x,
                                             stats,     gradient, dweight, dbias};
    cpu_parallel(cpu, cpu->simd->norm_parameters, &arguments, simd_tiles(H), 1);
}

/* ---- RMS norm ---- */

void cpu_rms_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                     double epsilon, float offset, const void *weight, const void *x, void *y,
                     float *stats)
{
    const struct cpu_context *cpu = context;
    struct simd_rms_forward arguments = {precision, N, H, (float)epsilon, offset,
                                         weight,    x, y, stats};
    cpu_parallel(cpu, cpu->simd->rms_forward, &arguments, N, 1);
}

void cpu_rms_backward_input(const void *context, enum model_precision precision, uint32_t N,
                            uint32_t H, float offset, const void *weight, const void *dy,
                            const void *x, const float *stats, bool add, void *dx)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_input arguments = {precision, N, H, weight, dy, x, stats, add, dx, offset};
    cpu_parallel(cpu, cpu->simd->rms_input, &arguments, N, 1);
}

void cpu_rms_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                             uint32_t H, const void *dy, const void *x, const float *stats,
                             enum kernel_gradient gradient, void *dweight)
{
    const struct cpu_context *cpu = context;
    struct simd_norm_parameters arguments = {precision, N,        H,       dy,  x,
                                             stats,     gradient, dweight, NULL};
    cpu_parallel(cpu, cpu->simd->rms_weight, &arguments, simd_tiles(H), 1);
}

/* ---- linear layers and the classifier ---- */

void cpu_linear_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t I,
                        uint32_t O, const void *x, const void *weight, const void *bias, void *y)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = O, .K = I, .in = precision, .out = precision, .bias = true};
    matmul_run(cpu->matmul, &shape, x, weight, bias, y);
}

void cpu_linear_backward_input(const void *context, enum model_precision precision, uint32_t N,
                               uint32_t I, uint32_t O, const void *dy, const void *weight, void *dx)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = I, .K = O, .transposed_b = true, .in = precision, .out = precision};
    matmul_run(cpu->matmul, &shape, dy, weight, NULL, dx);
}

/* Computes c = a^T b in fp32, either in dweight or in the workspace. The sums in the workspace are
 * then rounded into dweight. */
static void weight_gradient(const struct cpu_context *cpu, struct matmul_shape shape, const void *a,
                            const void *b, enum kernel_gradient gradient, float *workspace,
                            void *dweight, double *squares)
{
    uint64_t elements = (uint64_t)shape.M * shape.N;
    shape.transposed_a = true;
    shape.out = MODEL_FP32;
    shape.panels = !workspace;
    shape.add = gradient == KERNEL_GRADIENT_ADD;
    matmul_run(cpu->matmul, &shape, a, b, NULL, workspace ? workspace : dweight);
    if (workspace) {
        double sum = cpu_round_gradient(cpu, elements, workspace, dweight);
        if (squares)
            *squares = sum;
    } else if (squares) {
        cpu_sum_squares(cpu, MODEL_FP32, elements, dweight, squares);
    }
}

void cpu_linear_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *x, const void *dy,
                                enum kernel_gradient gradient, float *workspace, void *dweight,
                                double *squares)
{
    struct matmul_shape shape = {.M = I, .N = O, .K = N, .in = precision};
    weight_gradient(context, shape, x, dy, gradient, workspace, dweight, squares);
}

void cpu_linear_backward_bias(const void *context, enum model_precision precision, uint32_t N,
                              uint32_t O, uint32_t row, const void *dy,
                              enum kernel_gradient gradient, void *dbias)
{
    const struct cpu_context *cpu = context;
    struct simd_column_sums arguments = {precision, N, O, row, dy, gradient, dbias};
    cpu_parallel(cpu, cpu->simd->column_sums, &arguments, simd_tiles(O), 1);
}

void cpu_product_forward(const void *context, enum model_precision precision, uint32_t N,
                         uint32_t I, uint32_t O, const void *x, const void *weight,
                         const void *bias, void *y)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {.M = N,
                                 .N = O,
                                 .K = I,
                                 .transposed_b = true,
                                 .in = precision,
                                 .out = precision,
                                 .bias = bias != NULL};
    matmul_run(cpu->matmul, &shape, x, weight, bias, y);
}

void cpu_product_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *dy, const void *weight,
                                bool add, void *dx)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = I, .K = O, .in = precision, .out = precision, .onto = add};
    matmul_run(cpu->matmul, &shape, dy, weight, NULL, dx);
}

void cpu_product_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                 uint32_t I, uint32_t O, const void *x, const void *dy,
                                 enum kernel_gradient gradient, float *workspace, void *dweight,
                                 double *squares)
{
    struct matmul_shape shape = {.M = O, .N = I, .K = N, .in = precision};
    weight_gradient(context, shape, dy, x, gradient, workspace, dweight, squares);
}

void cpu_classifier_forward(const void *context, enum model_precision precision, uint32_t N,
                            uint32_t H, uint32_t V, const void *x, const void *weight,
                            const void *bias, void *logits)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {.M = N,
                                 .N = V,
                                 .K = H,
                                 .c_row = model_logits_row(V),
                                 .transposed_b = true,
                                 .in = precision,
                                 .out = precision,
                                 .bias = bias != NULL};
    matmul_run(cpu->matmul, &shape, x, weight, bias, logits);
}

void cpu_classifier_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                   uint32_t H, uint32_t V, const void *dlogits, const void *weight,
                                   void *dx)
{
    const struct cpu_context *cpu = context;
    struct matmul_shape shape = {
        .M = N, .N = H, .K = V, .a_row = model_logits_row(V), .in = precision, .out = precision};
    matmul_run(cpu->matmul, &shape, dlogits, weight, NULL, dx);
}

void cpu_classifier_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                    uint32_t H, uint32_t V, const void *x, const void *dlogits,
                                    enum kernel_gradient gradient, float *workspace, void *dweight,
                                    double *squares)
{
    struct matmul_shape shape = {
        .M = V, .N = H, .K = N, .a_row = model_logits_row(V), .in = precision};
    weight_gradient(context, shape, dlogits, x, gradient, workspace, dweight, squares);
}

/* ---- GELU, gates, residual and dropout ---- */

void cpu_gelu_forward(const void *context, enum model_precision precision, enum model_activation of,
                      uint64_t elements, const void *pre, void *y)
{
    const struct cpu_context *cpu = context;
    struct simd_gelu arguments = {precision, of, pre, y};
    cpu_parallel(cpu, cpu->simd->gelu_forward, &arguments, elements, SIMD_TILE);
}

void cpu_gelu_backward(const struct cpu_context *cpu, enum model_precision precision,
                       enum model_activation of, uint64_t elements, const void *pre, void *dy)
{
    struct simd_gelu arguments = {precision, of, pre, dy};
    cpu_parallel(cpu, cpu->simd->gelu_backward, &arguments, elements, SIMD_TILE);
}

void cpu_gelu_backward_bias(const void *context, enum model_precision precision,
                            enum model_activation of, uint32_t N, uint32_t O, const void *pre,
                            void *dy, enum kernel_gradient gradient, void *dbias)
{
    cpu_gelu_backward(context, precision, of, (uint64_t)N * O, pre, dy);
    if (dbias)
        cpu_linear_backward_bias(context, precision, N, O, O, dy, gradient, dbias);
}

static uint64_t gate_tiles(const struct kernel_gate *gate)
{
    return gate->N * ((gate->F + SIMD_TILE - 1) / SIMD_TILE);
}

void cpu_gate_forward(const void *context, enum model_precision precision,
                      const struct kernel_gate *gate, void *y)
{
    const struct cpu_context *cpu = context;
    struct simd_gate arguments = {.precision = precision, .gate = kernel_gate_flat(gate), .y = y};
    cpu_parallel(cpu, cpu->simd->gate_forward, &arguments, gate_tiles(&arguments.gate), 1);
}

void cpu_gate_backward(const void *context, enum model_precision precision,
                       const struct kernel_gate *gate, const void *dy, void *dgate, void *dup)
{
    const struct cpu_context *cpu = context;
    struct simd_gate arguments = {.precision = precision,
                                  .gate = kernel_gate_flat(gate),
                                  .dy = dy,
                                  .dgate = dgate,
                                  .dup = dup};
    cpu_parallel(cpu, cpu->simd->gate_backward, &arguments, gate_tiles(&arguments.gate), 1);
}

void cpu_scale(const void *context, enum model_precision precision, uint64_t elements, float factor,
               void *x)
{
    const struct cpu_context *cpu = context;
    struct simd_scale arguments = {precision, factor, x};
    cpu_parallel(cpu, cpu->simd->scale, &arguments, elements, SIMD_TILE);
}

void cpu_cap_logits(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
                    float cap, void *logits)
{
    const struct cpu_context *cpu = context;
    struct simd_cap_logits arguments = {precision, V, model_logits_row(V), cap, logits};
    cpu_parallel(cpu, cpu->simd->cap_logits, &arguments, N, 1);
}

void cpu_residual_forward(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t H, const void *residual, const struct kernel_dropout *dropout,
                          void *y)
{
    const struct cpu_context *cpu = context;
    struct simd_residual arguments = {precision, H, residual, y, cpu_dropout_of(dropout), y};
    cpu_parallel(cpu, cpu->simd->residual, &arguments, N, 1);
}

void cpu_dropout_backward(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t H, const struct kernel_dropout *dropout, const void *dy,
                          void *masked)
{
    const struct cpu_context *cpu = context;
    struct simd_residual arguments = {precision, H, NULL, dy, cpu_dropout_of(dropout), masked};
    cpu_parallel(cpu, cpu->simd->residual, &arguments, N, 1);
}

/* ---- attention ---- */

static struct simd_attention attention_of(enum model_precision precision, uint32_t T, uint32_t A,
                                          uint32_t D, const struct kernel_dropout *dropout)
{
    g_assert(D <= CPU_HEAD_LIMIT);
    return (struct simd_attention){
        .precision = precision,
        .T = T,
        .A = A,
        .K = A,
        .D = D,
        .scale = 1 / sqrtf((float)D),
        .dropout = cpu_dropout_of(dropout),
    };
}

/* Queries, keys and values lie in one row, one behind the other. */
static void set_qkv(struct simd_attention *arguments, const void *qkv)
{
    for (int part = KERNEL_Q; part <= KERNEL_V; part++)
        arguments->parts[part] = (struct simd_heads){
            .at = qkv,
            .stride = UINT64_C(3) * arguments->A * arguments->D,
            .first = (uint64_t)part * arguments->A * arguments->D,
            .apart = arguments->D,
        };
}

static struct simd_attention grouped_of(enum model_precision precision,
                                        const struct kernel_heads *heads, const void *q,
                                        const void *k, const void *v,
                                        const struct kernel_dropout *dropout)
{
    struct simd_attention arguments = attention_of(precision, heads->T, heads->A, heads->D,
                                                   dropout);
    uint64_t queries = heads->row ? heads->row : (uint64_t)heads->A * heads->D;
    uint64_t keys = heads->row ? heads->row : (uint64_t)heads->K * heads->D;
    arguments.K = heads->K;
    arguments.window = heads->window;
    arguments.scale = heads->scale > 0 ? heads->scale : arguments.scale;
    arguments.pairs = heads->pairs;
    arguments.cap = heads->cap;
    arguments.cosines = heads->cosines;
    arguments.sines = heads->sines;
    uint64_t apart = heads->apart ? heads->apart : heads->D;
    arguments.parts[KERNEL_Q] = (struct simd_heads){q, queries, 0, apart};
    arguments.parts[KERNEL_K] = (struct simd_heads){k, keys, 0, apart};
    arguments.parts[KERNEL_V] = (struct simd_heads){v, keys, 0, apart};
    return arguments;
}

static void attend(const struct cpu_context *cpu, uint32_t B,
                   const struct simd_attention *arguments)
{
    cpu_parallel_uneven(cpu, cpu->simd->attention_forward, arguments,
                        (uint64_t)B * arguments->A * simd_tiles(arguments->T));
}

static void attend_backward(const struct cpu_context *cpu, uint32_t B,
                            const struct simd_attention *arguments)
{
    uint64_t tiles = (uint64_t)B * simd_tiles(arguments->T);
    cpu_parallel_uneven(cpu, cpu->simd->attention_backward_queries, arguments,
                        tiles * arguments->A);
    cpu_parallel_uneven(cpu, cpu->simd->attention_backward_keys, arguments, tiles * arguments->K);
}

void cpu_attention_forward(const void *context, enum model_precision precision, uint32_t B,
                           uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                           const struct kernel_dropout *dropout, void *o, float *lse)
{
    struct simd_attention arguments = attention_of(precision, T, A, D, dropout);
    set_qkv(&arguments, qkv);
    arguments.o = o;
    arguments.lse = lse;
    attend(context, B, &arguments);
}

void cpu_attention_backward(const void *context, enum model_precision precision, uint32_t B,
                            uint32_t T, uint32_t A, uint32_t D, const void *dout, const void *qkv,
                            const void *o, const float *lse, const struct kernel_dropout *dropout,
                            void *dqkv)
{
    struct simd_attention arguments = attention_of(precision, T, A, D, dropout);
    set_qkv(&arguments, qkv);
    arguments.dout = dout;
    arguments.o_read = o;
    arguments.lse_read = lse;
    arguments.gradients[KERNEL_Q] = arguments.gradients[KERNEL_K] = arguments.gradients[KERNEL_V] =
        dqkv;
    attend_backward(context, B, &arguments);
}

void cpu_grouped_forward(const void *context, enum model_precision precision,
                         const struct kernel_heads *heads, const void *q, const void *k,
                         const void *v, const struct kernel_dropout *dropout, void *o, float *lse)
{
    struct simd_attention arguments = grouped_of(precision, heads, q, k, v, dropout);
    arguments.o = o;
    arguments.lse = lse;
    attend(context, heads->B, &arguments);
}

void cpu_grouped_backward(const void *context, enum model_precision precision,
                          const struct kernel_heads *heads, const void *dout, const void *q,
                          const void *k, const void *v, const void *o, const float *lse,
                          const struct kernel_dropout *dropout, void *dq, void *dk, void *dv)
{
    struct simd_attention arguments = grouped_of(precision, heads, q, k, v, dropout);
    arguments.dout = dout;
    arguments.o_read = o;
    arguments.lse_read = lse;
    arguments.gradients[KERNEL_Q] = dq;
    arguments.gradients[KERNEL_K] = dk;
    arguments.gradients[KERNEL_V] = dv;
    attend_backward(context, heads->B, &arguments);
}

/* ---- loss ---- */

enum {
    LOSS_BLOCKS = 64
}; /* of rows: the order of the sum does not depend on the number of threads */

static double sum_losses(const struct cpu_context *cpu, simd_loop *loop, struct simd_loss arguments)
{
    double losses[LOSS_BLOCKS], sum = 0;
    arguments.blocks = LOSS_BLOCKS;
    arguments.losses = losses;
    cpu_parallel(cpu, loop, &arguments, LOSS_BLOCKS, 1);
    for (int block = 0; block < LOSS_BLOCKS; block++)
        sum += losses[block];
    return sum;
}

void cpu_loss(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
              const uint32_t *targets, const void *logits, double *loss)
{
    const struct cpu_context *cpu = context;
    struct simd_loss arguments = {.precision = precision,
                                  .N = N,
                                  .V = V,
                                  .row = model_logits_row(V),
                                  .targets = targets,
                                  .logits = logits};
    *loss = sum_losses(cpu, cpu->simd->loss, arguments);
}

void cpu_loss_backward(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
                       const uint32_t *targets, double divisor, float cap, void *logits,
                       double *loss)
{
    const struct cpu_context *cpu = context;
    struct simd_loss arguments = {
        .precision = precision,
        .N = N,
        .V = V,
        .row = model_logits_row(V),
        .targets = targets,
        .scale = (float)(1 / divisor),
        .cap = cap,
        .logits = logits,
        .gradient = logits,
    };
    *loss = sum_losses(cpu, cpu->simd->loss_backward, arguments);
}

/* ---- gradients and their use ---- */

enum { GRAIN = 1024 }; /* elements that a thread takes at least */

/* The blocks depend on the number of elements alone, and so does the order of the sum. */
static double sum_of_blocks(const struct cpu_context *cpu, simd_loop *loop,
                            struct simd_squares arguments)
{
    double sums[KERNEL_SQUARES_BLOCKS] = {0};
    arguments.block = shard_block(arguments.elements);
    arguments.sums = sums;
    if (arguments.elements == 0)
        return 0;
    uint64_t blocks = (arguments.elements + arguments.block - 1) / arguments.block;
    cpu_parallel(cpu, loop, &arguments, blocks, 1);
    return pairwise_sum(KERNEL_SQUARES_BLOCKS, sums);
}

void cpu_sum_squares(const void *context, enum model_precision precision, uint64_t elements,
                     const void *gradient, double *sum)
{
    const struct cpu_context *cpu = context;
    struct simd_squares arguments = {
        .precision = precision, .elements = elements, .values = gradient};
    *sum = sum_of_blocks(cpu, cpu->simd->squares, arguments);
}

double cpu_round_gradient(const struct cpu_context *cpu, uint64_t elements, const float *values,
                          uint16_t *rounded)
{
    struct simd_squares arguments = {
        .precision = MODEL_FP32, .elements = elements, .values = values, .rounded = rounded};
    return sum_of_blocks(cpu, cpu->simd->round_squares, arguments);
}

void cpu_block_squares(const void *context, enum model_precision precision, uint64_t elements,
                       uint64_t block, uint64_t first, const void *gradient, double *sums)
{
    const struct cpu_context *cpu = context;
    for (int i = 0; i < KERNEL_SQUARES_BLOCKS; i++)
        sums[i] = 0;
    struct simd_squares arguments = {.precision = precision,
                                     .elements = elements,
                                     .block = block,
                                     .values = gradient,
                                     .sums = sums + first};
    if (elements)
        cpu_parallel(cpu, cpu->simd->squares, &arguments, (elements + block - 1) / block, 1);
}

void cpu_total_squares(const void *context, double *sums, double *total)
{
    (void)context;
    *total = pairwise_sum(KERNEL_SQUARES_BLOCKS, sums);
}

void cpu_clip(const void *context, uint32_t count, const double *squares, double clip,
              double *scale)
{
    double sum = 0;
    (void)context;
    for (uint32_t i = 0; i < count; i++)
        sum += squares[i];
    *scale = adamw_clip(sum, clip);
}

void cpu_adamw(const void *context, const struct adamw_step *step, const double *scale,
               const struct adamw_tensor *tensor)
{
    const struct cpu_context *cpu = context;
    struct simd_adamw arguments = {*step, *tensor};
    if (scale)
        arguments.step.gradient_scale = (float)*scale;
    cpu_parallel(cpu, cpu->simd->adamw, &arguments, tensor->elements, GRAIN);
}

void cpu_round(const struct cpu_context *cpu, uint64_t elements, const float *values,
               uint16_t *rounded)
{
    struct simd_convert arguments = {values, rounded};
    cpu_parallel(cpu, cpu->simd->round, &arguments, elements, GRAIN);
}

void cpu_widen(const struct cpu_context *cpu, uint64_t elements, const uint16_t *halves,
               float *values)
{
    struct simd_convert arguments = {halves, values};
    cpu_parallel(cpu, cpu->simd->widen, &arguments, elements, GRAIN);
}

/* ---- the table ---- */

const struct kernels cpu_kernels = {
    .embed_forward = cpu_embed_forward,
    .embed_order = cpu_embed_order,
    .embed_tokens = cpu_embed_tokens,
    .embed_positions = cpu_embed_positions,
    .norm_forward = cpu_norm_forward,
    .norm_backward_input = cpu_norm_backward_input,
    .norm_backward_parameters = cpu_norm_backward_parameters,
    .linear_forward = cpu_linear_forward,
    .linear_backward_input = cpu_linear_backward_input,
    .linear_backward_weight = cpu_linear_backward_weight,
    .linear_backward_bias = cpu_linear_backward_bias,
    .classifier_forward = cpu_classifier_forward,
    .classifier_backward_input = cpu_classifier_backward_input,
    .classifier_backward_weight = cpu_classifier_backward_weight,
    .gelu_forward = cpu_gelu_forward,
    .gelu_backward_bias = cpu_gelu_backward_bias,
    .residual_forward = cpu_residual_forward,
    .dropout_backward = cpu_dropout_backward,
    .attention_forward = cpu_attention_forward,
    .attention_backward = cpu_attention_backward,
    .loss = cpu_loss,
    .loss_backward = cpu_loss_backward,
    .sum_squares = cpu_sum_squares,
    .block_squares = cpu_block_squares,
    .total_squares = cpu_total_squares,
    .clip = cpu_clip,
    .adamw = cpu_adamw,
    .rms_forward = cpu_rms_forward,
    .rms_backward_input = cpu_rms_backward_input,
    .rms_backward_weight = cpu_rms_backward_weight,
    .product_forward = cpu_product_forward,
    .product_backward_input = cpu_product_backward_input,
    .product_backward_weight = cpu_product_backward_weight,
    .gate_forward = cpu_gate_forward,
    .gate_backward = cpu_gate_backward,
    .scale = cpu_scale,
    .cap_logits = cpu_cap_logits,
    .grouped_forward = cpu_grouped_forward,
    .grouped_backward = cpu_grouped_backward,
    .experts = &cpu_expert_kernels,
};
