/* Shared by the annotated program that uses a device and the test that traces it. */
#ifndef PSTAR_TESTS_COLLECT_QUEUED_H
#define PSTAR_TESTS_COLLECT_QUEUED_H

#include <stdint.h>

/* The fake driver checks every 50 us whether a kernel is done, so a waiting host takes longer. */
enum {
    QUEUED_OPERATORS = 30,
    QUEUED_MICROSECONDS = 10,
    QUEUED_LONG_MICROSECONDS = 2000,
    QUEUED_SLOWER = 300,
    QUEUED_GATHERED_BYTES = 1000 /* by the first gather of a step; one more by each later one */
};

enum queued_kind { QUEUED_WAITED, QUEUED_LEFT, QUEUED_ON_HOST, QUEUED_KINDS };

static inline enum queued_kind queued_kind(uint32_t moment)
{
    return (enum queued_kind)(moment % QUEUED_KINDS);
}

#endif
