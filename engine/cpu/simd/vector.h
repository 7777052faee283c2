/* Vector registers of the extension that this compilation is for: of fp32, and of 64-bit words of
 * which a product takes the lower halves. */
#ifndef PSTAR_ENGINE_CPU_SIMD_VECTOR_H
#define PSTAR_ENGINE_CPU_SIMD_VECTOR_H

#include <stdint.h>

#if defined(__AVX512F__)

#include <immintrin.h>
enum { VECTOR_LANES = 16, PRODUCT_ROWS = 8 };
typedef __m512 vector;
#define vector_load(from)   _mm512_loadu_ps(from)
#define vector_store(to, v) _mm512_storeu_ps(to, v)
#define vector_set(value)   _mm512_set1_ps(value)
#define vector_fma(a, b, c) _mm512_fmadd_ps(a, b, c)

typedef uint64_t words __attribute__((vector_size(64)));
#define words_product(a, b) ((words)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
enum { VECTOR_LANES = 8, PRODUCT_ROWS = 6 };
typedef __m256 vector;
#define vector_load(from)   _mm256_loadu_ps(from)
#define vector_store(to, v) _mm256_storeu_ps(to, v)
#define vector_set(value)   _mm256_set1_ps(value)
#define vector_fma(a, b, c) _mm256_fmadd_ps(a, b, c)

typedef uint64_t words __attribute__((vector_size(32)));
#define words_product(a, b) ((words)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))

#elif defined(__ARM_NEON)

#include <arm_neon.h>
enum { VECTOR_LANES = 4, PRODUCT_ROWS = 8 };
typedef float32x4_t vector;
#define vector_load(from)   vld1q_f32(from)
#define vector_store(to, v) vst1q_f32(to, v)
#define vector_set(value)   vdupq_n_f32(value)
#define vector_fma(a, b, c) vfmaq_f32(c, a, b)

typedef uint64x2_t words;
#define words_product(a, b) vmull_u32(vmovn_u64(a), vmovn_u64(b))

#else

#include <math.h>
enum { VECTOR_LANES = 1, PRODUCT_ROWS = 4 };
typedef float vector;
#define vector_load(from)   (*(from))
#define vector_store(to, v) (*(to) = (v))
#define vector_set(value)   (value)
#define vector_fma(a, b, c) fmaf(a, b, c)

typedef uint64_t words __attribute__((vector_size(8)));
#define words_product(a, b) (((a)&UINT32_MAX) * ((b)&UINT32_MAX))

#endif

enum { WORDS_LANES = sizeof(words) / sizeof(uint64_t) };

#endif
