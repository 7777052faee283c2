# The CUDA device's kernels. Only explicit fused multiply-adds, so that results have the CPU's bits.
# nvcc does not know some formats that glib.h declares (1217).
if(CMAKE_CUDA_COMPILER)
  pstar_library(cuda_operators
    cuda/choices.c cuda/linear.c cuda/operators.c
    cuda/attention.cu cuda/attention_fp32.cu cuda/attention_half_backward.cu cuda/attention_half_forward.cu cuda/columns.cu
    cuda/elementwise.cu cuda/embedding.cu cuda/loss.cu cuda/norm.cu cuda/reduction.cu cuda/update.cu
    LINK pstar_engine_operators CUDA::cublasLt CUDA::cudart)
  target_include_directories(pstar_cuda_operators PRIVATE ${CMAKE_CURRENT_LIST_DIR}/cuda/gpu)
  target_compile_options(pstar_cuda_operators PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false -lineinfo -Werror=all-warnings -diag-suppress=1217
                               -Xcompiler=-Wall,-Wextra,-Werror>)
  # The runtime is linked by name; otherwise CMake would link the static one as well.
  set_target_properties(pstar_cuda_operators PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
endif()
