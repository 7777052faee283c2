/* The probe's measurements, one function a subject. Each opens what it needs and leaves nothing
 * behind but points; DEVICE_ERROR_MEMORY where the machine has not the memory. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_STEPS_H
#define PSTAR_ENGINE_PROBE_PROBE_STEPS_H

#include "engine/device.h"
#include "platforms/platform.h"

/* A link so fast that memory is what limits its copies; compute and copies keep to their own cores,
 * as they do with --link. */
#define PROBE_FASTEST_LINK 1e15

/* Copies by size: each direction alone, both at once, beside matrix products, and moves. */
bool probe_copies(const struct device_ops *ops, struct platform *platform, GError **error);

/* Matrix products and traffic of memory of the CPU device, on all cores and on those that --link
 * leaves to compute. */
bool probe_compute(const struct device_ops *ops, struct platform *platform, GError **error);

/* The same through a device's queue. */
bool probe_operators(const struct device_ops *ops, struct platform *platform, GError **error);

/* AdamW on the host, by elements and by threads. */
bool probe_updates(const struct device_ops *ops, struct platform *platform, GError **error);

/* Of the CPU device: what waiting and waking threads cost, and the engine's work between two
 * operators. */
bool probe_threads(const struct device_ops *ops, struct platform *platform, GError **error);

/* Of the CPU device: how much slower operators are beside copies and beside the host's operators.
 */
bool probe_neighbours(const struct device_ops *ops, struct platform *platform, GError **error);

/* Seconds of a clock that only goes forward. */
double probe_now(void);

typedef void probe_work(void *data);

/* The median of repeated runs after one that is not counted: at least 5, and until 0.1 s are
 * spent. */
double probe_seconds(probe_work *work, void *data);

double probe_median(double *values, uint32_t count); /* sorts them */

/* Appends a point; amounts ascend. */
void probe_add(struct platform_curve *curve, double amount, double seconds);
/* `curve` says how its points were had; takes `source`. */
void probe_source(struct platform_curve *curve, char *source);

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
