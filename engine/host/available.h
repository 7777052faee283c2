/* How much of the machine's memory a program may take. */
#ifndef PSTAR_ENGINE_HOST_AVAILABLE_H
#define PSTAR_ENGINE_HOST_AVAILABLE_H

#include <stdint.h>

/* What the system would give without swapping, and what is left to a container in all. Who touches
 * more is not refused: the kernel kills someone. UINT64_MAX where nothing says. */
uint64_t available_bytes(void);

#endif
