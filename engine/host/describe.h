/* What this machine is, as a device: for the files that say where figures come from. */
#ifndef PSTAR_ENGINE_HOST_DESCRIBE_H
#define PSTAR_ENGINE_HOST_DESCRIBE_H

#include <stdint.h>

/* "CPU, 2 cores, AMD EPYC 7543P"; free with g_free. *bytes: what may be called the device's memory,
 * half of the machine's. */
char *cpu_describe(uint64_t *bytes);

#endif
