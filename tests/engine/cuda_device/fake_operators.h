/* The operators of fake_operators.c, in the place of engine/cuda/operators.c. */
#ifndef PSTAR_TESTS_FAKE_OPERATORS_H
#define PSTAR_TESTS_FAKE_OPERATORS_H

#include "engine/cuda/operators.h"

/* Device memory that their libraries take at the first operator, not before. */
enum { FAKE_OPERATORS_BYTES = 3 << 20 };

#endif
