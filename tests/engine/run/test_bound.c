/* Copies and operators of the host are bound to their moments: they begin when the device has done
 * what it was asked for before, as the simulator's clock assumes. A device that queues its work
 * would otherwise begin them long before. */
#include "trial.h"

enum { TRIALS = 24 };

/* A CPU device that notes what its copies and host operators wait for. */
static struct {
    struct device_ops ops;
    mover_ticket computed; /* the last operator or move on the device */
    uint64_t copies, host_operators;
} noting;

static struct device *open_noting(const struct device_options *options, GError **error)
{
    struct device *device = device_cpu.open(options, error);
    noting.computed = 0;
    if (device)
        device->ops = &noting.ops;
    return device;
}

static mover_ticket note_compute(struct device *device, const struct operation *operation,
                                 const struct mover_after *after)
{
    return noting.computed = device_cpu.compute(device, operation, after);
}

static mover_ticket note_move(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                              const struct mover_after *after)
{
    return noting.computed = device_cpu.move(device, to, from, bytes, after);
}

static mover_ticket note_copy(struct device *device, enum mover_queue queue,
                              uint64_t device_address, uint64_t host_address, uint64_t bytes,
                              const struct mover_after *after)
{
    g_assert_cmpuint(after->queue[MOVER_COMPUTE], >=, noting.computed);
    noting.copies++;
    return device_cpu.copy(device, queue, device_address, host_address, bytes, after);
}

static mover_ticket note_host_operator(struct device *device, const struct operation *operation,
                                       const struct mover_after *after)
{
    g_assert_cmpuint(after->queue[MOVER_COMPUTE], >=, noting.computed);
    noting.host_operators++;
    return device_cpu.compute_on_host(device, operation, after);
}

static void test_bound(void)
{
    const struct trial_job job = {.precision = MODEL_BF16, .micro_batches = 2, .clip = 1};
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    noting.ops = device_cpu;
    noting.ops.open = open_noting;
    noting.ops.compute = note_compute;
    noting.ops.move = note_move;
    noting.ops.copy = note_copy;
    noting.ops.compute_on_host = note_host_operator;
    for (int i = 0; i < TRIALS; i++) {
        struct trial_placement placement = trial_draw(random);
        g_autofree char *name = trial_describe(&job, &placement);
        g_test_message("%s", name);
        placement.device = &noting.ops;
        struct trial_result result = trial_run(&job, &placement);
        g_free(result.weights);
    }
    g_assert_cmpuint(noting.copies, >, 0);
    g_assert_cmpuint(noting.host_operators, >, 0);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/bound/copies-and-host-operators", test_bound);
    return g_test_run();
}
