/* A matrix product on a device, as the engine would queue it. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_PRODUCT_H
#define PSTAR_ENGINE_PROBE_PROBE_PRODUCT_H

#include "engine/device.h"

struct probe_product {
    struct device *device;
    struct model_config config;
    struct model_job job;
    struct model_operator op;
    struct operation operation;
    double seconds; /* of one, as last measured; 0: not yet */
};

/* [rows, inputs] x [inputs, outputs], of whatever lies in the arena from its start, the operands
 * one after the other at multiples of 256 bytes; at most probe_product_bytes are touched. `device`
 * may be NULL for who runs `operation` itself. It must not move. */
void probe_product_init(struct probe_product *product, struct device *device,
                        enum model_precision precision, uint32_t rows, uint32_t inputs,
                        uint32_t outputs);
uint64_t probe_product_bytes(enum model_precision precision, uint32_t rows, uint32_t inputs,
                             uint32_t outputs);

/* Seconds that one takes: enough of them are queued that waiting for the last is little. */
double probe_product_measure(struct probe_product *product);

/* Queues as many as keep the device busy for so long. */
void probe_product_queue(struct probe_product *product, double seconds);

#endif
