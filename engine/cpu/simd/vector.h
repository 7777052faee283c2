/* A vector register of fp32, of the extension that this compilation is for. */
#ifndef PSTAR_ENGINE_CPU_SIMD_VECTOR_H
#define PSTAR_ENGINE_CPU_SIMD_VECTOR_H

#if defined(__AVX512F__)

#include <immintrin.h>
enum { VECTOR_LANES = 16, PRODUCT_ROWS = 8 };
typedef __m512 vector;
#define vector_load(from)   _mm512_loadu_ps(from)
#define vector_store(to, v) _mm512_storeu_ps(to, v)
#define vector_set(value)   _mm512_set1_ps(value)
#define vector_fma(a, b, c) _mm512_fmadd_ps(a, b, c)

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
enum { VECTOR_LANES = 8, PRODUCT_ROWS = 6 };
typedef __m256 vector;
#define vector_load(from)   _mm256_loadu_ps(from)
#define vector_store(to, v) _mm256_storeu_ps(to, v)
#define vector_set(value)   _mm256_set1_ps(value)
#define vector_fma(a, b, c) _mm256_fmadd_ps(a, b, c)

#else

#include <math.h>
enum { VECTOR_LANES = 1, PRODUCT_ROWS = 4 };
typedef float vector;
#define vector_load(from)   (*(from))
#define vector_store(to, v) (*(to) = (v))
#define vector_set(value)   (value)
#define vector_fma(a, b, c) fmaf(a, b, c)

#endif

#endif
