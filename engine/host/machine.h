/* What this machine is, and how much of its memory a program may take. */
#ifndef PSTAR_ENGINE_HOST_MACHINE_H
#define PSTAR_ENGINE_HOST_MACHINE_H

#include <stdint.h>

/* What the system would give without swapping, and what is left to a container in all. Who touches
 * more is not refused: the kernel kills someone. UINT64_MAX where nothing says. */
uint64_t available_bytes(void);

/* "CPU, 2 cores, AMD EPYC 7543P"; free with g_free. *bytes: what may be called the device's memory,
 * half of the machine's. */
char *cpu_describe(uint64_t *bytes);

#endif
