/* The operators of fake_operators.c, which replace engine/cuda/operators.c. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_DEVICE_FAKE_OPERATORS_H
#define PSTAR_TESTS_ENGINE_CUDA_DEVICE_FAKE_OPERATORS_H

#include "engine/cuda/operators.h"

/* Device memory that the libraries take at the first operator, and not before. */
enum { FAKE_OPERATORS_BYTES = 3 << 20 };

/* Returns how often updates that had waited for each other were queued together. */
uint64_t fake_operators_flushes(void);

#endif
