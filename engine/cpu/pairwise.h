/* The order of sums that every device keeps: pairs far apart first, as a GPU adds them at once. */
#ifndef PSTAR_ENGINE_CPU_PAIRWISE_H
#define PSTAR_ENGINE_CPU_PAIRWISE_H

/* The sum of `count` values, a power of two: pairs count / 2, ..., 2, 1 apart. They are
 * overwritten.
 */
static inline double pairwise_sum(unsigned count, double *values)
{
    for (unsigned apart = count / 2; apart > 0; apart /= 2)
        for (unsigned i = 0; i < apart; i++)
            values[i] += values[i + apart];
    return values[0];
}

#endif
