/* What a job runs on: memories, links, rates, as measured points with their sources. The file's
 * keys are the fields' names; docs/models.md shows one. */
#ifndef PSTAR_PLATFORMS_PLATFORM_H
#define PSTAR_PLATFORMS_PLATFORM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct platform_point {
    double amount; /* bytes of a copy, floating-point operations of an operator, elements updated */
    double seconds;
};

struct platform_curve {
    struct platform_point *points; /* ascending in amount, all above 0; at least one */
    uint32_t count;
    char *source; /* how these points were had; NULL: not said */
};

struct platform {
    char *name;
    char *source; /* where the figures come from, on the whole */
    uint64_t device_bytes, host_bytes;
    struct platform_curve h2d, d2h;    /* copies between pinned host memory and device, by bytes */
    struct platform_curve compute[2];  /* matrix products, by operations: fp32, bf16 */
    struct platform_curve memory;      /* device memory traffic of other operators, by bytes */
    struct platform_curve host_update; /* AdamW on the host, by elements */
};

enum platform_error { PLATFORM_ERROR_INVALID };
#define PLATFORM_ERROR platform_error_quark()
GQuark platform_error_quark(void);

/* Errors name the file, the key and the value. */
struct platform *platform_read(const char *path, GError **error);
bool platform_write(const struct platform *platform, const char *path, GError **error);
void platform_free(struct platform *platform);

/* Seconds for an amount: interpolated between the points, in proportion to the nearest point's rate
 * outside of them. */
double platform_seconds(const struct platform_curve *curve, double amount);

#endif
