/* Converts CUPTI's records to rows. Every test runs once with the real cuptiActivityGetNextRecord,
 * if there is a library, and once with ours. */
#include "collect/device_log.h"

#include "collect/cupti.h"
#include "tests/collect/cupti_buffer.h"

#include <dlfcn.h>
#include <string.h>

struct fixture {
    struct recording *recording;
    struct device_log *log;
    GArray *buffer; /* of bytes */
    size_t bytes[CUPTI_ACTIVITY_KIND_COUNT];
    GRand *random;
};

static cupti_next_record real_next; /* NULL if there is no library */

/* CUPTI's clock is the time of day; the trace's clock began with the machine. */
static const struct device_clock begin = {UINT64_C(1700000000000000000), 5000000000};
static const struct device_clock end = {UINT64_C(1700000001000000000), 6000000000};

static const char *call_name(enum call_class api, uint32_t callback)
{
    if (callback == 7)
        return NULL;
    return api == CALL_DRIVER ? "cuLaunchKernel" : "cudaLaunchKernel_v7000";
}

static void set_up(struct fixture *f, gconstpointer data)
{
    cupti_next_record next = !data ? cupti_buffer_next : real_next;
    GError *error = NULL;
    g_assert_true(cupti_sizes_measure(next, f->bytes, &error));
    g_assert_no_error(error);
    const struct device_log_source source = {next, call_name, f->bytes};
    f->recording = recording_new();
    f->log = device_log_new(&source, f->recording, 77);
    f->buffer = g_array_sized_new(FALSE, TRUE, 1, 64);
    f->random = g_rand_new_with_seed((guint32)g_test_rand_int());
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    device_log_free(f->log);
    recording_free(f->recording);
    g_array_unref(f->buffer);
    g_rand_free(f->random);
}

/* Appends a record with the library's size. */
static void put(struct fixture *f, const void *record, size_t bytes)
{
    CUpti_ActivityKind kind = ((const CUpti_Activity *)record)->kind;
    size_t wanted = kind < CUPTI_ACTIVITY_KIND_COUNT && f->bytes[kind] > 0 ? f->bytes[kind] : bytes;
    guint begin_at = f->buffer->len;
    g_array_set_size(f->buffer, begin_at + (guint)wanted);
    memset(f->buffer->data + begin_at, 0, wanted);
    memcpy(f->buffer->data + begin_at, record, MIN(bytes, wanted));
}

#define PUT(f, type, ...)                  \
    do {                                   \
        const type record = {__VA_ARGS__}; \
        put((f), &record, sizeof(type));   \
    } while (0)

/* Hands over a buffer of the exact size, so that a sanitizer sees reads beyond it. */
static void hand_over(struct fixture *f)
{
    uint8_t *bytes = g_memdup2(f->buffer->data, MAX(f->buffer->len, 1));
    device_log_add_buffer(f->log, bytes, f->buffer->len);
    g_free(bytes);
    g_array_set_size(f->buffer, 0);
}

static uint64_t cupti_ns(uint64_t since_begin)
{
    return begin.cupti_ns + since_begin;
}

static void put_kernel(struct fixture *f, const char *name, uint64_t start, uint64_t end_ns)
{
    PUT(f, CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        .start = cupti_ns(start), .end = end_ns == 0 ? 0 : cupti_ns(end_ns), .deviceId = 1,
        .contextId = 2, .streamId = 7, .gridX = 3, .gridY = 4, .gridZ = 5, .blockX = 32,
        .blockY = 2, .blockZ = 1, .registersPerThread = 40, .staticSharedMemory = 128,
        .dynamicSharedMemory = 256, .localMemoryPerThread = 8, .localMemoryTotal_v2 = 1 << 20,
        .correlationId = (uint32_t)start, .gridId = 9, .graphNodeId = 11, .name = name);
}

static void put_sync(struct fixture *f, uint64_t start, uint64_t end_ns)
{
    PUT(f, CUpti_ActivitySynchronization2, .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
        .type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, .start = cupti_ns(start),
        .end = cupti_ns(end_ns), .correlationId = 12, .contextId = 2, .streamId = UINT32_MAX,
        .cudaEventId = UINT32_MAX);
}

static void put_memory(struct fixture *f, CUpti_ActivityMemoryOperationType operation,
                       uint64_t address, uint64_t bytes, uint64_t when)
{
    PUT(f, CUpti_ActivityMemory4, .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
        .memoryOperationType = operation, .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
        .correlationId = 13, .address = address, .bytes = bytes, .timestamp = cupti_ns(when),
        .PC = 99, .processId = 77, .deviceId = 1, .contextId = 2, .streamId = 7,
        .memoryPoolConfig = {.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL,
                             .address = 0xabc,
                             .releaseThreshold = 5,
                             .pool.size = 4096,
                             .utilizedSize = 512});
}

static const char *text(const struct fixture *f, uint32_t id)
{
    return recording_text(f->recording, id);
}

static void test_every_kind(struct fixture *f, gconstpointer data)
{
    (void)data;
    put_kernel(f, "_ZN2at6native5scaleIfEEvPT_i", 100, 200);
    PUT(f, CUpti_ActivityMemcpy6, .kind = CUPTI_ACTIVITY_KIND_MEMCPY,
        .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, .srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
        .dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, .bytes = 4096, .start = cupti_ns(1),
        .end = cupti_ns(2), .deviceId = 1, .contextId = 2, .streamId = 8, .correlationId = 3,
        .graphNodeId = 4);
    PUT(f, CUpti_ActivityMemcpyPtoP4, .kind = CUPTI_ACTIVITY_KIND_MEMCPY2, .copyKind = 10,
        .srcKind = 3, .dstKind = 3, .bytes = 8192, .start = cupti_ns(3), .end = cupti_ns(4),
        .deviceId = 1, .contextId = 2, .streamId = 8, .srcDeviceId = 1, .srcContextId = 2,
        .dstDeviceId = 3, .dstContextId = 4, .correlationId = 5);
    PUT(f, CUpti_ActivityMemset4, .kind = CUPTI_ACTIVITY_KIND_MEMSET, .value = 255, .bytes = 64,
        .start = cupti_ns(5), .end = cupti_ns(6), .deviceId = 1, .contextId = 2, .streamId = 8,
        .correlationId = 6, .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    put_sync(f, 300, 400);
    PUT(f, CUpti_ActivityAPI, .kind = CUPTI_ACTIVITY_KIND_RUNTIME, .cbid = 211,
        .start = cupti_ns(50), .end = cupti_ns(60), .processId = 77, .threadId = 78,
        .correlationId = 100);
    PUT(f, CUpti_ActivityAPI, .kind = CUPTI_ACTIVITY_KIND_DRIVER, .cbid = 7, .start = cupti_ns(61),
        .end = cupti_ns(62), .processId = 77, .threadId = 78, .correlationId = 101,
        .returnValue = 2);
    PUT(f, CUpti_ActivityOverhead3, .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
        .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH,
        .objectKind = CUPTI_ACTIVITY_OBJECT_THREAD, .objectId.pt = {77, 79}, .start = cupti_ns(7),
        .end = cupti_ns(9));
    put_memory(f, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, 0x7f00, 1024, 10);
    PUT(f, CUpti_ActivityMemoryPool3, .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
        .memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED,
        .memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL, .deviceId = 1, .address = 0xabc,
        .minBytesToKeep = 6, .size = 4096, .releaseThreshold = 5, .utilizedSize = 512,
        .timestamp = cupti_ns(11));
    PUT(f, CUpti_ActivityExternalCorrelation, .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
        .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, .externalId = 42,
        .correlationId = 100);
    PUT(f, CUpti_ActivityName, .kind = CUPTI_ACTIVITY_KIND_NAME); /* not asked for */
    hand_over(f);
    struct activity *activity = device_log_take(f->log, &begin, &end);

    g_assert_cmpuint(activity->kernel_count, ==, 1);
    const struct kernel_record *kernel = &activity->kernels[0];
    const struct launch_record *launch = &activity->launches[0];
    g_assert_cmpuint(kernel->start_ns, ==, begin.monotonic_ns + 100);
    g_assert_cmpuint(kernel->end_ns, ==, begin.monotonic_ns + 200);
    g_assert_cmpstr(text(f, kernel->name), ==, "void at::native::scale<float>(float*, int)");
    g_assert_cmpstr(text(f, kernel->short_name), ==, "scale");
    g_assert_cmpstr(text(f, launch->mangled_name), ==, "_ZN2at6native5scaleIfEEvPT_i");
    g_assert_cmpuint(kernel->device, ==, 1);
    g_assert_cmpuint(kernel->stream, ==, 7);
    g_assert_cmpuint(kernel->process, ==, 77);
    g_assert_cmpuint(launch->grid[2] * 100 + launch->block[0], ==, 532);
    g_assert_cmpuint(launch->local_bytes, ==, 1 << 20);

    g_assert_cmpuint(activity->copy_count, ==, 2);
    g_assert_cmpuint(activity->copies[0].kind, ==, COPY_HOST_TO_DEVICE);
    g_assert_cmpuint(activity->copies[0].source, ==, MEMORY_PINNED);
    g_assert_cmpuint(activity->copies[0].destination, ==, MEMORY_DEVICE);
    g_assert_cmpuint(activity->copies[1].kind, ==, COPY_PEER_TO_PEER);
    g_assert_cmpuint(activity->copies[1].target_device, ==, 3);
    g_assert_cmpuint(activity->set_count, ==, 1);
    g_assert_cmpuint(activity->sets[0].value, ==, 255);
    g_assert_cmpuint(activity->sync_count, ==, 1);
    g_assert_cmpuint(activity->syncs[0].type, ==, SYNC_CONTEXT);
    g_assert_cmpuint(activity->syncs[0].device, ==, 1); /* that of its context */
    g_assert_cmpuint(activity->syncs[0].stream, ==, 0);
    g_assert_cmpuint(activity->call_count, ==, 2);
    g_assert_cmpstr(text(f, activity->calls[0].name), ==, "cudaLaunchKernel_v7000");
    g_assert_cmpstr(text(f, activity->calls[1].name), ==, "driver call 7");
    g_assert_cmpuint(activity->calls[1].result, ==, 2);
    g_assert_cmpuint(activity->overhead_count, ==, 1);
    g_assert_cmpuint(activity->overheads[0].thread, ==, 79);
    g_assert_cmpstr(text(f, activity->overheads[0].name), ==, "buffer flush");
    g_assert_cmpuint(activity->memory_count, ==, 1);
    g_assert_cmpuint(activity->memory[0].pool_used_bytes, ==, 512);
    g_assert_cmpuint(activity->memory[0].operation, ==, MEMORY_ALLOCATE);
    g_assert_cmpuint(activity->pool_count, ==, 1);
    g_assert_cmpuint(activity->pools[0].operation, ==, POOL_TRIM);
    g_assert_cmpuint(activity->pools[0].kept_bytes, ==, 6);
    g_assert_cmpuint(activity->correlation_count, ==, 1);
    g_assert_cmpuint(activity->correlations[0].range, ==, 42);
    g_assert_cmpuint(activity->unreadable + activity->unfinished + activity->untimed, ==, 0);
    g_assert_true(device_log_has_sync_after(f->log, cupti_ns(400)));
    g_assert_false(device_log_has_sync_after(f->log, cupti_ns(401)));
    activity_free(activity);

    activity = device_log_take(f->log, &begin, &end);
    g_assert_cmpuint(activity->kernel_count + activity->call_count + activity->memory_count, ==, 0);
    g_assert_null(activity->kernels);
    activity_free(activity);
}

/* Truncated records and what follows an unknown kind are counted; earlier records are kept. */
static void test_damaged(struct fixture *f, gconstpointer data)
{
    (void)data;
    put_kernel(f, "a", 1, 2);
    put_kernel(f, "b", 3, 4);
    g_array_set_size(f->buffer, f->buffer->len - 100);
    hand_over(f);
    put_kernel(f, "c", 5, 6);
    const CUpti_Activity unknown = {.kind = (CUpti_ActivityKind)5000};
    put(f, &unknown, sizeof unknown);
    put_kernel(f, "d", 7, 8);
    size_t kernel_bytes = f->bytes[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL];
    hand_over(f);
    device_log_add_dropped(f->log, 3);
    device_log_add_dropped(f->log, 4);
    struct activity *activity = device_log_take(f->log, &begin, &end);
    g_assert_cmpuint(activity->kernel_count, ==, 2);
    g_assert_cmpstr(text(f, activity->kernels[0].name), ==, "a");
    g_assert_cmpstr(text(f, activity->kernels[1].name), ==, "c");
    g_assert_cmpuint(activity->unreadable, ==, 2 * kernel_bytes - 100 + sizeof unknown);
    g_assert_cmpuint(activity->dropped, ==, 7);
    activity_free(activity);
    hand_over(f); /* nothing at all */
    activity = device_log_take(f->log, &begin, &end);
    g_assert_cmpuint(activity->unreadable + activity->dropped, ==, 0);
    activity_free(activity);
}

static void test_without_times(struct fixture *f, gconstpointer data)
{
    (void)data;
    put_kernel(f, "running", 10, 0);
    put_kernel(f, "backwards", 20, 10);
    PUT(f, CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .name = "never");
    put_memory(f, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, 1, 1, 1 - begin.cupti_ns - 1);
    PUT(f, CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        .start = cupti_ns(5), .end = cupti_ns(6)); /* no name either */
    hand_over(f);
    struct activity *activity = device_log_take(f->log, &begin, &end);
    g_assert_cmpuint(activity->kernel_count, ==, 1);
    g_assert_cmpuint(activity->unfinished, ==, 1);
    g_assert_cmpuint(activity->untimed, ==, 3);
    g_assert_cmpuint(activity->memory_count, ==, 0);
    activity_free(activity);
}

/* Buffers arrive in any order; rows are ordered by start, and launches match their kernels. */
static void test_order(struct fixture *f, gconstpointer data)
{
    enum { KERNELS = 500, IN_A_BUFFER = 20 };
    (void)data;
    uint32_t times[KERNELS];
    for (uint32_t i = 0; i < KERNELS; i++)
        times[i] = i * 10;
    for (uint32_t i = KERNELS - 1; i > 0; i--) {
        uint32_t other = (uint32_t)g_rand_int_range(f->random, 0, (gint32)i + 1), kept = times[i];
        times[i] = times[other];
        times[other] = kept;
    }
    for (uint32_t i = 0; i < KERNELS; i++) {
        PUT(f, CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
            .start = cupti_ns(times[i]), .end = cupti_ns(times[i] + 5), .name = "k",
            .gridId = times[i]);
        if (i % IN_A_BUFFER == 0)
            hand_over(f);
    }
    hand_over(f);
    struct activity *activity = device_log_take(f->log, &begin, &end);
    g_assert_cmpuint(activity->kernel_count, ==, KERNELS);
    for (uint32_t i = 0; i < KERNELS; i++) {
        g_assert_cmpuint(activity->kernels[i].start_ns, ==, begin.monotonic_ns + i * 10);
        g_assert_cmpuint(activity->launches[i].grid_id, ==, i * 10);
    }
    activity_free(activity);
}

/* Hands over the records in any order. */
static void hand_over_mixed(struct fixture *f, GPtrArray *events, uint64_t forget_before)
{
    while (events->len > 0) {
        guint any = (guint)g_rand_int_range(f->random, 0, (gint32)events->len);
        put(f, g_ptr_array_index(events, any), f->bytes[CUPTI_ACTIVITY_KIND_MEMORY2]);
        g_ptr_array_remove_index_fast(events, any);
        if (g_rand_int_range(f->random, 0, 10) == 0) {
            hand_over(f);
            device_log_forget(f->log, cupti_ns(forget_before));
        }
    }
    hand_over(f);
}

/* The allocations live at the begin of a window match a count by address, in whatever order buffers
 * arrive. */
static void test_past(struct fixture *f, gconstpointer data)
{
    enum { EVENTS = 400, ADDRESSES = 30, LATE = 50 };
    (void)data;
    uint64_t live[ADDRESSES] = {0}; /* bytes */
    g_autoptr(GPtrArray) events = g_ptr_array_new_with_free_func(g_free);
    put_kernel(f, "before", 1, 2);
    hand_over(f);
    for (uint64_t i = 1; i <= EVENTS; i++) {
        uint32_t place = (uint32_t)g_rand_int_range(f->random, 0, ADDRESSES);
        bool release = live[place] > 0;
        live[place] = release ? 0 : i;
        put_memory(f,
                   release ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                           : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
                   0x1000 + place, i, i);
        g_ptr_array_add(events, g_memdup2(f->buffer->data, f->buffer->len));
        g_array_set_size(f->buffer, 0);
        if (i % LATE == 0)
            hand_over_mixed(f, events, i - LATE + 1);
    }
    device_log_forget(f->log, UINT64_MAX);
    put_kernel(f, "within", 500, 501);
    hand_over(f);
    struct activity *activity = device_log_take(f->log, &begin, &end);
    g_assert_cmpuint(activity->kernel_count, ==, 1);
    g_assert_cmpstr(text(f, activity->kernels[0].name), ==, "within");
    uint32_t count = 0;
    for (uint32_t i = 0; i < ADDRESSES; i++)
        count += live[i] > 0;
    g_assert_cmpuint(activity->memory_count, ==, count);
    for (uint32_t i = 0; i < count; i++)
        g_assert_cmpuint(activity->memory[i].bytes, ==, live[activity->memory[i].address - 0x1000]);
    activity_free(activity);
}

/* Both clocks agree at both ends, whatever happened in between. */
static void test_clocks(struct fixture *f, gconstpointer data)
{
    (void)data;
    const struct device_clock late = {end.cupti_ns, end.monotonic_ns + 5000};
    put_kernel(f, "whole", 0, end.cupti_ns - begin.cupti_ns);
    put_kernel(f, "half", 500000000, 500000000);
    hand_over(f);
    struct activity *activity = device_log_take(f->log, &begin, &late);
    g_assert_cmpuint(activity->kernels[0].start_ns, ==, begin.monotonic_ns);
    g_assert_cmpuint(activity->kernels[0].end_ns, ==, late.monotonic_ns);
    g_assert_cmpuint(activity->kernels[1].start_ns, ==, begin.monotonic_ns + 500002500);
    activity_free(activity);
    put_kernel(f, "no time has passed", 7, 8);
    hand_over(f);
    activity = device_log_take(f->log, &begin, &begin);
    g_assert_cmpuint(activity->kernels[0].start_ns, ==, begin.monotonic_ns + 7);
    activity_free(activity);
}

static void test_short_names(void)
{
    static const char *const names[][2] = {
        {"void scale<float>(float*, int)", "scale"},
        {"ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"},
        {"void at::native::(anonymous namespace)::fill<int, at::Op<2>>(int, at::Op<2>)", "fill"},
        {"void a::b<c::d<e>, (f)1>::g<h>(i, j(*)(k))", "g"},
        {"scale(float*)", "scale"},
        {"", ""},
        {"<", "<"},
        {"void f<(", "f"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *name = kernel_name_short(names[i][0]);
        g_assert_cmpstr(name, ==, names[i][1]);
    }
    g_autofree char *plain = kernel_name_demangle("_Znonsense");
    g_assert_cmpstr(plain, ==, "_Znonsense");
}

static size_t odd_bytes;

/* Simulates a library whose kernel records have `odd_bytes`. */
static CUptiResult odd_next(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
    if (!*record || (*record)->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        return cupti_buffer_next(buffer, valid_bytes, record);
    *record = (CUpti_Activity *)(void *)((uint8_t *)*record + odd_bytes);
    return odd_bytes == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}

static void test_sizes(void)
{
    static const struct {
        size_t bytes;
        bool ok;
    } cases[] = {{sizeof(CUpti_ActivityKernel10), true},
                 {sizeof(CUpti_ActivityKernel9), true},
                 {sizeof(CUpti_ActivityKernel10) + 16, true}, /* a version after the headers */
                 {sizeof(CUpti_ActivityKernel10) + 24, false},
                 {sizeof(CUpti_ActivityKernel9) - 8, false},
                 {0, false}};
    size_t bytes[CUPTI_ACTIVITY_KIND_COUNT];
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        odd_bytes = cases[i].bytes;
        bool ok = cupti_sizes_measure(odd_next, bytes, &error);
        g_assert_cmpint(ok, ==, cases[i].ok);
        g_assert_cmpint(error && strstr(error->message, "records of kernels"), ==, !cases[i].ok);
        g_clear_error(&error);
    }
}

static const struct {
    const char *name;
    void (*function)(struct fixture *, gconstpointer);
} tests[] = {
    {"every-kind", test_every_kind},
    {"damaged", test_damaged},
    {"without-times", test_without_times},
    {"order", test_order},
    {"past", test_past},
    {"clocks", test_clocks},
};

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    void *library = dlopen(CUPTI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&real_next = dlsym(library, "cuptiActivityGetNextRecord");
    size_t bytes[CUPTI_ACTIVITY_KIND_COUNT];
    if (real_next && !cupti_sizes_measure(real_next, bytes, NULL))
        real_next = NULL; /* some libraries do nothing without a driver */
    for (size_t i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_autofree char *ours = g_strconcat("/device-log/", tests[i].name, NULL);
        g_autofree char *real = g_strconcat("/device-log/with-cupti/", tests[i].name, NULL);
        g_test_add(ours, struct fixture, NULL, set_up, tests[i].function, tear_down);
        if (real_next)
            g_test_add(real, struct fixture, "real", set_up, tests[i].function, tear_down);
    }
    g_test_add_func("/device-log/short-names", test_short_names);
    g_test_add_func("/device-log/sizes", test_sizes);
    if (!real_next)
        g_test_message("%s does not walk here: only ours is tested", CUPTI_LIBRARY);
    return g_test_run();
}
