#include "engine/cpu/simd/simd.h"

extern const struct cpu_simd cpu_simd_generic;

#ifdef PSTAR_X86_SIMD

extern const struct cpu_simd cpu_simd_avx2, cpu_simd_avx512;

const struct cpu_simd *const *cpu_simd_list(void)
{
    static const struct cpu_simd *const all[] = {&cpu_simd_avx512, &cpu_simd_avx2,
                                                 &cpu_simd_generic, NULL};
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return all;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
        return all + 1;
    return all + 2;
}

#elif defined(PSTAR_ARM_SIMD)

extern const struct cpu_simd cpu_simd_neon;

const struct cpu_simd *const *cpu_simd_list(void)
{
    static const struct cpu_simd *const all[] = {&cpu_simd_neon, &cpu_simd_generic, NULL};
    return all;
}

#else

const struct cpu_simd *const *cpu_simd_list(void)
{
    static const struct cpu_simd *const all[] = {&cpu_simd_generic, NULL};
    return all;
}

#endif
