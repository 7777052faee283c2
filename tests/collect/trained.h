/* Shared by the program that uses a device and the tests that trace it. */
#ifndef PSTAR_TESTS_COLLECT_TRAINED_H
#define PSTAR_TESTS_COLLECT_TRAINED_H

#define TRAINED_KILL_FILE "kill"

enum {
    TRAINED_LAYERS = 6,
    TRAINED_PARAMETER_BYTES = 1 << 20, /* per layer; its gradient has the same size */
    TRAINED_ACTIVATION_BYTES = 1 << 18,
    TRAINED_INPUT_BYTES = 1 << 12, /* also the size of the pinned host memory */
    /* Kernels of a step: two per layer in forward, three per layer in backward, one in the update,
       and one for the loss. */
    TRAINED_KERNELS = 6 * TRAINED_LAYERS + 1,
    /* When gradients are accumulated, each micro-batch but the first also adds to them, per layer.
     */
    TRAINED_MICRO_BATCHES = 5,
    TRAINED_ACCUMULATED_KERNELS = TRAINED_MICRO_BATCHES * (5 * TRAINED_LAYERS + 1) +
                                  (TRAINED_MICRO_BATCHES - 1) * TRAINED_LAYERS + TRAINED_LAYERS
};

#define TRAINED_MODEL_BYTES (2 * TRAINED_LAYERS * TRAINED_PARAMETER_BYTES)
/* At the end of forward all activations are live, together with the input and the loss. */
#define TRAINED_PEAK_BYTES \
    (TRAINED_MODEL_BYTES + (TRAINED_LAYERS + 1) * TRAINED_ACTIVATION_BYTES + TRAINED_INPUT_BYTES)

#endif
