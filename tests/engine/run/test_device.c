/* The CPU device behind its vtable: copies, moves, operators here and there, and what it refuses
 * them. */
#include "engine/device.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA = 1 << 20, HOST = 1 << 20, ELEMENTS = 1000 };

static struct device *open_device(double rate)
{
    const struct device_options options = {.arena_bytes = ARENA,
                                           .host_pool_bytes = HOST,
                                           .h2d_rate = rate,
                                           .d2h_rate = rate,
                                           .threads = 1};
    GError *error = NULL;
    struct device *device = device_cpu.open(&options, &error);
    g_assert_no_error(error);
    return device;
}

static const struct mover_after nothing = {.queue = {0}};

/* There, moved, and back again: the bytes and the counts. */
static void test_round_trip(void)
{
    struct device *device = open_device(0);
    uint8_t sent[4096], received[4096];
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (uint8_t)(i * 13);
    device_cpu.write(device, DEVICE_HOST_POOL, 512, sizeof sent, sent);
    struct mover_after after = nothing;
    after.queue[MOVER_H2D] = device_cpu.copy(device, MOVER_H2D, 4096, 512, sizeof sent, &after);
    after.queue[MOVER_COMPUTE] = device_cpu.move(device, 1024, 4096, sizeof sent, &after);
    after.queue[MOVER_D2H] = device_cpu.copy(device, MOVER_D2H, 1024, 100000, sizeof sent, &after);
    device_cpu.wait(device, &after);
    device_cpu.read(device, DEVICE_HOST_POOL, 100000, sizeof received, received);
    g_assert_cmpmem(sent, sizeof sent, received, sizeof received);
    device_cpu.read(device, DEVICE_ARENA, 1024, sizeof received, received);
    g_assert_cmpmem(sent, sizeof sent, received, sizeof received);
    struct device_traffic traffic = device_cpu.traffic(device);
    g_assert_cmpuint(traffic.bytes[MOVER_H2D], ==, sizeof sent);
    g_assert_cmpuint(traffic.copies[MOVER_D2H], ==, 1);
    device_cpu.close(device);
}

/* What waits for a slow link is a stall, as long as the copy takes. */
static void test_stall(void)
{
    struct device *device = open_device(20e6);
    struct mover_after after = nothing;
    after.queue[MOVER_H2D] = device_cpu.copy(device, MOVER_H2D, 0, 0, 1 << 20, &nothing);
    g_assert_cmpfloat(device_cpu.stall_seconds(device), ==, 0);
    device_cpu.move(device, 0, 4096, 4096, &after);
    g_assert_cmpfloat(device_cpu.stall_seconds(device), >, 0.9 * (1 << 20) / 20e6);
    device_cpu.close(device);
}

static const struct model_config config = {.name = "device",
                                           .layers = 1,
                                           .width = 8,
                                           .heads = 1,
                                           .inner = 8,
                                           .positions = 4,
                                           .vocabulary = 8};
static const struct model_job job = {
    .choices = {.batch = 1, .micro_batches = 1}, .sequence = 4, .precision = MODEL_FP32};
static const struct model_operator update = {
    .kind = MODEL_UPDATE, .t = {0, NO_INDEX, NO_INDEX}, .expert = NO_INDEX};

/* The four lists of one tensor, one after the other from `address`. */
static struct operation update_at(uint64_t address)
{
    const struct adamw_options adamw = {
        .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .gradient_scale = 1};
    struct operation operation = {
        .op = &update, .config = &config, .job = &job, .adamw = adamw_step_of(&adamw, 1)};
    const int lists[] = {TRACE_PARAM, TRACE_GRAD, TRACE_EXP_AVG, TRACE_EXP_AVG_SQ};
    for (int list = 0; list < TRACE_LISTS; list++)
        operation.tensor[0].address[list] = NO_ADDRESS;
    for (size_t l = 0; l < G_N_ELEMENTS(lists); l++)
        operation.tensor[0].address[lists[l]] = address + l * 4096;
    operation.tensor[0].gradient = operation.tensor[0].address[TRACE_GRAD];
    operation.tensor[0].elements = ELEMENTS;
    return operation;
}

/* The optimizer gives the same bits on either side. */
static void test_update_on_both_sides(void)
{
    struct device *device = open_device(0);
    float values[4 * 1024], on_device[ELEMENTS], on_host[ELEMENTS];
    for (int i = 0; i < 4 * 1024; i++)
        values[i] = fabsf(sinf((float)i));
    device_cpu.write(device, DEVICE_ARENA, 8192, sizeof values, values);
    device_cpu.write(device, DEVICE_HOST_POOL, 16384, sizeof values, values);
    struct operation here = update_at(8192), there = update_at(16384);
    struct mover_after done = nothing;
    done.queue[MOVER_COMPUTE] = device_cpu.compute(device, &here, &nothing);
    done.queue[MOVER_HOST] = device_cpu.compute_on_host(device, &there, &nothing);
    device_cpu.wait(device, &done);
    device_cpu.read(device, DEVICE_ARENA, 8192, sizeof on_device, on_device);
    device_cpu.read(device, DEVICE_HOST_POOL, 16384, sizeof on_host, on_host);
    g_assert_cmpmem(on_device, sizeof on_device, on_host, sizeof on_host);
    g_assert_cmpfloat(on_device[1], !=, values[1]);
    device_cpu.close(device);
}

/* The signal that ends a child whose operator works at `address`. */
static int signal_of_update(uint64_t address)
{
    pid_t child = fork();
    g_assert_cmpint(child, >=, 0);
    if (child == 0) {
        /* A sanitizer's handler would turn the signal into an exit. */
        signal(SIGSEGV, SIG_DFL);
        struct device *device = open_device(0);
        struct operation operation = update_at(address);
        device_cpu.compute(device, &operation, &nothing);
        _exit(0);
    }
    int status;
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The host pool begins where the arena's address space ends: an operator that is led there, or that
 * runs past the arena, does not come back. */
static void test_operators_cannot_reach_the_host(void)
{
    enum { HUGE_PAGE = 2 << 20 };
    g_assert_cmpint(signal_of_update(0), ==, 0);
    g_assert_cmpint(signal_of_update(HUGE_PAGE), ==, SIGSEGV);
    g_assert_cmpint(signal_of_update(HUGE_PAGE + HOST / 2), ==, SIGSEGV);
    g_assert_cmpint(signal_of_update(ARENA), ==, SIGSEGV);
    g_assert_cmpint(signal_of_update(ARENA - 4096), ==, SIGSEGV);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/device/round-trip", test_round_trip);
    g_test_add_func("/device/stall", test_stall);
    g_test_add_func("/device/update-on-both-sides", test_update_on_both_sides);
    g_test_add_func("/device/operators-cannot-reach-the-host",
                    test_operators_cannot_reach_the_host);
    return g_test_run();
}
