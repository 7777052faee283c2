#include "engine/cpu/context.h"

#include "base/failure.h"
#include "base/process_limits.h"
#include "engine/host/cores.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the vector extensions that were compiled ---- */

extern const struct cpu_simd cpu_simd_generic;

#ifdef PSTAR_X86_SIMD

extern const struct cpu_simd cpu_simd_avx2, cpu_simd_avx512;

const struct cpu_simd *const *cpu_simd_list(void)
{
    static const struct cpu_simd *const all[] = {&cpu_simd_avx512, &cpu_simd_avx2,
                                                 &cpu_simd_generic, NULL};
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return all;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
        return all + 1;
    return all + 2;
}

#elif defined(PSTAR_ARM_SIMD)

extern const struct cpu_simd cpu_simd_neon;

const struct cpu_simd *const *cpu_simd_list(void)
{
    static const struct cpu_simd *const all[] = {&cpu_simd_neon, &cpu_simd_generic, NULL};
    return all;
}

#else

const struct cpu_simd *const *cpu_simd_list(void)
{
    static const struct cpu_simd *const all[] = {&cpu_simd_generic, NULL};
    return all;
}

#endif

/* ---- contexts ---- */

struct cpu_context *cpu_context_with(unsigned threads, const struct cpu_simd *simd)
{
    g_assert(threads >= 1);
    struct cpu_context *cpu = g_new0(struct cpu_context, 1);
    cpu->threads = threads;
    cpu->simd = simd;
    cpu->matmul = matmul_library_new(threads);
    return cpu;
}

struct cpu_context *cpu_context_new(unsigned threads)
{
    return cpu_context_with(threads, cpu_simd_list()[0]);
}

void cpu_context_keep_near(struct cpu_context *cpu, const struct nodes *nodes)
{
    cpu->nodes = nodes;
}

void cpu_context_free(struct cpu_context *cpu)
{
    if (!cpu)
        return;
    matmul_library_free(cpu->matmul);
    g_free(cpu);
}

/* ---- threads ---- */

/* Keeps a thread until all are created. */
static void *meet(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Returns 0, or the reason why the system does not let so many threads run at once. */
static int try_threads(unsigned count)
{
    g_autofree pthread_t *threads = g_new(pthread_t, count);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    unsigned created = 0;
    int failure = 0;
    pthread_mutex_lock(&gate);
    while (created < count && !(failure = pthread_create(&threads[created], NULL, meet, &gate)))
        created++;
    pthread_mutex_unlock(&gate);
    while (created)
        pthread_join(threads[--created], NULL);
    return failure;
}

void cpu_context_make_threads(const struct cpu_context *cpu)
{
    int failure = try_threads(cpu->threads - 1);
    if (failure) {
        g_log(FAILURE_MEMORY_DOMAIN, G_LOG_LEVEL_ERROR,
              "failed to create %u threads, whose stacks take %" G_GUINT64_FORMAT
              " KiB each (ulimit -s): %s",
              cpu->threads, process_stack_bytes() >> 10, strerror(failure));
        abort(); /* never reached */
    }
    omp_set_num_threads((int)cpu->threads);
#pragma omp parallel
    (void)omp_get_thread_num();
}

struct cpu_context *cpu_context_start(unsigned threads)
{
    struct cpu_context *cpu = cpu_context_new(threads);
    cpu_context_make_threads(cpu);
    return cpu;
}

unsigned cpu_context_threads(const struct cpu_context *cpu)
{
    return cpu->threads;
}

const char *cpu_context_simd(const struct cpu_context *cpu)
{
    return cpu->simd->name;
}

uint64_t cpu_context_scratch_bytes(const struct cpu_context *cpu)
{
    return matmul_library_bytes(cpu->matmul);
}

void cpu_parallel(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                  uint64_t items, uint64_t grain)
{
    uint64_t grains = (items + grain - 1) / grain;
    uint64_t parts = MIN(cpu->threads, grains);
    /* All threads take part, also where few have something to do: GCC's OpenMP ends those that a
     * loop leaves out, and creates them again for the next one, which takes longer than most
     * updates. */
#pragma omp parallel for num_threads(cpu->threads) schedule(static, 1) if (parts > 1)
    for (uint64_t part = 0; part < parts; part++) {
        uint64_t first = part * grains / parts * grain;
        uint64_t end = (part + 1) * grains / parts * grain;
        /* Binds at every call, because OpenMP chooses which thread has which part. */
        if (cpu->nodes)
            cores_bind(&cpu->nodes->cores[nodes_of_part(cpu->nodes, part, parts)]);
        loop(arguments, first, end < items ? end : items);
    }
}

void cpu_parallel_uneven(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                         uint64_t items)
{
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic, 1) if (cpu->threads > 1)
    for (uint64_t item = 0; item < items; item++)
        loop(arguments, item, item + 1);
}

struct simd_dropout cpu_dropout_of(const struct kernel_dropout *dropout)
{
    if (!dropout || dropout->probability <= 0)
        return (struct simd_dropout){.scale = 0};
    g_assert(dropout->probability < 1);
    return (struct simd_dropout){
        .stream = dropout->stream,
        .threshold = (uint32_t)(dropout->probability * 0x1p32),
        .scale = (float)(1 / (1 - dropout->probability)),
    };
}
