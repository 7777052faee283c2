# What this build could have and has not. Nothing uses MPI and liburing yet: training is on one rank,
# with host memory as the last tier.
find_package(CUDAToolkit QUIET)
find_package(MPI QUIET COMPONENTS C)
pkg_check_modules(LIBURING QUIET liburing)

function(pstar_left_out part library found)
  if(found)
    message(STATUS "Left out: ${part} (${library} is here; no code uses it yet)")
  else()
    message(STATUS "Left out: ${part} (no ${library} here)")
  endif()
endfunction()

if(PSTAR_CUPTI)
  message(STATUS "CUDA devices are recorded by pstar-collect (CUPTI's headers: ${CUPTI_INCLUDE_DIR})")
else()
  message(STATUS "Left out: what CUDA devices do, in pstar-collect (no headers of CUPTI 13 here)")
endif()
pstar_left_out("several ranks" "MPI" "${MPI_C_FOUND}")
pstar_left_out("the NVMe tier" "liburing" "${LIBURING_FOUND}")
if(NOT GNUPLOT)
  message(STATUS "No gnuplot here: pstar-report needs it when it runs")
endif()
