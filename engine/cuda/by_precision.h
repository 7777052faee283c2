/* Calls a function template for the precision's element. */
#ifndef PSTAR_ENGINE_CUDA_BY_PRECISION_H
#define PSTAR_ENGINE_CUDA_BY_PRECISION_H

#define BY_PRECISION(precision, function, ...) \
    ((precision) == MODEL_BF16 ? function<uint16_t>(__VA_ARGS__) : function<float>(__VA_ARGS__))

#endif
