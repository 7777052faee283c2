/* The probe's measurements, one function a subject. Each opens what it needs and leaves only points
 * behind. Fails (DEVICE_ERROR_MEMORY) if the machine has too little memory. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_STEPS_H
#define PSTAR_ENGINE_PROBE_PROBE_STEPS_H

#include "engine/adamw.h"
#include "engine/device.h"
#include "engine/ranks.h"
#include "platforms/platform.h"

/* A link so fast that only memory limits its copies. Compute and copies keep to their own cores, as
 * with --link. */
#define PROBE_FASTEST_LINK 1e15

/* Measures copies by size: each direction alone, both at once, beside matrix products, and moves.
 */
bool probe_copies(const struct device_ops *ops, struct platform *platform, GError **error);

/* Measures matrix products and memory traffic of the CPU device, on all cores and on those that
 * --link leaves to compute. */
bool probe_compute(const struct device_ops *ops, struct platform *platform, GError **error);

/* Measures matrix products, memory traffic and attention through a device's queue. */
bool probe_operators(const struct device_ops *ops, struct platform *platform, GError **error);

/* Measures which share of the rate of matrix products attention reaches in bf16, and sets the
 * platform's `framework`. The device's arena has probe_product_bytes of the largest product in
 * fp32; its values in bf16 are operands. The platform has its rates of products and memory. */
void probe_attention(struct device *device, struct platform *platform);

/* Measures AdamW on the host, by elements and by threads. */
bool probe_updates(const struct device_ops *ops, struct platform *platform, GError **error);

/* Of memory that AdamW in fp32 moves for an element: it reads the gradient, and reads and writes
 * parameter and both moments. */
enum { PROBE_UPDATE_BYTES = 28 };
/* Returns the step of AdamW that is measured. */
struct adamw_step probe_update_step(void);

/* Measures the bytes a second of the host's memory that AdamW on the host and a GPU's copies in
 * both directions get together, and sets the platform's `host`. The platform has its rates of
 * copies in both directions. */
bool probe_host_memory(const struct device_ops *ops, struct platform *platform, GError **error);

/* Measures for the CPU device what waiting and waking threads cost, and the engine's work between
 * two operators. */
bool probe_threads(const struct device_ops *ops, struct platform *platform, GError **error);

/* Measures for the CPU device how much slower operators are beside copies and beside the host's
 * operators. */
bool probe_neighbours(const struct device_ops *ops, struct platform *platform, GError **error);

/* Measures reading and writing a file in the folder, by the bytes of a call and the calls that are
 * under way. Takes 128 MiB there and 128 MiB of memory. Fails with STORAGE_ERROR_OPEN, or with
 * another error that is marked (base/failure.h). */
bool probe_disk(const char *folder, struct platform *platform, GError **error);

/* Measures the engine's collectives by size, between the ranks of this host, if there are several,
 * while other hosts do the same. All ranks call it and get the same points on a host. */
void probe_node(struct ranks *ranks, struct platform *platform);

/* Measures the engine's collectives by size, between all ranks, if they are on several hosts. */
void probe_network(struct ranks *ranks, struct platform *platform);

/* Says what the ranks of this host have of its memory, if there are several. The curves were
 * measured by all of them at the same time, each on its cores. */
void probe_shared_host(const struct ranks *ranks, struct platform *platform);

/* Returns the seconds of a clock that only goes forward. */
double probe_now(void);

typedef void probe_work(void *data);

/* Returns the median of repeated runs, after one that is not counted: at least 5 runs, for at least
 * 0.1 s. */
double probe_seconds(probe_work *work, void *data);

double probe_median(double *values, uint32_t count); /* sorts the values */

/* Appends a point; amounts ascend. */
void probe_add(struct platform_curve *curve, double amount, double seconds);
/* Sets how the curve's points were measured. Takes `source`. */
void probe_source(struct platform_curve *curve, char *source);

struct probe_product {
    struct device *device;
    struct model_config config;
    struct model_job job;
    struct model_operator op;
    struct operation operation;
    double seconds; /* of one product, as last measured; 0 if not yet measured */
};

/* Prepares a product [rows, inputs] x [inputs, outputs] of the values that lie in the arena from
 * its start, the operands one after the other at multiples of 256 bytes. At most
 * probe_product_bytes are touched. `device` may be NULL if the caller runs `operation` itself.
 * `product` must not move. */
void probe_product_init(struct probe_product *product, struct device *device,
                        enum model_precision precision, uint32_t rows, uint32_t inputs,
                        uint32_t outputs);
uint64_t probe_product_bytes(enum model_precision precision, uint32_t rows, uint32_t inputs,
                             uint32_t outputs);

/* Returns the seconds that one product takes. Queues enough of them that waiting for the last takes
 * little of the time. */
double probe_product_measure(struct probe_product *product);

/* Queues products that keep the device busy for that many seconds. */
void probe_product_queue(struct probe_product *product, double seconds);

#endif
