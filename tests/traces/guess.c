/* Iterations that nobody annotated, made at random: what is told of them against what was made. */
#include "traces/guess.h"

#include "traces/annotations.h"

#include <string.h>

enum { MODEL_ALLOCATIONS = 5, MOST_LAYERS = 30 };

struct fixture {
    GRand *random;
    struct activity activity;
    struct records records;
    GArray *kernels, *calls, *memory, *events; /* of struct kernel_record, ... */
    GPtrArray *strings;
    uint64_t now_ns, next_address;
    uint32_t layers;
    bool backward_named, optimizer_named;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    (void)data;
    *f = (struct fixture){.random = g_rand_new_with_seed((guint32)g_test_rand_int()),
                          .kernels = g_array_new(FALSE, FALSE, sizeof(struct kernel_record)),
                          .calls = g_array_new(FALSE, FALSE, sizeof(struct call_record)),
                          .memory = g_array_new(FALSE, FALSE, sizeof(struct memory_record)),
                          .events = g_array_new(FALSE, FALSE, sizeof(struct record)),
                          .strings = g_ptr_array_new(),
                          .now_ns = 1000,
                          .next_address = 0x1000};
    f->layers = (uint32_t)g_rand_int_range(f->random, 1, MOST_LAYERS);
    f->backward_named = f->optimizer_named = true;
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_array_unref(f->kernels);
    g_array_unref(f->calls);
    g_array_unref(f->memory);
    g_array_unref(f->events);
    g_ptr_array_unref(f->strings);
    g_free(f->records.strings);
    g_rand_free(f->random);
}

static uint32_t string(struct fixture *f, const char *text)
{
    for (guint i = 0; i < f->strings->len; i++)
        if (strcmp(g_ptr_array_index(f->strings, i), text) == 0)
            return i + 1;
    g_ptr_array_add(f->strings, (gpointer)text);
    return f->strings->len;
}

/* A kernel runs long after its launch. */
static void launch(struct fixture *f, const char *name)
{
    uint32_t correlation = f->calls->len + 1;
    f->now_ns += 10;
    const struct call_record call = {
        .start_ns = f->now_ns, .end_ns = f->now_ns + 2, .correlation = correlation};
    const struct kernel_record kernel = {.start_ns = 1000000 + correlation * UINT64_C(1000),
                                         .end_ns = 1000500 + correlation * UINT64_C(1000),
                                         .correlation = correlation,
                                         .name = string(f, name)};
    g_array_append_val(f->calls, call);
    g_array_append_val(f->kernels, kernel);
}

static uint64_t allocate(struct fixture *f, uint64_t bytes)
{
    f->now_ns += 10;
    const struct memory_record record = {.start_ns = f->now_ns,
                                         .address = f->next_address,
                                         .bytes = bytes,
                                         .kind = MEMORY_DEVICE,
                                         .operation = MEMORY_ALLOCATE};
    g_array_append_val(f->memory, record);
    f->next_address += bytes;
    return record.address;
}

static void release(struct fixture *f, uint64_t address)
{
    f->now_ns += 10;
    const struct memory_record record = {
        .start_ns = f->now_ns, .address = address, .operation = MEMORY_FREE, .kind = MEMORY_DEVICE};
    g_array_append_val(f->memory, record);
}

static void iterate(struct fixture *f, bool marked)
{
    uint64_t saved[MOST_LAYERS], begin_ns = f->now_ns += 10;
    for (uint32_t layer = 0; layer < f->layers; layer++) {
        saved[layer] = allocate(f, 1000);
        launch(f, "gemm");
        launch(f, "gelu");
    }
    for (uint32_t layer = f->layers; layer-- > 0;) {
        release(f, saved[layer]);
        launch(f, f->backward_named ? "gelu_backward" : "mystery");
        launch(f, "gemm");
        launch(f, "gemm");
    }
    for (uint32_t i = 0; i < MODEL_ALLOCATIONS; i++)
        launch(f, f->optimizer_named ? "multi_tensor_apply_adam" : "other");
    f->now_ns += 10;
    const struct record event = {.type = RECORD_PUSH_POP,
                                 .category = ANNOTATION_ITERATION,
                                 .text = string(f, "iteration"),
                                 .start_ns = begin_ns,
                                 .end_ns = f->now_ns};
    if (marked)
        g_array_append_val(f->events, event);
}

static struct guessed_iteration *guess_all(struct fixture *f)
{
    f->records.strings = g_renew(struct record_string, f->records.strings, f->strings->len);
    for (guint i = 0; i < f->strings->len; i++)
        f->records.strings[i] = (struct record_string){i + 1, g_ptr_array_index(f->strings, i)};
    f->records.string_count = f->strings->len;
    f->records.events = (struct record *)(void *)f->events->data;
    f->records.event_count = f->events->len;
    f->activity.kernels = (struct kernel_record *)(void *)f->kernels->data;
    f->activity.kernel_count = f->kernels->len;
    f->activity.calls = (struct call_record *)(void *)f->calls->data;
    f->activity.call_count = f->calls->len;
    f->activity.memory = (struct memory_record *)(void *)f->memory->data;
    f->activity.memory_count = f->memory->len;
    return guess_iteration(&f->activity, &f->records);
}

static void make_run(struct fixture *f, bool marked, uint32_t iterations)
{
    for (uint32_t i = 0; i < MODEL_ALLOCATIONS; i++)
        allocate(f, 1 << 20);
    release(f, allocate(f, 77)); /* before the iteration */
    launch(f, "initialize");
    for (uint32_t i = 0; i < iterations; i++)
        iterate(f, marked);
}

static void check(const struct fixture *f, const struct guessed_iteration *r, uint32_t backward_by,
                  uint32_t update_by)
{
    g_assert_nonnull(r);
    g_assert_cmpuint(r->kernels, ==, 5 * f->layers + MODEL_ALLOCATIONS);
    g_assert_cmpuint(r->forward.kernels, ==, 2 * f->layers);
    g_assert_cmpuint(r->backward.first, ==, 2 * f->layers);
    g_assert_cmpuint(r->backward.by, ==, backward_by);
    g_assert_cmpuint(r->update.by, ==, update_by);
    g_assert_cmpuint(r->forward.ns, ==, 500 * r->forward.kernels);
    g_assert_cmpuint(r->lasting_count, ==, MODEL_ALLOCATIONS);
    g_assert_cmpuint(r->lasting_bytes, ==, MODEL_ALLOCATIONS << 20);
    g_assert_cmpuint(r->passing_count, ==, f->layers);
    g_assert_cmpuint(r->passing_peak_bytes, ==, 1000 * f->layers);
    g_assert_cmpuint(r->passing_peak_kernel, ==, 2 * (f->layers - 1));
    g_assert_cmpuint(r->new_count, ==, 0);
}

static void test_names(struct fixture *f, gconstpointer data)
{
    (void)data;
    make_run(f, true, 1);
    struct guessed_iteration *r = guess_all(f);
    check(f, r, GUESSED_BOTH, r->update.by);
    /* The last activation is freed three kernels before the update. */
    g_assert_true(r->update.by & GUESSED_NAMES);
    g_assert_cmpuint(r->update.first, ==, 5 * f->layers);
    g_assert_cmpuint(r->update.kernels, ==, MODEL_ALLOCATIONS);
    g_free(r);
}

static void test_memory_alone(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->backward_named = f->optimizer_named = false;
    make_run(f, true, 1);
    struct guessed_iteration *r = guess_all(f);
    check(f, r, GUESSED_MEMORY,
          f->layers > 1 ? GUESSED_MEMORY : r->update.by); /* one is freed at the first kernel */
    if (f->layers >= 20)
        g_assert_cmpuint(r->update.first, >=, 4 * f->layers);
    g_free(r);
}

/* Names without memory, as where an allocator hides it. */
static void test_names_alone(struct fixture *f, gconstpointer data)
{
    (void)data;
    make_run(f, true, 1);
    g_array_set_size(f->memory, 0);
    struct guessed_iteration *r = guess_all(f);
    g_assert_cmpuint(r->backward.first, ==, 2 * f->layers);
    g_assert_cmpuint(r->backward.by, ==, GUESSED_NAMES);
    g_assert_cmpuint(r->update.by, ==, GUESSED_NAMES);
    g_assert_cmpuint(r->passing_count + r->lasting_count, ==, 0);
    g_free(r);
}

/* What repeats, where nothing was marked. */
static void test_repeated(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->layers = MAX(f->layers, 3);
    make_run(f, false, 6);
    struct guessed_iteration *r = guess_all(f);
    g_assert_nonnull(r);
    g_assert_cmpuint(r->kernels, ==, 5 * f->layers + MODEL_ALLOCATIONS);
    g_assert_cmpfloat(r->alike, ==, 1);
    g_assert_cmpuint(r->lasting_count, >=, MODEL_ALLOCATIONS);
    g_free(r);
}

/* Gradients that are allocated in the first iteration, and stay. */
static void test_new(struct fixture *f, gconstpointer data)
{
    (void)data;
    make_run(f, true, 1);
    struct record *event = &g_array_index(f->events, struct record, 0);
    allocate(f, 4096);
    event->end_ns = f->now_ns + 1;
    struct guessed_iteration *r = guess_all(f);
    g_assert_cmpuint(r->new_count, ==, 1);
    g_assert_cmpuint(r->new_bytes, ==, 4096);
    g_free(r);
}

static void test_nothing(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_assert_null(guess_all(f));
    launch(f, "alone");
    g_assert_null(guess_all(f));
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/guess/names", test_names);
    ADD("/guess/memory-alone", test_memory_alone);
    ADD("/guess/names-alone", test_names_alone);
    ADD("/guess/repeated", test_repeated);
    ADD("/guess/new", test_new);
    ADD("/guess/nothing", test_nothing);
    return g_test_run();
}
