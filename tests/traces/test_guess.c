/* Guesses about random iterations without annotations, compared with how they were made. */
#include "traces/activity/guess.h"

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
    uint32_t layers, micro_batches;
    bool backward_named, optimizer_named, unlike;
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
    f->micro_batches = 1;
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

/* Launches a kernel, which runs long after its launch. */
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

/* The first micro-batch makes the gradients; the others add to them. With `unlike`, the kernels of
 * a layer depend on the micro-batch. */
static void run_micro_batch(struct fixture *f, uint32_t number)
{
    static const char *const variants[] = {"gemm", "gemm_split", "gemv", "gemm_small"};
    const char *gemm = f->unlike ? variants[number % G_N_ELEMENTS(variants)] : "gemm";
    uint64_t saved[MOST_LAYERS];
    for (uint32_t layer = 0; layer < f->layers; layer++) {
        saved[layer] = allocate(f, 1000);
        launch(f, gemm);
        launch(f, "gelu");
    }
    for (uint32_t layer = f->layers; layer-- > 0;) {
        release(f, saved[layer]);
        launch(f, f->backward_named ? "gelu_backward" : "mystery");
        launch(f, gemm);
        launch(f, "gemm");
        if (number > 0)
            launch(f, "add");
    }
}

static void iterate(struct fixture *f, bool marked)
{
    uint64_t begin_ns = f->now_ns += 10;
    for (uint32_t i = 0; i < f->micro_batches; i++)
        run_micro_batch(f, i);
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

static const struct guessed_phase *phase_at(const struct guessed_iteration *r, guint place)
{
    g_assert_cmpuint(place, <, r->phases->len);
    return &g_array_index(r->phases, struct guessed_phase, place);
}

/* Returns NULL if it was not found. */
static const struct guessed_phase *update_of(const struct guessed_iteration *r)
{
    const struct guessed_phase *last = phase_at(r, r->phases->len - 1);
    return last->phase == TRACE_UPDATE_PHASE ? last : NULL;
}

static void assert_no_doubt(const struct guessed_iteration *r)
{
    g_autofree char *doubt = guess_doubt(r);
    g_assert_cmpstr(doubt, ==, NULL);
}

static void check(const struct fixture *f, const struct guessed_iteration *r, uint32_t backward_by)
{
    g_assert_nonnull(r);
    g_assert_cmpuint(r->kernels, ==, 5 * f->layers + MODEL_ALLOCATIONS);
    g_assert_cmpuint(r->micro_batches, ==, 1);
    assert_no_doubt(r);
    g_assert_cmpuint(phase_at(r, 0)->phase, ==, TRACE_FORWARD);
    g_assert_cmpuint(phase_at(r, 0)->kernels, ==, 2 * f->layers);
    g_assert_cmpuint(phase_at(r, 0)->ns, ==, 500 * 2 * f->layers);
    g_assert_cmpuint(phase_at(r, 1)->phase, ==, TRACE_BACKWARD);
    g_assert_cmpuint(phase_at(r, 1)->first, ==, 2 * f->layers);
    g_assert_cmpuint(phase_at(r, 1)->by, ==, backward_by);
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
    check(f, r, GUESSED_BOTH);
    /* The last activation is freed three kernels before the update. */
    const struct guessed_phase *update = update_of(r);
    g_assert_nonnull(update);
    g_assert_true(update->by & GUESSED_NAMES);
    g_assert_cmpuint(update->first, ==, 5 * f->layers);
    g_assert_cmpuint(update->kernels, ==, MODEL_ALLOCATIONS);
    guess_free(r);
}

static void test_memory_alone(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->backward_named = f->optimizer_named = false;
    make_run(f, true, 1);
    struct guessed_iteration *r = guess_all(f);
    check(f, r, GUESSED_MEMORY);
    if (f->layers > 1) /* with one layer, it is freed at backward's first kernel */
        g_assert_cmpuint(update_of(r)->by, ==, GUESSED_MEMORY);
    if (f->layers >= 20)
        g_assert_cmpuint(update_of(r)->first, >=, 4 * f->layers);
    guess_free(r);
}

/* Names without memory, as with an allocator that hides it. */
static void test_names_alone(struct fixture *f, gconstpointer data)
{
    (void)data;
    make_run(f, true, 1);
    g_array_set_size(f->memory, 0);
    struct guessed_iteration *r = guess_all(f);
    g_assert_cmpuint(phase_at(r, 1)->first, ==, 2 * f->layers);
    g_assert_cmpuint(phase_at(r, 1)->by, ==, GUESSED_NAMES);
    g_assert_cmpuint(update_of(r)->by, ==, GUESSED_NAMES);
    g_assert_cmpuint(r->passing_count + r->lasting_count, ==, 0);
    guess_free(r);
}

static uint32_t micro_batch_kernels(const struct fixture *f, uint32_t number)
{
    return (number > 0 ? 6 : 5) * f->layers;
}

static void check_micro_batches(const struct fixture *f, const struct guessed_iteration *r,
                                uint8_t by)
{
    uint32_t first = 0;
    g_assert_cmpuint(r->micro_batches, ==, f->micro_batches);
    g_assert_cmpuint(r->phases->len, ==, 2 * f->micro_batches + 1);
    assert_no_doubt(r);
    for (uint32_t i = 0; i < f->micro_batches; i++) {
        const struct guessed_phase *forward = phase_at(r, 2 * i), *backward = forward + 1;
        g_assert_cmpuint(forward->phase, ==, TRACE_FORWARD);
        g_assert_cmpuint(forward->first, ==, first);
        g_assert_cmpuint(forward->kernels, ==, 2 * f->layers);
        g_assert_cmpuint(forward->by, ==, by);
        g_assert_cmpuint(backward->phase, ==, TRACE_BACKWARD);
        g_assert_cmpuint(backward->first, ==, first + 2 * f->layers);
        g_assert_cmpuint(backward->by, ==, by);
        first += micro_batch_kernels(f, i);
    }
    g_assert_nonnull(update_of(r));
    g_assert_cmpuint(update_of(r)->first, ==, first);
    g_assert_cmpuint(update_of(r)->kernels, ==, MODEL_ALLOCATIONS);
}

/* Accumulates gradients: forward and backward come several times before the update. */
static void test_micro_batches(struct fixture *f, gconstpointer data)
{
    bool marked = g_rand_boolean(f->random), hidden = g_rand_boolean(f->random);
    (void)data;
    f->layers = MAX(f->layers, 3);
    f->micro_batches = (uint32_t)g_rand_int_range(f->random, 2, 40);
    make_run(f, marked, marked ? 1 : 4);
    if (hidden)
        g_array_set_size(f->memory, 0);
    g_test_message("%u micro-batches of %u layers%s%s", f->micro_batches, f->layers,
                   marked ? "" : ", not marked", hidden ? ", memory hidden" : "");
    struct guessed_iteration *r = guess_all(f);
    g_assert_nonnull(r);
    check_micro_batches(f, r, hidden ? GUESSED_NAMES : GUESSED_BOTH);
    guess_free(r);
}

/* Each micro-batch has its own kernels: they are not found, but a doubt is reported. */
static void test_unlike_micro_batches(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->layers = MAX(f->layers, 3);
    f->micro_batches = 3;
    f->unlike = true;
    make_run(f, true, 1);
    struct guessed_iteration *r = guess_all(f);
    g_assert_cmpuint(r->micro_batches, ==, 1);
    g_assert_cmpuint(r->rises, ==, 3);
    g_autofree char *doubt = guess_doubt(r);
    g_assert_nonnull(strstr(doubt, "rises and falls 3 times"));
    guess_free(r);
}

/* Layers that are recomputed in backward are not micro-batches. */
static void test_recomputed(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->layers = MAX(f->layers, 3);
    uint64_t begin_ns = f->now_ns;
    for (uint32_t layer = 0; layer < f->layers; layer++) {
        launch(f, "gemm");
        launch(f, "gelu");
    }
    launch(f, "loss");
    launch(f, "loss_backward");
    for (uint32_t layer = 0; layer < f->layers; layer++) {
        launch(f, "gemm");
        launch(f, "gelu");
        launch(f, "gelu_backward");
        launch(f, "gemm");
    }
    launch(f, "adam");
    const struct record event = {.type = RECORD_PUSH_POP,
                                 .category = ANNOTATION_ITERATION,
                                 .text = string(f, "iteration"),
                                 .start_ns = begin_ns,
                                 .end_ns = f->now_ns + 1};
    g_array_append_val(f->events, event);
    struct guessed_iteration *r = guess_all(f);
    g_assert_cmpuint(r->micro_batches, ==, 1);
    g_assert_cmpuint(phase_at(r, 1)->first, ==, 2 * f->layers + 1);
    assert_no_doubt(r);
    guess_free(r);
}

/* Finds what repeats in recordings without marks, wherever they begin. */
static void test_repeated(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->layers = MAX(f->layers, 3);
    make_run(f, false, 6);
    guint cut = (guint)g_rand_int_range(f->random, 0, 5 * (gint32)f->layers);
    g_array_set_size(f->kernels, f->kernels->len - cut);
    struct guessed_iteration *r = guess_all(f);
    g_assert_nonnull(r);
    g_assert_cmpuint(r->kernels, ==, 5 * f->layers + MODEL_ALLOCATIONS);
    g_assert_cmpfloat(r->alike, >,
                      0.9); /* kernels before the first step may count as part of a step */
    g_assert_cmpuint(phase_at(r, 0)->kernels, ==, 2 * f->layers);
    g_assert_cmpuint(update_of(r)->kernels, ==, MODEL_ALLOCATIONS);
    g_assert_cmpuint(r->lasting_count, >=, MODEL_ALLOCATIONS);
    guess_free(r);
}

/* Gradients are allocated in the first iteration and stay. */
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
    guess_free(r);
}

/* If all kernels have one name, the end of a forward is unknown. */
static void test_one_name(struct fixture *f, gconstpointer data)
{
    uint64_t address = 0;
    (void)data;
    uint64_t begin_ns = f->now_ns;
    for (int i = g_rand_int_range(f->random, 100, 400); i > 0; i--) {
        if (address == 0)
            address = allocate(f, 1024);
        launch(f, "work");
        if (g_rand_boolean(f->random)) {
            release(f, address);
            address = 0;
        }
    }
    const struct record event = {.type = RECORD_PUSH_POP,
                                 .category = ANNOTATION_ITERATION,
                                 .text = string(f, "iteration"),
                                 .start_ns = begin_ns,
                                 .end_ns = f->now_ns + 1};
    g_array_append_val(f->events, event);
    struct guessed_iteration *r = guess_all(f);
    g_assert_cmpuint(r->micro_batches, ==, 1);
    g_assert_cmpuint(r->turns, <=, 1);
    guess_free(r);
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
    ADD("/guess/micro-batches", test_micro_batches);
    ADD("/guess/unlike-micro-batches", test_unlike_micro_batches);
    ADD("/guess/recomputed", test_recomputed);
    ADD("/guess/repeated", test_repeated);
    ADD("/guess/new", test_new);
    ADD("/guess/one-name", test_one_name);
    ADD("/guess/nothing", test_nothing);
    return g_test_run();
}
