#include "twins.h"

#include "engine/bf16.h"
#include "kernel_runs.h"
#include "tests/engine/kernels/fixture.h"
#include <math.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)   ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

enum { GUARD = 256, GUARD_BYTE = 0xa5, SCRATCH_BYTES = 16 * 1024 };

/* The memory before an array and behind it. */
struct guards {
    uint8_t *before, *behind;
    uint64_t behind_bytes;
};

static struct guards guards_of(const struct twin *twin)
{
    uint8_t *end = (uint8_t *)twin->cuda + twin->bytes;
    return (struct guards){twin->whole, end, (uint64_t)(GUARD - twin->bytes % GUARD)};
}

static void guard(const struct twin *twin)
{
    struct guards guards = guards_of(twin);
    memset(guards.before, GUARD_BYTE, GUARD);
    memset(guards.behind, GUARD_BYTE, guards.behind_bytes);
    ASAN_POISON_MEMORY_REGION(guards.before, GUARD);
    ASAN_POISON_MEMORY_REGION(guards.behind, guards.behind_bytes);
}

static void unguard(const struct twin *twin)
{
    struct guards guards = guards_of(twin);
    ASAN_UNPOISON_MEMORY_REGION(guards.before, GUARD);
    ASAN_UNPOISON_MEMORY_REGION(guards.behind, guards.behind_bytes);
}

static void twin_free(void *data)
{
    struct twin *twin = data;
    unguard(twin);
    g_free(twin->cpu);
    kernel_runs_free(twin->whole);
    g_free(twin);
}

struct twins twins_new(void)
{
    struct twins twins = {
        .cpu = cpu_context_new(2),
        .cuda = {.scratch = kernel_runs_new(SCRATCH_BYTES),
                 .scratch_bytes = SCRATCH_BYTES,
                 .counter = kernel_runs_new(sizeof(uint32_t)),
                 .multiprocessors = 1,
                 .scale = kernel_runs_new(sizeof(double))},
        .arrays = g_ptr_array_new_with_free_func(twin_free),
    };
    memset(twins.cuda.scratch, 0xff, SCRATCH_BYTES);
    return twins;
}

void twins_free(struct twins *twins)
{
    g_assert_cmpuint(*twins->cuda.counter, ==, 0);
    cpu_context_free(twins->cpu);
    kernel_runs_free(twins->cuda.scratch);
    kernel_runs_free(twins->cuda.counter);
    kernel_runs_free(twins->cuda.scale);
    g_ptr_array_free(twins->arrays, TRUE);
}

struct twin *twin_from(struct twins *twins, const char *name, const void *contents, uint64_t bytes)
{
    struct twin *twin = g_new0(struct twin, 1);
    twin->name = name;
    twin->bytes = bytes;
    twin->cpu = g_memdup2(contents, bytes);
    twin->whole = kernel_runs_new(GUARD + (bytes / GUARD + 1) * GUARD);
    twin->cuda = twin->whole + GUARD;
    memcpy(twin->cuda, contents, bytes);
    guard(twin);
    g_ptr_array_add(twins->arrays, twin);
    return twin;
}

uint64_t twin_element_bytes(enum model_precision precision)
{
    return precision == MODEL_BF16 ? sizeof(uint16_t) : sizeof(float);
}

struct twin *twin_random(struct twins *twins, const char *name, enum model_precision precision,
                         uint64_t elements, double deviation)
{
    struct tensor *tensor = tensor_random(precision, elements, deviation);
    struct twin *twin = twin_from(twins, name, tensor->data, tensor_bytes(tensor));
    tensor_free(tensor);
    return twin;
}

struct twin *twin_gradient(struct twins *twins, const char *name, enum kernel_gradient gradient,
                           uint64_t elements)
{
    return twin_random(twins, name, gradient_precision(gradient), elements, 1);
}

struct twin *twin_unset(struct twins *twins, const char *name, uint64_t bytes)
{
    void *unset = g_malloc(bytes);
    memset(unset, 0xff, bytes);
    struct twin *twin = twin_from(twins, name, unset, bytes);
    g_free(unset);
    return twin;
}

struct twin *twin_tokens(struct twins *twins, const char *name, uint32_t count, uint32_t below)
{
    uint32_t *tokens = random_tokens(count, below);
    struct twin *twin = twin_from(twins, name, tokens, count * sizeof *tokens);
    g_free(tokens);
    return twin;
}

static void assert_guard(const struct twin *twin, const uint8_t *guard, uint64_t bytes,
                         const char *what)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (guard[i] != GUARD_BYTE)
            g_error("%s writes outside %s, %td bytes from its start", what, twin->name,
                    guard + i - (const uint8_t *)twin->cuda);
}

void twins_assert_guards(const struct twins *twins, const char *what)
{
    for (guint i = 0; i < twins->arrays->len; i++) {
        const struct twin *twin = g_ptr_array_index(twins->arrays, i);
        struct guards guards = guards_of(twin);
        unguard(twin);
        assert_guard(twin, guards.before, GUARD, what);
        assert_guard(twin, guards.behind, guards.behind_bytes, what);
        guard(twin);
    }
}

static double value_at(const void *array, enum model_precision precision, uint64_t i)
{
    return precision == MODEL_BF16 ? (double)bf16_widen(((const uint16_t *)array)[i])
                                   : (double)((const float *)array)[i];
}

/* Arrays do not know their precision, so both readings of the byte are told. */
static void tell_first(const struct twin *twin, uint64_t byte, const char *what)
{
    uint64_t half = byte / sizeof(uint16_t), single = byte / sizeof(float);
    bool whole = (single + 1) * sizeof(float) <= twin->bytes;
    g_error("%s: %s differs from the CPU's first at byte %" G_GUINT64_FORMAT
            " of %" G_GUINT64_FORMAT ": element %" G_GUINT64_FORMAT
            " in bf16 is %g instead of %g; element %" G_GUINT64_FORMAT
            " in fp32 is %.9g instead of %.9g",
            what, twin->name, byte, twin->bytes, half, value_at(twin->cuda, MODEL_BF16, half),
            value_at(twin->cpu, MODEL_BF16, half), single,
            whole ? value_at(twin->cuda, MODEL_FP32, single) : NAN,
            whole ? value_at(twin->cpu, MODEL_FP32, single) : NAN);
}

void twins_assert_same(const struct twins *twins, const char *what)
{
    twins_assert_guards(twins, what);
    for (guint i = 0; i < twins->arrays->len; i++) {
        const struct twin *twin = g_ptr_array_index(twins->arrays, i);
        const uint8_t *cpu = twin->cpu, *cuda = twin->cuda;
        for (uint64_t b = 0; b < twin->bytes; b++)
            if (cpu[b] != cuda[b])
                tell_first(twin, b, what);
    }
}

/* Returns the first NaN, or else the element with the greatest difference. */
static uint64_t worst_element(const struct twin *twin, enum model_precision precision)
{
    uint64_t worst = 0;
    double most = -1;
    for (uint64_t i = 0; i < twin->bytes / twin_element_bytes(precision); i++) {
        double difference =
            fabs(value_at(twin->cuda, precision, i) - value_at(twin->cpu, precision, i));
        if (isnan(difference))
            return i;
        if (difference > most) {
            most = difference;
            worst = i;
        }
    }
    return worst;
}

void twin_assert_close(const struct twin *twin, enum model_precision precision, double tolerance,
                       double least, const char *what)
{
    double error = 0, norm = 0;
    for (uint64_t i = 0; i < twin->bytes / twin_element_bytes(precision); i++) {
        double expected = value_at(twin->cpu, precision, i);
        double difference = value_at(twin->cuda, precision, i) - expected;
        error += difference * difference;
        norm += expected * expected;
    }
    if (!(sqrt(error) <= tolerance * fmax(sqrt(norm), least))) {
        uint64_t i = worst_element(twin, precision);
        g_error(
            "%s: %s is off by %.3g of the norm (%.3g allowed), most at element %" G_GUINT64_FORMAT
            ", which is %g instead of %g",
            what, twin->name, sqrt(error / norm), tolerance, i, value_at(twin->cuda, precision, i),
            value_at(twin->cpu, precision, i));
    }
}

struct kernel_dropout random_dropout(void)
{
    return (struct kernel_dropout){
        .stream = {(uint64_t)g_test_rand_int() << 32 | (uint32_t)g_test_rand_int(),
                   random_token(1000), random_token(1000)},
        .probability = g_test_rand_double_range(0.05, 0.5),
    };
}
