/* What a copy costs: the curves of the two directions of the link and of the device's memory. */
#ifndef PSTAR_SIM_COSTS_H
#define PSTAR_SIM_COSTS_H

#include "platforms/platform.h"

/* Where neither a platform nor a link is given: the CPU device, copying at the speed of memory. One
 * core of a recent server copies about 8 GB/s, and reads as much as it writes. */
#define COSTS_DEFAULT_COPY_RATE   8e9  /* bytes a second, each direction */
#define COSTS_DEFAULT_MEMORY_RATE 16e9 /* bytes a second, read and written */

struct costs {
    struct platform_curve h2d, d2h; /* by bytes copied */
    struct platform_curve memory;   /* by bytes read and written within the device */
};

enum costs_error { COSTS_ERROR_INVALID };
#define COSTS_ERROR costs_error_quark()
GQuark costs_error_quark(void);

/* The platform's curves (`platform` may be NULL: the defaults above; it may be freed afterwards),
 * with the directions that `link` names replaced by a plain rate: "h2d=12GB/s,d2h=12GB/s", either
 * or both; NULL: none. Fails on a link that does not read so. */
struct costs *costs_new(const struct platform *platform, const char *link, GError **error);

/* The same with the platform's file; `platform_path` NULL: none. Errors of platform_read too. */
struct costs *costs_read(const char *platform_path, const char *link, GError **error);
void costs_free(struct costs *costs);

/* Whole nanoseconds for an amount. */
uint64_t costs_ns(const struct platform_curve *curve, uint64_t amount);

#endif
