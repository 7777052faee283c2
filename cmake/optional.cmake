# Reports what this build leaves out. Nothing uses MPI and liburing yet: training runs on one rank, and
# host memory is the last tier.
find_package(CUDAToolkit QUIET)
find_package(MPI QUIET COMPONENTS C)
pkg_check_modules(LIBURING QUIET liburing)

function(pstar_left_out part library found)
  if(found)
    message(STATUS "Left out: ${part} (${library} is installed, but no code uses it yet)")
  else()
    message(STATUS "Left out: ${part} (${library} is not installed)")
  endif()
endfunction()

if(PSTAR_CUPTI)
  message(STATUS "CUDA devices are recorded by pstar-collect (CUPTI's headers: ${CUPTI_INCLUDE_DIR})")
else()
  message(STATUS "Left out: recording of CUDA devices in pstar-collect (there are no headers of CUPTI 13)")
endif()
pstar_left_out("several ranks" "MPI" "${MPI_C_FOUND}")
pstar_left_out("the NVMe tier" "liburing" "${LIBURING_FOUND}")
if(NOT GNUPLOT)
  message(STATUS "gnuplot is not installed: pstar-report needs it at run time")
endif()
