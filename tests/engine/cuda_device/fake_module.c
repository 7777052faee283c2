/* libpstar-cuda.so over the runtime that needs no GPU, for programs that load a device. */
#include "engine/cuda/device.h"
#include "engine/devices.h"
#include "fake_cuda.h"

enum { DELAY = 200 };

static struct device_ops ops; /* the device's own, but for what follows */

/* A product that a GPU computes in milliseconds would take minutes. */
static double no_peak(struct device *device, enum model_precision precision)
{
    (void)device, (void)precision;
    return 0;
}

static struct device *open_device(const struct device_options *options, GError **error)
{
    struct device *device = device_cuda.open(options, error);
    if (device)
        device->ops = &ops;
    return device;
}

__attribute__((visibility("default"))) const struct device_ops *pstar_device(void);

const struct device_ops *pstar_device(void)
{
    fake_cuda_delay(DELAY);
    ops = device_cuda;
    ops.open = open_device;
    ops.peak_flops = no_peak;
    return &ops;
}
