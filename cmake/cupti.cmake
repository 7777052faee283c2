# Finds CUPTI's headers in the CUDA toolkit or in the wheels nvidia-cuda-cupti and nvidia-cuda-runtime.
# The library is never linked; it is loaded when a traced program runs.
find_path(CUPTI_INCLUDE_DIR cupti_activity.h
  PATHS /usr/local/cuda/extras/CUPTI /usr/local/cuda ENV CUDA_HOME PATH_SUFFIXES include)
find_path(CUDA_INCLUDE_DIR cuda.h PATHS /usr/local/cuda ENV CUDA_HOME PATH_SUFFIXES include)

# Records grow from version to version. This is the newest kernel record that the collector reads.
if(CUPTI_INCLUDE_DIR AND CUDA_INCLUDE_DIR)
  include(CheckTypeSize)
  set(CMAKE_REQUIRED_INCLUDES ${CUPTI_INCLUDE_DIR} ${CUDA_INCLUDE_DIR})
  set(CMAKE_EXTRA_INCLUDE_FILES cupti_activity.h)
  check_type_size(CUpti_ActivityKernel10 CUPTI_KERNEL_BYTES)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_EXTRA_INCLUDE_FILES)
endif()

if(HAVE_CUPTI_KERNEL_BYTES)
  set(PSTAR_CUPTI ON)
  add_library(cupti_headers INTERFACE)
  target_include_directories(cupti_headers SYSTEM INTERFACE ${CUPTI_INCLUDE_DIR} ${CUDA_INCLUDE_DIR})
endif()
