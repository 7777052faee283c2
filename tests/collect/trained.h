/* What the program that uses a device and the tests that trace it agree on. */
#ifndef PSTAR_TESTS_COLLECT_TRAINED_H
#define PSTAR_TESTS_COLLECT_TRAINED_H

enum {
    TRAINED_LAYERS = 6,
    TRAINED_PARAMETER_BYTES = 1 << 20, /* of a layer, as many again of its gradient */
    TRAINED_ACTIVATION_BYTES = 1 << 18,
    TRAINED_INPUT_BYTES = 1 << 12, /* of pinned memory on the host, too */
    /* A step: two kernels a layer in forward, three in backward, one in the update, and one that
     * computes the loss. */
    TRAINED_KERNELS = 6 * TRAINED_LAYERS + 1,
    /* Gradients accumulated: each but the first also adds to them, a layer. */
    TRAINED_MICRO_BATCHES = 5,
    TRAINED_ACCUMULATED_KERNELS = TRAINED_MICRO_BATCHES * (5 * TRAINED_LAYERS + 1) +
                                  (TRAINED_MICRO_BATCHES - 1) * TRAINED_LAYERS + TRAINED_LAYERS
};

#define TRAINED_MODEL_BYTES (2 * TRAINED_LAYERS * TRAINED_PARAMETER_BYTES)
/* All activations live at the end of forward, with the input and the loss. */
#define TRAINED_PEAK_BYTES \
    (TRAINED_MODEL_BYTES + (TRAINED_LAYERS + 1) * TRAINED_ACTIVATION_BYTES + TRAINED_INPUT_BYTES)

#endif
