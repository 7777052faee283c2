# The kernels of the CUDA device need CUDA's compiler. C++ is used for them and for the tests that run
# them on the host. Everything else is C.
include(CheckLanguage)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS OFF)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()

# Machine code for the A100 and the H100, and code that the drivers of later GPUs compile. Sanitizers
# look at code of the host alone, so the tests with them compile for one GPU.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
if(PSTAR_SANITIZE)
  set(CMAKE_CUDA_ARCHITECTURES 80-real)
endif()
if(CUDAToolkit_FOUND)
  if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
  endif()
endif()

if(CMAKE_CUDA_COMPILER)
  message(STATUS "pstar-run --device cuda is built (nvcc: ${CMAKE_CUDA_COMPILER})")
else()
  message(STATUS "Left out: the CUDA device (there is no CUDA compiler)")
endif()
