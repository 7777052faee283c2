/* Measures AdamW on the host, in bytes read and written per second, for every layout of model
 * data. Rival: four loops that do almost nothing else and show the rate of this machine's memory.
 * Goal of each layout: 90 % of the fastest loop, and the bits of the body of AdamW. All take turns
 * within each round, so that other work disturbs all of them; medians over the rounds count.
 * bench/optimizer runs this program several times and writes docs/devices.md.
 *
 *   triad     a = b + s c: the lines of a are read before they are written, which is not counted
 *   copy      a = b; the same holds
 *   in place  four arrays, each element times s: everything that is read is written, as in AdamW
 *   ahead     in place, with lines fetched ahead, as in AdamW
 *
 * One element of each layout is compared, bit for bit, with the body of AdamW.
 *
 *   bench_optimizer [--threads N] [--elements MILLIONS] [--rounds R]
 *
 * Exit status 1 if a goal is missed. */
#include "engine/bf16.h"
#include "engine/cpu/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static gint threads, millions = 32, rounds = 9;

static const GOptionEntry options[] = {
    {"threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N"},
    {"elements", 0, 0, G_OPTION_ARG_INT, &millions, "Millions (2^20) of parameters (32)",
     "MILLIONS"},
    {"rounds", 0, 0, G_OPTION_ARG_INT, &rounds, "Rounds; the median counts (9)", "R"},
    {0},
};

enum { ARRAYS = 4, LOOPS = 4, MOST_ROUNDS = 1000, GOAL_PERCENT = 90 };

struct optimizer_bench {
    struct cpu_context *cpu;
    struct adamw_step step;
    uint64_t elements;
    float *fp32[ARRAYS];
    uint16_t *bf16[3];
};

typedef void task(const struct optimizer_bench *b);

/* ---- what memory gives ---- */

static void triad(const struct optimizer_bench *b)
{
    float *restrict to = b->fp32[0];
    const float *restrict x = b->fp32[1], *restrict y = b->fp32[2];
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (uint64_t i = 0; i < b->elements; i++)
        to[i] = x[i] + 0.5F * y[i];
}

static void copy(const struct optimizer_bench *b)
{
    float *restrict to = b->fp32[0];
    const float *restrict from = b->fp32[1];
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (uint64_t i = 0; i < b->elements; i++)
        to[i] = from[i];
}

static void in_place(const struct optimizer_bench *b)
{
    float *restrict a0 = b->fp32[0], *restrict a1 = b->fp32[1];
    float *restrict a2 = b->fp32[2], *restrict a3 = b->fp32[3];
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (uint64_t i = 0; i < b->elements; i++) {
        a0[i] *= 0.9999F;
        a1[i] *= 0.9999F;
        a2[i] *= 0.9999F;
        a3[i] *= 0.9999F;
    }
}

/* What the processor fetches by itself, and what it is told to fetch. */
static void in_place_ahead(const struct optimizer_bench *b)
{
    enum { LINE = 16, AHEAD = 5 * LINE };
    float *restrict a0 = b->fp32[0], *restrict a1 = b->fp32[1];
    float *restrict a2 = b->fp32[2], *restrict a3 = b->fp32[3];
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint64_t line = 0; line < b->elements; line += LINE) {
        uint64_t ahead = line + AHEAD < b->elements ? line + AHEAD : line;
        __builtin_prefetch(a0 + ahead);
        __builtin_prefetch(a1 + ahead);
        __builtin_prefetch(a2 + ahead);
        __builtin_prefetch(a3 + ahead);
        for (uint64_t i = line; i < line + LINE; i++) {
            a0[i] *= 0.9999F;
            a1[i] *= 0.9999F;
            a2[i] *= 0.9999F;
            a3[i] *= 0.9999F;
        }
    }
}

/* ---- AdamW, by bytes of model data a parameter ---- */

static void update(const struct optimizer_bench *b, struct adamw_tensor tensor)
{
    tensor.elements = b->elements;
    tensor.exp_avg = b->fp32[0];
    tensor.exp_avg_sq = b->fp32[1];
    cpu_adamw(b->cpu, &b->step, NULL, &tensor);
}

static void update_fp32(const struct optimizer_bench *b)
{
    update(b, (struct adamw_tensor){.param = b->fp32[2], .gradient = b->fp32[3]});
}

static void update_12(const struct optimizer_bench *b)
{
    update(b, (struct adamw_tensor){
                  .param = b->bf16[0], .rest = b->bf16[1], .gradient_bf16 = b->bf16[2]});
}

static void update_14(const struct optimizer_bench *b)
{
    update(b, (struct adamw_tensor){.param = b->bf16[0], .master = b->fp32[2]});
}

static void update_16(const struct optimizer_bench *b)
{
    update(b,
           (struct adamw_tensor){.param = b->bf16[0], .rest = b->bf16[1], .gradient = b->fp32[3]});
}

static void update_18(const struct optimizer_bench *b)
{
    update(b, (struct adamw_tensor){
                  .param = b->bf16[0], .master = b->fp32[2], .gradient = b->fp32[3]});
}

struct optimizer_task {
    const char *name;
    task *run;
    uint32_t bytes; /* bytes read and written per element */
};

static const struct optimizer_task tasks[] = {
    {"triad", triad, 12},
    {"copy", copy, 8},
    {"in place", in_place, 32},
    {"in place, ahead", in_place_ahead, 32},
    {"fp32, 16 bytes", update_fp32, 28},
    {"bf16, 12 bytes", update_12, 26},
    {"bf16, 14 bytes", update_14, 28},
    {"bf16, 16 bytes", update_16, 28},
    {"bf16, 18 bytes", update_18, 30}, /* the parameter is only written */
};

/* ---- one element, by the body ---- */

struct element {
    float master, gradient, exp_avg, exp_avg_sq;
};

static struct element element_at(const struct optimizer_bench *b, task *run, uint64_t i)
{
    bool split = run == update_12 || run == update_16;
    float gradient = run == update_12   ? bf16_widen(b->bf16[2][i])
                     : run == update_14 ? bf16_widen(b->bf16[0][i])
                                        : b->fp32[3][i];
    return (struct element){split ? bf16_join(b->bf16[0][i], b->bf16[1][i]) : b->fp32[2][i],
                            gradient, b->fp32[0][i], b->fp32[1][i]};
}

static bool is_right(const struct optimizer_bench *b, task *run, uint64_t i)
{
    struct element before = element_at(b, run, i);
    before.master = adamw_element(&b->step, before.master, before.gradient, &before.exp_avg,
                                  &before.exp_avg_sq);
    run(b);
    struct element after = element_at(b, run, i);
    return before.master == after.master && before.exp_avg == after.exp_avg &&
           before.exp_avg_sq == after.exp_avg_sq &&
           (run == update_fp32 || b->bf16[0][i] == bf16_round(after.master));
}

/* ---- measuring ---- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double seconds_of(const struct optimizer_bench *b, task *run)
{
    gint64 before = g_get_monotonic_time();
    run(b);
    return (double)(g_get_monotonic_time() - before) * 1e-6;
}

/* Prints a row, and returns whether it meets its goals. A loop has none. */
static bool print_row(const struct optimizer_bench *b, const struct optimizer_task *of, bool loop,
                      double median, double best)
{
    double rate = of->bytes * (double)b->elements / median;
    printf("%-16s %9.2f ms %7.2f GB/s", of->name, median * 1e3, rate * 1e-9);
    if (loop) {
        printf("           no goal\n");
        return true;
    }
    bool right = is_right(b, of->run, b->elements / 3);
    bool passes = right && 100 * rate >= GOAL_PERCENT * best;
    printf(" %6.1f %%  %s  %s\n", 100 * rate / best, right ? "right" : "WRONG",
           passes ? "PASS" : "FAIL");
    return passes;
}

static bool measure(const struct optimizer_bench *b)
{
    static double seconds[G_N_ELEMENTS(tasks)][MOST_ROUNDS];
    double best = 0;
    bool passes = true;
    for (int r = 0; r < rounds; r++)
        for (size_t t = 0; t < G_N_ELEMENTS(tasks); t++)
            seconds[t][r] = seconds_of(b, tasks[t].run);
    for (size_t t = 0; t < G_N_ELEMENTS(tasks); t++) {
        qsort(seconds[t], (size_t)rounds, sizeof *seconds[t], compare);
        double median = seconds[t][rounds / 2];
        if (t < LOOPS)
            best = fmax(best, tasks[t].bytes * (double)b->elements / median);
        passes &= print_row(b, &tasks[t], t < LOOPS, median, best);
    }
    return passes;
}

static void fill(struct optimizer_bench *b)
{
    for (int a = 0; a < ARRAYS; a++)
        b->fp32[a] = aligned_alloc(4096, b->elements * sizeof(float));
    for (int a = 0; a < 3; a++)
        b->bf16[a] = aligned_alloc(4096, b->elements * sizeof(uint16_t));
        /* Done by the threads that will use it, because memory is placed where it is first written.
         */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint64_t i = 0; i < b->elements; i++) {
        float value = (float)((i * 2654435761U) % 1000003) * 1e-6F - 0.5F;
        b->fp32[0][i] = b->fp32[2][i] = b->fp32[3][i] = value;
        b->fp32[1][i] = value * value;
        b->bf16[0][i] = b->bf16[2][i] = bf16_round(value);
        b->bf16[1][i] = bf16_rest(value);
    }
}

int main(int argc, char **argv)
{
    GError *error = NULL;
    GOptionContext *context = g_option_context_new("- AdamW beside the rate of memory");
    threads = (gint)g_get_num_processors();
    g_option_context_add_main_entries(context, options, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error) || threads < 1 || millions < 1 ||
        rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "bench_optimizer: %s\n", error ? error->message : "see --help");
        return 2;
    }
    g_option_context_free(context);
    const struct adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1};
    struct optimizer_bench b = {.cpu = cpu_context_new((unsigned)threads),
                                .step = adamw_step_of(&adamw, 10),
                                .elements = (uint64_t)millions << 20};
    fill(&b);
    printf("%s, %d threads, %d Mi parameters, medians of %d\n", cpu_context_simd(b.cpu), threads,
           millions, rounds);
    bool passes = measure(&b);
    for (int a = 0; a < ARRAYS; a++)
        free(b.fp32[a]);
    for (int a = 0; a < 3; a++)
        free(b.bf16[a]);
    cpu_context_free(b.cpu);
    return passes ? 0 : 1;
}
