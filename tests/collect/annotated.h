/* Shared by the annotated program and the test that traces it. */
#ifndef PSTAR_TESTS_COLLECT_ANNOTATED_H
#define PSTAR_TESTS_COLLECT_ANNOTATED_H

#include <stdint.h>

enum { ANNOTATED_OPERATORS = 30, SPIN_NS = 100000 };

static inline uint64_t annotated_duration_ns(uint32_t moment)
{
    return SPIN_NS * (uint64_t)(1 + moment % 3);
}

#endif
