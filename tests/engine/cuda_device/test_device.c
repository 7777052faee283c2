/* The CUDA device's queues, memories and errors, over a runtime that needs no GPU. */
#include "engine/cuda/device.h"
#include "engine/host/machine.h"
#include "engine/probe/probe.h"
#include "engine/probe/probe_steps.h"
#include "fake_cuda.h"
#include "fake_operators.h"
#include "platforms/platform.h"
#include "tests/drawn.h"
#include "tests/engine/run/trial.h"
#include "tests/sanitized.h"

#include <glib/gstdio.h>
#include <string.h>

enum { ARENA = 48 << 20, HOST = 1 << 20, DELAY = 200 };

static const struct mover_after nothing = {.queue = {0}};

static struct device *open_with(uint64_t host_pool_bytes)
{
    const struct device_options options = {
        .arena_bytes = ARENA, .host_pool_bytes = host_pool_bytes, .threads = 1};
    GError *error = NULL;
    struct device *device = device_cuda.open(&options, &error);
    g_assert_no_error(error);
    return device;
}

static struct device *open_device(void)
{
    return open_with(HOST);
}

static void close_device(struct device *device)
{
    GError *error = NULL;
    device_cuda.drain(device);
    device_cuda.check(device, &error);
    g_assert_no_error(error);
    device_cuda.close(device);
    fake_cuda_check_all_freed();
}

static uint8_t *draw_bytes(size_t count)
{
    uint8_t *bytes = g_malloc(count);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)g_test_rand_int();
    return bytes;
}

/* Chains across the queues, with far more pieces than events. */
static void test_round_trips(void)
{
    enum { TRIPS = 3000, BYTES = 256, PLACES = 64 };
    struct device *device = open_device();
    uint8_t received[BYTES];
    g_autofree uint8_t *sent = draw_bytes(BYTES);
    struct mover_after after = nothing;
    device_cuda.write(device, DEVICE_HOST_POOL, 0, BYTES, sent);
    for (uint64_t i = 0; i < TRIPS; i++) {
        uint64_t from = i % PLACES * BYTES, to = (i + 1) % PLACES * BYTES;
        after.queue[MOVER_H2D] = device_cuda.copy(device, MOVER_H2D, from, from, BYTES, &after);
        after.queue[MOVER_COMPUTE] = device_cuda.move(device, 1 << 20, from, BYTES, &after);
        after.queue[MOVER_HOST] = device_cuda.join_on_host(device, &after);
        after.queue[MOVER_D2H] = device_cuda.copy(device, MOVER_D2H, 1 << 20, to, BYTES, &after);
    }
    device_cuda.wait(device, &after);
    device_cuda.read(device, DEVICE_HOST_POOL, TRIPS % PLACES * BYTES, BYTES, received);
    g_assert_cmpmem(sent, BYTES, received, BYTES);
    struct device_traffic traffic = device_cuda.traffic(device);
    g_assert_cmpuint(traffic.bytes[MOVER_H2D], ==, TRIPS * BYTES);
    g_assert_cmpuint(traffic.copies[MOVER_D2H], ==, TRIPS);
    close_device(device);
}

/* A stream waits for a piece once: later work that needs the piece comes behind that wait. */
static void test_waits_once(void)
{
    enum { PIECES = 10 };
    struct device *device = open_device();
    struct mover_after copied = nothing, started = nothing;
    started.queue[MOVER_HOST] = device_cuda.join_on_host(device, &nothing);
    device_cuda.wait(device, &started); /* the host's thread has made its first call */
    fake_cuda_stop(true);
    copied.queue[MOVER_H2D] = device_cuda.copy(device, MOVER_H2D, 0, 0, 64, &nothing);
    device_cuda.move(device, 4096, 0, 64, &copied);
    uint64_t calls = fake_cuda_calls();
    for (int i = 0; i < PIECES; i++)
        device_cuda.move(device, 8192, 0, 64, &copied);
    g_assert_cmpuint(fake_cuda_calls() - calls, ==, PIECES); /* the moves alone */
    fake_cuda_stop(false);
    close_device(device);
}

/* Of the pieces on the device one of many has an event, and those that something waits for: the
 * caller, or a copy. */
static void test_events(void)
{
    enum { PIECES = 1280, SHARE = 64, WAITED = 100, COPIED = 300 };
    for (int moves = 0; moves < 2; moves++) {
        struct device *device = open_with(moves ? HOST : 0);
        struct mover_after moved = nothing;
        uint64_t before = fake_cuda_records();
        for (int i = 1; i <= PIECES; i++) {
            moved.queue[MOVER_COMPUTE] = device_cuda.move(device, 4096, 0, 64, &nothing);
            if (i == WAITED)
                device_cuda.wait(device, &moved);
            if (i == COPIED && moves) /* has an event itself, too */
                device_cuda.copy(device, MOVER_D2H, 0, 0, 64, &moved);
        }
        g_assert_cmpuint(fake_cuda_records() - before, ==, PIECES / SHARE + 1 + 2 * moves);
        close_device(device);
    }
}

/* With few events, later work is still in order, and a ticket says what its piece has done. */
static void test_few_events(void)
{
    enum { PIECES = 1500, BYTES = 256 };
    struct device *device = open_with(0);
    g_autofree uint8_t *sent = draw_bytes(BYTES);
    uint8_t received[BYTES];
    for (int i = 0; i < PIECES; i++) {
        struct mover_after after = nothing;
        memset(sent, i, BYTES);
        after.queue[MOVER_COMPUTE] = device_cuda.send(device, 0, BYTES, sent, &nothing);
        after.queue[MOVER_COMPUTE] = device_cuda.move(device, 4096, 0, BYTES, &after);
        if (g_test_rand_int_range(0, 50) != 0)
            continue;
        if (g_test_rand_bit())
            after.queue[MOVER_HOST] = device_cuda.join_on_host(device, &after);
        device_cuda.wait(device, &after);
        device_cuda.read(device, DEVICE_ARENA, 4096, BYTES, received);
        g_assert_cmpmem(sent, BYTES, received, BYTES);
    }
    close_device(device);
}

/* Asking how long streams have waited does not wait for them. */
static void test_stalls(void)
{
    struct device *device = open_device();
    struct mover_after copied = nothing;
    fake_cuda_stop(true);
    copied.queue[MOVER_H2D] = device_cuda.copy(device, MOVER_H2D, 0, 0, 64, &nothing);
    device_cuda.move(device, 4096, 0, 64, &copied);
    g_assert_cmpfloat(device_cuda.stall_seconds(device), ==, 0);
    fake_cuda_stop(false);
    device_cuda.drain(device);
    double stalled = device_cuda.stall_seconds(device);
    g_assert_cmpfloat(stalled, >=, 0);
    g_assert_cmpfloat(device_cuda.stall_seconds(device), ==, stalled);
    close_device(device);
}

/* Work on the host may wait for a piece whose event is long due to be used again. */
static void test_late_host(void)
{
    enum { PIECES = 2500 };
    struct device *device = open_device();
    struct mover_after last = nothing;
    for (int i = 0; i < PIECES; i++) {
        struct mover_after copied = nothing;
        copied.queue[MOVER_D2H] = device_cuda.copy(device, MOVER_D2H, 0, 0, 64, &nothing);
        last.queue[MOVER_HOST] = device_cuda.join_on_host(device, &copied);
        if (i % 100 == 0) /* the copies after this one wait for the host to come this far */
            device_cuda.copy(device, MOVER_D2H, 0, 0, 64, &last);
    }
    device_cuda.wait(device, &last);
    close_device(device);
}

/* No kernel is loaded while streams wait for the host, or for the file below its pool: neither the
 * first one, nor what a product calls to which something is added. */
static void test_first_kernel(void)
{
    enum { PIECES = 200, WIDTH = 8 };
    const struct device_options options = {.arena_bytes = ARENA,
                                           .host_pool_bytes = HOST,
                                           .threads = 1,
                                           .storage = {g_get_tmp_dir(), HOST, 4096, 1}};
    const struct device_transfer stored = {.bytes = HOST};
    GError *error = NULL;
    struct device *device = device_cuda.open(&options, &error);
    struct probe_product product;
    g_assert_no_error(error);
    probe_product_init(&product, device, MODEL_FP32, WIDTH, WIDTH, WIDTH);
    product.op.in[2] = NO_INDEX;
    for (int adds = 0; adds < 2; adds++) {
        struct mover_after last = nothing;
        for (int i = 0; i < PIECES; i++) {
            struct mover_after copied = nothing;
            copied.queue[MOVER_D2H] = device_cuda.copy(device, MOVER_D2H, 4096, 0, 64, &last);
            last.queue[MOVER_HOST] = device_cuda.join_on_host(device, &copied);
        }
        last.queue[MOVER_NVME_WRITE] = device_cuda.transfer(device, MOVER_NVME_WRITE, &stored,
                                                            &last);
        device_cuda.copy(device, MOVER_H2D, 4096, 0, 64, &last);
        if (adds) {
            product.op.in[2] = product.op.in[0];
            product.operation.in[2] = product.operation.in[0];
        }
        device_cuda.compute(device, &product.operation, &nothing);
    }
    close_device(device);
}

static void check_move(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                       uint8_t *model)
{
    g_autofree uint8_t *there = g_malloc(ARENA);
    struct mover_after moved = nothing;
    moved.queue[MOVER_COMPUTE] = device_cuda.move(device, to, from, bytes, &nothing);
    memmove(model + to, model + from, bytes);
    device_cuda.wait(device, &moved);
    device_cuda.read(device, DEVICE_ARENA, 0, ARENA, there);
    g_assert_true(memcmp(there, model, ARENA) == 0);
}

/* Moves as memmove does, whatever the distance. */
static void test_moves(void)
{
    static const uint64_t distances[] = {0, 256, 4096, 1 << 20, 17 << 20};
    static const uint64_t sizes[] = {256, 4096, (1 << 20) + 256, 20 << 20, (16 << 20) + 512};
    struct device *device = open_device();
    g_autofree uint8_t *model = draw_bytes(ARENA);
    device_cuda.write(device, DEVICE_ARENA, 0, ARENA, model);
    for (size_t d = 0; d < G_N_ELEMENTS(distances); d++)
        for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
            check_move(device, 512, 512 + distances[d], sizes[s], model);
            check_move(device, 512 + distances[d], 512, sizes[s], model);
        }
    close_device(device);
}

/* The arena's zeros, and what was written to it, arrive before later work. */
static void test_before_queues(void)
{
    enum { BYTES = 1 << 20, LAST = ARENA - BYTES, ROUNDS = 40 };
    struct device *device = open_device();
    g_autofree uint8_t *sent = draw_bytes(BYTES), *received = g_malloc(BYTES);
    struct mover_after after = nothing;
    device_cuda.write(device, DEVICE_HOST_POOL, 0, BYTES, sent);
    after.queue[MOVER_H2D] = device_cuda.copy(device, MOVER_H2D, LAST, 0, BYTES, &nothing);
    device_cuda.wait(device, &after);
    device_cuda.read(device, DEVICE_ARENA, LAST, BYTES, received);
    g_assert_cmpmem(sent, BYTES, received, BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        memset(sent, i, BYTES);
        device_cuda.write(device, DEVICE_ARENA, LAST, BYTES, sent);
        after.queue[MOVER_COMPUTE] = device_cuda.move(device, 0, LAST, BYTES, &nothing);
        device_cuda.wait(device, &after);
        device_cuda.read(device, DEVICE_ARENA, 0, BYTES, received);
        g_assert_cmpmem(sent, BYTES, received, BYTES);
    }
    close_device(device);
}

/* Sends more than the staging places hold, from memory that is overwritten at once. */
static void test_send(void)
{
    enum { BYTES = (7 << 20) + 12 };
    struct device *device = open_device();
    g_autofree uint8_t *sent = draw_bytes(BYTES), *kept = g_memdup2(sent, BYTES);
    g_autofree uint8_t *received = g_malloc(BYTES);
    struct mover_after after = nothing;
    after.queue[MOVER_COMPUTE] = device_cuda.send(device, 4096, BYTES, sent, &nothing);
    memset(sent, 0, BYTES);
    device_cuda.wait(device, &after);
    device_cuda.read(device, DEVICE_ARENA, 4096, BYTES, received);
    g_assert_true(memcmp(kept, received, BYTES) == 0);
    close_device(device);
}

/* Pieces of 1 MiB go to the file below the host pool and come back elsewhere, and a stream fetches
 * them there: each waits for the one before. */
static void test_transfers(void)
{
    enum { PIECE = 1 << 20, PIECES = 24 };
    g_autofree char *folder = g_dir_make_tmp("pstar-transfers-XXXXXX", NULL);
    const struct device_options options = {.arena_bytes = PIECE,
                                           .host_pool_bytes = 3 * PIECE,
                                           .threads = 1,
                                           .storage = {folder, 2 * PIECE, 64 << 10, 4}};
    GError *error = NULL;
    struct device *device = device_cuda.open(&options, &error);
    g_autofree uint8_t *received = g_malloc(PIECE);
    g_assert_no_error(error);
    for (uint64_t i = 0; i < PIECES; i++) {
        g_autofree uint8_t *sent = draw_bytes(PIECE);
        uint64_t checksum = 0;
        struct mover_after after = nothing;
        const struct device_transfer store = {
            .nvme_address = i % 2 * PIECE, .bytes = PIECE, .checksum = &checksum};
        struct device_transfer load = store;
        load.host_address = PIECE;
        device_cuda.write(device, DEVICE_HOST_POOL, 0, PIECE, sent);
        after.queue[MOVER_HOST] = device_cuda.join_on_host(device, &nothing);
        after.queue[MOVER_NVME_WRITE] = device_cuda.transfer(device, MOVER_NVME_WRITE, &store,
                                                             &after);
        after.queue[MOVER_NVME_READ] = device_cuda.transfer(device, MOVER_NVME_READ, &load, &after);
        after.queue[MOVER_H2D] = device_cuda.copy(device, MOVER_H2D, 0, PIECE, PIECE, &after);
        after.queue[MOVER_D2H] = device_cuda.copy(device, MOVER_D2H, 0, 2 * PIECE, PIECE, &after);
        device_cuda.wait(device, &after);
        device_cuda.read(device, DEVICE_HOST_POOL, 2 * PIECE, PIECE, received);
        g_assert_true(memcmp(sent, received, PIECE) == 0);
    }
    struct device_traffic traffic = device_cuda.traffic(device);
    g_assert_cmpuint(traffic.bytes[MOVER_NVME_READ], ==, PIECES * PIECE);
    g_assert_cmpuint(traffic.copies[MOVER_NVME_WRITE], ==, PIECES);
    close_device(device);
    g_rmdir(folder);
}

/* What comes back from the file otherwise than it went there is an error of the device. */
static void test_damaged_transfer(void)
{
    const struct device_options options = {.arena_bytes = ARENA,
                                           .host_pool_bytes = HOST,
                                           .threads = 1,
                                           .storage = {g_get_tmp_dir(), 4096, 4096, 1}};
    GError *error = NULL;
    struct device *device = device_cuda.open(&options, &error);
    uint64_t checksum = 1;
    const struct device_transfer load = {
        .bytes = 4096, .checksum = &checksum, .subject = "a piece of nothing"};
    g_assert_no_error(error);
    device_cuda.transfer(device, MOVER_NVME_READ, &load, &nothing);
    device_cuda.drain(device);
    g_assert_false(device_cuda.check(device, &error));
    g_assert_error(error, DEVICE_ERROR, DEVICE_ERROR_WORK);
    g_assert_nonnull(strstr(error->message, "damaged: a piece of nothing"));
    g_clear_error(&error);
    device_cuda.close(device);
    fake_cuda_check_all_freed();
}

/* Whichever call fails, opening and working end, nothing leaks, and the error names the call. */
static void test_failures(void)
{
    const struct device_options options = {.arena_bytes = 1 << 20, .host_pool_bytes = 1 << 20};
    uint32_t opened = 0;
    for (uint64_t nth = 1; opened < 8; nth += nth < 40 ? 1 : 97) {
        GError *error = NULL;
        fake_cuda_fail(nth, cudaErrorIllegalAddress);
        struct device *device = device_cuda.open(&options, &error);
        if (device) {
            struct mover_after after = nothing;
            for (int i = 0; i < 200; i++) {
                after.queue[MOVER_H2D] = device_cuda.copy(device, MOVER_H2D, 0, 0, 64, &after);
                after.queue[MOVER_HOST] = device_cuda.join_on_host(device, &after);
                after.queue[MOVER_COMPUTE] = device_cuda.move(device, 64, 0, 64, &after);
            }
            device_cuda.wait(device, &after);
            device_cuda.check(device, &error);
            device_cuda.close(device);
            opened++;
        }
        g_assert_nonnull(error);
        g_assert_nonnull(strstr(error->message, "made to fail"));
        g_clear_error(&error);
        fake_cuda_fail(0, cudaSuccess);
        fake_cuda_check_all_freed();
    }
}

/* A request beyond the memory is refused, because the kernel would kill a process that touches
 * it. */
static void test_more_than_there_is(void)
{
    const struct device_options options = {
        .arena_bytes = ARENA, .host_pool_bytes = available_bytes() + (UINT64_C(1) << 36)};
    GError *error = NULL;
    g_assert_null(device_cuda.open(&options, &error));
    g_assert_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY);
    g_assert_nonnull(strstr(error->message, "available"));
    g_clear_error(&error);
    fake_cuda_check_all_freed();
}

/* The probe measures figures of this machine, so only which figures there are is known. */
static void test_probe(void)
{
    g_autofree char *folder = g_dir_make_tmp("pstar-probe-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "machine.json", NULL);
    GError *error = NULL;
    fake_cuda_delay(0);
    const struct probe_request request = {.device = &device_cuda, .path = path};
    int elsewhere;
    g_assert_true(probe_run(&request, &elsewhere, &error));
    g_assert_no_error(error);
    fake_cuda_delay(DELAY);
    fake_cuda_check_all_freed();
    struct platform *platform = platform_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(platform->name, ==, "no GPU");
    g_assert_cmpuint(platform->h2d.count, ==, 6);
    g_assert_cmpuint(platform->extra[PLATFORM_D2H_BOTH].count, ==, 6);
    g_assert_cmpuint(platform->extra[PLATFORM_D2H_BESIDE].count, ==, 6);
    g_assert_cmpuint(platform->compute[MODEL_FP32].count, >=, 1);
    g_assert_cmpuint(platform->compute[MODEL_BF16].count, >=, 1);
    g_assert_cmpfloat(platform->framework.attention, >, 0);
    g_assert_cmpfloat(platform->framework.attention, <=, 1);
    g_assert_null(platform->threads.source);
    platform_free(platform);
    g_remove(path);
    g_rmdir(folder);
}

static const struct trial_job jobs[] = {
    {MODEL_FP32, 1, true, 0, 1, NULL, false, NULL},
    {MODEL_BF16, 1, true, 0.2, 1, NULL, false, NULL},
    {MODEL_BF16, 2, false, 0.2, 1, NULL, false, NULL},
    {MODEL_BF16, 1, true, 0.2, 0, NULL, false, NULL},
    {MODEL_BF16, 1, false, 0.2, 1, &family_llama, false, NULL},
    {MODEL_FP32, 1, true, 0, 1, &family_mistral, false, NULL},
    {MODEL_BF16, 2, true, 0, 1, &family_qwen2, false, NULL},
    {MODEL_BF16, 1, false, 0, 0, &family_qwen3, false, NULL},
    {MODEL_FP32, 1, true, 0, 1, &family_smollm3, false, NULL},
    {MODEL_BF16, 1, true, 0, 1, &family_gemma, false, NULL},
    {MODEL_BF16, 2, false, 0.2, 1, &family_phi3, false, NULL},
    {MODEL_FP32, 1, true, 0, 1, &family_olmo2, false, NULL},
    {MODEL_FP32, 2, true, 0, 0, &family_gemma2, false, NULL},
    {MODEL_BF16, 1, false, 0, 1, &family_llama, false, "lora:8"},
    {MODEL_FP32, 2, true, 0.2, 1, NULL, false, "lora:4"},
    {MODEL_BF16, 1, false, 0.2, 1, NULL, false, "*.bias,h.1.*"},
    {MODEL_FP32, 1, false, 0, 0, &family_qwen3, false, "lm_head.*,*.gate_proj.*"},
    {MODEL_BF16, 1, false, 0.2, 1, &family_phi, false, NULL},
};

/* Law 3, and the plan's own figures, hold whatever runs late. */
static void test_training(gconstpointer data)
{
    enum { TRIALS = 2 };
    const struct trial_job *job = data;
    const guint32 seed[] = {(guint32)g_test_rand_int(), (guint32)(job - jobs)};
    GRand *random = g_rand_new_with_seed_array(seed, G_N_ELEMENTS(seed));
    struct trial_placement resident = trial_resident();
    struct trial_result expected = trial_run(job, &resident);
    for (int i = 0; i <= TRIALS; i++) {
        struct trial_placement placement = i == TRIALS ? resident : trial_draw(random);
        placement.device = &device_cuda;
        placement.link_rate = 0;
        placement.evaluate_at = TRIAL_STEPS;
        g_autofree char *name = trial_describe(job, &placement);
        g_test_message("%s", name);
        struct trial_result result = trial_run(job, &placement);
        g_assert_cmpmem(expected.loss, sizeof expected.loss, result.loss, sizeof result.loss);
        g_assert_cmpmem(expected.gradient_norm, sizeof expected.gradient_norm, result.gradient_norm,
                        sizeof result.gradient_norm);
        g_assert_cmpstr(expected.weights, ==, result.weights);
        g_free(result.weights);
        fake_cuda_check_all_freed();
    }
    g_free(expected.weights);
    g_rand_free(random);
}

/* All states live in NVMe, and a step ends when the last is written there: the next one's first
 * operator, on the device, waits for that. */
static void test_zero_infinity(void)
{
    const struct trial_job *job = &jobs[1];
    struct trial_placement placement = trial_resident();
    struct trial_result expected = trial_run(job, &placement);
    placement.device = &device_cuda;
    placement.strategy = "zero-infinity:2";
    placement.chunk_bytes = 16 << 10;
    struct trial_result result = trial_run(job, &placement);
    g_assert_cmpmem(expected.loss, sizeof expected.loss, result.loss, sizeof result.loss);
    g_assert_cmpstr(expected.weights, ==, result.weights);
    g_free(expected.weights);
    g_free(result.weights);
    fake_cuda_check_all_freed();
}

/* Where nothing moves, the updates of a step are queued together, in two parts at most: an event
 * that stands behind each 64th piece of work may lie between them. */
static void test_updates_together(void)
{
    struct trial_placement placement = trial_resident();
    placement.device = &device_cuda;
    uint64_t before = fake_operators_flushes();
    struct trial_result result = trial_run(&jobs[0], &placement);
    uint64_t flushes = fake_operators_flushes() - before;
    g_assert_cmpuint(flushes, >=, TRIAL_STEPS);
    g_assert_cmpuint(flushes, <=, 2 * TRIAL_STEPS);
    g_free(result.weights);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    fake_cuda_delay(DELAY);
    g_test_add_func("/cuda-device/round-trips", test_round_trips);
    g_test_add_func("/cuda-device/waits-once", test_waits_once);
    g_test_add_func("/cuda-device/events", test_events);
    g_test_add_func("/cuda-device/events/few", test_few_events);
    g_test_add_func("/cuda-device/stalls", test_stalls);
    g_test_add_func("/cuda-device/late-host", test_late_host);
    g_test_add_func("/cuda-device/first-kernel", test_first_kernel);
    g_test_add_func("/cuda-device/moves", test_moves);
    g_test_add_func("/cuda-device/before-queues", test_before_queues);
    g_test_add_func("/cuda-device/send", test_send);
    g_test_add_func("/cuda-device/transfers", test_transfers);
    g_test_add_func("/cuda-device/transfers/damaged", test_damaged_transfer);
    g_test_add_func("/cuda-device/failures", test_failures);
    g_test_add_func("/cuda-device/more-than-there-is", test_more_than_there_is);
    draws_test(1, UNLESS_SANITIZED(4, 1), "/cuda-device/probe", test_probe);
    g_test_add_func("/cuda-device/updates-together", test_updates_together);
    g_test_add_func("/cuda-device/zero-infinity", test_zero_infinity);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        if (!draws_row(5, G_N_ELEMENTS(jobs)))
            continue;
        g_autofree char *path = g_strdup_printf("/cuda-device/training/%zu", i);
        g_test_add_data_func(path, &jobs[i], test_training);
    }
    return g_test_run();
}
